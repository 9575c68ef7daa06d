package receipt

import (
	"fmt"

	"github.com/countersign/countersign"
)

// UnknownReceiptError says that the effect has no receipt. It matches
// [countersign.ErrRefused].
type UnknownReceiptError struct{ Key Key }

func (e *UnknownReceiptError) Error() string {
	return fmt.Sprintf("receipt: occurrence %q has no receipt of effect %q", e.Key.Occurrence, e.Key.Effect)
}

// Is reports whether target is the error's kind.
func (e *UnknownReceiptError) Is(target error) bool { return target == countersign.ErrRefused }

// UnsettledError says that another writer of the same receipt was first, and that
// its receipt could not be read. Nothing was written. It is no refusal: repeat the
// request. It matches [countersign.ErrRetryable].
type UnsettledError struct {
	Key Key
	Err error
}

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("receipt: the receipt of effect %q of occurrence %q is not settled, try again: %v", e.Key.Effect, e.Key.Occurrence, e.Err)
}

// Is reports whether target is the error's kind.
func (e *UnsettledError) Is(target error) bool { return target == countersign.ErrRetryable }

// Unwrap returns the cause.
func (e *UnsettledError) Unwrap() error { return e.Err }

// UnknownOutcomeError says that the receipt, and its events, may have been committed
// or not. Repeat the request as it is, or look the receipt up. It matches
// [countersign.ErrUnknownOutcome].
type UnknownOutcomeError struct {
	Key Key
	Err error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("receipt: whether effect %q of occurrence %q was committed is unknown, repeat the request: %v", e.Key.Effect, e.Key.Occurrence, e.Err)
}

// Is reports whether target is the error's kind.
func (e *UnknownOutcomeError) Is(target error) bool { return target == countersign.ErrUnknownOutcome }

// Unwrap returns the cause.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }
