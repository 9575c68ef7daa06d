package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"golang.org/x/text/unicode/norm"
)

type next = func(eventlog.AppendEvents) (eventlog.Appended, error)

var appendMutants = []mutant{
	logMutant("numbers from one", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if a.Count > 0 {
			a.First, a.Last = a.First+1, a.Last+1
		}
		return a, err
	}), "append/numbers_begin_at_zero_and_have_no_gaps", "append/in_a_sequence_of_many_batches"),
	logMutant("the last number is exclusive", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if a.Count > 1 {
			a.Last++
		}
		return a, err
	}), "append/batch_gets_contiguous_numbers"),
	logMutant("appends a batch one by one", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if len(req.Events) < 2 {
			return next(req)
		}
		var all eventlog.Appended
		for i := range req.Events {
			alone := req
			alone.Events = req.Events[i : i+1]
			if i > 0 {
				alone.Scopes = nil
			}
			a, err := next(alone)
			if err != nil {
				return eventlog.Appended{}, err
			}
			if i == 0 {
				all = a
			}
			all.Count, all.Last = i+1, a.Last
		}
		return all, nil
	}), "append/refused_batch_leaves_nothing_and_no_gap"),
	logMutant("a refused batch takes a number", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if as[*eventlog.ViolationsError](err) {
			_, _ = next(eventlog.AppendEvents{Sequence: req.Sequence, Events: []eventlog.Event{note("gap", `1`)}})
		}
		return a, err
	}), "append/refused_batch_leaves_nothing_and_no_gap", "schema/unknown_type_is_a_violation"),
	logMutant("sorts a batch by source", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		req = copyAppend(req)
		slices.SortStableFunc(req.Events, func(a, b eventlog.Event) int { return strings.Compare(a.Source, b.Source) })
		return next(req)
	}), "append/order_within_a_batch_is_kept"),
	logMutant("loses the last event of a batch", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if n := len(req.Events); n > 2 && req.Check() == nil {
			req.Events = req.Events[:n-1]
		}
		return next(req)
	}), "append/in_a_sequence_of_many_batches", "append/limits_hold_exactly"),
	logMutant("an empty batch gets a number", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if err == nil && len(req.Events) == 0 {
			a.Count = 1
		}
		return a, err
	}), "append/empty_batch_writes_nothing"),
	logMutant("names of sequences are folded", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		name := req.Sequence.Named().Name
		if req.Sequence.Name = strings.ToLower(name); name == "" {
			req.Sequence.Name = name
		}
		a, err := next(req)
		if a.Sequence != "" {
			a.Sequence = name
		}
		return a, err
	}), "append/sequences_are_apart"),
	logMutant("the parts of a name run together", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		sent := req.Sequence.Name
		if i := strings.LastIndex(req.Sequence.Namespace.Name, "/"); i > 0 && req.Check() == nil {
			req.Sequence.Namespace.Name, req.Sequence.Name = req.Sequence.Namespace.Name[:i], req.Sequence.Namespace.Name[i+1:]+"/"+sent
		}
		a, err := next(req)
		if a.Sequence != "" {
			a.Sequence = sent
		}
		return a, err
	}), "append/composite_names_do_not_collide"),
	logMutant("an unnamed sequence is one by itself", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		unnamed := req.Sequence.Name == ""
		if unnamed {
			req.Sequence.Name = "(unnamed)"
		}
		a, err := next(req)
		if unnamed && err == nil {
			a.Sequence = "log"
		}
		return a, err
	}), "append/unnamed_sequence_is_the_log"),
	logMutant("loses the causation id", shows(func(e *eventlog.Event) { e.CausationID = "" }), "append/every_field_comes_back"),
	logMutant("mixes up stream type and stream id", shows(func(e *eventlog.Event) { e.StreamType, e.StreamID = e.StreamID, e.StreamType }), "append/every_field_comes_back"),
	logMutant("compacts contents", shows(func(e *eventlog.Event) {
		var b bytes.Buffer
		if json.Compact(&b, e.Content) == nil {
			e.Content = b.Bytes()
		}
	}), "append/content_comes_back_byte_for_byte"),
	logMutant("replaces lone surrogates", shows(func(e *eventlog.Event) { e.Content = bytes.ReplaceAll(e.Content, []byte(`\ud800`), []byte("\ufffd")) }), "append/content_comes_back_byte_for_byte"),
	logMutant("keeps milliseconds", shows(func(e *eventlog.Event) { e.Occurred = e.Occurred.Truncate(time.Millisecond) }), "append/occurred_keeps_microseconds_in_utc"),
	logMutant("shows local times", shows(func(e *eventlog.Event) { e.Occurred = e.Occurred.In(time.FixedZone("here", 3600)) }), "append/occurred_keeps_microseconds_in_utc"),
	logMutant("takes the host's time", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		req = copyAppend(req)
		for i := range req.Events {
			if req.Events[i].Occurred.IsZero() {
				req.Events[i].Occurred = time.Now()
			}
		}
		return next(req)
	}), "append/unset_occurred_is_the_stores_time"),
	logMutant("has a wrong time zone", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		req = copyAppend(req)
		for i := range req.Events {
			if req.Events[i].Occurred.IsZero() {
				req.Events[i].Occurred = time.Now().Add(time.Hour)
			}
		}
		return next(req)
	}), "append/the_stores_own_time_is_now"),
	logMutant("sorts tags", shows(func(e *eventlog.Event) {
		slices.SortFunc(e.Tags, func(a, b eventlog.Tag) int { return strings.Compare(a.Key(), b.Key()) })
	}), "append/tags_come_back_in_order_without_repetitions"),
	logMutant("takes the generation for a detail", shows(func(e *eventlog.Event) { e.Generation = 1 }), "append/generation_zero_is_one"),
	logMutant("normalises ids", shows(func(e *eventlog.Event) { e.Source, e.Subject = norm.NFC.String(e.Source), norm.NFC.String(e.Subject) }), "append/identities_are_compared_byte_by_byte"),
	logMutant("trims ids", shows(func(e *eventlog.Event) { e.StreamID = strings.TrimSpace(e.StreamID) }), "append/identities_are_compared_byte_by_byte"),
	logMutant("its ids have 255 bytes", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		for _, e := range req.Events {
			if len(e.StreamID) > 255 && req.Check() == nil {
				return eventlog.Appended{}, errors.New("value too long for the index")
			}
		}
		return next(req)
	}), "append/identities_of_512_bytes_fit_everywhere"),
	logMutant("its batches have 900 events", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if len(req.Events) > 900 {
			return eventlog.Appended{}, &countersign.LimitError{Field: "events", Limit: 900}
		}
		return next(req)
	}), "append/limits_hold_exactly"),
	logMutant("takes what is malformed for what is there", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if errors.Is(err, countersign.ErrMalformed) {
			return eventlog.Appended{Sequence: req.Sequence.Name}, nil
		}
		return a, err
	}), "append/content_that_is_not_json_is_malformed", "append/malformed_identities_are_refused", "scope/incomplete_is_malformed"),
}

