package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/store"
	lib "modernc.org/sqlite/lib"
)

const maxIdleReaders = 4

// A reader is a connection for reading. Those of the store's own pool are kept,
// with their prepared statements; those of a caller's are given back.
type reader struct {
	conn *sql.Conn
	s    *connSession
}

func (s *Store) reader(ctx context.Context) (*reader, error) {
	select {
	case r := <-s.readers:
		return r, nil
	default:
	}
	// The pool may be the caller's, and small: do not wait for it for ever.
	wait, cancel := context.WithTimeout(ctx, s.options.BusyTimeout)
	defer cancel()
	started := time.Now()
	conn, err := s.db.Conn(wait)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil, &store.BusyError{Waited: time.Since(started), Err: err}
		}
		return nil, wrap(err, time.Since(started))
	}
	r := &reader{conn: conn}
	if err := conn.Raw(func(dc any) error {
		c, ok := dc.(driver.Conn)
		if !ok {
			return fmt.Errorf("%T is no driver.Conn", dc)
		}
		r.s = newConnSession(c)
		return nil
	}); err != nil {
		return nil, errors.Join(wrap(err, 0), conn.Close())
	}
	return r, nil
}

func (r *reader) raw(f func() error) error { return r.conn.Raw(func(any) error { return f() }) }

// release gives the connection back.
func (s *Store) release(r *reader) {
	if s.ownsDB && !s.closed.Load() {
		select {
		case s.readers <- r:
			if s.closed.Load() {
				s.dropReaders() // Close may have been there before
			}
			return
		default:
		}
	}
	r.drop()
}

func (r *reader) drop() {
	_ = r.conn.Raw(func(any) error { r.s.close(); return nil })
	_ = r.conn.Close()
}

// read calls f in a read transaction: everything that it reads is of one state.
func (s *Store) read(ctx context.Context, f func(session) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	r, err := s.reader(ctx)
	if err != nil {
		return s.closedOr(err)
	}
	started := time.Now()
	var verdict, end error
	raw := r.raw(func() error {
		if verdict = r.s.exec(ctx, "BEGIN", nil); verdict == nil {
			verdict = f(r.s)
		}
		// The end must not be cut short by the caller's context. It is also asked
		// for after a BEGIN that failed: a context that ends just then may have
		// left the transaction open.
		end = r.s.exec(context.WithoutCancel(ctx), "ROLLBACK", nil)
		return nil
	})
	if raw != nil || (end != nil && code(end) != lib.SQLITE_ERROR) { // ERROR: there is no transaction
		r.discard()
	} else {
		s.release(r)
	}
	if verdict == nil {
		verdict = errors.Join(raw, end)
	}
	return s.closedOr(readError(verdict, time.Since(started)))
}

// discard closes the connection for good: it may still be in a transaction.
func (r *reader) discard() {
	_ = r.conn.Raw(func(any) error { r.s.close(); return driver.ErrBadConn })
	_ = r.conn.Close()
}

// closedOr says what a call learns whose connection went away under it.
func (s *Store) closedOr(err error) error {
	if err != nil && s.closed.Load() {
		return store.ErrClosed
	}
	return err
}
