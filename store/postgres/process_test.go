package postgres_test

import (
	"context"
	"testing"

	"github.com/countersign/countersign/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestCrashLadder kills a child process at every read and write of its work in
// turn.
func TestCrashLadder(t *testing.T) { storetest.CrashLadder(t, ladder(t)) }

// TestCrashAppends kills child processes there at random.
func TestCrashAppends(t *testing.T) { storetest.CrashAppends(t, ladder(t)) }

// ladder reaches a fresh database, and steps around what passes the network.
func ladder(t *testing.T) storetest.Ladder {
	server := serverDSN(t)
	return storetest.Ladder{
		New: func(t storetest.T) string { return migratedDatabase(t, server) },
		Open: func(ctx context.Context, location string, step func()) (storetest.Backend, error) {
			if err := alone(ctx, location); err != nil {
				return nil, err
			}
			config, err := (&wire{step: step}).config(location)
			if err != nil {
				return nil, err
			}
			pool, err := pgxpool.NewWithConfig(ctx, config)
			if err != nil {
				return nil, err
			}
			return openOn(ctx, pool, nil)
		},
	}
}

// alone waits until the server has done what a process that is gone had sent: its
// COMMIT may still be on the way.
func alone(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for others := true; others; {
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid())`).Scan(&others); err != nil {
			return err
		}
	}
	return nil
}
