package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	"github.com/jackc/pgx/v5/pgxpool"
)

// queues are the queues of the sequences that somebody appends to.
type queues struct {
	mu  sync.Mutex
	all map[eventlog.Sequence]*sequenceQueue
}

type sequenceQueue struct {
	*group.Queue[*group.Append]
	users int
}

// enter returns the sequence's queue. It is kept until every user has left it.
func (q *queues) enter(s eventlog.Sequence) (queue *group.Queue[*group.Append], leave func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == nil {
		q.all = map[eventlog.Sequence]*sequenceQueue{}
	}
	one := q.all[s]
	if one == nil {
		one = &sequenceQueue{Queue: group.NewQueue[*group.Append]()}
		one.Remote = true
		q.all[s] = one
	}
	one.users++
	return one.Queue, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(q.all, s)
		}
	}
}

// append carries an append out: together with others of its sequence that arrive
// while a transaction is under way, or a record of an effect alone.
func (s *Store) append(ctx context.Context, a *store.Append) error {
	if err := s.enterWriting(ctx); err != nil {
		return err
	}
	defer s.leave()
	sequence, ok := a.Sequence()
	if !ok {
		return s.appendAlone(ctx, a)
	}
	queue, leave := s.queues.enter(sequence)
	defer leave()
	err := queue.Do(ctx, &group.Append{Append: a}, s.options.BusyTimeout, func(ctx context.Context, r *group.Append) { s.flushAppends(ctx, queue, r) })
	if errors.Is(err, errApart) {
		err = s.appendApart(ctx, a)
	}
	if err == nil && a.Writes() {
		s.Wake(sequence)
	}
	return err
}

// flushAppends is [group.Queue.Do]'s, as flush is.
func (s *Store) flushAppends(ctx context.Context, queue *group.Queue[*group.Append], r *group.Append) {
	if !s.hold() {
		queue.Reject(r, store.ErrClosed)
		return
	}
	defer s.leave()
	conn, err := s.acquire(ctx)
	if err != nil {
		queue.Reject(r, err)
		return
	}
	defer func() {
		if conn != nil {
			conn.Release()
		}
	}()
	started := time.Now()
	members := queue.Take()
	defer func() { queue.Settle(members, time.Since(started)) }()
	appends := make([]*store.Append, len(members))
	for i, m := range members {
		appends[i] = m.Append
	}
	wait := s.mayWait()
	if wait {
		defer func() { <-s.waiters }()
	}
	// A group never runs under a caller's context.
	background := context.Background()
	err = s.repeat(background, func(time.Time) (err error) {
		if conn != nil && conn.Conn().IsClosed() {
			conn.Release()
			conn = nil
		}
		if conn == nil {
			if conn, err = s.acquire(background); err != nil {
				return err
			}
		}
		return s.transactAppends(background, conn, wait, appends...)
	})
	for _, a := range appends {
		switch {
		case err == nil:
		case isUnknown(err) && a.Writes():
			a.Unknown(err)
		case isUnknown(err):
			// It writes nothing, but its verdict may rest on a neighbour's write.
			a.Fail(&store.UnavailableError{Reason: "the transaction that it was decided in may not have been committed", Err: err})
		case errors.Is(err, errApart), len(appends) > 1 && (answer(err) != nil || met(err)) && !waited(err):
			a.Fail(errApart) // one of them may be to blame: it is to fail alone
		default:
			a.Fail(wrap(unsettled(a, err), time.Since(started)))
		}
	}
}

// waited reports whether the time was up for which a row is waited for.
func waited(err error) bool {
	e := answer(err)
	return e != nil && e.Code == lockNotAvailable
}

// mayWait reports whether one more may wait for a row. Only so many do at once that
// connections are left for the others.
func (s *Store) mayWait() bool {
	select {
	case s.waiters <- struct{}{}:
		return true
	default:
		return false
	}
}

// appendApart carries out one append in a transaction of its own, in which it waits
// for what it needs.
func (s *Store) appendApart(ctx context.Context, a *store.Append) error {
	if err := s.enterApart(ctx); err != nil {
		return err
	}
	defer func() { <-s.waiters }()
	return s.appendSingle(ctx, a, true)
}

// appendAlone carries out one append, and waits only if it must.
func (s *Store) appendAlone(ctx context.Context, a *store.Append) error {
	err := s.appendSingle(ctx, a, false)
	if errors.Is(err, errApart) {
		return s.appendApart(ctx, a)
	}
	return err
}

func (s *Store) appendSingle(ctx context.Context, a *store.Append, wait bool) error {
	err := s.repeat(ctx, func(started time.Time) error {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		err = s.transactAppends(ctx, conn, wait, a)
		if isUnknown(err) || errors.Is(err, errApart) {
			return err
		}
		return s.readError(ctx, unsettled(a, err), started)
	})
	switch {
	case isUnknown(err):
		a.Unknown(err)
	case err != nil:
		a.Fail(err)
	}
	return a.Err()
}

// transactAppends carries out appends to one sequence in a transaction, in two round
// trips: one locks and reads, one writes and commits. It waits for what another
// transaction holds, or returns errApart.
func (s *Store) transactAppends(ctx context.Context, conn *pgxpool.Conn, wait bool, appends ...*store.Append) error {
	patience := s.options.BusyTimeout
	if !wait {
		patience = min(briefly, patience) // for another that inserts the same: no lock is skipped there
	}
	refused, err := s.within(ctx, conn, patience, func(ctx context.Context, w *work) error { return w.appends(ctx, wait, appends...) })
	if !wait && waited(err) {
		return errApart
	}
	if err == nil {
		err = refused
	}
	return err
}

// append carries an append out in the transaction.
func (t *Tx) append(ctx context.Context, a *store.Append) error {
	sequence, ok := a.Sequence()
	err := t.carry(ctx, nil, func(ctx context.Context, w *work) error {
		wait := !ok || w.body == nil || w.body.enterSequence(sequence)
		if err := w.appends(ctx, wait, a); err != nil {
			return err
		}
		if ok && w.body != nil {
			w.body.holdSequence(sequence)
		}
		return a.Err()
	})
	if err != nil && a.Err() == nil {
		a.Fail(unsettled(a, err))
		return a.Err()
	}
	return err
}
