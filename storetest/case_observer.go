package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
)

// mailer is an observer of the sequence "orders".
var mailer = eventlog.ObserverKey{Sequence: orders, Name: "mailer"}

func (s *logSession) claim(want, holder string, startAt uint64) eventlog.ObserverState {
	s.Helper()
	state, _ := s.send(want, eventlog.ClaimObserver{Key: mailer, Holder: holder, StartAt: startAt}).value.(eventlog.ObserverState)
	return state
}

func (s *logSession) save(want string, fence, next uint64, partitions ...eventlog.PartitionProgress) {
	s.Helper()
	s.send(want, eventlog.SaveObserver{Key: mailer, Fence: fence, Next: next, Partitions: partitions})
}

func failed(source string, from uint64, text string) eventlog.PartitionProgress {
	return eventlog.PartitionProgress{Source: source, From: from, Error: text, Failed: true}
}

// quarantine lets a partition fail until it is quarantined.
func (s *logSession) quarantine(fence uint64, source string, from uint64) {
	s.Helper()
	for range 11 {
		s.save(saved, fence, from+1, failed(source, from, "it fails"))
		s.clock.pass(time.Second)
	}
}

var observerCases = []Case{
	observerCase("observer", "first_claim_creates_it", func(s *logSession) {
		if state := s.claim(claimed, "one", 0); state.Fence != 1 || state.Next != 0 || state.Holder != "one" {
			s.failf("claim", "got %s", showState(state))
		}
		key := mailer
		key.Name = "starts later"
		s.send(claimed, eventlog.ClaimObserver{Key: key, Holder: "one", StartAt: 1<<53 + 1})
		s.send(claimed, eventlog.ClaimObserver{Key: key, Holder: "one", StartAt: 7}) // of a new one only
	}),
	observerCase("observer", "holder_prolongs_and_keeps_its_fence", func(s *logSession) {
		s.claim(claimed, "one", 0)
		s.clock.pass(30 * time.Second)
		if state := s.claim(claimed, "one", 0); state.Fence != 1 {
			s.failf("claim", "got %s", showState(state))
		}
		s.clock.pass(50 * time.Second)
		s.claim(observerHeld, "two", 0)
		s.clock.pass(time.Hour) // it comes back before anybody else has claimed
		if state := s.claim(claimed, "one", 0); state.Fence != 1 {
			s.failf("claim", "got %s", showState(state))
		}
	}),
	observerCase("observer", "held_until_the_lease_ends", func(s *logSession) {
		s.claim(claimed, "one", 0)
		s.claim(observerHeld, "two", 0)
		s.clock.pass(time.Minute - time.Microsecond)
		s.claim(observerHeld, "two", 0)
		s.clock.pass(time.Microsecond)
		if state := s.claim(claimed, "two", 0); state.Fence != 2 || state.Holder != "two" {
			s.failf("claim", "got %s", showState(state))
		}
		s.claim(observerHeld, "one", 0)
		s.sendThrough(s.db.handle(), observerHeld, eventlog.ClaimObserver{Key: mailer, Holder: "three"})
	}),
	observerCase("observer", "lease_has_a_default_and_a_limit", func(s *logSession) {
		for i, lease := range []time.Duration{0, 1, time.Microsecond, time.Second, 10 * time.Minute, 10*time.Minute + 1, time.Hour, 1<<63 - 1} {
			key := mailer
			key.Name = fmt.Sprint(i)
			a := s.send(claimed, eventlog.ClaimObserver{Key: key, Holder: "one", Lease: lease}).value.(eventlog.ObserverState)
			s.send(saved, eventlog.SaveObserver{Key: key, Fence: a.Fence, Next: 1, Lease: lease})
		}
		s.send(malformed, eventlog.ClaimObserver{Key: mailer, Holder: "one", Lease: -1})
	}),
	observerCase("observer", "save_moves_the_cursor_and_prolongs", func(s *logSession) {
		s.claim(claimed, "one", 0)
		s.clock.pass(time.Second)
		s.save(saved, 1, 5)
		s.clock.pass(59 * time.Second)
		s.claim(observerHeld, "two", 0)
		s.save(saved, 1, 1<<53+1)
		s.save(saved, 1, 1<<63-1)
	}),
	observerCase("observer", "stale_save_is_refused", func(s *logSession) {
		s.claim(claimed, "one", 0)
		s.save(saved, 1, 5)
		s.clock.pass(2 * time.Minute)
		s.save(saved, 1, 6) // the lease is over, and nobody else has claimed
		s.clock.pass(2 * time.Minute)
		s.claim(claimed, "two", 0)
		s.save(staleObserver, 1, 9, failed("a", 3, "x"))
		s.save(staleObserver, 3, 9)
		s.save(staleObserver, 0, 9)
		s.save(saved, 2, 7)
	}),
	observerCase("observer", "release_gives_it_back", func(s *logSession) {
		s.claim(claimed, "one", 0)
		s.send(saved, eventlog.SaveObserver{Key: mailer, Fence: 1, Next: 4, Release: true})
		if state := s.claim(claimed, "two", 0); state.Fence != 2 || state.Next != 4 {
			s.failf("claim", "after a release: %s", showState(state))
		}
		s.save(staleObserver, 1, 5)
		s.send(saved, eventlog.SaveObserver{Key: mailer, Fence: 2, Next: 5, Release: true})
		s.claim(claimed, "two", 0) // a new claim, a new fence
	}),
	observerCase("observer", "unknown_one_is_told", func(s *logSession) {
		s.save(unknownObserver, 1, 1)
		s.send(unknownObserver, eventlog.RetryPartition{Key: mailer, Source: "a", Operator: "op"})
		s.send(unknownObserver, eventlog.ReplayObserver{Key: mailer})
		s.sameObserver(s.store, "nobody has claimed it", mailer)
		s.claim(claimed, "one", 0)
		for _, key := range []eventlog.ObserverKey{{Sequence: orders, Name: "Mailer"}, {Sequence: eventlog.Log(shop), Name: "mailer"}, {Sequence: eventlog.Sequence{Namespace: shopUS, Name: "orders"}, Name: "mailer"}} {
			s.sameObserver(s.store, "beside the one that is there", key)
			s.send(unknownObserver, eventlog.SaveObserver{Key: key, Fence: 1, Next: 1})
		}
	}),
	observerCase("observer", "failures_wait_twice_as_long_each_time", func(s *logSession) {
		s.claim(claimed, "one", 0)
		for i := range 10 {
			s.save(saved, 1, 10, failed("a", 3, fmt.Sprintf("failure %d", i)))
			p := s.model.observers[mailer].partitions["a"]
			if want := min(time.Second<<i, 10*time.Minute); p.RetryAt.Sub(micro(s.clock.Now())) != want || p.Quarantined {
				s.failf("save", "failure %d must wait %v, the model says %s", i+1, want, showPartition(p))
			}
			s.clock.pass(time.Hour)
		}
		s.save(saved, 1, 10, failed("a", 3, "the last one"))
		if p := s.model.observers[mailer].partitions["a"]; !p.Quarantined {
			s.failf("save", "after eleven failures: %s", showPartition(p))
		}
		s.save(saved, 1, 20) // the others go on
	}),
	observerCase("observer", "partition_that_comes_further_starts_again", func(s *logSession) {
		s.claim(claimed, "one", 0)
		for range 3 {
			s.save(saved, 1, 10, failed("a", 3, "x"))
		}
		s.save(saved, 1, 10, failed("a", 5, "another event"))
		s.save(saved, 1, 10, eventlog.PartitionProgress{Source: "a", From: 8})
		s.save(saved, 1, 10, failed("a", 8, "x"))
		s.save(saved, 1, 10, eventlog.PartitionProgress{Source: "a", From: 10, Done: true}, eventlog.PartitionProgress{Source: "never set aside", Done: true})
		s.save(saved, 1, 11, failed("a", 10, "it begins at one again"))
	}),
	observerCase("observer", "operator_lets_a_quarantined_partition_go_on", func(s *logSession) {
		s.claim(claimed, "one", 0)
		s.save(saved, 1, 10, failed("b", 3, "x"))
		s.quarantine(1, "a", 3)
		s.clock.pass(time.Hour)
		s.send(notQuarantined, eventlog.RetryPartition{Key: mailer, Source: "b", Operator: "op"})
		s.send(notQuarantined, eventlog.RetryPartition{Key: mailer, Source: "nobody", Operator: "op"})
		s.send(malformed, eventlog.RetryPartition{Key: mailer, Source: "a"})
		s.send(malformed, eventlog.RetryPartition{Key: mailer, Operator: "op"})
		s.send(retried, eventlog.RetryPartition{Key: mailer, Source: "a", Operator: "op@example.com"})
		s.send(notQuarantined, eventlog.RetryPartition{Key: mailer, Source: "a", Operator: "another"})
		s.save(saved, 1, 11, failed("a", 3, "again"))
		s.quarantine(1, "a", 3)
		s.clock.pass(time.Second)
		s.send(retried, eventlog.RetryPartition{Key: mailer, Source: "a", Operator: "another"})
		s.save(saved, 1, 12, eventlog.PartitionProgress{Source: "a", From: 12, Done: true})
		s.send(notQuarantined, eventlog.RetryPartition{Key: mailer, Source: "a", Operator: "op"})
	}),
	observerCase("observer", "error_text_is_made_fit_to_store", func(s *logSession) {
		s.claim(claimed, "one", 0)
		for i, text := range []string{
			"", "plain", "é 😀", "a\x00b", "\xff\xfe", "a\xffb\x00c", strings.Repeat("x", 4<<10), strings.Repeat("x", 4<<10+1), strings.Repeat("é", 3000), "x" + strings.Repeat("😀", 2000),
			strings.Repeat("\x00", 5000), strings.Repeat("\xff", 5000), strings.Repeat("\xff\x00", 5000), strings.Repeat("long ", 100_000),
		} {
			s.save(saved, 1, 10, failed(fmt.Sprintf("s%02d", i), 3, text))
		}
	}),
	observerCase("observer", "replay_of_all_begins_again", func(s *logSession) {
		s.claim(claimed, "one", 0)
		s.save(saved, 1, 20, failed("below", 4, "x"), failed("above", 9, "x"), failed("at", 5, "x"))
		a := s.send(replayed, eventlog.ReplayObserver{Key: mailer, From: 5}).value.(eventlog.ObserverState)
		if a.Fence != 2 || a.Holder != "" || a.Next != 5 || a.ReplayBefore != 20 {
			s.failf("replay", "got %s", showState(a))
		}
		s.save(staleObserver, 1, 21)
		s.claim(claimed, "one", 0)
		s.save(saved, 3, 12, failed("c", 11, "x")) // set aside in a replay: what it delivers is replayed too
		s.save(saved, 3, 20)
		s.save(saved, 3, 25)
		s.send(replayed, eventlog.ReplayObserver{Key: mailer})
		s.send(replayed, eventlog.ReplayObserver{Key: mailer}) // again, before it has begun
		s.claim(claimed, "two", 0)
		s.send(malformed, eventlog.ReplayObserver{Key: mailer, From: 1})
		s.send(malformed, eventlog.ReplayObserver{Key: mailer, From: 1 << 63})
	}),
	observerCase("observer", "replay_of_one_partition_leaves_the_others", func(s *logSession) {
		s.claim(claimed, "one", 0)
		s.save(saved, 1, 20, failed("b", 4, "x"))
		s.quarantine(1, "c", 19)
		s.send(replayed, eventlog.ReplayObserver{Key: mailer, Source: "a", From: 5})
		s.save(staleObserver, 1, 21)
		s.send(replayed, eventlog.ReplayObserver{Key: mailer, Source: "b", From: 10}) // it stands below that already
		s.send(replayed, eventlog.ReplayObserver{Key: mailer, Source: "c", From: 0})
		s.claim(claimed, "one", 0)
		s.save(saved, 5, 20, eventlog.PartitionProgress{Source: "a", From: 9}, failed("c", 2, "x"))
		s.send(malformed, eventlog.ReplayObserver{Key: mailer, Source: "a", From: 21})
		s.send(malformed, eventlog.ReplayObserver{Key: mailer, Source: "\xff"})
	}),
	observerCase("observer", "partitions_are_ordered_and_paged", func(s *logSession) {
		s.claim(claimed, "one", 0)
		var all []eventlog.PartitionProgress
		for _, source := range []string{"b", "a", "B", "ä", "a/1", "a 1", "𐀀", "\uffff", "aa", "10", "9", "é", "e\u0301"} {
			all = append(all, failed(source, 1, "of "+source))
		}
		s.save(saved, 1, 10, all...)
		for _, limit := range []int{0, 1, 3, 13, 14} {
			for after, n := "", 0; n < 20; n++ {
				page := s.partitions(s.store, "page", eventlog.ReadPartitions{Key: mailer, After: after, Limit: limit})
				if len(page) == 0 {
					break
				}
				after = page[len(page)-1].Source
			}
		}
		s.partitions(s.store, "page", eventlog.ReadPartitions{Key: mailer, After: "nobody", Limit: 2})
		for _, bad := range []eventlog.ReadPartitions{{Key: mailer, Limit: -1}, {Key: mailer, Limit: eventlog.MaxPageLimit + 1}, {Key: mailer, After: "\xff"}, {}, {Key: eventlog.ObserverKey{Sequence: orders}}} {
			if _, err := s.store.observers.ReadPartitions(s.Context(), bad); !errors.Is(err, countersign.ErrMalformed) {
				s.failf("read partitions", "%+v: want %q, got %v", bad, countersign.ErrMalformed, err)
			}
		}
	}),
	observerCase("observer", "due_is_told_by_the_stores_time", func(s *logSession) {
		s.claim(claimed, "one", 0)
		due := func(want ...string) {
			s.Helper()
			got := s.partitions(s.store, "due", eventlog.ReadPartitions{Key: mailer, Due: true})
			var names []string
			for _, p := range got {
				names = append(names, p.Source)
			}
			if fmt.Sprint(names) != fmt.Sprint(want) {
				s.failf("read due partitions", "want %q, got %q", want, names)
			}
		}
		s.quarantine(1, "q", 1)
		s.save(saved, 1, 10, failed("a", 1, "x"), failed("b", 1, "x"), eventlog.PartitionProgress{Source: "c", From: 1})
		s.save(saved, 1, 10, failed("b", 1, "x"))
		due("c")
		s.clock.pass(time.Second - time.Microsecond)
		due("c")
		s.clock.pass(time.Microsecond)
		due("a", "c")
		s.clock.pass(time.Second)
		due("a", "b", "c")
		s.partitions(s.store, "due", eventlog.ReadPartitions{Key: mailer, Due: true, Limit: 1})
		s.partitions(s.store, "due", eventlog.ReadPartitions{Key: mailer, Due: true, After: "a", Limit: 1})
		s.clock.pass(time.Hour)
		due("a", "b", "c")
		s.send(retried, eventlog.RetryPartition{Key: mailer, Source: "q", Operator: "op"})
		due("a", "b", "c", "q")
	}),
	observerCase("observer", "observers_are_apart", func(s *logSession) {
		keys := []eventlog.ObserverKey{mailer, {Sequence: orders, Name: "Mailer"}, {Sequence: orders, Name: "mailer "}, {Sequence: eventlog.Sequence{Namespace: shop, Name: "orders/mailer"}, Name: "x"}, {Sequence: eventlog.Sequence{Namespace: shop}, Name: "mailer"}, {Sequence: eventlog.Sequence{Namespace: shopUS, Name: "orders"}, Name: "mailer"}, {Sequence: eventlog.Sequence{Namespace: bank, Name: "orders"}, Name: "mailer"}}
		for i, key := range keys {
			n := uint64(i)
			s.send(claimed, eventlog.ClaimObserver{Key: key, Holder: fmt.Sprint(i), StartAt: n})
			s.send(saved, eventlog.SaveObserver{Key: key, Fence: 1, Next: 10 + n, Partitions: []eventlog.PartitionProgress{failed("a", n, fmt.Sprint(i)), failed(fmt.Sprint(i), n, "x")}})
		}
		s.send(replayed, eventlog.ReplayObserver{Key: keys[2], From: 0})
		s.sameAll("after several observers")
	}),
	observerCase("observer", "identities_of_512_bytes_fit", func(s *logSession) {
		id := func(first string) string { return first + randomLetters(512-len(first)) }
		key := eventlog.ObserverKey{Name: id("o")}
		key.Sequence.Name, key.Sequence.Namespace = id("q"), countersign.Namespace{EventStore: id("e"), Name: id("n")}
		other := key
		other.Name = key.Name[:511] + "~"
		for i, k := range []eventlog.ObserverKey{key, other} {
			s.send(claimed, eventlog.ClaimObserver{Key: k, Holder: id("h")})
			source := id("s")
			var all []eventlog.PartitionProgress
			for _, last := range []string{"~", "!", "#"} {
				all = append(all, failed(source[:511]+last, uint64(i), id("t")))
			}
			s.send(saved, eventlog.SaveObserver{Key: k, Fence: 1, Next: 5, Partitions: all})
			s.partitions(s.store, "of long names", eventlog.ReadPartitions{Key: k, After: source[:511] + "#"})
		}
	}),
	observerCase("observer", "malformed_requests_are_refused", func(s *logSession) {
		s.claim(claimed, "one", 0)
		twice := []eventlog.PartitionProgress{failed("a", 1, ""), {Source: "a", Done: true}}
		for _, req := range []any{
			eventlog.ClaimObserver{Key: mailer}, eventlog.ClaimObserver{Holder: "one"}, eventlog.ClaimObserver{Key: eventlog.ObserverKey{Sequence: orders}, Holder: "one"},
			eventlog.ClaimObserver{Key: mailer, Holder: "a\x00"}, eventlog.ClaimObserver{Key: mailer, Holder: "one", StartAt: 1 << 63}, eventlog.ClaimObserver{Key: mailer, Holder: strings.Repeat("x", 513)},
			eventlog.SaveObserver{Key: mailer, Fence: 1 << 63}, eventlog.SaveObserver{Key: mailer, Fence: 1, Next: 1 << 63}, eventlog.SaveObserver{Key: mailer, Fence: 1, Lease: -1},
			eventlog.SaveObserver{Key: mailer, Fence: 1, Partitions: twice}, eventlog.SaveObserver{Key: mailer, Fence: 1, Partitions: []eventlog.PartitionProgress{{Source: "a", Failed: true, Done: true}}},
			eventlog.SaveObserver{Key: mailer, Fence: 1, Partitions: []eventlog.PartitionProgress{{}}}, eventlog.SaveObserver{Key: mailer, Fence: 1, Partitions: []eventlog.PartitionProgress{failed("a", 1<<63, "")}},
			eventlog.SaveObserver{Key: mailer, Fence: 1, Partitions: make([]eventlog.PartitionProgress, eventlog.MaxPartitionSave+1)},
		} {
			s.exchangeOnly(malformed, req)
		}
		s.sameObserver(s.store, "after malformed requests", mailer)
	}),
	observerCase("observer", "many_partitions_are_saved_at_once", func(s *logSession) {
		s.claim(claimed, "one", 0)
		var all, done []eventlog.PartitionProgress
		for _, source := range numbered("s", 1500) {
			all = append(all, failed(source, 1, "x"))
			done = append(done, eventlog.PartitionProgress{Source: source, Done: true})
		}
		s.save(saved, 1, 10, all...)
		s.save(saved, 1, 11, append(done[:700:700], all[700:1400]...)...)
	}),
	{Group: "observer", Name: "concurrent_claims_have_one_holder", Needs: []Need{NeedEvents, NeedObservers}, Run: func(t T, h Harness) {
		s := newLogSession(t, h, true)
		pool := s.db.pool()
		const n = 12
		answers := make([]logAnswer, n)
		for round := range uint64(3) {
			together(t, n, func(i int) error {
				return taken(t.Context(), func() error {
					answers[i] = askLog(t.Context(), pool(i), eventlog.ClaimObserver{Key: mailer, Holder: fmt.Sprintf("holder %d of round %d", i, round)})
					if as[*eventlog.ObserverHeldError](answers[i].err) {
						return nil
					}
					return answers[i].err
				})
			})
			holders := 0
			for _, a := range answers {
				if a.err == nil {
					holders++
				}
			}
			state, err := s.store.observers.ReadObserver(t.Context(), mailer)
			if holders != 1 || err != nil || state.Fence != round+1 {
				s.failf("claim together", "%d claims succeeded, the observer is %s, %v", holders, showState(state), err)
			}
			s.clock.pass(time.Minute)
		}
	}},
}
