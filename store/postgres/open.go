package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultBusyTimeout is used when [Options.BusyTimeout] is 0.
const DefaultBusyTimeout = 5 * time.Second

// answerTimeout is how long the server may take to carry out what a transaction
// writes. Then the connection is given up, and the outcome is unknown. A variable
// for the tests.
var answerTimeout = 30 * time.Second

// Options of a store. Nil and the zero Options are the defaults.
type Options struct {
	// BusyTimeout is how long a request waits for other writers of this store,
	// then for a connection, and then for an owner's row that another transaction
	// holds, before it gives a [*store.BusyError]. 0 is [DefaultBusyTimeout]; a
	// negative one is malformed.
	BusyTimeout time.Duration

	// Schema is where the tables are. "" is [DefaultSchema].
	Schema string

	// Clock is for tests: it replaces the server's time in events, receipts and
	// leases. Nil is the server's.
	Clock countersign.Clock
}

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
	if options.Schema == "" {
		options.Schema = DefaultSchema
	}
	return options, checkSchema(options.Schema)
}

// Store is a backend in a schema of a database. It is safe for concurrent use.
// The zero Store is closed.
type Store struct {
	*store.Events
	pool     *pgxpool.Pool
	ownsPool bool
	options  Options
	stmts    *statements
	queue    *group.Queue[*group.Request]
	heads    *heads
	queues   queues        // of appends
	listener listener      // for appends of other processes
	waiters  chan struct{} // requests that wait for a row that another transaction holds
	closed   atomic.Bool

	mu    sync.Mutex
	calls int           // under way
	idle  chan struct{} // closed when the store is, and no call is under way
}

var (
	_ store.Backend    = (*Store)(nil)
	_ store.Transactor = (*Store)(nil)
)

// Open connects to the database that the connection string names, creates the
// schema if it is missing, and migrates it. Many processes may do so at once. The
// string is one of libpq, a URL or key words, with the pool_… settings of pgxpool
// and the default_query_exec_mode of pgx. It needs the right to create the schema
// only while there is something to migrate.
//
// Errors, none of which shows the string: [*countersign.MalformedError] for a
// string or options that are wrong; [*store.UnavailableError] for a server that
// is not there; [*store.UnusableError] for one that refuses, or a database that
// is not UTF8; [*store.ReadOnlyError]; [*store.BusyError];
// [*store.SchemaVersionError] for a schema that is too new for this library.
func Open(ctx context.Context, dsn string, opts *Options) (*Store, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The driver's error may quote the string, with its password.
		return nil, &countersign.MalformedError{Field: "connection string", Reason: "can't be parsed"}
	}
	if misread(dsn, config.ConnConfig) {
		return nil, &countersign.MalformedError{Field: "connection string", Reason: "is no URL as it stands: @ and / in a user name, password or database must be percent-encoded"}
	}
	if err := checkMode(config.ConnConfig); err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	if _, set := config.ConnConfig.RuntimeParams["bytea_output"]; set {
		// The driver reads no other form. Not set otherwise: poolers refuse what
		// they don't know.
		config.ConnConfig.RuntimeParams["bytea_output"] = "hex"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, wrap(err, 0)
	}
	s := newStore(pool, options)
	s.ownsPool = true
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// checkMode refuses a mode that the driver would refuse at each statement.
func checkMode(config *pgx.ConnConfig) error {
	mode := config.DefaultQueryExecMode
	if mode == pgx.QueryExecModeCacheStatement && config.StatementCacheCapacity <= 0 ||
		mode == pgx.QueryExecModeCacheDescribe && config.DescriptionCacheCapacity <= 0 {
		return &countersign.MalformedError{Field: "default_query_exec_mode", Reason: "is " + mode.String() + ", and its cache has no capacity"}
	}
	return nil
}

// misread reports whether a URL was cut at a character of its password, so that
// what follows was taken for a name, which an error may show.
func misread(dsn string, config *pgx.ConnConfig) bool {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return false
	}
	names := append(slices.Collect(maps.Keys(config.RuntimeParams)), config.Database)
	return slices.ContainsFunc(names, func(name string) bool { return strings.ContainsAny(name, "@/") })
}

