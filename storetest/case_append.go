package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/eventlog"
)

var appendCases = []Case{
	logCase("append", "numbers_begin_at_zero_and_have_no_gaps", func(s *logSession) {
		for n := range 5 {
			a := s.append(appended, note("a", fmt.Sprint(n))).value.(eventlog.Appended)
			if want := uint64(n); a.First != want || a.Last != want || a.Count != 1 {
				s.failf("append", "want number %d, got %+v", want, a)
			}
		}
	}),
	logCase("append", "batch_gets_contiguous_numbers", func(s *logSession) {
		s.append(appended, notes(3)...)
		a := s.append(appended, notes(5)...).value.(eventlog.Appended)
		if a.First != 3 || a.Last != 7 || a.Count != 5 {
			s.failf("append", "want numbers 3 to 7, got %+v", a)
		}
		s.append(appended, note("z", `"last"`))
	}),
	logCase("append", "refused_batch_leaves_nothing_and_no_gap", func(s *logSession) {
		s.append(appended, notes(2)...)
		s.append(violations, note("a", `1`), of("nobody knows it", "a", `2`), note("a", `3`))
		s.append(violations, note("a", `1`), of(opened, "a", `{}`))
		s.append(malformed, note("a", `1`), note("", `2`))
		s.within(scopesViolated, []eventlog.Scope{{Expected: eventlog.NoneYet()}}, note("a", `1`))
		a := s.append(appended, note("a", `"next"`)).value.(eventlog.Appended)
		if a.First != 2 {
			s.failf("append", "the refused batches took numbers: %+v", a)
		}
	}),
	logCase("append", "order_within_a_batch_is_kept", func(s *logSession) {
		var events []eventlog.Event
		for i := range 40 { // neither the order of sources nor of contents
			events = append(events, note(fmt.Sprintf("source-%d", i*7%11), fmt.Sprint(i*13%40)))
		}
		s.append(appended, events...)
	}),
	logCase("append", "empty_batch_writes_nothing", func(s *logSession) {
		a := s.append(appended).value.(eventlog.Appended)
		if a.Count != 0 || a.First != 0 || a.Last != 0 {
			s.failf("append", "an empty batch got numbers: %+v", a)
		}
		s.append(appended, note("a", `1`))
		s.append(appended)
	}),
	logCase("append", "sequences_are_apart", func(s *logSession) {
		s.send(registered, eventlog.RegisterEventTypes{EventStore: bank.EventStore, Types: standardTypes})
		places := []eventlog.Sequence{
			orders, {Namespace: shop, Name: "Orders"}, {Namespace: shop, Name: "orders "}, {Namespace: shopUS, Name: "orders"}, {Namespace: bank, Name: "orders"}, eventlog.Log(shop),
		}
		for round := range 2 {
			for i, q := range places {
				a := s.send(appended, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{note("a", fmt.Sprintf(`[%d,%d]`, round, i))}}).value.(eventlog.Appended)
				if a.First != uint64(round) || a.Sequence != q.Name {
					s.failf("append", "want number %d of %q, got %+v", round, q.Name, a)
				}
			}
		}
		s.sameAll("after appends to several sequences")
	}),
	// The parts of a name must not run into each other.
	logCase("append", "composite_names_do_not_collide", func(s *logSession) {
		names := []eventlog.Sequence{}
		for _, part := range [][3]string{
			{"a", "b", "c"}, {"a/b", "c", "d"}, {"a", "b/c", "d"}, {"a", "b", "c/d"}, {"ab", "c", "d"}, {"a", "bc", "d"}, {"a.b", "c", "d"}, {"a", "b.c", "d"},
			{"a:b", "c", "d"}, {"a", "b:c", "d"}, {"a\x1fb", "c", "d"}, {"a", "b\x1fc", "d"}, {"a|b", "c", "d"}, {"a", "b|c", "d"}, {"a ", "b", "c"}, {"a", " b", "c"},
		} {
			q := eventlog.Sequence{Name: part[2]}
			q.Namespace.EventStore, q.Namespace.Name = part[0], part[1]
			names = append(names, q)
		}
		known := map[string]bool{}
		for i, q := range names {
			if !known[q.Namespace.EventStore] {
				known[q.Namespace.EventStore] = true
				s.send(registered, eventlog.RegisterEventTypes{EventStore: q.Namespace.EventStore, Types: standardTypes[:1]})
			}
			a := s.send(appended, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{note("a", fmt.Sprint(i))}}).value.(eventlog.Appended)
			if a.First != 0 {
				s.failf("append", "%q shares a sequence with another one: %+v", q, a)
			}
		}
	}),
	logCase("append", "unnamed_sequence_is_the_log", func(s *logSession) {
		a := s.send(appended, eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: shop}, Events: notes(1)}).value.(eventlog.Appended)
		if a.Sequence != "log" {
			s.failf("append", "want the sequence %q, got %+v", "log", a)
		}
		s.send(appended, eventlog.AppendEvents{Sequence: eventlog.Log(shop), Events: notes(1)})
		s.page("unnamed", eventlog.ReadEvents{Sequence: eventlog.Sequence{Namespace: shop}})
		s.tail("unnamed", eventlog.Sequence{Namespace: shop}, eventlog.Filter{})
	}),
	logCase("append", "every_field_comes_back", func(s *logSession) {
		full := fullEvent("1")
		s.append(appended, full)
		s.append(appended, note("bare", `null`))
		s.append(appended, fullEvent("2"), fullEvent("3"), note("bare", `0`))
		for _, leave := range []func(*eventlog.Event){ // each field alone is missing, and its neighbours are not moved
			func(e *eventlog.Event) { e.SourceType = "" }, func(e *eventlog.Event) { e.StreamType = "" }, func(e *eventlog.Event) { e.StreamID = "" },
			func(e *eventlog.Event) { e.Subject = "" }, func(e *eventlog.Event) { e.CorrelationID = "" }, func(e *eventlog.Event) { e.CausationID = "" },
			func(e *eventlog.Event) { e.CausedBy = "" }, func(e *eventlog.Event) { e.Tags = nil }, func(e *eventlog.Event) { e.Occurred = time.Time{} },
		} {
			e := fullEvent("4")
			leave(&e)
			s.append(appended, e)
		}
	}),
	logCase("append", "content_comes_back_byte_for_byte", func(s *logSession) {
		var events []eventlog.Event
		for _, content := range oddContents() {
			events = append(events, note("a", content))
		}
		s.append(appended, events...)
		for _, content := range oddContents()[:6] {
			s.append(appended, note("b", content))
		}
	}),
	logCase("append", "content_that_is_not_json_is_malformed", func(s *logSession) {
		for _, content := range []string{"", " ", "{", "nul", "1 2", "{}x", "{'a':1}", "[1,]", "\xff", "\"\xed\xa0\x80\"", "\"\x00\"", "\ufeff{}", "01", "NaN", strings.Repeat("[", 513) + strings.Repeat("]", 513)} {
			s.append(malformed, note("a", `1`), note("a", content))
		}
	}),
	logCase("append", "occurred_keeps_microseconds_in_utc", func(s *logSession) {
		for _, at := range []time.Time{
			time.Date(2026, 1, 2, 3, 4, 5, 678_901_999, time.UTC),
			time.Date(2026, 1, 2, 3, 4, 5, 1_000, time.FixedZone("east", 9*3600)),
			time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
			time.Date(1, 1, 1, 0, 0, 0, 1_000, time.UTC),
			time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
			time.Date(1582, 10, 10, 0, 0, 0, 0, time.UTC),
			time.Unix(0, 0),
		} {
			e := note("a", `1`)
			e.Occurred = at
			s.append(appended, e)
		}
		for _, at := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)} {
			e := note("a", `1`)
			e.Occurred = at
			s.append(malformed, e)
		}
	}),
	observerCase("append", "unset_occurred_is_the_stores_time", func(s *logSession) {
		for range 3 {
			s.append(appended, note("a", `1`), note("b", `2`))
			s.clock.pass(1234567 * time.Microsecond)
		}
	}),
	logCase("append", "the_stores_own_time_is_now", func(s *logSession) {
		s.append(appended, note("a", `1`), note("b", `2`))
		all := s.model.events[orders] // it was learnt, because it was plausible
		if all[0].Occurred.IsZero() || !all[0].Occurred.Equal(all[1].Occurred) {
			s.failf("append", "two events of one append occurred at %v and %v", all[0].Occurred, all[1].Occurred)
		}
	}),
	logCase("append", "tags_come_back_in_order_without_repetitions", func(s *logSession) {
		e := note("a", `1`)
		e.Tags = []eventlog.Tag{{Value: "z"}, {Name: "n", Value: "v"}, {Value: "z"}, {Name: "n"}, {Value: "a"}, {Name: "n", Value: "v"}, {Name: "N", Value: "v"}, {Value: "n"}, {Name: "z", Value: "z"}}
		s.append(appended, e)
		e.Tags = []eventlog.Tag{{Name: "a=b", Value: "c"}, {Name: "a", Value: "b=c"}, {Value: "a=b=c"}, {Name: "a:b", Value: "c"}, {Name: "a", Value: "b:c"}, {Name: "é", Value: "e\u0301"}, {Name: "e\u0301", Value: "é"}}
		s.append(appended, e)
		e.Tags = []eventlog.Tag{}
		s.append(appended, e)
		for _, bad := range []eventlog.Tag{{}, {Value: "a\x00b"}, {Name: "a\x00b", Value: "c"}, {Name: "n", Value: "\xff"}, {Name: "\xff"}, {Value: strings.Repeat("x", 513)}} {
			e.Tags = []eventlog.Tag{{Value: "fine"}, bad}
			s.append(malformed, e)
		}
	}),
	logCase("append", "generation_zero_is_one", func(s *logSession) {
		s.send(registered, eventlog.RegisterEventTypes{EventStore: shop.EventStore, Types: []eventlog.EventType{{ID: noted, Generation: 2, Schema: []byte(`{"type":"string"}`)}, {ID: noted, Generation: eventlog.MaxGeneration, Schema: []byte(`false`)}}})
		for _, generation := range []uint32{0, 1} {
			e := note("a", `1`)
			e.Generation = generation
			s.append(appended, e)
		}
		e := note("a", `"two"`)
		e.Generation = 2
		s.append(appended, e, note("a", `1`))
		e.Content = []byte(`2`)
		s.append(violations, e)
		e.Generation = eventlog.MaxGeneration
		s.append(violations, e)
		e.Generation = 3
		s.append(violations, e)
		e.Generation = eventlog.MaxGeneration + 1
		s.append(malformed, e)
	}),
	logCase("append", "identities_are_compared_byte_by_byte", func(s *logSession) {
		ids := []string{"a", "A", "ä", "a\u0308", "a ", " a", "a\t", "ａ", "ß", "ss", "İ", "i", "%", "_", "'", "\"", "\\", "$", ".", "a.b", "$a", "\u200b", "\ufffd", "𐀀", "\uffff", "\x01", "\x7f", "0", "00", "1e0", "null", "{}"}
		var events []eventlog.Event
		for _, id := range ids {
			e := fullEvent("x")
			e.Source, e.SourceType, e.StreamType, e.StreamID, e.Subject, e.CorrelationID, e.CausationID, e.CausedBy = id, id, id, id, id, id, id, id
			e.Tags = []eventlog.Tag{{Value: id}, {Name: id, Value: id}, {Name: id}}
			events = append(events, e)
		}
		s.append(appended, events...)
		for _, id := range ids {
			for _, f := range []eventlog.Filter{{Source: id}, {StreamID: id}, {Tags: []eventlog.Tag{{Name: id, Value: id}}}} {
				s.tail("identities", orders, f)
			}
		}
		s.page("identities", eventlog.ReadEvents{Sequence: orders, Filter: eventlog.Filter{Source: "ä", SourceType: "ä", StreamType: "ä", StreamID: "ä", Tags: []eventlog.Tag{{Value: "ä"}}}})
	}),
	logCase("append", "identities_of_512_bytes_fit_everywhere", longIdentities),
	logCase("append", "malformed_identities_are_refused", func(s *logSession) {
		s.append(appended, note("a", `1`))
		set := []func(e *eventlog.Event, id string){
			func(e *eventlog.Event, id string) { e.Type = id }, func(e *eventlog.Event, id string) { e.Source = id },
			func(e *eventlog.Event, id string) { e.SourceType = id }, func(e *eventlog.Event, id string) { e.StreamType = id },
			func(e *eventlog.Event, id string) { e.StreamID = id }, func(e *eventlog.Event, id string) { e.Subject = id },
			func(e *eventlog.Event, id string) { e.CorrelationID = id }, func(e *eventlog.Event, id string) { e.CausationID = id },
			func(e *eventlog.Event, id string) { e.CausedBy = id },
		}
		for _, apply := range set {
			for _, id := range []string{"a\x00b", "\xff", "a\xed\xa0\x80", strings.Repeat("x", 513)} {
				e := note("a", `1`)
				apply(&e, id)
				s.exchangeOnly(malformed, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{e}})
			}
		}
		for _, q := range []eventlog.Sequence{
			{}, {Namespace: shop, Name: "a\x00b"}, {Namespace: shop, Name: strings.Repeat("x", 513)}, {Name: "orders"},
			{Namespace: bank, Name: "\xff"},
		} {
			s.exchangeOnly(malformed, eventlog.AppendEvents{Sequence: q, Events: notes(1)})
		}
		s.sameAll("after malformed requests")
	}),
	logCase("append", "limits_hold_exactly", appendLimits),
	logCase("append", "in_a_sequence_of_many_batches", func(s *logSession) {
		for i := range 30 {
			s.append(appended, notes(1+i%4)...)
		}
	}),
}

