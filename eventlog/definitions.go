package eventlog

import (
	"cmp"
	"slices"
)

// Kinds of [Definition].
const (
	EventTypeDefinition  = "event_type"
	ConstraintDefinition = "constraint"
)

// A Definition is what an event store holds of an event type's generation or of a
// constraint: what an adapter keeps in a row. The key is kind, name and
// generation.
type Definition struct {
	Kind       string
	Name       string
	Generation uint32 // of an event type; 0 of a constraint
	Body       []byte // the schema; or the constraint, encoded; empty: removed
}

// Definitions is everything that is registered in an event store. An event store
// in which nothing is has the zero Definitions.
type Definitions struct {
	Revision    uint64 // grows by one with each registration that changes something
	Constraints uint64 // the revision that changed the constraints last
	All         []Definition
}

// A DefinitionPlan is what a registration decided: the revisions afterwards, and
// the rows to put in place. Without Writes it changes nothing.
type DefinitionPlan struct {
	Writes      bool
	Revision    uint64
	Constraints uint64
	Put         []Definition
}

// find returns the definition under the key.
func (d Definitions) find(kind, name string, generation uint32) (Definition, bool) {
	i := slices.IndexFunc(d.All, func(e Definition) bool {
		return e.Kind == kind && e.Name == name && e.Generation == generation
	})
	if i < 0 {
		return Definition{}, false
	}
	return d.All[i], true
}

// Apply returns the definitions after the plan.
func (d Definitions) Apply(p DefinitionPlan) Definitions {
	if !p.Writes {
		return d
	}
	after := Definitions{Revision: p.Revision, Constraints: p.Constraints, All: slices.Clone(d.All)}
	for _, put := range p.Put {
		after.All = slices.DeleteFunc(after.All, func(e Definition) bool {
			return e.Kind == put.Kind && e.Name == put.Name && e.Generation == put.Generation
		})
		after.All = append(after.All, put)
	}
	slices.SortFunc(after.All, CompareDefinitions)
	return after
}

// CompareDefinitions orders definitions by their key.
func CompareDefinitions(a, b Definition) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Generation, b.Generation))
}
