package eventlog

import (
	"fmt"
	"slices"
)

// A Prepared append is one whose events have been judged by their schemas, and
// whose moves in the constraint index are known. It is what the transaction needs.
// It shares the memory of the request.
type Prepared struct {
	Append AppendEvents

	revision   uint64 // of the definitions
	events     []prepared
	violations []Violation // of schemas
}

type prepared struct {
	passed bool
	moves  []move
}

// Prepare judges the events of a request that passed its Check. It fails only where
// a document can't be judged, as one with too many values: a
// [*countersign.MalformedError].
func (c *Catalog) Prepare(a AppendEvents) (*Prepared, error) {
	a.Sequence = a.Sequence.Named()
	p := &Prepared{Append: a, revision: c.Revision, events: make([]prepared, len(a.Events))}
	for i := range a.Events {
		e := a.Events[i].normal(a.Events[i].Occurred)
		violations, err := c.judge(&e)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		for _, v := range violations {
			v.Event = i
			p.violations = append(p.violations, v)
		}
		if p.events[i].passed = len(violations) == 0; !p.events[i].passed {
			continue
		}
		for _, n := range c.byType[e.Type] {
			if m, ok := c.constraints[n].move(&e); ok {
				p.events[i].moves = append(p.events[i].moves, m)
			}
		}
	}
	return p, nil
}

// judge holds an event against the schema of its type.
func (c *Catalog) judge(e *Event) ([]Violation, error) {
	schema, ok := c.types[typeKey{e.Type, e.Generation}]
	if !ok {
		return []Violation{{
			Kind: UnknownEventType, EventType: e.Type, Generation: e.Generation,
			Message: "it is not registered in this generation in the event store",
		}}, nil
	}
	problems, err := schema.Validate(e.Content)
	if err != nil {
		return nil, malformedContent(err)
	}
	violations := make([]Violation, len(problems))
	for i, p := range problems {
		violations[i] = Violation{
			Kind: SchemaViolation, EventType: e.Type, Generation: e.Generation,
			Pointer: p.Pointer, Keyword: p.Keyword, Message: p.Message,
		}
	}
	return violations, nil
}

// A Touch is what an append touches in its sequence: what an adapter reads into
// the [Slice], besides the sequence's and the event store's row.
type Touch struct {
	Sequence Sequence
	Owners   []ClaimOwner // claims by their source, distinct
	Values   []ClaimValue // claims by their value, distinct
	Scopes   []Scope      // distinct but for their labels
}

// Touch names what the append touches.
func (p *Prepared) Touch() Touch {
	t := Touch{Sequence: p.Append.Sequence}
	owners, values := map[ClaimOwner]bool{}, map[ClaimValue]bool{}
	for _, e := range p.events {
		for _, m := range e.moves {
			if !owners[m.owner] {
				owners[m.owner] = true
				t.Owners = append(t.Owners, m.owner)
			}
			value := ClaimValue{m.owner.Index, m.value}
			if !m.frees && m.constraint.Kind == UniqueValue && !values[value] {
				values[value] = true
				t.Values = append(t.Values, value)
			}
		}
	}
	known := map[string]bool{}
	for _, s := range p.Append.Scopes {
		if key := s.Key(); !known[key] {
			known[key] = true
			t.Scopes = append(t.Scopes, s)
		}
	}
	return t
}

// Union returns what several appends to one sequence touch together.
func Union(touches ...Touch) Touch {
	if len(touches) == 1 {
		return touches[0]
	}
	all := Touch{}
	owners, values, scopes := map[ClaimOwner]bool{}, map[ClaimValue]bool{}, map[string]bool{}
	for _, t := range touches {
		all.Sequence = t.Sequence
		for _, o := range t.Owners {
			if !owners[o] {
				owners[o] = true
				all.Owners = append(all.Owners, o)
			}
		}
		for _, v := range t.Values {
			if !values[v] {
				values[v] = true
				all.Values = append(all.Values, v)
			}
		}
		for _, s := range t.Scopes {
			if key := s.Key(); !scopes[key] {
				scopes[key] = true
				all.Scopes = append(all.Scopes, s)
			}
		}
	}
	return all
}

// Clone makes the prepared append independent of the caller's memory.
func (p *Prepared) Clone() *Prepared {
	c := *p
	c.Append = p.Append.Clone()
	c.violations = slices.Clone(p.violations)
	return &c
}
