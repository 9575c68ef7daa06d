package mongo_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/mongo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// weak are the concerns of a client that may lose what it wrote.
func weak(o *options.ClientOptions) {
	o.SetWriteConcern(writeconcern.W1()).SetReadConcern(readconcern.Local()).SetReadPreference(readpref.SecondaryPreferred())
}

// commands keeps the commands that a client sends.
type commands struct {
	mu  sync.Mutex
	all []bson.Raw
}

func (c *commands) monitor(o *options.ClientOptions) {
	o.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, append(bson.Raw{}, e.Command...))
	}})
}

// level is the concern that a command carries, or nothing.
func level(command bson.Raw, concern, key string) string {
	v, err := command.LookupErr(concern, key)
	if err != nil {
		return ""
	}
	if s, ok := v.StringValueOK(); ok {
		return s
	}
	return v.String()
}

// Whatever a client's own concerns are, the store commits to a majority, reads
// snapshots, and asks the primary.
func TestConcernsAreTheStoresOwn(t *testing.T) {
	var seen commands
	s := made(t, nil, func(o *options.ClientOptions) { weak(o); seen.monitor(o) }, "a")
	registered(t, s)
	seen.all = nil
	everything(t, s)
	kinds := map[string]int{}
	inTransaction := map[string]bool{} // by session and number
	for _, c := range seen.all {
		elements, err := c.Elements()
		require.NoError(t, err)
		name := elements[0].Key()
		kinds[name]++
		if _, err := c.LookupErr("$readPreference"); err == nil {
			assert.Equal(t, "primary", level(c, "$readPreference", "mode"), name)
		}
		number, err := c.LookupErr("txnNumber")
		transaction := ""
		if err == nil {
			transaction = c.Lookup("lsid").String() + number.String()
		}
		switch name {
		case "commitTransaction":
			assert.Equal(t, "majority", level(c, "writeConcern", "w"))
		case "find", "findAndModify", "aggregate":
			if !inTransaction[transaction] || transaction == "" {
				assert.Equal(t, "snapshot", level(c, "readConcern", "level"), "%s", c)
			}
		case "bulkWrite":
			require.NotEmpty(t, transaction, "no write stands alone")
			assert.NotContains(t, []string{"local", "available"}, level(c, "readConcern", "level"))
		}
		if transaction != "" {
			inTransaction[transaction] = true
		}
	}
	for _, name := range []string{"commitTransaction", "find", "findAndModify", "aggregate", "bulkWrite"} {
		assert.NotZero(t, kinds[name], "%v", kinds)
	}
}

// The usual commit is two round trips, and reads nothing.
func TestUsualCommitIsTwoRoundTrips(t *testing.T) {
	var seen commands
	s := made(t, nil, seen.monitor, "a")
	seen.all = nil
	_, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	assert.Len(t, seen.all, 2, "%v", seen.all)
}

// everything calls each method of the store once.
func everything(t *testing.T, s *mongo.Store) {
	t.Helper()
	ctx := t.Context()
	_, err := s.CreateOwner(ctx, durable.CreateOwner{Owner: "new", Mode: durable.Snapshot})
	require.NoError(t, err)
	for range 2 { // and its repetition
		_, err = s.CommitOwner(ctx, commitTo("a", 0))
		require.NoError(t, err)
	}
	_, err = s.RecordReceipt(ctx, durable.RecordReceipt{Owner: "a", Receipt: durable.TerminalReceipt{
		ID: "r", EffectID: "effect 1", Outcome: durable.Applied, Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 1},
	}})
	require.NoError(t, err)
	_, err = s.AdvanceFence(ctx, durable.AdvanceFence{Owner: "new", Fence: 2})
	require.NoError(t, err)
	_, err = s.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
	require.NoError(t, err)
	_, err = s.LoadOwner(ctx, durable.LoadOwner{Owner: "a", Parts: &durable.Parts{State: true, Pending: true}})
	require.NoError(t, err)
	_, err = s.ReadHistory(ctx, durable.ReadHistory{Owner: "a"})
	require.NoError(t, err)
	_, err = s.ReadPending(ctx, durable.ReadPending{Owner: "a"})
	require.NoError(t, err)
	require.NoError(t, s.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
		_, err := tx.CommitOwner(ctx, commitTo("a", 1))
		if err == nil {
			_, err = tx.AppendWithReceipt(ctx, withReceipt("joined", placed("a")))
		}
		return err
	}))
	everyEvent(t, s)
}

