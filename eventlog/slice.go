package eventlog

import "time"

// A Slice is the part of a sequence that appends touch, as the store holds it. An
// adapter reads it in the transaction that will write, lets [Decide] and
// [Slice.Apply] work on it, for one append after another, and writes
// [Slice.Changes].
type Slice struct {
	// Revision and Constraints are those of the event store's [Definitions].
	Revision    uint64
	Constraints uint64

	Exists  bool   // whether the sequence has a row; without it the row is created
	Next    uint64 // the next number; 0 of a new sequence
	Indexed uint64 // the Definitions.Constraints that the constraint index is complete for

	Now time.Time // the time of the store; AppendGroup.Decide sets it

	claims  claims
	highest map[string]uint64
	changes Changes
}

// AddClaim puts a claim into the slice, as it was read. It may be added twice.
func (s *Slice) AddClaim(c Claim) { s.claims.add(c) }

// SetHighest says that the number is the highest that matches the scope, where
// that is Expected.From or above.
func (s *Slice) SetHighest(scope Scope, number uint64) {
	s.highest = put(s.highest, scope.Key(), number)
}

// Changes is what an adapter writes, in one transaction: first it deletes the
// freed claims, then it inserts the rest. If the row is new, it inserts it with Next,
// Indexed, and 0 for Building and Through; else it sets Next and nothing else of it.
type Changes struct {
	Creates bool   // the sequence's row is new
	Next    uint64 // the sequence's next number afterwards
	Indexed uint64 // of a new row
	Events  []Recorded
	Freed   []ClaimOwner
	Claims  []Claim
}

// Writes reports whether there is anything to write.
func (c Changes) Writes() bool { return c.Creates || len(c.Events) > 0 }

// Changes returns what the plans that were applied come to together. The events
// share memory with the requests.
func (s *Slice) Changes() Changes {
	c := s.changes
	c.Next, c.Indexed = s.Next, s.Indexed
	c.Freed, c.Claims = s.claims.changes()
	return c
}

// Apply carries a plan over to the slice.
func (s *Slice) Apply(p Plan) {
	if len(p.events) == 0 {
		return
	}
	if !s.Exists {
		s.Exists, s.changes.Creates, s.Indexed = true, true, s.Constraints
	}
	s.Next += uint64(len(p.events))
	s.changes.Events = append(s.changes.Events, p.events...)
	p.trial.keep()
}

// highestOf returns the highest number that matches the scope from Expected.From
// on, also of events that were decided on before.
func (s *Slice) highestOf(scope Scope) (uint64, bool) {
	filter := scope.Filter()
	for i := len(s.changes.Events) - 1; i >= 0; i-- {
		e := &s.changes.Events[i]
		if e.Number >= scope.Expected.From() && filter.Matches(&e.Event) {
			return e.Number, true
		}
	}
	number, ok := s.highest[scope.Key()]
	return number, ok
}
