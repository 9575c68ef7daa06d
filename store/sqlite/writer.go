package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	lib "modernc.org/sqlite/lib"
)

// autoCheckpoint is the size of the log, in pages, from which SQLite copies it
// back.
const autoCheckpoint = 4000

// A writer is the one connection on which a store writes. Only the holder of
// the queue's lead may use it.
type writer struct {
	db   *sql.DB
	busy time.Duration
	conn *sql.Conn
	s    *connSession

	logged int // pages that the log may have grown by since its last restart, about
}

// session connects, if there is no connection yet or the last one was lost.
func (w *writer) session(ctx context.Context) (*connSession, error) {
	if w.s != nil {
		return w.s, nil
	}
	// The pool may be the caller's, and small: do not wait for it for ever.
	wait, cancel := context.WithTimeout(ctx, w.busy)
	defer cancel()
	started := time.Now()
	conn, err := w.db.Conn(wait)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil, &store.BusyError{Waited: time.Since(started), Err: err}
		}
		return nil, err
	}
	err = conn.Raw(func(dc any) error {
		c, ok := dc.(driver.Conn)
		if !ok {
			return fmt.Errorf("%T is no driver.Conn", dc)
		}
		s := newConnSession(c)
		for _, pragma := range []string{
			w.busyTimeout(),
			"PRAGMA foreign_keys = ON",
			"PRAGMA synchronous = FULL",
			// 16 MiB at most: the upper pages of large indexes stay in memory.
			"PRAGMA cache_size = -16384",
			// Fewer and larger checkpoints: a page that many commits touch is
			// copied back once.
			fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", autoCheckpoint),
		} {
			if err := s.exec(ctx, pragma, nil); err != nil {
				return err
			}
		}
		w.s = s
		return nil
	})
	if err != nil {
		w.s = nil
		return nil, errors.Join(err, conn.Close())
	}
	w.conn = conn
	return w.s, nil
}

// drop closes the connection for good, also when it is of the caller's pool: it
// has this package's pragmas, or is in an unknown state.
func (w *writer) drop() {
	if w.s == nil {
		return
	}
	_ = w.conn.Raw(func(any) error {
		w.s.close()
		return driver.ErrBadConn // tells the pool to discard it
	})
	_ = w.conn.Close()
	w.s, w.conn = nil, nil
}

// begin starts a transaction with the write lock. Its wait for other processes
// ends with the context, or after the busy timeout.
func (w *writer) begin(ctx context.Context) error {
	started := time.Now()
	s, err := w.session(ctx)
	if err != nil {
		return wrap(err, time.Since(started))
	}
	if err := w.raw(func() error { return s.exec(ctx, "BEGIN IMMEDIATE", nil) }); err != nil {
		if code(err) != lib.SQLITE_BUSY {
			w.rollback() // whatever state it is in: the next begin starts clean
		}
		return wrap(err, time.Since(started))
	}
	return nil
}

// rollback ends the transaction. A connection on which that fails is dropped.
func (w *writer) rollback() {
	if w.s == nil {
		return
	}
	err := w.raw(func() error { return w.s.exec(context.Background(), "ROLLBACK", nil) })
	if err != nil && code(err) != lib.SQLITE_ERROR { // ERROR: SQLite rolled back by itself
		w.drop()
	}
}

// raw calls f while the pool knows that the connection is in use.
func (w *writer) raw(f func() error) error {
	var err error
	whole := false
	if raw := w.conn.Raw(func(any) error {
		defer func() {
			if !whole { // a panic: the pool closes the connection, which keeps its locks while statements are open
				w.s.close()
			}
		}()
		err = f()
		whole = true
		return nil // never ErrBadConn: drop closes the connection, statements first
	}); raw != nil {
		return raw
	}
	return err
}

// The log is restarted when it may have grown by so many pages. SQLite's own
// checkpoints copy pages back, but as long as readers come and go the log is
// never begun anew, and would grow without bound.
const (
	restartAfter = 4 * autoCheckpoint
	restartWait  = 50 // milliseconds, for readers of the old pages to finish
)

