package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenRefusesWrongOptions(t *testing.T) {
	dsn := "host=127.0.0.1 port=1"
	for _, opts := range []*postgres.Options{{BusyTimeout: -1}, {Schema: "x-"}, {Schema: "pg_x"}, {Schema: "Ä"}, {Schema: "A"}, {Schema: `a"; DROP TABLE b`}, {Schema: strings.Repeat("x", 64)}} {
		_, err := postgres.Open(t.Context(), dsn, opts)
		require.ErrorIs(t, err, countersign.ErrMalformed)
		_, err = postgres.New(t.Context(), nil, opts)
		require.ErrorIs(t, err, countersign.ErrMalformed)
	}
	_, err := postgres.Open(nil, dsn, nil) //nolint:staticcheck // a nil context is what is tested
	require.ErrorIs(t, err, countersign.ErrMalformed)
	_, err = postgres.New(t.Context(), nil, nil)
	require.ErrorIs(t, err, countersign.ErrMalformed)
	var zero postgres.Store
	_, err = zero.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.ErrorIs(t, err, store.ErrClosed)
}

// No error shows the password of a connection string.
func TestNoPasswordInAnError(t *testing.T) {
	const secret = "s3cr3t-p4ssw0rd"
	dsns := []string{
		"postgres://u:" + secret + "@127.0.0.1:1/db",
		"postgres://u:" + secret + "@127.0.0.1:notaport/db",
		"postgres://u:" + secret + "@[::1/db",
		"postgres://u:" + secret + "@127.0.0.1:1/db?sslmode=strange",
		"host=127.0.0.1 port=x password=" + secret,
		"host=127.0.0.1 port=1 password='" + secret,
		"password = " + secret + " =",
		"host=127.0.0.1 port=1 pool_max_conns=x password=" + secret,
	}
	for _, dsn := range dsns {
		_, err := postgres.Open(t.Context(), dsn, nil)
		require.Error(t, err, dsn)
		for e := err; e != nil; e = errors.Unwrap(e) {
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", e, e, e), secret)
		}
		kinds := 0
		for _, kind := range []error{countersign.ErrRefused, countersign.ErrRetryable} {
			if errors.Is(err, kind) {
				kinds++
			}
		}
		assert.Equal(t, 1, kinds, "%v", err)
	}
	for _, cut := range []string{"1/" + secret, "1?/" + secret, "/" + secret, "/?" + secret} {
		_, err := postgres.Open(t.Context(), "postgres://127.0.0.1:"+cut+"@127.0.0.1:1/app", nil)
		require.ErrorIs(t, err, countersign.ErrMalformed, cut)
		assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), secret)
	}
	wrong := setting(serverDSN(t), "password", secret)
	_, err := postgres.Open(t.Context(), setting(wrong, "dbname", "there_is_none"), nil)
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
	assert.NotContains(t, fmt.Sprintf("%v %+v", err, err), secret)
}

