package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

const effectGroup = "effect_receipt"

var effectReceiptCases = []Case{
	effectCase(effectGroup, "events_and_receipt_commit_together", func(s *logSession) {
		s.append(appended, notes(2)...)
		a := s.send(appended, effect("o1", notes(3)...)).value.(receipt.Result).Receipt
		if a.Outcome != receipt.Appended || a.First != 2 || a.Last != 4 || a.Sequence != "orders" || a.Epoch != 7 || a.RecordedAt.IsZero() {
			s.failf("append with a receipt", "want events 2 to 4 of \"orders\", got %s", showReceipt(a))
		}
		s.send(appended, effect("o2", notes(1)...))
		s.append(appended, notes(1)...)
	}),
	effectCase(effectGroup, "first_writer_wins", func(s *logSession) {
		s.send(appended, effect("o", note("a", `"first"`)))
		again := effect("o", note("b", `"other"`), note("c", `"events"`))
		again.Epoch, again.Response = 99, []byte(`"other response"`)
		s.send(alreadyRecorded, again)
		again.Sequence = eventlog.Sequence{Namespace: shop, Name: "another"}
		s.send(alreadyRecorded, again)
		again.Events, again.Response = nil, nil
		s.send(alreadyRecorded, again)
		s.send(alreadyRecorded, outcomeOnly("o", "refused"))
		s.send(appended, effect("o2", note("b", `"other"`)))
		s.send(alreadyRecorded, effect("o", note("a", `"first"`)))
	}),
	effectCase(effectGroup, "is_looked_up_before_the_batch_is_judged", func(s *logSession) {
		s.constrain(unique("name"))
		s.send(appended, effect("o", of(opened, "a", withName("x"))))
		for _, events := range [][]eventlog.Event{
			{of("nobody", "a", `1`)}, {of(opened, "a", `{}`)}, {of(opened, "b", withName("x"))}, {note("", `1`)}, {note("a", `{`)}, {note("a", "")}, notes(eventlog.MaxEvents + 1),
			{note("a", `"`+strings.Repeat("x", eventlog.MaxEventBytes)+`"`)}, {{}}, {note("a\x00", `1`)},
		} {
			s.send(alreadyRecorded, effect("o", events...))
		}
		for _, scope := range []eventlog.Scope{{Expected: eventlog.NoneYet()}, {}, {Source: "\xff"}} {
			again := effect("o", note("a", `1`))
			again.Scopes = one(scope)
			s.send(alreadyRecorded, again)
		}
		again := effect("o", note("a", `1`))
		again.Response = []byte(`{`)
		s.send(alreadyRecorded, again)
		again.Response = []byte(`"` + strings.Repeat("x", receipt.MaxResponseBytes) + `"`)
		s.send(alreadyRecorded, again)
		again.Epoch = 1 << 63
		s.send(alreadyRecorded, again)
		record := outcomeOnly("o")
		record.Reasons, record.Epoch = []string{""}, 1<<63
		s.send(alreadyRecorded, record)
	}),
	effectCase(effectGroup, "malformed_key_is_refused", func(s *logSession) {
		s.send(appended, effect("o", notes(1)...))
		for _, id := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 513)} {
			bad := effect(id, notes(1)...)
			s.exchangeOnly(malformed, bad)
			bad = effect("p", notes(1)...)
			bad.Effect = id
			s.exchangeOnly(malformed, bad)
			s.exchangeOnly(malformed, outcomeOnly(id))
			record := outcomeOnly("p")
			record.Effect.Effect = id
			s.exchangeOnly(malformed, record)
			key := record.Key
			if _, err := s.store.receipts.ReadReceipt(s.Context(), key); !errors.Is(err, countersign.ErrMalformed) {
				s.failf("read a receipt", "of the effect %q: want %q, got %v", id, countersign.ErrMalformed, err)
			}
		}
		bad := effect("o", notes(1)...)
		bad.Sequence.Namespace.Name = ""
		s.exchangeOnly(malformed, bad)
	}),
	effectCase(effectGroup, "refusal_writes_no_receipt", func(s *logSession) {
		s.constrain(unique("name"))
		s.append(appended, of(opened, "a", withName("x")))
		s.send(violations, effect("o", of(opened, "b", withName("x"))))
		s.send(violations, effect("o", of("nobody", "b", `1`)))
		s.send(violations, effect("o", note("a", `1`), of(opened, "b", `{}`)))
		s.send(malformed, effect("o", note("b", `{`)))
		scoped := effect("o", note("b", `1`))
		scoped.Scopes = one(eventlog.Scope{Source: "a", Expected: eventlog.NoneYet()})
		s.send(scopesViolated, scoped)
		s.sameReceipt("after refusals", scoped.Key())
		s.send(appended, effect("o", of(opened, "b", withName("y"))))
	}),
	effectCase(effectGroup, "no_events_are_recorded_after_their_scopes", func(s *logSession) {
		s.append(appended, note("a", `1`))
		req := effect("o")
		req.Scopes = one(eventlog.Scope{Source: "a", Expected: eventlog.NoneYet()})
		s.send(scopesViolated, req)
		req.Scopes = []eventlog.Scope{{Source: "a", Expected: eventlog.Seen(0)}, {}}
		s.send(malformed, req)
		req.Scopes = []eventlog.Scope{{Source: "a", Expected: eventlog.Seen(0)}, {Source: "b", Expected: eventlog.NoneYet()}}
		got := s.send(recordedEffect, req).value.(receipt.Result).Receipt
		if got.Outcome != receipt.NoEvents || got.Sequence != "" || got.First != 0 || got.Last != 0 || got.Reasons != nil {
			s.failf("append no events with a receipt", "%s", showReceipt(got))
		}
		s.append(appended, note("b", `1`))
		s.send(alreadyRecorded, req)
		s.send(recordedEffect, effect("without scopes"))
		s.send(alreadyRecorded, effect("without scopes", note("c", `1`)))
		s.send(recordedEffect, func() receipt.AppendWithReceipt { // in a sequence that is not there
			r := effect("elsewhere")
			r.Sequence.Name = "nowhere"
			r.Scopes = one(eventlog.Scope{Expected: eventlog.NoneYet()})
			return r
		}())
	}),
	effectCase(effectGroup, "record_keeps_reasons_and_response", func(s *logSession) {
		for _, reasons := range [][]string{nil, {"sold out"}, {"b", "a", "b", "\x00", " ", "é e\u0301", `"$ . {}`, strings.Repeat("long ", 1000)}} {
			req := outcomeOnly(fmt.Sprintf("o%d", len(reasons)), reasons...)
			got := s.send(recordedEffect, req).value.(receipt.Result).Receipt
			want := receipt.NoEvents
			if reasons != nil {
				want = receipt.Refused
			}
			if got.Outcome != want || !slices.Equal(got.Reasons, reasons) {
				s.failf(describeLog(req), "got %s", showReceipt(got))
			}
			s.send(alreadyRecorded, outcomeOnly(fmt.Sprintf("o%d", len(reasons)), "other"))
		}
	}),
	effectCase(effectGroup, "refusal_needs_reasons", func(s *logSession) {
		req := outcomeOnly("o")
		many := make([]string, receipt.MaxReasons+1)
		for i := range many {
			many[i] = "reason"
		}
		long := strings.Repeat("x", receipt.MaxReasonsBytes)
		for _, reasons := range [][]string{{}, {""}, {"a", ""}, {"\xff"}, many, {long, "y"}} {
			req.Reasons = reasons
			s.exchangeOnly(malformed, req)
		}
		s.sameReceipt("after malformed refusals", req.Key)
		req.Reasons = many[1:]
		s.send(recordedEffect, req)
		req = outcomeOnly("p", long)
		s.send(recordedEffect, req)
	}),
	effectCase(effectGroup, "record_returns_the_receipt_of_another_sequence", func(s *logSession) {
		req := effect("o", notes(2)...)
		req.Sequence.Name = "another"
		s.send(appended, req)
		got := s.send(alreadyRecorded, outcomeOnly("o")).value.(receipt.Result).Receipt
		if got.Outcome != receipt.Appended || got.Sequence != "another" {
			s.failf("record", "want the receipt of the other sequence, got %s", showReceipt(got))
		}
		s.send(recordedEffect, outcomeOnly("p"))
		req = effect("p", notes(2)...)
		s.send(alreadyRecorded, req)
	}),
	effectCase(effectGroup, "response_comes_back_byte_for_byte", func(s *logSession) {
		for i, response := range oddContents() {
			if len(response) > receipt.MaxResponseBytes {
				continue
			}
			id := fmt.Sprintf("o%d", i)
			with, record := effect(id), outcomeOnly("record "+id)
			if i%2 == 0 {
				with.Events = notes(1)
			}
			with.Response, record.Response = []byte(response), []byte(response)
			s.exchangeOnly(map[bool]string{true: appended, false: recordedEffect}[i%2 == 0], with)
			s.exchangeOnly(recordedEffect, record)
			with.Response, record.Response = []byte(`"other"`), nil
			s.exchangeOnly(alreadyRecorded, with)
			s.exchangeOnly(alreadyRecorded, record)
		}
		s.sameAll("after many responses")
	}),
	effectCase(effectGroup, "response_has_its_limit", func(s *logSession) {
		exact := `"` + strings.Repeat("x", receipt.MaxResponseBytes-2) + `"`
		deep := strings.Repeat("[", receipt.MaxResponseBytes/2) + strings.Repeat("]", receipt.MaxResponseBytes/2)
		for i, response := range []string{exact, deep, strings.Repeat(" ", receipt.MaxResponseBytes-1) + "1"} {
			req := effect(fmt.Sprintf("o%d", i), notes(1)...)
			req.Response = []byte(response + " ")
			s.send(malformed, req)
			req.Response = []byte(response)
			s.send(appended, req)
			record := outcomeOnly(fmt.Sprintf("p%d", i))
			record.Response = []byte(response + " ")
			s.send(malformed, record)
			record.Response = []byte(response)
			s.send(recordedEffect, record)
		}
	}),
	effectCase(effectGroup, "response_that_is_not_json_is_refused", func(s *logSession) {
		for _, response := range []string{" ", "{", "nul", "1 2", "{'a':1}", "\xff", "\"\x00\"", "\ufeff1", "NaN", "\"\xed\xa0\x80\""} {
			req := effect("o", notes(1)...)
			req.Response = []byte(response)
			s.send(malformed, req)
			record := outcomeOnly("o")
			record.Response = []byte(response)
			s.send(malformed, record)
		}
		s.send(appended, effect("o", notes(1)...))
	}),
	effectCase(effectGroup, "null_is_a_response_and_nothing_is_none", func(s *logSession) {
		for i, response := range [][]byte{[]byte("null"), nil, {}} {
			req := effect(fmt.Sprintf("o%d", i), notes(1)...)
			req.Response = response
			got := s.send(appended, req).value.(receipt.Result).Receipt.Response
			if i == 0 && string(got) != "null" || i > 0 && got != nil {
				s.failf(describeLog(req), "the response came back as %s", showBytes(got))
			}
			record := outcomeOnly(fmt.Sprintf("p%d", i))
			record.Response = response
			s.send(recordedEffect, record)
			s.send(alreadyRecorded, req)
			s.send(alreadyRecorded, record)
		}
	}),
	effectCase(effectGroup, "unknown_receipt_is_told", func(s *logSession) {
		req := effect("o", notes(1)...)
		s.sameReceipt("before", req.Key())
		s.send(appended, req)
		for _, change := range []func(k *receipt.Key){
			func(k *receipt.Key) { k.Effect = "Effect" }, func(k *receipt.Key) { k.Occurrence = "O" }, func(k *receipt.Key) { k.Namespace = shopUS }, func(k *receipt.Key) { k.Namespace = bank },
			func(k *receipt.Key) { k.Effect = "effect " }, func(k *receipt.Key) { k.Occurrence = "effect"; k.Effect = "o" },
		} {
			key := req.Key()
			change(&key)
			s.sameReceipt("beside the one that is there", key)
		}
		s.sameReceipt("the one that is there", req.Key())
	}),
	effectCase(effectGroup, "composite_keys_do_not_collide", func(s *logSession) {
		keys := [][2]string{{"a", "b/c"}, {"a/b", "c"}, {"ab", "c"}, {"a", "bc"}, {"a.b", "c"}, {"a", "b.c"}, {"a:b", "c"}, {"a", "b:c"}, {"a|b", "c"}, {"a", "b|c"}, {"a\x1fb", "c"}, {"a", "b\x1fc"}, {"a ", "b"}, {"a", " b"}, {"é", "x"}, {"e\u0301", "x"}, {"$a", "x"}, {"a", "$x"}, {"A", "B"}, {"a", "b"}}
		for i, key := range keys {
			req := effect(key[0], note("a", fmt.Sprint(i)))
			req.Effect, req.Response = key[1], fmt.Append(nil, i)
			s.send(appended, req)
		}
		for i, key := range keys {
			record := outcomeOnly(key[0], fmt.Sprint(i))
			record.Effect.Effect, record.Response = key[1], nil
			s.send(alreadyRecorded, record)
		}
	}),
	effectCase(effectGroup, "namespaces_are_apart", func(s *logSession) {
		s.send(registered, eventlog.RegisterEventTypes{EventStore: bank.EventStore, Types: standardTypes})
		for i, ns := range []countersign.Namespace{shop, shopUS, bank} {
			req := effect("o", note("a", fmt.Sprint(i)))
			req.Sequence.Namespace, req.Response = ns, fmt.Append(nil, i)
			s.send(appended, req)
			s.send(alreadyRecorded, req)
			record := outcomeOnly("p", fmt.Sprint(i))
			record.Namespace = ns
			s.send(recordedEffect, record)
		}
		s.sameAll("after receipts in three namespaces")
	}),
	effectCase(effectGroup, "identities_of_512_bytes_fit", func(s *logSession) {
		ns := countersign.Namespace{EventStore: "e" + randomLetters(511), Name: "n" + randomLetters(511)}
		s.send(registered, eventlog.RegisterEventTypes{EventStore: ns.EventStore, Types: standardTypes[:1]})
		var keys [][2]string
		o, e := "o"+randomLetters(511), "e"+randomLetters(511)
		for _, last := range []string{"~", "!"} {
			keys = append(keys, [2]string{o[:511] + last, e}, [2]string{o, e[:511] + last})
		}
		for i, key := range append(keys, [2]string{o, e}) {
			req := effect(key[0], note("a", fmt.Sprint(i)))
			req.Sequence, req.Effect = eventlog.Sequence{Namespace: ns, Name: "q" + strings.Repeat("ü", 255)}, key[1]
			s.send(appended, req)
			record := outcomeOnly(key[0])
			record.Namespace, record.Effect.Effect = ns, key[1]
			s.send(alreadyRecorded, record)
			s.sameReceipt("of long names", req.Key())
		}
	}),
	effectCase(effectGroup, "list_is_ordered_and_complete", func(s *logSession) {
		ids := []string{"b", "a", "B", "ä", "a/1", "a 1", "𐀀", "\uffff", "aa", "10", "9"}
		effects := []string{"z", "Z", "é", "a", "aa", "\uffff", "𐀀"}
		for i, id := range ids {
			for k, name := range effects[:1+i%len(effects)] {
				req := outcomeOnly(id, fmt.Sprint(i, k))
				req.Effect.Effect = name
				s.exchangeOnly(recordedEffect, req)
			}
		}
		list := func(occurrences ...string) {
			s.Helper()
			s.list(s.store, "list", receipt.ListReceipts{Namespace: shop, Occurrences: occurrences})
		}
		list(ids...)
		list()
		list("nobody")
		list("a", "nobody", "ä", "a", "b", "a")
		list("A")
		s.list(s.store, "list", receipt.ListReceipts{Namespace: shopUS, Occurrences: ids})
		many := numbered("o", receipt.MaxOccurrences-1)
		list(append(many, "b")...)
		for _, bad := range []receipt.ListReceipts{{Namespace: shop, Occurrences: append(many, "a", "b")}, {Occurrences: ids}, {Namespace: shop, Occurrences: []string{"a", ""}}, {Namespace: shop, Occurrences: []string{"\xff"}}} {
			if _, err := s.store.receipts.ListReceipts(s.Context(), bad); !errors.Is(err, countersign.ErrMalformed) {
				s.failf("list", "want %q, got %v", countersign.ErrMalformed, err)
			}
		}
	}),
	effectCase(effectGroup, "is_no_event", func(s *logSession) {
		s.append(appended, notes(1)...)
		s.send(recordedEffect, outcomeOnly("o", "refused"))
		s.send(recordedEffect, effect("p"))
		s.send(appended, effect("q", notes(1)...))
		s.tail("after receipts", orders, eventlog.Filter{})
		s.sameSequence(s.store, "after receipts", eventlog.Log(shop))
		a := s.append(appended, notes(1)...).value.(eventlog.Appended)
		if a.First != 2 {
			s.failf("append", "a receipt took a number: %+v", a)
		}
	}),
	effectCase(effectGroup, "epochs_come_back_exactly", func(s *logSession) {
		for _, epoch := range []uint64{0, 1, 1 << 31, 1<<32 + 1, 1<<53 + 1, 1<<63 - 1} {
			req := effect(fmt.Sprint(epoch), notes(1)...)
			req.Epoch = epoch
			s.send(appended, req)
			record := outcomeOnly(fmt.Sprint("r", epoch))
			record.Epoch = epoch
			s.send(recordedEffect, record)
		}
		req := effect("above")
		req.Epoch = 1 << 63
		s.send(malformed, req)
	}),
	sessionCase(effectGroup, "time_is_the_stores", true, []Need{NeedEvents, NeedReceipts}, func(s *logSession) {
		s.send(appended, effect("o", notes(2)...))
		s.clock.pass(time.Hour + 1500*time.Nanosecond)
		s.send(recordedEffect, outcomeOnly("p"))
		s.send(alreadyRecorded, effect("o", notes(2)...))
		s.clock.pass(-2 * time.Hour)
		s.send(appended, effect("q", notes(1)...))
	}),
	// Without a clock of the case's, it is the store's own.
	effectCase(effectGroup, "the_stores_own_time_is_now", func(s *logSession) {
		s.send(recordedEffect, outcomeOnly("o"))
		a := s.send(appended, effect("p", notes(2)...)).value.(receipt.Result).Receipt
		for _, e := range s.model.events[orders] { // learnt with the receipt, because it was plausible
			if !e.Occurred.Equal(a.RecordedAt) {
				s.failf("append with a receipt", "recorded at %v, and its events occurred at %v", a.RecordedAt, e.Occurred)
			}
		}
	}),
	// A hit completes the constraint index from the stored events. It is there for
	// the next append in any case.
	effectCase(effectGroup, "hit_leaves_the_constraint_index_complete", func(s *logSession) {
		s.send(appended, effect("o", of(opened, "a", withName("x")), of(opened, "b", withName("x"))))
		s.constrain(unique("name"))
		s.send(alreadyRecorded, effect("o"))
		s.append(violations, of(opened, "c", withName("x")))
		s.append(violations, of(opened, "b", withName("x")))
		s.append(appended, of(closedE, "a", `1`), of(opened, "c", withName("x")))
		s.send(alreadyRecorded, outcomeOnly("o"))
		s.append(violations, of(opened, "a", withName("x")))
	}),
	effectCase(effectGroup, "scopes_and_constraints_hold_with_a_receipt", func(s *logSession) {
		s.constrain(unique("name"))
		req := effect("o", of(opened, "a", withName("x")), of(closedE, "a", `1`), of(opened, "b", withName("x")))
		req.Scopes = one(eventlog.Scope{Expected: eventlog.NoneYet()})
		s.send(appended, req)
		s.send(alreadyRecorded, req)
		req.Effect = "another"
		s.send(violations, req)
		req.Events = notes(1)
		s.send(scopesViolated, req)
		req.Scopes = one(eventlog.Scope{Expected: eventlog.Seen(2)})
		req.Events = []eventlog.Event{of(closedE, "b", `1`), of(opened, "a", withName("x"))}
		s.send(appended, req)
	}),
	effectCase(effectGroup, "one_occurrence_has_many_effects", func(s *logSession) {
		for i := range 5 {
			req := effect("o", note("a", fmt.Sprint(i)))
			req.Effect = fmt.Sprintf("effect %d", i)
			s.send(appended, req)
			s.send(alreadyRecorded, req)
		}
	}),
}
