package mongo_test

import (
	"context"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/mongo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// watchful looks at its server twice a second, so that one is soon found again that
// only said that it steps down.
func watchful(o *options.ClientOptions) {
	o.SetHeartbeatInterval(500 * time.Millisecond).SetServerMonitoringMode(options.ServerMonitoringModePoll)
}

// A server that steps down or shuts down says so, and the driver asks it once
// more. The store goes on until there is a primary again.
func TestFailoverIsWaitedFor(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, watchful, "a")
	for name, send := range map[string]struct {
		command string
		request func(context.Context) error
	}{
		"load": {"find", func(ctx context.Context) error { _, err := s.LoadOwner(ctx, durable.LoadOwner{Owner: "a"}); return err }},
		"pending": {"find", func(ctx context.Context) error {
			_, err := s.ReadPending(ctx, durable.ReadPending{Owner: "a"})
			return err
		}},
		"history": {"find", func(ctx context.Context) error {
			_, err := s.ReadHistory(ctx, durable.ReadHistory{Owner: "a"})
			return err
		}},
		"parts": {"find", func(ctx context.Context) error {
			_, err := s.LoadOwner(ctx, durable.LoadOwner{Owner: "a", Parts: &durable.Parts{State: true, Pending: true}})
			return err
		}},
		"commit": {"bulkWrite", func(ctx context.Context) error { _, err := s.CommitOwner(ctx, commitTo("a", 0)); return err }},
		"transaction": {"find", func(ctx context.Context) error {
			return s.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
				_, err := tx.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
				return err
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			fail(t, s, times(3), bson.D{{Key: "failCommands", Value: bson.A{send.command}}, {Key: "errorCode", Value: 189}})
			require.NoError(t, send.request(t.Context()))
		})
	}
}

// If it lasts, the request may be repeated later: nothing is wrong with the store.
func TestFailoverThatLastsIsRetryable(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: 100 * time.Millisecond}, watchful, "a")
	fail(t, s, "alwaysOn", bson.D{{Key: "failCommands", Value: bson.A{"find", "bulkWrite"}}, {Key: "errorCode", Value: 262}})
	_, read := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	_, write := s.CommitOwner(t.Context(), commitTo("a", 0))
	for _, err := range []error{read, write} {
		var unavailable *store.UnavailableError
		require.ErrorAs(t, err, &unavailable)
		require.ErrorIs(t, err, countersign.ErrRetryable)
	}
	for _, code := range []int32{6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436} {
		require.ErrorIs(t, mongo.Wrap(t.Context(), driver.CommandError{Code: code}), countersign.ErrRetryable, "%d", code)
	}
	for _, label := range []string{"RetryableError", "RetryableWriteError", "SystemOverloadedError", "NetworkError"} {
		require.ErrorIs(t, mongo.Wrap(t.Context(), driver.CommandError{Code: 1, Labels: []string{label}}), countersign.ErrRetryable, label)
	}
	require.ErrorIs(t, mongo.Wrap(t.Context(), driver.CommandError{Code: 1}), countersign.ErrRefused)
}

// A read is not repeated for longer than its caller waits.
func TestReadDuringAFailoverEndsWithItsContext(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, watchful, "a")
	fail(t, s, "alwaysOn", bson.D{{Key: "failCommands", Value: bson.A{"find"}}, {Key: "errorCode", Value: 11602}})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, err, countersign.ErrRetryable)
}
