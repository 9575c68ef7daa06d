package mongo_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/mongo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var (
	europe = countersign.Namespace{EventStore: "shop", Name: "europe"}
	orders = eventlog.Log(europe)
)

// registered registers what the tests append: any "placed", and "named", whose name
// belongs to one source.
func registered(t testing.TB, s eventlog.Store) {
	t.Helper()
	_, err := s.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{
		{ID: "placed", Schema: []byte(`true`)}, {ID: "named", Schema: []byte(`{"required":["name"]}`)},
	}})
	require.NoError(t, err)
	_, err = s.RegisterConstraints(t.Context(), eventlog.RegisterConstraints{EventStore: "shop", Constraints: []eventlog.Constraint{
		{Name: "name", Kind: eventlog.UniqueValue, Covers: []eventlog.Covered{{Type: "named", Properties: []string{"name"}}}},
	}})
	require.NoError(t, err)
}

func placed(source string) eventlog.Event {
	return eventlog.Event{Type: "placed", Source: source, Content: []byte(`{"a.b":1,"$set":{"":2}}`)}
}

func namedEvent(source, name string) eventlog.Event {
	return eventlog.Event{Type: "named", Source: source, Content: fmt.Appendf(nil, `{"name":%q}`, name)}
}

func appendOf(events ...eventlog.Event) eventlog.AppendEvents {
	return eventlog.AppendEvents{Sequence: orders, Events: events}
}

func withReceipt(occurrence string, events ...eventlog.Event) receipt.AppendWithReceipt {
	return receipt.AppendWithReceipt{AppendEvents: appendOf(events...), Occurrence: occurrence, Effect: "effect", Response: []byte(` {"ok" : true} `)}
}

// numbers are those of all events in the sequence.
func numbers(t testing.TB, s eventlog.Store) []uint64 {
	t.Helper()
	var all []uint64
	for e, err := range eventlog.Events(t.Context(), s, eventlog.ReadEvents{Sequence: orders}) {
		require.NoError(t, err)
		all = append(all, e.Number)
	}
	return all
}

// A usual append with its receipt is three round trips, and a hit is two.
func TestUsualAppendIsThreeRoundTrips(t *testing.T) {
	var seen commands
	s := made(t, nil, seen.monitor)
	registered(t, s)
	_, err := s.AppendEvents(t.Context(), appendOf(namedEvent("a", "Ann")))
	require.NoError(t, err)
	for _, want := range []int{3, 2} {
		seen.all = nil
		res, err := s.AppendWithReceipt(t.Context(), withReceipt("o", namedEvent("b", "Bob"), placed("b")))
		require.NoError(t, err)
		assert.Equal(t, want == 2, res.AlreadyRecorded)
		assert.Equal(t, ` {"ok" : true} `, string(res.Receipt.Response))
		assert.Len(t, seen.all, want, "%v", seen.all)
	}
}

// Appends of several callers to one sequence are carried out together.
func TestAppendsAreCombined(t *testing.T) {
	const callers, each = 16, 10
	var seen commands
	s := made(t, &mongo.Options{BusyTimeout: patience}, seen.monitor)
	registered(t, s)
	seen.all = nil
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				_, err := s.AppendWithReceipt(t.Context(), withReceipt(fmt.Sprint(c, " ", i), placed(fmt.Sprint(c))))
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	commits := 0
	for _, c := range seen.all {
		if _, err := c.LookupErr("commitTransaction"); err == nil {
			commits++
		}
	}
	assert.Less(t, commits, callers*each/2)
	assert.Len(t, numbers(t, s), callers*each)
}

