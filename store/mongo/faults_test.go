package mongo_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
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

// made is a store on a fresh database with owners in it, through a client with
// options.
func made(t *testing.T, opts *mongo.Options, with func(*options.ClientOptions), owners ...string) *mongo.Store {
	t.Helper()
	uri := server(t)
	all := mongo.Options{}
	if opts != nil {
		all = *opts
	}
	all.Database = freshDatabase(t, uri)
	first, err := mongo.Open(t.Context(), uri, &all)
	require.NoError(t, err)
	for _, owner := range owners {
		_, err := first.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.EventHistory})
		require.NoError(t, err)
	}
	if with == nil {
		t.Cleanup(func() { assert.NoError(t, first.Close()) })
		return first
	}
	require.NoError(t, first.Close())
	// What a client leaves behind that loses its connections would keep the
	// database from being dropped.
	t.Cleanup(func() { endSessions(t, uri) })
	s, err := mongo.New(t.Context(), callersClient(t, uri, with), &all)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func commitTo(owner string, at uint64) durable.Commit {
	return durable.Commit{
		Owner:            owner,
		ExpectedPosition: at,
		Inbox:            durable.Inbox{ID: fmt.Sprintf("message %d", at+1), Fingerprint: []byte("sum")},
		State:            durable.Append(durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte("event")}),
		Effects:          []durable.Intent{{ID: fmt.Sprintf("effect %d", at+1), Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 1}}},
	}
}

// fail lets the server fail commands, until the test ends. A server without test
// commands fails the test: the promise would go unproved.
func fail(t *testing.T, s *mongo.Store, mode any, data bson.D) {
	t.Helper()
	admin := s.Client().Database("admin")
	set := func(mode any) error {
		return admin.RunCommand(context.Background(), bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode}, {Key: "data", Value: data}}).Err()
	}
	require.NoError(t, set(mode), "the server needs test commands: mongod --setParameter enableTestCommands=1")
	t.Cleanup(func() { assert.NoError(t, set("off")) })
}

func times(n int) bson.D { return bson.D{{Key: "times", Value: n}} }

var transientError = bson.D{
	{Key: "failCommands", Value: bson.A{"bulkWrite"}}, {Key: "errorCode", Value: 112},
	{Key: "errorLabels", Value: bson.A{"TransientTransactionError"}},
}

// A commit whose reply is lost is settled by repeating commitTransaction, and
// unknown only if no reply comes at all. Its repetition learns what happened.
func TestLostCommitReply(t *testing.T) {
	for _, carriedOut := range []bool{false, true} {
		for _, lost := range []int64{1, 3, 1000} {
			t.Run(fmt.Sprintf("carried out %v, %d lost", carriedOut, lost), func(t *testing.T) {
				var left atomic.Int64
				lose := func(command []byte) error {
					if named(command, "commitTransaction") && left.Add(-1) >= 0 {
						return errCut
					}
					return nil
				}
				w := &wire{send: lose}
				if carriedOut {
					w = &wire{reply: lose}
				}
				s := made(t, &mongo.Options{BusyTimeout: patience}, w.dial, "a")
				left.Store(lost)
				res, err := s.CommitOwner(t.Context(), commitTo("a", 0))
				if lost < 1000 {
					require.NoError(t, err)
					assert.Equal(t, durable.Committed{Through: 1}, res)
				} else {
					var unknown *durable.UnknownOutcomeError
					require.ErrorAs(t, err, &unknown)
					assert.ErrorIs(t, err, countersign.ErrUnknownOutcome)
					assert.Equal(t, "commit", unknown.Op)
					assert.False(t, res.AckSafe())
				}
				// The server may still hold the transaction, whose commit never came.
				// The store commits it as soon as it can.
				left.Store(0)
				res, err = s.CommitOwner(t.Context(), commitTo("a", 0))
				require.NoError(t, err)
				assert.Equal(t, durable.Committed{Through: 1, Duplicate: true}, res)
				img, err := durable.Recover(t.Context(), s, "a")
				require.NoError(t, err)
				assert.Len(t, img.Outbox, 1)
			})
		}
	}
}

