package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// made is the path of a fresh file with an owner "a" that has one commit.
func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made.db")
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.EventHistory})
	require.NoError(t, err)
	_, err = s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return path
}

// execOn runs SQL on a file, past the library.
func execOn(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.Exec(query)
	require.NoError(t, err)
}

func TestOpenTakesAnyPath(t *testing.T) {
	for _, name := range []string{"plain.db", "a b.db", "50%.db", "what?mode=memory.db", "hash#1.db", "ümlaut.db", "%41.db", "a&b=c.db"} {
		path := filepath.Join(t.TempDir(), name)
		s, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err, name)
		require.NoError(t, s.Close())
		_, err = os.Stat(path)
		require.NoError(t, err, name)
	}
}

// An in-memory database would be another one on each connection (B35).
func TestOpenRefusesDatabasesInMemory(t *testing.T) {
	for _, path := range []string{"", ":memory:", "file::memory:", "file:x?mode=memory&cache=shared"} {
		_, err := sqlite.Open(t.Context(), path, nil)
		var unusable *store.UnusableError
		require.ErrorAs(t, err, &unusable, path)
		assert.Contains(t, err.Error(), "store/memory")
	}
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	_, err = sqlite.New(t.Context(), db, nil)
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
}

func TestOpenRefusesWrongOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "never.db")
	for _, opts := range []*sqlite.Options{{BusyTimeout: -1}, {Prefix: "x-"}, {Prefix: "sqlite_"}, {Prefix: "Ä"}, {Prefix: "a; DROP TABLE b"}} {
		_, err := sqlite.Open(t.Context(), path, opts)
		require.ErrorIs(t, err, countersign.ErrMalformed)
	}
	_, err := sqlite.Open(nil, path, nil) //nolint:staticcheck // a nil context is what is tested
	require.ErrorIs(t, err, countersign.ErrMalformed)
	_, err = sqlite.New(t.Context(), nil, nil)
	require.ErrorIs(t, err, countersign.ErrMalformed)
	assert.NoFileExists(t, path)
}

func TestOpenRefusesWhatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	text := bytes.Repeat([]byte("these are notes, and no database\n"), 1000)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	for name, open := range map[string]func(context.Context, string, *sqlite.Options) (*sqlite.Store, error){"open": sqlite.Open, "read only": sqlite.OpenReadOnly} {
		_, err := open(t.Context(), path, nil)
		var unusable *store.UnusableError
		require.ErrorAs(t, err, &unusable, name)
		assert.Equal(t, "not a database", unusable.Reason, name)
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, text, after, "nothing was changed")

	_, err = sqlite.Open(t.Context(), t.TempDir(), nil) // a folder
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
	_, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "missing", "a.db"), nil)
	require.ErrorAs(t, err, &unusable)
	_, err = sqlite.OpenReadOnly(t.Context(), filepath.Join(t.TempDir(), "missing.db"), nil)
	require.ErrorAs(t, err, &unusable)
}

func TestCorruptFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "corrupt.db")
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.EventHistory})
	require.NoError(t, err)
	for at := range uint64(200) {
		_, err := s.CommitOwner(t.Context(), commitTo("a", at))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close()) // the last handle to close copies the log back
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 3 * 4096; i < len(content); i++ { // the schema stands on the first pages
		content[i] = 0x5a
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))

	s, err = sqlite.Open(t.Context(), path, nil)
	if err == nil {
		_, err = s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
		_, commitErr := s.CommitOwner(t.Context(), commitTo("a", 200))
		require.ErrorIs(t, commitErr, countersign.ErrRefused)
		require.NoError(t, s.Close())
	}
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
	assert.Equal(t, "the database is corrupt", unusable.Reason)
}

