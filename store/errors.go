package store

import (
	"fmt"
	"time"

	"github.com/countersign/countersign"
)

// refusal is a sentinel that matches [countersign.ErrRefused].
type refusal string

func (r refusal) Error() string { return string(r) }

func (r refusal) Is(target error) bool { return target == countersign.ErrRefused }

// Misuse of a handle. All match [countersign.ErrRefused], and nothing was written.
const (
	// ErrClosed says that the store was closed, or never opened.
	ErrClosed = refusal("store: closed")
	// ErrTxDone says that the transaction of this backend has ended.
	ErrTxDone = refusal("store: the transaction has ended")
	// ErrNestedTransaction says that a call inside a transaction's body would
	// have to wait for that transaction: use the tx that the body was given.
	ErrNestedTransaction = refusal("store: the call would wait for its own transaction, use the body's tx")
)

// NotTakenError says that the caller's context ended before the store took the
// request: there is no trace of it. It matches [countersign.ErrRetryable] and
// unwraps to the context's error.
type NotTakenError struct{ Err error }

func (e *NotTakenError) Error() string {
	return fmt.Sprintf("store: the request was not taken: %v", e.Err)
}

// Is reports whether target is the error's kind.
func (e *NotTakenError) Is(target error) bool { return target == countersign.ErrRetryable }

// Unwrap returns the context's error.
func (e *NotTakenError) Unwrap() error { return e.Err }

// BusyError says that another writer held the store for longer than the busy
// timeout, or took it between a read and a write of the caller's transaction.
// Nothing was written. It matches [countersign.ErrRetryable].
type BusyError struct {
	Waited time.Duration
	Err    error // the driver's error, or nil
}

func (e *BusyError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("store: busy for %v", e.Waited)
	}
	return fmt.Sprintf("store: busy for %v: %v", e.Waited, e.Err)
}

// Is reports whether target is the error's kind.
func (e *BusyError) Is(target error) bool { return target == countersign.ErrRetryable }

// Unwrap returns the driver's error.
func (e *BusyError) Unwrap() error { return e.Err }

// UnavailableError says that the store could not carry the request out for a
// passing reason: it is full, out of memory, or failed to read. Nothing was
// written. It matches [countersign.ErrRetryable] and unwraps to the driver's
// error.
type UnavailableError struct {
	Reason string // as in "disk full"
	Err    error
}

func (e *UnavailableError) Error() string {
	if e.Err == nil {
		return "store: " + e.Reason
	}
	return fmt.Sprintf("store: %s: %v", e.Reason, e.Err)
}

// Is reports whether target is the error's kind.
func (e *UnavailableError) Is(target error) bool { return target == countersign.ErrRetryable }

// Unwrap returns the driver's error.
func (e *UnavailableError) Unwrap() error { return e.Err }

// UnusableError says that the store can't be used as it is: it is no database,
// it is corrupt, it can't be opened, or its records break the schema. Nothing was
// written. It matches [countersign.ErrRefused] and unwraps to the driver's
// error.
type UnusableError struct {
	Reason string // as in "not a database"
	Err    error  // or nil
}

func (e *UnusableError) Error() string {
	if e.Err == nil {
		return "store: " + e.Reason
	}
	return fmt.Sprintf("store: %s: %v", e.Reason, e.Err)
}

// Is reports whether target is the error's kind.
func (e *UnusableError) Is(target error) bool { return target == countersign.ErrRefused }

// Unwrap returns the driver's error.
func (e *UnusableError) Unwrap() error { return e.Err }

// ReadOnlyError says that the store was opened for reading, or can't be written
// to. It matches [countersign.ErrRefused].
type ReadOnlyError struct{ Err error } // the driver's error, or nil

func (e *ReadOnlyError) Error() string {
	if e.Err == nil {
		return "store: opened for reading only"
	}
	return fmt.Sprintf("store: read only: %v", e.Err)
}

// Is reports whether target is the error's kind.
func (e *ReadOnlyError) Is(target error) bool { return target == countersign.ErrRefused }

// Unwrap returns the driver's error.
func (e *ReadOnlyError) Unwrap() error { return e.Err }

// SchemaVersionError says that the schema in the store is not one that this
// library can use. Found 0 means that there is no schema of this library. It
// matches [countersign.ErrRefused].
type SchemaVersionError struct {
	Found  int // the schema's version
	Oldest int // the oldest library schema version that may still use it
	Known  int // the version that this library knows
}

func (e *SchemaVersionError) Error() string {
	switch {
	case e.Found == 0:
		return fmt.Sprintf("store: no schema of this library, run the migrations up to version %d", e.Known)
	case e.Found < e.Known:
		return fmt.Sprintf("store: the schema has version %d, run the migrations up to version %d", e.Found, e.Known)
	default:
		return fmt.Sprintf("store: the schema has version %d and needs a library that knows version %d, this one knows %d", e.Found, e.Oldest, e.Known)
	}
}

// Is reports whether target is the error's kind.
func (e *SchemaVersionError) Is(target error) bool { return target == countersign.ErrRefused }

// UnsupportedError says that the backend does not implement what was asked for.
// It matches [countersign.ErrRefused].
type UnsupportedError struct{ Capability string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("store: the backend does not support %s", e.Capability)
}

// Is reports whether target is the error's kind.
func (e *UnsupportedError) Is(target error) bool { return target == countersign.ErrRefused }
