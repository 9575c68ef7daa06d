package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// ofEffect names cases of the group.
func ofEffect(names ...string) []string {
	for i := range names {
		names[i] = effectGroup + "/" + names[i]
	}
	return names
}

// withReceipt is a fault of an append with a receipt.
func withReceipt(f func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error)) logFault {
	return logFault{appendWith: f}
}

// recordedWith is a fault of a record without events.
func recordedWith(f func(ctx context.Context, b *broken, req receipt.RecordEffect) (receipt.Result, error)) logFault {
	return logFault{recordEffect: f}
}

// noReceipt carries an append out, and keeps no receipt of it.
func noReceipt(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
	a, err := b.EventStore.AppendEvents(ctx, req.AppendEvents)
	if err != nil {
		return receipt.Result{}, err
	}
	r := receipt.Receipt{Key: req.Key(), Outcome: receipt.Appended, Sequence: a.Sequence, First: a.First, Last: a.Last, Epoch: req.Epoch, RecordedAt: micro(time.Now()), Response: copyResponse(req.Response)}
	return receipt.Result{Receipt: r, Settlement: a.Settlement}, nil
}

var effectReceiptMutants = []mutant{
	logMutant("keeps no receipt", withReceipt(noReceipt), ofEffect("events_and_receipt_commit_together", "one_occurrence_has_many_effects", "first_writer_wins")...),
	logMutant("the receipt names the first event alone", recording(func(r *receipt.Result) { r.Receipt.Last = r.Receipt.First }), ofEffect("events_and_receipt_commit_together")...),
	logMutant("another payload is a conflict", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
		if r.AlreadyRecorded && string(r.Receipt.Response) != string(req.Response) {
			return receipt.Result{}, &eventlog.ViolationsError{Violations: []eventlog.Violation{{Message: "another response"}}}
		}
		return r, err
	}), ofEffect("first_writer_wins")...),
	logMutant("the epoch is part of the identity", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
		if r.AlreadyRecorded && r.Receipt.Epoch < req.Epoch {
			return noReceipt(ctx, b, req)
		}
		return r, err
	}), ofEffect("first_writer_wins")...),
	logMutant("the sequence is part of the identity", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
		if r.AlreadyRecorded && r.Receipt.Sequence != "" && r.Receipt.Sequence != req.Sequence.Named().Name {
			return noReceipt(ctx, b, req)
		}
		return r, err
	}), ofEffect("first_writer_wins")...),
	logMutant("a hit answers with the new response", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
		if err == nil {
			r.Receipt.Response = copyResponse(req.Response)
		}
		return r, err
	}), ofEffect("first_writer_wins")...),
	logMutant("judges the batch before it looks the receipt up", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		if err := req.Check(); err != nil {
			return receipt.Result{}, err
		}
		return b.ReceiptStore.AppendWithReceipt(ctx, req)
	}), ofEffect("is_looked_up_before_the_batch_is_judged")...),
	logMutant("judges the scopes before it looks the receipt up", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		if len(req.Scopes) > 0 && req.Check() == nil {
			if err := dry(ctx, b, eventlog.AppendEvents{Sequence: req.Sequence, Scopes: req.Scopes}); err != nil {
				return receipt.Result{}, err
			}
		}
		return b.ReceiptStore.AppendWithReceipt(ctx, req)
	}), ofEffect("is_looked_up_before_the_batch_is_judged", "no_events_are_recorded_after_their_scopes")...),
	logMutant("takes malformed keys", logFault{
		appendWith: func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
			r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
			if req.Key().Check() != nil {
				return receipt.Result{}, nil
			}
			return r, err
		},
	}, ofEffect("malformed_key_is_refused")...),
	logMutant("a refused append leaves its receipt", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
		if as[*eventlog.ViolationsError](err) || as[*eventlog.ScopesViolatedError](err) {
			_, _ = b.ReceiptStore.RecordEffect(ctx, receipt.RecordEffect{Effect: receipt.Effect{Key: req.Key()}, Reasons: []string{"refused"}})
		}
		return r, err
	}), ofEffect("refusal_writes_no_receipt", "scopes_and_constraints_hold_with_a_receipt", "no_events_are_recorded_after_their_scopes")...),
	logMutant("no events are appended events", recording(func(r *receipt.Result) {
		if r.Receipt.Outcome == receipt.NoEvents {
			r.Receipt.Sequence = "orders"
		}
	}), ofEffect("no_events_are_recorded_after_their_scopes")...),
	logMutant("sorts the reasons", showsReceipts(func(r *receipt.Receipt) { slices.Sort(r.Reasons) }), ofEffect("record_keeps_reasons_and_response")...),
	logMutant("loses a reason", showsReceipts(func(r *receipt.Receipt) { r.Reasons = slices.Compact(slices.Clone(r.Reasons[:min(2, len(r.Reasons))])) }), ofEffect("record_keeps_reasons_and_response", "refusal_needs_reasons")...),
	logMutant("refuses for no reason", recordedWith(func(ctx context.Context, b *broken, req receipt.RecordEffect) (receipt.Result, error) {
		if len(req.Reasons) == 0 {
			req.Reasons = nil
		}
		return b.ReceiptStore.RecordEffect(ctx, req)
	}), ofEffect("refusal_needs_reasons")...),
	logMutant("a record looks at its own sequence", recordedWith(func(ctx context.Context, b *broken, req receipt.RecordEffect) (receipt.Result, error) {
		r, err := b.ReceiptStore.RecordEffect(ctx, req)
		if r.AlreadyRecorded && r.Receipt.Sequence == "another" {
			return receipt.Result{}, &receipt.UnsettledError{Key: req.Key, Err: errors.New("of another sequence")}
		}
		return r, err
	}), ofEffect("record_returns_the_receipt_of_another_sequence")...),
	logMutant("compacts responses", showsReceipts(func(r *receipt.Receipt) {
		var b bytes.Buffer
		if json.Compact(&b, r.Response) == nil {
			r.Response = b.Bytes()
		}
	}), ofEffect("response_comes_back_byte_for_byte")...),
	logMutant("cuts long responses", showsReceipts(func(r *receipt.Receipt) { r.Response = r.Response[:min(len(r.Response), 60_000)] }), ofEffect("response_has_its_limit")...),
	logMutant("takes responses of any length", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		if len(req.Response) > receipt.MaxResponseBytes {
			req.Response = []byte(`"long"`)
		}
		return b.ReceiptStore.AppendWithReceipt(ctx, req)
	}), ofEffect("response_has_its_limit")...),
	logMutant("takes responses that are not JSON", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		if len(req.Response) > 0 && !json.Valid(req.Response) {
			req.Response = nil
		}
		return b.ReceiptStore.AppendWithReceipt(ctx, req)
	}), ofEffect("response_that_is_not_json_is_refused")...),
	logMutant("null is no response", showsReceipts(func(r *receipt.Receipt) {
		if string(r.Response) == "null" {
			r.Response = nil
		}
	}), ofEffect("null_is_a_response_and_nothing_is_none")...),
	logMutant("no response is an empty one", recording(func(r *receipt.Result) {
		if r.Receipt.Response == nil {
			r.Receipt.Response = []byte{}
		}
	}), ofEffect("null_is_a_response_and_nothing_is_none")...),
	logMutant("finds a receipt whatever the case", logFault{readReceipt: func(ctx context.Context, b *broken, key receipt.Key) (receipt.Result, error) {
		r, err := b.ReceiptStore.ReadReceipt(ctx, key)
		if as[*receipt.UnknownReceiptError](err) {
			key.Occurrence, key.Effect = strings.ToLower(key.Occurrence), strings.ToLower(key.Effect)
			if found, err := b.ReceiptStore.ReadReceipt(ctx, key); err == nil {
				return found, nil
			}
		}
		return r, err
	}}, ofEffect("unknown_receipt_is_told")...),
	logMutant("a receipt that is not there is an empty one", logFault{readReceipt: func(ctx context.Context, b *broken, key receipt.Key) (receipt.Result, error) {
		r, err := b.ReceiptStore.ReadReceipt(ctx, key)
		if as[*receipt.UnknownReceiptError](err) {
			return receipt.Result{}, nil
		}
		return r, err
	}}, ofEffect("unknown_receipt_is_told", "refusal_writes_no_receipt")...),
	logMutant("joins occurrence and effect by a slash", changesKeys(func(k receipt.Key) receipt.Key {
		occurrence, effect, _ := strings.Cut(k.Occurrence+"/"+k.Effect, "/")
		k.Occurrence, k.Effect = occurrence, effect
		return k
	}), ofEffect("composite_keys_do_not_collide")...),
	logMutant("folds keys", changesKeys(func(k receipt.Key) receipt.Key {
		k.Occurrence, k.Effect = strings.ToLower(k.Occurrence), strings.ToLower(k.Effect)
		return k
	}), ofEffect("composite_keys_do_not_collide", "list_is_ordered_and_complete")...),
	logMutant("has one namespace for receipts", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		if ns := req.Sequence.Namespace; ns == shopUS {
			key := req.Key()
			key.Namespace = shop
			if r, err := b.ReceiptStore.ReadReceipt(ctx, key); err == nil {
				return r, nil
			}
		}
		return b.ReceiptStore.AppendWithReceipt(ctx, req)
	}), ofEffect("namespaces_are_apart")...),
	logMutant("its keys have 255 bytes", changesKeys(func(k receipt.Key) receipt.Key {
		k.Effect = k.Effect[:min(len(k.Effect), 255)]
		return k
	}), ofEffect("identities_of_512_bytes_fit")...),
	logMutant("lists receipts as they were asked for", logFault{listReceipts: func(ctx context.Context, b *broken, req receipt.ListReceipts) ([]receipt.Receipt, error) {
		all, err := b.ReceiptStore.ListReceipts(ctx, req)
		slices.SortStableFunc(all, func(x, y receipt.Receipt) int {
			return slices.Index(req.Occurrences, x.Key.Occurrence) - slices.Index(req.Occurrences, y.Key.Occurrence)
		})
		return all, err
	}}, ofEffect("list_is_ordered_and_complete")...),
	logMutant("lists one receipt of an occurrence", logFault{listReceipts: func(ctx context.Context, b *broken, req receipt.ListReceipts) ([]receipt.Receipt, error) {
		all, err := b.ReceiptStore.ListReceipts(ctx, req)
		return slices.CompactFunc(all, func(x, y receipt.Receipt) bool { return x.Key.Occurrence == y.Key.Occurrence }), err
	}}, ofEffect("list_is_ordered_and_complete", "one_occurrence_has_many_effects")...),
	logMutant("a receipt is an event", recordedWith(func(ctx context.Context, b *broken, req receipt.RecordEffect) (receipt.Result, error) {
		r, err := b.ReceiptStore.RecordEffect(ctx, req)
		if err == nil && !r.AlreadyRecorded {
			_, _ = b.EventStore.AppendEvents(ctx, eventlog.AppendEvents{Sequence: eventlog.Log(req.Namespace), Events: []eventlog.Event{note("receipt", `{}`)}})
		}
		return r, err
	}), ofEffect("is_no_event")...),
	logMutant("keeps epochs as floats", showsReceipts(func(r *receipt.Receipt) {
		if f := float64(r.Epoch); f < 1<<62 {
			r.Epoch = uint64(f)
		}
	}), ofEffect("epochs_come_back_exactly")...),
	logMutant("records the host's time", recording(func(r *receipt.Result) {
		if !r.AlreadyRecorded {
			r.Receipt.RecordedAt = micro(time.Now())
		}
	}), ofEffect("time_is_the_stores")...),
	logMutant("records a time that is none of today", recording(func(r *receipt.Result) { r.Receipt.RecordedAt = r.Receipt.RecordedAt.Add(24 * time.Hour) }), ofEffect("the_stores_own_time_is_now")...),
	logMutant("a hit changes the index", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
		if r.AlreadyRecorded {
			_, _ = b.EventStore.AppendEvents(ctx, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{of(closedE, "a", `1`)}})
		}
		return r, err
	}), ofEffect("hit_leaves_the_constraint_index_complete")...),
	logMutant("a receipt is safe before its commit", recording(func(r *receipt.Result) { r.Settlement = nil }), "log_atomically/results_settle_with_the_commit", "log_atomically/refusal_leaves_it_usable", "join/refused_append_leaves_the_owner_free"),
}

