package eventlog

import (
	"fmt"

	"github.com/countersign/countersign"
)

// SchemaError says that a schema can't be used: it is no JSON schema of a draft
// that is known, refers to something outside, or could not be evaluated in bounded
// time. It matches [countersign.ErrMalformed] and [countersign.ErrRefused].
type SchemaError struct {
	Type       string
	Generation uint32
	Err        error // what is wrong, and where
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("eventlog: the schema of event type %.80q, generation %d: %v", e.Type, e.Generation, e.Err)
}

// Is reports whether target is the error's kind.
func (e *SchemaError) Is(target error) bool {
	return target == countersign.ErrMalformed || target == countersign.ErrRefused
}

// Unwrap returns what is wrong.
func (e *SchemaError) Unwrap() error { return e.Err }

// SchemaChangedError says that an event type's generation is registered with
// another schema. Register the next generation. It matches
// [countersign.ErrRefused].
type SchemaChangedError struct {
	Type       string
	Generation uint32
}

func (e *SchemaChangedError) Error() string {
	return fmt.Sprintf("eventlog: event type %.80q is registered in generation %d with another schema: a changed schema is a new generation", e.Type, e.Generation)
}

// Is reports whether target is the error's kind.
func (e *SchemaChangedError) Is(target error) bool { return target == countersign.ErrRefused }

// ScopesViolatedError says that others have appended inside concurrency scopes:
// all those that are violated, in the order of the request. Nothing was written.
// Read again what the decision rests on. It matches [countersign.ErrConflict].
type ScopesViolatedError struct{ Violations []ScopeViolation }

func (e *ScopesViolatedError) Error() string {
	v := e.Violations[0]
	expected := "none yet"
	if n, ok := v.Expected.Number(); ok {
		expected = fmt.Sprint(n)
	}
	return fmt.Sprintf("eventlog: violated concurrency scopes: %d; the first (%.80q) expected %s and found %d", len(e.Violations), v.Scope.Label, expected, v.Actual)
}

// Is reports whether target is the error's kind.
func (e *ScopesViolatedError) Is(target error) bool { return target == countersign.ErrConflict }

// SequenceOverflowError says that the sequence has no numbers left. It matches
// [countersign.ErrRefused].
type SequenceOverflowError struct {
	Sequence Sequence
	Next     uint64
}

func (e *SequenceOverflowError) Error() string {
	return fmt.Sprintf("eventlog: sequence %q has no numbers left after %d", e.Sequence.Name, e.Next)
}

// Is reports whether target is the error's kind.
func (e *SequenceOverflowError) Is(target error) bool { return target == countersign.ErrRefused }

// Operations, as [UnknownOutcomeError] names them.
const (
	OpAppend              = "append"
	OpRegisterEventTypes  = "register event types"
	OpRegisterConstraints = "register constraints"
	OpDropNamespace       = "drop namespace"
	OpClaimObserver       = "claim observer"
	OpSaveObserver        = "save observer"
	OpRetryPartition      = "retry partition"
	OpReplayObserver      = "replay observer"
	OpIndex               = "complete constraint index"
)

// UnknownOutcomeError says that a request may have been carried out or not. It
// matches [countersign.ErrUnknownOutcome].
//
// All but an append may be repeated as they are. An append without a receipt may
// not: its events may be there already. To find out, read the sequence from number
// From on and look for the events, by their correlation id as a rule, once the
// store answers again and no call to it is under way.
type UnknownOutcomeError struct {
	Op       string
	Sequence Sequence // of an append or an observer
	From     uint64   // of an append: where its events are, if they are there, or after it
	Err      error
}

func (e *UnknownOutcomeError) Error() string {
	if e.Op != OpAppend {
		return fmt.Sprintf("eventlog: the outcome of %q is unknown, repeat it: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("eventlog: whether the events were appended to sequence %q is unknown; do not repeat the append blindly: read the sequence from number %d on and look for them: %v",
		e.Sequence.Name, e.From, e.Err)
}

// Is reports whether target is the error's kind.
func (e *UnknownOutcomeError) Is(target error) bool { return target == countersign.ErrUnknownOutcome }

// Unwrap returns the cause.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

func malformedContent(err error) error {
	return &countersign.MalformedError{Field: "content", Reason: "can't be judged by its schema: " + err.Error()}
}