// endSessions ends what clients left behind on the server that were lost.
func endSessions(t *testing.T, uri string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := callersClient(t, uri).Database("admin").RunCommand(ctx, bson.D{{Key: "killAllSessions", Value: bson.A{}}}).Err()
	if err != nil {
		t.Logf("killAllSessions: %v", err)
	}
}

var unanswered = bson.D{
	{Key: "failCommands", Value: bson.A{"commitTransaction"}}, {Key: "errorCode", Value: 50},
	{Key: "errorLabels", Value: bson.A{"UnknownTransactionCommitResult"}},
}

// What a commit of unknown result leaves on the server is settled and given back,
// so the owner is not locked against the repetition of the request.
func TestUnknownCommitIsSettledLater(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, nil, "a")
	before := s.Client().NumberSessionsInProgress()
	fail(t, s, times(8), unanswered)
	_, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
	res, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	assert.Equal(t, durable.Committed{Through: 1, Duplicate: true}, res)
	assert.Eventually(t, func() bool { return s.Client().NumberSessionsInProgress() == before }, patience, time.Millisecond)
}

// Close does not wait for a server that never says what became of a commit.
func TestCloseEndsTheSettling(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, func(*options.ClientOptions) {}, "a")
	fail(t, s, "alwaysOn", unanswered)
	_, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
	started := time.Now()
	require.NoError(t, s.Close())
	assert.Less(t, time.Since(started), patience/2)
}

func TestUnknownCommitOfATransaction(t *testing.T) {
	var left atomic.Int64
	s := made(t, &mongo.Options{BusyTimeout: patience}, (&wire{reply: func(command []byte) error {
		if named(command, "commitTransaction") && left.Add(-1) >= 0 {
			return errCut
		}
		return nil
	}}).dial, "a")
	left.Store(1000)
	var res durable.Committed
	err := s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) (err error) {
		res, err = tx.CommitOwner(ctx, commitTo("a", 0))
		return err
	})
	left.Store(0)
	var unknown *durable.UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, "transaction", unknown.Op)
	assert.False(t, res.AckSafe())
	res, err = s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	assert.Equal(t, durable.Committed{Through: 1, Duplicate: true}, res)
}

// The commit is cut by the server itself.
func TestCommitCutByTheServer(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, nil, "a")
	fail(t, s, times(2), bson.D{{Key: "failCommands", Value: bson.A{"commitTransaction"}}, {Key: "closeConnection", Value: true}})
	res, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	assert.Equal(t, durable.Committed{Through: 1}, res)
}

// A transaction that fails for a passing reason is run again from the beginning:
// its events are there once, and the caller's slices are as they were (B37).
func TestTransientErrorRepeatsTheWholeTransaction(t *testing.T) {
	for _, through := range []string{"the store", "a transaction"} {
		t.Run(through, func(t *testing.T) {
			s := made(t, &mongo.Options{BusyTimeout: patience}, nil, "a")
			c := commitTo("a", 0)
			c.State.AppendEvents = append(c.State.AppendEvents, c.State.AppendEvents[0], c.State.AppendEvents[0])
			before := c.Clone()
			fail(t, s, times(2), transientError)
			bodies := 0
			var res durable.Committed
			var err error
			if through == "the store" {
				res, err = s.CommitOwner(t.Context(), c)
			} else {
				err = s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) (err error) {
					bodies++
					res, err = tx.CommitOwner(ctx, c)
					return err
				})
				assert.Equal(t, 3, bodies)
			}
			require.NoError(t, err)
			assert.EqualValues(t, 3, res.Through)
			assert.True(t, res.AckSafe())
			assert.Equal(t, before, c.Clone(), "the caller's slices are as they were")
			img, err := durable.Recover(t.Context(), s, "a")
			require.NoError(t, err)
			assert.Len(t, img.History, 3)
			assert.Len(t, img.Outbox, 1)
		})
	}
}

