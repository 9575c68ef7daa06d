package storetest

import (
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// fullAppend returns a request with something in every slice.
func fullAppend(occurrence string) receipt.AppendWithReceipt {
	req := effect(occurrence, fullEvent(occurrence), fullEvent(occurrence+" again"))
	req.Scopes = []eventlog.Scope{{Source: "nobody", EventTypes: []string{noted, opened}, Expected: eventlog.NoneYet()}}
	return req
}

// scribbleAppend changes everything that the slices of a request reach.
func scribbleAppend(r receipt.AppendWithReceipt) {
	for i := range r.Events {
		scribble(r.Events[i].Content)
		for k := range r.Events[i].Tags {
			r.Events[i].Tags[k] = eventlog.Tag{Value: "scribbled"}
		}
		r.Events[i] = eventlog.Event{}
	}
	for i := range r.Scopes {
		for k := range r.Scopes[i].EventTypes {
			r.Scopes[i].EventTypes[k] = "scribbled"
		}
	}
	scribble(r.Response)
}

var logAliasCases = []Case{
	effectCase("log_alias", "append_keeps_nothing_of_the_callers", func(s *logSession) {
		for _, id := range []string{"o1", "o2"} {
			req := fullAppend(id)
			s.send(appended, req)
			scribbleAppend(req)
			s.sameAll("after the caller changed the append that it had sent")
		}
		plain := fullAppend("x").AppendEvents
		s.send(appended, plain)
		scribbleAppend(receipt.AppendWithReceipt{AppendEvents: plain})
		s.sameAll("after the caller changed the append that it had sent")
		record := outcomeOnly("p", "one", "two")
		s.send(recordedEffect, record)
		scribble(record.Response)
		record.Reasons[0] = "scribbled"
		s.sameAll("after the caller changed the record that it had sent")
	}),
	effectCase("log_alias", "requests_are_only_read", func(s *logSession) {
		s.constrain(unique("name"))
		req, twin := fullAppend("o"), fullAppend("o")
		for i := range req.Events {
			req.Events[i].Tags = append(req.Events[i].Tags, req.Events[i].Tags[0])
			twin.Events[i].Tags = append(twin.Events[i].Tags, twin.Events[i].Tags[0])
		}
		for _, want := range []string{appended, alreadyRecorded} {
			s.send(want, req)
			if a, b := describeLog(twin), describeLog(req); a != b {
				s.failf("append", "the store changed the request that it was given:\n%s", diffLines(a, b))
			}
		}
		c := unique("b")
		c.Covers[0], c.Covers[1] = c.Covers[1], c.Covers[0]
		s.constrain(c)
		if c.Covers[0].Type != renamed {
			s.failf("register a constraint", "the store sorted the caller's slice")
		}
		ids := []string{"z", "o", "a"}
		s.list(s.store, "list", receipt.ListReceipts{Namespace: shop, Occurrences: ids})
		if ids[0] != "z" || ids[2] != "a" {
			s.failf("list", "the store changed the ids that it was given: %q", ids)
		}
	}),
	effectCase("log_alias", "definitions_keep_nothing_of_the_callers", func(s *logSession) {
		req := types(eventlog.EventType{ID: "new", Schema: []byte(`{"type":"integer"}`)})
		s.send(registered, req)
		scribble(req.Types[0].Schema)
		req.Types[0].ID = "scribbled"
		c := unique("name")
		s.constrain(c)
		c.Covers[0].Properties[0], c.Covers[1].Type, c.RemovedBy[0] = "scribbled", "scribbled", "scribbled"
		s.sameDefinitions(s.store, "after the caller changed what it had registered", shop.EventStore)
		s.append(appended, of("new", "a", `1`), of(opened, "a", withName("x")))
		s.append(violations, of("new", "a", `"x"`), of(opened, "b", withName("x")))
		d, err := s.store.events.ReadDefinitions(s.Context(), shop.EventStore)
		if err != nil {
			s.failf("read the definitions", "%v", err)
		}
		for i := range d.All {
			scribble(d.All[i].Body)
			d.All[i].Name = "scribbled"
		}
		s.sameDefinitions(s.store, "after the caller changed the definitions that it had read", shop.EventStore)
	}),
	effectCase("log_alias", "events_are_the_callers", func(s *logSession) {
		s.append(appended, fullEvent("1"), fullEvent("2"), fullEvent("3"))
		page, err := s.store.events.ReadEvents(s.Context(), eventlog.ReadEvents{Sequence: orders})
		if err != nil {
			s.failf("read events", "%v", err)
		}
		want := showEvents(page.Events)
		for i := range page.Events {
			_ = append(page.Events[i].Content, "spilled over"...)
			_ = append(page.Events[i].Tags, eventlog.Tag{Value: "spilled over"})
		}
		if got := showEvents(page.Events); got != want {
			s.failf("read events", "appending to one slice changed another:\n%s", diffLines(want, got))
		}
		second, err := s.store.events.ReadEvents(s.Context(), eventlog.ReadEvents{Sequence: orders})
		if err != nil {
			s.failf("read events", "%v", err)
		}
		for i := range second.Events {
			scribble(second.Events[i].Content)
			second.Events[i].Tags[0].Value = "scribbled"
		}
		if got := showEvents(page.Events); got != want {
			s.failf("read events", "a second page shares memory with the first:\n%s", diffLines(want, got))
		}
		s.sameAll("after the caller changed a page that it had read")
	}),
	effectCase("log_alias", "receipts_are_the_callers", func(s *logSession) {
		s.send(recordedEffect, outcomeOnly("o", "one", "two"))
		for range 2 { // the second one is a hit
			got := askLog(s.Context(), s.store, outcomeOnly("o", "x"))
			r := got.value.(receipt.Result).Receipt
			scribble(r.Response)
			r.Reasons[0] = "scribbled"
			s.sameAll("after the caller changed a result")
		}
		read, err := s.store.receipts.ReadReceipt(s.Context(), outcomeOnly("o").Key)
		if err != nil {
			s.failf("read a receipt", "%v", err)
		}
		scribble(read.Receipt.Response)
		read.Receipt.Reasons[1] = "scribbled"
		list, err := s.store.receipts.ListReceipts(s.Context(), receipt.ListReceipts{Namespace: shop, Occurrences: []string{"o"}})
		if err != nil {
			s.failf("list receipts", "%v", err)
		}
		scribble(list[0].Response)
		list[0].Reasons[0] = "scribbled"
		fresh := askLog(s.Context(), s.store, effect("new", notes(1)...))
		s.model.ask(effect("new", notes(1)...))
		s.remember(effect("new"))
		result, ok := fresh.value.(receipt.Result)
		if !ok {
			s.failf("append", "it was not answered: %v", fresh.err)
		}
		r := result.Receipt
		m := s.model.receipts[r.Key]
		m.RecordedAt = r.RecordedAt
		s.model.receipts[r.Key] = m
		scribble(r.Response)
		s.sameAll("after the caller changed the receipts that it had read")
	}),
}