// tend restarts the log, outside any transaction, if it is time, after about so
// many pages were written. That it could not be done is no error: the next group
// tries again.
func (w *writer) tend(pages int) {
	w.logged += pages
	if w.logged < restartAfter || w.s == nil {
		return
	}
	_ = w.raw(func() error {
		ctx := context.Background()
		err := w.s.exec(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", restartWait), nil)
		if err == nil {
			err = w.s.query(ctx, "PRAGMA wal_checkpoint(RESTART)", nil, func(v []driver.Value) error {
				if busy, ok := v[0].(int64); ok && busy == 0 {
					w.logged = 0
				}
				return nil
			})
		}
		return errors.Join(err, w.s.exec(ctx, w.busyTimeout(), nil))
	})
}

func (w *writer) busyTimeout() string {
	return fmt.Sprintf("PRAGMA busy_timeout = %d", max(w.busy.Milliseconds(), 1))
}

// A member is a request that waits in a line.
type member interface {
	group.Member
	Writes() bool
}

// A line is requests of one kind that wait for the writer, and how a group of them
// is carried out. All lines of a store share one lead.
type line[R member] struct {
	store *Store
	queue *group.Queue[R]
	// carryOut decides and writes a group in the open transaction, and sets its
	// verdicts. Its error is one of the database.
	carryOut func(ctx context.Context, s session, batch []R) error
	// committed, if there is one, is called after a commit, before the callers have
	// their verdicts.
	committed func(batch []R)
}

func (l *line[R]) do(ctx context.Context, r R) error {
	return l.queue.Do(ctx, r, l.store.options.BusyTimeout, l.flush)
}

// flush is [group.Queue.Do]'s: it opens a transaction, takes the requests that wait by
// then, and settles them. r is the caller's own.
func (l *line[R]) flush(ctx context.Context, r R) {
	s := l.store
	defer s.dropIfClosed()
	err := error(store.ErrClosed)
	if !s.closed.Load() {
		err = s.writer.begin(ctx)
	}
	if err != nil {
		l.queue.Reject(r, err)
		return
	}
	started := time.Now()
	batch := l.queue.Take()
	defer func() {
		l.queue.Settle(batch, time.Since(started))
		pages := 0
		for _, r := range batch {
			pages += pagesOf(r.Bytes())
		}
		s.writer.tend(pages) // after its callers have their verdicts
	}()
	err = l.writeGroup(batch)
	if err == nil || len(batch) == 1 {
		return
	}
	// Nothing of the group was written, and one request may be to blame: each is
	// written by itself, so that it fails alone.
	for i, r := range batch {
		if err := s.writer.begin(context.Background()); err != nil {
			for _, r := range batch[i:] { // who waits for the lock waits once, not each in turn
				r.Fail(err)
			}
			return
		}
		_ = l.writeGroup([]R{r}) // its verdict says it
	}
}

// writeGroup decides, writes and commits the requests in the open transaction.
// If it returns an error, nothing was written, every request has an error, and
// the transaction is over.
func (l *line[R]) writeGroup(batch []R) error {
	s := l.store
	fail := func(err error) error {
		err = readError(err, s.options.BusyTimeout)
		for _, r := range batch {
			r.Fail(err)
		}
		return err
	}
	var err error
	sess := s.writer.s
	if rawErr := s.writer.raw(func() error {
		err = l.carryOut(context.Background(), sess, batch) // a group never runs under a caller's context
		return nil
	}); rawErr != nil {
		err = rawErr
	}
	if err != nil {
		s.writer.rollback()
		return fail(err)
	}
	sure, err := s.writer.commit()
	switch {
	case err == nil:
		if l.committed != nil {
			l.committed(batch)
		}
		return nil
	case sure:
		return fail(err)
	}
	for _, r := range batch {
		if r.Writes() {
			r.Unknown(err)
		} else {
			// It writes nothing, but its verdict may rest on a neighbour's write.
			r.Fail(&store.UnavailableError{Reason: "the transaction that it was decided in may not have been committed", Err: err})
		}
	}
	return nil
}

// commit commits the open transaction, which is over then. Of an error it says
// whether surely nothing was committed; if that is not known, the connection is
// dropped.
func (w *writer) commit() (sure bool, err error) {
	err = w.raw(func() error { return w.s.exec(context.Background(), "COMMIT", nil) })
	switch {
	case err == nil:
		return true, nil
	case surelyNotCommitted(err):
		w.rollback()
		return true, err
	}
	w.drop()
	return false, err
}

// surelyNotCommitted reports whether a COMMIT that failed with err left nothing
// behind. After an I/O error the last page may be on disk all the same.
func surelyNotCommitted(err error) bool {
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_FULL, lib.SQLITE_CONSTRAINT:
		return true
	}
	return false
}

// writerSession is the writer's session for the body of a transaction, which
// uses it a statement at a time.
type writerSession struct{ w *writer }

func (s writerSession) exec(ctx context.Context, query string, args []driver.Value) error {
	return s.w.raw(func() error { return s.w.s.exec(ctx, query, args) })
}

func (s writerSession) query(ctx context.Context, query string, args []driver.Value, row func([]driver.Value) error) error {
	return s.w.raw(func() error { return s.w.s.query(ctx, query, args, row) })
}