var schemaMutants = []mutant{
	logMutant("takes unknown types", accepts(only(func(v eventlog.Violation) bool { return v.Kind == eventlog.UnknownEventType })), "schema/unknown_type_is_a_violation"),
	logMutant("asks no schema", accepts(only(func(v eventlog.Violation) bool { return v.Kind == eventlog.SchemaViolation })), "schema/each_generation_has_its_own", "schema/pointers_name_the_place"),
	logMutant("tells of the first event's violations alone", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		return slices.DeleteFunc(all, func(v eventlog.Violation) bool { return v.Event != all[0].Event })
	}), "schema/every_violation_of_every_event_is_told", "constraint/schema_and_constraint_violations_are_united", "constraint/batch_of_many_values_is_judged_whole"),
	logMutant("tells of one violation of an event", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		return slices.CompactFunc(all, func(a, b eventlog.Violation) bool { return a.Event == b.Event })
	}), "schema/every_violation_of_every_event_is_told"),
	logMutant("forgets the pointers", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation {
		for i := range all {
			all[i].Pointer = ""
		}
		return all
	}), "schema/pointers_name_the_place"),
	logMutant("judges every generation by the first", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		req = copyAppend(req)
		for i := range req.Events {
			req.Events[i].Generation = min(req.Events[i].Generation, 1)
		}
		return next(req)
	}), "schema/each_generation_has_its_own", "append/generation_zero_is_one"),
	logMutant("each registration is a revision", registers(func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
		r, err := b.EventStore.RegisterEventTypes(ctx, req)
		if err == nil {
			r.Changed = true
		}
		return r, err
	}), "schema/same_schema_again_keeps_the_revision", "schema/concurrent_registration_is_one_revision"),
	logMutant("keeps the old schema without a word", registers(func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
		r, err := b.EventStore.RegisterEventTypes(ctx, req)
		if as[*eventlog.SchemaChangedError](err) {
			d, err := b.EventStore.ReadDefinitions(ctx, req.EventStore)
			return eventlog.Registered{Revision: d.Revision}, err
		}
		return r, err
	}), "schema/changed_schema_is_refused"),
	logMutant("registers one type after the other", registers(func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (r eventlog.Registered, err error) {
		all := req.Types
		if req.Check() != nil || len(all) == len(standardTypes) {
			return b.EventStore.RegisterEventTypes(ctx, req)
		}
		for _, t := range all {
			req.Types = []eventlog.EventType{t}
			if r, err = b.EventStore.RegisterEventTypes(ctx, req); err != nil {
				return eventlog.Registered{}, err
			}
		}
		return r, nil
	}), "schema/registration_is_all_or_nothing"),
	logMutant("takes any text for a schema", registers(func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
		r, err := b.EventStore.RegisterEventTypes(ctx, req)
		if as[*eventlog.SchemaError](err) {
			return eventlog.Registered{Revision: 1}, nil
		}
		return r, err
	}), "schema/what_is_no_schema_is_refused"),
	logMutant("does not name the bad schema", registers(func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
		r, err := b.EventStore.RegisterEventTypes(ctx, req)
		if as[*eventlog.SchemaError](err) {
			return r, &countersign.MalformedError{Field: "schema", Reason: "is bad"}
		}
		return r, err
	}), "schema/what_is_no_schema_is_refused"),
	logMutant("takes malformed registrations", registers(func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
		r, err := b.EventStore.RegisterEventTypes(ctx, req)
		if errors.Is(err, countersign.ErrMalformed) && !as[*eventlog.SchemaError](err) {
			return eventlog.Registered{Revision: 1}, nil
		}
		return r, err
	}), "schema/malformed_registrations_are_refused"),
	logMutant("has one event store", registers(func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
		if req.EventStore == bank.EventStore {
			req.EventStore = shop.EventStore
		}
		return b.EventStore.RegisterEventTypes(ctx, req)
	}), "schema/event_stores_are_apart"),
	logMutant("lists definitions in any order", logFault{definitions: func(ctx context.Context, b *broken, name string) (eventlog.Definitions, error) {
		d, err := b.EventStore.ReadDefinitions(ctx, name)
		slices.SortStableFunc(d.All, func(a, b eventlog.Definition) int {
			return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		})
		return d, err
	}}, "schema/definitions_come_back_in_order"),
	logMutant("a handle keeps the types that it knows", onAppend(func(ctx context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		known, _ := b.local.Load().(eventlog.Definitions)
		if known.Revision == 0 && req.Check() == nil {
			known, _ = b.EventStore.ReadDefinitions(ctx, req.Sequence.Namespace.EventStore)
			b.local.Store(known)
		}
		a, err := next(req)
		if err != nil {
			return a, err
		}
		for i, e := range req.Events {
			if !slices.ContainsFunc(known.All, func(d eventlog.Definition) bool { return d.Name == e.Type }) {
				return eventlog.Appended{}, &eventlog.ViolationsError{Violations: []eventlog.Violation{{Event: i, Kind: eventlog.UnknownEventType, EventType: e.Type, Generation: 1, Message: "unknown"}}}
			}
		}
		return a, err
	}), "schema/registration_by_another_handle_counts_at_once"),
}

