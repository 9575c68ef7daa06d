package durable

import (
	"fmt"
	"maps"
	"slices"

	"github.com/countersign/countersign"
)

// A FactType says what a fact does to its entity.
type FactType string

const (
	Create  FactType = "create"  // of an entity that does not exist
	Amend   FactType = "amend"   // of one that exists
	Retract FactType = "retract" // of one that exists; the others stay
)

// A Fact is what one event says about one named entity.
type Fact struct {
	Type     FactType
	EntityID string // not empty
	Value    string // of create and amend; empty with retract
}

// A Step is the fact at a position. A nil Fact is a position that says nothing:
// it is consumed, and the projection's version stays.
type Step struct {
	Position uint64
	Fact     *Fact
}

// Project returns the checkpoint after the steps that follow from. Resuming
// from any valid checkpoint equals projecting everything from the beginning,
// which is the zero Checkpoint. The entries of the result are never nil:
// retracting the last entity projects an empty list.
//
// A corrupt checkpoint is a [*CorruptCheckpointError], a step that does not
// follow or does not fit a [*ProjectionError]; then nothing is projected. The
// result shares no memory with the arguments.
func Project(from Checkpoint, suffix []Step) (Checkpoint, error) {
	p, err := NewProjector(from)
	if err != nil {
		return Checkpoint{}, err
	}
	for _, s := range suffix {
		if err := p.Apply(s); err != nil {
			return Checkpoint{}, err
		}
	}
	return p.Checkpoint(), nil
}

// A Projector projects facts step by step, for a history that is read in pages.
// Its size is that of the projected state. The zero Projector is at the
// beginning. It is not safe for concurrent use.
type Projector struct {
	through uint64
	version uint64
	values  map[string]string // by entity id
}

// NewProjector returns a projector that goes on from a checkpoint. A corrupt one
// is a [*CorruptCheckpointError].
func NewProjector(from Checkpoint) (*Projector, error) {
	if err := from.Validate(); err != nil {
		return nil, err
	}
	p := &Projector{through: from.Through, version: from.ProjectionVersion, values: make(map[string]string, len(from.Entries))}
	for _, e := range from.Entries {
		p.values[e.EntityID] = e.Value
	}
	return p, nil
}

// Through returns the last position that was consumed.
func (p *Projector) Through() uint64 { return p.through }

// Apply consumes the step at the next position. A step at another position, a
// malformed fact, the creation of an entity that exists, and the amendment or
// retraction of one that does not are a [*ProjectionError]; the projector then
// stays as it is.
func (p *Projector) Apply(s Step) error {
	if err := p.check(s); err != nil {
		return err
	}
	p.through = s.Position
	if s.Fact == nil {
		return nil
	}
	p.version++
	if s.Fact.Type == Retract {
		delete(p.values, s.Fact.EntityID)
		return nil
	}
	if p.values == nil {
		p.values = make(map[string]string)
	}
	p.values[s.Fact.EntityID] = s.Fact.Value
	return nil
}

// check reports why the step can't be applied.
func (p *Projector) check(s Step) error {
	refused := func(reason ProjectionReason, format string, args ...any) error {
		return &ProjectionError{Position: s.Position, Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	switch next := p.through + 1; {
	case s.Position > countersign.MaxInteger:
		return refused(StepInteger, "it is above 2^63-1")
	case s.Position > next:
		return refused(StepGap, "the next position is %d", next)
	case s.Position < next:
		return refused(StepRepeat, "the next position is %d", next)
	case s.Fact == nil:
		return nil
	}
	f := *s.Fact
	if f.EntityID == "" {
		return refused(FactMalformed, "the entity has no name")
	}
	_, exists := p.values[f.EntityID]
	switch f.Type {
	case Create:
		if exists {
			return refused(EntityExists, "create of %q", f.EntityID)
		}
		return nil
	case Retract:
		if f.Value != "" {
			return refused(FactMalformed, "retract of %q has a value", f.EntityID)
		}
	case Amend:
	default:
		return refused(FactMalformed, "unknown type %.40q", string(f.Type))
	}
	if !exists {
		return refused(EntityMissing, "%s of %q", f.Type, f.EntityID)
	}
	return nil
}

// Checkpoint returns where the projector stands. Its entries are never nil, and
// later steps do not change them.
func (p *Projector) Checkpoint() Checkpoint {
	c := Checkpoint{Through: p.through, ProjectionVersion: p.version, Entries: make([]Entry, 0, len(p.values))}
	for _, id := range slices.Sorted(maps.Keys(p.values)) {
		c.Entries = append(c.Entries, Entry{EntityID: id, Value: p.values[id]})
	}
	return c
}

// A ProjectionReason says why a step was refused.
type ProjectionReason string

const (
	StepInteger   ProjectionReason = "integer"        // a position above 2^63-1
	StepGap       ProjectionReason = "gap"            // a position after the next one
	StepRepeat    ProjectionReason = "repeat"         // a position that was consumed before
	FactMalformed ProjectionReason = "malformed_fact" // an unknown type, no name, or a retract with a value
	EntityExists  ProjectionReason = "entity_exists"  // create of an entity that is there
	EntityMissing ProjectionReason = "entity_missing" // amend or retract of one that is not
)

// ProjectionError says that a step does not follow or does not fit what was
// projected before it: the source is corrupt, or was read out of order. It
// matches [countersign.ErrRefused].
type ProjectionError struct {
	Position uint64 // of the step
	Reason   ProjectionReason
	Detail   string
}

func (e *ProjectionError) Error() string {
	return fmt.Sprintf("durable: position %d can't be projected (%s): %s", e.Position, e.Reason, e.Detail)
}

// Is reports whether target is the error's kind.
func (e *ProjectionError) Is(target error) bool { return target == countersign.ErrRefused }
