package eventlog

import (
	"encoding/json"
	"fmt"

	"github.com/countersign/countersign/internal/jsonschema"
)

// A Catalog is the definitions of an event store, compiled: what an append is
// prepared with. It does not change, and is safe for concurrent use.
type Catalog struct {
	Revision    uint64
	Constraints uint64

	types       map[typeKey]*jsonschema.Schema
	constraints []constraint
	byType      map[string][]int // the constraints that cover or are freed by an event type
}

type typeKey struct {
	id         string
	generation uint32
}

// Compile compiles definitions. It fails only on those that no registration has
// written.
func Compile(d Definitions) (*Catalog, error) {
	c := &Catalog{Revision: d.Revision, Constraints: d.Constraints, types: map[typeKey]*jsonschema.Schema{}, byType: map[string][]int{}}
	for _, one := range d.All {
		if len(one.Body) == 0 {
			continue
		}
		switch one.Kind {
		case EventTypeDefinition:
			schema, err := jsonschema.Compile(one.Body)
			if err != nil {
				return nil, &SchemaError{Type: one.Name, Generation: one.Generation, Err: err}
			}
			c.types[typeKey{one.Name, one.Generation}] = schema
		case ConstraintDefinition:
			if err := c.addConstraint(one); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

func (c *Catalog) addConstraint(d Definition) error {
	var definition Constraint
	err := json.Unmarshal(d.Body, &definition)
	if err == nil {
		err = definition.Check()
	}
	if err != nil {
		return fmt.Errorf("eventlog: the constraint %q can't be read: %w", d.Name, err)
	}
	i := len(c.constraints)
	c.constraints = append(c.constraints, newConstraint(definition))
	for _, covered := range definition.Covers {
		c.byType[covered.Type] = append(c.byType[covered.Type], i)
	}
	for _, id := range definition.RemovedBy {
		c.byType[id] = append(c.byType[id], i)
	}
	return nil
}
