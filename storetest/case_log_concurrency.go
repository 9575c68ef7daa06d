package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

var logConcurrencyCases = []Case{
	{Group: "log_concurrency", Name: "readers_never_see_a_gap", Needs: []Need{NeedEvents}, Run: writersAndReaders},
	{Group: "log_concurrency", Name: "one_receipt_has_one_winner", Needs: []Need{NeedEvents, NeedReceipts}, Run: receiptRace},
	{Group: "log_concurrency", Name: "unique_value_has_one_holder", Needs: []Need{NeedEvents}, Run: valueRace},
	{Group: "log_concurrency", Name: "scope_lets_one_through", Needs: []Need{NeedEvents}, Run: scopeRace},
	{Group: "log_concurrency", Name: "new_sequences_begin_at_zero_once", Needs: []Need{NeedEvents}, Run: newSequenceRace},
	{Group: "log_concurrency", Name: "refused_neighbours_harm_nobody", Needs: []Need{NeedEvents, NeedReceipts}, Run: mixedNeighbours},
	{Group: "log_concurrency", Name: "crossing_transactions_are_whole", Needs: []Need{NeedEvents, NeedTransactions}, Run: crossingTransactions},
	{Group: "log_concurrency", Name: "constraint_registered_under_load_holds", Needs: []Need{NeedEvents}, Run: registrationRace},
}

// appendedBy appends, however often the store says that it was busy.
func appendedBy(ctx context.Context, hd *handle, q eventlog.Sequence, events ...eventlog.Event) (a eventlog.Appended, err error) {
	err = taken(ctx, func() error {
		a, err = hd.events.AppendEvents(ctx, eventlog.AppendEvents{Sequence: q, Events: events})
		return err
	})
	return a, err
}

// writersAndReaders lets many writers append to one sequence over two handles, while
// readers poll it from where they are.
func writersAndReaders(t T, h Harness) {
	const writers, each, readers = 64, 2, 3
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	pool := s.db.pool()
	var total, done atomic.Int64
	got := make([]eventlog.Appended, writers*each)
	together(t, writers+readers, func(i int) error {
		if i >= writers {
			return pollWithoutGaps(t.Context(), pool(i), &done, &total, writers)
		}
		defer done.Add(1)
		for k := range each {
			n := 1 + (i+k)%3
			events := make([]eventlog.Event, n)
			for j := range events {
				events[j] = note(fmt.Sprintf("%d-%d", i, k), fmt.Sprint(j))
			}
			a, err := appendedBy(t.Context(), pool(i), orders, events...)
			if err != nil {
				return err
			}
			if a.Count != n || a.Last-a.First != uint64(n-1) || !a.AckSafe() {
				return fmt.Errorf("a batch of %d got %+v", n, a)
			}
			got[i*each+k] = a
			total.Add(int64(n))
		}
		return nil
	})
	events, err := readSequence(t.Context(), s.store, orders)
	if err != nil || int64(len(events)) != total.Load() {
		s.failf("read", "%d events of %d, %v", len(events), total.Load(), err)
	}
	for n, e := range events {
		if e.Number != uint64(n) {
			s.failf("read", "event %d stands at %d", e.Number, n)
		}
	}
	for at, a := range got {
		for n := a.First; n <= a.Last; n++ {
			if e := events[n]; e.Source != fmt.Sprintf("%d-%d", at/each, at%each) || string(e.Content) != fmt.Sprint(n-a.First) {
				s.failf("read", "event %d is %s, and was acknowledged to writer %d", n, showEvent(e.Event), at/each)
			}
		}
	}
}

// pollWithoutGaps reads from where it is until the writers are done: each number
// must come once and in order, without one left out.
func pollWithoutGaps(ctx context.Context, hd *handle, done, total *atomic.Int64, writers int64) error {
	next := uint64(0)
	for {
		last := done.Load() == writers
		page, err := hd.events.ReadEvents(ctx, eventlog.ReadEvents{Sequence: orders, From: next})
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if e.Number != next {
				return fmt.Errorf("a reader that has seen %d events comes to number %d", next, e.Number)
			}
			next++
		}
		if page.Next != next {
			return fmt.Errorf("a page whose last event is %d says that the next one is %d", int64(next)-1, page.Next)
		}
		time.Sleep(time.Millisecond)
		if last && page.End {
			if next != uint64(total.Load()) {
				return fmt.Errorf("a reader has seen %d of %d events", next, total.Load())
			}
			return nil
		}
	}
}

