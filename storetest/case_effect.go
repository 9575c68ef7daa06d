package storetest

import (
	"fmt"

	"github.com/countersign/countersign/durable"
)

var effectCases = []Case{
	bothModes("effect", "repeated_keeps_its_first_acceptance", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.Effects = intents("e1")
		s.commit(committed, c)
		c = s.next(o, "m2", "a", "b")
		c.Effects = intents("e1", "e2")
		s.commit(committed, c)
	}),
	bothModes("effect", "twice_in_one_commit_is_one", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.Effects = intents("e1", "e2", "e1", "e1")
		s.commit(committed, c)
	}),
	bothModes("effect", "other_bytes_conflict", func(s *session, o subject) {
		effectConflicts(s, o, func(p *durable.Payload) { p.Bytes = append([]byte("x"), p.Bytes...) })
		effectConflicts(s, o, func(p *durable.Payload) { p.Bytes = nil })
	}),
	bothModes("effect", "other_schema_version_conflicts", func(s *session, o subject) {
		effectConflicts(s, o, func(p *durable.Payload) { p.SchemaVersion++ })
	}),
	bothModes("effect", "other_codec_version_conflicts", func(s *session, o subject) {
		effectConflicts(s, o, func(p *durable.Payload) { p.CodecVersion++ })
	}),
	bothModes("effect", "swapped_versions_conflict", func(s *session, o subject) {
		effectConflicts(s, o, func(p *durable.Payload) { p.SchemaVersion, p.CodecVersion = p.CodecVersion, p.SchemaVersion })
	}),
	bothModes("effect", "conflict_inside_one_commit", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.Effects = append(intents("e1", "e2"), durable.Intent{ID: "e1", Payload: text("other")})
		s.commit(effectConflict, c)
		c.Effects = c.Effects[:2]
		s.commit(committed, c)
	}),
	// B65: an effect that has its receipt is not asked for a second time.
	bothModes("effect", "repeated_after_its_receipt_stays_done", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.Effects = intents("e1")
		s.commit(committed, c)
		s.record(recorded, o, firstFence, terminal("r1", "e1"))
		c = s.next(o, "m2")
		c.Effects = intents("e1")
		s.commit(committed, c)
	}),
	bothModes("effect", "pending_is_ordered_by_acceptance_then_id", func(s *session, o subject) {
		for i, ids := range [][]string{{"z", "m", "a"}, {"y", "b"}, {"l"}, {"0"}} {
			c := s.next(o, numbered("m", 9)[i])
			c.Effects = intents(ids...)
			s.commit(committed, c)
		}
		s.record(recorded, o, firstFence, terminal("r1", "m"))
	}),
	// UTF-16 code units, and most collations, order these otherwise.
	bothModes("effect", "records_are_sorted_by_bytes", func(s *session, o subject) {
		ids := []string{"\U00010000", "\uff21", "é", "e", "E", "Z", "_", "a-b", "ab", "a b", "10", "9", "ß", "ss"}
		for _, id := range ids {
			c := s.next(o, id)
			c.Effects = intents(id)
			s.commit(committed, c)
			s.record(recorded, o, firstFence, terminal(id, id))
		}
		c := s.next(o, "all")
		for _, id := range ids {
			c.Effects = append(c.Effects, intents("pending "+id)...)
		}
		s.commit(committed, c)
	}),
	ownerCase("effect", "repair_is_scheduled_once", func(s *session) {
		o := subjects[0]
		s.create(created, o, firstFence)
		s.commit(committed, s.next(o, "m1"))
		id := durable.RepairEffectID(o.id, 1)
		for _, inbox := range []string{"repair", "repair again"} {
			c := s.next(o, inbox)
			c.Effects = []durable.Intent{{ID: id, Payload: text("rebuild")}}
			s.commit(committed, c)
		}
		if pending := s.model[o.id].Pending; len(pending) != 1 || pending[0].AcceptedAt != 2 {
			s.failf("the repair", "%d pending effects, want one accepted at 2", len(pending))
		}
	}),
}

// effectConflicts commits an effect, and then again with its payload changed: in
// a commit of its own, and together with others.
func effectConflicts(s *session, o subject, change func(*durable.Payload)) {
	s.Helper()
	id := fmt.Sprintf("e%d", s.step)
	first := s.next(o, "first "+id)
	first.Effects = intents(id)
	s.commit(committed, first)
	other := first.Effects[0]
	change(&other.Payload)
	for _, effects := range [][]durable.Intent{{other}, append(intents("new "+id), other), append(intents(id), other)} {
		c := s.next(o, "other "+id)
		c.Effects = effects
		s.commit(effectConflict, c)
	}
	again := s.next(o, "again "+id)
	again.Effects = intents(id)
	s.commit(committed, again)
}
