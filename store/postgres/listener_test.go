package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/postgres"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// awaits waits for events of a sequence in the background.
func awaits(s *postgres.Store, sequence string, from uint64) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- s.AwaitEvents(context.Background(), eventlog.AwaitEvents{Sequence: eventlog.Sequence{Namespace: shop, Name: sequence}, From: from})
	}()
	return done
}

func hears(t *testing.T, s *postgres.Store) {
	t.Helper()
	require.Eventually(t, s.Hearing, patience, time.Millisecond)
}

// soon is shorter than the time after which one looks who hears.
const soon = time.Second

func woken(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(soon):
		require.Fail(t, "nobody has told")
	}
}

// listeners counts the server's sessions of a store that listen.
func listeners(t *testing.T, s *postgres.Store) (n int) {
	t.Helper()
	require.NoError(t, adminQuery(serverDSN(t), &n, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND query LIKE 'LISTEN%'", s.Pool().Config().ConnConfig.Database))
	return n
}

// Whoever waits on one handle is woken by an append through another, of a store, a
// body and a caller's transaction. The listener ends on Close.
func TestWokenByAnotherHandle(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			dsn := setting(inMode(migratedDatabase(t, serverDSN(t)), mode), "pool_max_conns", "1") // it needs none of them
			a, err := open(t.Context(), dsn)
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()) }()
			b, err := open(t.Context(), dsn)
			require.NoError(t, err)
			register(t, a)
			name := `ein "Name" mit 7 Leerzeichen`
			done := awaits(b, name, 0)
			hears(t, b)
			assert.False(t, a.Hearing(), "nobody waits there")
			time.Sleep(20 * time.Millisecond) // so that it waits again
			_, err = a.AppendEvents(t.Context(), noted(name, "a"))
			require.NoError(t, err)
			woken(t, done)

			done = awaits(b, name, 1)
			require.NoError(t, a.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
				_, err := tx.AppendWithReceipt(ctx, withReceipt(name, "o", "a"))
				return err
			}))
			woken(t, done)

			done = awaits(b, name, 2)
			tx, err := a.Pool().Begin(t.Context())
			require.NoError(t, err)
			_, err = a.Tx(tx).AppendEvents(t.Context(), noted(name, "a"))
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			woken(t, done)

			done = awaits(b, name, 99)
			assert.Equal(t, 1, listeners(t, b))
			require.NoError(t, b.Close())
			require.ErrorIs(t, <-done, store.ErrClosed)
			assert.Eventually(t, func() bool { return listeners(t, b) == 0 }, patience, 10*time.Millisecond)
			assert.False(t, b.Hearing())
		})
	}
}

// A handle is woken by its own appends at once, of a transaction when that has
// committed.
func TestWokenByItsOwnAppends(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", nil)
	register(t, s)
	done := awaits(s, "log", 0)
	hears(t, s)
	tx, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	bound := s.Tx(tx)
	_, err = bound.AppendEvents(t.Context(), noted("log", "a"))
	require.NoError(t, err)
	_, err = bound.RecordEffect(t.Context(), receipt.RecordEffect{Effect: receipt.Effect{Key: withReceipt("", "o").Key()}})
	require.NoError(t, err)
	require.ErrorIs(t, bound.AwaitEvents(t.Context(), eventlog.AwaitEvents{Sequence: eventlog.Log(shop), From: 7}), store.ErrNestedTransaction)
	select {
	case err := <-done:
		require.Fail(t, "woken before the commit", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, tx.Commit(t.Context()))
	bound.Committed()
	woken(t, done)
	err = s.Atomically(t.Context(), func(ctx context.Context, _ store.Backend) error {
		return s.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: eventlog.Log(shop), From: 7})
	})
	require.ErrorIs(t, err, store.ErrNestedTransaction)
}

// A listener that loses its connection comes back, and meanwhile those who wait look
// by themselves.
func TestListenerConnectsAgain(t *testing.T) {
	dsn := migratedDatabase(t, serverDSN(t))
	a, err := open(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	b, err := open(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	register(t, a)
	at := uint64(0)
	for range 3 {
		done := awaits(b, "log", at)
		hears(t, b)
		require.NoError(t, adminExec(serverDSN(t), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = '"+b.Pool().Config().ConnConfig.Database+"'"))
		_, err = a.AppendEvents(t.Context(), noted("log", "a"))
		require.NoError(t, err)
		require.NoError(t, <-done)
		at++
	}
}

// Without a connection to listen on, those who wait look from time to time, and no
// call is disturbed.
func TestWaitsWithoutAListener(t *testing.T) {
	dsn := migratedDatabase(t, serverDSN(t))
	a, err := open(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	register(t, a)
	pool := callersPool(t, setting(dsn, "pool_max_conns", "1"))
	require.NoError(t, pool.Ping(t.Context()))
	var name string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	b, err := postgres.New(t.Context(), pool, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.NoError(t, adminExec(serverDSN(t), fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS false", name)))
	defer func() {
		require.NoError(t, adminExec(serverDSN(t), fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS true", name)))
	}()
	done := awaits(b, "log", 0)
	for range 20 {
		_, err := b.ReadTail(t.Context(), eventlog.ReadTail{Sequence: eventlog.Log(shop)})
		require.NoError(t, err)
	}
	assert.False(t, b.Hearing())
	_, err = a.AppendEvents(t.Context(), noted("log", "a"))
	require.NoError(t, err)
	require.NoError(t, <-done)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = b.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: eventlog.Log(shop), From: 5})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, errors.Is(err, countersign.ErrRetryable))
}
