package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testClock stands still until it is moved.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var shop = eventlog.Log(countersign.Namespace{EventStore: "shop", Name: "eu"})

// world is a memory store with an observer's world around it.
type world struct {
	*testing.T
	store *memory.Store
	clock *testClock
	key   eventlog.ObserverKey

	mu   sync.Mutex
	seen []string // source@number, with " again" for a replay
	fail map[string]error
}

func newWorld(t *testing.T) *world {
	clock := &testClock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	w := &world{T: t, clock: clock, store: memory.OpenWith(memory.NewMedium(), &memory.Options{Clock: clock}), fail: map[string]error{}}
	w.key = eventlog.ObserverKey{Sequence: shop, Name: "reader"}
	_, err := w.store.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "happened", Schema: []byte(`true`)}, {ID: "other", Schema: []byte(`true`)}}})
	require.NoError(t, err)
	return w
}

func (w *world) append(sources ...string) {
	w.Helper()
	for _, source := range sources {
		_, err := w.store.AppendEvents(w.Context(), eventlog.AppendEvents{Sequence: shop, Events: []eventlog.Event{{Type: "happened", Source: source, Content: []byte(`{}`)}}})
		require.NoError(w, err)
	}
}

func (w *world) handle(_ context.Context, d eventlog.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail[d.Source]; err != nil {
		return err
	}
	what := fmt.Sprintf("%s@%d", d.Source, d.Number)
	if d.Replay {
		what += " again"
	}
	w.seen = append(w.seen, what)
	return nil
}

func (w *world) observer(handler eventlog.Handler, change ...func(*eventlog.ObserverOptions)) *eventlog.Observer {
	w.Helper()
	o := eventlog.ObserverOptions{Name: w.key.Name, Sequence: shop, PageSize: 2}
	for _, f := range change {
		f(&o)
	}
	observer, err := eventlog.NewObserver(w.store, handler, o)
	require.NoError(w, err)
	return observer
}

func (w *world) catchUp(want ...string) {
	w.Helper()
	w.seen = nil
	require.NoError(w, w.observer(w.handle).CatchUp(w.Context()))
	assert.Equal(w, want, w.seen)
}

func (w *world) partition(source string) eventlog.Partition {
	w.Helper()
	all, err := w.store.ReadPartitions(w.Context(), eventlog.ReadPartitions{Key: w.key})
	require.NoError(w, err)
	for _, p := range all {
		if p.Source == source {
			return p
		}
	}
	return eventlog.Partition{}
}

func TestObserverSeesEachEventOnceInOrder(t *testing.T) {
	w := newWorld(t)
	w.append("a", "b", "a", "c", "a")
	w.catchUp("a@0", "b@1", "a@2", "c@3", "a@4")
	w.catchUp()
	w.append("b")
	w.catchUp("b@5")
}

func TestObserverPassesWhatItsFilterLeavesOut(t *testing.T) {
	w := newWorld(t)
	w.append("a", "b", "a", "b", "b", "b")
	var seen []uint64
	o := w.observer(func(_ context.Context, d eventlog.Delivery) error { seen = append(seen, d.Number); return nil },
		func(o *eventlog.ObserverOptions) { o.Filter.Source = "a" })
	require.NoError(t, o.CatchUp(t.Context()))
	assert.Equal(t, []uint64{0, 2}, seen)
	state, err := w.store.ReadObserver(t.Context(), w.key)
	require.NoError(t, err)
	assert.EqualValues(t, 6, state.Next)
}

