package storetest

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/eventlog"
)

// oncePerSource is a constraint that allows one opened event for each source.
func oncePerSource(name string) eventlog.Constraint {
	return eventlog.Constraint{Name: name, Kind: eventlog.UniqueEventType, Covers: []eventlog.Covered{{Type: opened}, {Type: renamed}}, RemovedBy: []string{closedE}}
}

// onProperties is a constraint on properties of renamed events.
func onProperties(name string, properties ...string) eventlog.Constraint {
	return eventlog.Constraint{Name: name, Kind: eventlog.UniqueValue, Covers: []eventlog.Covered{{Type: renamed, Properties: properties}}, RemovedBy: []string{closedE}}
}

// uniqueCase is a logCase under the constraint on names.
func uniqueCase(name string, body func(s *logSession)) Case {
	return logCase("constraint", name, func(s *logSession) {
		s.Helper()
		s.constrain(unique("name"))
		body(s)
	})
}

// valuesCase is a logCase under a constraint on the property v. Each of the contents
// is held by a source of its own, or refused: it is the case that says so.
func valuesCase(name string, fold bool, body func(s *logSession, take func(want, source, v string))) Case {
	return logCase("constraint", name, func(s *logSession) {
		s.Helper()
		c := onProperties("v", "v")
		c.IgnoreCase = fold
		s.constrain(c)
		body(s, func(want, source, v string) {
			s.Helper()
			s.append(want, of(renamed, source, `{"v":`+v+`}`))
		})
	})
}

