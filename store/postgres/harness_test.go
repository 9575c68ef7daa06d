package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/internal/serverenv"
	"github.com/countersign/countersign/store/postgres"
	"github.com/countersign/countersign/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// patience is the busy timeout of tests with many writers on a slow machine.
const patience = time.Minute

// serverDSN is the server that the tests run on.
func serverDSN(t testing.TB) string {
	t.Helper()
	return serverenv.Postgres.Address(t)
}

// adminExec runs statements on the server's own database.
func adminExec(server string, statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// adminQuery reads one value on the server's own database.
func adminQuery(server string, to any, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.QueryRow(ctx, query, args...).Scan(to)
}

// databases are migrated once and then used by one test after another: on a
// small machine a server makes and drops eight in a second.
var databases = struct {
	sync.Mutex
	template map[string]string   // by server; the others are copies of it
	free     map[string][]string // by server; no test uses them
}{template: map[string]string{}, free: map[string][]string{}}

func TestMain(m *testing.M) {
	code := m.Run()
	for server, template := range databases.template {
		drop := []string{dropDatabase(template)}
		for _, name := range databases.free[server] {
			drop = append(drop, dropDatabase(name))
		}
		if err := adminExec(server, drop...); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

func dropDatabase(name string) string { return "DROP DATABASE IF EXISTS " + name + " WITH (FORCE)" }

func newName() string { return fmt.Sprintf("countersign_test_%x", rand.Uint64()) }

// emptyDatabase returns the connection string of a new database, which is
// dropped when the test ends.
func emptyDatabase(t storetest.T, server string) string {
	t.Helper()
	return database(t, server, "ENCODING 'UTF8'")
}

func database(t storetest.T, server, options string) string {
	t.Helper()
	name := newName()
	if err := adminExec(server, "CREATE DATABASE "+name+" TEMPLATE template0 "+options); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := adminExec(server, dropDatabase(name)); err != nil {
			t.Errorf("%v", err)
		}
	})
	return named(server, name)
}

// migratedDatabase is emptyDatabase with the schema in it. A test may change it.
func migratedDatabase(t storetest.T, server string) string {
	t.Helper()
	name, err := takeDatabase(t.Context(), server)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := returnDatabase(server, name); err != nil {
			t.Errorf("%v", err)
		}
	})
	return named(server, name)
}

func takeDatabase(ctx context.Context, server string) (string, error) {
	databases.Lock()
	defer databases.Unlock()
	if free := databases.free[server]; len(free) > 0 {
		databases.free[server] = free[1:]
		return free[0], nil
	}
	if databases.template[server] == "" {
		name := newName() + "_template"
		if err := adminExec(server, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'"); err != nil {
			return "", err
		}
		s, err := postgres.Open(ctx, named(server, name), nil)
		if err != nil {
			return "", errors.Join(err, adminExec(server, dropDatabase(name)))
		}
		if err := s.Close(); err != nil {
			return "", err
		}
		databases.template[server] = name
	}
	name := newName()
	return name, adminExec(server, "CREATE DATABASE "+name+" TEMPLATE "+databases.template[server])
}

