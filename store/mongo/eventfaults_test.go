package mongo_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/mongo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// An append whose transaction fails for a passing reason at its second command is run
// again from the beginning: its events are there once.
func TestTransientErrorRepeatsTheAppend(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, nil)
	registered(t, s)
	for i, through := range []string{"the store", "a transaction"} {
		fail(t, s, times(2), transientError)
		req := withReceipt(through, placed("a"), placed("b"))
		var res receipt.Result
		var err error
		if through == "the store" {
			res, err = s.AppendWithReceipt(t.Context(), req)
		} else {
			err = s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) (err error) {
				res, err = tx.AppendWithReceipt(ctx, req)
				return err
			})
		}
		require.NoError(t, err)
		assert.False(t, res.AlreadyRecorded)
		assert.True(t, res.AckSafe())
		assert.EqualValues(t, 2*i, res.Receipt.First)
		assert.Len(t, numbers(t, s), 2*i+2)
	}
}

// What can't succeed ends with the busy timeout, and leaves no trace.
func TestAppendThatAlwaysConflictsIsBusy(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: 200 * time.Millisecond}, nil)
	registered(t, s)
	fail(t, s, "alwaysOn", transientError)
	_, err := s.AppendEvents(t.Context(), appendOf(placed("a")))
	var busy *store.BusyError
	require.ErrorAs(t, err, &busy)
	assert.Empty(t, numbers(t, s))
}

// An append whose commit is not answered is unknown. With a receipt it is repeated as
// it is; without one, the error says where to look.
func TestUnknownCommitOfAnAppend(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, nil)
	registered(t, s)
	_, err := s.AppendEvents(t.Context(), appendOf(placed("a")))
	require.NoError(t, err)

	fail(t, s, times(8), unanswered)
	_, err = s.AppendWithReceipt(t.Context(), withReceipt("o", placed("a")))
	var ofReceipt *receipt.UnknownOutcomeError
	require.ErrorAs(t, err, &ofReceipt)
	res, err := s.AppendWithReceipt(t.Context(), withReceipt("o", placed("a")))
	require.NoError(t, err)
	assert.True(t, res.AlreadyRecorded)
	assert.EqualValues(t, 1, res.Receipt.First)

	fail(t, s, times(8), unanswered)
	_, err = s.AppendEvents(t.Context(), appendOf(placed("a")))
	var ofAppend *eventlog.UnknownOutcomeError
	require.ErrorAs(t, err, &ofAppend)
	assert.Equal(t, eventlog.OpAppend, ofAppend.Op)
	assert.EqualValues(t, 2, ofAppend.From)
	require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
	// It is settled by the store itself.
	require.Eventually(t, func() bool { return len(numbers(t, s)) == 3 }, patience, 10*time.Millisecond)

	// What writes nothing has no outcome.
	fail(t, s, times(8), unanswered)
	_, err = s.AppendWithReceipt(t.Context(), withReceipt("o", placed("a")))
	require.ErrorIs(t, err, countersign.ErrRetryable)

	key := eventlog.ObserverKey{Sequence: orders, Name: "mailer"}
	fail(t, s, times(8), unanswered)
	_, err = s.ClaimObserver(t.Context(), eventlog.ClaimObserver{Key: key, Holder: "me"})
	require.ErrorAs(t, err, &ofAppend)
	assert.Equal(t, eventlog.OpClaimObserver, ofAppend.Op)
	_, err = s.ClaimObserver(t.Context(), eventlog.ClaimObserver{Key: key, Holder: "me"})
	require.NoError(t, err)

	fail(t, s, times(8), unanswered)
	_, err = s.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "late", Schema: []byte(`true`)}}})
	require.ErrorAs(t, err, &ofAppend)
	assert.Equal(t, eventlog.OpRegisterEventTypes, ofAppend.Op)

	fail(t, s, times(8), unanswered)
	_, err = s.DropNamespace(t.Context(), europe)
	require.ErrorAs(t, err, &ofAppend)
	assert.Equal(t, eventlog.OpDropNamespace, ofAppend.Op)
	require.Eventually(t, func() bool { return len(numbers(t, s)) == 0 }, patience, 10*time.Millisecond)

	fail(t, s, times(8), unanswered)
	err = s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		_, err := tx.AppendEvents(ctx, appendOf(placed("a")))
		return err
	})
	var ofTransaction *durable.UnknownOutcomeError
	require.ErrorAs(t, err, &ofTransaction)
	// Not before it is settled: SecantusDB waits for ever for an open transaction when
	// the database is dropped.
	require.Eventually(t, func() bool { return len(numbers(t, s)) == 1 }, patience, 10*time.Millisecond)
}