var constraintCases = []Case{
	uniqueCase("value_of_another_source_is_refused", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		s.append(violations, of(opened, "b", withName("x")))
		s.append(violations, of(renamed, "b", withName("x")))
		s.append(appended, of(opened, "b", withName("y")))
		s.append(appended, note("b", withName("x"))) // of a type that is not covered
	}),
	uniqueCase("same_source_may_hold_it_again", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		s.append(appended, of(opened, "a", withName("x")), of(renamed, "a", withName("x")))
		s.append(violations, of(opened, "b", withName("x"))) // the first event is named as the holder
	}),
	uniqueCase("another_value_frees_the_old_one", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		s.append(appended, of(renamed, "a", withName("y")))
		s.append(appended, of(opened, "b", withName("x")))
		s.append(violations, of(renamed, "a", withName("x")))
		s.append(violations, of(renamed, "b", withName("y")))
		s.append(appended, of(renamed, "b", withName("z")))
		s.append(appended, of(renamed, "a", withName("x")))
	}),
	uniqueCase("removal_frees_the_value", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		s.append(appended, of(closedE, "b", `1`)) // of another source
		s.append(violations, of(opened, "b", withName("x")))
		s.append(appended, of(closedE, "a", `1`))
		s.append(appended, of(opened, "b", withName("x")))
		s.append(violations, of(opened, "a", withName("x")))
		s.append(appended, of(closedE, "b", `1`), of(closedE, "b", `1`))
		s.append(appended, of(opened, "a", withName("x")))
	}),
	uniqueCase("removal_earlier_in_the_batch_frees_it", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		s.append(violations, of(opened, "b", withName("x")), of(closedE, "a", `1`)) // later is too late
		s.append(appended, of(closedE, "a", `1`), of(opened, "b", withName("x")))
		s.append(appended, of(renamed, "b", withName("y")), of(opened, "a", withName("x")))
		s.append(violations, of(opened, "c", withName("x")))
		s.append(violations, of(opened, "c", withName("y")))
	}),
	uniqueCase("batch_is_judged_by_itself_too", func(s *logSession) {
		s.append(violations, of(opened, "a", withName("x")), of(opened, "b", withName("x")))
		s.append(violations, of(opened, "a", withName("x")), of(renamed, "a", withName("y")), of(opened, "b", withName("y")), of(opened, "c", withName("x")))
		s.append(appended, of(opened, "a", withName("x")), of(renamed, "a", withName("y")), of(opened, "b", withName("x")), of(closedE, "a", `1`), of(opened, "c", withName("y")))
		s.append(violations, of(opened, "d", withName("x")), of(opened, "d", withName("y")))
	}),
	uniqueCase("values_may_change_hands_in_a_batch", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")), of(opened, "b", withName("y")))
		s.append(violations, of(renamed, "a", withName("y")), of(renamed, "b", withName("x")))
		s.append(appended, of(renamed, "a", withName("z")), of(renamed, "b", withName("x")), of(renamed, "a", withName("y")))
		s.append(violations, of(renamed, "c", withName("x")), of(renamed, "c", withName("y")))
		s.append(appended, of(renamed, "c", withName("z")))
	}),
	uniqueCase("refused_event_makes_no_claims", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		// The second event is refused, so it neither holds y nor frees what b has.
		s.append(violations, of(opened, "b", withName("y")), of(renamed, "b", withName("x")), of(opened, "c", withName("y")))
		// One that does not fit its schema claims nothing.
		s.append(violations, of(opened, "b", `{"name":"z","age":-1}`), of(opened, "c", withName("z")))
		s.append(appended, of(opened, "c", withName("y")), of(opened, "d", withName("z")))
	}),
	logCase("constraint", "event_refused_by_one_claims_nothing_by_another", func(s *logSession) {
		s.constrain(unique("name"), onProperties("mail", "mail"))
		s.append(appended, of(renamed, "a", `{"name":"x","mail":"m"}`))
		s.append(violations, of(renamed, "b", `{"name":"x","mail":"n"}`), of(renamed, "c", `{"name":"z","mail":"n"}`), of(renamed, "d", `{"name":"x","mail":"m"}`))
		s.append(appended, of(renamed, "c", `{"name":"z","mail":"n"}`))
	}),
	uniqueCase("schema_and_constraint_violations_are_united", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		s.append(violations, of(opened, "b", withName("x")), of(opened, "c", `{"name":""}`), of("nobody", "d", `1`), of(renamed, "e", withName("x")), of(opened, "f", withName("fine")), of(renamed, "g", withName("fine")))
	}),
	uniqueCase("missing_and_null_are_neither_checked_nor_indexed", func(s *logSession) {
		s.append(appended, of(renamed, "a", `{}`), of(renamed, "b", `{}`), of(renamed, "c", `{"name":null}`), of(renamed, "d", ` {"name" : null } `), of(renamed, "e", `[]`), of(renamed, "f", `1`), of(renamed, "g", `null`), of(renamed, "h", `"name"`))
		s.append(appended, of(renamed, "a", withName("x")))
		// Nor does such an event free what its source holds.
		s.append(appended, of(renamed, "a", `{}`), of(renamed, "a", `{"name":null}`))
		s.append(violations, of(renamed, "b", withName("x")))
	}),
	uniqueCase("sequences_and_namespaces_are_apart", func(s *logSession) {
		for _, q := range []eventlog.Sequence{orders, eventlog.Log(shop), {Namespace: shopUS, Name: "orders"}} {
			s.send(appended, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{of(opened, "a", withName("x"))}})
			s.send(violations, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{of(opened, "b", withName("x"))}})
		}
		s.append(appended, of(closedE, "a", `1`))
		s.send(violations, eventlog.AppendEvents{Sequence: eventlog.Log(shop), Events: []eventlog.Event{of(opened, "b", withName("x"))}})
	}),
	logCase("constraint", "two_of_them_are_apart", func(s *logSession) {
		s.constrain(onProperties("a", "one"), onProperties("b", "two"))
		s.append(appended, of(renamed, "a", `{"one":"x","two":"y"}`))
		s.append(appended, of(renamed, "b", `{"one":"y","two":"x"}`))
		s.append(violations, of(renamed, "c", `{"one":"x","two":"x"}`))
		s.append(violations, of(renamed, "c", `{"one":"z","two":"y"}`))
		s.append(appended, of(renamed, "c", `{"one":"z","two":"z"}`))
	}),
	valuesCase("numbers_are_equal_as_decimals", false, func(_ *logSession, take func(want, source, v string)) {
		take(appended, "a", "1")
		for _, v := range []string{"1.0", "10e-1", "1E0", "0.1e+1"} {
			take(violations, "b", v)
		}
		take(appended, "b", "9007199254740992")
		take(appended, "c", "9007199254740993")
		take(violations, "d", "9007199254740993.0")
		take(appended, "d", "0")
		take(violations, "e", "-0")
		take(violations, "e", "0e7")
		take(appended, "e", `"1"`)
		take(appended, "f", "1e400")
		take(appended, "g", "1e401")
		take(violations, "h", "10e399")
		take(appended, "h", "0.1")
		take(appended, "i", "0.1000000000000000055")
		take(appended, "j", "true")
		take(appended, "k", "false")
	}),
	valuesCase("strings_are_equal_however_they_are_escaped", false, func(_ *logSession, take func(want, source, v string)) {
		take(appended, "a", `"é"`)
		take(violations, "b", `"\u00e9"`)
		take(violations, "b", ` "\u00E9" `)
		take(appended, "b", `"e\u0301"`)
		take(appended, "c", `"a"`)
		take(appended, "d", `"A"`)
		take(appended, "e", `"a "`)
		take(appended, "f", `"\u0000"`)
		take(violations, "g", `"\u0000"`)
		take(appended, "g", `"\ud800"`)
		take(appended, "h", `"\ufffd"`)
		take(violations, "i", `"\uD800"`)
		take(appended, "i", `"\ud83d\ude00"`)
		take(violations, "j", `"😀"`)
		take(appended, "j", `""`)
		take(violations, "k", `""`)
	}),
	valuesCase("objects_are_equal_whatever_their_order", false, func(_ *logSession, take func(want, source, v string)) {
		take(appended, "a", `{"x":1,"y":[1,2]}`)
		take(violations, "b", `{ "y" : [1.0,2], "x" : 1 }`)
		take(appended, "b", `{"x":1,"y":[2,1]}`)
		take(appended, "c", `[]`)
		take(appended, "d", `{}`)
		take(appended, "e", `[[]]`)
		take(appended, "f", `["a","bc"]`)
		take(appended, "g", `["ab","c"]`)
		take(appended, "h", `{"a":null}`)
	}),
	valuesCase("case_is_folded_where_it_says_so", true, func(_ *logSession, take func(want, source, v string)) {
		take(appended, "a", `"Straße"`)
		take(violations, "b", `"STRASSE"`)
		take(violations, "b", `"strasse"`)
		take(appended, "b", `"Ärger"`)
		take(violations, "c", `"ÄRGER"`)
		take(appended, "c", `"σ"`)
		take(violations, "d", `"ς"`)
		take(violations, "d", `"Σ"`)
		take(appended, "d", `"arger"`)
		take(appended, "e", `["X"]`)
		take(violations, "f", `["x"]`)
		take(appended, "f", `"x "`)
	}),
	logCase("constraint", "parts_of_a_value_do_not_run_together", func(s *logSession) {
		s.constrain(onProperties("pair", "one", "two"))
		for i, v := range []string{
			`{"one":"a","two":"bc"}`, `{"one":"ab","two":"c"}`, `{"one":"abc"}`, `{"two":"abc"}`, `{"one":"abc","two":""}`, `{"one":"","two":"abc"}`, `{"one":1,"two":23}`, `{"one":12,"two":3}`,
			`{"one":"a\u0000","two":"b"}`, `{"one":"a","two":"\u0000b"}`, `{"one":"a|b","two":"c"}`, `{"one":"a","two":"b|c"}`, `{"one":["a"],"two":"b"}`,
		} {
			s.append(appended, of(renamed, fmt.Sprintf("s%d", i), v))
		}
		s.append(violations, of(renamed, "t", `{"one":"a","two":"bc"}`))
		s.append(violations, of(renamed, "t", `{"two":"abc","one":null}`))
	}),
	logCase("constraint", "properties_may_be_json_pointers", func(s *logSession) {
		s.constrain(onProperties("deep", "/a/b~1c/1", "/x~0y", "a/b"))
		s.append(appended, of(renamed, "a", `{"a":{"b/c":[0,"v"]}}`))
		s.append(violations, of(renamed, "b", `{"a":{"b/c":[7,"v",3]},"z":1}`))
		s.append(appended, of(renamed, "b", `{"a":{"b/c":["v"]}}`))
		s.append(appended, of(renamed, "c", `{"x~y":"v"}`))
		s.append(violations, of(renamed, "d", `{"x~y":"v"}`))
		s.append(appended, of(renamed, "d", `{"a/b":"v"}`))
		s.append(violations, of(renamed, "e", `{"a/b":"v","a":{"b":"w"}}`))
	}),
	logCase("constraint", "last_member_of_a_name_counts", func(s *logSession) {
		s.constrain(onProperties("v", "v"))
		s.append(appended, of(renamed, "a", `{"v":"x","v":"y"}`))
		s.append(appended, of(renamed, "b", `{"v":"y","\u0076":"x"}`))
		s.append(violations, of(renamed, "c", `{"v":"y"}`))
		s.append(violations, of(renamed, "c", `{"v":"x"}`))
	}),
	logCase("constraint", "each_type_has_its_own_properties", func(s *logSession) {
		s.constrain(eventlog.Constraint{Name: "mail", Kind: eventlog.UniqueValue, Covers: []eventlog.Covered{{Type: opened, Properties: []string{"mail"}}, {Type: renamed, Properties: []string{"address"}}}})
		s.append(appended, of(opened, "a", `{"name":"n","mail":"x"}`))
		s.append(violations, of(renamed, "b", `{"address":"x"}`))
		s.append(appended, of(renamed, "b", `{"mail":"x"}`))
		s.append(appended, of(renamed, "a", `{"address":"y"}`))
		s.append(appended, of(opened, "b", `{"name":"n","mail":"x"}`))
	}),
	logCase("constraint", "holds_within_each_part", func(s *logSession) {
		all := []eventlog.Constraint{}
		for i, within := range []eventlog.Within{{SourceType: true}, {StreamType: true}, {StreamID: true}, {StreamType: true, StreamID: true}} {
			c := onProperties(fmt.Sprintf("c%d", i), fmt.Sprintf("v%d", i))
			c.Within = within
			all = append(all, c)
		}
		s.constrain(all...)
		for i, place := range [][3]string{{"t", "u", "v"}, {"T", "u", "v"}, {"t", "U", "v"}, {"t", "u", "V"}, {"", "u", "v"}, {"t", "", "v"}, {"t", "u", ""}, {"t", "uv", ""}, {"t", "", "uv"}} {
			for n := range all {
				e := placed(renamed, fmt.Sprintf("s%d", i), place[0], place[1], place[2])
				e.Content = fmt.Appendf(nil, `{"v%d":"x"}`, n)
				want := appended
				if found, _ := s.model.violations(orders, []eventlog.Event{e}); len(found) > 0 {
					want = violations
				}
				s.append(want, e)
			}
		}
	}),
	logCase("constraint", "source_holds_a_value_in_each_part", func(s *logSession) {
		c := onProperties("v", "v")
		c.Within = eventlog.Within{StreamID: true}
		s.constrain(c)
		at := func(typ, source, stream, v string) eventlog.Event {
			e := placed(typ, source, "", "", stream)
			e.Content = []byte(`{"v":"` + v + `"}`)
			return e
		}
		s.append(appended, at(renamed, "a", "1", "x"), at(renamed, "a", "2", "x"), at(renamed, "b", "1", "y"))
		s.append(violations, at(renamed, "b", "2", "x"))
		s.append(appended, at(closedE, "a", "2", ""))
		s.append(appended, at(renamed, "b", "2", "x"))
		s.append(violations, at(renamed, "b", "1", "x"))
		s.append(appended, at(closedE, "a", "", ""))
		s.append(violations, at(renamed, "b", "1", "x"))
	}),
	logCase("constraint", "unique_type_allows_one_event_of_a_source", func(s *logSession) {
		s.constrain(oncePerSource("once"))
		s.append(appended, of(opened, "a", withName("x")))
		s.append(violations, of(opened, "a", withName("y")))
		s.append(violations, of(renamed, "a", `1`)) // any of the covered types counts
		s.append(appended, of(opened, "b", withName("x")))
		s.append(appended, of(closedE, "a", `1`))
		s.append(appended, of(renamed, "a", `1`))
		s.append(violations, of(opened, "a", withName("z")), of(opened, "c", withName("z")), of(opened, "c", withName("z")))
	}),
	logCase("constraint", "unique_type_holds_within_a_batch", func(s *logSession) {
		s.constrain(oncePerSource("once"))
		s.append(violations, of(opened, "a", withName("x")), of(renamed, "a", `1`))
		s.append(appended, of(opened, "a", withName("x")), of(closedE, "a", `1`), of(renamed, "a", `1`), of(closedE, "a", `1`))
		s.append(appended, of(opened, "a", withName("x")))
		s.append(violations, of(closedE, "a", `1`), of(opened, "a", withName("x")), of(opened, "a", withName("x")))
	}),
	logCase("constraint", "unique_type_holds_within_each_part", func(s *logSession) {
		c := oncePerSource("once")
		c.Within = eventlog.Within{StreamID: true}
		s.constrain(c)
		s.append(appended, placed(renamed, "a", "", "", "1"), placed(renamed, "a", "", "", "2"), placed(renamed, "a", "", "", ""))
		s.append(violations, placed(renamed, "a", "t", "t", "1"))
		s.append(appended, placed(closedE, "a", "", "", "1"))
		s.append(appended, placed(renamed, "a", "", "", "1"))
		s.append(violations, placed(renamed, "a", "", "", "2"))
	}),
	logCase("constraint", "registered_later_covers_stored_events", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")), of(opened, "b", withName("x")), of(opened, "c", withName("y")), of(renamed, "c", withName("z")), of(opened, "d", withName("w")), of(closedE, "d", `1`))
		s.append(appended, of(opened, "e", withName("e")), of(renamed, "e", withName("x")))
		s.constrain(unique("name"))
		s.append(violations, of(opened, "z", withName("x")))                                // the first holder stays
		s.append(violations, of(renamed, "b", withName("x")))                               // and is not the second
		s.append(appended, of(opened, "z", withName("y")))                                  // c has given it up
		s.append(violations, of(opened, "y", withName("z")))                                // for this
		s.append(appended, of(opened, "y", withName("w")), of(closedE, "a", `1`))           // d was closed
		s.append(appended, of(opened, "x", withName("x")), of(opened, "x2", withName("e"))) // e holds nothing
	}),
	// More than a store indexes in one step, and more than it deletes in one.
	logCase("constraint", "registered_later_covers_more_events_than_a_step", func(s *logSession) {
		s.append(appended, of(renamed, "early", `{"one":"early"}`))
		for batch, n := range []int{1000, 30} {
			var events []eventlog.Event
			for i := range n {
				events = append(events, of(renamed, fmt.Sprintf("s%d-%d", batch, i), fmt.Sprintf(`{"one":"o%d-%d","two":"t%d-%d"}`, batch, i, batch, i)))
			}
			s.exchangeOnly(appended, eventlog.AppendEvents{Sequence: orders, Events: events})
		}
		// Far from each other: another source takes what is held, and the holder moves.
		s.append(appended, of(renamed, "late", `{"one":"early"}`), of(renamed, "early", `{"one":"moved"}`))
		s.constrain(onProperties("value", "one"))
		s.exchangeOnly(violations, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{of(renamed, "new", `{"one":"moved"}`)}})
		s.exchangeOnly(appended, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{of(renamed, "taker", `{"one":"early"}`)}})
		for _, held := range []string{"o0-0", "o0-999", "o1-0", "o1-29"} {
			s.exchangeOnly(violations, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{of(renamed, "new", `{"one":"`+held+`"}`)}})
		}
		s.constrain(onProperties("value", "two")) // what was claimed until now is claimed no more
		for _, held := range []string{"t0-0", "t1-0", "t1-29"} {
			s.exchangeOnly(violations, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{of(renamed, "new", `{"two":"`+held+`"}`)}})
		}
		s.append(appended, of(renamed, "new", `{"one":"o1-29","two":"o1-29"}`))
	}),
	logCase("constraint", "unique_type_registered_later_covers_stored_events", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")), of(opened, "a", withName("y")), of(opened, "b", withName("x")), of(closedE, "b", `1`))
		s.constrain(oncePerSource("once"))
		s.append(violations, of(renamed, "a", `1`))
		s.append(appended, of(renamed, "b", `1`))
		s.append(appended, of(closedE, "a", `1`), of(renamed, "a", `1`))
	}),
	logCase("constraint", "changed_definition_forgets_what_it_covered", func(s *logSession) {
		c := unique("value")
		c.Covers, c.RemovedBy = []eventlog.Covered{{Type: opened, Properties: []string{"name"}}, {Type: renamed, Properties: []string{"name"}}}, nil
		s.constrain(c)
		s.append(appended, of(opened, "a", withName("x")))
		c.Covers = c.Covers[1:]
		s.constrain(c)
		s.append(appended, of(renamed, "b", withName("x")))
		s.append(violations, of(renamed, "c", withName("x")))
	}),
	uniqueCase("changed_definition_counts_for_stored_events", func(s *logSession) {
		s.append(appended, of(opened, "a", `{"name":"x","mail":"m"}`), of(opened, "b", `{"name":"y","mail":"m"}`))
		c := unique("name")
		c.Covers[0].Properties = []string{"mail"}
		s.constrain(c)
		s.append(violations, of(opened, "c", `{"name":"new","mail":"m"}`))
		s.append(appended, of(opened, "c", `{"name":"x"}`))
		c.IgnoreCase = true
		s.constrain(c)
		s.append(violations, of(opened, "c", `{"name":"x","mail":"M"}`))
		c.RemovedBy = nil
		s.constrain(c)
		s.append(appended, of(closedE, "a", `1`))
		s.append(violations, of(opened, "c", `{"name":"x","mail":"M"}`))
	}),
	uniqueCase("removed_constraint_is_forgotten", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		s.send(registered, eventlog.RegisterConstraints{EventStore: shop.EventStore, Remove: []string{"name"}})
		s.append(appended, of(opened, "b", withName("x")), of(opened, "c", withName("x")))
		s.send(unchanged, eventlog.RegisterConstraints{EventStore: shop.EventStore, Remove: []string{"name", "never there"}})
		s.constrain(unique("name"))
		s.append(violations, of(opened, "b", withName("x")))
		s.append(appended, of(closedE, "a", `1`), of(opened, "b", withName("x")))
	}),
	uniqueCase("same_definition_again_keeps_the_revision", func(s *logSession) {
		again := unique("name")
		again.Covers[0], again.Covers[1] = again.Covers[1], again.Covers[0]
		s.send(unchanged, eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{again}})
		s.send(registered, eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{again, oncePerSource("once")}})
	}),
	uniqueCase("malformed_definitions_change_nothing", func(s *logSession) {
		good := oncePerSource("new")
		change := func(f func(c *eventlog.Constraint)) eventlog.RegisterConstraints {
			c := unique("bad")
			f(&c)
			return eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{good, c}}
		}
		for _, req := range []eventlog.RegisterConstraints{
			{EventStore: shop.EventStore}, {EventStore: "", Constraints: []eventlog.Constraint{good}}, {EventStore: shop.EventStore, Constraints: []eventlog.Constraint{good, good}},
			{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{good}, Remove: []string{"new"}}, {EventStore: shop.EventStore, Remove: []string{""}},
			change(func(c *eventlog.Constraint) { c.Name = "" }), change(func(c *eventlog.Constraint) { c.Name = strings.Repeat("x", 513) }), change(func(c *eventlog.Constraint) { c.Kind = "" }),
			change(func(c *eventlog.Constraint) { c.Kind = "unique" }), change(func(c *eventlog.Constraint) { c.Covers = nil }), change(func(c *eventlog.Constraint) { c.Covers[0].Properties = nil }),
			change(func(c *eventlog.Constraint) { c.Covers[0].Type = c.Covers[1].Type }), change(func(c *eventlog.Constraint) { c.RemovedBy = []string{opened} }),
			change(func(c *eventlog.Constraint) { c.Covers[0].Properties = []string{"/a~2"} }), change(func(c *eventlog.Constraint) { c.Covers[0].Properties = []string{"\xff"} }),
			change(func(c *eventlog.Constraint) { c.Kind = eventlog.UniqueEventType }),
		} {
			s.exchangeOnly(malformed, req)
		}
		s.sameDefinitions(s.store, "after malformed constraints", shop.EventStore)
		s.append(appended, of(opened, "a", withName("x")), of(opened, "a", withName("x")))
	}),
	logCase("constraint", "covers_every_generation", func(s *logSession) {
		s.constrain(unique("name"))
		s.send(registered, types(eventlog.EventType{ID: opened, Generation: 2, Schema: []byte(`true`)}))
		s.append(appended, of(opened, "a", withName("x")))
		two := of(opened, "b", withName("x"))
		two.Generation = 2
		s.append(violations, two)
	}),
	uniqueCase("batch_of_many_values_is_judged_whole", func(s *logSession) {
		var events []eventlog.Event
		for i := range 300 {
			events = append(events, of(opened, fmt.Sprintf("s%d", i), withName(fmt.Sprintf("name %d", i))))
		}
		s.append(appended, events...)
		for i := range events {
			events[i].Source = fmt.Sprintf("s%d", 299-i)
		}
		s.append(violations, events...)
	}),
}