// A transaction that can't succeed ends with its caller's context, or with the
// busy timeout (B37).
func TestPermanentTransientErrorEnds(t *testing.T) {
	for _, through := range []string{"the store", "a transaction"} {
		t.Run(through, func(t *testing.T) {
			s := made(t, &mongo.Options{BusyTimeout: 300 * time.Millisecond}, nil, "a")
			send := func(ctx context.Context) error {
				if through == "the store" {
					_, err := s.CommitOwner(ctx, commitTo("a", 0))
					return err
				}
				return s.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
					_, err := tx.CommitOwner(ctx, commitTo("a", 0))
					return err
				})
			}
			fail(t, s, "alwaysOn", transientError)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			started := time.Now()
			err := send(ctx)
			assert.Less(t, time.Since(started), 2*time.Second)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, countersign.ErrRetryable)

			err = send(t.Context())
			var busy *store.BusyError
			require.ErrorAs(t, err, &busy)
			img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
			require.NoError(t, err)
			assert.Zero(t, img.Position)
		})
	}
}

// A context that ends while the commit is under way gives no wrong result.
func TestContextEndedDuringTheCommit(t *testing.T) {
	var armed atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := made(t, nil, (&wire{send: func(command []byte) error {
		if named(command, "commitTransaction") && armed.CompareAndSwap(true, false) {
			cancel()
			return errCut
		}
		return nil
	}}).dial, "a")
	armed.Store(true)
	res, err := s.CommitOwner(ctx, commitTo("a", 0))
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
	}
	again, repeated := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, repeated)
	assert.EqualValues(t, 1, again.Through)
	if err == nil {
		assert.Equal(t, durable.Committed{Through: 1}, res)
		assert.True(t, again.Duplicate)
	}
}