// returnDatabase ends what still uses the database, and makes the schema anew.
func returnDatabase(server, name string) error {
	renew := "BEGIN; DROP SCHEMA countersign CASCADE;"
	for _, m := range postgres.Migrations() {
		renew += m.SQL
	}
	err := adminExec(server, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '"+name+"'")
	if err == nil {
		err = adminExec(named(server, name), renew+"; COMMIT")
	}
	if err != nil {
		return errors.Join(err, adminExec(server, dropDatabase(name)))
	}
	databases.Lock()
	defer databases.Unlock()
	databases.free[server] = append(databases.free[server], name)
	return nil
}

// named puts a database's name into a connection string.
func named(server, name string) string { return setting(server, "dbname", name) }

// setting adds a setting to a connection string. In key words the last one counts.
func setting(dsn, key, value string) string {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " " + key + "=" + value
	}
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err)
	}
	if key == "dbname" {
		u.Path = "/" + value
		return u.String()
	}
	query := u.Query()
	query.Set(key, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// modes are pgx's ways to send a statement.
var modes = []string{"cache_statement", "cache_describe", "exec", "simple_protocol"}

func inMode(dsn, mode string) string { return setting(dsn, "default_query_exec_mode", mode) }

func open(ctx context.Context, dsn string) (*postgres.Store, error) {
	return openAt(ctx, dsn, nil)
}

// openAt opens a store with a clock, or with the server's.
func openAt(ctx context.Context, dsn string, clock countersign.Clock) (*postgres.Store, error) {
	return postgres.Open(ctx, dsn, &postgres.Options{BusyTimeout: patience, Clock: clock})
}

// harness runs the suite on a server; connect changes each connection string, or
// is nil.
func harness(server string, connect func(string) string) storetest.Harness {
	return storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			dsn := migratedDatabase(t, server)
			if connect != nil {
				dsn = connect(dsn)
			}
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				if o.Dial != nil {
					return openThrough(ctx, dsn, o)
				}
				return openAt(ctx, dsn, o.Clock)
			}
		},
		Plant: func(ctx context.Context, b storetest.Backend, img durable.Image) error {
			return plant(ctx, b.(interface{ Pool() *pgxpool.Pool }).Pool(), img)
		},
		Wire: true,
	}
}

// openThrough opens the store on a pool that connects by dial.
func openThrough(ctx context.Context, dsn string, o storetest.OpenOptions) (*owningStore, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DialFunc = o.Dial
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return openOn(ctx, pool, &postgres.Options{BusyTimeout: patience, Clock: o.Clock})
}

// TestConformance runs on a server of its own, which it kills.
func TestConformance(t *testing.T) {
	server, kill := serverenv.Postgres.Own(t)
	h := harness(server, nil)
	if kill != nil {
		h.Kill = func(ctx context.Context, _ storetest.Backend) error { return kill(ctx) }
		t.Cleanup(func() { // the server goes with its databases
			databases.Lock()
			defer databases.Unlock()
			delete(databases.template, server)
			delete(databases.free, server)
		})
	}
	storetest.Run(t, h)
}

// TestConformanceThroughTx carries each request out in a transaction of the
// caller's, of pgx and of database/sql, as runMode says.
func TestConformanceThroughTx(t *testing.T) {
	server := serverDSN(t)
	t.Run("pgx", func(t *testing.T) {
		runMode(t, throughTx(server, func(s *postgres.Store) transactions { return pgxTransactions{s} }))
	})
	t.Run("sql", func(t *testing.T) {
		runMode(t, throughTx(server, func(s *postgres.Store) transactions {
			return sqlTransactions{s, stdlib.OpenDBFromPool(s.Pool())}
		}))
	})
}

func throughTx(server string, with func(*postgres.Store) transactions) storetest.Harness {
	return storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			dsn := migratedDatabase(t, server)
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				s, err := openAt(ctx, dsn, o.Clock)
				if err != nil {
					return nil, err
				}
				return &txStore{s, with(s)}, nil
			}
		},
		Plant: func(ctx context.Context, b storetest.Backend, img durable.Image) error {
			return plant(ctx, b.(*txStore).store.Pool(), img)
		},
		Abort: func(ctx context.Context, b storetest.Backend, c durable.Commit) error {
			bound, _, abandon, err := b.(*txStore).transactions.begin()
			if err != nil {
				return err
			}
			_, _ = bound.CommitOwner(ctx, c) // whatever it says: it is lost
			return abandon()
		},
	}
}

// TestConformanceOnCallersPool runs on a pool that the store was given, in another
// schema: one that is named like tables are (B61), as runMode says.
func TestConformanceOnCallersPool(t *testing.T) {
	server := serverDSN(t)
	const schema = "inbox_receipts_id"
	runMode(t, storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			dsn := emptyDatabase(t, server)
			first := callersPool(t, dsn)
			if err := runMigrations(t.Context(), first, schema); err != nil {
				t.Fatalf("migrate: %v", err)
			}
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				pool, err := pgxpool.New(ctx, dsn)
				if err != nil {
					return nil, err
				}
				return openOn(ctx, pool, &postgres.Options{Schema: schema, BusyTimeout: patience, Clock: o.Clock})
			}
		},
	})
}

