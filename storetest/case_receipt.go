package storetest

import (
	"github.com/countersign/countersign/durable"
)

var receiptCases = []Case{
	bothModes("receipt", "records_without_moving_the_position", func(s *session, o subject) {
		withEffects(s, o, "e1", "e2", "e3")
		s.record(recorded, o, firstFence, terminal("r1", "e2"))
		s.commit(committed, s.next(o, "m2", "a", "b"))
		rejected := terminal("r2", "e1")
		rejected.Outcome = durable.Rejected
		s.record(recorded, o, firstFence, rejected)
	}),
	bothModes("receipt", "carries_the_fence_in_force", func(s *session, o subject) {
		withEffects(s, o, "e1", "e2", "e3")
		s.record(recorded, o, firstFence, terminal("r1", "e1"))
		s.advance(fenceAdvanced, o, firstFence+3)
		s.record(recorded, o, firstFence+3, terminal("r2", "e2"))
		c := s.next(o, "m2")
		c.Receipts = []durable.TerminalReceipt{terminal("r3", "e3")}
		s.commit(committed, c)
	}),
	bothModes("receipt", "repeated_is_a_duplicate", func(s *session, o subject) {
		withEffects(s, o, "e1")
		s.record(recorded, o, firstFence, terminal("r1", "e1"))
		s.commit(committed, s.next(o, "m2"))
		s.record(recordedBefore, o, firstFence, terminal("r1", "e1"))
	}),
	bothModes("receipt", "duplicate_comes_before_the_fence", func(s *session, o subject) {
		withEffects(s, o, "e1")
		s.record(recorded, o, firstFence, terminal("r1", "e1"))
		s.advance(fenceAdvanced, o, firstFence+2)
		for _, fence := range []uint64{0, firstFence, firstFence + 2, firstFence + 9} {
			s.record(recordedBefore, o, fence, terminal("r1", "e1"))
		}
	}),
	bothModes("receipt", "conflict_comes_before_the_fence", func(s *session, o subject) {
		withEffects(s, o, "e1")
		s.record(recorded, o, firstFence, terminal("r1", "e1"))
		other := terminal("r1", "e1")
		other.Outcome = durable.Rejected
		s.record(receiptConflict, o, firstFence, other)
		s.record(receiptConflict, o, firstFence+1, other)
	}),
	bothModes("receipt", "other_content_conflicts", func(s *session, o subject) {
		withEffects(s, o, "e1", "e2")
		first := terminal("r1", "e1")
		s.record(recorded, o, firstFence, first)
		for _, change := range []func(*durable.TerminalReceipt){
			func(r *durable.TerminalReceipt) { r.EffectID = "e2" },
			func(r *durable.TerminalReceipt) { r.EffectID = "nothing" },
			func(r *durable.TerminalReceipt) { r.Outcome = durable.Rejected },
			func(r *durable.TerminalReceipt) { r.Payload.Bytes = []byte("other") },
			func(r *durable.TerminalReceipt) { r.Payload.Bytes = nil },
			func(r *durable.TerminalReceipt) { r.Payload.SchemaVersion++ },
			func(r *durable.TerminalReceipt) { r.Payload.CodecVersion++ },
			func(r *durable.TerminalReceipt) {
				r.Payload.SchemaVersion, r.Payload.CodecVersion = r.Payload.CodecVersion, r.Payload.SchemaVersion
			},
		} {
			other := first
			change(&other)
			s.record(receiptConflict, o, firstFence, other)
			c := s.next(o, "m2")
			c.Receipts = []durable.TerminalReceipt{other}
			s.commit(receiptConflict, c)
		}
		s.record(recordedBefore, o, firstFence, first)
	}),
	bothModes("receipt", "under_another_fence_is_stale", func(s *session, o subject) {
		withEffects(s, o, "e1")
		for _, fence := range []uint64{0, firstFence - 1, firstFence + 1, 1 << 50} {
			s.record(staleFence, o, fence, terminal("r1", "e1"))
		}
		s.advance(fenceAdvanced, o, firstFence+1)
		s.record(staleFence, o, firstFence, terminal("r1", "e1"))
		s.record(recorded, o, firstFence+1, terminal("r1", "e1"))
	}),
	bothModes("receipt", "of_an_unknown_effect_is_refused", func(s *session, o subject) {
		s.record(unknownEffect, o, firstFence, terminal("r1", "e1"))
		withEffects(s, o, "e1")
		for _, effect := range []string{"e", "e10", "E1", "m1", "r1"} {
			s.record(unknownEffect, o, firstFence, terminal("r1", effect))
		}
		c := s.next(o, "m2")
		c.Receipts = []durable.TerminalReceipt{terminal("r1", "e2")}
		s.commit(unknownEffect, c)
	}),
	ownerCase("receipt", "of_another_owners_effect_is_refused", func(s *session) {
		for _, o := range subjects {
			s.create(created, o, firstFence)
		}
		withEffects(s, subjects[0], "e1")
		s.record(unknownEffect, subjects[1], firstFence, terminal("r1", "e1"))
		c := s.next(subjects[1], "m1")
		c.Receipts = []durable.TerminalReceipt{terminal("r1", "e1")}
		s.commit(unknownEffect, c)
	}),
	bothModes("receipt", "second_one_of_an_effect_is_refused", func(s *session, o subject) {
		withEffects(s, o, "e1", "e2")
		s.record(recorded, o, firstFence, terminal("r1", "e1"))
		s.record(receiptedBefore, o, firstFence, terminal("r2", "e1"))
		c := s.next(o, "m2")
		c.Receipts = []durable.TerminalReceipt{terminal("r3", "e2"), terminal("r4", "e1")}
		s.commit(receiptedBefore, c)
		c.Receipts = []durable.TerminalReceipt{terminal("r3", "e2"), terminal("r4", "e2")}
		s.commit(receiptedBefore, c)
		c.Receipts = c.Receipts[:1]
		s.commit(committed, c)
		s.record(receiptedBefore, o, firstFence, terminal("r4", "e2"))
	}),
	ownerCase("receipt", "to_an_unknown_owner_is_refused", func(s *session) {
		s.record(unknownOwner, subject{id: "nobody"}, 0, terminal("r1", "e1"))
	}),
	bothModes("receipt", "checks_the_rules_in_order", func(s *session, o subject) {
		withEffects(s, o, "e1")
		s.record(recorded, o, firstFence, terminal("r1", "e1"))
		s.record(malformed, o, 99, terminal("", "nothing"))
		s.record(receiptConflict, o, 99, terminal("r1", "nothing"))
		s.record(staleFence, o, 99, terminal("r2", "nothing"))
		s.record(unknownEffect, o, firstFence, terminal("r2", "nothing"))
		s.record(receiptedBefore, o, firstFence, terminal("r2", "e1"))
		s.record(recordedBefore, o, 99, terminal("r1", "e1"))
	}),
	bothModes("receipt", "in_the_commit_of_its_effect", func(s *session, o subject) {
		c := s.next(o, "m1", "a", "b")
		c.Effects = intents("e1", "e2")
		c.Receipts = []durable.TerminalReceipt{terminal("r2", "e2"), terminal("r1", "e1")}
		s.commit(committed, c)
	}),
	bothModes("receipt", "repeated_in_commits_keeps_the_first", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.Effects = intents("e1")
		c.Receipts = []durable.TerminalReceipt{terminal("r1", "e1"), terminal("r1", "e1")}
		s.commit(committed, c)
		s.advance(fenceAdvanced, o, firstFence+1)
		c = s.next(o, "m2")
		c.Receipts = []durable.TerminalReceipt{terminal("r1", "e1")}
		s.commit(committed, c)
		s.record(recordedBefore, o, firstFence, terminal("r1", "e1"))
	}),
	bothModes("receipt", "conflict_inside_one_commit", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.Effects = intents("e1")
		other := terminal("r1", "e1")
		other.Outcome = durable.Rejected
		c.Receipts = []durable.TerminalReceipt{terminal("r1", "e1"), other}
		s.commit(receiptConflict, c)
		other = terminal("r1", "e2")
		c.Effects = intents("e1", "e2")
		c.Receipts[1] = other
		s.commit(receiptConflict, c)
		c.Receipts = c.Receipts[:1]
		s.commit(committed, c)
	}),
	bothModes("receipt", "of_unknown_outcome_is_malformed", func(s *session, o subject) {
		withEffects(s, o, "e1")
		for _, outcome := range []durable.Outcome{"", "Applied", "applied ", "done", "rejected\x00"} {
			r := terminal("r1", "e1")
			r.Outcome = outcome
			s.record(malformed, o, firstFence, r)
			c := s.next(o, "m2")
			c.Receipts = []durable.TerminalReceipt{r}
			s.commit(malformed, c)
		}
	}),
}

