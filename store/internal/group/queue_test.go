package group

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const patience = time.Minute

// accept settles everything that waits.
func accept(q *Queue[*Request]) func(context.Context, *Request) {
	return func(context.Context, *Request) {
		batch := q.Take()
		for _, r := range batch {
			r.Decide(&durable.Slice{})
		}
		q.Settle(batch, time.Millisecond)
	}
}

func request(err error) *Request {
	return &Request{Op: "commit", Touch: durable.Touch{Owner: "a"}, Rule: func(durable.Slice) (durable.Plan, error) {
		return durable.Plan{Through: 1}, err
	}}
}

// waitFor waits until n requests wait.
func waitFor(t *testing.T, q *Queue[*Request], n int) {
	t.Helper()
	for q.Waiting() != n {
		require.NoError(t, t.Context().Err())
		runtime.Gosched()
	}
}

func TestOneCallerFlushesForAll(t *testing.T) {
	q := NewQueue[*Request]()
	require.NoError(t, q.Enter(t.Context(), patience))
	var groups []int
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			r := request(nil)
			assert.NoError(t, q.Do(t.Context(), r, patience, func(ctx context.Context, r *Request) {
				groups = append(groups, q.Waiting()) // only the holder of the lead is here
				accept(q)(ctx, r)
			}))
			assert.EqualValues(t, 1, r.Plan.Through)
		})
		waitFor(t, q, i+1)
	}
	q.Leave()
	wg.Wait()
	assert.Equal(t, []int{10}, groups)
}

func TestRefusalIsTheCallersOwn(t *testing.T) {
	q := NewQueue[*Request]()
	refused := &durable.StaleFenceError{}
	assert.Equal(t, refused, q.Do(t.Context(), request(refused), patience, accept(q)))
	assert.NoError(t, q.Do(t.Context(), request(nil), patience, accept(q)))
}

func TestWaitingEndsWithTheContextOrTheTimeout(t *testing.T) {
	q := NewQueue[*Request]()
	require.NoError(t, q.Enter(t.Context(), patience))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := q.Do(ctx, request(nil), patience, accept(q))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, countersign.ErrRetryable)
	require.ErrorIs(t, q.Enter(ctx, patience), context.Canceled)

	var busy *store.BusyError
	require.ErrorAs(t, q.Do(t.Context(), request(nil), time.Nanosecond, accept(q)), &busy)
	require.ErrorAs(t, q.Enter(t.Context(), time.Nanosecond), &busy)
	assert.Zero(t, q.Waiting(), "no trace")
	q.Leave()
}

func TestRejectedRequestLeavesTheOthers(t *testing.T) {
	q := NewQueue[*Request]()
	broken := errors.New("no connection")
	err := q.Do(t.Context(), request(nil), patience, func(_ context.Context, r *Request) { q.Reject(r, broken) })
	require.ErrorIs(t, err, broken)
	assert.Zero(t, q.Waiting())
	require.NoError(t, q.Do(t.Context(), request(nil), patience, accept(q)))
}

// A panic while a group is written lets nobody believe that it was written, and
// the queue goes on.
func TestPanicLeavesAnUnknownOutcome(t *testing.T) {
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprintf("remote %v", remote), func(t *testing.T) { panicLeavesAnUnknownOutcome(t, remote) })
	}
}

func panicLeavesAnUnknownOutcome(t *testing.T, remote bool) {
	q := NewQueue[*Request]()
	q.Remote = remote
	require.NoError(t, q.Enter(t.Context(), patience))
	var wg sync.WaitGroup
	errs := make([]error, 2)
	panics := make([]any, 2)
	for i := range 2 {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = q.Do(t.Context(), request(nil), patience, func(context.Context, *Request) {
				batch := q.Take()
				defer func() { q.Settle(batch, time.Millisecond) }()
				panic("broken")
			})
		})
		waitFor(t, q, i+1)
	}
	q.Leave()
	wg.Wait()
	told := 0
	for i := range 2 {
		if panics[i] == nil {
			require.ErrorIs(t, errs[i], countersign.ErrUnknownOutcome)
			told++
		}
	}
	assert.Equal(t, 1, told, "one caller panicked, the other one must not believe anything")
	require.NoError(t, q.Do(t.Context(), request(nil), patience, accept(q)))
}

// A caller that leads a group to a server is let go when its context ends, and the
// group goes on: the next one waits for it.
func TestRemoteLeaderIsLetGo(t *testing.T) {
	q := NewQueue[*Request]()
	q.Remote = true
	ctx, cancel := context.WithCancel(t.Context())
	taken, goOn := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	r := request(nil)
	go func() {
		ended <- q.Do(ctx, r, patience, func(context.Context, *Request) {
			batch := q.Take()
			close(taken)
			<-goOn
			q.Settle(batch, time.Millisecond)
		})
	}()
	<-taken
	cancel()
	err := <-ended
	require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, q.Do(t.Context(), request(nil), time.Millisecond, accept(q)), countersign.ErrRetryable, "the group is under way")
	close(goOn)
	require.NoError(t, q.Do(t.Context(), request(nil), patience, accept(q)))
}

// A leader whose context ends in the middle of its rejection was not taken.
func TestRemoteLeaderThatIsRejectedWasNotTaken(t *testing.T) {
	q := NewQueue[*Request]()
	q.Remote = true
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan struct{})
	err := q.Do(ctx, request(nil), patience, func(_ context.Context, r *Request) {
		q.withdraw(r) // as Reject does first
		cancel()
		<-told
	})
	close(told)
	require.ErrorIs(t, err, countersign.ErrRetryable)
	require.ErrorIs(t, err, context.Canceled)
}

func TestGroupsAreBounded(t *testing.T) {
	q := NewQueue[*Request]()
	for range maxGroup + 1 {
		q.waiting = append(q.waiting, &Request{Size: 1})
	}
	assert.Len(t, q.Take(), maxGroup)
	assert.Len(t, q.Take(), 1)
	for range 3 {
		q.waiting = append(q.waiting, &Request{Size: maxGroupBytes})
	}
	assert.Len(t, q.Take(), 1, "a large request goes alone")
}

// A single caller never waits for others, and callers that stay away are not
// waited for twice.
func TestGatheringWaitsOnlyForCallersThatThereWere(t *testing.T) {
	q := NewQueue[*Request]()
	q.Settle([]*Request{{Ticket: Ticket{done: make(chan struct{})}}}, time.Hour)
	assert.Equal(t, 1, q.expected)
	assert.LessOrEqual(t, q.patience, 200*time.Microsecond)
}