// owningStore closes the pool, which was given to the store, with it.
type owningStore struct {
	*postgres.Store
	pool *pgxpool.Pool
}

func openOn(ctx context.Context, pool *pgxpool.Pool, opts *postgres.Options) (*owningStore, error) {
	s, err := postgres.New(ctx, pool, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &owningStore{s, pool}, nil
}

func (s *owningStore) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

// callersPool is a pool as a caller would make it. It is closed with the test.
func callersPool(t storetest.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		t.Fatalf("pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// runMigrations does what those do who run the schema's steps themselves.
func runMigrations(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	steps, err := postgres.MigrationsInSchema(schema)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, step.SQL)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// TestConformanceInEveryMode runs in each of pgx's modes what runMode says.
func TestConformanceInEveryMode(t *testing.T) {
	server := serverDSN(t)
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			runMode(t, harness(server, func(dsn string) string { return inMode(dsn, mode) }))
		})
	}
}

// runMode runs the groups that together use every statement of the store, or the
// whole suite with COUNTERSIGN_TEST_THOROUGH=1.
func runMode(t *testing.T, h storetest.Harness) {
	t.Helper()
	if os.Getenv("COUNTERSIGN_TEST_THOROUGH") == "1" {
		storetest.Run(t, h)
		return
	}
	storetest.RunGroups(t, h, "create", "effect", "receipt", "page", "outbox", "payload", "identity", "integer", "atomically",
		"append", "scope", "events", "effect_receipt", "observer", "namespace", "log_atomically")
}

// TestConformanceThroughPgBouncer runs through a PgBouncer in transaction pooling
// that COUNTERSIGN_TEST_PGBOUNCER_DSN names, and which leads to the same server.
func TestConformanceThroughPgBouncer(t *testing.T) {
	bouncer := os.Getenv("COUNTERSIGN_TEST_PGBOUNCER_DSN")
	if bouncer == "" {
		t.Skip("COUNTERSIGN_TEST_PGBOUNCER_DSN names no PgBouncer")
	}
	h := harness(serverDSN(t), func(dsn string) string {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return setting(bouncer, "dbname", config.Database)
	})
	runMode(t, h)
}

// plant writes an image as it is. What the schema would forbid is written all the
// same, without the constraint of one receipt an effect. What no database of this
// schema can hold (an unknown mode, an id twice, a NUL) is unsupported.
func plant(ctx context.Context, pool *pgxpool.Pool, img durable.Image) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		exec := func(query string, args ...any) {
			if err == nil {
				_, err = tx.Exec(ctx, query, args...)
			}
		}
		exec("ALTER TABLE countersign.receipts DROP CONSTRAINT IF EXISTS receipts_effect")
		for _, table := range []string{"history", "snapshots", "inbox", "outbox", "receipts", "owners"} {
			exec("DELETE FROM countersign."+table+" WHERE owner_key IN (SELECT owner_key FROM countersign.owners WHERE owner_id = $1)", img.Owner)
		}
		mode := map[durable.Mode]int64{durable.EventHistory: 1, durable.Snapshot: 2}[img.Mode]
		var key int64
		if err == nil {
			err = tx.QueryRow(ctx, "INSERT INTO countersign.owners (owner_id, mode, position, fence) VALUES ($1, $2, $3, $4) RETURNING owner_key",
				img.Owner, mode, int64(img.Position), int64(img.Fence)).Scan(&key)
		}
		record := func(table string, r durable.Record) {
			exec("INSERT INTO countersign."+table+" VALUES ($1, $2, $3, $4, $5)", key, int64(r.Position), r.Payload.SchemaVersion, r.Payload.CodecVersion, r.Payload.Bytes)
		}
		for _, r := range img.History {
			record("history", r)
		}
		if img.Snapshot != nil {
			record("snapshots", *img.Snapshot)
		}
		for _, r := range img.Inbox {
			exec("INSERT INTO countersign.inbox VALUES ($1, $2, $3, $4)", key, r.ID, append([]byte{}, r.Fingerprint...), int64(r.CommittedThrough))
		}
		for _, e := range img.Outbox {
			exec("INSERT INTO countersign.outbox VALUES ($1, $2, $3, $4, $5, $6, NULL)", key, e.ID, int64(e.AcceptedAt), e.Payload.SchemaVersion, e.Payload.CodecVersion, e.Payload.Bytes)
		}
		for _, r := range img.Receipts {
			exec("INSERT INTO countersign.receipts VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)", key, r.ID, r.EffectID, string(r.Outcome), int64(r.RecordedAt), int64(r.Fence), r.Payload.SchemaVersion, r.Payload.CodecVersion, r.Payload.Bytes)
			exec("UPDATE countersign.outbox SET receipt_id = $1 WHERE owner_key = $2 AND effect_id = $3", r.ID, key, r.EffectID)
		}
		return err
	})
	var e *pgconn.PgError
	if errors.As(err, &e) && (strings.HasPrefix(e.Code, "23") || e.Code == "22021" || e.Code == "08P01") { // a NUL, as text and in a message
		return fmt.Errorf("plant %q: %w: %w", img.Owner, errors.ErrUnsupported, err)
	}
	return err
}

