package mongo_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/mongo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// waits awaits the event under a number, and says when it has come.
func waits(t *testing.T, s *mongo.Store, from uint64) <-chan time.Time {
	came := make(chan time.Time, 1)
	go func() {
		assert.NoError(t, s.AwaitEvents(t.Context(), eventlog.AwaitEvents{Sequence: orders, From: from}))
		came <- time.Now()
	}()
	return came
}

// Appends through another handle wake those who wait long before they would look.
func TestChangeStreamWakes(t *testing.T) {
	s := made(t, nil, nil)
	other, err := mongo.Open(t.Context(), server(t), &mongo.Options{Database: s.Database().Name()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, other.Close()) })
	registered(t, s)
	came := waits(t, s, 0)
	require.Eventually(t, func() bool { return mongo.Watching(s) }, 10*time.Second, time.Millisecond)
	fastest := time.Hour
	for i := range uint64(5) {
		time.Sleep(50 * time.Millisecond) // it waits by now
		_, err := other.AppendEvents(t.Context(), appendOf(placed("a")))
		require.NoError(t, err)
		appended := time.Now()
		fastest = min(fastest, (<-came).Sub(appended))
		came = waits(t, s, i+1)
	}
	assert.Less(t, fastest, 250*time.Millisecond, "looking alone would take up to a second")
	_, err = other.AppendEvents(t.Context(), appendOf(placed("a")))
	require.NoError(t, err)
	<-came
}

// There is one stream for all who wait, and Close ends it and them.
func TestCloseEndsTheChangeStream(t *testing.T) {
	var streams atomic.Int64
	s := made(t, nil, func(o *options.ClientOptions) {
		o.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if stage, err := e.Command.LookupErr("pipeline", "0", "$changeStream"); err == nil && stage.Type == bson.TypeEmbeddedDocument {
				streams.Add(1)
			}
		}})
	})
	before := s.Client().NumberSessionsInProgress()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			err := s.AwaitEvents(t.Context(), eventlog.AwaitEvents{Sequence: orders})
			assert.ErrorIs(t, err, store.ErrClosed)
		})
	}
	require.Eventually(t, func() bool { return mongo.Watching(s) }, 10*time.Second, time.Millisecond)
	assert.EqualValues(t, 1, streams.Load())
	started := time.Now()
	require.NoError(t, s.Close())
	wg.Wait()
	assert.Less(t, time.Since(started), 3*time.Second)
	assert.False(t, mongo.Watching(s))
	assert.Eventually(t, func() bool { return s.Client().NumberSessionsInProgress() == before }, 5*time.Second, time.Millisecond)
}

// Without change streams, those who wait look by themselves.
func TestWaitingWithoutAChangeStream(t *testing.T) {
	s := made(t, nil, func(o *options.ClientOptions) {
		(&wire{send: func(command []byte) error {
			if named(command, "$changeStream") {
				return errCut
			}
			return nil
		}}).dial(o)
	})
	registered(t, s)
	came := waits(t, s, 0)
	other, err := mongo.Open(t.Context(), server(t), &mongo.Options{Database: s.Database().Name()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, other.Close()) })
	time.Sleep(100 * time.Millisecond)
	_, err = other.AppendEvents(t.Context(), appendOf(placed("a")))
	require.NoError(t, err)
	appended := time.Now()
	assert.Less(t, (<-came).Sub(appended), 2*time.Second)
	assert.False(t, mongo.Watching(s))
}

// A stream that the server ends is opened again.
func TestLostChangeStreamIsOpenedAgain(t *testing.T) {
	s := made(t, nil, nil)
	registered(t, s)
	came := waits(t, s, 0)
	require.Eventually(t, func() bool { return mongo.Watching(s) }, 10*time.Second, time.Millisecond)
	fail(t, s, times(1), bson.D{{Key: "failCommands", Value: bson.A{"getMore"}}, {Key: "errorCode", Value: 280}}) // its place in the oplog is gone
	require.Eventually(t, func() bool { return !mongo.Watching(s) }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return mongo.Watching(s) }, 10*time.Second, time.Millisecond)
	_, err := s.AppendEvents(t.Context(), appendOf(placed("a")))
	require.NoError(t, err)
	<-came
}
