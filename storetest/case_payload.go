package storetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/countersign/countersign/durable"
)

// hostile are bytes that a store which looks into them, or keeps them as text or
// as a document, gives back otherwise, or not at all.
var hostile = []string{
	"", "\x00", "\x00\x00", "a\x00b", "\xff", "\xff\xfe\x00\x01", "\xc3\x28", "\xed\xa0\x80", string(everyByte()),
	" ", "  padded  ", "\n", "\r\n", "\t", "null", "true", "0", "''", `"`, `\`, `\x00`, `\u0000`, "\ufeff", "\u2028", "e\u0301", "\u00e9",
	`{}`, `{"a":1}`, `{"a": 1}`, `{"a":1,"a":2}`, `{"b":1,"a":2}`, `{"a":2,"b":1}`, `{"a":null}`, `[]`, `[1]`, `[1,1]`, `1`, `1.0`, `1e0`, `-0`,
	`{"a.b":1,"$set":{"$x":1},"":2}`, `{"$where":"1"}`, `{"a\u0000":1}`, `"\ud800"`, `"\ufffd"`, "\"\ufffd\"", `{"a`,
	`{"n":9007199254740992}`, `{"n":9007199254740993}`, `18446744073709551616`, `18446744073709551617`, `0.1`, `0.1000000000000000055`, `1e400`,
	strings.Repeat(`{"a":`, 150) + "1" + strings.Repeat("}", 150), strings.Repeat("[", 150) + strings.Repeat("]", 150),
	"'; drop table owners; --", "%s%n%d", "$1", "\x1b[0m",
}

var payloadCases = []Case{
	// B41, B45, B51: payloads are bytes, whatever they look like.
	bothModes("payload", "comes_back_byte_for_byte", func(s *session, o subject) {
		for i, b := range hostile {
			id := fmt.Sprintf("%03d", i)
			p := durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(b)}
			c := s.next(o, id)
			c.State = o.stateOf(p)
			c.Effects = []durable.Intent{{ID: id, Payload: p}, {ID: id + " pending", Payload: p}}
			c.Receipts = []durable.TerminalReceipt{{ID: id, EffectID: id, Outcome: durable.Applied, Payload: p}}
			s.commit(committed, c)
		}
	}),
	// B47, B49: values that a JSON reader takes for equal are not the same bytes.
	bothModes("payload", "is_compared_byte_for_byte", func(s *session, o subject) {
		for i, b := range hostile {
			id := fmt.Sprintf("%03d", i)
			p := durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(b)}
			c := s.next(o, id)
			c.Effects = []durable.Intent{{ID: id, Payload: p}}
			s.commit(committed, c)
			next := s.next(o, "after "+id)
			next.Effects = []durable.Intent{{ID: id, Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(hostile[(i+1)%len(hostile)])}}}
			s.commit(effectConflict, next)
			next.Effects[0].Payload = p
			s.commit(committed, next)
		}
	}),
	bothModes("payload", "nil_is_empty", func(s *session, o subject) {
		none := durable.Payload{SchemaVersion: 1, CodecVersion: 1}
		empty := durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte{}}
		c := s.next(o, "m1")
		c.State = o.stateOf(none)
		c.Effects = []durable.Intent{{ID: "e1", Payload: none}, {ID: "e1", Payload: empty}, {ID: "e2", Payload: empty}}
		c.Receipts = []durable.TerminalReceipt{{ID: "r1", EffectID: "e1", Outcome: durable.Applied, Payload: none}}
		s.commit(committed, c)
		c = s.next(o, "m2")
		c.State = o.stateOf(empty)
		c.Effects = []durable.Intent{{ID: "e1", Payload: empty}, {ID: "e2", Payload: none}}
		s.commit(committed, c)
		s.record(recordedBefore, o, firstFence, durable.TerminalReceipt{ID: "r1", EffectID: "e1", Outcome: durable.Applied, Payload: empty})
		s.record(receiptConflict, o, firstFence, durable.TerminalReceipt{ID: "r1", EffectID: "e1", Outcome: durable.Applied, Payload: text("\x00")})
	}),
	bothModes("payload", "versions_span_their_range", func(s *session, o subject) {
		versions := []uint32{1, 2, 1<<16 - 1, 1 << 16, 1<<31 - 1}
		for i, schema := range versions {
			for j, codec := range versions {
				id := fmt.Sprintf("%d and %d", i, j)
				p := durable.Payload{SchemaVersion: schema, CodecVersion: codec, Bytes: []byte(id)}
				c := s.next(o, id)
				c.State = o.stateOf(p)
				c.Effects = []durable.Intent{{ID: id, Payload: p}}
				c.Receipts = []durable.TerminalReceipt{{ID: id, EffectID: id, Outcome: durable.Applied, Payload: p}}
				s.commit(committed, c)
			}
		}
	}),
	bothModes("payload", "versions_outside_it_are_malformed", func(s *session, o subject) {
		withEffects(s, o, "pending")
		good := text("text")
		for _, v := range []uint32{0, 1 << 31, 1<<31 + 1, math.MaxUint32} {
			for _, p := range []durable.Payload{
				{SchemaVersion: v, CodecVersion: 1, Bytes: good.Bytes},
				{SchemaVersion: 1, CodecVersion: v, Bytes: good.Bytes},
				{SchemaVersion: v, CodecVersion: v},
			} {
				c := s.next(o, "m1")
				c.State = o.stateOf(p)
				s.commit(malformed, c)
				c = s.next(o, "m1", "a", "b")
				c.Effects = []durable.Intent{{ID: "e1", Payload: good}, {ID: "e2", Payload: p}}
				s.commit(malformed, c)
				bad := durable.TerminalReceipt{ID: "r1", EffectID: "pending", Outcome: durable.Applied, Payload: p}
				c = s.next(o, "m1")
				c.Receipts = []durable.TerminalReceipt{bad}
				s.commit(malformed, c)
				s.record(malformed, o, firstFence, bad)
			}
		}
	}),
}
