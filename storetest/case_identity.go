package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// role is a place where a request takes an identity.
type role struct {
	name  string
	limit int
	send  func(s *session, o subject, id string) error
}

var roles = []role{
	{"owner to create", durable.MaxOwnerBytes, func(s *session, o subject, id string) error {
		_, err := s.store.CreateOwner(s.Context(), durable.CreateOwner{Owner: id, Mode: o.mode})
		return err
	}},
	{"owner to load", durable.MaxOwnerBytes, func(s *session, _ subject, id string) error {
		_, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: id})
		return err
	}},
	{"owner to load in parts", durable.MaxOwnerBytes, func(s *session, _ subject, id string) error {
		_, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: id, Parts: &durable.Parts{}})
		return err
	}},
	{"owner to commit to", durable.MaxOwnerBytes, func(s *session, o subject, id string) error {
		c := s.next(o, "new")
		c.Owner = id
		return s.try(c)
	}},
	{"owner to advance the fence of", durable.MaxOwnerBytes, func(s *session, _ subject, id string) error {
		_, err := s.store.AdvanceFence(s.Context(), durable.AdvanceFence{Owner: id, Fence: 1 << 40})
		return err
	}},
	{"owner to record a receipt of", durable.MaxOwnerBytes, func(s *session, _ subject, id string) error {
		_, err := s.store.RecordReceipt(s.Context(), durable.RecordReceipt{Owner: id, Fence: firstFence, Receipt: terminal("new", "pending")})
		return err
	}},
	{"owner to read the history of", durable.MaxOwnerBytes, func(s *session, _ subject, id string) error {
		_, err := s.store.ReadHistory(s.Context(), durable.ReadHistory{Owner: id})
		return err
	}},
	{"owner to read pending effects of", durable.MaxOwnerBytes, func(s *session, _ subject, id string) error {
		_, err := s.store.ReadPending(s.Context(), durable.ReadPending{Owner: id})
		return err
	}},
	{"inbox id", countersign.MaxIdentityBytes, func(s *session, o subject, id string) error { return s.try(s.next(o, id)) }},
	{"inbox id to load", countersign.MaxIdentityBytes, func(s *session, o subject, id string) error {
		_, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{Inbox: []string{"m1", id}}})
		return err
	}},
	{"effect id", countersign.MaxIdentityBytes, func(s *session, o subject, id string) error {
		c := s.next(o, "new")
		c.Effects = intents("e1", id)
		return s.try(c)
	}},
	{"receipt id of a commit", countersign.MaxIdentityBytes, func(s *session, o subject, id string) error {
		c := s.next(o, "new")
		c.Receipts = []durable.TerminalReceipt{terminal(id, "pending")}
		return s.try(c)
	}},
	{"effect id of a commit's receipt", countersign.MaxIdentityBytes, func(s *session, o subject, id string) error {
		c := s.next(o, "new")
		c.Receipts = []durable.TerminalReceipt{terminal("new", id)}
		return s.try(c)
	}},
	{"receipt id", countersign.MaxIdentityBytes, func(s *session, o subject, id string) error {
		_, err := s.store.RecordReceipt(s.Context(), durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal(id, "pending")})
		return err
	}},
	{"effect id of a receipt", countersign.MaxIdentityBytes, func(s *session, o subject, id string) error {
		_, err := s.store.RecordReceipt(s.Context(), durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("new", id)})
		return err
	}},
}

// try sends a commit that must be refused, past the model.
func (s *session) try(c durable.Commit) error {
	_, err := s.store.CommitOwner(s.Context(), c)
	return err
}

