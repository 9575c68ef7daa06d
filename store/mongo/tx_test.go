package mongo_test

import (
	"context"
	"testing"
	"testing/synctest"
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
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// session is one of the caller's on the store's client, and a context with it.
func session(t *testing.T, s *mongo.Store, opts ...options.Lister[options.SessionOptions]) (context.Context, *driver.Session) {
	t.Helper()
	session, err := s.Client().StartSession(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { session.EndSession(context.Background()) })
	return driver.NewSessionContext(t.Context(), session), session
}

// requests are all that a backend can be asked, of an owner at position 0.
func requests(ctx context.Context, b store.Backend) map[string]error {
	all := map[string]error{}
	_, all["CreateOwner"] = b.CreateOwner(ctx, durable.CreateOwner{Owner: "new", Mode: durable.Snapshot})
	_, all["CommitOwner"] = b.CommitOwner(ctx, commitTo("a", 0))
	_, all["AdvanceFence"] = b.AdvanceFence(ctx, durable.AdvanceFence{Owner: "a", Fence: 7})
	_, all["RecordReceipt"] = b.RecordReceipt(ctx, durable.RecordReceipt{Owner: "a", Receipt: durable.TerminalReceipt{
		ID: "r", EffectID: "effect 1", Outcome: durable.Applied, Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 1},
	}})
	_, all["LoadOwner"] = b.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
	_, all["LoadOwner of parts"] = b.LoadOwner(ctx, durable.LoadOwner{Owner: "a", Parts: &durable.Parts{State: true, Pending: true}})
	_, all["ReadHistory"] = b.ReadHistory(ctx, durable.ReadHistory{Owner: "a"})
	_, all["ReadPending"] = b.ReadPending(ctx, durable.ReadPending{Owner: "a"})
	key := eventlog.ObserverKey{Sequence: orders, Name: "mailer"}
	_, all["RegisterEventTypes"] = b.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "placed", Schema: []byte(`true`)}}})
	_, all["AppendEvents"] = b.AppendEvents(ctx, appendOf(placed("a")))
	_, all["AppendWithReceipt"] = b.AppendWithReceipt(ctx, withReceipt("o", placed("a")))
	_, all["RecordEffect"] = b.RecordEffect(ctx, receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: europe, Occurrence: "p", Effect: "e"}}})
	_, all["ListReceipts"] = b.ListReceipts(ctx, receipt.ListReceipts{Namespace: europe, Occurrences: []string{"o"}})
	_, all["ReadEvents"] = b.ReadEvents(ctx, eventlog.ReadEvents{Sequence: orders})
	_, all["ReadTail"] = b.ReadTail(ctx, eventlog.ReadTail{Sequence: orders})
	_, all["ClaimObserver"] = b.ClaimObserver(ctx, eventlog.ClaimObserver{Key: key, Holder: "me"})
	_, all["ReadPartitions"] = b.ReadPartitions(ctx, eventlog.ReadPartitions{Key: key})
	_, all["DropNamespace"] = b.DropNamespace(ctx, europe)
	return all
}

// untouched says that nothing of requests was written.
func untouched(t *testing.T, s *mongo.Store) {
	t.Helper()
	img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.NoError(t, err)
	assert.Equal(t, durable.Head{Owner: "a", Mode: durable.EventHistory}, img.Head)
	assert.Empty(t, img.Inbox)
	_, err = s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "new"})
	var unknown *durable.UnknownOwnerError
	require.ErrorAs(t, err, &unknown)
	assert.EqualValues(t, 1, storedOf(t, s, "log", bson.D{}), "the clock")
	assert.Zero(t, storedOf(t, s, "events", bson.D{}))
}

// After the caller's transaction has ended, the driver would send everything in
// its session by itself, outside any transaction.
func TestTxEndsWithTheCallersTransaction(t *testing.T) {
	abort := func(s *driver.Session) error { return s.AbortTransaction(context.Background()) }
	commit := func(s *driver.Session) error { return s.CommitTransaction(context.Background()) }
	end := func(s *driver.Session) error { s.EndSession(context.Background()); return nil }
	for name, ended := range map[string]func(*driver.Session) error{"abort": abort, "commit": commit, "end of the session": end} {
		for _, used := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				s := made(t, nil, nil, "a")
				ctx, session := session(t, s, options.Session().SetCausalConsistency(false))
				require.NoError(t, session.StartTransaction(mongo.TransactionOptions()))
				tx := s.Tx(ctx)
				if used {
					_, err := tx.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
					require.NoError(t, err)
				}
				require.NoError(t, ended(session))
				for request, err := range requests(ctx, tx) {
					require.ErrorIs(t, err, store.ErrTxDone, request)
				}
				untouched(t, s)
			})
		}
	}
}