// exchangeOnly is send for requests that are refused for their form: what the store
// holds is compared later, once for many.
func (s *logSession) exchangeOnly(want string, req any) {
	s.Helper()
	got, expected := s.exchange(s.store, req)
	if outcome := expected.outcome(req); outcome != want {
		s.failf(describeLog(req), "the case wants %s, the model says %s", want, expected.show(req))
	}
	if diff := got.differs(req, expected); diff != "" {
		s.failf(describeLog(req), "%s", diff)
	}
}

// fullEvent returns an event with something in every field.
func fullEvent(mark string) eventlog.Event {
	return eventlog.Event{
		Type: noted, Generation: 1, Source: "source " + mark, SourceType: "source type " + mark, StreamType: "stream type " + mark, StreamID: "stream id " + mark,
		Subject: "subject " + mark, Tags: []eventlog.Tag{{Value: "plain " + mark}, {Name: "name", Value: "value " + mark}}, Content: []byte(`{"mark": "` + mark + `"}`),
		Occurred: time.Date(2020, 2, 3, 4, 5, 6, 7_000, time.UTC), CorrelationID: "correlation " + mark, CausationID: "causation " + mark, CausedBy: "caused by " + mark,
	}
}

// oddContents are JSON texts that a store may be tempted to change.
func oddContents() []string {
	return []string{
		`{"b":1,"a":2}`, `{"a":1,"a":2}`, ` {"a" : 1}  `, "\t\r\n[\n1 ,\t2\r\n]\n", `{"$set":{"a.b":1},"$":2,".":3,"":4,"_id":5}`, `"\u0000 \ud800 \udc00\ud800 \ud83d\ude00"`,
		`{"\u0000":"\u0000"}`, `{"\ud800":1}`, `123456789012345678901234567890.123456789012345678901234567890`, `9007199254740993`, `-0`, `0.1000000000000000055`,
		`1E400`, `1e-400`, `1.0`, `1.50`, `18446744073709551616`, `"é e\u0301 \u00e9"`, `"\/ / \b\f\n\r\t\" \\"`, `"< > & \u2028 ` + "\u2028" + `"`, `"` + "\ufffe\uffff\U0010ffff" + `"`,
		`null`, `true`, `false`, `""`, `{}`, `[]`, `[null]`, `{"a":null}`, strings.Repeat(`{"a":[`, 75) + `1` + strings.Repeat(`]}`, 75), strings.Repeat("[", 512) + strings.Repeat("]", 512),
		`"` + strings.Repeat("x", 70_000) + `"`, `"` + "\x7f\u0080\u009f" + `"`,
	}
}

