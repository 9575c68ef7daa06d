package storetest

import (
	"github.com/countersign/countersign/durable"
)

var commitCases = []Case{
	bothModes("commit", "shows_everything_at_once", func(s *session, o subject) {
		c := s.next(o, "m1", "first")
		c.Effects = intents("e1", "e2")
		c.Receipts = []durable.TerminalReceipt{terminal("r1", "e2")}
		s.commit(committed, c)
	}),
	bothModes("commit", "follows_commit", func(s *session, o subject) {
		for _, inbox := range []string{"m1", "m2", "m3", "m4", "m5"} {
			c := s.next(o, inbox, "text of "+inbox)
			c.Effects = intents("effect of " + inbox)
			s.commit(committed, c)
		}
	}),
	// Each event of a batch has a position of its own. Everything else of the
	// commit points to the position after the whole batch.
	bothModes("commit", "batch_ends_where_its_records_point", func(s *session, o subject) {
		c := s.next(o, "m1", "a", "b", "c")
		c.Effects = intents("e1", "e2")
		c.Receipts = []durable.TerminalReceipt{terminal("r1", "e1")}
		want := uint64(3)
		if o.mode == durable.Snapshot {
			want = 1
		}
		if got := s.commit(committed, c); got.through != want {
			s.failf(describe(c), "through %d, want %d", got.through, want)
		}
		c = s.next(o, "m2", "d", "e")
		c.Effects = intents("e3")
		c.Receipts = []durable.TerminalReceipt{terminal("r3", "e3")}
		s.commit(committed, c)
	}),
	bothModes("commit", "keeps_both_versions", func(s *session, o subject) {
		for i, v := range []durable.Version{{Schema: 1, Codec: 2}, {Schema: 2, Codec: 1}, {Schema: 9, Codec: 9}} {
			id := numbered("m", 3)[i]
			c := s.next(o, id)
			p := durable.Payload{SchemaVersion: v.Schema, CodecVersion: v.Codec, Bytes: []byte(id)}
			c.State = o.stateOf(p)
			c.Effects = []durable.Intent{{ID: "e" + id, Payload: p}}
			c.Receipts = []durable.TerminalReceipt{{ID: "r" + id, EffectID: "e" + id, Outcome: durable.Rejected, Payload: p}}
			s.commit(committed, c)
		}
	}),
	ownerCase("commit", "to_an_unknown_owner_is_refused", func(s *session) {
		s.create(created, subjects[0], 0)
		for _, o := range []subject{{"nobody", durable.EventHistory}, {"nobody", durable.Snapshot}} {
			s.commit(unknownOwner, s.next(o, "m1"))
		}
		s.sameAll("after commits to nobody")
	}),
	bothModes("commit", "of_the_other_mode_is_refused", func(s *session, o subject) {
		for _, inbox := range []string{"m1", "m2"} {
			c := s.next(o, inbox)
			c.State = o.other()
			c.Effects = intents("e1")
			s.commit(modeMismatch, c)
			s.commit(committed, s.next(o, inbox))
		}
	}),
	bothModes("commit", "without_a_state_change_is_malformed", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.State = durable.StateChange{}
		s.commit(malformed, c)
		c.State = durable.StateChange{AppendEvents: []durable.Payload{}}
		c.Effects = intents("e1")
		s.commit(malformed, c)
		both := durable.Replace(text("b"))
		both.AppendEvents = []durable.Payload{text("a")}
		c.State = both
		s.commit(malformed, c)
	}),

	bothModes("position", "behind_and_ahead_conflict", func(s *session, o subject) {
		for _, inbox := range []string{"m1", "m2", "m3"} {
			s.commit(committed, s.next(o, inbox))
		}
		for _, position := range []uint64{0, 1, 2, 4, 5, 1 << 40} {
			c := s.next(o, "m4")
			c.ExpectedPosition = position
			s.commit(positionConflict, c)
		}
		s.commit(committed, s.next(o, "m4"))
	}),
	bothModes("position", "is_not_moved_by_a_refusal", func(s *session, o subject) {
		s.commit(committed, s.next(o, "m1"))
		stale := s.next(o, "m2")
		stale.Fence--
		s.commit(staleFence, stale)
		s.commit(committed, s.next(o, "m2"))
	}),

	bothModes("inbox", "duplicate_keeps_the_first_position", func(s *session, o subject) {
		first := s.next(o, "m1", "a", "b")
		first.Effects = intents("e1")
		s.commit(committed, first)
		s.commit(duplicate, first)
		s.commit(committed, s.next(o, "m2"))
		s.commit(committed, s.next(o, "m3"))
		s.commit(duplicate, first)
	}),
	// A redelivery is decided again from later state: everything but the inbox
	// record may differ, and nothing of it may be written.
	bothModes("inbox", "duplicate_ignores_what_was_decided_again", func(s *session, o subject) {
		first := s.next(o, "m1", "a")
		first.Effects = intents("e1")
		s.commit(committed, first)
		again := s.next(o, "m1", "other", "more")
		again.Effects = []durable.Intent{{ID: "e1", Payload: text("other")}, {ID: "e2", Payload: text("new")}}
		again.Receipts = []durable.TerminalReceipt{terminal("r1", "e1"), terminal("r9", "nothing")}
		s.commit(duplicate, again)
		again.State = o.other()
		s.commit(duplicate, again)
	}),
	bothModes("inbox", "duplicate_comes_before_the_position", func(s *session, o subject) {
		first := s.next(o, "m1")
		s.commit(committed, first)
		for _, position := range []uint64{0, 2, 99} {
			again := first
			again.ExpectedPosition = position
			s.commit(duplicate, again)
		}
	}),
	bothModes("inbox", "duplicate_comes_before_the_fence", func(s *session, o subject) {
		first := s.next(o, "m1")
		s.commit(committed, first)
		s.advance(fenceAdvanced, o, firstFence+1)
		s.commit(duplicate, first)
		for _, fence := range []uint64{0, firstFence + 1, firstFence + 2} {
			again := first
			again.Fence = fence
			s.commit(duplicate, again)
		}
	}),
	bothModes("inbox", "other_fingerprint_conflicts", func(s *session, o subject) {
		first := s.next(o, "m1")
		first.Inbox.Fingerprint = []byte("sum")
		s.commit(committed, first)
		for _, sum := range []string{"", "su", "sum\x00", "sum ", "SUM", "mus", "sums"} {
			again := s.next(o, "m1")
			again.Inbox.Fingerprint = []byte(sum)
			s.commit(inboxConflict, again)
		}
		s.commit(duplicate, first)
	}),
	// B15, B59: a redelivery with other content is told so also when it is behind.
	bothModes("inbox", "conflict_comes_before_position_and_fence", func(s *session, o subject) {
		s.commit(committed, s.next(o, "m1"))
		again := s.next(o, "m1")
		again.Inbox.Fingerprint = []byte("other")
		again.ExpectedPosition = 55
		s.commit(inboxConflict, again)
		again.Fence++
		s.commit(inboxConflict, again)
	}),
	bothModes("inbox", "conflict_keeps_the_first_fingerprint", func(s *session, o subject) {
		first := s.next(o, "m1")
		s.commit(committed, first)
		other := first
		other.Inbox.Fingerprint = []byte("other")
		s.commit(inboxConflict, other)
		s.commit(inboxConflict, other)
		s.commit(duplicate, first)
	}),
	bothModes("inbox", "empty_fingerprint_is_a_fingerprint", func(s *session, o subject) {
		first := s.next(o, "m1")
		first.Inbox.Fingerprint = nil
		s.commit(committed, first)
		again := first
		again.Inbox.Fingerprint = []byte{}
		s.commit(duplicate, again)
		again.Inbox.Fingerprint = []byte{0}
		s.commit(inboxConflict, again)
	}),
	bothModes("inbox", "fingerprint_is_bytes", func(s *session, o subject) {
		for i, sum := range [][]byte{{0}, {0xff, 0xfe, 0x00}, []byte("é"), []byte(`{"a":1}`), everyByte()} {
			c := s.next(o, numbered("m", 9)[i])
			c.Inbox.Fingerprint = sum
			s.commit(committed, c)
			s.commit(duplicate, c)
		}
	}),
	bothModes("inbox", "refused_commit_completes_nothing", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.Receipts = []durable.TerminalReceipt{terminal("r1", "nothing")}
		s.commit(unknownEffect, c)
		c.Receipts = nil
		c.Inbox.Fingerprint = []byte("another one")
		s.commit(committed, c)
	}),

	// One commit breaks every rule at once. Each is mended in its turn, and the
	// next one decides.
	bothModes("commit", "checks_the_rules_in_order", checkOrder),
	bothModes("commit", "is_all_or_nothing", allOrNothing),
}

