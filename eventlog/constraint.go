package eventlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/internal/jsonvalue"
)

// A ConstraintKind says what is unique.
type ConstraintKind string

const (
	// UniqueValue is a value that only one event source may hold at a time: that of
	// its last event that is covered and has one. The source may hold it again, and
	// gives it up by taking another one.
	UniqueValue ConstraintKind = "unique_value"
	// UniqueEventType allows one covered event for each event source.
	UniqueEventType ConstraintKind = "unique_event_type"
)

// A Constraint is a rule over the events of a sequence, for each sequence of the
// event store. It is checked in the transaction of the append.
type Constraint struct {
	Name string         `json:"name"`
	Kind ConstraintKind `json:"kind"`

	// Covers are the event types that it is about.
	Covers []Covered `json:"covers"`

	// RemovedBy are event types that free what the event's source holds, also
	// earlier in the same batch.
	RemovedBy []string `json:"removed_by,omitempty"`

	// IgnoreCase compares the strings of a unique value by their Unicode case
	// folding.
	IgnoreCase bool `json:"ignore_case,omitempty"`

	// Within narrows it: each value of the named properties of an event has
	// uniqueness of its own. The zero value is the whole sequence.
	Within Within `json:"within"`
}

// Covered is an event type that a constraint is about.
type Covered struct {
	Type string `json:"type"`
	// Properties of the content that make the value, in this order: names of
	// members, or JSON pointers where they begin with a slash. Of a unique value at
	// least one, of a unique event type none. A property that is missing or null is
	// left out; an event without any of them is neither checked nor indexed.
	Properties []string `json:"properties,omitempty"`
}

// Within names the properties of an event, in each value of which a constraint
// holds by itself.
type Within struct {
	SourceType bool `json:"source_type,omitempty"`
	StreamType bool `json:"stream_type,omitempty"`
	StreamID   bool `json:"stream_id,omitempty"`
}

const (
	maxCovered    = 100
	maxProperties = 20
)

// Check reports the first rule that the constraint breaks.
func (c Constraint) Check() error {
	if err := countersign.CheckIdentity("constraint", c.Name); err != nil {
		return err
	}
	if c.Kind != UniqueValue && c.Kind != UniqueEventType {
		return c.malformed(fmt.Sprintf("is of the unknown kind %.40q", string(c.Kind)))
	}
	if len(c.Covers) == 0 {
		return c.malformed("covers no event type")
	}
	if n := max(len(c.Covers), len(c.RemovedBy)); n > maxCovered {
		return &countersign.LimitError{Field: "event types of a constraint", Unit: "items", Limit: maxCovered, Actual: int64(n)}
	}
	known := map[string]bool{}
	for _, e := range c.Covers {
		if err := c.checkCovered(e); err != nil {
			return err
		}
		if known[e.Type] {
			return c.malformed(fmt.Sprintf("names the event type %q twice", e.Type))
		}
		known[e.Type] = true
	}
	for _, id := range c.RemovedBy {
		if err := countersign.CheckIdentity("event type", id); err != nil {
			return err
		}
		if known[id] {
			return c.malformed(fmt.Sprintf("names the event type %q twice", id))
		}
		known[id] = true
	}
	if c.IgnoreCase && c.Kind == UniqueEventType {
		return c.malformed("has no value whose case could be ignored")
	}
	return nil
}

func (c Constraint) checkCovered(e Covered) error {
	if err := countersign.CheckIdentity("event type", e.Type); err != nil {
		return err
	}
	switch n := len(e.Properties); {
	case c.Kind == UniqueValue && n == 0:
		return c.malformed(fmt.Sprintf("names no property of the event type %q", e.Type))
	case c.Kind == UniqueEventType && n > 0:
		return c.malformed("is about event types, and names properties")
	case n > maxProperties:
		return &countersign.LimitError{Field: "properties of a constraint", Unit: "items", Limit: maxProperties, Actual: int64(n)}
	}
	for _, p := range e.Properties {
		if err := checkText("property", p, countersign.MaxIdentityBytes); err != nil {
			return err
		}
		if _, err := path(p); err != nil {
			return c.malformed(fmt.Sprintf("names the property %.80q, which is no JSON pointer", p))
		}
	}
	return nil
}

func (c Constraint) malformed(reason string) error {
	return &countersign.MalformedError{Field: fmt.Sprintf("constraint %.80q", c.Name), Reason: reason}
}

// path returns the member names that lead to a property.
func path(property string) ([]string, error) {
	if strings.HasPrefix(property, "/") {
		return jsonvalue.ParsePointer(property)
	}
	return []string{property}, nil
}

// normal returns the constraint as it is stored, in memory of its own.
func (c Constraint) normal() Constraint {
	c.Covers = slices.Clone(c.Covers)
	for i, e := range c.Covers {
		c.Covers[i].Properties = slices.Clone(e.Properties)
		if len(e.Properties) == 0 {
			c.Covers[i].Properties = nil
		}
	}
	slices.SortFunc(c.Covers, func(a, b Covered) int { return strings.Compare(a.Type, b.Type) })
	c.RemovedBy = slices.Sorted(slices.Values(c.RemovedBy))
	if len(c.RemovedBy) == 0 {
		c.RemovedBy = nil
	}
	return c
}

// RegisterConstraints is the request of [Store.RegisterConstraints]. A constraint
// replaces the one of its name; those that are not named stay.
//
// A change is also checked against what is stored: before the next append to a
// sequence, its index of the constraints is built anew from the stored events, a
// page at a time, and appends to it wait for that. Where stored events break a new
// constraint, the first holder of a value keeps it.
type RegisterConstraints struct {
	EventStore  string
	Constraints []Constraint
	Remove      []string // names; one that is not there is passed over
}

// Check reports the first rule that the request breaks.
func (r RegisterConstraints) Check() error {
	if err := countersign.CheckIdentity("event store", r.EventStore); err != nil {
		return err
	}
	if n := len(r.Constraints) + len(r.Remove); n == 0 {
		return &countersign.MalformedError{Field: "constraints", Reason: "are none"}
	} else if n > MaxDefinitions {
		return &countersign.LimitError{Field: "constraints", Unit: "items", Limit: MaxDefinitions, Actual: int64(n)}
	}
	known := map[string]bool{}
	for _, c := range r.Constraints {
		if err := c.Check(); err != nil {
			return err
		}
		if known[c.Name] {
			return c.malformed("is named twice")
		}
		known[c.Name] = true
	}
	for _, name := range r.Remove {
		if err := countersign.CheckIdentity("constraint", name); err != nil {
			return err
		}
		if known[name] {
			return Constraint{Name: name}.malformed("is named twice")
		}
		known[name] = true
	}
	return nil
}

// Decide says what the registration changes. It expects a request that passed
// Check.
func (r RegisterConstraints) Decide(before Definitions) (DefinitionPlan, error) {
	plan := DefinitionPlan{Revision: before.Revision, Constraints: before.Constraints}
	put := func(name string, body []byte) {
		old, _ := before.find(ConstraintDefinition, name, 0)
		if string(old.Body) != string(body) {
			plan.Put = append(plan.Put, Definition{Kind: ConstraintDefinition, Name: name, Body: body})
		}
	}
	for _, c := range r.Constraints {
		body, err := json.Marshal(c.normal())
		if err != nil {
			return DefinitionPlan{}, err
		}
		put(c.Name, body)
	}
	for _, name := range r.Remove {
		put(name, nil)
	}
	if plan.Writes = len(plan.Put) > 0; plan.Writes {
		plan.Revision++
		plan.Constraints = plan.Revision
	}
	return plan, nil
}
