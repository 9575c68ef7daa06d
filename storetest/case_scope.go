package storetest

import (
	"strings"

	"github.com/countersign/countersign/eventlog"
)

// placed is an event with everything that a scope narrows by.
func placed(typ, source, sourceType, streamType, streamID string) eventlog.Event {
	return eventlog.Event{Type: typ, Source: source, SourceType: sourceType, StreamType: streamType, StreamID: streamID, Content: []byte(`1`)}
}

// fillScopes appends eight events that differ in one part each.
func fillScopes(s *logSession) {
	s.Helper()
	s.append(appended,
		placed(noted, "a", "order", "shop", "1"),
		placed(noted, "b", "order", "shop", "1"),
		placed(noted, "a", "invoice", "shop", "1"),
		placed(noted, "a", "order", "mail", "1"),
		placed(noted, "a", "order", "shop", "2"),
		placed(renamed, "a", "order", "shop", "1"),
		placed(closedE, "c", "", "", ""),
	)
}

func one(s eventlog.Scope) []eventlog.Scope { return []eventlog.Scope{s} }

var scopeCases = []Case{
	logCase("scope", "is_an_upper_bound", func(s *logSession) {
		s.append(appended, note("a", `0`), note("b", `1`), note("a", `2`), note("b", `3`))
		for _, seen := range []uint64{2, 3, 100} { // any number from the highest on, not that one alone
			s.within(appended, one(eventlog.Scope{Source: "a", Expected: eventlog.Seen(seen)}), note("c", `1`))
		}
		for _, seen := range []uint64{0, 1} {
			s.within(scopesViolated, one(eventlog.Scope{Source: "a", Expected: eventlog.Seen(seen)}), note("c", `1`))
		}
	}),
	logCase("scope", "none_yet_is_violated_by_number_zero", func(s *logSession) {
		s.within(appended, one(eventlog.Scope{Expected: eventlog.NoneYet()}), note("a", `0`))
		s.within(scopesViolated, one(eventlog.Scope{Expected: eventlog.NoneYet()}), note("a", `0`))
		s.within(scopesViolated, one(eventlog.Scope{Source: "a", Expected: eventlog.NoneYet()}), note("a", `0`))
		s.within(appended, one(eventlog.Scope{Source: "b", Expected: eventlog.NoneYet()}), note("b", `1`))
		s.within(appended, one(eventlog.Scope{Source: "a", Expected: eventlog.Seen(0)}), note("b", `1`))
	}),
	logCase("scope", "narrows_by_each_part", func(s *logSession) {
		fillScopes(s)
		for _, scope := range []eventlog.Scope{
			{}, {Source: "a"}, {Source: "b"}, {Source: "c"}, {Source: "nobody"}, {SourceType: "order"}, {SourceType: "invoice"}, {SourceType: "nothing"},
			{StreamType: "mail"}, {StreamType: "shop"}, {StreamType: "nothing"}, {StreamID: "1"}, {StreamID: "2"}, {StreamID: "3"}, {EventTypes: []string{renamed}}, {EventTypes: []string{opened}},
			{Source: "a", SourceType: "order", StreamType: "shop", StreamID: "1"}, {Source: "b", SourceType: "invoice"}, {Source: "a", StreamID: "2", EventTypes: []string{noted}},
		} {
			last := s.model.events[orders]
			number, found := highest(last, withExpected(scope, eventlog.NoneYet()))
			if !found {
				s.within(appended, one(withExpected(scope, eventlog.NoneYet())))
				continue
			}
			s.within(scopesViolated, one(withExpected(scope, eventlog.NoneYet())))
			s.within(appended, one(withExpected(scope, eventlog.Seen(number))))
			if number > 0 {
				s.within(scopesViolated, one(withExpected(scope, eventlog.Seen(number-1))))
			}
		}
	}),
	logCase("scope", "event_types_are_any_of_them", func(s *logSession) {
		fillScopes(s)
		s.within(scopesViolated, one(eventlog.Scope{EventTypes: []string{opened, closedE}, Expected: eventlog.Seen(5)}))
		s.within(scopesViolated, one(eventlog.Scope{EventTypes: []string{renamed, noted}, Expected: eventlog.Seen(4)}))
		s.within(appended, one(eventlog.Scope{EventTypes: []string{renamed, noted}, Expected: eventlog.Seen(5)}))
		s.within(appended, one(eventlog.Scope{EventTypes: []string{"not registered", opened, opened}, Expected: eventlog.NoneYet()}))
		// Of any generation.
		s.send(registered, types(eventlog.EventType{ID: opened, Generation: 2, Schema: []byte(`true`)}))
		two := of(opened, "a", `1`)
		two.Generation = 2
		s.append(appended, two)
		s.within(scopesViolated, one(eventlog.Scope{EventTypes: []string{opened}, Expected: eventlog.NoneYet()}))
	}),
	logCase("scope", "all_that_are_violated_are_told", func(s *logSession) {
		fillScopes(s)
		s.within(scopesViolated, []eventlog.Scope{
			{Label: "whole", Expected: eventlog.Seen(2)},
			{Label: "kept", Source: "a", Expected: eventlog.Seen(5)},
			{Label: "b", Source: "b", Expected: eventlog.NoneYet()},
			{Label: "none", Source: "nobody", Expected: eventlog.NoneYet()},
			{Label: "types", EventTypes: []string{closedE, renamed}, Expected: eventlog.Seen(5)},
			{Source: "b", Expected: eventlog.NoneYet()},
			{Label: "other label of the same", Source: "b", Expected: eventlog.NoneYet()},
			{Label: "b again, seen", Source: "b", Expected: eventlog.Seen(0)},
		}, note("a", `1`))
		s.append(appended, note("a", `1`))
	}),
	logCase("scope", "parts_are_not_patterns", func(s *logSession) {
		fillScopes(s)
		for _, id := range []string{"%", "_", "*", ".", "A", "a ", "", "ä", "'", "b' OR '1'='1"} {
			scope := eventlog.Scope{StreamType: "shop", StreamID: "9", Source: id, Expected: eventlog.NoneYet()}
			s.within(appended, one(scope))
			if id != "" {
				s.within(appended, one(eventlog.Scope{Source: id, Expected: eventlog.NoneYet()}))
			}
		}
	}),
	logCase("scope", "tags_play_no_part", func(s *logSession) {
		e := note("a", `1`)
		e.Tags = []eventlog.Tag{{Value: "b"}, {Name: "b", Value: "b"}}
		s.append(appended, e)
		s.within(appended, one(eventlog.Scope{Source: "b", Expected: eventlog.NoneYet()}))
		s.within(scopesViolated, one(eventlog.Scope{Source: "a", Expected: eventlog.NoneYet()}))
	}),
	logCase("scope", "empty_batch_is_judged", func(s *logSession) {
		s.within(appended, one(eventlog.Scope{Expected: eventlog.NoneYet()}))
		s.append(appended, note("a", `1`))
		s.within(scopesViolated, one(eventlog.Scope{Expected: eventlog.NoneYet()}))
		s.within(appended, one(eventlog.Scope{Expected: eventlog.Seen(0)}))
	}),
	logCase("scope", "comes_after_violations", func(s *logSession) {
		s.append(appended, note("a", `1`))
		violated := one(eventlog.Scope{Expected: eventlog.NoneYet()})
		s.within(violations, violated, of(opened, "a", `{}`))
		s.constrain(unique("name"))
		s.append(appended, of(opened, "a", withName("x")))
		s.within(violations, violated, of(opened, "b", withName("x")))
		s.within(scopesViolated, violated, of(opened, "b", withName("y")))
	}),
	logCase("scope", "sees_nothing_of_its_own_batch", func(s *logSession) {
		s.within(appended, one(eventlog.Scope{Source: "a", Expected: eventlog.NoneYet()}), note("a", `1`), note("a", `2`), note("a", `3`))
		s.within(appended, one(eventlog.Scope{Source: "a", Expected: eventlog.Seen(2)}), note("a", `4`), note("a", `5`))
	}),
	logCase("scope", "incomplete_is_malformed", func(s *logSession) {
		s.append(appended, note("a", `1`))
		for _, scope := range []eventlog.Scope{
			{}, {Source: "a"}, {Source: "nobody"}, {Source: "a\x00", Expected: eventlog.NoneYet()}, {StreamID: "\xff", Expected: eventlog.NoneYet()},
			{SourceType: strings.Repeat("x", 513), Expected: eventlog.NoneYet()}, {EventTypes: []string{""}, Expected: eventlog.NoneYet()}, {Expected: eventlog.Seen(1 << 63)},
			{EventTypes: make([]string, 101), Expected: eventlog.NoneYet()}, {Label: "\xff", Expected: eventlog.NoneYet()},
		} {
			s.exchangeOnly(malformed, eventlog.AppendEvents{Sequence: orders, Events: notes(1), Scopes: one(scope)})
			s.exchangeOnly(malformed, eventlog.AppendEvents{Sequence: orders, Scopes: []eventlog.Scope{{Source: "nobody", Expected: eventlog.NoneYet()}, scope}})
		}
		s.within(appended, one(eventlog.Scope{Expected: eventlog.Seen(1<<63 - 1)}), note("a", `1`))
	}),
	logCase("scope", "is_of_its_sequence_alone", func(s *logSession) {
		s.append(appended, notes(3)...)
		other := eventlog.Sequence{Namespace: shop, Name: "other"}
		s.send(appended, eventlog.AppendEvents{Sequence: other, Events: notes(1), Scopes: one(eventlog.Scope{Expected: eventlog.NoneYet()})})
		s.send(appended, eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: shopUS, Name: "orders"}, Scopes: one(eventlog.Scope{Source: "source-1", Expected: eventlog.NoneYet()})})
		s.within(scopesViolated, one(eventlog.Scope{Expected: eventlog.Seen(0)}))
	}),
	logCase("scope", "of_a_tail_holds_until_somebody_appends", func(s *logSession) {
		fillScopes(s)
		f := eventlog.Filter{Source: "a", StreamID: "1"}
		tail, err := s.store.events.ReadTail(s.Context(), eventlog.ReadTail{Sequence: orders, Filter: f})
		if err != nil {
			s.failf("read the tail", "%v", err)
		}
		scope := eventlog.Scope{Source: f.Source, StreamID: f.StreamID, Expected: tail.Expected()}
		s.within(appended, one(scope), placed(noted, "b", "", "", "1"))
		s.within(appended, one(scope), placed(noted, "a", "", "", "1"))
		s.within(scopesViolated, one(scope), placed(noted, "a", "", "", "1"))
	}),
}

func withExpected(s eventlog.Scope, e eventlog.Expected) eventlog.Scope {
	s.Expected = e
	return s
}
