package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

var limitCases = []Case{
	bothModes("limit", "payload_of_four_mebibytes_is_kept", func(s *session, o subject) {
		big := bulk(durable.MaxPayloadBytes, 1)
		c := s.next(o, "m1")
		c.State = o.stateOf(big)
		s.commit(committed, c)
		c = s.next(o, "m2")
		c.Effects = []durable.Intent{{ID: "e1", Payload: big}}
		c.Receipts = []durable.TerminalReceipt{{ID: "r1", EffectID: "e1", Outcome: durable.Applied, Payload: bulk(durable.MaxPayloadBytes, 2)}}
		s.commit(committed, c)
	}),
	bothModes("limit", "receipt_of_four_mebibytes_is_kept", func(s *session, o subject) {
		withEffects(s, o, "e1")
		r := durable.TerminalReceipt{ID: "r1", EffectID: "e1", Outcome: durable.Applied, Payload: bulk(durable.MaxPayloadBytes, 3)}
		s.record(recorded, o, firstFence, r)
		s.record(recordedBefore, o, firstFence, r)
		r.Payload = bulk(durable.MaxPayloadBytes, 4)
		s.record(receiptConflict, o, firstFence, r)
	}),
	bothModes("limit", "payload_of_one_byte_more_is_refused", func(s *session, o subject) {
		withEffects(s, o, "e1")
		over := bulk(durable.MaxPayloadBytes+1, 5)
		c := s.next(o, "m1")
		c.State = o.stateOf(over)
		s.exceeds(c, "bytes", durable.MaxPayloadBytes, durable.MaxPayloadBytes+1)
		c = s.next(o, "m1")
		c.Effects = []durable.Intent{{ID: "e2", Payload: over}}
		s.exceeds(c, "bytes", durable.MaxPayloadBytes, durable.MaxPayloadBytes+1)
		r := durable.TerminalReceipt{ID: "r1", EffectID: "e1", Outcome: durable.Applied, Payload: over}
		c = s.next(o, "m1")
		c.Receipts = []durable.TerminalReceipt{r}
		s.exceeds(c, "bytes", durable.MaxPayloadBytes, durable.MaxPayloadBytes+1)
		s.exceeds(durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: r}, "bytes", durable.MaxPayloadBytes, durable.MaxPayloadBytes+1)
	}),
	bothModes("limit", "commit_of_twelve_mebibytes_is_kept", func(s *session, o subject) {
		c := heavy(s, o)
		s.commit(committed, c)
		s.commit(duplicate, c)
	}),
	bothModes("limit", "commit_of_one_byte_more_is_refused", func(s *session, o subject) {
		c := heavy(s, o)
		sum := c.Inbox.Fingerprint
		c.Inbox.Fingerprint = append(sum, 'x')
		s.exceeds(c, "bytes", durable.MaxCommitBytes, durable.MaxCommitBytes+1)
		c.Inbox.Fingerprint = sum[:len(sum)-1]
		c.Effects[0].ID += "id"
		s.exceeds(c, "bytes", durable.MaxCommitBytes, durable.MaxCommitBytes+1)
	}),
	bothModes("limit", "thousand_items_are_kept", func(s *session, o subject) {
		if o.mode == durable.EventHistory {
			s.commit(committed, s.next(o, "m1", numbered("event ", durable.MaxCommitItems)...))
		}
		// One state change, and the rest effects and their receipts.
		c := s.next(o, "m2", "state")
		c.Effects = intents(numbered("e", 600)...)
		for _, id := range numbered("e", 399) {
			c.Receipts = append(c.Receipts, terminal("receipt of "+id, id))
		}
		if o.mode == durable.Snapshot {
			c.Effects = append(c.Effects, intents("the snapshot does not count")...)
		}
		s.commit(committed, c)
		s.commit(duplicate, c)
	}),
	bothModes("limit", "one_item_more_is_refused", func(s *session, o subject) {
		ids := numbered("e", durable.MaxCommitItems+1)
		c := s.next(o, "m1")
		c.Effects = intents(ids...)
		s.exceeds(c, "items", durable.MaxCommitItems, items(c))
		c = s.next(o, "m1")
		c.Effects = intents(ids[:600]...)
		for _, id := range ids[:401] {
			c.Receipts = append(c.Receipts, terminal(id, id))
		}
		s.exceeds(c, "items", durable.MaxCommitItems, items(c))
		if o.mode == durable.EventHistory {
			c = s.next(o, "m1", ids...)
			s.exceeds(c, "items", durable.MaxCommitItems, durable.MaxCommitItems+1)
			c = s.next(o, "m1", ids[:durable.MaxCommitItems]...)
			c.Effects = intents("e1")
			s.exceeds(c, "items", durable.MaxCommitItems, durable.MaxCommitItems+1)
		}
	}),
	// What is malformed is so whatever the store holds: it is refused before the
	// owner is looked for.
	ownerCase("limit", "comes_before_anything_is_read", func(s *session) {
		o := subject{"nobody", durable.EventHistory}
		c := s.next(o, "m1")
		c.State = durable.Append(bulk(durable.MaxPayloadBytes+1, 6))
		s.commit(malformed, c)
		c = s.next(o, "m1")
		c.Effects = []durable.Intent{{ID: "", Payload: text("a")}}
		s.commit(malformed, c)
		s.record(malformed, o, 0, terminal("", "e1"))
		s.advance(malformed, o, 1<<63)
	}),
}

// exceeds demands that a request is refused for its size, with the numbers.
func (s *session) exceeds(req request, unit string, limit, actual int) {
	s.Helper()
	a := s.send(malformed, req)
	var e *countersign.LimitError
	if !errors.As(a.err, &e) || e.Unit != unit || e.Limit != int64(limit) || e.Actual != int64(actual) {
		s.failf("a request above a limit", "want a *LimitError of %d %s with limit %d, got %v", actual, unit, limit, a.err)
	}
}

// heavy returns a commit of exactly twelve mebibytes.
func heavy(s *session, o subject) durable.Commit {
	c := s.next(o, "heavy")
	c.State = o.stateOf(bulk(durable.MaxPayloadBytes, 7))
	c.Effects = []durable.Intent{{ID: "e1", Payload: bulk(durable.MaxPayloadBytes, 8)}, {ID: "e2", Payload: bulk(durable.MaxPayloadBytes, 9)}}
	rest := &c.Effects[1].Payload
	rest.Bytes = rest.Bytes[:len(rest.Bytes)-(c.Size()-durable.MaxCommitBytes)]
	if size := c.Size(); size != durable.MaxCommitBytes {
		panic(fmt.Sprintf("storetest: the heavy commit has %d bytes", size))
	}
	return c
}

// items counts what the limit of a commit counts.
func items(c durable.Commit) int {
	return len(c.State.AppendEvents) + len(c.Effects) + len(c.Receipts)
}

// bulk returns a payload of n random bytes, which do not compress.
func bulk(n int, seed uint64) durable.Payload {
	b := make([]byte, n)
	var chacha [32]byte
	chacha[0] = byte(seed)
	_, _ = rand.NewChaCha8(chacha).Read(b)
	return durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: b}
}