// longIdentities puts names of 512 bytes that no compression shortens into every
// place at once, and next to each one another name that differs in its last byte.
func longIdentities(s *logSession) {
	id := func(seed string) string { return seed + randomLetters(512-len(seed)) }
	q := eventlog.Sequence{Name: id("q")}
	q.Namespace.EventStore, q.Namespace.Name = id("s"), id("n")
	types := []eventlog.EventType{{ID: id("t"), Schema: []byte(`true`)}, {ID: id("u"), Schema: []byte(`true`)}}
	s.send(registered, eventlog.RegisterEventTypes{EventStore: q.Namespace.EventStore, Types: types})
	property := "p" + randomLetters(511)
	s.send(registered, eventlog.RegisterConstraints{EventStore: q.Namespace.EventStore, Constraints: []eventlog.Constraint{{
		Name: id("c"), Kind: eventlog.UniqueValue, Covers: []eventlog.Covered{{Type: types[0].ID, Properties: []string{property}}}, RemovedBy: []string{types[1].ID},
		Within: eventlog.Within{SourceType: true, StreamType: true, StreamID: true},
	}}})
	other := func(id string) string { return id[:511] + "~" }
	e := eventlog.Event{
		Type: types[0].ID, Source: id("a"), SourceType: id("b"), StreamType: id("c"), StreamID: id("d"), Subject: id("e"), CorrelationID: id("f"), CausationID: id("g"), CausedBy: id("h"),
		Content: []byte(`{"` + property + `":"` + id("v") + `"}`),
	}
	for i := range 100 {
		e.Tags = append(e.Tags, eventlog.Tag{Name: id(fmt.Sprint(i)), Value: id("v")})
	}
	s.send(appended, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{e}})
	again := e
	again.Source = other(e.Source)
	s.send(violations, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{again}})
	again.StreamID = other(e.StreamID)
	s.send(appended, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{again}})
	neighbour := q
	neighbour.Name = other(q.Name)
	s.send(appended, eventlog.AppendEvents{Sequence: neighbour, Events: []eventlog.Event{e}})
	s.send(scopesViolated, eventlog.AppendEvents{Sequence: q, Scopes: []eventlog.Scope{
		{Label: id("l"), Source: e.Source, SourceType: e.SourceType, StreamType: e.StreamType, StreamID: e.StreamID, EventTypes: []string{e.Type}, Expected: eventlog.NoneYet()},
		{Source: other(other(e.Source)), StreamID: e.StreamID, Expected: eventlog.NoneYet()},
	}})
	s.page("long identities", eventlog.ReadEvents{Sequence: q, Filter: eventlog.Filter{Source: e.Source, SourceType: e.SourceType, StreamType: e.StreamType, StreamID: e.StreamID, EventTypes: []string{e.Type}, Tags: e.Tags}})
	gone := e
	gone.Type = types[1].ID
	s.send(appended, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{gone}})
}