// transactions begins transactions of the caller's.
type transactions interface {
	begin() (bound *postgres.Tx, commit, abandon func() error, err error)
}

type pgxTransactions struct{ store *postgres.Store }

func (p pgxTransactions) begin() (*postgres.Tx, func() error, func() error, error) {
	ctx := context.Background() // what the request makes of its context is its own to say
	tx, err := p.store.Pool().Begin(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	return p.store.Tx(tx), func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) }, nil
}

type sqlTransactions struct {
	store *postgres.Store
	db    *sql.DB
}

func (p sqlTransactions) begin() (*postgres.Tx, func() error, func() error, error) {
	tx, err := p.db.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, nil, nil, err
	}
	return p.store.TxSQL(tx), tx.Commit, tx.Rollback, nil
}

// txStore carries each request out in a transaction of the caller's.
type txStore struct {
	store        *postgres.Store
	transactions transactions
}

func (s *txStore) Close() error { return s.store.Close() }

func through[V any](s *txStore, request func(*postgres.Tx) (V, error)) (V, error) {
	var none V
	bound, commit, abandon, err := s.transactions.begin()
	if err != nil {
		return request(s.store.Tx(nil)) // closed
	}
	value, err := request(bound)
	switch {
	case errors.Is(err, context.Canceled):
		_ = abandon() // the connection went with the context
		return none, err
	case err != nil:
		return none, errors.Join(err, commit()) // a refusal leaves it usable
	}
	if err := commit(); err != nil {
		return none, err
	}
	bound.Committed()
	return value, nil
}

func (s *txStore) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return through(s, func(tx *postgres.Tx) (durable.Head, error) { return tx.CreateOwner(ctx, req) })
}

func (s *txStore) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return through(s, func(tx *postgres.Tx) (durable.Image, error) { return tx.LoadOwner(ctx, req) })
}

func (s *txStore) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return through(s, func(tx *postgres.Tx) (durable.Committed, error) { return tx.CommitOwner(ctx, c) })
}

func (s *txStore) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return through(s, func(tx *postgres.Tx) (durable.Head, error) { return tx.AdvanceFence(ctx, req) })
}

func (s *txStore) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return through(s, func(tx *postgres.Tx) (durable.ReceiptRecorded, error) { return tx.RecordReceipt(ctx, req) })
}

func (s *txStore) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return through(s, func(tx *postgres.Tx) ([]durable.Record, error) { return tx.ReadHistory(ctx, req) })
}

func (s *txStore) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return through(s, func(tx *postgres.Tx) ([]durable.Effect, error) { return tx.ReadPending(ctx, req) })
}