var identityCases = []Case{
	bothModes("identity", "malformed_is_refused_in_every_role", func(s *session, o subject) {
		withEffects(s, o, "pending")
		for what, id := range map[string]string{
			"empty":                           "",
			"a NUL byte":                      "\x00",
			"a NUL byte at the end":           "a\x00",
			"a NUL byte inside":               "a\x00b",
			"a byte that is no UTF-8":         "\xff",
			"half a rune":                     "a\xc3",
			"a rune in too many bytes":        "\xc0\xaf",
			"a surrogate":                     "\xed\xa0\x80",
			"no UTF-8 after much that is":     strings.Repeat("a", 200) + "\xfe",
			"no UTF-8, and NUL, and a letter": "\x00\xffa",
		} {
			for _, r := range roles {
				s.refuses(r, o, what, id)
			}
		}
	}),
	// B55: an index that compresses takes long ids of one letter, and fails at
	// the first real one.
	bothModes("identity", "above_the_limit_is_refused_in_every_role", func(s *session, o subject) {
		withEffects(s, o, "pending")
		for _, r := range roles {
			for what, id := range map[string]string{
				"one byte too many":                       randomLetters(r.limit + 1),
				"runes of three bytes, one byte too many": randomRunes(r.limit + 1),
				"three thousand bytes":                    randomLetters(3000),
			} {
				s.refuses(r, o, what, id)
				var limit *countersign.LimitError
				if err := r.send(s, o, id); !errors.As(err, &limit) || limit.Limit != int64(r.limit) || limit.Actual != int64(len(id)) {
					s.failf(r.name, "%s: want a *LimitError with limit %d and actual %d, got %v", what, r.limit, len(id), err)
				}
			}
		}
	}),
	ownerCase("identity", "at_the_limit_is_kept_in_every_role", func(s *session) {
		for i, long := range []func(int) string{randomLetters, randomRunes} {
			for _, mode := range []durable.Mode{durable.EventHistory, durable.Snapshot} {
				o := subject{fmt.Sprintf("%d", i) + string(mode[:1]) + long(durable.MaxOwnerBytes-2), mode}
				s.create(created, o, 0)
				// Ids that differ in the last byte alone.
				base := long(countersign.MaxIdentityBytes - 1)
				c := s.next(o, base+"1")
				for _, last := range []string{"1", "2", "3", "4", "5"} {
					c.Effects = append(c.Effects, intents(base+last)...)
				}
				c.Receipts = []durable.TerminalReceipt{terminal(base+"1", base+"1")}
				s.commit(committed, c)
				s.commit(duplicate, c)
				s.record(recorded, o, 0, terminal(base+"2", base+"2"))
				s.record(recordedBefore, o, 0, terminal(base+"2", base+"2"))
				s.record(receiptedBefore, o, 0, terminal(base+"3", base+"2"))
				s.commit(committed, s.next(o, base+"2"))
				s.advance(fenceAdvanced, o, 1)
			}
		}
	}),
	// A store that folds, trims or normalises makes one of two of these.
	bothModes("identity", "alike_is_not_the_same", func(s *session, o subject) {
		for _, id := range lookalikes {
			c := s.next(o, id)
			c.Effects = []durable.Intent{{ID: id, Payload: text("effect of " + id)}}
			s.commit(committed, c)
			s.record(recorded, o, firstFence, durable.TerminalReceipt{ID: id, EffectID: id, Outcome: durable.Applied, Payload: text("receipt of " + id)})
		}
	}),
	ownerCase("identity", "alike_owners_are_not_the_same", func(s *session) {
		for _, id := range lookalikes {
			o := subject{id, durable.EventHistory}
			s.create(created, o, 0)
			s.commit(committed, s.next(o, "m1", "text of "+id))
		}
		s.sameAll("after all of them were written")
	}),
	// B57: a key that is joined from two ids must not be that of two others.
	ownerCase("identity", "joined_keys_do_not_collide", func(s *session) {
		pairs := [][2]string{
			{"a", "b/c"}, {"a/b", "c"}, {"a", "b:c"}, {"a:b", "c"}, {"doc-7", "12"}, {"doc-71", "2"}, {"a", "\x1fb"}, {"a\x1f", "b"},
			{"a", "|b"}, {"a|", "b"}, {"a", "b,c"}, {"a,b", "c"}, {"1", "11"}, {"11", "1"}, {"a ", "b"}, {"a", " b"}, {`a"`, "b"}, {"a", `"b`},
			{"a%2F", "b"}, {"a", "%2Fb"}, {`a\`, "b"}, {"a", `\b`},
		}
		for i, p := range pairs {
			o := subject{p[0], subjects[0].mode}
			if s.model[o.id] == nil {
				s.create(created, o, 0)
			}
			said := fmt.Sprintf("pair %d", i)
			c := s.next(o, p[1], said)
			c.Effects = []durable.Intent{{ID: p[1], Payload: text(said)}}
			c.Receipts = []durable.TerminalReceipt{{ID: p[1], EffectID: p[1], Outcome: durable.Applied, Payload: text(said)}}
			s.commit(committed, c)
		}
		s.sameAll("after all pairs were written")
	}),
	bothModes("identity", "is_data_and_not_syntax", func(s *session, o subject) {
		for _, id := range []string{
			`'`, `''`, `"`, "`", `\`, `\\`, `\'`, "%", "_", "a%", "a_", "ab", "*", "?", "$1", ":id", "@id", "--", "/*", ";", "'; drop table owners; --",
			"$set", "a.b", "$", ".", "..", "/", "\n", "\r\n", "\t", "null", "NULL", "true", "0", "-1", "NaN", "1e3", "{}", "[]", "\x01", "\x7f", "\u2028", "\ufeff",
		} {
			c := s.next(o, id)
			c.Effects = intents(id)
			s.commit(committed, c)
			s.record(recorded, o, firstFence, terminal(id, id))
		}
	}),
	ownerCase("identity", "of_owners_is_data_and_not_syntax", func(s *session) {
		for _, id := range []string{`'`, `"`, `\`, "%", "_", "*", "?", "$1", "--", ";", "..", "/", "\n", "null", "0", "{}", "$set", "a.b", "\x01", "\ufeff"} {
			o := subject{id, durable.Snapshot}
			s.create(created, o, 3)
			s.commit(committed, s.next(o, "m1"))
			s.advance(fenceAdvanced, o, 4)
		}
		s.sameAll("after all of them were written")
	}),
}

// refuses demands that a role refuses an identity as malformed and that nothing
// was written.
func (s *session) refuses(r role, o subject, what, id string) {
	s.Helper()
	s.step++
	err := r.send(s, o, id)
	if !errors.Is(err, countersign.ErrMalformed) {
		s.failf(r.name, "%s must be malformed, got %v", what, err)
	}
	if kind, wrong := kindOf(err); wrong != nil || kind != refused {
		s.failf(r.name, "%s must be refused, got the kind %q, %v", what, kind, wrong)
	}
	s.sameAll(fmt.Sprintf("after %s as %s", what, r.name))
}

// lookalikes are identities that people, collations or normal forms take for one
// another.
var lookalikes = []string{
	"id", "ID", "Id", "iD", "id ", " id", "id\t", "id\n", "id\u00a0", "id\u200b", "\u200bid", "\ufeffid", "i d", "id.", "id-", "i-d",
	"\u00e9", "e\u0301", "e", "\u00c9", "E\u0301", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi", "\u00df", "ss", "SS", "\u1e9e",
	"\u0131", "i", "I", "\u0130", "\u03c3", "\u03c2", "\u03a3", "\uff49\uff44", "1", "01", "1.0", "\u0661", "\u00bd", "1/2",
}

// randomLetters returns n random letters and digits, which do not compress. The
// same n gives the same letters.
func randomLetters(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	r := rand.New(rand.NewPCG(uint64(n), 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

// randomRunes returns random runes of three and four bytes that take n bytes
// together, the rest of one or two filled up with letters.
func randomRunes(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	var b strings.Builder
	for n-b.Len() >= 4 {
		if r.IntN(2) == 0 {
			b.WriteRune(rune(0x4e00 + r.IntN(0x5000)))
		} else {
			b.WriteRune(rune(0x20000 + r.IntN(0xa000)))
		}
	}
	for b.Len() < n {
		b.WriteByte('a')
	}
	return b.String()
}