// Replies are lost at random, of every command: nothing that was acknowledged is
// lost, nothing is there twice, and nothing is reported wrongly.
func TestRandomlyLostReplies(t *testing.T) {
	const goroutines, each = 8, 125
	var armed atomic.Bool
	var lost atomic.Int64
	lose := func([]byte) error {
		if armed.Load() && rand.IntN(50) == 0 {
			lost.Add(1)
			return errCut
		}
		return nil
	}
	var owners []string
	for g := range goroutines {
		owners = append(owners, fmt.Sprint("owner ", g))
	}
	s := made(t, &mongo.Options{BusyTimeout: patience}, (&wire{send: lose, reply: lose}).dial, owners...)
	armed.Store(true)
	var wg sync.WaitGroup
	var unknowns atomic.Int64
	for _, owner := range owners {
		wg.Go(func() {
			for at := range uint64(each) {
				maybe := false // an earlier sending of this commit may have been carried out
				for {
					res, err := s.CommitOwner(t.Context(), commitTo(owner, at))
					if err == nil {
						if res.Through != at+1 || res.Duplicate && !maybe {
							t.Errorf("%s at %d: %+v", owner, at, res)
						}
						break
					}
					switch {
					case errors.Is(err, countersign.ErrUnknownOutcome):
						maybe = true
						unknowns.Add(1)
					case !errors.Is(err, countersign.ErrRetryable):
						t.Errorf("%s at %d: %v", owner, at, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	armed.Store(false)
	t.Logf("%d messages lost, %d outcomes unknown", lost.Load(), unknowns.Load())
	for _, owner := range owners {
		img, err := durable.Recover(t.Context(), s, owner)
		require.NoError(t, err)
		assert.EqualValues(t, each, img.Position)
		assert.Len(t, img.Inbox, each)
		assert.Len(t, img.Outbox, each)
	}
}

// Many owners are written at once, and none hinders another (B39).
func TestManyOwnersAtOnce(t *testing.T) {
	const owners, each = 64, 20
	s := made(t, &mongo.Options{BusyTimeout: patience}, nil)
	var wg sync.WaitGroup
	for i := range owners {
		owner := fmt.Sprint("owner ", i)
		wg.Go(func() {
			_, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.EventHistory})
			assert.NoError(t, err)
			for at := range uint64(each) {
				res, err := s.CommitOwner(t.Context(), commitTo(owner, at))
				if !assert.NoError(t, err) {
					return
				}
				assert.Equal(t, durable.Committed{Through: at + 1}, res)
			}
		})
	}
	wg.Wait()
	for i := range owners {
		img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: fmt.Sprint("owner ", i), Parts: &durable.Parts{}})
		require.NoError(t, err)
		assert.EqualValues(t, each, img.Position)
	}
}

// A record that contradicts the owner's head is never taken for a duplicate,
// whichever key it has (B61).
func TestTakenKeysAreNoDuplicates(t *testing.T) {
	s := made(t, nil, nil, "a", "b")
	records := s.Database().Collection("countersign_owners")
	stray := func(owner, kind, id string, fields ...bson.E) {
		t.Helper()
		_, err := records.InsertOne(t.Context(), append(bson.D{{Key: "_id", Value: owner + "\x00" + kind + "\x00" + id}, {Key: "owner", Value: owner}}, fields...))
		require.NoError(t, err)
	}
	stray("a", "event", fmt.Sprintf("%016x", 1), bson.E{Key: "position", Value: int64(1)})
	_, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
	var bulk driver.ClientBulkWriteException
	require.ErrorAs(t, err, &bulk, "the driver's error is underneath")

	// The other keys are those of identities, and mean what the contract says.
	stray("b", "inbox", "message 1", bson.E{Key: "fingerprint", Value: []byte("another")}, bson.E{Key: "committed_through", Value: int64(1)})
	_, err = s.CommitOwner(t.Context(), commitTo("b", 0))
	var conflict *durable.IdentityConflictError
	require.ErrorAs(t, err, &conflict)
	assert.Equal(t, durable.InboxIdentity, conflict.Kind)
	c := commitTo("b", 0)
	c.Inbox.ID = "another message"
	stray("b", "effect", "effect 1", bson.E{Key: "accepted_at", Value: int64(1)}, bson.E{Key: "bytes", Value: []byte("another")})
	_, err = s.CommitOwner(t.Context(), c)
	require.ErrorAs(t, err, &conflict)
	assert.Equal(t, durable.EffectIdentity, conflict.Kind)
}

// Bytes that could not be names of fields come back as they are (B41), numbers
// keep their 64 bits (B43), and ids that look alike when joined are different
// (B57).
func TestBytesNumbersAndKeys(t *testing.T) {
	s := made(t, nil, nil, "a")
	payloads := []string{`{"a.b":1,"$set":{"$x":1},"":2}`, "\x00{\"\x00\":1}", string(slices.Repeat([]byte(`{"x":`), 150)) + "1" + string(slices.Repeat([]byte("}"), 150))}
	for i, p := range payloads {
		c := commitTo("a", uint64(i))
		c.State.AppendEvents[0].Bytes = []byte(p)
		_, err := s.CommitOwner(t.Context(), c)
		require.NoError(t, err)
	}
	page, err := s.ReadHistory(t.Context(), durable.ReadHistory{Owner: "a"})
	require.NoError(t, err)
	require.Len(t, page, len(payloads))
	for i, p := range payloads {
		assert.Equal(t, p, string(page[i].Payload.Bytes))
	}
	for _, fence := range []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<53 + 1, 1<<63 - 1} {
		owner := fmt.Sprint("owner ", fence)
		_, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.Snapshot, Fence: fence})
		require.NoError(t, err)
		img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: owner})
		require.NoError(t, err)
		assert.Equal(t, fence, img.Fence)
	}
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "too far", Mode: durable.Snapshot, Fence: 1 << 63})
	require.ErrorIs(t, err, countersign.ErrMalformed)
	for _, owner := range []string{"x", "x\x01inbox", "x\x1f", "xinbox", "x/inbox"} {
		_, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.EventHistory})
		require.NoError(t, err)
		_, err = s.CommitOwner(t.Context(), commitTo(owner, 0))
		require.NoError(t, err)
	}
	img, err := durable.Recover(t.Context(), s, "x")
	require.NoError(t, err)
	assert.Len(t, img.Inbox, 1)
}
