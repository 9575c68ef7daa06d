package eventlog

import (
	"errors"
	"math"

	"github.com/countersign/countersign"
)

// Verdicts that tell an adapter's caller what to do before it asks again. They
// never reach a user: see [github.com/countersign/countersign/store.Events].
var (
	// ErrDefinitionsChanged says that the append was prepared with other
	// definitions than those that are in force.
	ErrDefinitionsChanged = errors.New("eventlog: the definitions have changed since the append was prepared")
	// ErrIndexIncomplete says that the sequence's constraint index is not complete
	// for the constraints in force: see
	// [github.com/countersign/countersign/store.Indexing].
	ErrIndexIncomplete = errors.New("eventlog: the sequence's constraint index is not complete")
)

// A Plan is what [Decide] decided.
type Plan struct {
	Appended Appended
	events   []Recorded
	trial    *trial
}

// Decide says what an append comes to, and changes nothing. The order is that of
// the contract (section 5): the schemas' violations are united with those of the
// constraints, which only events are asked about that passed their schema; if
// there are any, it is a [*ViolationsError]. Then the concurrency scopes: all that
// are violated are in a [*ScopesViolatedError]. Numbers above 2^63-1 are a
// [*SequenceOverflowError]. [ErrDefinitionsChanged] and [ErrIndexIncomplete] come
// before all of these.
func Decide(s *Slice, p *Prepared) (Plan, error) {
	if p.revision != s.Revision {
		return Plan{}, ErrDefinitionsChanged
	}
	n := uint64(len(p.Append.Events))
	if n > 0 && s.Exists && s.Indexed != s.Constraints {
		return Plan{}, ErrIndexIncomplete
	}
	trial := &trial{base: &s.claims}
	violations := append([]Violation(nil), p.violations...)
	for i := range p.events {
		violations = append(violations, judgeMoves(s, trial, p, i)...)
	}
	if len(violations) > 0 {
		sortViolations(violations)
		return Plan{}, &ViolationsError{Violations: violations}
	}
	if err := judgeScopes(s, p.Append.Scopes); err != nil {
		return Plan{}, err
	}
	plan := Plan{Appended: Appended{Sequence: p.Append.Sequence.Name}}
	if n == 0 {
		return plan, nil
	}
	if s.Next > countersign.MaxInteger || n-1 > countersign.MaxInteger-s.Next {
		return Plan{}, &SequenceOverflowError{Sequence: p.Append.Sequence, Next: s.Next}
	}
	plan.trial = trial
	plan.Appended.Count, plan.Appended.First, plan.Appended.Last = int(n), s.Next, s.Next+n-1
	plan.events = make([]Recorded, n)
	for i, e := range p.Append.Events {
		plan.events[i] = Recorded{Number: s.Next + uint64(i), Event: e.normal(s.Now)} //nolint:gosec // at most MaxEvents
	}
	return plan, nil
}

// judgeMoves judges one event by its constraints. If none refuses it, its moves are
// made in the trial; a refused event makes none.
func judgeMoves(s *Slice, t *trial, p *Prepared, i int) []Violation {
	var violations []Violation
	for _, m := range p.events[i].moves {
		holder, refused := t.holder(m)
		if !refused {
			continue
		}
		e := p.Append.Events[i].normal(s.Now)
		v := Violation{
			Event: i, EventType: e.Type, Generation: e.Generation, Constraint: m.constraint.Name,
			Kind: UniqueValueViolation, Message: "another event source holds the value",
		}
		if m.constraint.Kind == UniqueEventType {
			v.Kind, v.Message = UniqueEventTypeViolation, "the event source has such an event already"
		}
		if v.Holder = holder.Number; holder.Number >= s.Next {
			v.Holder, v.InBatch = 0, true
		}
		violations = append(violations, v)
	}
	if len(violations) == 0 && p.events[i].passed {
		for _, m := range p.events[i].moves {
			t.make(m, saturating(s.Next, i))
		}
	}
	return violations
}

// saturating is a number that may turn out to be too great.
func saturating(next uint64, i int) uint64 {
	if next > math.MaxUint64-uint64(i) { //nolint:gosec // at most MaxEvents
		return math.MaxUint64
	}
	return next + uint64(i) //nolint:gosec // at most MaxEvents
}

func judgeScopes(s *Slice, scopes []Scope) error {
	var violated []ScopeViolation
	for _, scope := range scopes {
		if actual, ok := s.highestOf(scope); ok {
			violated = append(violated, ScopeViolation{Scope: scope, Expected: scope.Expected, Actual: actual})
		}
	}
	if len(violated) > 0 {
		return &ScopesViolatedError{Violations: violated}
	}
	return nil
}
