package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
)

// A port is the [store.EventPort] of a Store or a Tx.
type port struct{ logAccess }

var _ store.EventPort = port{}

// logAccess is what a Store and a Tx have in common.
type logAccess interface {
	executor
	now() time.Time
	// carryOut carries an append out and returns its verdict's error.
	carryOut(ctx context.Context, a *store.Append) error
	// change runs a change in a transaction. unknown makes the error of an unknown
	// outcome.
	change(ctx context.Context, unknown func(error) error, f change) error
	watch(ctx context.Context) (time.Duration, error)
	settlement() *countersign.Settlement
}

// A change reads, decides and writes inside a transaction. It returns about how
// many pages it has written: 0 is nothing. Its error is one of the database; what a
// rule refuses it keeps for its caller, and writes nothing.
type change func(ctx context.Context, s session) (pages int, err error)

// unknownLog is the unknown outcome of an operation on a sequence, or on none.
func unknownLog(op string, q eventlog.Sequence) func(error) error {
	return func(err error) error { return &eventlog.UnknownOutcomeError{Op: op, Sequence: q, Err: err} }
}

func (p port) Watch(ctx context.Context) (time.Duration, error) { return p.watch(ctx) }

func (p port) Settlement() *countersign.Settlement { return p.settlement() }

// Drop implements [store.EventPort], in one transaction.
func (p port) Drop(ctx context.Context, ns countersign.Namespace) (eventlog.Dropped, error) {
	var dropped eventlog.Dropped
	err := p.change(ctx, unknownLog(eventlog.OpDropNamespace, eventlog.Sequence{}), func(ctx context.Context, s session) (int, error) {
		t := p.texts().log
		counts := make([]int64, len(t.drop))
		deleted := int64(0)
		for i, query := range t.drop {
			var err error
			if counts[i], err = execCounted(ctx, s, t, query, []driver.Value{ns.EventStore, ns.Name}); err != nil {
				return 0, err
			}
			deleted += counts[i]
		}
		last := counts[len(counts)-4:]
		dropped = eventlog.Dropped{Events: last[0], Sequences: last[1], Receipts: last[2], Observers: last[3]}
		if deleted == 0 {
			return 0, nil
		}
		return pagesOf(int(deleted) * rowSize), nil
	})
	if err != nil {
		return eventlog.Dropped{}, err
	}
	return dropped, nil
}

// execCounted runs a statement and returns how many rows it has changed.
func execCounted(ctx context.Context, s session, t *logStatements, query string, args []driver.Value) (n int64, err error) {
	if err := s.exec(ctx, query, args); err != nil {
		return 0, err
	}
	err = s.query(ctx, t.changes, nil, func(v []driver.Value) error {
		n = v[0].(int64)
		return nil
	})
	return n, err
}

// lookAgain is how often those who wait for events look for those of other
// processes, and of other stores on the same file. A commit of the same store wakes
// them at once.
const lookAgain = 100 * time.Millisecond

func (s *Store) now() time.Time { return s.options.Clock.Now() }

func (s *Store) settlement() *countersign.Settlement { return nil }

func (s *Store) watch(ctx context.Context) (time.Duration, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	if ctx.Value(inBody{s}) != nil {
		return 0, store.ErrNestedTransaction
	}
	return lookAgain, nil
}

// carryOut queues the append for the next group and waits for its verdict.
func (s *Store) carryOut(ctx context.Context, a *store.Append) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	return s.appends.do(ctx, &group.Append{Append: a})
}

// appendGroup decides and writes a group in the open transaction.
func (s *Store) appendGroup(ctx context.Context, sess session, batch []*group.Append) error {
	appends := make([]*store.Append, len(batch))
	for i, a := range batch {
		appends[i] = a.Append
	}
	b := newAppendBatch(sess, s.stmts.log, s.now())
	if err := b.decide(ctx, appends); err != nil {
		return err
	}
	return b.write(ctx)
}

// wakeGroup wakes those who wait for what the group has appended.
func (s *Store) wakeGroup(batch []*group.Append) {
	woken := map[eventlog.Sequence]bool{}
	for _, a := range batch {
		if q, ok := a.Sequence(); ok && a.Writes() && !woken[q] {
			woken[q] = true
			s.Wake(q)
		}
	}
}

// change carries a change out in a transaction of its own.
func (s *Store) change(ctx context.Context, unknown func(error) error, f change) error {
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
	defer s.dropIfClosed()
	if err := s.writer.begin(ctx); err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			s.writer.rollback() // it failed, panicked, or has written nothing
		}
	}()
	var pages int
	var err error
	sess := s.writer.s
	if raw := s.writer.raw(func() error {
		pages, err = f(context.Background(), sess) // from here on the context must not interrupt
		return nil
	}); raw != nil {
		err = raw
	}
	if err != nil {
		return readError(err, s.options.BusyTimeout)
	}
	if pages == 0 {
		return nil // it rests on nothing but what was committed before
	}
	open = false
	sure, err := s.writer.commit()
	switch {
	case err == nil:
		s.writer.tend(pages)
		return nil
	case sure:
		return wrap(err, s.options.BusyTimeout)
	}
	return unknown(err)
}

func (t *Tx) now() time.Time { return t.clock.Now() }

func (t *Tx) settlement() *countersign.Settlement { return t.settled }

func (t *Tx) watch(context.Context) (time.Duration, error) { return 0, store.ErrNestedTransaction }

// carryOut decides and writes one append.
func (t *Tx) carryOut(ctx context.Context, a *store.Append) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, err := t.lock(ctx)
	if err != nil {
		return err
	}
	b := newAppendBatch(t.s, t.stmts.log, t.now())
	if err := b.decide(ctx, []*store.Append{a}); err != nil {
		a.Fail(t.breaks(err))
		return a.Err()
	}
	if !a.Writes() {
		return a.Err()
	}
	if err := t.writeWhole(ctx, func() error { return b.write(ctx) }); err != nil {
		a.Fail(t.breaks(err))
		return a.Err()
	}
	if q, ok := a.Sequence(); ok {
		t.appended[q] = true
	}
	return nil
}

// change carries a change out in the transaction.
func (t *Tx) change(ctx context.Context, _ func(error) error, f change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, err := t.lock(ctx)
	if err != nil {
		return err
	}
	if err := t.writeWhole(ctx, func() error {
		_, err := f(ctx, t.s)
		return err
	}); err != nil {
		return t.breaks(err)
	}
	return nil
}
