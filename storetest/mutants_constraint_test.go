package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"golang.org/x/text/unicode/norm"
)

// ofConstraint names cases of the group.
func ofConstraint(names ...string) []string {
	for i := range names {
		names[i] = "constraint/" + names[i]
	}
	return names
}

func isUnique(v eventlog.Violation) bool {
	return v.Kind == eventlog.UniqueValueViolation || v.Kind == eventlog.UniqueEventTypeViolation
}

// member is a member of a content, or nil.
func member(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}

// holding reports whether a source has appended a value under a name before.
func holding(b *broken, req eventlog.AppendEvents, such func(stored, e eventlog.Event) bool) bool {
	page, _ := b.EventStore.ReadEvents(context.Background(), eventlog.ReadEvents{Sequence: req.Sequence})
	for _, stored := range page.Events {
		for _, e := range req.Events {
			if such(stored.Event, e) {
				return true
			}
		}
	}
	return false
}

var constraintMutants = []mutant{
	logMutant("asks no constraint", accepts(only(isUnique)), ofConstraint("value_of_another_source_is_refused", "unique_type_allows_one_event_of_a_source", "two_of_them_are_apart", "last_member_of_a_name_counts", "covers_every_generation",
		"registered_later_covers_stored_events", "unique_type_registered_later_covers_stored_events")...),
	logMutant("refuses the same source again", refuses(func(b *broken, req eventlog.AppendEvents) bool {
		return holding(b, req, func(stored, e eventlog.Event) bool {
			return stored.Type == opened && e.Type == opened && stored.Source == e.Source && string(stored.Content) == string(e.Content)
		})
	}), ofConstraint("same_source_may_hold_it_again")...),
	logMutant("the last event is the holder", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		for i := range all {
			if isUnique(all[i]) && !all[i].InBatch {
				all[i].Holder++
			}
		}
		return all
	}), ofConstraint("same_source_may_hold_it_again", "unique_type_allows_one_event_of_a_source")...),
	logMutant("a source keeps its old values", refuses(func(b *broken, req eventlog.AppendEvents) bool {
		return holding(b, req, func(stored, e eventlog.Event) bool {
			return e.Type == opened && stored.Type == opened && stored.Source != e.Source && string(stored.Content) == string(e.Content)
		})
	}), ofConstraint("another_value_frees_the_old_one", "removal_frees_the_value")...),
	logMutant("knows no removal", constrains(func(c *eventlog.Constraint) { c.RemovedBy = nil }), ofConstraint("removal_frees_the_value", "removal_earlier_in_the_batch_frees_it", "unique_type_allows_one_event_of_a_source", "unique_type_holds_within_a_batch", "removed_constraint_is_forgotten")...),
	logMutant("a removal counts after its batch", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if n := len(req.Events); n > 1 && req.Events[0].Type == closedE && req.Check() == nil {
			late := copyAppend(req)
			late.Events = append(late.Events[1:], late.Events[0])
			return next(late)
		}
		return next(req)
	}), ofConstraint("removal_earlier_in_the_batch_frees_it", "unique_type_holds_within_a_batch")...),
	logMutant("a removal later in the batch counts", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if n := len(req.Events); n > 1 && req.Events[n-1].Type == closedE && req.Check() == nil {
			early := copyAppend(req)
			early.Events = append([]eventlog.Event{early.Events[n-1]}, early.Events[:n-1]...)
			return next(early)
		}
		return next(req)
	}), ofConstraint("removal_earlier_in_the_batch_frees_it")...),
	logMutant("judges a batch by what is stored alone", accepts(only(func(v eventlog.Violation) bool { return isUnique(v) && v.InBatch })), ofConstraint("batch_is_judged_by_itself_too", "unique_type_holds_within_a_batch")...),
	logMutant("takes a swap within a batch", accepts(func(req eventlog.AppendEvents, all []eventlog.Violation) bool {
		return len(req.Events) == 2 && all[0].Event == 0 && req.Events[1].Source == "b" && only(isUnique)(req, all)
	}), ofConstraint("values_may_change_hands_in_a_batch")...),
	logMutant("a refused event claims its value", tells(func(req eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		last := all[len(all)-1]
		if n := len(req.Events) - 1; last.Event < n {
			last.Event, last.Kind, last.InBatch, last.Constraint = n, eventlog.UniqueValueViolation, true, "name"
			all = append(all, last)
		}
		return all
	}), ofConstraint("refused_event_makes_no_claims")...),
	logMutant("tells of schemas or of constraints", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		if slices.ContainsFunc(all, func(v eventlog.Violation) bool { return !isUnique(v) }) {
			all = slices.DeleteFunc(all, isUnique)
		}
		return all
	}), ofConstraint("schema_and_constraint_violations_are_united")...),
	logMutant("tells of the first constraint alone", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		return slices.CompactFunc(all, func(a, b eventlog.Violation) bool { return isUnique(a) && isUnique(b) && a.Event == b.Event })
	}), ofConstraint("event_refused_by_one_claims_nothing_by_another")...),
	logMutant("null is a value", changesContent(func(v any) any {
		if m, ok := v.(map[string]any); ok {
			if one, there := m["name"]; there && one == nil {
				m["name"] = "null"
			}
		}
		return v
	}), ofConstraint("missing_and_null_are_neither_checked_nor_indexed")...),
	logMutant("what is missing is an empty value", changesContent(func(v any) any {
		if m, ok := v.(map[string]any); ok && m["name"] == nil {
			m["name"] = ""
		}
		return v
	}), ofConstraint("missing_and_null_are_neither_checked_nor_indexed")...),
	logMutant("has one index for all sequences", onAppend(func(ctx context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if req.Sequence != orders && req.Check() == nil {
			if err := dry(ctx, b, eventlog.AppendEvents{Sequence: orders, Events: req.Events}); err != nil {
				return eventlog.Appended{}, err
			}
		}
		a, err := next(req)
		if err == nil && req.Sequence == orders && len(req.Events) == 1 && req.Events[0].Type == closedE {
			for _, q := range []eventlog.Sequence{eventlog.Log(shop)} {
				_, _ = b.EventStore.AppendEvents(ctx, eventlog.AppendEvents{Sequence: q, Events: req.Events})
			}
		}
		return a, err
	}), ofConstraint("sequences_and_namespaces_are_apart")...),
	logMutant("has one index for all constraints", refuses(func(b *broken, req eventlog.AppendEvents) bool {
		return holding(b, req, func(stored, e eventlog.Event) bool {
			return stored.Source == "a" && e.Source == "b" && string(e.Content) == `{"one":"y","two":"x"}`
		})
	}), ofConstraint("two_of_them_are_apart")...),
	logMutant("compares numbers as floats", changesContent(func(v any) any { return v }), ofConstraint("numbers_are_equal_as_decimals")...),
	logMutant("compares numbers as they are written", changesEvents(func(e *eventlog.Event) {
		if e.Type == renamed {
			var m map[string]json.RawMessage
			if json.Unmarshal(e.Content, &m) == nil && m["v"] != nil && !strings.ContainsAny(string(m["v"]), `"{[`) {
				e.Content, _ = json.Marshal(map[string]string{"v": "number " + string(m["v"])})
			}
		}
	}), ofConstraint("numbers_are_equal_as_decimals")...),
	logMutant("compares strings as they are written", changesEvents(func(e *eventlog.Event) {
		if e.Type == renamed {
			e.Content = []byte(strings.ReplaceAll(string(e.Content), `\u`, `\\u`))
		}
	}), ofConstraint("strings_are_equal_however_they_are_escaped")...),
	logMutant("normalises strings", changesContent(func(v any) any {
		if s, ok := member(v, "v").(string); ok {
			return map[string]any{"v": norm.NFC.String(s)}
		}
		return v
	}), ofConstraint("strings_are_equal_however_they_are_escaped")...),
	logMutant("compares objects as they are written", changesEvents(func(e *eventlog.Event) {
		var m map[string]json.RawMessage
		if e.Type == renamed && json.Unmarshal(e.Content, &m) == nil {
			e.Content, _ = json.Marshal(map[string]string{"v": string(m["v"])})
		}
	}), ofConstraint("objects_are_equal_whatever_their_order")...),
	logMutant("folds always", constrains(func(c *eventlog.Constraint) { c.IgnoreCase = c.Kind == eventlog.UniqueValue }), ofConstraint("strings_are_equal_however_they_are_escaped", "changed_definition_counts_for_stored_events")...),
	logMutant("never folds", constrains(func(c *eventlog.Constraint) { c.IgnoreCase = false }), ofConstraint("case_is_folded_where_it_says_so", "changed_definition_counts_for_stored_events")...),
	logMutant("folds letter by letter", changesContent(func(v any) any {
		if s, ok := member(v, "v").(string); ok {
			return map[string]any{"v": strings.ReplaceAll(s, "ß", "ß has no upper case")}
		}
		return v
	}), ofConstraint("case_is_folded_where_it_says_so")...),
	logMutant("joins the parts of a value", changesContent(func(v any) any {
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		joined := ""
		for _, name := range []string{"one", "two"} {
			if one := m[name]; one != nil {
				joined += fmt.Sprint(one)
			}
		}
		return map[string]any{"one": joined}
	}), ofConstraint("parts_of_a_value_do_not_run_together")...),
	logMutant("looks at the first property", constrains(func(c *eventlog.Constraint) {
		for i, covered := range c.Covers {
			c.Covers[i].Properties = covered.Properties[:min(1, len(covered.Properties))]
		}
	}), ofConstraint("parts_of_a_value_do_not_run_together", "properties_may_be_json_pointers")...),
	logMutant("takes pointers for names", constrains(func(c *eventlog.Constraint) {
		for i := range c.Covers {
			for k, p := range c.Covers[i].Properties {
				if strings.HasPrefix(p, "/") {
					c.Covers[i].Properties[k] = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p)
				}
			}
		}
	}), ofConstraint("properties_may_be_json_pointers")...),
	logMutant("the first member of a name counts", changesEvents(func(e *eventlog.Event) {
		if strings.HasPrefix(string(e.Content), `{"v":"x","v":`) {
			e.Content = []byte(`{"v":"x"}`)
		}
	}), ofConstraint("last_member_of_a_name_counts")...),
	logMutant("covers the first type alone", constrains(func(c *eventlog.Constraint) { c.Covers = c.Covers[:1] }), ofConstraint("each_type_has_its_own_properties", "value_of_another_source_is_refused")...),
	logMutant("has the properties of one type for all", constrains(func(c *eventlog.Constraint) {
		for i := range c.Covers {
			c.Covers[i].Properties = c.Covers[0].Properties
		}
	}), ofConstraint("each_type_has_its_own_properties")...),
	logMutant("knows no parts", constrains(func(c *eventlog.Constraint) { c.Within = eventlog.Within{} }), ofConstraint("holds_within_each_part", "source_holds_a_value_in_each_part", "unique_type_holds_within_each_part")...),
	logMutant("takes the stream id for the whole stream", constrains(func(c *eventlog.Constraint) { c.Within.StreamType = c.Within.StreamType && !c.Within.StreamID }), ofConstraint("holds_within_each_part")...),
	logMutant("a removal frees in every part", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if err == nil && len(req.Events) == 1 && req.Events[0].Type == closedE {
			for _, stream := range []string{"1", "2"} {
				e := req.Events[0]
				e.StreamID = stream
				_, _ = next(eventlog.AppendEvents{Sequence: req.Sequence, Events: []eventlog.Event{e}})
			}
		}
		return a, err
	}), ofConstraint("source_holds_a_value_in_each_part", "unique_type_holds_within_each_part")...),
	logMutant("does not look at what was stored before", accepts(func(_ eventlog.AppendEvents, all []eventlog.Violation) bool {
		return only(func(v eventlog.Violation) bool { return isUnique(v) && v.Holder < 6 && !v.InBatch })(eventlog.AppendEvents{}, all)
	}), ofConstraint("registered_later_covers_stored_events", "unique_type_registered_later_covers_stored_events", "changed_definition_counts_for_stored_events")...),
	logMutant("indexes a thousand stored events", accepts(only(func(v eventlog.Violation) bool { return isUnique(v) && v.Holder >= 1_000 })), ofConstraint("registered_later_covers_more_events_than_a_step")...),
	logMutant("the last holder stays", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		for i := range all {
			if isUnique(all[i]) && all[i].Holder == 0 {
				all[i].Holder = 1
			}
		}
		return all
	}), ofConstraint("registered_later_covers_stored_events")...),
	logMutant("a changed definition is the old one", logFault{registerConstraints: func(ctx context.Context, b *broken, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
		d, err := b.EventStore.ReadDefinitions(ctx, req.EventStore)
		if err == nil && len(req.Constraints) == 1 && slices.ContainsFunc(d.All, func(one eventlog.Definition) bool { return one.Name == req.Constraints[0].Name && len(one.Body) > 0 }) {
			return eventlog.Registered{Revision: d.Revision}, nil
		}
		return b.EventStore.RegisterConstraints(ctx, req)
	}}, ofConstraint("changed_definition_counts_for_stored_events", "changed_definition_forgets_what_it_covered")...),
	logMutant("removes no constraint", logFault{registerConstraints: func(ctx context.Context, b *broken, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
		if len(req.Remove) > 0 && req.Check() == nil {
			d, err := b.EventStore.ReadDefinitions(ctx, req.EventStore)
			return eventlog.Registered{Revision: d.Revision + 1, Changed: true}, err
		}
		return b.EventStore.RegisterConstraints(ctx, req)
	}}, ofConstraint("removed_constraint_is_forgotten")...),
	logMutant("each registration of constraints is a revision", logFault{registerConstraints: func(ctx context.Context, b *broken, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
		r, err := b.EventStore.RegisterConstraints(ctx, req)
		if err == nil {
			r.Changed = true
		}
		return r, err
	}}, ofConstraint("same_definition_again_keeps_the_revision")...),
	logMutant("takes malformed constraints", logFault{registerConstraints: func(ctx context.Context, b *broken, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
		r, err := b.EventStore.RegisterConstraints(ctx, req)
		if errors.Is(err, countersign.ErrMalformed) {
			return eventlog.Registered{Revision: 1}, nil
		}
		return r, err
	}}, ofConstraint("malformed_definitions_change_nothing")...),
	logMutant("covers the first generation alone", accepts(func(req eventlog.AppendEvents, all []eventlog.Violation) bool {
		return req.Events[all[0].Event].Generation > 1
	}), ofConstraint("covers_every_generation")...),
	logMutant("looks at the first hundred values of a batch", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		return slices.DeleteFunc(all, func(v eventlog.Violation) bool { return v.Event >= 100 })
	}), ofConstraint("batch_of_many_values_is_judged_whole")...),
}
