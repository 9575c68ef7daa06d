package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
)

// types is a registration in the event store "shop".
func types(all ...eventlog.EventType) eventlog.RegisterEventTypes {
	return eventlog.RegisterEventTypes{EventStore: shop.EventStore, Types: all}
}

var schemaCases = []Case{
	logCase("schema", "unknown_type_is_a_violation", func(s *logSession) {
		s.append(violations, of("nobody", "a", `1`))
		later := note("a", `1`)
		later.Generation = 2
		s.append(violations, later, note("a", `1`))
		s.append(appended, note("a", `1`))
	}),
	logCase("schema", "every_violation_of_every_event_is_told", func(s *logSession) {
		s.append(violations,
			of(opened, "a", `{"name":"","age":-1}`), of(opened, "b", `{"name":"fine"}`), of(opened, "c", `[]`), of("nobody", "d", `1`), of(opened, "e", `{"age":1.5}`), note("f", `1`))
		s.append(violations, of(opened, "a", `{"name":1}`))
		s.append(appended, of(opened, "a", `{"name":"x","age":1.0}`))
	}),
	logCase("schema", "pointers_name_the_place", func(s *logSession) {
		s.send(registered, types(eventlog.EventType{ID: "nested", Schema: []byte(`{"type":"object","properties":{"a/b":{"type":"array","items":{"type":"object","properties":{"~":{"type":"integer"}},"additionalProperties":false}},"":{"enum":[1]}}}`)}))
		s.append(violations, of("nested", "a", `{"a/b":[{"~":1},{"~":"x","y":2}],"":2}`), of("nested", "a", `{"a/b":[[]]}`))
		s.append(appended, of("nested", "a", `{"a/b":[{"~":1}],"":1}`))
	}),
	logCase("schema", "each_generation_has_its_own", func(s *logSession) {
		s.send(registered, types(eventlog.EventType{ID: opened, Generation: 2, Schema: []byte(`{"type":"integer"}`)}))
		two := of(opened, "a", `7`)
		two.Generation = 2
		s.append(appended, two, of(opened, "a", `{"name":"x"}`))
		s.append(violations, of(opened, "a", `7`))
		two.Content = []byte(`{"name":"x"}`)
		s.append(violations, two)
	}),
	logCase("schema", "same_schema_again_keeps_the_revision", func(s *logSession) {
		s.send(unchanged, types(standardTypes...))
		s.send(unchanged, types(eventlog.EventType{ID: opened, Generation: 1, Schema: []byte(openedSchema)}))
		// Another order of members and other space is the same schema, and the first
		// text stays.
		s.send(unchanged, types(eventlog.EventType{ID: opened, Schema: []byte(` { "properties" : {"age":{"minimum":0.0,"type":"integer"},"name":{"minLength":1,"type":"string"}},"required":["name"],"type":"object"}`)}))
		s.send(registered, types(eventlog.EventType{ID: "new", Schema: []byte(`true`)}, standardTypes[0]))
	}),
	logCase("schema", "changed_schema_is_refused", func(s *logSession) {
		s.send(schemaChanged, types(eventlog.EventType{ID: opened, Schema: []byte(`true`)}))
		s.send(schemaChanged, types(eventlog.EventType{ID: opened, Schema: []byte(`{"type":"object"}`)}))
		s.append(violations, of(opened, "a", `{}`))
		s.send(registered, types(eventlog.EventType{ID: opened, Generation: 2, Schema: []byte(`true`)}))
		s.send(schemaChanged, types(eventlog.EventType{ID: opened, Generation: 2, Schema: []byte(`false`)}))
	}),
	logCase("schema", "registration_is_all_or_nothing", func(s *logSession) {
		s.send(schemaChanged, types(eventlog.EventType{ID: "before", Schema: []byte(`true`)}, eventlog.EventType{ID: opened, Schema: []byte(`true`)}, eventlog.EventType{ID: "after", Schema: []byte(`true`)}))
		s.send(schemaError, types(eventlog.EventType{ID: "before", Schema: []byte(`true`)}, eventlog.EventType{ID: "bad", Schema: []byte(`{"type":"nothing"}`)}))
		s.append(violations, of("before", "a", `1`), of("after", "a", `1`))
	}),
	logCase("schema", "what_is_no_schema_is_refused", func(s *logSession) {
		for _, schema := range []string{``, `{`, `1`, `[]`, `null`, `{"type":1}`, `{"$ref":"https://example.com/a.json"}`, `{"$ref":"other.json"}`, `{"$ref":"#/definitions/none"}`, `{"pattern":"("}`, `{"$schema":"http://json-schema.org/draft-03/schema#"}`, `{"a":1,"a":1}`} {
			req := types(eventlog.EventType{ID: "fine", Schema: []byte(`true`)}, eventlog.EventType{ID: "bad", Generation: 3, Schema: []byte(schema)})
			got, _ := s.exchange(s.store, req)
			e, ok := errors.AsType[*eventlog.SchemaError](got.err)
			if !ok || e.Type != "bad" || e.Generation != 3 || !errors.Is(got.err, countersign.ErrMalformed) || got.value != nil {
				s.failf(describeLog(req), "want a *SchemaError of \"bad\", generation 3, got %s", got.show(req))
			}
			if _, wrong := kindOf(got.err); wrong != nil {
				s.failf(describeLog(req), "%v", wrong)
			}
		}
		s.sameDefinitions(s.store, "after bad schemas", shop.EventStore)
	}),
	logCase("schema", "malformed_registrations_are_refused", func(s *logSession) {
		for _, req := range []eventlog.RegisterEventTypes{
			types(), {Types: standardTypes}, {EventStore: "a\x00b", Types: standardTypes}, {EventStore: strings.Repeat("x", 513), Types: standardTypes},
			types(eventlog.EventType{Schema: []byte(`true`)}), types(eventlog.EventType{ID: "\xff", Schema: []byte(`true`)}), types(eventlog.EventType{ID: strings.Repeat("x", 513), Schema: []byte(`true`)}),
			types(eventlog.EventType{ID: "new", Schema: []byte(`true`)}, eventlog.EventType{ID: "new", Generation: 1, Schema: []byte(`true`)}),
			types(eventlog.EventType{ID: "new", Generation: eventlog.MaxGeneration + 1, Schema: []byte(`true`)}),
		} {
			s.exchangeOnly(malformed, req)
		}
		s.sameDefinitions(s.store, "after malformed registrations", shop.EventStore)
	}),
	logCase("schema", "event_stores_are_apart", func(s *logSession) {
		s.send(violations, eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: bank, Name: "orders"}, Events: notes(1)})
		s.send(registered, eventlog.RegisterEventTypes{EventStore: bank.EventStore, Types: []eventlog.EventType{{ID: noted, Schema: []byte(`{"type":"string"}`)}}})
		s.send(violations, eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: bank, Name: "orders"}, Events: notes(1)})
		s.send(appended, eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: bank, Name: "orders"}, Events: []eventlog.Event{note("a", `"x"`)}})
		s.append(appended, notes(1)...)
		s.send(appended, eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: shopUS, Name: "orders"}, Events: notes(1)})
		s.sameAll("after registrations in two event stores")
	}),
	logCase("schema", "definitions_come_back_in_order", func(s *logSession) {
		s.send(registered, types(eventlog.EventType{ID: "b", Schema: []byte(`true`)}, eventlog.EventType{ID: "a", Generation: 10, Schema: []byte(`{ "type" : "object" }`)}, eventlog.EventType{ID: "a", Generation: 9, Schema: []byte(`true`)}, eventlog.EventType{ID: "B", Schema: []byte(`true`)}, eventlog.EventType{ID: "ä", Schema: []byte(`{"description":"\u0000 \ud800"}`)}))
		s.constrain(unique("z"), unique("a"), unique("Z"))
		s.send(registered, eventlog.RegisterConstraints{EventStore: shop.EventStore, Remove: []string{"a"}})
		s.sameDefinitions(s.store, "an event store in which nothing is", bank.EventStore)
	}),
	// What another process has registered counts at once, also for a handle that has
	// appended before.
	logCase("schema", "registration_by_another_handle_counts_at_once", func(s *logSession) {
		other := s.db.handle()
		s.append(violations, of("new", "a", `1`))
		s.append(appended, note("a", `1`))
		s.sendThrough(other, registered, types(eventlog.EventType{ID: "new", Schema: []byte(`{"type":"integer"}`)}))
		s.append(appended, of("new", "a", `1`))
		s.append(violations, of("new", "a", `"x"`))
		s.sendThrough(other, registered, eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{unique("name")}})
		s.append(appended, of(opened, "a", withName("x")))
		s.append(violations, of(opened, "b", withName("x")))
		s.sendThrough(other, violations, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{of(opened, "b", withName("x"))}})
		s.sendThrough(other, registered, eventlog.RegisterConstraints{EventStore: shop.EventStore, Remove: []string{"name"}})
		s.append(appended, of(opened, "b", withName("x")))
	}),
	{Group: "schema", Name: "concurrent_registration_is_one_revision", Needs: []Need{NeedEvents}, Run: func(t T, h Harness) {
		s := newLogSession(t, h, false)
		pool := s.db.pool()
		const n = 8
		answers := make([]logAnswer, n)
		reqs := make([]any, n)
		for i := range n {
			reqs[i] = eventlog.RegisterEventTypes{EventStore: shop.EventStore, Types: standardTypes}
			if i%2 == 1 {
				reqs[i] = eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{unique("name")}}
			}
		}
		together(t, n, func(i int) error {
			return taken(t.Context(), func() error {
				answers[i] = askLog(t.Context(), pool(i), reqs[i])
				return answers[i].err
			})
		})
		changed := map[uint64]int{}
		for i, a := range answers {
			v := a.value.(eventlog.Registered)
			if v.Changed {
				changed[v.Revision]++
			}
			if v.Revision < 1 || v.Revision > 2 {
				s.failf("register together", "goroutine %d got revision %d of 2", i, v.Revision)
			}
		}
		if fmt.Sprint(changed) != "map[1:1 2:1]" {
			s.failf("register together", "two registrations must change something, one for each revision; those that did, by revision: %v", changed)
		}
		d, err := s.store.events.ReadDefinitions(t.Context(), shop.EventStore)
		if err != nil || d.Revision != 2 || len(d.All) != len(standardTypes)+1 {
			s.failf("register together", "want revision 2, got %+v, %v", d, err)
		}
	}},
}
