package sqlite

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

const (
	maxGroup      = 128      // requests of one transaction
	maxGroupBytes = 16 << 20 // and their size
)

// A request is one write, on its way to a group.
type request struct {
	op    string // as in durable.UnknownOutcomeError
	touch durable.Touch
	size  int // in bytes, about
	rule  func(durable.Slice) (durable.Plan, error)

	taken bool          // guarded by queue.mu: a group has it, it can't be withdrawn
	done  chan struct{} // closed when plan and err are set
	plan  durable.Plan
	err   error
}

// A queue holds the requests that wait for the next group. Whoever holds lead
// writes: one caller for those behind it, or the body of a transaction. No
// goroutine is needed.
type queue struct {
	lead chan struct{} // capacity 1

	mu      sync.Mutex
	waiting []*request

	// What the next group waits for; only the holder of lead looks at them.
	expected int
	patience time.Duration
}

func newQueue() *queue { return &queue{lead: make(chan struct{}, 1)} }

// do queues the request and waits for its verdict. It calls flush whenever this
// caller holds the lead; flush takes requests with take and settles them.
func (q *queue) do(ctx context.Context, r *request, busy time.Duration, flush func(context.Context, *request)) error {
	r.done = make(chan struct{})
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	timer := time.NewTimer(busy)
	defer timer.Stop()
	for {
		select {
		case <-r.done:
			return r.err
		case q.lead <- struct{}{}:
			q.leadGroup(ctx, r, flush)
		case <-ctx.Done():
			if q.withdraw(r) {
				return &store.NotTakenError{Err: countersign.ContextError(ctx)}
			}
			select {
			case <-r.done: // the verdict was there already
				return r.err
			default:
				return &durable.UnknownOutcomeError{Op: r.op, Owner: r.touch.Owner, Err: countersign.ContextError(ctx)}
			}
		case <-timer.C:
			if q.withdraw(r) {
				return &store.BusyError{Waited: busy}
			}
		}
	}
}

// leadGroup flushes and gives the lead back.
func (q *queue) leadGroup(ctx context.Context, r *request, flush func(context.Context, *request)) {
	defer q.leave()
	select {
	case <-r.done: // a group settled it just before
	default:
		flush(ctx, r)
	}
}

// enter waits for the lead without a request.
func (q *queue) enter(ctx context.Context, busy time.Duration) error {
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

func (q *queue) leave() { <-q.lead }

// withdraw removes a request that no group has taken, and reports whether it did.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.taken {
		return false
	}
	for i, w := range q.waiting {
		if w == r {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// gather lets callers that are about to queue do so: those whose requests were in
// the last group have just been woken, and without them each group would be half
// of what it can be. It waits for as many as there were, but for no more than a
// small part of what a group takes; if they don't come, it will not wait for them
// again.
func (q *queue) gather() {
	for deadline := time.Now().Add(q.patience); ; runtime.Gosched() {
		q.mu.Lock()
		n := len(q.waiting)
		q.mu.Unlock()
		if n >= q.expected || !time.Now().Before(deadline) {
			return
		}
	}
}

// settled remembers how many callers there are, after a group that took so long.
func (q *queue) settled(group int, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expected = min(group+len(q.waiting), maxGroup)
	q.patience = min(took/8, 200*time.Microsecond)
}

// take removes the requests of the next group, in the order of their arrival.
func (q *queue) take() []*request {
	q.gather()
	q.mu.Lock()
	defer q.mu.Unlock()
	size := 0
	n := 0
	for n < len(q.waiting) && n < maxGroup && (n == 0 || size+q.waiting[n].size <= maxGroupBytes) {
		size += q.waiting[n].size
		q.waiting[n].taken = true
		n++
	}
	batch := q.waiting[:n:n]
	q.waiting = append([]*request(nil), q.waiting[n:]...)
	return batch
}
