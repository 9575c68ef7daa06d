package group

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
)

const (
	maxGroup      = 128      // requests of one transaction
	maxGroupBytes = 16 << 20 // and their size
)

var errUnsettled = errors.New("group: the group was not finished")

// A Queue holds the requests that wait for the next group. Whoever holds lead
// writes: one caller for those behind it, or the body of a transaction.
type Queue[R Member] struct {
	// Remote says that a group may take long, since it waits for a server: the
	// caller that leads is let go when its context ends, like those that it leads.
	// It takes a goroutine for each group; a panic in it is the leading caller's, as
	// it is without one, unless that caller has gone.
	Remote bool

	lead chan struct{} // capacity 1

	mu      sync.Mutex
	waiting []R

	// What the next group waits for; only the holder of lead looks at them.
	expected int
	patience time.Duration
}

// NewQueue returns an empty queue.
func NewQueue[R Member]() *Queue[R] { return &Queue[R]{lead: make(chan struct{}, 1)} }

// NewQueueBeside returns an empty queue whose groups and those of the other take
// turns: both have one lead.
func NewQueueBeside[R, S Member](other *Queue[S]) *Queue[R] { return &Queue[R]{lead: other.lead} }

// Do queues the request and waits for its verdict, at most for the time busy
// before it is taken. It calls flush when this caller holds the lead: flush takes
// a group with Take and settles it with Settle, or fails r alone with Reject.
//
// After an error the request must not be looked at: a group may still work on it.
func (q *Queue[R]) Do(ctx context.Context, r R, busy time.Duration, flush func(context.Context, R)) error {
	r.ticket().done = make(chan struct{})
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	timer := time.NewTimer(busy)
	defer timer.Stop()
	led := make(chan any, 1) // what the goroutine that leads for this caller has panicked with, or nil
	leads := false
	for {
		select {
		case p := <-led:
			if leads = false; p != nil {
				panic(p)
			}
		case <-r.ticket().done:
			if leads {
				if p := <-led; p != nil {
					panic(p)
				}
			}
			return r.Verdict()
		case q.lead <- struct{}{}:
			if leads = q.Remote && ctx.Done() != nil; leads {
				go func() {
					defer func() { led <- recover() }()
					q.leadGroup(ctx, r, flush)
				}()
			} else {
				q.leadGroup(ctx, r, flush)
			}
		case <-ctx.Done():
			if q.withdraw(r) || !q.taken(r) { // Reject may just have withdrawn it
				return &store.NotTakenError{Err: countersign.ContextError(ctx)}
			}
			select {
			case <-r.ticket().done: // the verdict was there already
				return r.Verdict()
			default:
				return r.UnknownOutcome(countersign.ContextError(ctx))
			}
		case <-timer.C:
			if q.withdraw(r) {
				return &store.BusyError{Waited: busy}
			}
		}
	}
}

// leadGroup flushes and gives the lead back.
func (q *Queue[R]) leadGroup(ctx context.Context, r R, flush func(context.Context, R)) {
	defer q.Leave()
	select {
	case <-r.ticket().done: // a group settled it just before
	default:
		flush(ctx, r)
	}
}

// Enter waits for the lead without a request.
func (q *Queue[R]) Enter(ctx context.Context, busy time.Duration) error {
	timer := time.NewTimer(busy)
	defer timer.Stop()
	select {
	case q.lead <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &store.NotTakenError{Err: countersign.ContextError(ctx)}
	case <-timer.C:
		return &store.BusyError{Waited: busy}
	}
}

// Leave gives the lead back.
func (q *Queue[R]) Leave() { <-q.lead }

// withdraw removes a request that no group has taken, and reports whether it did.
func (q *Queue[R]) withdraw(r R) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.ticket().taken {
		return false
	}
	for i, w := range q.waiting {
		if w.ticket() == r.ticket() {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// taken reports whether a group has the request.
func (q *Queue[R]) taken(r R) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.ticket().taken
}

// gather lets callers that are about to queue do so: those whose requests were in
// the last group have just been woken, and without them each group would be half
// of what it can be. It waits for as many as there were, but for no more than a
// small part of what a group takes; if they don't come, it will not wait for them
// again.
func (q *Queue[R]) gather() {
	for deadline := time.Now().Add(q.patience); ; runtime.Gosched() {
		if q.Waiting() >= q.expected || !time.Now().Before(deadline) {
			return
		}
	}
}

// Settle gives the callers of a group their verdicts, after it took so long.
func (q *Queue[R]) Settle(batch []R, took time.Duration) {
	q.mu.Lock()
	q.expected = min(len(batch)+len(q.waiting), maxGroup)
	q.patience = min(took/8, 200*time.Microsecond)
	q.mu.Unlock()
	for _, r := range batch {
		close(r.ticket().done)
	}
}

// Reject gives a request that no group has taken an error, if it still waits.
func (q *Queue[R]) Reject(r R, err error) {
	if q.withdraw(r) {
		r.Fail(err)
		close(r.ticket().done)
	}
}

// Waiting returns how many requests wait for the next group.
func (q *Queue[R]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Take removes the requests of the next group, in the order of their arrival.
func (q *Queue[R]) Take() []R {
	q.gather()
	q.mu.Lock()
	defer q.mu.Unlock()
	size := 0
	n := 0
	for n < len(q.waiting) && n < maxGroup && (n == 0 || size+q.waiting[n].Bytes() <= maxGroupBytes) {
		size += q.waiting[n].Bytes()
		q.waiting[n].ticket().taken = true
		// What it says if a panic keeps its group from giving a verdict.
		q.waiting[n].Unknown(errUnsettled)
		n++
	}
	batch := q.waiting[:n:n]
	q.waiting = append([]R(nil), q.waiting[n:]...)
	return batch
}