// receiptRace lets goroutines append with one receipt, over two handles and to two
// sequences, and record it: one is first, and all get its receipt.
func receiptRace(t T, h Harness) {
	const n = 16
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	pool := s.db.pool()
	places := []eventlog.Sequence{orders, {Namespace: shop, Name: "another"}}
	for round := range 4 {
		s.step++
		id := fmt.Sprintf("o%d", round)
		results := make([]receipt.Result, n)
		together(t, n, func(i int) error {
			return taken(t.Context(), func() (err error) {
				if i%5 == 4 {
					req := outcomeOnly(id, fmt.Sprint(i))
					results[i], err = pool(i).receipts.RecordEffect(t.Context(), req)
					return err
				}
				req := effect(id, note(id, fmt.Sprint(i)), note(id, fmt.Sprint(i)))
				req.Sequence, req.Response, req.Epoch = places[i/2%2], fmt.Append(nil, i), uint64(i)
				results[i], err = pool(i).receipts.AppendWithReceipt(t.Context(), req)
				return err
			})
		})
		first := 0
		for i, r := range results {
			if !r.AlreadyRecorded {
				first++
			}
			if !r.AckSafe() || showReceipt(r.Receipt) != showReceipt(results[0].Receipt) {
				s.failf("race for a receipt", "goroutine %d got another one:\n%s", i, diffLines(showReceipt(results[0].Receipt), showReceipt(r.Receipt)))
			}
		}
		if first != 1 {
			s.failf("race for a receipt", "%d were told that they were first", first)
		}
		if err := soundReceipt(t.Context(), s.store, places, id, results[0].Receipt); err != nil {
			s.failf("race for a receipt", "%v", err)
		}
	}
}

// soundReceipt checks that there are the events of a receipt, and no others of its
// occurrence.
func soundReceipt(ctx context.Context, hd *handle, places []eventlog.Sequence, source string, r receipt.Receipt) error {
	var found []eventlog.Recorded
	where := ""
	for _, q := range places {
		page, err := hd.events.ReadEvents(ctx, eventlog.ReadEvents{Sequence: q, Filter: eventlog.Filter{Source: source}})
		if err != nil {
			return err
		}
		if len(page.Events) > 0 {
			where += q.Name
		}
		found = append(found, page.Events...)
	}
	if r.Outcome != receipt.Appended {
		if len(found) > 0 {
			return fmt.Errorf("there are %d events, and the receipt is %s", len(found), showReceipt(r))
		}
		return nil
	}
	if len(found) != 2 || where != r.Sequence || found[0].Number != r.First || found[1].Number != r.Last || string(found[0].Content) != string(r.Response) {
		return fmt.Errorf("the receipt is %s, its events in %q are\n%s", showReceipt(r), where, showEvents(found))
	}
	return nil
}

// valueRace lets sources claim the same values at once, alone and within a batch.
func valueRace(t T, h Harness) {
	const n, rounds = 10, 4
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	s.constrain(unique("name"), oncePerSource("once"))
	pool := s.db.pool()
	for round := range rounds {
		s.step++
		var winners atomic.Int64
		together(t, n, func(i int) error {
			events := []eventlog.Event{of(opened, fmt.Sprintf("r%d-%d", round, i), withName(fmt.Sprint(round)))}
			if i%2 == 1 {
				events = append(notes(2), events...)
			}
			_, err := appendedBy(t.Context(), pool(i), orders, events...)
			if err == nil {
				winners.Add(1)
			} else if !as[*eventlog.ViolationsError](err) {
				return err
			}
			return nil
		})
		page, err := s.store.events.ReadEvents(t.Context(), eventlog.ReadEvents{Sequence: orders, Filter: eventlog.Filter{EventTypes: []string{opened}}})
		if err != nil || winners.Load() != 1 || len(page.Events) != round+1 {
			s.failf("race for a value", "%d were told that they hold it, there are %d such events after %d rounds, %v", winners.Load(), len(page.Events), round+1, err)
		}
	}
}