// New returns a store on a pool of the caller's. It verifies the schema and never
// migrates: one that is missing, too old or too new is a
// [*store.SchemaVersionError]; run [Migrations] before. The other errors are those
// of [Open]. The store holds no connection of the pool between calls; while somebody
// waits for events it has one beside it. The pool stays the
// caller's: Close does not close it.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Store, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, &countersign.MalformedError{Field: "connection pool", Reason: "is nil"}
	}
	if err := checkMode(pool.Config().ConnConfig); err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	s := newStore(pool, options)
	if err := s.verify(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func newStore(pool *pgxpool.Pool, options Options) *Store {
	queue := group.NewQueue[*group.Request]()
	queue.Remote = true
	s := &Store{
		pool:    pool,
		options: options,
		stmts:   &statements{schema: options.Schema},
		heads:   &heads{},
		queue:   queue,
		idle:    make(chan struct{}),
		waiters: make(chan struct{}, max(1, pool.Config().MaxConns/2)),
	}
	s.Events = store.NewEvents(port{logAccess: s, t: s.stmts, clock: options.Clock})
	return s
}

// Pool returns the pool that the store works on, for transactions that
// [Store.Tx] joins. Do not close it while the store is open.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Close waits for the calls under way, at most [Options.BusyTimeout], which is a
// [*store.BusyError] then, and closes the pool if it is the store's own. What comes
// later gets [store.ErrClosed]. Closing again does nothing and returns nil. Do not call it in the body of a transaction.
func (s *Store) Close() error {
	if s == nil || s.queue == nil {
		return nil
	}
	s.mu.Lock()
	if s.closed.Swap(true) {
		s.mu.Unlock()
		return nil
	}
	if s.calls == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	s.listener.stop()
	s.WakeAll() // to be told that it is closed
	started := time.Now()
	timer := time.NewTimer(s.options.BusyTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-s.idle:
		// A group may still be written whose callers' contexts have ended.
		if err = s.queue.Enter(context.Background(), s.options.BusyTimeout-time.Since(started)); err == nil {
			s.queue.Leave()
		}
	case <-timer.C:
		err = &store.BusyError{Waited: s.options.BusyTimeout}
	}
	if s.ownsPool {
		s.pool.Close()
	}
	return err
}

// enter is what every call asks first, after its request's own check. After nil
// it calls leave at its end.
func (s *Store) enter(ctx context.Context) error {
	if s == nil || s.queue == nil {
		return store.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return store.ErrClosed
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	s.calls++
	return nil
}

// hold is enter for a group, which may go on when its callers have left.
func (s *Store) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return false
	}
	s.calls++
	return true
}

func (s *Store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 && s.closed.Load() {
		close(s.idle)
	}
}

// bounded returns a context that ends when the server has had the time to answer
// that it may take, after a wait for a row. Without it a caller whose context has
// no end would wait for ever for a server that is gone without a word.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, answerTimeout+min(s.options.BusyTimeout, math.MaxInt64-answerTimeout))
}

// checkEncoding refuses a connection on which the server takes the bytes of an id
// for other characters: the same id would be another one there. The server tells
// of every change of the setting, so this asks nobody.
func checkEncoding(conn *pgx.Conn) error {
	if encoding := conn.PgConn().ParameterStatus("client_encoding"); encoding != "UTF8" {
		return &store.UnusableError{Reason: fmt.Sprintf("the connection's client_encoding is %q; ids are compared byte by byte, so it must be UTF8", encoding)}
	}
	return nil
}

// acquire takes a connection out of the pool, which may be the caller's, and
// small: it does not wait for ever.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	wait, cancel := context.WithTimeout(ctx, s.options.BusyTimeout)
	defer cancel()
	started := time.Now()
	conn, err := s.pool.Acquire(wait)
	switch {
	case err == nil:
		if err := checkEncoding(conn.Conn()); err != nil {
			conn.Release()
			return nil, err
		}
		return conn, nil
	case s.closed.Load():
		return nil, store.ErrClosed
	case ctx.Err() != nil:
		return nil, &store.NotTakenError{Err: countersign.ContextError(ctx)}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &store.BusyError{Waited: time.Since(started), Err: err}
	}
	return nil, wrap(err, time.Since(started))
}
