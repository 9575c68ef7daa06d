package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

var allNeeds = []Need{NeedEvents, NeedReceipts, NeedObservers}

// fillNamespaces puts something of everything into several namespaces.
func fillNamespaces(s *logSession) {
	s.Helper()
	s.exchangeOnly(registered, eventlog.RegisterEventTypes{EventStore: bank.EventStore, Types: standardTypes})
	s.constrain(unique("name"))
	for _, ns := range []countersign.Namespace{shop, shopUS, bank, {EventStore: "shop", Name: "EU"}, {EventStore: "shop", Name: "eu/x"}} {
		for _, name := range []string{"orders", "log"} {
			q := eventlog.Sequence{Namespace: ns, Name: name}
			e := of(opened, "a", withName("x"))
			e.Tags = []eventlog.Tag{{Value: "t"}, {Name: "n", Value: "v"}}
			with := receipt.AppendWithReceipt{AppendEvents: eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{e}}, Occurrence: "o", Effect: name}
			s.exchangeOnly(appended, with)
			s.exchangeOnly(appended, eventlog.AppendEvents{Sequence: q, Events: notes(3)})
			key := eventlog.ObserverKey{Sequence: q, Name: "mailer"}
			s.exchangeOnly(claimed, eventlog.ClaimObserver{Key: key, Holder: "one"})
			s.exchangeOnly(saved, eventlog.SaveObserver{Key: key, Fence: 1, Next: 4, Partitions: []eventlog.PartitionProgress{failed("a", 0, "x"), failed("b", 1, "x")}})
		}
		record := outcomeOnly("p", "refused")
		record.Namespace = ns
		s.exchangeOnly(recordedEffect, record)
	}
	s.sameAll("after everything was filled")
}

var namespaceCases = []Case{
	sessionCase("namespace", "drop_takes_everything_of_it_and_nothing_else", true, allNeeds, func(s *logSession) {
		fillNamespaces(s)
		d := s.send(dropped, shop).value.(eventlog.Dropped)
		if d.Sequences != 2 || d.Events != 8 || d.Receipts != 3 || d.Observers != 2 {
			s.failf("drop", "it says that it has dropped %+v", d)
		}
		for _, ns := range []countersign.Namespace{shop, shopUS} {
			s.page("after the drop", eventlog.ReadEvents{Sequence: eventlog.Log(ns), Filter: eventlog.Filter{Tags: []eventlog.Tag{{Value: "t"}}}})
			s.tail("after the drop", eventlog.Log(ns), eventlog.Filter{Source: "a"})
			s.sameReceipt("after the drop", receipt.Key{Namespace: ns, Occurrence: "p", Effect: "effect"})
		}
		s.sameAll("after the drop")
	}),
	sessionCase("namespace", "new_life_begins_at_zero", true, allNeeds, func(s *logSession) {
		fillNamespaces(s)
		s.send(dropped, shop)
		a := s.append(appended, of(opened, "b", withName("x"))).value.(eventlog.Appended) // what a held is free
		if a.First != 0 {
			s.failf("append", "after a drop: %+v", a)
		}
		s.append(violations, of(opened, "a", withName("x")))
		req := effect("o", notes(1)...)
		req.Effect = "orders"
		s.send(appended, req)
		s.within(appended, one(eventlog.Scope{Source: "a", Expected: eventlog.NoneYet()}))
		s.send(recordedEffect, outcomeOnly("p"))
		// A holder from before is late, although the observer is new: the first fence of
		// a life is the time.
		s.clock.pass(time.Millisecond)
		if state := s.claim(claimed, "two", 1); state.Fence != 1001 || state.Next != 1 {
			s.failf("claim", "after a drop: %s", showState(state))
		}
		s.save(staleObserver, 1, 9)
	}),
	sessionCase("namespace", "drop_again_finds_nothing", true, allNeeds, func(s *logSession) {
		s.send(dropped, shop)
		fillNamespaces(s)
		s.send(dropped, shop)
		d := s.send(dropped, shop).value.(eventlog.Dropped)
		if d != (eventlog.Dropped{}) {
			s.failf("drop", "a second time: %+v", d)
		}
		s.send(dropped, countersign.Namespace{EventStore: "nobody", Name: "eu"})
	}),
	sessionCase("namespace", "definitions_outlive_a_drop", true, allNeeds, func(s *logSession) {
		fillNamespaces(s)
		for _, ns := range []countersign.Namespace{shop, shopUS} {
			s.send(dropped, ns)
			s.sameDefinitions(s.store, "after a drop", shop.EventStore)
		}
		s.append(violations, of("nobody", "a", `1`), of(opened, "a", withName("x")), of(opened, "b", withName("x")))
		s.append(appended, of(opened, "b", withName("x")))
	}),
	sessionCase("namespace", "malformed_name_is_refused", true, allNeeds, func(s *logSession) {
		s.append(appended, notes(1)...)
		for _, ns := range []countersign.Namespace{{}, {EventStore: "shop"}, {Name: "eu"}, {EventStore: "shop", Name: "a\x00"}, {EventStore: "\xff", Name: "eu"}, {EventStore: "shop", Name: strings.Repeat("x", 513)}} {
			if _, err := s.store.events.DropNamespace(s.Context(), ns); !errors.Is(err, countersign.ErrMalformed) {
				s.failf("drop", "%q: want %q, got %v", ns, countersign.ErrMalformed, err)
			}
		}
		s.sameAll("after malformed drops")
	}),
	// An append at the same time lands before the drop, and is dropped, or after it,
	// in a new life. Never half of it.
	{Group: "namespace", Name: "append_beside_a_drop_is_before_or_after_it", Needs: allNeeds, Run: appendBesideDrop},
}

func appendBesideDrop(t T, h Harness) {
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	pool := s.db.pool()
	for round := range 4 {
		s.step++
		const writers = 6
		results := make([]receipt.Result, writers)
		together(t, writers+1, func(i int) error {
			if i == writers {
				return taken(t.Context(), func() error {
					_, err := pool(1).events.DropNamespace(t.Context(), shop)
					return err
				})
			}
			return taken(t.Context(), func() error {
				req := effect(numbered("o", writers)[i], notes(3)...)
				var err error
				results[i], err = pool(i).receipts.AppendWithReceipt(t.Context(), req)
				return err
			})
		})
		events, err := readSequence(t.Context(), s.store, orders)
		if err != nil {
			s.failf("read", "%v", err)
		}
		for n, e := range events {
			if e.Number != uint64(n) {
				s.failf("append beside a drop", "round %d: event %d stands at %d", round, e.Number, n)
			}
		}
		list, err := s.store.receipts.ListReceipts(t.Context(), receipt.ListReceipts{Namespace: shop, Occurrences: numbered("o", writers)})
		if err != nil || len(events) != 3*len(list) {
			s.failf("append beside a drop", "round %d: %d events and %d receipts of three each, %v", round, len(events), len(list), err)
		}
		covered := map[uint64]bool{}
		for _, r := range list {
			for n := r.First; n <= r.Last; n++ {
				covered[n] = true
			}
		}
		if len(covered) != len(events) {
			s.failf("append beside a drop", "round %d: the receipts that are left name %d of %d events", round, len(covered), len(events))
		}
		if _, err := s.store.events.DropNamespace(t.Context(), shop); err != nil {
			s.failf("drop", "%v", err)
		}
	}
}