func TestFailedPartitionStopsAlone(t *testing.T) {
	w := newWorld(t)
	w.fail["a"] = errors.New("no\x00 \xff")
	w.append("a", "b", "a", "b")
	w.catchUp("b@1", "b@3")
	p := w.partition("a")
	assert.EqualValues(t, 0, p.From)
	assert.Equal(t, 1, p.Attempts)
	assert.Equal(t, "no\uFFFD \uFFFD", p.LastError)
	w.append("a", "b")
	w.catchUp("b@5")
	w.clock.move(999 * time.Millisecond)
	delete(w.fail, "a")
	w.catchUp() // not due
	w.clock.move(time.Millisecond)
	w.catchUp("a@0", "a@2", "a@4")
	assert.Zero(t, w.partition("a"))
	w.append("a")
	w.catchUp("a@6")
}

func TestPartitionIsQuarantinedAfterItsRetries(t *testing.T) {
	w := newWorld(t)
	w.fail["a"] = errors.New("broken")
	w.append("a", "b")
	w.catchUp("b@1")
	delay := time.Second
	for retry := 1; retry <= eventlog.MaxRetries; retry++ {
		p := w.partition("a")
		require.False(t, p.Quarantined)
		require.Equal(t, delay, p.RetryAt.Sub(w.clock.Now()))
		w.clock.move(delay - time.Microsecond)
		w.catchUp()
		require.Equal(t, retry, w.partition("a").Attempts, "too early")
		w.clock.move(time.Microsecond)
		w.catchUp()
		delay = min(2*delay, eventlog.LongestRetry)
	}
	require.True(t, w.partition("a").Quarantined)
	delete(w.fail, "a")
	w.clock.move(time.Hour)
	w.catchUp()

	_, err := w.store.RetryPartition(t.Context(), eventlog.RetryPartition{Key: w.key, Source: "a"})
	require.ErrorIs(t, err, countersign.ErrMalformed, "without an operator")
	_, err = w.store.RetryPartition(t.Context(), eventlog.RetryPartition{Key: w.key, Source: "b", Operator: "ops"})
	var not *eventlog.NotQuarantinedError
	require.ErrorAs(t, err, &not)
	p, err := w.store.RetryPartition(t.Context(), eventlog.RetryPartition{Key: w.key, Source: "a", Operator: "ops"})
	require.NoError(t, err)
	assert.Equal(t, "ops", p.Operator)
	assert.Equal(t, w.clock.Now(), p.OperatorAt)
	w.catchUp("a@0")
}

func TestReplayIsMarked(t *testing.T) {
	w := newWorld(t)
	w.append("a", "b", "a", "b")
	w.catchUp("a@0", "b@1", "a@2", "b@3")
	_, err := w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key, From: 2})
	require.NoError(t, err)
	w.append("a")
	w.catchUp("a@2 again", "b@3 again", "a@4")
	_, err = w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key, Source: "b", From: 0})
	require.NoError(t, err)
	w.append("b")
	w.catchUp("b@1 again", "b@3 again", "b@5")
	_, err = w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key, From: 7})
	require.ErrorIs(t, err, countersign.ErrMalformed, "events would be left out")
}

// A replay of everything that begins after the event at which a partition stands
// loses nothing of that partition.
func TestReplayKeepsWhatWasNotHandled(t *testing.T) {
	w := newWorld(t)
	w.fail["a"] = errors.New("broken")
	w.append("a", "b", "a", "b")
	w.catchUp("b@1", "b@3")
	_, err := w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key, From: 1})
	require.NoError(t, err)
	delete(w.fail, "a")
	w.clock.move(time.Second)
	w.catchUp("a@0", "a@2", "b@1 again", "a@2 again", "b@3 again")
}

// What a partition has not handled is no replay, whatever is replayed beside it.
func TestReplayPassesAFailedPartition(t *testing.T) {
	w := newWorld(t)
	w.append("a", "b")
	w.catchUp("a@0", "b@1")
	w.fail["a"] = errors.New("broken")
	w.append("a", "b", "a")
	w.catchUp("b@3")
	_, err := w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key, From: 0})
	require.NoError(t, err)
	delete(w.fail, "a")
	w.catchUp("a@0 again", "b@1 again", "b@3 again")
	w.clock.move(time.Second)
	w.catchUp("a@2", "a@4")
}