func TestSchemaVersions(t *testing.T) {
	server := serverDSN(t)
	t.Run("a newer schema that this library can't use", func(t *testing.T) {
		dsn := migratedDatabase(t, server)
		require.NoError(t, adminExec(dsn, "INSERT INTO countersign.schema_versions VALUES (99, 98)"))
		_, openErr := postgres.Open(t.Context(), dsn, nil)
		_, newErr := postgres.New(t.Context(), callersPool(t, dsn), nil)
		for _, err := range []error{openErr, newErr} {
			var version *store.SchemaVersionError
			require.ErrorAs(t, err, &version)
			assert.Equal(t, store.SchemaVersionError{Found: 99, Oldest: 98, Known: len(postgres.Migrations())}, *version)
		}
	})
	t.Run("a newer schema that lets old libraries go on", func(t *testing.T) {
		dsn := migratedDatabase(t, server)
		require.NoError(t, adminExec(dsn, "INSERT INTO countersign.schema_versions VALUES (99, 1)"))
		s, err := postgres.Open(t.Context(), dsn, nil)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	})
	t.Run("no schema on a caller's pool", func(t *testing.T) {
		pool := callersPool(t, emptyDatabase(t, server))
		_, err := postgres.New(t.Context(), pool, nil)
		var version *store.SchemaVersionError
		require.ErrorAs(t, err, &version)
		assert.Equal(t, store.SchemaVersionError{Known: len(postgres.Migrations())}, *version)
		var schemas int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = 'countersign'").Scan(&schemas))
		assert.Zero(t, schemas, "New never migrates")
	})
	t.Run("not in UTF8", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), database(t, server, "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"), nil)
		var unusable *store.UnusableError
		require.ErrorAs(t, err, &unusable)
		assert.Contains(t, err.Error(), "LATIN1")
	})
	t.Run("read only", func(t *testing.T) {
		s, err := postgres.Open(t.Context(), setting(migratedDatabase(t, server), "default_transaction_read_only", "on"), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		var readOnly *store.ReadOnlyError
		_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.Snapshot})
		require.ErrorAs(t, err, &readOnly)
		_, err = postgres.Open(t.Context(), setting(emptyDatabase(t, server), "default_transaction_read_only", "on"), nil)
		require.ErrorAs(t, err, &readOnly)
	})
}

// Eight processes open one empty database at once, and commit (B31).
func TestManyOpenOneEmptyDatabase(t *testing.T) {
	for _, schema := range []string{postgres.DefaultSchema, "user"} {
		dsn := emptyDatabase(t, serverDSN(t))
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				s, err := postgres.Open(context.Background(), dsn, &postgres.Options{Schema: schema, BusyTimeout: patience})
				if !assert.NoError(t, err) {
					return
				}
				defer func() { assert.NoError(t, s.Close()) }()
				owner := fmt.Sprint("owner ", i)
				err = s.Atomically(context.Background(), func(ctx context.Context, tx store.Backend) error {
					if _, err := tx.CreateOwner(ctx, durable.CreateOwner{Owner: owner, Mode: durable.EventHistory}); err != nil {
						return err
					}
					_, err := tx.CommitOwner(ctx, commitTo(owner, 0))
					return err
				})
				assert.NoError(t, err)
			})
		}
		wg.Wait()
	}
}

// A transaction of the caller's commits its own rows and the owner's together.
func TestTxJoinsTheCallersTransaction(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", nil, "a")
	_, err := s.Pool().Exec(t.Context(), "CREATE TABLE accounts (id text PRIMARY KEY, cents bigint)")
	require.NoError(t, err)
	for at, end := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
	} {
		tx, err := s.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "INSERT INTO accounts VALUES ('x', 1)")
		require.NoError(t, err)
		bound := s.Tx(tx)
		res, err := bound.CommitOwner(t.Context(), commitTo("a", 0))
		require.NoError(t, err)
		assert.False(t, res.AckSafe(), "provisional until the commit")
		require.NoError(t, end(tx))
		if at == 1 {
			bound.Committed()
			assert.True(t, res.AckSafe())
		}
		assert.EqualValues(t, at, mustRecover(t, s, "a").Position)
		_, err = bound.CommitOwner(t.Context(), commitTo("a", 1))
		require.ErrorIs(t, err, store.ErrTxDone)
	}
	db := stdlib.OpenDBFromPool(s.Pool())
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	bound := s.TxSQL(tx)
	res, err := bound.CommitOwner(t.Context(), commitTo("a", 1))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	bound.Committed()
	assert.True(t, res.AckSafe())
	for name, bad := range map[string]*postgres.Tx{"nil": s.Tx(nil), "nil of pgx": s.Tx((*pgxpool.Tx)(nil)), "nil of sql": s.TxSQL(nil), "ended": s.TxSQL(tx)} {
		_, err := bad.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
		require.ErrorIs(t, err, countersign.ErrRefused, name)
	}
}

