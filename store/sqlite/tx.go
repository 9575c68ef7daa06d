package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	lib "modernc.org/sqlite/lib"
)

// inBody marks the context of a transaction's body on a store.
type inBody struct{ store *Store }

// A Tx is a backend bound to one transaction. Its results are provisional: they
// carry a settlement that is not settled until the transaction has committed. A
// refusal leaves the transaction usable. After any other error of a write the
// transaction can't be trusted, so the Tx refuses everything that follows, with
// that error; roll it back. It is safe for concurrent use.
type Tx struct {
	*store.Events
	s       session
	stmts   *statements
	clock   countersign.Clock
	settled *countersign.Settlement

	mu       sync.Mutex
	locked   bool // has the write lock
	done     bool
	broken   error
	appended map[eventlog.Sequence]bool // to be woken after the commit
}

var _ store.Backend = (*Tx)(nil)

// Tx returns the backend bound to a transaction of the caller's, on the database
// that the store works on: requests and the caller's own statements commit
// together, or not at all. The first write takes the write lock; where that
// comes after a read that is outdated by then, it is a [*store.BusyError] at
// once, and the transaction must be repeated as a whole: begin with a write, or
// immediately, to avoid that.
//
// While the transaction is open, write through the Tx only: the store itself
// waits for it, and gives a [*store.BusyError] in the end. That the transaction
// is on the store's own database is not checked.
//
// What the transaction makes durable is the caller's setting (synchronous). Call
// [Tx.Committed] after its Commit has returned nil, and only then: the results'
// AckSafe rests on it. An error of its Commit is the driver's; treat it as an
// unknown outcome. Errors: a nil transaction, or a closed store, is refused at the first
// request.
func (s *Store) Tx(tx *sql.Tx) *Tx {
	t := s.newTx()
	switch {
	case s == nil || s.queue == nil || s.closed.Load():
		t.broken = store.ErrClosed
	case tx == nil:
		t.broken = &countersign.MalformedError{Field: "transaction", Reason: "is nil"}
	case s.readOnly:
		t.broken = &store.ReadOnlyError{}
	default:
		t.s = txSession{tx}
	}
	return t
}

func (s *Store) newTx() *Tx {
	t := &Tx{settled: &countersign.Settlement{}, appended: map[eventlog.Sequence]bool{}}
	if s == nil || s.Events == nil {
		t.Events = store.NewEvents(port{t})
		return t
	}
	t.Events, t.stmts, t.clock = s.In(port{t}), s.stmts, s.options.Clock
	return t
}

// Committed says that the transaction's Commit has returned nil: its results are
// settled now. The Tx can't be used any more.
func (t *Tx) Committed() {
	t.end()
	t.settle()
}

// settle says that the transaction has committed.
func (t *Tx) settle() {
	t.settled.Commit()
	for q := range t.appended {
		t.Wake(q)
	}
}

func (t *Tx) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
}

// Atomically implements [store.Transactor]. The body runs once, while other
// writers wait.
func (s *Store) Atomically(ctx context.Context, body func(ctx context.Context, tx store.Backend) error) (err error) {
	if err := s.writable(ctx); err != nil {
		return err
	}
	if err := s.queue.Enter(ctx, s.options.BusyTimeout); err != nil {
		return err
	}
	defer s.queue.Leave()
	if s.closed.Load() {
		return store.ErrClosed
	}
	if err := s.writer.begin(ctx); err != nil {
		return err
	}
	t := s.newTx()
	t.s, t.locked = writerSession{s.writer}, true
	committing := false
	defer s.dropIfClosed()
	defer func() {
		t.end()
		if !committing {
			s.writer.rollback() // the body failed or panicked
		}
	}()
	if err := body(context.WithValue(ctx, inBody{s}, true), t); err != nil {
		return err
	}
	t.end()
	if t.broken != nil {
		return t.broken // whatever the body made of it
	}
	if err := store.CheckContext(ctx); err != nil {
		return err // ended before the commit: nothing is written
	}
	committing = true
	sure, err := s.writer.commit()
	switch {
	case err == nil:
		t.settle()
		return nil
	case sure:
		return wrap(err, s.options.BusyTimeout)
	}
	return &durable.UnknownOutcomeError{Op: durable.OpTransaction, Err: err}
}