// The same of a body that ends the transaction of its own store.
func TestBodyThatAbortsWritesNothingMore(t *testing.T) {
	s := made(t, nil, nil, "a")
	own := assert.AnError
	err := s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		require.NoError(t, driver.SessionFromContext(ctx).AbortTransaction(ctx))
		for request, err := range requests(ctx, tx) {
			require.ErrorIs(t, err, store.ErrTxDone, request)
		}
		return own
	})
	require.Equal(t, own, err)
	untouched(t, s)
}

// Some sessions can't have a transaction at all.
func TestTxNeedsATransactionUnderWay(t *testing.T) {
	unacknowledged := options.Transaction().SetWriteConcern(writeconcern.Unacknowledged())
	for name, opts := range map[string]*options.SessionOptionsBuilder{
		"not started":    options.Session(),
		"snapshot":       options.Session().SetSnapshot(true).SetCausalConsistency(false),
		"unacknowledged": options.Session().SetCausalConsistency(false).SetDefaultTransactionOptions(unacknowledged),
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t, &mongo.Options{BusyTimeout: time.Second}, nil, "a")
			ctx, session := session(t, s, opts)
			for request, err := range requests(ctx, s.Tx(ctx)) {
				require.ErrorIs(t, err, countersign.ErrMalformed, request)
			}
			assert.False(t, session.TransactionRunning(), "nothing is started either")
			untouched(t, s)
		})
	}
	t.Run("ended", func(t *testing.T) {
		s := made(t, nil, nil, "a")
		ctx, session := session(t, s)
		session.EndSession(ctx)
		_, err := s.Tx(ctx).CommitOwner(ctx, commitTo("a", 0))
		require.ErrorIs(t, err, countersign.ErrMalformed)
	})
}

// A body that aborts and returns nil has not committed anything, and nobody need
// wonder.
func TestBodyThatAborts(t *testing.T) {
	s := made(t, nil, nil, "a")
	for _, used := range []bool{true, false} {
		err := s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
			if used {
				_, err := tx.CommitOwner(ctx, commitTo("a", 0))
				require.NoError(t, err)
			}
			return driver.SessionFromContext(ctx).AbortTransaction(ctx)
		})
		require.ErrorIs(t, err, store.ErrTxDone)
		untouched(t, s)
	}
}

// What a body returns does not make it run again, whatever lies underneath, unless
// it is the driver's error of a command in the session.
func TestBodysOwnErrors(t *testing.T) {
	labelled := driver.CommandError{Code: 251, Labels: []string{"TransientTransactionError"}}
	s := made(t, nil, nil, "a")
	for name, test := range map[string]struct {
		err  error
		runs int
	}{
		"unknown outcome of another store": {&durable.UnknownOutcomeError{Op: durable.OpCommit, Err: labelled}, 1},
		"code without a label":             {driver.CommandError{Code: 112}, 1},
		"conflict of an own document":      {labelled, 2},
	} {
		runs := 0
		err := s.Atomically(t.Context(), func(context.Context, store.Backend) error {
			if runs++; runs > 1 {
				return assert.AnError
			}
			return test.err
		})
		assert.Equal(t, test.runs, runs, name)
		if test.runs == 1 {
			assert.Equal(t, test.err, err, name)
		}
	}
}

// A conflict makes the body run again also if the body returns another error for it.
func TestConflictThatTheBodyTranslates(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, nil, "a")
	fail(t, s, times(2), transientError)
	runs := 0
	require.NoError(t, s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		runs++
		if _, err := tx.CommitOwner(ctx, commitTo("a", 0)); err != nil {
			return assert.AnError
		}
		return nil
	}))
	assert.Equal(t, 3, runs)
}

// A server that takes a command and never answers does not hold the caller for ever.
func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		late, cancel := mongo.Patient(context.Background())
		defer cancel()
		<-late.Done()
		assert.Equal(t, 30*time.Second, time.Since(started))

		ctx, end := context.WithCancel(t.Context())
		late, cancel = mongo.Patient(ctx)
		defer cancel()
		end()
		started = time.Now()
		<-late.Done()
		assert.Equal(t, time.Second, time.Since(started))
	})
}
