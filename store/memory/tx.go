package memory

import (
	"context"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
)

// Atomically implements [store.Transactor]. It copies each owner that the body
// writes to, and puts the copies in place when the body returns nil. The body
// runs once. Readers outside see the state from before until then.
func (s *Store) Atomically(ctx context.Context, body func(ctx context.Context, tx store.Backend) error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	t := &tx{medium: s.medium, clock: s.clock, staged: owners{}, log: newEventLog(s.medium.log), settlement: &countersign.Settlement{}}
	t.Events = s.In(port{logAccess: t, settlement: t.settlement})
	defer t.end()
	if err := body(context.WithValue(ctx, inBody{s.medium}, true), t); err != nil {
		return err
	}
	t.end() // before the commit: from then on the copies are the state itself
	if err := store.CheckContext(ctx); err != nil {
		return err // ended before the commit: nothing is written
	}
	t.commit()
	for q := range t.log.sequences {
		s.Wake(q)
	}
	return nil
}

// tx is a backend bound to one transaction.
type tx struct {
	*store.Events
	medium     *Medium
	clock      countersign.Clock
	settlement *countersign.Settlement

	mu     sync.Mutex
	staged owners    // copies of the owners that were written to
	log    *eventLog // what was written to the event log
	done   bool
}

var _ store.Backend = (*tx)(nil)

func (t *tx) commit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.medium.mu.Lock()
	defer t.medium.mu.Unlock()
	for id, o := range t.staged {
		t.medium.owners[id] = o
	}
	t.medium.log.merge(t.log)
	t.settlement.Commit()
}

func (t *tx) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
}

// stage returns the owners with this transaction's own copy of one of them.
func (t *tx) stage(id string) owners {
	if t.staged[id] == nil {
		t.medium.mu.RLock()
		defer t.medium.mu.RUnlock()
		if o := t.medium.owners[id]; o != nil {
			t.staged[id] = o.clone()
		}
	}
	return t.staged
}

func (t *tx) ready(ctx context.Context) error {
	if t.done {
		return store.ErrTxDone
	}
	return store.CheckContext(ctx)
}

func (t *tx) write(ctx context.Context, touch durable.Touch, rule func(durable.Slice) (durable.Plan, error)) (durable.Plan, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(ctx); err != nil {
		return durable.Plan{}, err
	}
	return t.stage(touch.Owner).write(touch, rule)
}

func (t *tx) read(ctx context.Context, id string, f func(*owner)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(ctx); err != nil {
		return err
	}
	return t.stage(id).read(id, f)
}

func (t *tx) writeLog(ctx context.Context, f func(l *eventLog, now time.Time) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(ctx); err != nil {
		return err
	}
	t.medium.mu.RLock()
	defer t.medium.mu.RUnlock()
	return f(t.log, eventlog.Microseconds(t.clock.Now()))
}

func (t *tx) readLog(ctx context.Context, f func(l *eventLog, now time.Time)) error {
	return t.writeLog(ctx, func(l *eventLog, now time.Time) error {
		f(l, now)
		return nil
	})
}

// wake does nothing: the events are seen when the transaction has committed.
func (t *tx) wake(eventlog.Sequence) {}

func (t *tx) watch(context.Context) (time.Duration, error) { return 0, store.ErrNestedTransaction }

// CreateOwner implements [durable.Store].
func (t *tx) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return create(ctx, t, req)
}

// LoadOwner implements [durable.Store].
func (t *tx) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return load(ctx, t, req)
}

// CommitOwner implements [durable.Store].
func (t *tx) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return commit(ctx, t, c, t.settlement)
}

// AdvanceFence implements [durable.Store].
func (t *tx) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return advance(ctx, t, req)
}

// RecordReceipt implements [durable.Store].
func (t *tx) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return record(ctx, t, req, t.settlement)
}

// ReadHistory implements [durable.Store].
func (t *tx) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return readHistory(ctx, t, req)
}

// ReadPending implements [durable.Store].
func (t *tx) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return readPending(ctx, t, req)
}
