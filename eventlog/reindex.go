package eventlog

// ReindexPage is how many events, or claims to delete, a step of building an index
// takes at most.
const ReindexPage = 1_000

// An IndexState is how far a sequence's constraint index is: what an adapter keeps
// in the sequence's row besides Next.
type IndexState struct {
	Next     uint64
	Indexed  uint64 // the Definitions.Constraints that it is complete for
	Building uint64 // those that it is being built for, while that is not Indexed
	Through  uint64 // the first number that is not indexed yet
}

// A ReindexStep is what an adapter does next, in the transaction in which it has
// locked and read the sequence's row.
type ReindexStep struct {
	Done bool // nothing: the index is complete
	// Clears says to delete up to ReindexPage claims of the sequence, whatever they
	// are. If there were none, or fewer, the building starts.
	Clears bool
	// Indexes says to read up to ReindexPage events from State.Through on, to read the
	// claims that [Catalog.Index] touches, and to write what it changes.
	Indexes bool
}

// NextReindexStep says what to do to make the index complete for the constraints.
func NextReindexStep(s IndexState, constraints uint64) ReindexStep {
	switch {
	case s.Indexed == constraints:
		return ReindexStep{Done: true}
	case s.Building != constraints:
		return ReindexStep{Clears: true}
	}
	return ReindexStep{Indexes: true}
}

// Cleared returns the state after a step that deleted so many claims.
func (s IndexState) Cleared(constraints uint64, deleted int) IndexState {
	if deleted < ReindexPage {
		s.Building, s.Through = constraints, 0
	}
	return s
}

// IndexPage is how many events a step indexes: ReindexPage, or fewer where there are
// so many constraints that a step would make too many claims.
func (c *Catalog) IndexPage() int {
	const most = 20_000 // claims of a step
	widest := 1
	for _, constraints := range c.byType {
		widest = max(widest, len(constraints))
	}
	return max(1, min(ReindexPage, most/widest))
}

// IndexTouch names the claims that indexing the events touches.
func (c *Catalog) IndexTouch(sequence Sequence, events []Recorded) Touch {
	p := Prepared{Append: AppendEvents{Sequence: sequence}, events: make([]prepared, len(events))}
	for i := range events {
		p.events[i].moves = c.moves(&events[i].Event)
	}
	return p.Touch()
}

// Index carries stored events over to the claims of the slice, without judging
// them: where an event claims what another source holds, the first holder keeps
// it, and the event's source holds nothing. It returns the state after it; the claims to write are in
// [Slice.Changes]. An event whose content can't be read any more is passed over.
func (c *Catalog) Index(s *Slice, state IndexState, events []Recorded) IndexState {
	t := &trial{base: &s.claims}
	for i := range events {
		for _, m := range c.moves(&events[i].Event) {
			if _, refused := t.holder(m); !refused {
				t.make(m, events[i].Number)
			} else if m.constraint.Kind == UniqueValue {
				t.free(m.owner)
			}
		}
		state.Through = events[i].Number + 1
	}
	t.keep()
	if state.Through >= state.Next {
		state.Indexed = c.Constraints
	}
	return state
}

func (c *Catalog) moves(e *Event) []move {
	var moves []move
	for _, n := range c.byType[e.Type] {
		if m, ok := c.constraints[n].move(e); ok {
			moves = append(moves, m)
		}
	}
	return moves
}
