package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// once fails the first statement that contains text, after arm.
type once struct {
	armed atomic.Bool
	text  string
	err   error
}

func (o *once) before(query string) error {
	if strings.Contains(query, o.text) && o.armed.CompareAndSwap(true, false) {
		return o.err
	}
	return nil
}

// Where the pool has no connection to give, a write gives up after the busy
// timeout.
func TestExhaustedPoolIsBusy(t *testing.T) {
	db := callersDB(t, made(t))
	db.SetMaxOpenConns(2)
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	for range 2 {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
	}
	_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
	var busy *store.BusyError
	require.ErrorAs(t, err, &busy)
}

// A transaction that outlives Close gives its connection back when it ends.
func TestCloseDuringATransaction(t *testing.T) {
	db := callersDB(t, made(t))
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	err = s.Atomically(t.Context(), func(context.Context, store.Backend) error {
		var busy *store.BusyError
		assert.ErrorAs(t, s.Close(), &busy, "it does not wait for ever")
		return nil
	})
	require.NoError(t, err)
	assert.Zero(t, db.Stats().InUse)
	_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
	require.ErrorIs(t, err, store.ErrClosed)
}

// SQLite ends a transaction by itself after some errors, also of the caller's own
// statements. What came after it would commit on its own.
func TestRequestAfterAnAutomaticRollback(t *testing.T) {
	path := made(t)
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	tx, err := s.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE mine (x UNIQUE)")
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO mine VALUES (1)")
	require.NoError(t, err)
	_, err = tx.Exec("INSERT OR ROLLBACK INTO mine VALUES (1)")
	require.Error(t, err)

	_, err = s.Tx(tx).CommitOwner(t.Context(), commitTo("a", 1))
	var unavailable *store.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	require.Error(t, tx.Commit())
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.EqualValues(t, 1, img.Position)
}

// If half a request can't be taken back, nothing of the transaction can be
// committed.
func TestHalfARequestThatCantBeTakenBack(t *testing.T) {
	var armed atomic.Bool
	s := faultyStore(t, &faults{before: func(query string) error {
		if armed.Load() && (strings.Contains(query, "INTO countersign_outbox") || strings.HasPrefix(query, "ROLLBACK TO")) {
			return errors.New("out of luck")
		}
		return nil
	}}, nil, "a")
	tx, err := s.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	armed.Store(true)
	_, err = s.Tx(tx).CommitOwner(t.Context(), commitTo("a", 0))
	require.ErrorContains(t, err, "out of luck")
	armed.Store(false)
	require.Error(t, tx.Commit())
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.Zero(t, img.Position)
	assert.Empty(t, img.Inbox)
}

// A read that fails inside a body may have ended the transaction, so nothing goes
// on in it.
func TestFailingReadInABody(t *testing.T) {
	failing := &once{text: "countersign_history", err: errors.New("disk I/O error")}
	s := faultyStore(t, &faults{before: failing.before}, nil, "a")
	err := s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		_, err := tx.CommitOwner(ctx, commitTo("a", 0))
		assert.NoError(t, err)
		failing.armed.Store(true)
		_, err = tx.ReadHistory(ctx, durable.ReadHistory{Owner: "a"})
		assert.ErrorIs(t, err, failing.err)
		return err
	})
	require.ErrorIs(t, err, failing.err)
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.Zero(t, img.Position)
}

// A connection that the driver gives up in the middle of a group, or a panic
// there, leaves no lock behind.
func TestLostConnectionLeavesNoLock(t *testing.T) {
	for name, err := range map[string]error{"bad connection": driver.ErrBadConn, "another error": errors.New("gone")} {
		t.Run(name, func(t *testing.T) {
			path := made(t)
			failing := &once{text: "INTO countersign_outbox", err: err}
			s, err := sqlite.New(t.Context(), faultyDB(t, path, &faults{before: failing.before}), &sqlite.Options{BusyTimeout: time.Second})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			failing.armed.Store(true)
			_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
			require.Error(t, err)
			_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
			require.NoError(t, err)
			other, err := sqlite.Open(t.Context(), path, nil)
			require.NoError(t, err)
			_, err = other.CommitOwner(t.Context(), commitTo("a", 2))
			require.NoError(t, err)
			require.NoError(t, other.Close())
		})
	}
}

// A pool whose connections would show what is not committed, or not sync what is,
// is refused.
func TestNewRefusesUnsafePools(t *testing.T) {
	path := made(t)
	for _, pragma := range []string{"read_uncommitted(1)", "synchronous(0)"} {
		db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_pragma="+pragma)
		require.NoError(t, err)
		_, err = sqlite.New(t.Context(), db, nil)
		var unusable *store.UnusableError
		require.ErrorAs(t, err, &unusable, pragma)
		require.NoError(t, db.Close())
	}
}

// Readers that come and go keep SQLite from beginning its log anew, so the store
// does it from time to time; a reader of old pages makes it try again later.
func TestLogIsRestartedFromTimeToTime(t *testing.T) {
	path := made(t)
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	reader, err := callersDB(t, path).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	var n int
	require.NoError(t, reader.QueryRow("SELECT count(*) FROM countersign_inbox").Scan(&n))

	s.LogIsLong()
	_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
	require.NoError(t, err)
	assert.NotZero(t, s.Logged(), "the reader still needs the log")
	require.NoError(t, reader.Rollback())
	_, err = s.CommitOwner(t.Context(), commitTo("a", 2))
	require.NoError(t, err)
	assert.Zero(t, s.Logged())
	var timeout string
	require.NoError(t, s.DB().QueryRow("PRAGMA busy_timeout").Scan(&timeout))
	assert.Equal(t, "5000", timeout)
}
