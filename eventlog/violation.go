package eventlog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign"
)

// A ViolationKind says which rule an event breaks.
type ViolationKind string

const (
	UnknownEventType         ViolationKind = "unknown_event_type"
	SchemaViolation          ViolationKind = "schema"
	UniqueValueViolation     ViolationKind = "unique_value"
	UniqueEventTypeViolation ViolationKind = "unique_event_type"
)

// A Violation says why an event was refused. It contains nothing of the event's
// content.
type Violation struct {
	Event      int // the index in the batch
	Kind       ViolationKind
	EventType  string
	Generation uint32

	Pointer string // of a schema's violation: the place in the content, a JSON pointer
	Keyword string // of a schema's violation: the schema's keyword, as in "required"

	Constraint string // of a constraint's violation: its name
	Holder     uint64 // and the number of the event that holds what is unique
	InBatch    bool   // unless that is an earlier event of the same batch, which has no number

	Message string
}

// ViolationsError says that events of a batch break their schema or constraints:
// all violations of all events, ordered by event. Nothing was written. It matches
// [countersign.ErrRefused].
type ViolationsError struct{ Violations []Violation }

func (e *ViolationsError) Error() string {
	const most = 5
	var b strings.Builder
	b.WriteString("eventlog: refused")
	for i, v := range e.Violations {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Violations)-most)
			break
		}
		fmt.Fprintf(&b, "; event %d of type %.80q, generation %d: %s", v.Event, v.EventType, v.Generation, v.Message)
		switch {
		case v.Constraint != "" && v.InBatch:
			fmt.Fprintf(&b, ", by an earlier event of the batch (constraint %.80q)", v.Constraint)
		case v.Constraint != "":
			fmt.Fprintf(&b, ", by event %d of the sequence (constraint %.80q)", v.Holder, v.Constraint)
		case v.Pointer != "":
			fmt.Fprintf(&b, " (at %.80q)", v.Pointer)
		}
	}
	return b.String()
}

// Is reports whether target is the error's kind.
func (e *ViolationsError) Is(target error) bool { return target == countersign.ErrRefused }

// sortViolations orders them by event; of one event, those of its schema are in
// their own order, and those of its constraints by name.
func sortViolations(all []Violation) {
	slices.SortStableFunc(all, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Event, b.Event), cmp.Compare(a.Constraint, b.Constraint))
	})
}
