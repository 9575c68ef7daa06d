package storetest

import (
	"errors"
	"fmt"
	"math"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// B43: where drivers change the width of an integer, or go through a float.
var edges = []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<63 - 2, 1<<63 - 1}

// The values that no store keeps.
var tooGreat = []uint64{1 << 63, 1<<63 + 1, math.MaxUint64}

var integerCases = []Case{
	ownerCase("integer", "fences_come_back", func(s *session) {
		for i, fence := range edges {
			for _, mode := range []durable.Mode{durable.EventHistory, durable.Snapshot} {
				o := subject{fmt.Sprintf("%d %s", i, mode), mode}
				s.create(created, o, fence)
				withEffects(s, o, "e1", "e2")
				s.record(recorded, o, fence, terminal("r1", "e1"))
				c := s.next(o, "m2")
				c.Receipts = []durable.TerminalReceipt{terminal("r2", "e2")}
				s.commit(committed, c)
				c = s.next(o, "m3")
				c.Fence ^= 1 // the neighbour, which a float may not tell apart
				s.commit(staleFence, c)
			}
		}
	}),
	bothModes("integer", "fence_advances_through_all", func(s *session, o subject) {
		for i, fence := range edges {
			if fence <= firstFence {
				s.advance(fenceStood, o, fence)
				continue
			}
			s.advance(fenceAdvanced, o, fence)
			s.advance(fenceStood, o, fence)
			s.advance(fenceStood, o, fence-1)
			s.commit(committed, s.next(o, numbered("m", 99)[i]))
		}
		s.advance(malformed, o, 1<<63)
	}),
	bothModes("integer", "above_the_range_is_malformed", func(s *session, o subject) {
		withEffects(s, o, "e1")
		for i, v := range tooGreat {
			s.create(malformed, subject{"new", o.mode}, v)
			s.create(malformed, o, v)
			s.advance(malformed, o, v)
			s.record(malformed, o, v, terminal("r1", "e1"))
			c := s.next(o, "m1")
			c.Fence = v
			s.commit(malformed, c)
			c = s.next(o, "m1")
			c.ExpectedPosition = v
			s.commit(malformed, c)
			// Also where a duplicate would answer first.
			c = s.next(o, "for the effects")
			c.ExpectedPosition = v
			s.commit(malformed, c)
			for what, read := range map[string]func() error{
				"the history": func() error {
					_, err := s.store.ReadHistory(s.Context(), durable.ReadHistory{Owner: o.id, After: v})
					return err
				},
				"pending effects": func() error {
					_, err := s.store.ReadPending(s.Context(), durable.ReadPending{Owner: o.id, AfterAccepted: v})
					return err
				},
				"the state": func() error {
					_, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{State: true, StateAfter: v}})
					return err
				},
			} {
				if err := read(); !errors.Is(err, countersign.ErrMalformed) {
					s.failf("read "+what, "after %d must be malformed, got %v", tooGreat[i], err)
				}
			}
		}
		s.same("after all that", "new")
	}),
	plantCase("integer", "positions_come_back", func(s *session) {
		for i, position := range edges[1:] {
			o := subject{fmt.Sprintf("at %d", i), durable.Snapshot}
			s.mustPlant(at(o, position))
			s.same("the planted image", o.id)
			c := s.next(o, "new")
			c.Effects = intents("a", "z") // on both sides of the planted one
			if position == countersign.MaxInteger {
				s.commit(overflow, c)
				continue
			}
			wrong := c
			wrong.ExpectedPosition ^= 1
			s.commit(positionConflict, wrong)
			s.commit(committed, c)
			s.record(recorded, o, firstFence, terminal("new", "a"))
			s.commit(duplicate, c)
		}
	}),
	plantCase("integer", "last_position_is_given_out", func(s *session) {
		for _, o := range subjects {
			s.mustPlant(at(o, countersign.MaxInteger-1))
			c := s.next(o, "last")
			c.Effects = intents("e2")
			c.Receipts = []durable.TerminalReceipt{terminal("r2", "e2")}
			s.commit(committed, c)
			s.commit(duplicate, c)
			s.commit(overflow, s.next(o, "none is left"))
			s.record(recorded, o, firstFence, terminal("r1", "planted effect"))
		}
	}),
	plantCase("integer", "position_never_wraps", func(s *session) {
		for _, o := range subjects {
			s.mustPlant(at(o, countersign.MaxInteger))
			c := s.next(o, "m1")
			c.Effects = intents("e1")
			s.commit(overflow, c)
			c.State = o.other()
			s.commit(modeMismatch, c)
		}
		o := subjects[0]
		s.mustPlant(at(o, countersign.MaxInteger-2))
		s.commit(overflow, s.next(o, "m1", "a", "b", "c"))
		s.commit(overflow, s.next(o, "m1", numbered("event ", durable.MaxCommitItems)...))
		s.commit(committed, s.next(o, "m1", "a", "b"))
		s.commit(overflow, s.next(o, "m2"))
	}),
}

// plantCase is a case on a session that plants images.
func plantCase(group, name string, body func(s *session)) Case {
	return Case{Group: group, Name: name, Needs: []Need{NeedOwners, NeedPlant}, Run: func(t T, h Harness) {
		t.Helper()
		s := newSession(t, h)
		body(s)
		s.reopen()
	}}
}

// at returns an owner that stands at a position under firstFence, with one
// record of each kind there. A history has lost all but its last record, so it
// is corrupt, but commits do not read that far.
func at(o subject, position uint64) durable.Image {
	img := durable.Image{
		Head:     durable.Head{Owner: o.id, Mode: o.mode, Position: position, Fence: firstFence},
		Inbox:    []durable.InboxRecord{{ID: "planted", Fingerprint: []byte("sum"), CommittedThrough: position}},
		Outbox:   []durable.Effect{{ID: "planted done", AcceptedAt: position, Payload: text("a")}, {ID: "planted effect", AcceptedAt: position, Payload: text("b")}},
		Receipts: []durable.Receipt{{ID: "planted", EffectID: "planted done", Outcome: durable.Applied, RecordedAt: position, Fence: firstFence, Payload: text("c")}},
	}
	last := durable.Record{Position: position, Payload: text("state")}
	if o.mode == durable.Snapshot {
		img.Snapshot = &last
	} else {
		img.History = []durable.Record{last}
	}
	return img
}

// mustPlant plants an image that every database can hold.
func (s *session) mustPlant(img durable.Image) {
	s.Helper()
	if !s.plant(img) {
		s.failf("plant "+img.Owner, "the harness says that the database can't hold an image that keeps every rule of a row")
	}
}