func checkOrder(s *session, o subject) {
	done := s.next(o, "m1")
	done.Effects = intents("e1", "e2", "e3")
	done.Receipts = []durable.TerminalReceipt{terminal("r1", "e1")}
	s.commit(committed, done)

	c := durable.Commit{
		Owner: o.id, ExpectedPosition: 99, Fence: 99,
		Inbox:   durable.Inbox{ID: "", Fingerprint: []byte("other")},
		State:   o.other(),
		Effects: []durable.Intent{{ID: "e2", Payload: text("other")}},
		Receipts: []durable.TerminalReceipt{
			{ID: "r1", EffectID: "e1", Outcome: durable.Rejected, Payload: text("other")},
			terminal("r2", "nothing"),
			terminal("r3", "e1"),
		},
	}
	s.commit(malformed, c)
	c.Inbox.ID = "m1"
	nobody := c
	nobody.Owner = "nobody"
	s.commit(unknownOwner, nobody)
	s.commit(inboxConflict, c)
	redelivered := c
	redelivered.Inbox.Fingerprint = done.Inbox.Fingerprint
	s.commit(duplicate, redelivered)
	c.Inbox.ID = "m2"
	s.commit(staleFence, c)
	c.Fence = firstFence
	s.commit(positionConflict, c)
	c.ExpectedPosition = 1
	s.commit(effectConflict, c)
	c.Effects = intents("e2")
	s.commit(receiptConflict, c)
	c.Receipts = c.Receipts[1:]
	s.commit(unknownEffect, c)
	c.Receipts = c.Receipts[1:]
	s.commit(receiptedBefore, c)
	c.Receipts = nil
	s.commit(modeMismatch, c)
	c.State = o.change("at last")
	s.commit(committed, c)
}