// appendLimits sends requests at each limit, and one above it.
func appendLimits(s *logSession) {
	pad := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	s.append(appended, notes(eventlog.MaxEvents)...)
	s.append(malformed, notes(eventlog.MaxEvents+1)...)

	// Everything of an event counts.
	e := fullEvent("1")
	e.Content = []byte(pad(eventlog.MaxEventBytes - (e.Size() - len(e.Content))))
	s.append(appended, e)
	e.Content = []byte(pad(len(e.Content) + 1))
	s.append(malformed, e)

	big := func(source string, size int) eventlog.Event {
		one := note(source, "0")
		one.Content = []byte(pad(size - one.Size() + 1))
		return one
	}
	third := eventlog.MaxBatchBytes / 3
	s.append(appended, big("a", third), big("b", third), big("c", third))
	s.append(malformed, big("a", third), big("b", third), big("c", third), note("d", "1"))

	var tags []eventlog.Tag
	for i := range eventlog.MaxTags {
		tags = append(tags, eventlog.Tag{Name: "tag", Value: fmt.Sprint(i)})
	}
	e = note("a", "1")
	e.Tags = tags
	s.append(appended, e)
	e.Tags = append(e.Tags, eventlog.Tag{Value: "one more"})
	s.append(malformed, e)

	var scopes []eventlog.Scope
	for i := range eventlog.MaxScopes {
		scopes = append(scopes, eventlog.Scope{Source: fmt.Sprintf("nobody-%d", i), Expected: eventlog.NoneYet()})
	}
	s.within(appended, scopes, note("a", "1"))
	s.within(malformed, append(scopes, eventlog.Scope{Source: "a", Expected: eventlog.Seen(1 << 40)}), note("a", "1"))
}