// An id is the same bytes in the database whatever the connection's encoding was
// meant to be: a store's own connections are UTF8, others are refused.
func TestClientEncodingIsUTF8(t *testing.T) {
	dsn := migratedDatabase(t, serverDSN(t))
	latin := setting(dsn, "client_encoding", "LATIN1")
	create := durable.CreateOwner{Owner: "é", Mode: durable.EventHistory}
	for _, dsn := range []string{dsn, latin} {
		s, err := open(t.Context(), dsn)
		require.NoError(t, err)
		_, err = s.CreateOwner(t.Context(), create)
		require.NoError(t, err)
		var owners int
		require.NoError(t, s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM countersign.owners").Scan(&owners))
		assert.Equal(t, 1, owners)
		require.NoError(t, s.Close())
	}
	var unusable *store.UnusableError
	_, err := postgres.New(t.Context(), callersPool(t, latin), nil)
	require.ErrorAs(t, err, &unusable)
	assert.Contains(t, err.Error(), "LATIN1")

	s, err := open(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	tx, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SET LOCAL client_encoding = 'LATIN1'")
	require.NoError(t, err)
	_, err = s.Tx(tx).CreateOwner(t.Context(), create)
	require.ErrorAs(t, err, &unusable)
	require.NoError(t, tx.Rollback(t.Context()))
}

// A busy timeout may be longer than a lock_timeout can be.
func TestLongBusyTimeout(t *testing.T) {
	dsn := emptyDatabase(t, serverDSN(t))
	for _, busy := range []time.Duration{30 * 24 * time.Hour, math.MaxInt64} {
		s, err := postgres.Open(t.Context(), dsn, &postgres.Options{BusyTimeout: busy})
		require.NoError(t, err)
		_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.EventHistory})
		require.NoError(t, err)
		require.NoError(t, s.Atomically(t.Context(), func(context.Context, store.Backend) error { return nil }))
		require.NoError(t, s.Close())
	}
}

// What no repetition changes is not told as a connection that was lost.
func TestPermanentErrorsAreRefusals(t *testing.T) {
	dsn := migratedDatabase(t, serverDSN(t))
	for mode, cache := range map[string]string{"cache_statement": "statement_cache_capacity", "cache_describe": "description_cache_capacity"} {
		without := inMode(setting(dsn, cache, "0"), mode)
		_, err := postgres.Open(t.Context(), without, nil)
		require.ErrorIs(t, err, countersign.ErrMalformed)
		_, err = postgres.New(t.Context(), callersPool(t, without), nil)
		require.ErrorIs(t, err, countersign.ErrMalformed)
	}

	escape := inMode(setting(dsn, "bytea_output", "escape"), "simple_protocol")
	own, err := open(t.Context(), escape)
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Close()) }()
	_, err = own.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.EventHistory})
	require.NoError(t, err)
	_, err = own.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	assert.Equal(t, "event", string(mustRecover(t, own, "a").History[0].Payload.Bytes))

	pool := callersPool(t, escape)
	callers, err := postgres.New(t.Context(), pool, nil)
	require.NoError(t, err)
	var unusable *store.UnusableError
	_, err = callers.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.ErrorAs(t, err, &unusable)
	assert.Contains(t, err.Error(), "bytea_output")
	_, err = callers.CommitOwner(t.Context(), commitTo("a", 1))
	require.ErrorAs(t, err, &unusable)
	pool.Close()
	_, err = callers.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.ErrorIs(t, err, store.ErrClosed)
}

// Close leaves the caller's pool open, and the pool's connections as they were.
func TestNewLeavesTheCallersPoolAlone(t *testing.T) {
	pool := callersPool(t, migratedDatabase(t, serverDSN(t)))
	s, err := postgres.New(t.Context(), pool, nil)
	require.NoError(t, err)
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.EventHistory})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.CommitOwner(t.Context(), commitTo("a", 0))
	require.ErrorIs(t, err, store.ErrClosed)
	var timeout string
	require.NoError(t, pool.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&timeout))
	assert.Equal(t, "0", timeout)
}
