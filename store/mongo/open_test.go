package mongo_test

import (
	"context"
	"fmt"
	"sync"
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

func TestOpenRefusesWhatIsMalformed(t *testing.T) {
	const uri = "mongodb://127.0.0.1:1/"
	for name, opts := range map[string]mongo.Options{
		"negative timeout": {BusyTimeout: -1},
		"prefix":           {Prefix: "Quote\""},
		"database":         {Database: "a.b"},
	} {
		_, err := mongo.Open(t.Context(), uri, &opts)
		require.ErrorIs(t, err, countersign.ErrMalformed, name)
	}
	_, err := mongo.Open(t.Context(), "not one", nil)
	require.ErrorIs(t, err, countersign.ErrMalformed)
	_, err = mongo.New(t.Context(), nil, nil)
	require.ErrorIs(t, err, countersign.ErrMalformed)
	var none context.Context
	_, err = mongo.Open(none, uri, nil)
	require.ErrorIs(t, err, countersign.ErrMalformed)
}

// Only a replica set or a sharded cluster has transactions.
func TestStandaloneIsRefused(t *testing.T) {
	err := mongo.CheckServer("", "", 27)
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
	assert.Contains(t, err.Error(), "replica set is needed")
	require.ErrorAs(t, mongo.CheckServer("rs0", "", 21), &unusable)
	assert.NoError(t, mongo.CheckServer("rs0", "", 25))
	assert.NoError(t, mongo.CheckServer("", "isdbgrid", 27), "a router of a sharded cluster")
}

func TestDatabaseOfTheConnectionString(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://h/app": "app", "mongodb://h": "", "mongodb://h/": "", "mongodb://u:p@h1:1,h2:2/app?w=1": "app",
		"mongodb+srv://h/my%2Dapp?x=/y": "my-app", "mongodb://h/?replicaSet=/x": "",
	} {
		assert.Equal(t, want, mongo.DatabaseOf(uri), uri)
	}
}

// Eight clients open one empty database at once, and each commits to an owner of
// its own (B31).
func TestManyClientsOpenOneEmptyDatabase(t *testing.T) {
	uri := server(t)
	name := freshDatabase(t, uri)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := mongo.Open(t.Context(), uri, &mongo.Options{Database: name, BusyTimeout: patience})
			if !assert.NoError(t, err) {
				return
			}
			defer func() { assert.NoError(t, s.Close()) }()
			owner := fmt.Sprint("owner ", i)
			assert.NoError(t, s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
				if _, err := tx.CreateOwner(ctx, durable.CreateOwner{Owner: owner, Mode: durable.EventHistory}); err != nil {
					return err
				}
				_, err := tx.CommitOwner(ctx, commitTo(owner, 0))
				return err
			}))
			res, err := s.CommitOwner(t.Context(), commitTo(owner, 1))
			assert.NoError(t, err)
			assert.Equal(t, durable.Committed{Through: 2}, res)
		})
	}
	wg.Wait()
}

func TestNewVerifiesTheSchema(t *testing.T) {
	uri := server(t)
	client := callersClient(t, uri)
	at := time.Date(2026, 1, 2, 3, 4, 5, 120_000_000, time.FixedZone("", 5*3600+1800))
	opts := &mongo.Options{Database: freshDatabase(t, uri), Clock: fixedClock(at)}
	_, err := mongo.New(t.Context(), client, opts)
	var schema *store.SchemaVersionError
	require.ErrorAs(t, err, &schema)
	assert.Zero(t, schema.Found)

	require.NoError(t, mongo.Migrate(t.Context(), client, opts))
	require.NoError(t, mongo.Migrate(t.Context(), client, opts))
	s, err := mongo.New(t.Context(), client, opts)
	require.NoError(t, err)
	versions := s.Database().Collection("countersign_schema")
	var v bson.M
	require.NoError(t, versions.FindOne(t.Context(), bson.D{}, options.FindOne()).Decode(&v))
	assert.Equal(t, at.UnixMicro(), v["applied_at"], "integer microseconds")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.NoError(t, client.Ping(t.Context(), nil), "Close does not disconnect the caller's client")
	_, err = s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.ErrorIs(t, err, store.ErrClosed)

	// A newer schema that this library may still use, and one that it may not.
	_, err = versions.InsertOne(t.Context(), bson.D{{Key: "_id", Value: int64(3)}, {Key: "oldest_library", Value: int64(1)}})
	require.NoError(t, err)
	_, err = mongo.New(t.Context(), client, opts)
	require.NoError(t, err)
	_, err = versions.InsertOne(t.Context(), bson.D{{Key: "_id", Value: int64(4)}, {Key: "oldest_library", Value: int64(4)}})
	require.NoError(t, err)
	_, err = mongo.New(t.Context(), client, opts)
	require.ErrorAs(t, err, &schema)
	assert.Equal(t, store.SchemaVersionError{Found: 4, Oldest: 4, Known: 2}, *schema)
	require.ErrorAs(t, mongo.Migrate(t.Context(), client, opts), &schema)
}

