package mongo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// Defaults of [Options].
const (
	DefaultBusyTimeout = 5 * time.Second
	DefaultDatabase    = "countersign"
	DefaultPrefix      = "countersign_"
)

// Options of a store. Nil and the zero Options are the defaults.
type Options struct {
	// Database is the name of the database. "" is the one in the path of the URI,
	// or else [DefaultDatabase].
	Database string

	// Prefix begins the name of every collection. "" is [DefaultPrefix].
	Prefix string

	// BusyTimeout is how long a request is tried again while other transactions
	// write the same owner, or while the server has no primary, before it gives a
	// [*store.BusyError] or a [*store.UnavailableError]. 0 is
	// [DefaultBusyTimeout]; a negative one is malformed. How long a request waits
	// for a server at all is the client's serverSelectionTimeoutMS.
	BusyTimeout time.Duration

	// Clock is for tests. Nil is the server's: the time at which a transaction
	// first read. (Only the collection of schema versions has the system's.)
	Clock countersign.Clock
}

var (
	validPrefix   = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,39})?$`)
	validDatabase = regexp.MustCompile(`^[^/\\. "$*<>:|?\x00]{1,63}$`)
)

func (o *Options) withDefaults() (Options, error) {
	var options Options
	if o != nil {
		options = *o
	}
	if options.BusyTimeout < 0 {
		return options, &countersign.MalformedError{Field: "busy timeout", Reason: "is negative"}
	}
	if options.BusyTimeout == 0 {
		options.BusyTimeout = DefaultBusyTimeout
	}
	if options.Database == "" {
		options.Database = DefaultDatabase
	}
	if options.Prefix == "" {
		options.Prefix = DefaultPrefix
	}
	switch {
	case !validDatabase.MatchString(options.Database):
		return options, &countersign.MalformedError{Field: "database name", Reason: fmt.Sprintf("is %.80q", options.Database)}
	case !validPrefix.MatchString(options.Prefix):
		return options, &countersign.MalformedError{Field: "collection prefix", Reason: fmt.Sprintf("is %.60q", options.Prefix)}
	}
	return options, nil
}

// Store is a backend in a MongoDB database. It is safe for concurrent use. The
// zero Store is closed.
type Store struct {
	*store.Events
	client     *mongo.Client
	ownsClient bool
	options    Options
	records    *mongo.Collection
	log        *mongo.Collection
	events     *mongo.Collection
	schema     *mongo.Collection
	turns      turns
	queues     queues
	known      known
	watching   watching

	mu     sync.Mutex
	closed bool
	calls  int           // under way
	idle   chan struct{} // closed when the store is closed and the last call has ended

	closing chan struct{} // closed when the store is
}

var (
	_ store.Backend    = (*Store)(nil)
	_ store.Transactor = (*Store)(nil)
)

// Open connects to the servers of a connection string and creates the collections
// and indexes that are missing. Many processes may do so at once.
//
// Whatever the connection string says, the store writes with majority write
// concern, and reads snapshots that a majority has, from the primary. No error
// contains the connection string or its password.
//
// Errors: [*countersign.MalformedError] for wrong options or a connection string
// that can't be read; [*store.UnusableError] for a standalone server, one that is
// too old, or wrong credentials; [*store.UnavailableError] for a server that
// can't be reached; [*store.SchemaVersionError] for a schema that is too new for
// this library.
func Open(ctx context.Context, uri string, opts *Options) (*Store, error) {
	all, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	o, err := clientOptions(uri)
	if err != nil {
		return nil, err
	}
	if name := databaseOf(uri); name != "" && (opts == nil || opts.Database == "") {
		if !validDatabase.MatchString(name) {
			return nil, errUnreadable // and what stands there is not shown: it may be part of a password
		}
		all.Database = name
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, errUnreadable
	}
	s := newStore(client, all)
	s.ownsClient = true
	if err := s.checkServer(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New returns a store on a client of the caller's. It verifies the schema and
// never creates anything: a schema that is missing, too old or too new is a
// [*store.SchemaVersionError]; run [Migrate] before. What the store reads and
// writes has the same concerns as that of [Open], whatever the client's are. The
// client stays the caller's: Close does not disconnect it.
func New(ctx context.Context, client *mongo.Client, opts *Options) (*Store, error) {
	s, err := onClient(ctx, client, opts)
	if err != nil {
		return nil, err
	}
	found, err := s.schemaVersion(ctx)
	if err != nil {
		return nil, wrap(ctx, err, 0)
	}
	if found.Found < found.Known {
		return nil, found
	}
	if err := s.checkCollections(ctx); err != nil {
		return nil, wrap(ctx, err, 0)
	}
	return s, nil
}

// Migrate creates the collections and indexes that are missing, as [Open] does,
// through a client of the caller's. Many processes may do so at once.
func Migrate(ctx context.Context, client *mongo.Client, opts *Options) error {
	s, err := onClient(ctx, client, opts)
	if err != nil {
		return err
	}
	return s.migrate(ctx)
}

func onClient(ctx context.Context, client *mongo.Client, opts *Options) (*Store, error) {
	all, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, &countersign.MalformedError{Field: "client", Reason: "is nil"}
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	s := newStore(client, all)
	return s, s.checkServer(ctx)
}

// errUnreadable never shows what the driver says of a connection string: it quotes
// parts of it.
var errUnreadable = &countersign.MalformedError{Field: "connection string", Reason: "can't be read as mongodb://[user:password@]host[:port][,…]/[database][?options], with the user and the password percent-encoded"}

func clientOptions(uri string) (*options.ClientOptions, error) {
	o := options.Client().ApplyURI(uri).
		SetWriteConcern(writeconcern.Majority()).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).
		SetRetryWrites(true).
		SetRetryReads(true)
	if o.Validate() != nil {
		return nil, errUnreadable
	}
	return o, nil
}

// databaseOf returns the database that a connection string names, or nothing.
func databaseOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "?")
	_, name, _ := strings.Cut(rest, "/")
	if decoded, err := url.PathUnescape(name); err == nil {
		return decoded
	}
	return name
}

