package eventlog

import (
	"fmt"
	"time"

	"github.com/countersign/countersign"
)

// UnknownObserverError says that nobody has claimed an observer yet. It matches
// [countersign.ErrRefused].
type UnknownObserverError struct{ Observer ObserverKey }

func (e *UnknownObserverError) Error() string {
	return fmt.Sprintf("eventlog: unknown observer %q", e.Observer.Name)
}

// Is reports whether target is the error's kind.
func (e *UnknownObserverError) Is(target error) bool { return target == countersign.ErrRefused }

// ObserverHeldError says that somebody else holds the observer. It matches
// [countersign.ErrRetryable].
type ObserverHeldError struct {
	Observer ObserverKey
	Holder   string
	Until    time.Time // unless it is prolonged
}

func (e *ObserverHeldError) Error() string {
	return fmt.Sprintf("eventlog: observer %q is held by %q until %v", e.Observer.Name, e.Holder, e.Until)
}

// Is reports whether target is the error's kind.
func (e *ObserverHeldError) Is(target error) bool { return target == countersign.ErrRetryable }

// StaleObserverError says that the claim was lost: another holder, or a replay, came
// after it. Nothing was written. It matches [countersign.ErrRefused].
type StaleObserverError struct {
	Observer ObserverKey
	Fence    uint64 // the request's
	Current  uint64
}

func (e *StaleObserverError) Error() string {
	return fmt.Sprintf("eventlog: observer %q is claimed under fence %d, not %d", e.Observer.Name, e.Current, e.Fence)
}

// Is reports whether target is the error's kind.
func (e *StaleObserverError) Is(target error) bool { return target == countersign.ErrRefused }

// NotQuarantinedError says that a partition needs no operator. It matches
// [countersign.ErrRefused].
type NotQuarantinedError struct {
	Observer ObserverKey
	Source   string
}

func (e *NotQuarantinedError) Error() string {
	return fmt.Sprintf("eventlog: the partition %q of observer %q is not quarantined", e.Source, e.Observer.Name)
}

// Is reports whether target is the error's kind.
func (e *NotQuarantinedError) Is(target error) bool { return target == countersign.ErrRefused }