func TestHandlerThatPanicsOrEndsItsGoroutineFails(t *testing.T) {
	for name, f := range map[string]func(){
		"panic": func() { panic("x") }, "goexit": runtime.Goexit, "nil error": func() { panic(error(nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.append("a", "b")
			o := w.observer(func(_ context.Context, d eventlog.Delivery) error {
				if d.Source == "a" {
					f()
				}
				return nil
			})
			require.NoError(t, o.CatchUp(t.Context()))
			assert.Equal(t, 1, w.partition("a").Attempts)
			assert.NotEmpty(t, w.partition("a").LastError)
			assert.Zero(t, w.partition("b"))
		})
	}
}

func TestRunnersShareAnObserver(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	var counts [2]atomic.Int64
	var wg sync.WaitGroup
	all := make(chan struct{})
	var total atomic.Int64
	stops := make([]context.CancelFunc, 2)
	const events = 60
	for i := range 2 {
		o := w.observer(func(context.Context, eventlog.Delivery) error {
			counts[i].Add(1)
			if total.Add(1) == events {
				close(all)
			}
			return nil
		}, func(o *eventlog.ObserverOptions) { o.Lease = 30 * time.Millisecond })
		run, stop := context.WithCancel(ctx)
		stops[i] = stop
		wg.Go(func() { assert.ErrorIs(t, o.Run(run), context.Canceled) })
	}
	w.append(make30("a")...)
	for total.Load() < 30 {
		runtime.Gosched()
	}
	for i := range 2 { // whoever works stops, and the other one takes over
		if counts[i].Load() > 0 {
			stops[i]()
			break
		}
	}
	w.append(make30("b")...)
	<-all
	cancel()
	wg.Wait()
	assert.EqualValues(t, events, total.Load(), "each event once")
	stops[0]()
	stops[1]()
}

func make30(source string) []string {
	all := make([]string, 30)
	for i := range all {
		all[i] = source
	}
	return all
}

// A holder whose claim was taken over can't save any more.
func TestLateHolderIsRefused(t *testing.T) {
	w := newWorld(t)
	claim := eventlog.ClaimObserver{Key: w.key, Holder: "first", Lease: time.Second}
	first, err := w.store.ClaimObserver(t.Context(), claim)
	require.NoError(t, err)
	claim.Holder = "second"
	_, err = w.store.ClaimObserver(t.Context(), claim)
	var held *eventlog.ObserverHeldError
	require.ErrorAs(t, err, &held)
	w.clock.move(time.Second)
	second, err := w.store.ClaimObserver(t.Context(), claim)
	require.NoError(t, err)
	assert.Equal(t, first.Fence+1, second.Fence)
	_, err = w.store.SaveObserver(t.Context(), eventlog.SaveObserver{Key: w.key, Fence: first.Fence, Next: 9})
	var stale *eventlog.StaleObserverError
	require.ErrorAs(t, err, &stale)
	_, err = w.store.SaveObserver(t.Context(), eventlog.SaveObserver{Key: w.key, Fence: second.Fence, Next: 1})
	require.NoError(t, err)
}

func TestStoppedRunnerSavesWhatItHasDone(t *testing.T) {
	w := newWorld(t)
	w.append("a", "b", "c")
	ctx, cancel := context.WithCancel(t.Context())
	o := w.observer(func(_ context.Context, d eventlog.Delivery) error {
		if d.Number == 1 {
			cancel()
			return ctx.Err()
		}
		return nil
	}, func(o *eventlog.ObserverOptions) { o.PageSize = 10 })
	require.ErrorIs(t, o.Run(ctx), context.Canceled)
	state, err := w.store.ReadObserver(t.Context(), w.key)
	require.NoError(t, err)
	assert.EqualValues(t, 1, state.Next)
	assert.Empty(t, state.Holder, "the claim is given back")
	assert.Zero(t, w.partition("b"), "to be stopped is no failure")
}

func TestPartitionsAreHandledAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	w.append("a", "b", "a", "b", "c")
	both := make(chan struct{}, 2)
	last := map[string]uint64{}
	var mu sync.Mutex
	o := w.observer(func(ctx context.Context, d eventlog.Delivery) error {
		if d.Number < 2 { // the first of a and the first of b wait for each other
			both <- struct{}{}
			for len(both) < 2 && ctx.Err() == nil {
				runtime.Gosched()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if old, ok := last[d.Source]; ok && old > d.Number {
			t.Errorf("%s out of order", d.Source)
		}
		last[d.Source] = d.Number
		return nil
	}, func(o *eventlog.ObserverOptions) { o.Concurrency, o.PageSize = 2, 10 })
	require.NoError(t, o.CatchUp(t.Context()))
	assert.Equal(t, map[string]uint64{"a": 2, "b": 3, "c": 4}, last)
}

func TestRetryDelayNeverOverflows(t *testing.T) {
	last := time.Duration(0)
	for _, n := range []int{0, 1, 2, 3, 9, 10, 11, 64, 200, int(^uint(0) >> 1)} {
		d := eventlog.RetryDelay(n)
		assert.GreaterOrEqual(t, d, last)
		assert.LessOrEqual(t, d, eventlog.LongestRetry)
		last = d
	}
	assert.Equal(t, time.Second, eventlog.RetryDelay(1))
	assert.Equal(t, 8*time.Second, eventlog.RetryDelay(4))
}

func TestFollowWaitsForMore(t *testing.T) {
	w := newWorld(t)
	w.append("a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var numbers []uint64
	var last error
	for e, err := range eventlog.NewClient(w.store, shop).Follow(ctx, 0, eventlog.Filter{}) {
		if err != nil {
			last = err
			break
		}
		numbers = append(numbers, e.Number)
		switch e.Number {
		case 0:
			go w.append("b")
		case 1:
			cancel()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	assert.Equal(t, []uint64{0, 1}, numbers)
}

// A runner that has nothing to do notices a replay, long before its lease is over.
func TestIdleRunnerNoticesAReplay(t *testing.T) {
	w := newWorld(t)
	w.append("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	deliveries := make(chan eventlog.Delivery, 2)
	o := w.observer(func(_ context.Context, d eventlog.Delivery) error { deliveries <- d; return nil },
		func(o *eventlog.ObserverOptions) { o.Lease = eventlog.MaxLease })
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	assert.False(t, (<-deliveries).Replay)
	for state := (eventlog.ObserverState{}); state.Next == 0; { // it is idle once the cursor is saved
		var err error
		state, err = w.store.ReadObserver(t.Context(), w.key)
		require.NoError(t, err)
		runtime.Gosched()
	}
	_, err := w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key})
	require.NoError(t, err)
	select {
	case d := <-deliveries:
		assert.True(t, d.Replay)
	case <-ctx.Done():
		t.Fatal("the replay was not noticed")
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestReplayOfAQuarantinedPartitionKeepsIt(t *testing.T) {
	w := newWorld(t)
	w.fail["a"] = errors.New("broken")
	w.append("a", "a")
	w.catchUp()
	for range eventlog.MaxRetries {
		w.clock.move(eventlog.LongestRetry)
		w.catchUp()
	}
	require.True(t, w.partition("a").Quarantined)
	_, err := w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key, Source: "a"})
	require.NoError(t, err)
	assert.True(t, w.partition("a").Quarantined)
	assert.NotEmpty(t, w.partition("a").LastError)
}

// Nor does a replay of everything in which it fails at an earlier event.
func TestFailureInAReplayKeepsTheQuarantine(t *testing.T) {
	w := newWorld(t)
	w.append("a")
	w.catchUp("a@0")
	w.fail["a"] = errors.New("broken")
	w.append("a")
	w.catchUp()
	for range eventlog.MaxRetries {
		w.clock.move(eventlog.LongestRetry)
		w.catchUp()
	}
	require.True(t, w.partition("a").Quarantined)
	_, err := w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key})
	require.NoError(t, err)
	w.catchUp()
	assert.EqualValues(t, 0, w.partition("a").From)
	assert.True(t, w.partition("a").Quarantined)
	_, err = w.store.RetryPartition(t.Context(), eventlog.RetryPartition{Key: w.key, Source: "a", Operator: "ops"})
	require.NoError(t, err)
	delete(w.fail, "a")
	w.catchUp("a@0 again", "a@1")
}

// A partition that stands at one event may fail at an earlier one in a replay: what is
// between was handled, and comes with the mark of a replay. It has all its retries.
func TestFailureInAReplayKeepsTheMark(t *testing.T) {
	w := newWorld(t)
	w.append("a", "a", "a")
	w.catchUp("a@0", "a@1", "a@2")
	w.fail["a"] = errors.New("broken")
	w.append("a", "a")
	w.catchUp()
	for range eventlog.MaxRetries - 1 {
		w.clock.move(eventlog.LongestRetry)
		w.catchUp()
	}
	require.Equal(t, eventlog.MaxRetries, w.partition("a").Attempts)
	_, err := w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key})
	require.NoError(t, err)
	w.catchUp()
	p := w.partition("a")
	assert.Equal(t, 1, p.Attempts)
	assert.False(t, p.Quarantined)
	delete(w.fail, "a")
	w.clock.move(time.Second)
	w.catchUp("a@0 again", "a@1 again", "a@2 again", "a@3", "a@4")
}