var eventsMutants = []mutant{
	logMutant("a sequence that is not there is an error", logFault{readEvents: func(ctx context.Context, b *broken, req eventlog.ReadEvents) (eventlog.Page, error) {
		page, err := b.EventStore.ReadEvents(ctx, req)
		if err == nil && len(page.Events) == 0 && page.Next == req.From {
			return eventlog.Page{}, errors.New("no such sequence")
		}
		return page, err
	}}, "events/missing_sequence_is_an_empty_page"),
	logMutant("the next page begins at the last event", pages(func(_ *broken, _ eventlog.ReadEvents, page *eventlog.Page) {
		if !page.End {
			page.Next--
		}
	}), "events/pages_lead_through_everything_once"),
	logMutant("a full page is never the last", pages(func(_ *broken, req eventlog.ReadEvents, page *eventlog.Page) {
		if len(page.Events) == req.Limit {
			page.End = false
		}
	}), "events/full_page_at_the_end_is_the_last"),
	logMutant("before is inclusive", asks(func(req *eventlog.ReadEvents) {
		if req.Before > 0 && req.Before < 1<<62 {
			req.Before++
		}
	}), "events/from_and_before_bound_the_page"),
	logMutant("from is exclusive", asks(func(req *eventlog.ReadEvents) {
		if req.From > 0 && req.From < 1<<62 {
			req.From++
		}
	}), "events/from_and_before_bound_the_page", "events/pages_lead_through_everything_once"),
	logMutant("filters by no source type", asks(func(req *eventlog.ReadEvents) { req.Filter.SourceType = "" }), "events/filters_narrow_by_each_part"),
	logMutant("a filter's parts are any of them", asks(func(req *eventlog.ReadEvents) {
		if req.Filter.Source != "" {
			req.Filter = eventlog.Filter{Source: req.Filter.Source}
		}
	}), "events/filters_narrow_by_each_part"),
	logMutant("a plain tag is a named one", asks(func(req *eventlog.ReadEvents) {
		for _, t := range req.Filter.Tags {
			if t.Name == "" {
				req.Filter.Tags = append(slices.Clone(req.Filter.Tags), eventlog.Tag{Name: t.Value})
			}
		}
	}), "events/tags_are_any_of_them"),
	logMutant("all tags must match", pages(func(_ *broken, req eventlog.ReadEvents, page *eventlog.Page) {
		page.Events = slices.DeleteFunc(page.Events, func(e eventlog.Recorded) bool {
			return slices.ContainsFunc(req.Filter.Tags, func(t eventlog.Tag) bool { return !slices.Contains(e.Tags, t) })
		})
	}), "events/tags_are_any_of_them"),
	logMutant("an event comes once for each tag that matches", pages(func(_ *broken, req eventlog.ReadEvents, page *eventlog.Page) {
		var all []eventlog.Recorded
		for _, e := range page.Events {
			n := 0
			for _, t := range req.Filter.Tags {
				if slices.Contains(e.Tags, t) {
					n++
				}
			}
			for range max(n, 1) {
				all = append(all, e)
			}
		}
		page.Events = all
	}), "events/event_with_several_matching_tags_comes_once"),
	logMutant("the limit counts what the filter leaves out", asks(func(req *eventlog.ReadEvents) {
		if !req.Filter.Empty() && req.Limit > 0 && (req.Before == 0 || req.Before > req.From+uint64(req.Limit)*7) {
			req.Before = req.From + uint64(req.Limit)*7
		}
	}), "events/filtered_page_says_where_the_next_begins"),
	logMutant("a page knows no bytes", logFault{readEvents: func(ctx context.Context, b *broken, req eventlog.ReadEvents) (eventlog.Page, error) {
		page, err := b.EventStore.ReadEvents(ctx, req)
		for err == nil && !page.End && len(page.Events) < 20 && req.Limit == 0 {
			var more eventlog.Page
			req.From = page.Next
			more, err = b.EventStore.ReadEvents(ctx, req)
			more.Events = append(page.Events, more.Events...)
			page = more
		}
		return page, err
	}}, "events/page_ends_at_its_bytes"),
	logMutant("has no default limit", asks(func(req *eventlog.ReadEvents) {
		if req.Limit == 0 {
			req.Limit = eventlog.MaxPageLimit
		}
	}), "events/default_limit_is_a_thousand"),
	logMutant("takes malformed reads", logFault{readEvents: func(ctx context.Context, b *broken, req eventlog.ReadEvents) (eventlog.Page, error) {
		page, err := b.EventStore.ReadEvents(ctx, req)
		if errors.Is(err, countersign.ErrMalformed) {
			return eventlog.Page{End: true}, nil
		}
		return page, err
	}}, "events/malformed_reads_are_refused"),
	logMutant("the tail of a filter is that of the sequence", logFault{readTail: func(ctx context.Context, b *broken, req eventlog.ReadTail) (eventlog.Tail, error) {
		req.Filter = eventlog.Filter{}
		return b.EventStore.ReadTail(ctx, req)
	}}, "events/filters_narrow_by_each_part"),
	logMutant("waits for one more", logFault{await: func(ctx context.Context, b *broken, req eventlog.AwaitEvents) error {
		if req.From < 1<<62 {
			req.From++
		}
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		return b.EventStore.AwaitEvents(ctx, req)
	}}, "events/await_returns_at_once_for_what_is_there"),
	logMutant("waits for the context's end in silence", logFault{await: func(ctx context.Context, b *broken, req eventlog.AwaitEvents) error {
		if err := b.EventStore.AwaitEvents(ctx, req); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	}}, "events/await_ends_with_its_context"),
	logMutant("wakes those who wait too early", logFault{await: func(context.Context, *broken, eventlog.AwaitEvents) error {
		return nil
	}}, "events/await_is_woken_by_another_handle", "log_atomically/commit_wakes_those_who_wait"),
}