func TestSchemaVersions(t *testing.T) {
	t.Run("a newer schema that this library can't use", func(t *testing.T) {
		path := made(t)
		execOn(t, path, "INSERT INTO countersign_schema VALUES (99, 98, 0)")
		db := callersDB(t, path)
		_, openErr := sqlite.Open(t.Context(), path, nil)
		_, readErr := sqlite.OpenReadOnly(t.Context(), path, nil)
		_, newErr := sqlite.New(t.Context(), db, nil)
		for _, err := range []error{openErr, readErr, newErr} {
			var version *store.SchemaVersionError
			require.ErrorAs(t, err, &version)
			assert.Equal(t, store.SchemaVersionError{Found: 99, Oldest: 98, Known: 2}, *version)
			assert.ErrorIs(t, err, countersign.ErrRefused)
		}
	})
	t.Run("a newer schema that lets old libraries go on", func(t *testing.T) {
		path := made(t)
		execOn(t, path, "INSERT INTO countersign_schema VALUES (3, 2, 0)")
		s, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
		require.NoError(t, err)
	})
	t.Run("no schema on a caller's handle", func(t *testing.T) {
		db := callersDB(t, filepath.Join(t.TempDir(), "empty.db"))
		_, err := sqlite.New(t.Context(), db, nil)
		var version *store.SchemaVersionError
		require.ErrorAs(t, err, &version)
		assert.Equal(t, store.SchemaVersionError{Known: 2}, *version)
		var tables int
		require.NoError(t, db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables))
		assert.Zero(t, tables, "New never migrates")
	})
	t.Run("not in WAL mode", func(t *testing.T) {
		path := made(t)
		execOn(t, path, "PRAGMA journal_mode = DELETE")
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		defer func() { _ = db.Close() }()
		_, err = sqlite.New(t.Context(), db, nil)
		var unusable *store.UnusableError
		require.ErrorAs(t, err, &unusable)
		assert.Contains(t, err.Error(), "PRAGMA journal_mode = WAL")
	})
	t.Run("not in UTF-8", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "utf16.db")
		execOn(t, path, "PRAGMA encoding = 'UTF-16le'; PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
		_, err := sqlite.New(t.Context(), callersDB(t, path), nil)
		var unusable *store.UnusableError
		require.ErrorAs(t, err, &unusable)
		assert.Contains(t, err.Error(), "UTF-16le")
	})
}

// Times are integers, so they sort by instant (B19).
func TestTimesAreIntegerMicroseconds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "times.db")
	at := time.Date(2026, 1, 2, 3, 4, 5, 120_000_000, time.FixedZone("", 5*3600+1800))
	s, err := sqlite.Open(t.Context(), path, &sqlite.Options{Clock: fixedClock(at)})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var kind string
	var micros int64
	require.NoError(t, s.DB().QueryRow("SELECT typeof(applied_at), applied_at FROM countersign_schema").Scan(&kind, &micros))
	assert.Equal(t, "integer", kind)
	assert.Equal(t, at.UnixMicro(), micros)
}

type fixedClock time.Time

func (c fixedClock) Now() time.Time { return time.Time(c) }

func TestOpenReadOnlyReadsAndRefusesToWrite(t *testing.T) {
	path := made(t)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	s, err := sqlite.OpenReadOnly(t.Context(), path, nil)
	require.NoError(t, err)
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.EqualValues(t, 1, img.Position)

	var readOnly *store.ReadOnlyError
	_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
	require.ErrorAs(t, err, &readOnly)
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "b", Mode: durable.Snapshot})
	require.ErrorAs(t, err, &readOnly)
	_, err = s.AdvanceFence(t.Context(), durable.AdvanceFence{Owner: "a", Fence: 1})
	require.ErrorAs(t, err, &readOnly)
	require.ErrorAs(t, s.Atomically(t.Context(), func(context.Context, store.Backend) error { return nil }), &readOnly)
	require.NoError(t, s.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// A full disk refuses what does not fit, loses nothing, and goes on when there
// is room again.
func TestFullDisk(t *testing.T) {
	path := made(t)
	db := faultyDB(t, path, &faults{}, "max_page_count(60)")
	s, err := sqlite.New(t.Context(), db, nil)
	require.NoError(t, err)
	at := uint64(1)
	for {
		c := commitTo("a", at)
		c.State.AppendEvents[0].Bytes = bytes.Repeat([]byte{'x'}, 3000)
		if _, err = s.CommitOwner(t.Context(), c); err != nil {
			break
		}
		at++
		require.Less(t, at, uint64(1000), "the disk never gets full")
	}
	var unavailable *store.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	assert.Equal(t, "disk full", unavailable.Reason)
	assert.ErrorIs(t, err, countersign.ErrRetryable)
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.Equal(t, at, img.Position)

	// In a transaction of the caller's the same.
	err = s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		c := commitTo("a", at)
		c.State.AppendEvents[0].Bytes = bytes.Repeat([]byte{'x'}, 100_000)
		_, err := tx.CommitOwner(ctx, c)
		assert.ErrorAs(t, err, &unavailable)
		_, err = tx.CommitOwner(ctx, commitTo("a", at))
		assert.Error(t, err, "SQLite may have rolled back: what follows would commit by itself")
		return nil
	})
	require.ErrorAs(t, err, &unavailable)
	require.NoError(t, s.Close())

	roomy, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, roomy.Close()) }()
	_, err = roomy.CommitOwner(t.Context(), commitTo("a", at))
	require.NoError(t, err)
}

