package eventlog

import (
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/internal/jsonschema"
)

// MaxDefinitions is how many definitions one registration may hold.
const MaxDefinitions = 1_000

// maxRegistrationBytes bounds the schemas of one registration together.
const maxRegistrationBytes = 12 << 20

// An EventType is a kind of event with the schema of its content. Another schema
// is another generation: that of a registered generation never changes, since
// events that it has judged are stored.
type EventType struct {
	ID         string
	Generation uint32 // from 1; 0 is 1
	// Schema is a JSON schema, draft 4, 6 or 7. A reference that leaves the
	// document is refused, and nothing is ever fetched. `true` takes any JSON.
	Schema []byte
}

// RegisterEventTypes is the request of [Store.RegisterEventTypes].
type RegisterEventTypes struct {
	EventStore string
	Types      []EventType
}

// Check reports the first rule that the request breaks, before anything is read: a
// [*countersign.MalformedError], a [*countersign.LimitError] or a [*SchemaError].
func (r RegisterEventTypes) Check() error {
	if err := countersign.CheckIdentity("event store", r.EventStore); err != nil {
		return err
	}
	if n := len(r.Types); n == 0 {
		return &countersign.MalformedError{Field: "event types", Reason: "are none"}
	} else if n > MaxDefinitions {
		return &countersign.LimitError{Field: "event types", Unit: "items", Limit: MaxDefinitions, Actual: int64(n)}
	}
	type key struct {
		id         string
		generation uint32
	}
	known := map[key]bool{}
	size := 0
	for _, t := range r.Types {
		t = t.normal()
		if err := countersign.CheckIdentity("event type", t.ID); err != nil {
			return err
		}
		if t.Generation > MaxGeneration {
			return &countersign.MalformedError{Field: "generation", Reason: "is above 2^31-1"}
		}
		if known[key{t.ID, t.Generation}] {
			return &countersign.MalformedError{Field: "event types", Reason: fmt.Sprintf("name %q, generation %d, twice", t.ID, t.Generation)}
		}
		known[key{t.ID, t.Generation}] = true
		if size += len(t.Schema); size > maxRegistrationBytes {
			return &countersign.LimitError{Field: "schemas", Unit: "bytes", Limit: maxRegistrationBytes, Actual: int64(size)}
		}
		if _, err := jsonschema.Compile(t.Schema); err != nil {
			return &SchemaError{Type: t.ID, Generation: t.Generation, Err: err}
		}
	}
	return nil
}

func (t EventType) normal() EventType {
	if t.Generation == 0 {
		t.Generation = 1
	}
	return t
}

// Decide says what the registration changes: nothing, where the same schema is
// there already, with another order of members or other space. Another schema for
// a generation that there is gives a [*SchemaChangedError]. It expects a request
// that passed Check.
func (r RegisterEventTypes) Decide(before Definitions) (DefinitionPlan, error) {
	plan := DefinitionPlan{Revision: before.Revision, Constraints: before.Constraints}
	for _, t := range r.Types {
		t = t.normal()
		old, ok := before.find(EventTypeDefinition, t.ID, t.Generation)
		switch {
		case !ok:
			plan.Put = append(plan.Put, Definition{Kind: EventTypeDefinition, Name: t.ID, Generation: t.Generation, Body: t.Schema})
		case !jsonschema.Equal(old.Body, t.Schema):
			return DefinitionPlan{}, &SchemaChangedError{Type: t.ID, Generation: t.Generation}
		}
	}
	if plan.Writes = len(plan.Put) > 0; plan.Writes {
		plan.Revision++
	}
	return plan, nil
}

// Registered says what a registration came to.
type Registered struct {
	Revision uint64 // of the event store's definitions
	Changed  bool
	// Settlement is that of the transaction that the registration was part of.
	Settlement *countersign.Settlement
}
