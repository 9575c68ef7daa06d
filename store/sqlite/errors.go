package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/countersign/countersign/store"
	driversqlite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// code returns SQLite's primary result code of an error, or 0.
func code(err error) int {
	var e *driversqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// wrap turns an error of the driver into one that users can act on. It is only
// for errors after which nothing was written. The driver's error stays
// reachable underneath.
func wrap(err error, waited time.Duration) error {
	if err == nil {
		return nil
	}
	if busy, ok := errors.AsType[*store.BusyError](err); ok {
		return busy
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &store.NotTakenError{Err: err}
	}
	if errors.Is(err, sql.ErrTxDone) {
		return store.ErrTxDone
	}
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return &store.BusyError{Waited: waited, Err: err}
	case lib.SQLITE_READONLY:
		return &store.ReadOnlyError{Err: err}
	case lib.SQLITE_FULL:
		return &store.UnavailableError{Reason: "disk full", Err: err}
	case lib.SQLITE_NOMEM:
		return &store.UnavailableError{Reason: "out of memory", Err: err}
	case lib.SQLITE_IOERR, lib.SQLITE_PROTOCOL, lib.SQLITE_INTERRUPT, lib.SQLITE_ABORT:
		return &store.UnavailableError{Reason: "the file could not be read or written", Err: err}
	case lib.SQLITE_NOTADB:
		return &store.UnusableError{Reason: "not a database", Err: err}
	case lib.SQLITE_CORRUPT:
		return &store.UnusableError{Reason: "the database is corrupt", Err: err}
	case lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return &store.UnusableError{Reason: "the file can't be opened", Err: err}
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		// The rules saw every record that the request touches, in the same
		// transaction. A constraint that fires all the same means that the rows
		// contradict each other: it is never taken for a duplicate.
		return &store.UnusableError{Reason: "the records break the schema", Err: err}
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return &store.UnavailableError{Reason: "the connection was lost", Err: err}
	}
	return &store.UnusableError{Reason: "database error", Err: err}
}