var logStoreMutants = []mutant{
	logMutant("keeps the caller's contents", onAppend(func(_ context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		for i := range a.Count {
			b.shared.put(fmt.Sprintf("content %v %d", req.Sequence.Named(), a.First+uint64(i)), req.Events[i].Content)
		}
		return a, err
	}).and(pages(func(b *broken, req eventlog.ReadEvents, page *eventlog.Page) {
		for i := range page.Events {
			if content, ok := b.shared.get(fmt.Sprintf("content %v %d", req.Sequence.Named(), page.Events[i].Number)).([]byte); ok {
				page.Events[i].Content = content
			}
		}
	})), "log_alias/append_keeps_nothing_of_the_callers", "log_alias/events_are_the_callers"),
	logMutant("sorts the caller's tags", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		for _, e := range req.Events {
			slices.SortFunc(e.Tags, func(a, b eventlog.Tag) int { return strings.Compare(b.Value, a.Value) })
		}
		return a, err
	}), "log_alias/requests_are_only_read"),
	logMutant("keeps the caller's schemas", registers(func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
		r, err := b.EventStore.RegisterEventTypes(ctx, req)
		for _, t := range req.Types {
			b.shared.put("schema "+t.ID, t.Schema)
		}
		return r, err
	}).and(logFault{definitions: func(ctx context.Context, b *broken, name string) (eventlog.Definitions, error) {
		d, err := b.EventStore.ReadDefinitions(ctx, name)
		for i, one := range d.All {
			if schema, ok := b.shared.get("schema " + one.Name).([]byte); ok && one.Generation == 1 {
				d.All[i].Body = schema
			}
		}
		return d, err
	}}), "log_alias/definitions_keep_nothing_of_the_callers"),
	logMutant("keeps the response that it answered with", logFault{
		recordEffect: func(ctx context.Context, b *broken, req receipt.RecordEffect) (receipt.Result, error) {
			r, err := b.ReceiptStore.RecordEffect(ctx, req)
			if kept, ok := b.shared.get("response " + req.Occurrence).([]byte); ok && r.AlreadyRecorded {
				r.Receipt.Response = kept
			}
			b.shared.put("response "+req.Occurrence, r.Receipt.Response)
			return r, err
		},
		readReceipt: func(ctx context.Context, b *broken, key receipt.Key) (receipt.Result, error) {
			r, err := b.ReceiptStore.ReadReceipt(ctx, key)
			if kept, ok := b.shared.get("response " + key.Occurrence).([]byte); ok {
				r.Receipt.Response = kept
			}
			return r, err
		},
	}, "log_alias/receipts_are_the_callers"),
	logMutant("carries out what has ended", onAppend(func(_ context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if err != nil && errors.Is(err, countersign.ErrRetryable) {
			_, _ = b.EventStore.AppendEvents(context.Background(), req)
		}
		return a, err
	}), "log_context/cancelled_before_leaves_no_trace", "log_context/deadline_before_leaves_no_trace"),
	logMutant("takes no context for any", logFault{readTail: func(ctx context.Context, b *broken, req eventlog.ReadTail) (eventlog.Tail, error) {
		if ctx == nil {
			ctx = context.Background()
		}
		return b.EventStore.ReadTail(ctx, req)
	}}, "log_context/nil_is_malformed"),
	logMutant("a closed handle reads on", logFault{readTail: func(ctx context.Context, b *broken, req eventlog.ReadTail) (eventlog.Tail, error) {
		tail, err := b.EventStore.ReadTail(ctx, req)
		if err != nil && ctx != nil && ctx.Err() == nil && req.Check() == nil {
			return eventlog.Tail{}, nil
		}
		return tail, err
	}}, "log_context/closed_handle_refuses_every_call", "log_atomically/tx_is_dead_after_its_end"),
	logMutant("a cancelled append was not taken", logFault{append: func(ctx context.Context, b *broken, req eventlog.AppendEvents) (eventlog.Appended, error) {
		a, err := b.EventStore.AppendEvents(context.WithoutCancel(ctx), req)
		pause()
		if err == nil && ctx.Err() != nil {
			return eventlog.Appended{}, &notTaken{ctx.Err()}
		}
		return a, err
	}}, "log_context/ended_during_the_call_gives_no_wrong_result"),
	logMutant("each handle has its own events", logFault{readEvents: func(ctx context.Context, b *broken, req eventlog.ReadEvents) (eventlog.Page, error) {
		page, err := b.EventStore.ReadEvents(ctx, req)
		if known, _ := b.local.Load().(uint64); err == nil && !b.inTx && len(page.Events) > 0 {
			if known == 0 {
				b.local.Store(page.Next)
			} else if req.From == 0 && page.End && page.Next > known+2 {
				page.Events = page.Events[:known]
			}
		}
		return page, err
	}}, "log_context/two_handles_see_each_other"),
}
