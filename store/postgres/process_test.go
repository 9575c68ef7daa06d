package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/countersign/countersign/store/postgres"
	"github.com/countersign/countersign/storetest"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestCrashLadder kills a child process at every read and write of its work in
// turn.
func TestCrashLadder(t *testing.T) {
	server := os.Getenv("COUNTERSIGN_TEST_POSTGRES_DSN")
	if server == "" {
		server = serverDSN(t)
	}
	storetest.CrashLadder(t, storetest.Ladder{
		New: func(t storetest.T) string { return migratedDatabase(t, server) },
		Open: func(ctx context.Context, location string, step func()) (storetest.Backend, error) {
			config, err := (&wire{step: step}).config(location)
			if err != nil {
				return nil, err
			}
			pool, err := pgxpool.NewWithConfig(ctx, config)
			if err != nil {
				return nil, err
			}
			s, err := postgres.New(ctx, pool, nil)
			if err != nil {
				pool.Close()
				return nil, err
			}
			return &owningStore{s, pool}, nil
		},
	})
}

// owningStore closes the pool with the store.
type owningStore struct {
	*postgres.Store
	pool *pgxpool.Pool
}

func (s *owningStore) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}