// write decides and writes one request.
func (t *Tx) write(ctx context.Context, r *group.Request) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, err := t.lock(ctx)
	if err != nil {
		return err
	}
	b := newBatch(t.s, t.stmts)
	one := []*group.Request{r}
	if err := b.decide(ctx, one); err != nil {
		return t.breaks(err)
	}
	if !r.Writes() {
		return r.Err
	}
	if err := t.writeWhole(ctx, func() error { return b.write(ctx, one) }); err != nil {
		return t.breaks(err)
	}
	return nil
}

// lock is what every write does first. It returns the context to go on with: from
// here on the caller's must not interrupt, since SQLite answers an interrupted
// write by rolling the whole transaction back.
func (t *Tx) lock(ctx context.Context) (context.Context, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	if err := t.alive(ctx); err != nil {
		return nil, t.breaks(err)
	}
	if !t.locked {
		if err := t.s.exec(ctx, t.stmts.lock, nil); err != nil {
			return nil, t.breaks(err)
		}
		t.locked = true
	}
	return context.WithoutCancel(ctx), nil
}

// writeWhole writes all of a request or nothing of it, so that a caller who
// commits in spite of an error does not commit half a request.
func (t *Tx) writeWhole(ctx context.Context, write func() error) error {
	if err := t.s.exec(ctx, "SAVEPOINT countersign_request", nil); err != nil {
		return err
	}
	err := write()
	if err != nil {
		if t.s.exec(ctx, "ROLLBACK TO countersign_request", nil) != nil {
			// SQLite has rolled back by itself, or half a request is left: then
			// nothing of the transaction may be committed.
			_ = t.s.exec(ctx, "ROLLBACK", nil)
			return err
		}
	}
	return errors.Join(err, t.s.exec(ctx, "RELEASE countersign_request", nil))
}

// breaks marks the transaction as one that can't be trusted: SQLite may have
// rolled it back by itself, and what follows would commit on its own.
func (t *Tx) breaks(err error) error {
	t.broken = readError(err, 0)
	if unavailable, ok := errors.AsType[*store.UnavailableError](err); ok {
		t.broken = unavailable
	}
	return t.broken
}

func (t *Tx) read(ctx context.Context, f func(session) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(ctx); err != nil {
		return err
	}
	err := readError(f(t.s), 0)
	if unavailable, ok := errors.AsType[*store.UnavailableError](err); ok {
		t.broken = unavailable // SQLite rolls back after such an error of a read, too
	}
	return err
}

var errRolledBack = errors.New("sqlite: no transaction is open")

// alive reports whether the transaction is still open. SQLite ends it by itself
// after some errors, also of statements that are not ours; what is written then
// would commit on its own. BEGIN fails in an open transaction, and does nothing.
func (t *Tx) alive(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	err := t.s.exec(ctx, "BEGIN", nil)
	if err == nil {
		return errors.Join(&store.UnavailableError{Reason: "the transaction was rolled back", Err: errRolledBack}, t.s.exec(ctx, "ROLLBACK", nil))
	}
	if code(err) == lib.SQLITE_ERROR {
		return nil
	}
	return err
}

func (t *Tx) ready(ctx context.Context) error {
	switch {
	case t.broken != nil:
		return t.broken
	case t.done:
		return store.ErrTxDone
	}
	return store.CheckContext(ctx)
}

func (t *Tx) texts() *statements { return t.stmts }

// CreateOwner implements [durable.Store].
func (t *Tx) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return group.CreateOwner(ctx, t.write, req)
}

// LoadOwner implements [durable.Store].
func (t *Tx) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return load(ctx, t, req)
}

// CommitOwner implements [durable.Store].
func (t *Tx) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return group.CommitOwner(ctx, t.write, t.settled, c)
}

// AdvanceFence implements [durable.Store].
func (t *Tx) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return group.AdvanceFence(ctx, t.write, req)
}

// RecordReceipt implements [durable.Store].
func (t *Tx) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return group.RecordReceipt(ctx, t.write, t.settled, req)
}

// ReadHistory implements [durable.Store].
func (t *Tx) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return readHistory(ctx, t, req)
}

// ReadPending implements [durable.Store].
func (t *Tx) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return readPending(ctx, t, req)
}
