package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/countersign/countersign/storetest"
	driversqlite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			path := filepath.Join(t.TempDir(), "countersign.db")
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				return sqlite.Open(ctx, path, &sqlite.Options{Clock: o.Clock, BusyTimeout: patience})
			}
		},
		Plant: func(ctx context.Context, b storetest.Backend, img durable.Image) error {
			return plant(ctx, b.(*sqlite.Store).DB(), img)
		},
	})
}

// patience is the busy timeout of tests with many writers on a slow machine.
const patience = time.Minute

// TestConformanceThroughTx carries each request out in a transaction of the
// caller's, on a handle of the caller's.
func TestConformanceThroughTx(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			path := filepath.Join(t.TempDir(), "countersign.db")
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				s, err := sqlite.Open(ctx, path, &sqlite.Options{Clock: o.Clock, BusyTimeout: patience})
				if err != nil {
					return nil, err
				}
				return openTxStore(s)
			}
		},
		Plant: func(ctx context.Context, b storetest.Backend, img durable.Image) error {
			return plant(ctx, b.(*txStore).store.DB(), img)
		},
		Abort: func(ctx context.Context, b storetest.Backend, c durable.Commit) error {
			s := b.(*txStore)
			tx, err := s.store.DB().BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, _ = s.store.Tx(tx).CommitOwner(ctx, c) // whatever it says: it is lost
			return tx.Rollback()
		},
	})
}

// TestConformanceOnCallersHandle runs on a handle that the store was given, with
// another prefix: one that looks like the names of other tables (B61).
func TestConformanceOnCallersHandle(t *testing.T) {
	t.Parallel()
	const prefix = "inbox_receipts_"
	storetest.Run(t, storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			path := filepath.Join(t.TempDir(), "app.db")
			first := callersDB(t, path)
			if err := runMigrations(first, prefix); err != nil {
				t.Fatalf("migrate: %v", err)
			}
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				return sqlite.New(ctx, callersDB(t, path), &sqlite.Options{Clock: o.Clock, Prefix: prefix, BusyTimeout: patience})
			}
		},
	})
}

// callersDB is a handle as a caller would open it. It is closed with the test.
func callersDB(t storetest.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)"}).String())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// runMigrations does what those do who run the schema's steps themselves.
func runMigrations(db *sql.DB, prefix string) error {
	steps, err := sqlite.MigrationsWithPrefix(prefix)
	if err != nil {
		return err
	}
	for _, step := range steps {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		if _, err := tx.Exec(step.SQL); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// plant writes an image as it is. What the schema would forbid is written all
// the same: without foreign keys, and without the index of one receipt an
// effect. What no file of this schema can hold (an unknown mode, an id twice) is
// unsupported.
func plant(ctx context.Context, db *sql.DB, img durable.Image) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	exec := func(query string, args ...any) {
		if err == nil {
			_, err = conn.ExecContext(ctx, query, args...)
		}
	}
	exec("PRAGMA foreign_keys = OFF")
	exec("DROP INDEX IF EXISTS countersign_receipts_effect")
	exec("BEGIN IMMEDIATE")
	var key int64
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT coalesce((SELECT owner_key FROM countersign_owners WHERE owner_id = ?1), (SELECT coalesce(max(owner_key), 0) + 1 FROM countersign_owners))", img.Owner).Scan(&key)
	}
	for _, table := range []string{"owners", "history", "snapshots", "inbox", "outbox", "receipts"} {
		exec("DELETE FROM countersign_"+table+" WHERE owner_key = ?", key)
	}
	mode := map[durable.Mode]int64{durable.EventHistory: 1, durable.Snapshot: 2}[img.Mode]
	exec("INSERT INTO countersign_owners VALUES (?, ?, ?, ?, ?)", key, img.Owner, mode, int64(img.Position), int64(img.Fence))
	record := func(table string, r durable.Record) {
		exec("INSERT INTO countersign_"+table+" VALUES (?, ?, ?, ?, ?)", key, int64(r.Position), r.Payload.SchemaVersion, r.Payload.CodecVersion, r.Payload.Bytes)
	}
	for _, r := range img.History {
		record("history", r)
	}
	if img.Snapshot != nil {
		record("snapshots", *img.Snapshot)
	}
	for _, r := range img.Inbox {
		exec("INSERT INTO countersign_inbox VALUES (?, ?, ?, ?)", key, r.ID, append([]byte{}, r.Fingerprint...), int64(r.CommittedThrough))
	}
	for _, e := range img.Outbox {
		exec("INSERT INTO countersign_outbox VALUES (?, ?, ?, ?, ?, ?, NULL)", key, e.ID, int64(e.AcceptedAt), e.Payload.SchemaVersion, e.Payload.CodecVersion, e.Payload.Bytes)
	}
	for _, r := range img.Receipts {
		exec("INSERT INTO countersign_receipts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", key, r.ID, r.EffectID, string(r.Outcome), int64(r.RecordedAt), int64(r.Fence), r.Payload.SchemaVersion, r.Payload.CodecVersion, r.Payload.Bytes)
		exec("UPDATE countersign_outbox SET receipt_id = ? WHERE owner_key = ? AND effect_id = ?", r.ID, key, r.EffectID)
	}
	if err != nil {
		_, _ = conn.ExecContext(ctx, "ROLLBACK")
		var driverErr *driversqlite.Error
		if errors.As(err, &driverErr) && driverErr.Code()&0xff == lib.SQLITE_CONSTRAINT {
			return fmt.Errorf("plant %q: %w: %w", img.Owner, errors.ErrUnsupported, err)
		}
		return fmt.Errorf("plant %q: %w", img.Owner, err)
	}
	exec("COMMIT")
	exec("PRAGMA foreign_keys = ON")
	return err
}

// txStore carries each request out in a transaction of the caller's.
type txStore struct{ store *sqlite.Store }

func openTxStore(s *sqlite.Store) (*txStore, error) { return &txStore{s}, nil }

func (s *txStore) Close() error { return s.store.Close() }

func through[V any](s *txStore, request func(*sqlite.Tx) (V, error)) (V, error) {
	var none V
	tx, err := s.store.DB().BeginTx(context.Background(), nil) // what the request makes of its context is its own to say
	if err != nil {
		return request(s.store.Tx(nil)) // closed
	}
	bound := s.store.Tx(tx)
	value, err := request(bound)
	if err != nil {
		return none, errors.Join(err, tx.Commit()) // a refusal leaves it usable
	}
	if err := tx.Commit(); err != nil {
		return none, err
	}
	bound.Committed()
	return value, nil
}

func (s *txStore) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return through(s, func(tx *sqlite.Tx) (durable.Head, error) { return tx.CreateOwner(ctx, req) })
}

func (s *txStore) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return through(s, func(tx *sqlite.Tx) (durable.Image, error) { return tx.LoadOwner(ctx, req) })
}

func (s *txStore) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return through(s, func(tx *sqlite.Tx) (durable.Committed, error) { return tx.CommitOwner(ctx, c) })
}

func (s *txStore) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return through(s, func(tx *sqlite.Tx) (durable.Head, error) { return tx.AdvanceFence(ctx, req) })
}

func (s *txStore) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return through(s, func(tx *sqlite.Tx) (durable.ReceiptRecorded, error) { return tx.RecordReceipt(ctx, req) })
}

func (s *txStore) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return through(s, func(tx *sqlite.Tx) ([]durable.Record, error) { return tx.ReadHistory(ctx, req) })
}

func (s *txStore) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return through(s, func(tx *sqlite.Tx) ([]durable.Effect, error) { return tx.ReadPending(ctx, req) })
}