// withEffects commits effects, which are then pending.
func withEffects(s *session, o subject, ids ...string) {
	s.Helper()
	c := s.next(o, "for the effects")
	c.Effects = intents(ids...)
	s.commit(committed, c)
}

var fenceCases = []Case{
	bothModes("fence", "advances_to_any_greater_token", func(s *session, o subject) {
		for _, fence := range []uint64{firstFence + 1, firstFence + 2, 1000, 1 << 40} {
			s.advance(fenceAdvanced, o, fence)
		}
	}),
	bothModes("fence", "equal_token_does_not_advance", func(s *session, o subject) {
		s.advance(fenceStood, o, firstFence)
		s.advance(fenceAdvanced, o, firstFence+1)
		s.advance(fenceStood, o, firstFence+1)
	}),
	bothModes("fence", "smaller_token_does_not_advance", func(s *session, o subject) {
		s.advance(fenceStood, o, 0)
		s.advance(fenceStood, o, firstFence-1)
		s.advance(fenceAdvanced, o, firstFence+9)
		s.advance(fenceStood, o, firstFence)
		s.advance(fenceStood, o, firstFence+8)
	}),
	ownerCase("fence", "of_an_unknown_owner_is_refused", func(s *session) {
		s.advance(unknownOwner, subject{id: "nobody"}, 1)
	}),
	bothModes("fence", "moves_nothing_else", func(s *session, o subject) {
		withEffects(s, o, "e1", "e2")
		s.record(recorded, o, firstFence, terminal("r1", "e1"))
		s.advance(fenceAdvanced, o, firstFence+1)
		s.commit(committed, s.next(o, "m2"))
	}),
	bothModes("fence", "smaller_one_is_stale", func(s *session, o subject) {
		s.advance(fenceAdvanced, o, firstFence+1)
		for _, fence := range []uint64{0, 1, firstFence} {
			c := s.next(o, "m1")
			c.Fence = fence
			s.commit(staleFence, c)
		}
		s.commit(committed, s.next(o, "m1"))
	}),
	// Nobody can promote itself through a state write.
	bothModes("fence", "greater_one_is_stale", func(s *session, o subject) {
		for _, fence := range []uint64{firstFence + 1, firstFence + 2, 1 << 60} {
			c := s.next(o, "m1")
			c.Fence = fence
			s.commit(staleFence, c)
		}
		s.commit(committed, s.next(o, "m1"))
	}),
	bothModes("fence", "comes_before_the_position", func(s *session, o subject) {
		s.commit(committed, s.next(o, "m1"))
		c := s.next(o, "m2")
		c.Fence++
		c.ExpectedPosition = 0
		s.commit(staleFence, c)
	}),
}
