package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// DefaultBusyTimeout is used when [Options.BusyTimeout] is 0.
const DefaultBusyTimeout = 5 * time.Second

// Options of a store. Nil and the zero Options are the defaults.
type Options struct {
	// BusyTimeout is how long a request waits for other writers, in this process
	// and in others, before it gives a [*store.BusyError]. 0 is
	// [DefaultBusyTimeout]; a negative one is malformed.
	BusyTimeout time.Duration

	// Prefix begins the name of every table and index. "" is [DefaultPrefix].
	Prefix string

	// Clock is for tests. Nil is the system's: the time of receipts, of events that
	// say no other, and of observers. The owner's contract has no times.
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
	if options.Prefix == "" {
		options.Prefix = DefaultPrefix
	}
	if options.Clock == nil {
		options.Clock = countersign.SystemClock{}
	}
	return options, checkPrefix(options.Prefix)
}

// Store is a backend on a SQLite file. It is safe for concurrent use. The zero
// Store is closed.
type Store struct {
	*store.Events
	db       *sql.DB
	ownsDB   bool
	readOnly bool
	options  Options
	stmts    *statements
	queue    *group.Queue[*group.Request] // its lead is the writer's
	owners   *line[*group.Request]
	appends  *line[*group.Append]
	writer   *writer
	readers  chan *reader // idle connections for reading, if the pool is the store's own
	closed   atomic.Bool
}

var (
	_ store.Backend    = (*Store)(nil)
	_ store.Transactor = (*Store)(nil)
)

// Open opens the file at path, creates it if it is missing, and migrates it.
// Several processes may do so at once. In-memory databases are refused with an
// [*store.UnusableError]: each connection would have one of its own, and nothing
// of it is durable; use package store/memory.
//
// Errors: [*store.UnusableError] for a file that can't be opened, is no database
// or is corrupt; [*store.ReadOnlyError]; [*store.BusyError];
// [*store.SchemaVersionError] for a schema that is too new for this library;
// [*countersign.MalformedError] for wrong options.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	options, err := checkOpen(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path, options, false))
	if err != nil {
		return nil, wrap(err, 0)
	}
	s := newStore(db, options)
	s.ownsDB = true
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenReadOnly opens the file at path for inspection. It changes nothing: what
// would write is refused with a [*store.ReadOnlyError]. The file must have been
// made by [Open]; the errors are the same.
func OpenReadOnly(ctx context.Context, path string, opts *Options) (*Store, error) {
	options, err := checkOpen(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path, options, true))
	if err != nil {
		return nil, wrap(err, 0)
	}
	s := newStore(db, options)
	s.ownsDB, s.readOnly = true, true
	if err := s.verify(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New returns a store on a handle of the caller's. It verifies the schema and
// never migrates: a schema that is missing, too old or too new is a
// [*store.SchemaVersionError]; run [Migrations] before. The database must be a
// file in WAL mode with UTF-8 text, else it is a [*store.UnusableError].
//
// The store takes one connection of the pool for itself, sets its pragmas there,
// and has it until [Store.Close]; for reading it borrows one at a time and
// changes nothing on it. So the pool must allow at least two connections: a
// pool of one is refused with a [*countersign.MalformedError]. The handle stays the
// caller's: Close does not close it.
func New(ctx context.Context, db *sql.DB, opts *Options) (*Store, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, &countersign.MalformedError{Field: "database handle", Reason: "is nil"}
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	if db.Stats().MaxOpenConnections == 1 {
		return nil, &countersign.MalformedError{Field: "connection pool", Reason: "allows one connection only, and the store needs two"}
	}
	s := newStore(db, options)
	if err := s.verify(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func checkOpen(ctx context.Context, path string, opts *Options) (Options, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return options, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return options, err
	}
	switch {
	case path == "" || path == ":memory:" || strings.HasPrefix(path, "file:"):
		return options, &store.UnusableError{Reason: fmt.Sprintf("%q is not the path of a file; for a store in memory use package store/memory", path)}
	case strings.ContainsRune(path, 0):
		return options, &countersign.MalformedError{Field: "path", Reason: "contains a NUL byte"}
	}
	return options, nil
}

func newStore(db *sql.DB, options Options) *Store {
	s := &Store{
		db:      db,
		options: options,
		stmts:   newStatements(options.Prefix),
		queue:   group.NewQueue[*group.Request](),
		writer:  &writer{db: db, busy: options.BusyTimeout},
		readers: make(chan *reader, maxIdleReaders),
	}
	s.Events = store.NewEvents(port{s})
	s.owners = &line[*group.Request]{store: s, queue: s.queue, carryOut: s.ownerGroup}
	s.appends = &line[*group.Append]{store: s, queue: group.NewQueueBeside[*group.Append](s.queue), carryOut: s.appendGroup, committed: s.wakeGroup}
	return s
}

// dsn returns the driver's name for a file. The pragmas are set on every
// connection of the pool.
func dsn(path string, options Options, readOnly bool) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	q := url.Values{"_txlock": {"immediate"}}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", max(options.BusyTimeout.Milliseconds(), 1)))
	q.Add("_pragma", "foreign_keys(1)")
	q.Add("_pragma", "synchronous(FULL)")
	if readOnly {
		q.Set("mode", "ro")
		q.Add("_pragma", "query_only(1)")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// DB returns the handle that the store works on, for transactions that
// [Store.Tx] joins. Do not close it while the store is open. On a store from
// [Open], its transactions are immediate and its connections have the store's
// pragmas.
func (s *Store) DB() *sql.DB { return s.db }

// Close waits until the group or transaction under way is done, at most
// [Options.BusyTimeout], and then gives back every connection. A handle that the
// store was given stays open. What waits or comes later gets [store.ErrClosed].
// Closing again does nothing and returns nil.
func (s *Store) Close() error {
	if s == nil || s.queue == nil || !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	err := s.queue.Enter(context.Background(), s.options.BusyTimeout)
	if err == nil {
		s.writer.drop()
		s.queue.Leave()
	}
	s.dropReaders()
	if s.ownsDB {
		err = errors.Join(err, s.db.Close())
	}
	return err
}

// dropIfClosed is for the holder of the lead: Close does not wait for ever.
func (s *Store) dropIfClosed() {
	if s.closed.Load() {
		s.writer.drop()
	}
}

func (s *Store) dropReaders() {
	for {
		select {
		case r := <-s.readers:
			r.drop()
		default:
			return
		}
	}
}

// ready is what every call asks first, after its request's own check.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.queue == nil || s.closed.Load() {
		return store.ErrClosed
	}
	return store.CheckContext(ctx)
}