// scopeRace lets goroutines append under the scope that each has seen. In each round
// exactly one gets through.
func scopeRace(t T, h Harness) {
	const n, rounds = 10, 4
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	pool := s.db.pool()
	for round := range rounds {
		s.step++
		tail, err := s.store.events.ReadTail(t.Context(), eventlog.ReadTail{Sequence: orders, Filter: eventlog.Filter{Source: "a"}})
		if err != nil {
			s.failf("read the tail", "%v", err)
		}
		var winners atomic.Int64
		together(t, n, func(i int) error {
			return taken(t.Context(), func() error {
				_, err := pool(i).events.AppendEvents(t.Context(), eventlog.AppendEvents{
					Sequence: orders, Events: []eventlog.Event{note("b", `1`), note("a", fmt.Sprint(i))}, Scopes: one(eventlog.Scope{Source: "a", Expected: tail.Expected()}),
				})
				if err == nil {
					winners.Add(1)
				} else if violated, ok := errors.AsType[*eventlog.ScopesViolatedError](err); ok {
					if v := violated.Violations[0]; v.Actual != uint64(2*round+1) {
						return fmt.Errorf("round %d: violated by %d", round, v.Actual)
					}
					return nil
				}
				return err
			})
		})
		tail, err = s.store.events.ReadTail(t.Context(), eventlog.ReadTail{Sequence: orders})
		if err != nil || winners.Load() != 1 || tail.Next != uint64(2*round+2) {
			s.failf("race under a scope", "round %d: %d got through, the next number is %d, %v", round, winners.Load(), tail.Next, err)
		}
	}
}

// newSequenceRace lets goroutines append the first events of new sequences.
func newSequenceRace(t T, h Harness) {
	const n, sequences = 12, 4
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	pool := s.db.pool()
	for k := range sequences {
		s.step++
		q := eventlog.Sequence{Namespace: shop, Name: fmt.Sprintf("new %d", k)}
		numbers := make([]uint64, n)
		together(t, n, func(i int) error {
			a, err := appendedBy(t.Context(), pool(i), q, note("a", fmt.Sprint(i)))
			numbers[i] = a.First
			return err
		})
		slices.Sort(numbers)
		for i, number := range numbers {
			if number != uint64(i) {
				s.failf("append to a new sequence", "the numbers given out are %v", numbers)
			}
		}
	}
}

// registrationRace registers a constraint while sources take the same values. What
// is appended after the registration is judged by it, with all that was stored.
func registrationRace(t T, h Harness) {
	const n, each = 8, 6
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	pool := s.db.pool()
	var revision atomic.Uint64
	var sent atomic.Int64
	var after [n][]uint64 // numbers of what was sent after the registration
	together(t, n+1, func(i int) error {
		if i == n {
			for sent.Load() < n { // so that handles have worked without it
				time.Sleep(100 * time.Microsecond)
			}
			return taken(t.Context(), func() error {
				r, err := pool(1).events.RegisterConstraints(t.Context(), eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{unique("name")}})
				if err == nil {
					revision.Store(r.Revision)
				}
				return err
			})
		}
		defer sent.Add(n)
		for k := range each {
			sent.Add(1)
			inForce := revision.Load() > 0
			a, err := appendedBy(t.Context(), pool(i), orders, of(opened, fmt.Sprintf("s%d", i), withName(fmt.Sprint((i+k)%each))))
			if err != nil && !errors.Is(err, countersign.ErrRefused) {
				return err
			}
			if err == nil && inForce {
				after[i] = append(after[i], a.First)
			}
		}
		return nil
	})
	events, err := readSequence(t.Context(), s.store, orders)
	if err != nil {
		s.failf("read", "%v", err)
	}
	r := rule{unique("name")}
	var held []hold
	for _, e := range events {
		if _, refused := r.refusedBy(held, e.Event); refused {
			for i, numbers := range after {
				if slices.Contains(numbers, e.Number) {
					s.failf("register under load", "event %d of goroutine %d was sent after the registration, and takes what another source holds", e.Number, i)
				}
			}
		}
		held = r.after(held, e.Event, e.Number, false)
	}
	s.model.events[orders] = events
	s.model.ask(eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{unique("name")}})
	for i := range each {
		e := of(opened, "late", withName(fmt.Sprint(i)))
		want := appended
		if found, _ := s.model.violations(orders, []eventlog.Event{e}); len(found) > 0 {
			want = violations
		}
		s.append(want, e)
	}
}

