package eventlog

import (
	"fmt"

	"github.com/countersign/countersign"
)

// AppendEvents is the request of [Store.AppendEvents]: a batch that is appended
// whole, under contiguous numbers, or not at all.
//
// A batch without events writes nothing; its scopes are judged all the same.
//
// It has no identity. After an [*UnknownOutcomeError] it must not be repeated
// blindly: the events may be there. Where a retry must be safe, append with a
// receipt (package receipt).
type AppendEvents struct {
	Sequence Sequence
	Events   []Event
	Scopes   []Scope
}

// Check reports the first rule of form that the request breaks: a
// [*countersign.MalformedError] or a [*countersign.LimitError], which names the
// event by its index.
func (a AppendEvents) Check() error {
	if err := a.Sequence.Check(); err != nil {
		return err
	}
	if n := len(a.Events); n > MaxEvents {
		return &countersign.LimitError{Field: "events", Unit: "items", Limit: MaxEvents, Actual: int64(n)}
	}
	if n := len(a.Scopes); n > MaxScopes {
		return &countersign.LimitError{Field: "scopes", Unit: "items", Limit: MaxScopes, Actual: int64(n)}
	}
	if n := a.Size(); n > MaxBatchBytes {
		return &countersign.LimitError{Field: "batch", Unit: "bytes", Limit: MaxBatchBytes, Actual: int64(n)}
	}
	for i, s := range a.Scopes {
		if err := s.Check(); err != nil {
			return fmt.Errorf("scope %d: %w", i, err)
		}
	}
	for i := range a.Events {
		if err := a.Events[i].Check(); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

// Size is what counts against [MaxBatchBytes].
func (a AppendEvents) Size() int {
	n := 0
	for i := range a.Events {
		n += a.Events[i].Size()
	}
	return n
}

// Clone returns a copy that shares no memory.
func (a AppendEvents) Clone() AppendEvents {
	events := make([]Event, len(a.Events))
	for i, e := range a.Events {
		events[i] = e.Clone()
	}
	a.Events = events
	scopes := make([]Scope, len(a.Scopes))
	for i, s := range a.Scopes {
		s.EventTypes = append([]string(nil), s.EventTypes...)
		scopes[i] = s
	}
	a.Scopes = scopes
	return a
}

// Appended is the result of an append.
type Appended struct {
	Sequence    string
	Count       int    // of events; with 0 there are no numbers
	First, Last uint64 // inclusive
	// Settlement is that of the transaction that the append was part of: nil when
	// it is durable.
	Settlement *countersign.Settlement
}

// AckSafe reports whether the append is known to be durable. Inside a
// transaction it is false until that has committed.
func (a Appended) AckSafe() bool { return a.Settlement.Settled() }
