package postgres

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	"github.com/jackc/pgx/v5"
)

// A Tx is a backend bound to one transaction of the caller's. Its results are
// provisional: they carry a settlement that is not settled until the transaction
// has committed. Each write has a savepoint of its own, so that a refusal, and an
// error that the server answers, leave nothing behind and the transaction usable;
// after an error of the connection the Tx refuses everything that follows. It is
// safe for concurrent use.
//
// A write locks its owner's row until the transaction ends, and waits for it as
// long as the transaction's lock_timeout allows. A transaction that writes to
// several owners should do so in the order of their ids: two that wait for each
// other give one of them a [*store.BusyError]. In a transaction at REPEATABLE
// READ or SERIALIZABLE that error also says that somebody has moved the owner
// since it began; then the transaction is repeated as a whole.
//
// A load is one statement, so it is consistent at READ COMMITTED too. It locks
// nothing: what it returns may have moved when the next request is decided.
type Tx struct {
	*store.Events
	s       session
	conn    *pgx.Conn // nil where there is no way to it
	stmts   *statements
	clock   countersign.Clock
	settled *countersign.Settlement
	body    *bodyRun // nil: the transaction is the caller's

	mu       sync.Mutex
	done     bool
	broken   error
	appended []eventlog.Sequence // that the transaction has appended to
}

var _ store.Backend = (*Tx)(nil)

// Tx returns the backend bound to a transaction of the caller's, on the database
// that the store works on: requests and the caller's own statements commit
// together, or not at all. Call [Tx.Committed] after its Commit has returned nil,
// if the results' AckSafe is asked. A nil transaction, or a closed store, is
// refused at the first request.
func (s *Store) Tx(tx pgx.Tx) *Tx {
	t := s.join(isNil(tx))
	if t.broken == nil {
		t.s, t.conn = pgxSession{tx}, tx.Conn()
	}
	return t
}

// TxSQL is [Store.Tx] for users of database/sql with pgx's driver (package
// github.com/jackc/pgx/v5/stdlib). Each statement is a round trip there.
func (s *Store) TxSQL(tx *sql.Tx) *Tx {
	t := s.join(tx == nil)
	if t.broken == nil {
		t.s = sqlSession{tx}
	}
	return t
}

// isNil also sees a nil pointer of one of pgx's types.
func isNil(tx pgx.Tx) bool {
	v := reflect.ValueOf(tx)
	return tx == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

func (s *Store) join(none bool) *Tx {
	t := s.newTx()
	switch {
	case s == nil || s.queue == nil || s.closed.Load():
		t.broken = store.ErrClosed
	case none:
		t.broken = &countersign.MalformedError{Field: "transaction", Reason: "is nil"}
	}
	return t
}

func (s *Store) newTx() *Tx {
	t := &Tx{stmts: s.texts(), settled: &countersign.Settlement{}}
	if s != nil {
		t.clock = s.options.Clock
		t.Events = s.In(port{logAccess: t, t: t.stmts, clock: t.clock, settlement: t.settled})
	}
	return t
}

// Committed says that the transaction's Commit has returned nil: its results are
// settled now. The Tx can't be used any more.
func (t *Tx) Committed() {
	t.end()
	t.commit()
}

// commit settles the results, and wakes those who wait for the events.
func (t *Tx) commit() {
	t.settled.Commit()
	for _, s := range t.appended {
		t.Wake(s)
	}
}

func (t *Tx) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
}

// write decides and writes one request.
func (t *Tx) write(ctx context.Context, r *group.Request, create *durable.CreateOwner) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(ctx); err != nil {
		return err
	}
	b := newBatch(t.stmts, r)
	if t.body != nil {
		return t.writeInBody(ctx, r, b, create)
	}
	started := time.Now()
	first, err := b.first(create, true)
	if err != nil {
		return err
	}
	savepoint := &statement{text: "SAVEPOINT countersign_request"}
	if err := t.s.run(ctx, append([]*statement{savepoint}, first...)...); err != nil {
		if !savepoint.done && answer(err) != nil {
			// The caller's transaction had failed before, and nothing was done in
			// it. The caller may have a savepoint to go back to.
			return txError(ctx, err, started)
		}
		return t.undo(ctx, err, started)
	}
	b.decide()
	// From here on the end of the caller's context must not break the
	// transaction, which is the caller's.
	late, cancel := patient(ctx)
	defer cancel()
	if err := t.s.run(late, append(b.writes(), &statement{text: "RELEASE SAVEPOINT countersign_request"})...); err != nil {
		return t.undo(ctx, err, started)
	}
	return r.Err
}

// undo takes back what a request has done before it failed, and returns its error.
func (t *Tx) undo(ctx context.Context, err error, started time.Time) error {
	err = txError(ctx, err, started)
	if errors.Is(err, store.ErrTxDone) {
		t.done = true
		return err
	}
	ctx, cancel := patient(ctx)
	defer cancel()
	for _, text := range []string{"ROLLBACK TO SAVEPOINT countersign_request", "RELEASE SAVEPOINT countersign_request"} {
		// One after the other: a transaction that failed takes the first only.
		if t.s.run(ctx, &statement{text: text}) != nil {
			t.broken = err
			if _, ended := errors.AsType[*store.NotTakenError](err); ended {
				// That context was this request's: the others' may go on.
				t.broken = &store.UnavailableError{Reason: connectionLost, Err: errEndedWithin}
			}
			break
		}
	}
	return err
}

var errEndedWithin = errors.New("postgres: the context of a request ended while the transaction carried it out")

// txError says what became of a statement in a transaction that goes on.
func txError(ctx context.Context, err error, started time.Time) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, pgx.ErrTxClosed) {
		return &store.NotTakenError{Err: countersign.ContextError(ctx)}
	}
	return wrap(err, time.Since(started))
}

func (t *Tx) read(ctx context.Context, q *statement) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(ctx); err != nil {
		return err
	}
	err := t.s.run(ctx, q)
	if err != nil && t.body != nil {
		return t.breaks(ctx, err, time.Now())
	}
	return txError(ctx, err, time.Now())
}

func (t *Tx) ready(ctx context.Context) error {
	switch {
	case t.done:
		return store.ErrTxDone
	case t.broken != nil:
		return t.broken
	case t.conn != nil:
		if err := checkEncoding(t.conn); err != nil {
			return err
		}
	}
	return store.CheckContext(ctx)
}

// request is the transaction's [group.Write].
func (t *Tx) request(ctx context.Context, r *group.Request) error { return t.write(ctx, r, nil) }

// CreateOwner implements [durable.Store].
func (t *Tx) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return group.CreateOwner(ctx, func(ctx context.Context, r *group.Request) error { return t.write(ctx, r, &req) }, req)
}

// LoadOwner implements [durable.Store].
func (t *Tx) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return load(ctx, t.read, t.stmts, req)
}

// CommitOwner implements [durable.Store].
func (t *Tx) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return group.CommitOwner(ctx, t.request, t.settled, c)
}

// AdvanceFence implements [durable.Store].
func (t *Tx) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return group.AdvanceFence(ctx, t.request, req)
}

// RecordReceipt implements [durable.Store].
func (t *Tx) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return group.RecordReceipt(ctx, t.request, t.settled, req)
}

// ReadHistory implements [durable.Store].
func (t *Tx) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return readHistory(ctx, t.read, t.stmts, req)
}

// ReadPending implements [durable.Store].
func (t *Tx) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return readPending(ctx, t.read, t.stmts, req)
}