// A caller that goes while its append is on its way learns an unknown outcome, and
// its group is finished without it.
func TestCallerGoesDuringTheAppend(t *testing.T) {
	var armed atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	s := made(t, &mongo.Options{BusyTimeout: patience}, (&wire{send: func(command []byte) error {
		if named(command, "commitTransaction") && armed.CompareAndSwap(true, false) {
			cancel()
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}}).dial)
	registered(t, s)
	armed.Store(true)
	_, err := s.AppendWithReceipt(ctx, withReceipt("o", placed("a")))
	if err != nil {
		require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
		require.ErrorIs(t, err, context.Canceled)
	}
	res, err := s.AppendWithReceipt(t.Context(), withReceipt("o", placed("a")))
	require.NoError(t, err)
	assert.True(t, res.AlreadyRecorded)
	assert.Len(t, numbers(t, s), 1)
	_, err = s.AppendWithReceipt(ctx, withReceipt("p", placed("a")))
	var notTaken *store.NotTakenError
	require.ErrorAs(t, err, &notTaken)
}

// Messages are lost at random, of every command, while several callers append: nothing
// that was acknowledged is lost, nothing is there twice, and nothing is reported
// wrongly.
func TestAppendsWithRandomlyLostMessages(t *testing.T) {
	const goroutines, each = 6, 40
	var armed atomic.Bool
	lose := func([]byte) error {
		if armed.Load() && rand.IntN(50) == 0 {
			return errCut
		}
		return nil
	}
	s := made(t, &mongo.Options{BusyTimeout: patience}, (&wire{send: lose, reply: lose}).dial)
	registered(t, s)
	armed.Store(true)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				maybe := false
				for {
					req := withReceipt(fmt.Sprint(g, " ", i), namedEvent(fmt.Sprint(g, " ", i), fmt.Sprint(g, " ", i)))
					req.Sequence.Name = fmt.Sprint("sequence ", g%2)
					res, err := s.AppendWithReceipt(t.Context(), req)
					if err == nil {
						assert.True(t, maybe || !res.AlreadyRecorded)
						break
					}
					if maybe = maybe || errors.Is(err, countersign.ErrUnknownOutcome); !errors.Is(err, countersign.ErrUnknownOutcome) && !errors.Is(err, countersign.ErrRetryable) {
						t.Errorf("%d at %d: %v", g, i, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	armed.Store(false)
	found := map[string]bool{}
	for i := range 2 {
		next := uint64(0)
		for e, err := range eventlog.Events(t.Context(), s, eventlog.ReadEvents{Sequence: eventlog.Sequence{Namespace: europe, Name: fmt.Sprint("sequence ", i)}}) {
			require.NoError(t, err)
			assert.Equal(t, next, e.Number)
			assert.False(t, found[e.Source], "twice: %s", e.Source)
			found[e.Source], next = true, e.Number+1
		}
	}
	assert.Len(t, found, goroutines*each)
}

// storedOf counts the documents of a kind that are stored, seen or not.
func storedOf(t *testing.T, s *mongo.Store, collection string, filter bson.D) int64 {
	t.Helper()
	n, err := s.Database().Collection("countersign_"+collection).CountDocuments(t.Context(), filter)
	require.NoError(t, err)
	return n
}

// A drop that is interrupted is invisible from its first step on; a new life of the
// namespace sees nothing of what is left, and loses nothing to the call that goes on.
func TestInterruptedDropGoesOn(t *testing.T) {
	s := made(t, nil, nil)
	registered(t, s)
	other := withReceipt("o", placed("a"))
	other.Sequence.Namespace.Name = "america"
	_, err := s.AppendWithReceipt(t.Context(), other)
	require.NoError(t, err)
	many := make([]eventlog.Event, 300)
	for i := range many {
		many[i] = namedEvent(fmt.Sprint("source ", i), fmt.Sprint("name ", i))
	}
	for i := range 2 { // the second time the sources hold their names already
		_, err := s.AppendWithReceipt(t.Context(), withReceipt(fmt.Sprint(i), many...))
		require.NoError(t, err)
	}
	key := eventlog.ObserverKey{Sequence: orders, Name: "mailer"}
	state, err := s.ClaimObserver(t.Context(), eventlog.ClaimObserver{Key: key, Holder: "me"})
	require.NoError(t, err)
	_, err = s.SaveObserver(t.Context(), eventlog.SaveObserver{Key: key, Fence: state.Fence, Next: 5, Partitions: []eventlog.PartitionProgress{{Source: "source 1", Failed: true}}})
	require.NoError(t, err)

	// The first command deletes the heads. The next one does not reach the server's data.
	fail(t, s, bson.D{{Key: "skip", Value: 1}, {Key: "times", Value: 1}}, bson.D{{Key: "failCommands", Value: bson.A{"bulkWrite"}}, {Key: "errorCode", Value: 2}})
	_, err = s.DropNamespace(t.Context(), europe)
	var unknown *eventlog.UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
	assert.EqualValues(t, 601, storedOf(t, s, "events", bson.D{}))

	// Nothing of it is seen, and all of it is free.
	assert.Empty(t, numbers(t, s))
	tail, err := s.ReadTail(t.Context(), eventlog.ReadTail{Sequence: orders, Filter: eventlog.Filter{Source: "source 1"}})
	require.NoError(t, err)
	assert.Equal(t, eventlog.Tail{}, tail)
	receipts, err := s.ListReceipts(t.Context(), receipt.ListReceipts{Namespace: europe, Occurrences: []string{"0", "1"}})
	require.NoError(t, err)
	assert.Empty(t, receipts)
	_, err = s.ReadObserver(t.Context(), key)
	var none *eventlog.UnknownObserverError
	require.ErrorAs(t, err, &none)
	res, err := s.AppendWithReceipt(t.Context(), withReceipt("0", namedEvent("another", "name 1")))
	require.NoError(t, err)
	assert.False(t, res.AlreadyRecorded)
	assert.Zero(t, res.Receipt.First)

	// A call for another namespace leaves it alone; one that goes on deletes the new life too.
	dropped, err := s.DropNamespace(t.Context(), other.Sequence.Namespace)
	require.NoError(t, err)
	assert.Equal(t, eventlog.Dropped{Sequences: 1, Events: 1, Receipts: 1}, dropped)
	assert.Equal(t, []uint64{0}, numbers(t, s))
	dropped, err = s.DropNamespace(t.Context(), europe)
	require.NoError(t, err)
	assert.Equal(t, eventlog.Dropped{Sequences: 1, Events: 601, Receipts: 3}, dropped, "the heads were counted by the other call")
	assert.Zero(t, storedOf(t, s, "events", bson.D{}))
	kept := bson.D{{Key: "kind", Value: bson.D{{Key: "$nin", Value: bson.A{"clock", "definitions", "definition"}}}}}
	assert.Zero(t, storedOf(t, s, "log", kept))
}

// One that was interrupted in the middle of a long sequence goes on there.
func TestInterruptedDropOfALongSequence(t *testing.T) {
	s := made(t, nil, nil)
	registered(t, s)
	many := make([]eventlog.Event, 400)
	for i := range many {
		many[i] = placed("a")
	}
	for range 3 {
		_, err := s.AppendEvents(t.Context(), appendOf(many...))
		require.NoError(t, err)
	}
	// The heads, a page of events, the notes of which nothing is left, and then the next page.
	fail(t, s, bson.D{{Key: "skip", Value: 3}, {Key: "times", Value: 1}}, bson.D{{Key: "failCommands", Value: bson.A{"bulkWrite"}}, {Key: "errorCode", Value: 2}})
	_, err := s.DropNamespace(t.Context(), europe)
	require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
	left := storedOf(t, s, "events", bson.D{})
	assert.Greater(t, left, int64(0))
	assert.Less(t, left, int64(1200))
	_, err = s.AppendEvents(t.Context(), appendOf(placed("new")))
	require.NoError(t, err)
	assert.Equal(t, []uint64{0}, numbers(t, s))
	dropped, err := s.DropNamespace(t.Context(), europe)
	require.NoError(t, err)
	assert.Equal(t, eventlog.Dropped{Sequences: 1, Events: left + 1}, dropped)
	assert.Zero(t, storedOf(t, s, "events", bson.D{}))
}