// What a replay of a source names that the observer does not see is not delivered.
func TestReplayOfASourceKeepsTheFilter(t *testing.T) {
	w := newWorld(t)
	w.append("mine", "other")
	var seen []string
	o := w.observer(func(_ context.Context, d eventlog.Delivery) error { seen = append(seen, d.Source); return nil },
		func(o *eventlog.ObserverOptions) { o.Filter.Source = "mine" })
	require.NoError(t, o.CatchUp(t.Context()))
	_, err := w.store.ReplayObserver(t.Context(), eventlog.ReplayObserver{Key: w.key, Source: "other"})
	require.NoError(t, err)
	require.NoError(t, o.CatchUp(t.Context()))
	assert.Equal(t, []string{"mine"}, seen)
	assert.Zero(t, w.partition("other"))
}

// A namespace that is dropped under a runner begins a new life for it too, also where
// the runner's own claim is the first one of both.
func TestRunnerOutlivesADrop(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	numbers := make(chan uint64, 8)
	o := w.observer(func(_ context.Context, d eventlog.Delivery) error { numbers <- d.Number; return nil },
		func(o *eventlog.ObserverOptions) { o.Lease = 50 * time.Millisecond })
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	w.append("a", "a", "a")
	for want := range uint64(3) {
		require.Equal(t, want, <-numbers)
	}
	w.clock.move(time.Millisecond)
	_, err := w.store.DropNamespace(t.Context(), shop.Namespace)
	require.NoError(t, err)
	// Its heartbeat claims the observer of the new life before it looks itself.
	for claimed := false; !claimed; runtime.Gosched() {
		_, err := w.store.ReadObserver(t.Context(), w.key)
		claimed = err == nil
	}
	w.append("b")
	select {
	case n := <-numbers:
		assert.Zero(t, n)
	case <-ctx.Done():
		t.Fatal("the first event of the new life was not delivered")
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestNilContextIsRefused(t *testing.T) {
	w := newWorld(t)
	o := w.observer(w.handle)
	require.ErrorIs(t, o.Run(nil), countersign.ErrMalformed)     //nolint:staticcheck // on purpose
	require.ErrorIs(t, o.CatchUp(nil), countersign.ErrMalformed) //nolint:staticcheck // on purpose
}