// Several processes append to one sequence: numbers have no gaps.
func TestManyHandlesAppendToOneSequence(t *testing.T) {
	const handles, each = 4, 15
	uri := server(t)
	name := freshDatabase(t, uri)
	var first *mongo.Store
	var all []*mongo.Store
	for range handles {
		s, err := mongo.Open(t.Context(), uri, &mongo.Options{Database: name, BusyTimeout: patience})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		all, first = append(all, s), s
	}
	registered(t, first)
	var wg sync.WaitGroup
	for h, s := range all {
		wg.Go(func() {
			for i := range each {
				_, err := s.AppendWithReceipt(t.Context(), withReceipt(fmt.Sprint(h, " ", i), placed(fmt.Sprint(h))))
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	found := numbers(t, first)
	require.Len(t, found, handles*each)
	for i, n := range found {
		assert.EqualValues(t, i, n)
	}
}

// Two sequences race for one receipt: both callers learn of one winner, and one
// event is there.
func TestTwoSequencesRaceForOneReceipt(t *testing.T) {
	uri := server(t)
	name := freshDatabase(t, uri)
	open := func() *mongo.Store {
		s, err := mongo.Open(t.Context(), uri, &mongo.Options{Database: name, BusyTimeout: patience})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
	one, two := open(), open()
	registered(t, one)
	for round := range 10 {
		var results [3]receipt.Result
		var wg sync.WaitGroup
		for i, s := range []*mongo.Store{one, two} {
			wg.Go(func() {
				req := withReceipt(fmt.Sprint("round ", round), placed("a"))
				req.Sequence.Name = fmt.Sprint("sequence ", i)
				var err error
				results[i], err = s.AppendWithReceipt(t.Context(), req)
				assert.NoError(t, err)
			})
		}
		wg.Go(func() {
			var err error
			results[2], err = two.RecordEffect(t.Context(), receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: europe, Occurrence: fmt.Sprint("round ", round), Effect: "effect"}}})
			assert.NoError(t, err)
		})
		wg.Wait()
		winners := 0
		for _, r := range results {
			assert.Equal(t, results[0].Receipt, r.Receipt)
			if !r.AlreadyRecorded {
				winners++
			}
		}
		assert.Equal(t, 1, winners)
	}
	receipts, err := one.ListReceipts(t.Context(), receipt.ListReceipts{Namespace: europe, Occurrences: []string{"round 0", "round 9"}})
	require.NoError(t, err)
	assert.Len(t, receipts, 2)
}

// The time is the server's, or that of the clock that the store was given.
func TestTimeOfTheStore(t *testing.T) {
	s := made(t, nil, nil)
	registered(t, s)
	before := time.Now().Add(-time.Minute)
	res, err := s.AppendWithReceipt(t.Context(), withReceipt("o", placed("a")))
	require.NoError(t, err)
	assert.WithinRange(t, res.Receipt.RecordedAt, before, time.Now().Add(time.Minute))
	page, err := s.ReadEvents(t.Context(), eventlog.ReadEvents{Sequence: orders})
	require.NoError(t, err)
	assert.Equal(t, res.Receipt.RecordedAt, page.Events[0].Occurred)

	at := time.Date(2026, 1, 2, 3, 4, 5, 123_456_000, time.UTC)
	clocked := made(t, &mongo.Options{Clock: fixedClock(at)}, nil)
	res, err = clocked.RecordEffect(t.Context(), receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: europe, Occurrence: "o", Effect: "e"}}})
	require.NoError(t, err)
	assert.Equal(t, at, res.Receipt.RecordedAt)
}

// A process that knows only version 1 of the schema goes on beside one that migrates,
// and what was stored stays.
func TestMigrationFromVersion1(t *testing.T) {
	s := made(t, nil, nil, "a")
	_, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	db := s.Database()
	for _, name := range []string{"countersign_log", "countersign_events"} {
		require.NoError(t, db.Collection(name).Drop(t.Context()))
	}
	_, err = db.Collection("countersign_schema").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: int64(2)}})
	require.NoError(t, err)

	opts := &mongo.Options{Database: db.Name()}
	_, err = mongo.New(t.Context(), s.Client(), opts)
	var schema *store.SchemaVersionError
	require.ErrorAs(t, err, &schema)
	assert.Equal(t, store.SchemaVersionError{Found: 1, Oldest: 1, Known: 2}, *schema)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() { assert.NoError(t, mongo.Migrate(t.Context(), s.Client(), opts)) })
	}
	wg.Wait()
	again, err := mongo.New(t.Context(), s.Client(), opts)
	require.NoError(t, err)
	registered(t, again)
	_, err = again.AppendEvents(t.Context(), appendOf(placed("a")))
	require.NoError(t, err)
	res, err := again.CommitOwner(t.Context(), commitTo("a", 1))
	require.NoError(t, err)
	assert.EqualValues(t, 2, res.Through)
	var v struct {
		Oldest int64 `bson:"oldest_library"`
	}
	require.NoError(t, db.Collection("countersign_schema").FindOne(t.Context(), bson.D{{Key: "_id", Value: int64(2)}}).Decode(&v))
	assert.EqualValues(t, 1, v.Oldest, "who knows only version 1 goes on")
	require.NoError(t, again.Close())
}