func newStore(client *mongo.Client, o Options) *Store {
	db := client.Database(o.Database, options.Database().
		SetWriteConcern(writeconcern.Majority()).
		SetReadConcern(readconcern.Snapshot()).
		SetReadPreference(readpref.Primary()))
	s := &Store{
		client:  client,
		options: o,
		records: db.Collection(o.Prefix + "owners"),
		log:     db.Collection(o.Prefix + "log"),
		events:  db.Collection(o.Prefix + "events"),
		schema:  db.Collection(o.Prefix+"schema", options.Collection().SetReadConcern(readconcern.Majority())),
		idle:    make(chan struct{}),
		closing: make(chan struct{}),
	}
	s.Events = store.NewEvents(port{s: s})
	return s
}

const (
	needsReplicaSet = "a standalone server has no transactions: a replica set is needed, one node is enough (mongod --replSet rs0, then rs.initiate())"

	oldestWireVersion = 25 // MongoDB 8.0, the first with a bulk write over updates and inserts
)

// hello is what a server says of itself.
type hello struct {
	SetName        string `bson:"setName"`
	Message        string `bson:"msg"` // "isdbgrid" of a router
	MaxWireVersion int32  `bson:"maxWireVersion"`
}

func (h hello) check() error {
	switch {
	case h.SetName == "" && h.Message != "isdbgrid":
		return &store.UnusableError{Reason: needsReplicaSet}
	case h.MaxWireVersion < oldestWireVersion:
		return &store.UnusableError{Reason: "the server is older than MongoDB 8.0"}
	}
	return nil
}

func (s *Store) checkServer(ctx context.Context) error {
	var h hello
	err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}, options.RunCmd().SetReadPreference(readpref.Primary())).Decode(&h)
	if err != nil {
		return wrap(ctx, err, 0)
	}
	return h.check()
}

// Database returns the database that the store works on, for documents of the
// caller's that commit together with an owner.
func (s *Store) Database() *mongo.Database { return s.records.Database() }

// Client returns the client that the store works with, for sessions that
// [Store.Tx] joins.
func (s *Store) Client() *mongo.Client { return s.client }

// Close waits for the calls under way, at most [Options.BusyTimeout], repeats no
// commit of unknown result any more, ends the change stream, and disconnects the client if the store has
// made it. What comes later gets [store.ErrClosed]. Closing again does nothing and
// returns nil.
func (s *Store) Close() error {
	if s == nil || s.client == nil {
		return nil
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	if s.calls == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	s.WakeAll()
	timer := time.NewTimer(s.options.BusyTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-s.idle:
	case <-timer.C:
		err = &store.BusyError{Waited: s.options.BusyTimeout}
	}
	if s.ownsClient {
		ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
		defer cancel()
		if gone := s.client.Disconnect(ctx); gone != nil {
			err = errors.Join(err, wrap(context.Background(), gone, 0))
		}
	}
	return err
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// enter is what every call asks first, after its request's own check. After nil
// it calls leave at its end.
func (s *Store) enter(ctx context.Context) error {
	if s == nil || s.client == nil {
		return store.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	s.calls++
	return nil
}

// enterAgain is for what outlives its call, or may: it is part of the store's work
// until it leaves. It is false once the store is closed and nothing is under way.
func (s *Store) enterAgain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && s.calls == 0 {
		return false
	}
	s.calls++
	return true
}

func (s *Store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 && s.closed {
		close(s.idle)
	}
}

// read implements reader: each query is a snapshot that a majority has.
func (s *Store) read(ctx context.Context, f func(context.Context) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	// The context may carry a session of the caller's, with a transaction that
	// this read is not part of.
	alone := mongo.NewSessionContext(ctx, nil)
	return s.repeat(ctx, func() error { return f(alone) })
}

// readTogether implements reader.
func (s *Store) readTogether(ctx context.Context, f func(context.Context) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	err := s.run(ctx, TransactionOptions(), f)
	var unknown *unknownCommit
	if errors.As(err, &unknown) {
		return wrap(ctx, unknown.err, 0)
	}
	return err
}