// everyEvent calls each method of the event log, the receipts and the observers once.
func everyEvent(t *testing.T, s *mongo.Store) {
	t.Helper()
	ctx := t.Context()
	key := eventlog.ObserverKey{Sequence: orders, Name: "mailer"}
	registered(t, s)
	var fence uint64 // of the observer's claim
	for _, call := range []func() error{
		func() error { return second(s.ReadDefinitions(ctx, "shop")) },
		func() error { return second(s.AppendEvents(ctx, appendOf(namedEvent("a", "Ann"), placed("b")))) },
		func() error { return second(s.AppendWithReceipt(ctx, withReceipt("o", namedEvent("b", "Bob")))) },
		func() error { return second(s.AppendWithReceipt(ctx, withReceipt("o"))) },
		func() error {
			return second(s.RecordEffect(ctx, receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: europe, Occurrence: "p", Effect: "e"}}}))
		},
		func() error {
			return second(s.ListReceipts(ctx, receipt.ListReceipts{Namespace: europe, Occurrences: []string{"o", "p"}}))
		},
		func() error {
			return second(s.RegisterConstraints(ctx, eventlog.RegisterConstraints{EventStore: "shop", Remove: []string{"name"}}))
		},
		func() error { return second(s.AppendEvents(ctx, appendOf(placed("c")))) }, // completes the index
		func() error { return second(s.ReadEvents(ctx, eventlog.ReadEvents{Sequence: orders})) },
		func() error {
			return second(s.ReadTail(ctx, eventlog.ReadTail{Sequence: orders, Filter: eventlog.Filter{Source: "b"}}))
		},
		func() error { return s.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders}) },
		func() error {
			state, err := s.ClaimObserver(ctx, eventlog.ClaimObserver{Key: key, Holder: "me"})
			fence = state.Fence
			return err
		},
		func() error {
			return second(s.SaveObserver(ctx, eventlog.SaveObserver{Key: key, Fence: fence, Next: 1, Partitions: []eventlog.PartitionProgress{{Source: "a", Failed: true}}}))
		},
		func() error { return second(s.ReadObserver(ctx, key)) },
		func() error { return second(s.ReadPartitions(ctx, eventlog.ReadPartitions{Key: key, Due: true})) },
		func() error { return second(s.ReplayObserver(ctx, eventlog.ReplayObserver{Key: key})) },
		func() error { return second(s.DropNamespace(ctx, europe)) },
	} {
		require.NoError(t, call())
	}
}

// A connection string with weak concerns opens a store that has strong ones.
func TestWeakConnectionString(t *testing.T) {
	uri := server(t)
	for _, weakness := range []string{"w=0", "w=1", "readPreference=secondary", "readConcernLevel=local", "retryWrites=false", "w=0&readPreference=secondary&readConcernLevel=local"} {
		t.Run(weakness, func(t *testing.T) {
			separator := "&"
			if !strings.Contains(uri, "?") {
				separator = "/?"
			}
			s, err := mongo.Open(t.Context(), uri+separator+weakness, &mongo.Options{Database: freshDatabase(t, uri)})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.EventHistory})
			require.NoError(t, err)
			registered(t, s)
			everything(t, s)
		})
	}
}

// No error shows a password, however the connection string is written.
func TestPasswordIsNeverShown(t *testing.T) {
	const secret = "hunter2" //nolint:gosec // of nobody
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	uris := []string{
		"mongodb://user:" + secret + "@/db", "mongodb://user:" + secret + "@host:port:1/db", "mongodb://user:" + secret + "/x@host",
		"mongodb://user:" + secret + ":x@host", "mongodb:/user:" + secret + "@host", "http://user:" + secret + "@host",
		"mongodb://user:" + secret + "%zz@host", "mongodb://user:" + secret + "@host/?w=-1", "mongodb://user:" + secret + "@host/a b",
		"mongodb://user:" + secret + "@host/?replicaSet=x&directConnection=true&connectTimeoutMS=" + secret,
		"mongodb+srv://user:" + secret + "@host.invalid/?srvMaxHosts=" + secret,
		// Where a slash or a question mark is not percent-encoded, the end of the
		// password stands where the database's name does.
		"mongodb://user:ab/" + secret + "@host/", "mongodb://user:ab/" + secret + "@host/db?w=1", "mongodb://user:a?b/" + secret + "@host/db",
		"mongodb://ab/" + secret + "$@host/db", "mongodb://host/" + secret + "%20x", "mongodb://host/" + secret + strings.Repeat("x", 70),
	}
	for _, uri := range uris {
		_, err := mongo.Open(t.Context(), uri, nil)
		require.Error(t, err, uri)
		assert.NotContains(t, err.Error(), secret)
	}
	// And a server that is not there, or does not know the user.
	_, err := mongo.Open(t.Context(), "mongodb://user:"+secret+"@127.0.0.1:1/?serverSelectionTimeoutMS=100", nil)
	var unavailable *store.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	assert.NotContains(t, err.Error(), secret)
	_, err = mongo.Open(ctx, "mongodb://user:"+secret+"@127.0.0.1:1/", nil)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotContains(t, err.Error(), secret)
	if uri, err := url.Parse(server(t)); err == nil && uri.User == nil {
		uri.User = url.UserPassword("nobody", secret)
		q := uri.Query()
		q.Set("serverSelectionTimeoutMS", "2000")
		uri.RawQuery = q.Encode()
		if s, err := mongo.Open(t.Context(), uri.String(), nil); err != nil {
			assert.NotContains(t, err.Error(), secret)
		} else {
			require.NoError(t, s.Close())
		}
	}
}
