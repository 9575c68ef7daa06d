package postgres

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
)

// bodyAttempts is how often a body is run that another transaction stood in the
// way of.
const bodyAttempts = 10

// Atomically implements [store.Transactor]. The body has a connection of its own.
// Bodies that lock the same owners in opposite orders do not wait for each other:
// one of them runs again, after the owners and then the sequences that it wrote to
// were locked in the order of their ids. After ten runs it is a [*store.BusyError].
func (s *Store) Atomically(ctx context.Context, body func(ctx context.Context, tx store.Backend) error) error {
	if err := s.enterWriting(ctx); err != nil {
		return err
	}
	defer s.leave()
	locks := &locks{owners: map[string]bool{}, sequences: map[eventlog.Sequence]bool{}}
	for n := 1; ; n++ {
		repeat, err := s.attempt(ctx, locks, body)
		if !repeat || n == bodyAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return &store.NotTakenError{Err: countersign.ContextError(ctx)}
		case <-time.After(rand.N(time.Duration(n) * 5 * time.Millisecond)):
		}
	}
}

// attempt runs the body once. It reports whether the body is to run again, since
// another transaction stood in the way; nothing is written then.
func (s *Store) attempt(ctx context.Context, locks *locks, body func(ctx context.Context, tx store.Backend) error) (repeat bool, err error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return false, err
	}
	run := &bodyRun{locks: locks, held: map[string]bool{}, heldSequences: map[eventlog.Sequence]bool{}}
	t := s.newTx()
	t.s, t.body = boundSession{pgxSession{conn}, s}, run
	defer func() {
		t.end()
		rollback(conn) // if it is not committed: the body failed or panicked
		conn.Release()
	}()
	if err := t.s.run(ctx, run.begin(s)...); err != nil {
		err = s.readError(ctx, lostConnection(err), time.Now())
		return again(err) || lost(err), err
	}
	err = body(context.WithValue(ctx, inBody{s}, true), t)
	t.end()
	switch {
	case again(run.failed) || errors.Is(run.failed, errApart):
		return true, t.broken
	case err != nil:
		return false, err
	case t.broken != nil:
		return false, t.broken // whatever the body made of it
	}
	if err := store.CheckContext(ctx); err != nil {
		return false, err // ended before the commit: nothing is written
	}
	err = commit(ctx, conn, nil, s.stmts.notices(t.appended))
	switch {
	case err == nil:
		t.commit()
		return false, nil
	case isUnknown(err):
		return false, &durable.UnknownOutcomeError{Op: durable.OpTransaction, Err: err}
	}
	return again(err), wrap(err, 0)
}

// A bodyRun is what a Tx knows of the body that it is for. Any failure but a
// refusal breaks such a Tx, since the body can run again.
type bodyRun struct {
	*locks
	held   map[string]bool // owners whose row this transaction has locked
	last   string          // the greatest of them
	failed error           // why the transaction can't go on

	heldSequences map[eventlog.Sequence]bool // the same of sequences
	lastSequence  eventlog.Sequence
}

// locks are the rows that the runs of a body write to: owners come before sequences.
type locks struct {
	owners    map[string]bool
	sequences map[eventlog.Sequence]bool
}

// enterSequence reports whether the sequence's row may be waited for: no row is held
// that comes after it.
func (run *bodyRun) enterSequence(s eventlog.Sequence) bool {
	run.sequences[s] = true
	return run.heldSequences[s] || len(run.heldSequences) == 0 || compareSequences(run.lastSequence, s) < 0
}

func (run *bodyRun) holdSequence(s eventlog.Sequence) {
	if len(run.heldSequences) == 0 || compareSequences(run.lastSequence, s) < 0 {
		run.lastSequence = s
	}
	run.heldSequences[s] = true
}

func compareSequences(a, b eventlog.Sequence) int {
	return cmp.Or(cmp.Compare(a.Namespace.EventStore, b.Namespace.EventStore), cmp.Compare(a.Namespace.Name, b.Namespace.Name), cmp.Compare(a.Name, b.Name))
}

// begin begins the transaction and locks the owners of the runs before.
func (run *bodyRun) begin(s *Store) []*statement {
	first := []*statement{begin(), lockTimeout(s.options.BusyTimeout)}
	if len(run.owners) > 0 {
		lock := s.stmts.make(alone, part{&lockWaiting, []any{slices.Sorted(maps.Keys(run.owners))}})
		first = append(first, lock.each(func(r *row) error { run.hold(r.id); return nil }))
	}
	for _, sequence := range slices.SortedFunc(maps.Keys(run.sequences), compareSequences) {
		first = append(first, s.stmts.one(&lockSequence, names(sequence)...).rows(func(*logRow) error {
			run.holdSequence(sequence)
			return nil
		}))
	}
	return first
}

func (run *bodyRun) hold(owner string) {
	run.held[owner] = true
	run.last = max(run.last, owner)
}

// writeInBody decides and writes one request in the transaction of a body. A row
// that would be locked out of order is not waited for.
func (t *Tx) writeInBody(ctx context.Context, r *group.Request, b *batch, create *durable.CreateOwner) error {
	started := time.Now()
	run, owner := t.body, r.Touch.Owner
	run.owners[owner] = true
	first, err := b.first(create, run.held[owner] || owner > run.last && len(run.heldSequences) == 0)
	if err != nil {
		return err
	}
	if err := t.s.run(ctx, first...); err != nil {
		return t.breaks(ctx, err, started)
	}
	b.decide()
	if errors.Is(r.Err, errApart) {
		return t.breaks(ctx, errApart, started)
	}
	if _, locked := b.keys[owner]; locked {
		run.hold(owner)
	}
	if writes := b.writes(); len(writes) > 0 {
		late, cancel := patient(ctx)
		defer cancel()
		if err := t.s.run(late, writes...); err != nil {
			return t.breaks(ctx, err, started)
		}
	}
	return r.Err
}

// breaks marks the transaction of a body as one that can't go on.
func (t *Tx) breaks(ctx context.Context, err error, started time.Time) error {
	t.body.failed, t.broken = err, txError(ctx, err, started)
	return t.broken
}