func TestNewLeavesTheCallersHandleAlone(t *testing.T) {
	path := made(t)
	db := callersDB(t, path)
	s, err := sqlite.New(t.Context(), db, nil)
	require.NoError(t, err)
	_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
	require.NoError(t, err)
	var enforced int
	require.NoError(t, db.QueryRow("PRAGMA foreign_keys").Scan(&enforced))
	assert.Zero(t, enforced, "the store's pragmas are on its own connection only")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.NoError(t, db.Ping(), "Close does not close the handle")
	for range 4 {
		require.NoError(t, db.QueryRow("PRAGMA foreign_keys").Scan(&enforced))
		assert.Zero(t, enforced, "and no connection of the store's came back to the pool")
	}
	_, err = s.CommitOwner(t.Context(), commitTo("a", 2))
	require.ErrorIs(t, err, store.ErrClosed)

	db.SetMaxOpenConns(1)
	_, err = sqlite.New(t.Context(), db, nil)
	require.ErrorIs(t, err, countersign.ErrMalformed, "the store would wait for itself (B33)")
}

// A transaction of the caller's commits its own rows and the owner's together.
func TestTxJoinsTheCallersTransaction(t *testing.T) {
	path := made(t)
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.DB().Exec("CREATE TABLE accounts (id TEXT PRIMARY KEY, cents INTEGER)")
	require.NoError(t, err)
	count := func() (n int) {
		require.NoError(t, s.DB().QueryRow("SELECT count(*) FROM accounts").Scan(&n))
		return n
	}
	run := func(end func(*sql.Tx) error) (durable.Committed, *sqlite.Tx) {
		tx, err := s.DB().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.Exec("INSERT INTO accounts VALUES ('x', 1)")
		require.NoError(t, err)
		bound := s.Tx(tx)
		res, err := bound.CommitOwner(t.Context(), commitTo("a", 1))
		require.NoError(t, err)
		assert.False(t, res.AckSafe(), "provisional until the commit")
		require.NoError(t, end(tx))
		return res, bound
	}
	res, _ := run((*sql.Tx).Rollback)
	assert.False(t, res.AckSafe())
	assert.Zero(t, count())
	res, bound := run((*sql.Tx).Commit)
	bound.Committed()
	assert.True(t, res.AckSafe())
	assert.Equal(t, 1, count())
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.EqualValues(t, 2, img.Position)
	_, err = bound.CommitOwner(t.Context(), commitTo("a", 2))
	require.ErrorIs(t, err, store.ErrTxDone)

	// Reading first and writing later, in a deferred transaction: SQLite refuses
	// at once, and the whole transaction is to be repeated (B33).
	own := callersDB(t, path)
	tx, err := own.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	late := s.Tx(tx)
	_, err = late.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.NoError(t, err)
	_, err = s.CommitOwner(t.Context(), commitTo("a", 2))
	require.NoError(t, err)
	_, err = late.CommitOwner(t.Context(), commitTo("a", 2))
	var busy *store.BusyError
	require.ErrorAs(t, err, &busy)
	require.NoError(t, tx.Rollback())

	for name, bad := range map[string]*sqlite.Tx{"nil": s.Tx(nil), "ended": s.Tx(tx)} {
		_, err := bad.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
		require.ErrorIs(t, err, countersign.ErrRefused, name)
	}
}

// Ids are compared byte by byte, and numbers keep their 64 bits (B43).
func TestIntegersAtTheLimits(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, fence := range []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<53 + 1, 1<<63 - 1} {
		owner := fmt.Sprint("owner ", fence)
		_, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.Snapshot, Fence: fence})
		require.NoError(t, err)
		img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: owner})
		require.NoError(t, err)
		assert.Equal(t, fence, img.Fence)
	}
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "too far", Mode: durable.Snapshot, Fence: 1 << 63})
	require.ErrorIs(t, err, countersign.ErrMalformed)
}

// Every connection of the store's own pool has the pragmas, not only the first.
func TestPragmasOnEveryConnection(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for range 5 {
		conn, err := s.DB().Conn(t.Context()) // held until the end, so that each is another one
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		for pragma, want := range map[string]string{"foreign_keys": "1", "synchronous": "2", "journal_mode": "wal", "busy_timeout": "5000"} {
			var got string
			require.NoError(t, conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			assert.Equal(t, want, got, pragma)
		}
	}
}