// mixedNeighbours lets appends of all kinds go into one sequence at once: each gets
// its own answer, whatever its neighbours get.
func mixedNeighbours(t T, h Harness) {
	const n, each = 16, 3
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	s.append(appended, note("seed", `1`))
	s.send(recordedEffect, outcomeOnly("there"))
	pool := s.db.pool()
	var events atomic.Int64
	together(t, n, func(i int) error {
		for k := range each {
			err := taken(t.Context(), func() error {
				id := fmt.Sprintf("o%d-%d", i, k)
				var req any
				var want string
				switch i % 5 {
				case 0:
					req, want = eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{note(id, `1`)}}, appended
				case 1:
					req, want = eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{note(id, `1`), of("nobody", id, `1`)}}, violations
				case 2:
					req, want = eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{note(id, `1`)}, Scopes: one(eventlog.Scope{Source: "seed", Expected: eventlog.NoneYet()})}, scopesViolated
				case 3:
					req, want = effect(id, note(id, `1`)), appended
				default:
					req, want = effect("there", note(id, `1`)), alreadyRecorded
				}
				got := askLog(t.Context(), pool(i), req)
				if errors.Is(got.err, countersign.ErrRetryable) {
					return got.err
				}
				if got.outcome(req) != want || got.err == nil && !got.settlement.Settled() {
					return fmt.Errorf("want %s, got %s: %s", want, got.outcome(req), describeLog(req))
				}
				if want == appended {
					events.Add(1)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	all, err := readSequence(t.Context(), s.store, orders)
	if err != nil || int64(len(all)) != events.Load()+1 {
		s.failf("append together", "%d events were acknowledged, and %d are there; %v", events.Load()+1, len(all), err)
	}
	known := map[string]bool{}
	for _, e := range all {
		if known[e.Source] {
			s.failf("append together", "%q was appended twice", e.Source)
		}
		known[e.Source] = true
	}
}

// crossingTransactions lets transactions append to two sequences, half of them in
// the other order. None may hang, and each is there whole.
func crossingTransactions(t T, h Harness) {
	const n, each = 6, 3
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	pool := s.db.pool()
	another := eventlog.Sequence{Namespace: shop, Name: "another"}
	together(t, n, func(i int) error {
		places := []eventlog.Sequence{orders, another}
		if i%2 == 1 {
			slices.Reverse(places)
		}
		for k := range each {
			err := takenOrConflict(t.Context(), func() error {
				return s.db.transactor(pool(i)).Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
					for _, q := range places {
						if _, err := tx.AppendEvents(ctx, eventlog.AppendEvents{Sequence: q, Events: []eventlog.Event{note(fmt.Sprintf("%d-%d", i, k), `1`)}}); err != nil {
							return err
						}
					}
					return nil
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	var sources [2][]string
	for i, q := range []eventlog.Sequence{orders, another} {
		events, err := readSequence(t.Context(), s.store, q)
		if err != nil {
			s.failf("read", "%v", err)
		}
		for _, e := range events {
			sources[i] = append(sources[i], e.Source)
		}
		slices.Sort(sources[i])
	}
	if len(sources[0]) != n*each || !slices.Equal(sources[0], sources[1]) {
		s.failf("crossing transactions", "the two sequences have the events of\n%q\n%q", sources[0], sources[1])
	}
}
