package countersign

import (
	"errors"
	"fmt"
)

// The four kinds of error. Every error of this module that a caller can act on
// matches exactly one of them with [errors.Is], and the kind says what to do.
var (
	// ErrRefused means that nothing was written and that repeating this request on
	// this handle cannot succeed: malformed input, an identity conflict, a stale
	// fence. It does not say that a delivery is bad: a stale fence, a closed store
	// or an older release refuse good deliveries too.
	ErrRefused = errors.New("countersign: refused")

	// ErrConflict means that nothing was written and that a reload can cure it:
	// somebody else moved the position first.
	ErrConflict = errors.New("countersign: conflict")

	// ErrRetryable means that nothing was written and that the same request may
	// be repeated later: the store was busy, or full, or the caller gave up
	// before the request was taken.
	ErrRetryable = errors.New("countersign: retryable")

	// ErrUnknownOutcome means that the request may or may not have been
	// committed. A request with an identity of its own is repeated as it is and
	// then learns what happened; one without says in its error how to find out.
	ErrUnknownOutcome = errors.New("countersign: unknown outcome")
)

// ErrMalformed is matched by [*MalformedError] and [*LimitError]: input that no
// store accepts, whatever it holds. Both also match [ErrRefused].
var ErrMalformed = errors.New("countersign: malformed")

// MalformedError says that a value breaks a rule of the contract. It is
// reported before anything is read or written. It matches [ErrMalformed] and
// [ErrRefused].
type MalformedError struct {
	Field  string // what is malformed, as in "inbox id"
	Reason string // why, as in "is empty"
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("countersign: %s %s", e.Field, e.Reason)
}

// Is reports whether target is the error's kind.
func (e *MalformedError) Is(target error) bool {
	return target == ErrMalformed || target == ErrRefused
}

// LimitError says that a value is larger than the contract allows. The limits
// are the same on every backend. It is reported before anything is read or
// written. It matches [ErrMalformed] and [ErrRefused].
type LimitError struct {
	Field  string // what is too large, as in "payload"
	Unit   string // "bytes" or "items"
	Limit  int64
	Actual int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("countersign: %s has %d %s, the limit is %d", e.Field, e.Actual, e.Unit, e.Limit)
}

// Is reports whether target is the error's kind.
func (e *LimitError) Is(target error) bool {
	return target == ErrMalformed || target == ErrRefused
}