type fixedClock time.Time

func (c fixedClock) Now() time.Time { return time.Time(c) }

// Ids are compared byte by byte, so a collection with a collation is refused.
func TestCollationIsRefused(t *testing.T) {
	uri := server(t)
	client := callersClient(t, uri)
	opts := &mongo.Options{Database: freshDatabase(t, uri)}
	err := client.Database(opts.Database).CreateCollection(t.Context(), "countersign_owners",
		options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 1}))
	require.NoError(t, err)
	var unusable *store.UnusableError
	require.ErrorAs(t, mongo.Migrate(t.Context(), client, opts), &unusable)
}

// A transaction of the caller's commits its own documents and the owner's
// together.
func TestTxJoinsTheCallersTransaction(t *testing.T) {
	s := made(t, nil, nil, "a")
	accounts := s.Database().Collection("accounts")
	require.NoError(t, s.Database().CreateCollection(t.Context(), "accounts"))
	count := func() int64 {
		n, err := accounts.CountDocuments(t.Context(), bson.D{}, options.Count())
		require.NoError(t, err)
		return n
	}
	begin := func() (context.Context, *driver.Session) {
		session, err := s.Client().StartSession()
		require.NoError(t, err)
		t.Cleanup(func() { session.EndSession(context.Background()) })
		require.NoError(t, session.StartTransaction(mongo.TransactionOptions()))
		return driver.NewSessionContext(t.Context(), session), session
	}
	run := func(end func(*driver.Session) error) (durable.Committed, *mongo.Tx) {
		ctx, session := begin()
		_, err := accounts.InsertOne(ctx, bson.D{{Key: "cents", Value: 1}})
		require.NoError(t, err)
		bound := s.Tx(ctx)
		res, err := bound.CommitOwner(ctx, commitTo("a", 0))
		require.NoError(t, err)
		assert.False(t, res.AckSafe(), "provisional until the commit")
		require.NoError(t, end(session))
		return res, bound
	}
	res, _ := run(func(s *driver.Session) error { return s.AbortTransaction(t.Context()) })
	assert.False(t, res.AckSafe())
	assert.Zero(t, count())
	res, bound := run(func(s *driver.Session) error { return s.CommitTransaction(t.Context()) })
	bound.Committed()
	assert.True(t, res.AckSafe())
	assert.EqualValues(t, 1, count())
	_, err := bound.CommitOwner(t.Context(), commitTo("a", 1))
	require.ErrorIs(t, err, store.ErrTxDone)

	// Another writer comes between a read and a write of the transaction.
	ctx, session := begin()
	late := s.Tx(ctx)
	_, err = late.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
	require.NoError(t, err)
	_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
	require.NoError(t, err)
	_, err = late.CommitOwner(ctx, commitTo("a", 1))
	var busy *store.BusyError
	require.ErrorAs(t, err, &busy)
	_, err = late.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
	require.ErrorAs(t, err, &busy, "nothing goes on in a transaction that is over")
	require.NoError(t, session.AbortTransaction(t.Context()))

	for name, bad := range map[string]*mongo.Tx{"without a session": s.Tx(t.Context()), "without a transaction": s.Tx(ctx)} {
		_, err := bad.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
		require.ErrorIs(t, err, countersign.ErrMalformed, name)
	}
}

// The body's context carries the session, so its own documents commit with the
// owner; and a conflict that it does not return fails the transaction.
func TestBodysOwnDocuments(t *testing.T) {
	s := made(t, &mongo.Options{BusyTimeout: patience}, nil, "a")
	require.NoError(t, s.Database().CreateCollection(t.Context(), "mine"))
	mine := s.Database().Collection("mine")
	bodies := 0
	require.NoError(t, s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		bodies++
		if _, err := tx.LoadOwner(ctx, durable.LoadOwner{Owner: "a"}); err != nil {
			return err
		}
		at := uint64(0)
		if bodies == 1 { // a rival, of another process
			if _, err := s.CommitOwner(context.Background(), commitTo("a", 0)); err != nil {
				return err
			}
		} else {
			at = 1
		}
		if _, err := mine.InsertOne(ctx, bson.D{{Key: "_id", Value: bodies}}); err != nil {
			return err
		}
		_, _ = tx.CommitOwner(ctx, commitTo("a", at)) // swallowed
		return nil
	}))
	assert.Equal(t, 2, bodies)
	n, err := mine.CountDocuments(t.Context(), bson.D{}, options.Count())
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.EqualValues(t, 2, img.Position)
}