var scopeMutants = []mutant{
	logMutant("demands the very number", onAppend(func(ctx context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		for _, s := range req.Scopes {
			if n, ok := s.Expected.Number(); ok && req.Check() == nil {
				tail, _ := b.EventStore.ReadTail(ctx, eventlog.ReadTail{Sequence: req.Sequence, Filter: s.Filter()})
				if tail.Last != n {
					return eventlog.Appended{}, &eventlog.ScopesViolatedError{Violations: []eventlog.ScopeViolation{{Scope: s, Expected: s.Expected, Actual: tail.Last}}}
				}
			}
		}
		return next(req)
	}), "scope/is_an_upper_bound"),
	logMutant("none yet is number zero", eachScope(func(s *eventlog.Scope) {
		if _, seen := s.Expected.Number(); !seen {
			s.Expected = eventlog.Seen(0)
		}
	}), "scope/none_yet_is_violated_by_number_zero", "scope/empty_batch_is_judged"),
	logMutant("forgets the stream type of a scope", eachScope(func(s *eventlog.Scope) { s.StreamType = "" }), "scope/narrows_by_each_part"),
	logMutant("forgets the source of a scope", eachScope(func(s *eventlog.Scope) { s.Source = "" }), "scope/narrows_by_each_part", "scope/tags_play_no_part", "scope/of_a_tail_holds_until_somebody_appends"),
	logMutant("looks at the first type of a scope", eachScope(func(s *eventlog.Scope) { s.EventTypes = s.EventTypes[:min(1, len(s.EventTypes))] }), "scope/event_types_are_any_of_them"),
	logMutant("tells of the first scope alone", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if e, ok := errors.AsType[*eventlog.ScopesViolatedError](err); ok {
			err = &eventlog.ScopesViolatedError{Violations: e.Violations[:1]}
		}
		return a, err
	}), "scope/all_that_are_violated_are_told"),
	logMutant("tells of its own label", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if e, ok := errors.AsType[*eventlog.ScopesViolatedError](err); ok {
			for i := range e.Violations {
				e.Violations[i].Scope.Label = e.Violations[0].Scope.Label
			}
		}
		return a, err
	}), "scope/all_that_are_violated_are_told"),
	logMutant("looks for sources by a pattern", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		for i, s := range req.Scopes {
			if s.Source == "%" {
				req = copyAppend(req)
				req.Scopes[i].Source = ""
			}
		}
		return next(req)
	}), "scope/parts_are_not_patterns"),
	logMutant("folds sources", eachScope(func(s *eventlog.Scope) { s.Source = strings.TrimSpace(strings.ToLower(s.Source)) }), "scope/parts_are_not_patterns"),
	logMutant("takes tags for sources", onAppend(func(ctx context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		for _, s := range req.Scopes {
			if s.Source == "" || req.Check() != nil {
				continue
			}
			if tail, _ := b.EventStore.ReadTail(ctx, eventlog.ReadTail{Sequence: req.Sequence, Filter: eventlog.Filter{Tags: []eventlog.Tag{{Value: s.Source}}}}); tail.Found {
				return eventlog.Appended{}, &eventlog.ScopesViolatedError{Violations: []eventlog.ScopeViolation{{Scope: s, Expected: s.Expected, Actual: tail.Last}}}
			}
		}
		return next(req)
	}), "scope/tags_play_no_part"),
	logMutant("an empty batch has no scopes", judges(func(_ *broken, req eventlog.AppendEvents) []eventlog.Scope {
		if len(req.Events) == 0 && req.Check() == nil {
			return nil
		}
		return req.Scopes
	}), "scope/empty_batch_is_judged", "effect_receipt/no_events_are_recorded_after_their_scopes", "scope/is_of_its_sequence_alone"),
	logMutant("judges the scopes first", onAppend(func(ctx context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if len(req.Scopes) > 0 && len(req.Events) > 0 && req.Check() == nil {
			if err := dry(ctx, b, eventlog.AppendEvents{Sequence: req.Sequence, Scopes: req.Scopes}); as[*eventlog.ScopesViolatedError](err) {
				return eventlog.Appended{}, err
			}
		}
		return next(req)
	}), "scope/comes_after_violations"),
	logMutant("a scope sees its own batch", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		scopes := req.Scopes
		if req.Check() != nil || len(req.Events) < 2 {
			return next(req)
		}
		alone := req
		alone.Events = req.Events[:1]
		if _, err := next(alone); err != nil {
			return eventlog.Appended{}, err
		}
		return next(eventlog.AppendEvents{Sequence: req.Sequence, Events: req.Events[1:], Scopes: scopes})
	}), "scope/sees_nothing_of_its_own_batch"),
	logMutant("passes incomplete scopes over", judges(func(_ *broken, req eventlog.AppendEvents) []eventlog.Scope {
		return slices.DeleteFunc(req.Scopes, func(s eventlog.Scope) bool { return s.Expected == (eventlog.Expected{}) })
	}), "scope/incomplete_is_malformed"),
	logMutant("judges by another sequence", onAppend(func(ctx context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if req.Sequence != orders && req.Check() == nil {
			if err := dry(ctx, b, eventlog.AppendEvents{Sequence: orders, Scopes: req.Scopes}); err != nil {
				return eventlog.Appended{}, err
			}
		}
		return next(req)
	}), "scope/is_of_its_sequence_alone"),
	logMutant("judges no scopes", judges(func(_ *broken, req eventlog.AppendEvents) []eventlog.Scope {
		if req.Check() == nil {
			return nil
		}
		return req.Scopes
	}), "scope/of_a_tail_holds_until_somebody_appends", "scope/is_an_upper_bound", "log_context/opened_again_holds_everything", "log_context/two_handles_see_each_other", "effect_receipt/scopes_and_constraints_hold_with_a_receipt"),
}