// allOrNothing refuses commits at their very last rule, after others of their
// records were found good. Nothing of them may show (B25).
func allOrNothing(s *session, o subject) {
	known := s.next(o, "m1")
	known.Effects = intents("known")
	known.Receipts = []durable.TerminalReceipt{terminal("known receipt", "known")}
	s.commit(committed, known)

	c := s.next(o, "m2", "a", "b")
	c.Effects = append(intents("e1", "e2", "e3"), durable.Intent{ID: "known", Payload: text("other")})
	s.commit(effectConflict, c)
	c.Effects = intents("e1", "e2")
	c.Receipts = []durable.TerminalReceipt{terminal("r1", "e1"), terminal("r2", "e2"), terminal("r3", "e3")}
	s.commit(unknownEffect, c)
	c.Receipts[2] = terminal("r3", "known")
	s.commit(receiptedBefore, c)
	c.Receipts[2] = terminal("known receipt", "e1")
	s.commit(receiptConflict, c)
	c.Receipts = c.Receipts[:2]
	wrong := c
	wrong.State = o.other()
	s.commit(modeMismatch, wrong)
	s.commit(committed, c)
}

// stateOf returns a state change of one payload.
func (o subject) stateOf(p durable.Payload) durable.StateChange {
	if o.mode == durable.Snapshot {
		return durable.Replace(p)
	}
	return durable.Append(p)
}

// everyByte returns each byte once.
func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}