// Events, receipts and the caller's own documents commit together in a transaction of
// the caller's, or not at all.
func TestTxJoinsEvents(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, nil)
	registered(t, s)
	run := func(end func(*driver.Session) error) (receipt.Result, *mongo.Tx) {
		ctx, session := session(t, s)
		require.NoError(t, session.StartTransaction(mongo.TransactionOptions()))
		tx := s.Tx(ctx)
		_, err := tx.AppendEvents(ctx, appendOf(namedEvent("a", "Ann")))
		require.NoError(t, err)
		_, err = tx.AppendEvents(ctx, appendOf(namedEvent("b", "Ann")))
		var refused *eventlog.ViolationsError
		require.ErrorAs(t, err, &refused, "a refusal leaves it usable")
		res, err := tx.AppendWithReceipt(ctx, withReceipt("o", namedEvent("b", "Bob")))
		require.NoError(t, err)
		_, err = tx.AppendWithReceipt(ctx, withReceipt("o", namedEvent("b", "Cid")))
		require.NoError(t, err)
		page, err := tx.ReadEvents(ctx, eventlog.ReadEvents{Sequence: orders, Filter: eventlog.Filter{Source: "b"}})
		require.NoError(t, err)
		assert.Len(t, page.Events, 1)
		assert.False(t, res.AckSafe())
		assert.Empty(t, numbers(t, s), "nobody else sees it")
		require.NoError(t, end(session))
		return res, tx
	}
	res, _ := run(func(s *driver.Session) error { return s.AbortTransaction(t.Context()) })
	assert.False(t, res.AckSafe())
	assert.Empty(t, numbers(t, s))
	res, tx := run(func(s *driver.Session) error { return s.CommitTransaction(t.Context()) })
	tx.Committed()
	assert.True(t, res.AckSafe())
	assert.Equal(t, []uint64{0, 1}, numbers(t, s))
	_, err := tx.AppendEvents(t.Context(), appendOf(placed("a")))
	require.ErrorIs(t, err, store.ErrTxDone)
}

// Also what writes nothing is locked by a transaction that may rest something on it:
// here, that nothing has been appended.
func TestVerdictInATransactionHolds(t *testing.T) {
	for _, exists := range []bool{false, true} {
		s := made(t, &mongo.Options{BusyTimeout: patience}, nil)
		rival, err := mongo.New(t.Context(), s.Client(), &mongo.Options{Database: s.Database().Name(), BusyTimeout: 100 * time.Millisecond})
		require.NoError(t, err)
		registered(t, s)
		unchanged := eventlog.AppendEvents{Sequence: orders, Scopes: []eventlog.Scope{{Expected: eventlog.NoneYet()}}}
		if exists {
			_, err := s.AppendEvents(t.Context(), appendOf(placed("a")))
			require.NoError(t, err)
			unchanged.Scopes[0].Expected = eventlog.Seen(0)
		}
		require.NoError(t, s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
			if _, err := tx.AppendEvents(ctx, unchanged); err != nil {
				return err
			}
			_, err := rival.AppendEvents(context.Background(), appendOf(placed("a")))
			var busy *store.BusyError
			assert.ErrorAs(t, err, &busy)
			return nil
		}))
		_, err = rival.AppendEvents(t.Context(), appendOf(placed("a")))
		require.NoError(t, err)
		want := []uint64{0}
		if exists {
			want = append(want, 1)
		}
		assert.Equal(t, want, numbers(t, s))
		require.NoError(t, rival.Close())
	}
}

// A store inside its own body would wait for its own transaction.
func TestEventsInsideABodyAreRefused(t *testing.T) {
	s := made(t, nil, nil)
	registered(t, s)
	require.NoError(t, s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		for what, err := range map[string]error{
			"append":   second(s.AppendEvents(ctx, appendOf(placed("a")))),
			"record":   second(s.RecordEffect(ctx, receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: europe, Occurrence: "o", Effect: "e"}}})),
			"drop":     second(s.DropNamespace(ctx, europe)),
			"claim":    second(s.ClaimObserver(ctx, eventlog.ClaimObserver{Key: eventlog.ObserverKey{Sequence: orders, Name: "o"}, Holder: "h"})),
			"await":    s.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders}),
			"await tx": tx.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders}),
		} {
			assert.ErrorIs(t, err, store.ErrNestedTransaction, what)
		}
		return nil
	}))
}

func second[V any](_ V, err error) error { return err }

// The document that the time is read with can't be done without.
func TestMissingClockIsUnusable(t *testing.T) {
	s := made(t, nil, nil)
	_, err := s.Database().Collection("countersign_log").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "clock"}}, options.DeleteOne())
	require.NoError(t, err)
	_, err = s.RecordEffect(t.Context(), receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: europe, Occurrence: "o", Effect: "e"}}})
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
}
