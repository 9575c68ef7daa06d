package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// logTransaction is a case about transactions of the event log.
func logTransaction(name string, body func(s *logSession)) Case {
	return sessionCase("log_atomically", name, true, []Need{NeedEvents, NeedReceipts, NeedObservers, NeedTransactions}, body)
}

var logTransactionCases = []Case{
	logTransaction("everything_of_it_commits_together", func(s *logSession) {
		s.commits(func(ctx context.Context, tx store.Backend) error {
			s.inside(ctx, tx, registered, types(eventlog.EventType{ID: "new", Schema: []byte(`{"type":"integer"}`)}))
			s.inside(ctx, tx, registered, eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{unique("name")}})
			s.inside(ctx, tx, appended, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{of("new", "a", `1`), of(opened, "a", withName("x"))}})
			s.inside(ctx, tx, appended, effect("o", of(opened, "b", withName("y"))))
			s.inside(ctx, tx, recordedEffect, outcomeOnly("p", "refused"))
			s.inside(ctx, tx, claimed, eventlog.ClaimObserver{Key: mailer, Holder: "one"})
			s.inside(ctx, tx, saved, eventlog.SaveObserver{Key: mailer, Fence: 1, Next: 2, Partitions: []eventlog.PartitionProgress{failed("a", 1, "x")}})
			return nil
		})
		s.append(violations, of(opened, "c", withName("y")), of("new", "a", `"x"`))
	}),
	logTransaction("reads_inside_see_its_writes", func(s *logSession) {
		s.append(appended, notes(2)...)
		s.commits(func(ctx context.Context, tx store.Backend) error {
			s.sameInside(ctx, tx, "before anything was written")
			s.inside(ctx, tx, appended, effect("o", fullEvent("1"), fullEvent("2")))
			s.sameInside(ctx, tx, "after an append")
			s.inside(ctx, tx, claimed, eventlog.ClaimObserver{Key: mailer, Holder: "one"})
			s.inside(ctx, tx, saved, eventlog.SaveObserver{Key: mailer, Fence: 1, Next: 2, Partitions: []eventlog.PartitionProgress{failed("a", 1, "x")}})
			s.inside(ctx, tx, registered, types(eventlog.EventType{ID: "new", Schema: []byte(`true`)}))
			s.sameInside(ctx, tx, "after everything else")
			return nil
		})
	}),
	logTransaction("appends_inside_follow_each_other", func(s *logSession) {
		s.constrain(unique("name"))
		s.append(appended, of(opened, "a", withName("x")))
		s.commits(func(ctx context.Context, tx store.Backend) error {
			to := func(want string, scopes []eventlog.Scope, events ...eventlog.Event) {
				s.Helper()
				s.inside(ctx, tx, want, eventlog.AppendEvents{Sequence: orders, Events: events, Scopes: scopes})
			}
			to(appended, nil, of(closedE, "a", `1`))
			to(appended, one(eventlog.Scope{Source: "b", Expected: eventlog.NoneYet()}), of(opened, "b", withName("x")))
			to(violations, nil, of(opened, "a", withName("x")))
			to(scopesViolated, one(eventlog.Scope{Source: "b", Expected: eventlog.NoneYet()}))
			to(appended, one(eventlog.Scope{Expected: eventlog.Seen(2)}), of(renamed, "b", withName("y")), of(opened, "a", withName("x")))
			s.inside(ctx, tx, appended, effect("o", notes(2)...))
			s.inside(ctx, tx, alreadyRecorded, effect("o", notes(2)...))
			s.inside(ctx, tx, alreadyRecorded, outcomeOnly("o", "refused"))
			return nil
		})
	}),
	logTransaction("error_of_the_body_rolls_back", func(s *logSession) {
		s.append(appended, of(opened, "a", withName("x")))
		s.claim(claimed, "one", 0)
		err := s.atomically(func(ctx context.Context, tx store.Backend) error {
			s.inside(ctx, tx, registered, types(eventlog.EventType{ID: "new", Schema: []byte(`true`)}))
			s.inside(ctx, tx, registered, eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{unique("name")}})
			s.inside(ctx, tx, appended, effect("o", of("new", "a", `1`), of(opened, "b", withName("y"))))
			s.inside(ctx, tx, recordedEffect, outcomeOnly("p"))
			s.inside(ctx, tx, saved, eventlog.SaveObserver{Key: mailer, Fence: 1, Next: 2, Partitions: []eventlog.PartitionProgress{failed("a", 1, "x")}})
			s.inside(ctx, tx, dropped, shop)
			return errBody
		})
		if !errors.Is(err, errBody) {
			s.failf("Atomically", "want the body's error, got %v", err)
		}
		s.sameAll("after a rollback")
		// Nothing that was compiled or claimed inside may be used now.
		s.append(violations, of("new", "a", `1`))
		s.append(appended, of(opened, "b", withName("x")), of(opened, "c", withName("y")))
		s.send(appended, effect("o", notes(1)...))
	}),
	logTransaction("panic_of_the_body_rolls_back", func(s *logSession) {
		func() {
			defer func() {
				if got := recover(); got != "body" {
					s.failf("Atomically", "want the body's panic, got %v", got)
				}
			}()
			err := s.atomically(func(ctx context.Context, tx store.Backend) error {
				// The answers are not compared with the model, which is not to hold them.
				_, err := tx.AppendWithReceipt(ctx, effect("o", notes(2)...))
				if err != nil {
					return err
				}
				panic("body")
			})
			s.Errorf("Atomically returned %v after its body panicked", err)
		}()
		s.remember(effect("o"))
		s.sameAll("after the panic")
		s.send(appended, effect("o", notes(1)...))
	}),
	logTransaction("refusal_leaves_it_usable", func(s *logSession) {
		s.constrain(unique("name"))
		s.append(appended, of(opened, "a", withName("x")))
		s.commits(func(ctx context.Context, tx store.Backend) error {
			s.inside(ctx, tx, appended, eventlog.AppendEvents{Sequence: orders, Events: notes(1)})
			s.inside(ctx, tx, violations, eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{of(opened, "b", withName("x"))}})
			s.inside(ctx, tx, violations, effect("o", of("nobody", "b", `1`)))
			s.inside(ctx, tx, scopesViolated, eventlog.AppendEvents{Sequence: orders, Events: notes(1), Scopes: one(eventlog.Scope{Expected: eventlog.NoneYet()})})
			s.inside(ctx, tx, malformed, effect("", notes(1)...))
			s.inside(ctx, tx, schemaChanged, types(eventlog.EventType{ID: opened, Schema: []byte(`true`)}))
			s.inside(ctx, tx, unknownObserver, eventlog.SaveObserver{Key: mailer, Fence: 1})
			s.inside(ctx, tx, appended, effect("o", notes(1)...))
			return nil
		})
	}),
	logTransaction("results_settle_with_the_commit", func(s *logSession) {
		s.send(recordedEffect, outcomeOnly("before"))
		for _, end := range []error{nil, errBody} {
			var answers []logAnswer
			reqs := []any{
				eventlog.AppendEvents{Sequence: orders, Events: notes(1)}, effect("o", notes(1)...), effect("o", notes(1)...), outcomeOnly("p"), outcomeOnly("before"),
				types(eventlog.EventType{ID: "new", Schema: []byte(`true`)}), bank,
			}
			if end == nil {
				reqs[1], reqs[2], reqs[3] = effect("q", notes(1)...), effect("q", notes(1)...), outcomeOnly("r")
				reqs[5] = types(eventlog.EventType{ID: "newer", Schema: []byte(`true`)})
			}
			err := s.atomically(func(ctx context.Context, tx store.Backend) error {
				answers = nil
				for _, req := range reqs {
					s.remember(req)
					expected := s.model.ask(req)
					got := askLog(ctx, handleOf(tx), req)
					if got.err != nil || got.outcome(req) != expected.outcome(req) || got.settlement.Settled() {
						s.failf("inside a transaction, "+describeLog(req), "want a provisional %s, got %s, settled %v", expected.show(req), got.show(req), got.settlement.Settled())
					}
					answers = append(answers, got)
				}
				return end
			})
			if !errors.Is(err, end) {
				s.failf("Atomically", "%v", err)
			}
			s.append(appended, notes(1)...)
			for i, got := range answers {
				if got.settlement.Settled() != (end == nil) {
					s.failf(describeLog(reqs[i]), "after the transaction ended with %v it is settled %v", end, got.settlement.Settled())
				}
			}
		}
	}),
	logTransaction("readers_outside_see_nothing_until_the_commit", func(s *logSession) {
		s.append(appended, notes(1)...)
		other, inner := s.db.handle(), s.store
		err := s.atomically(func(ctx context.Context, tx store.Backend) error {
			s.inside(ctx, tx, appended, effect("o", notes(2)...))
			s.inside(ctx, tx, recordedEffect, outcomeOnly("p"))
			s.inside(ctx, tx, claimed, eventlog.ClaimObserver{Key: mailer, Holder: "one"})
			s.inside(ctx, tx, registered, types(eventlog.EventType{ID: "new", Schema: []byte(`true`)}))
			after := s.model
			s.model = newLogModel(s.model.now)
			s.model.ask(types(standardTypes...))
			s.model.events[orders] = after.events[orders][:1]
			s.store = other
			s.sameAll("read through another handle before the commit")
			s.model, s.store = after, inner
			return nil
		})
		if err != nil {
			s.failf("Atomically", "%v", err)
		}
		s.store = other
		s.sameAll("read through another handle after the commit")
	}),
	logTransaction("commit_wakes_those_who_wait", func(s *logSession) {
		other := s.db.handle()
		ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
		defer cancel()
		woken := make(chan error, 1)
		go func() { woken <- other.events.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders, From: 1}) }()
		s.commits(func(ctx context.Context, tx store.Backend) error {
			s.inside(ctx, tx, appended, eventlog.AppendEvents{Sequence: orders, Events: notes(2)})
			select {
			case err := <-woken:
				s.failf("await events", "it returned before the commit: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			return nil
		})
		if err := <-woken; err != nil {
			s.failf("await events", "%v", err)
		}
	}),
	logTransaction("waiting_inside_is_refused_and_not_hung", func(s *logSession) {
		tr := s.db.transactor(s.store)
		err := tr.Atomically(s.Context(), func(ctx context.Context, tx store.Backend) error {
			return soon(s, "AwaitEvents inside a transaction", func() error {
				if err := tx.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders, From: 5}); !errors.Is(err, store.ErrNestedTransaction) {
					return fmt.Errorf("want %w, got %w", store.ErrNestedTransaction, err)
				}
				return nil
			})
		})
		if err != nil {
			s.failf("AwaitEvents inside a transaction", "%v", err)
		}
		// A call on the handle itself with the body's context must come back, too.
		for _, c := range logCalls() {
			if c.req == nil {
				continue
			}
			err := tr.Atomically(s.Context(), func(ctx context.Context, tx store.Backend) error {
				if _, err := tx.AppendEvents(ctx, eventlog.AppendEvents{Sequence: orders, Events: notes(1)}); err != nil {
					return err
				}
				_ = soon(s, c.name+" on the handle, inside a transaction of its own", func() error {
					return c.send(ctx, &handle{Store: s.store.Store, events: s.store.events, observers: s.store.observers, receipts: s.store.receipts})
				})
				return errBody
			})
			if !errors.Is(err, errBody) {
				s.failf("Atomically", "%v", err)
			}
		}
	}),
	logTransaction("tx_is_dead_after_its_end", func(s *logSession) {
		s.prepareCalls()
		for _, end := range []error{nil, errBody} {
			var dead store.Backend
			err := s.db.transactor(s.store).Atomically(s.Context(), func(_ context.Context, tx store.Backend) error {
				dead = tx
				return end
			})
			if !errors.Is(err, end) {
				s.failf("Atomically", "%v", err)
			}
			for _, c := range logCalls() {
				s.step++
				if err := c.send(s.Context(), handleOf(dead)); !errors.Is(err, store.ErrTxDone) || !errors.Is(err, countersign.ErrRefused) {
					s.failf(c.name, "a tx whose transaction has ended must give %q, it gave %v", store.ErrTxDone, err)
				}
			}
			s.sameAll("after calls on a dead tx")
		}
	}),
	logTransaction("context_ended_while_waiting_gives_no_wrong_result", appendWaits),
	logTransaction("drop_inside_begins_a_new_life", func(s *logSession) {
		s.constrain(unique("name"))
		s.send(appended, effect("o", of(opened, "a", withName("x"))))
		s.claim(claimed, "one", 0)
		s.commits(func(ctx context.Context, tx store.Backend) error {
			s.inside(ctx, tx, appended, eventlog.AppendEvents{Sequence: orders, Events: notes(2)})
			s.inside(ctx, tx, dropped, shop)
			s.sameInside(ctx, tx, "after a drop")
			s.inside(ctx, tx, appended, effect("o", of(opened, "b", withName("x"))))
			s.inside(ctx, tx, claimed, eventlog.ClaimObserver{Key: mailer, Holder: "two"})
			s.sameInside(ctx, tx, "in a new life")
			return nil
		})
	}),
}

// joinCase is a case about an owner and a sequence in one transaction.
func joinCase(name string, body func(s *logSession, owners *session)) Case {
	return sessionCase("join", name, false, []Need{NeedEvents, NeedReceipts, NeedOwners, NeedTransactions}, func(s *logSession) {
		s.Helper()
		owners := &session{T: s.T, db: s.db, store: s.store, model: model{}}
		for _, o := range subjects {
			owners.create(created, o, firstFence)
		}
		body(s, owners)
		owners.sameAll("at the end")
	})
}

// together runs a body that sends requests of both.
func (s *logSession) together(owners *session, body func(ctx context.Context, tx store.Backend) error) error {
	s.Helper()
	before := owners.model
	err := s.atomically(func(ctx context.Context, tx store.Backend) error {
		owners.model = model{}
		for id, img := range before {
			owners.model[id] = img
		}
		return body(ctx, tx)
	})
	if err != nil {
		owners.model = before
	}
	owners.sameAll("after a transaction")
	s.sameAll("after a transaction")
	return err
}

var joinCases = []Case{
	joinCase("owner_and_append_commit_together", func(s *logSession, owners *session) {
		for i, o := range subjects {
			err := s.together(owners, func(ctx context.Context, tx store.Backend) error {
				owners.inside(ctx, tx, committed, fullCommit(owners, o, "m1"))
				s.inside(ctx, tx, appended, effect(fmt.Sprint(i), fullEvent("1"), fullEvent("2")))
				s.inside(ctx, tx, recordedEffect, outcomeOnly("r"+fmt.Sprint(i), "refused"))
				return nil
			})
			if err != nil {
				s.failf("Atomically", "%v", err)
			}
		}
	}),
	joinCase("both_are_rolled_back_together", func(s *logSession, owners *session) {
		o := subjects[0]
		for range 2 {
			err := s.together(owners, func(ctx context.Context, tx store.Backend) error {
				s.inside(ctx, tx, appended, effect("o", fullEvent("1")))
				owners.inside(ctx, tx, committed, fullCommit(owners, o, "m1"))
				return errBody
			})
			if !errors.Is(err, errBody) {
				s.failf("Atomically", "want the body's error, got %v", err)
			}
		}
		s.send(appended, effect("o", notes(1)...))
		owners.commit(committed, fullCommit(owners, o, "m1"))
	}),
	joinCase("refused_append_leaves_the_owner_free", func(s *logSession, owners *session) {
		o := subjects[0]
		err := s.together(owners, func(ctx context.Context, tx store.Backend) error {
			owners.inside(ctx, tx, committed, fullCommit(owners, o, "m1"))
			s.inside(ctx, tx, violations, effect("o", of("nobody", "a", `1`)))
			s.inside(ctx, tx, recordedEffect, outcomeOnly("o", "it was refused"))
			return nil
		})
		if err != nil {
			s.failf("Atomically", "%v", err)
		}
		err = s.together(owners, func(ctx context.Context, tx store.Backend) error {
			stale := owners.next(o, "m2")
			stale.Fence--
			owners.inside(ctx, tx, staleFence, stale)
			s.inside(ctx, tx, appended, effect("p", notes(1)...))
			return nil
		})
		if err != nil {
			s.failf("Atomically", "%v", err)
		}
	}),
	joinCase("redelivery_finds_both", func(s *logSession, owners *session) {
		o := subjects[0]
		c := fullCommit(owners, o, "m1")
		for i, want := range [][2]string{{committed, appended}, {duplicate, alreadyRecorded}, {duplicate, alreadyRecorded}} {
			err := s.together(owners, func(ctx context.Context, tx store.Backend) error {
				owners.inside(ctx, tx, want[0], c)
				s.inside(ctx, tx, want[1], effect("o", notes(1+i)...))
				return nil
			})
			if err != nil {
				s.failf("Atomically", "%v", err)
			}
		}
	}),
	joinCase("concurrent_joins_are_whole", concurrentJoins),
}

// concurrentJoins lets goroutines commit to one owner and append to one sequence in
// one transaction each, of which some give up.
func concurrentJoins(s *logSession, owners *session) {
	const n, each = 6, 4
	pool := s.db.pool()
	o := subjects[0]
	together(s, n, func(i int) error {
		for k := range each {
			id := fmt.Sprintf("m%d-%d", i, k)
			var got receipt.Result
			err := takenOrConflict(s.Context(), func() error {
				return s.db.transactor(pool(i)).Atomically(s.Context(), func(ctx context.Context, tx store.Backend) error {
					head, err := tx.LoadOwner(ctx, durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{}})
					if err != nil {
						return err
					}
					if _, err := tx.CommitOwner(ctx, durable.Commit{Owner: o.id, ExpectedPosition: head.Position, Fence: head.Fence, Inbox: durable.Inbox{ID: id}, State: o.change(id)}); err != nil {
						return err
					}
					e := note(id, `1`)
					if got, err = tx.AppendWithReceipt(ctx, effect(id, e, e)); err == nil && k == each-1 {
						return errBody
					}
					return err
				})
			})
			if k == each-1 {
				if !errors.Is(err, errBody) || got.AckSafe() {
					return fmt.Errorf("a transaction that gave up: %w, ack safe %v", err, got.AckSafe())
				}
				continue
			}
			if err != nil || !got.AckSafe() {
				return fmt.Errorf("%s: %w, ack safe %v", id, err, got.AckSafe())
			}
		}
		return nil
	})
	events, err := readSequence(s.Context(), s.store, orders)
	if err != nil {
		s.failf("read", "%v", err)
	}
	img, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id})
	if err != nil || len(img.History) != n*(each-1) || len(events) != 2*len(img.History) {
		s.failf("concurrent joins", "%d commits and %d events of two each, want %d commits; %v", len(img.History), len(events), n*(each-1), err)
	}
	for i, r := range img.History {
		if a, b := events[2*i], events[2*i+1]; a.Source != string(r.Payload.Bytes) || b.Source != a.Source {
			s.failf("concurrent joins", "commit %d is %s, its events are of %s and %s", i+1, r.Payload.Bytes, a.Source, b.Source)
		}
	}
	owners.model[o.id] = &img
	s.model.events[orders] = events
	for _, e := range events {
		s.rememberKey(effect(e.Source).Key())
		if r, err := s.store.receipts.ReadReceipt(s.Context(), effect(e.Source).Key()); err != nil || e.Number < r.Receipt.First || e.Number > r.Receipt.Last {
			s.failf("concurrent joins", "the receipt of event %d is %s, %v", e.Number, showReceipt(r.Receipt), err)
		} else {
			s.model.receipts[r.Receipt.Key] = r.Receipt
		}
	}
}

// takenOrConflict repeats a request that was not taken, or whose owner has moved.
func takenOrConflict(ctx context.Context, send func() error) error {
	var err error
	for range 200 {
		if err = send(); !errors.Is(err, countersign.ErrRetryable) && !errors.Is(err, countersign.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// appendWaits appends while a transaction holds the sequence, with a context that
// ends soon. The call must return while the transaction is still open: with a
// retryable error and no trace, or with an unknown outcome.
func appendWaits(s *logSession) {
	s.append(appended, notes(1)...)
	e := note("unseen", `1`)
	e.CorrelationID = "unseen"
	for _, req := range []any{eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{e}}, effect("unseen", e)} {
		s.step++
		got, hung := whileHeld(s, s.db.transactor(s.store), func(ctx context.Context, tx store.Backend) error {
			_, err := tx.AppendEvents(ctx, eventlog.AppendEvents{Sequence: orders, Events: notes(1)})
			return err
		}, func(ctx context.Context) logAnswer { return askLog(ctx, s.store, req) })
		switch {
		case hung:
			s.failf(describeLog(req), "it waited for another transaction although its context had ended, and then returned %v", got.err)
		case got.err == nil:
			s.failf(describeLog(req), "it succeeded while another transaction held the sequence")
		case errors.Is(got.err, countersign.ErrUnknownOutcome):
			s.settleUnknown(describeLog(req), req, got.err)
		case !errors.Is(got.err, countersign.ErrRetryable) || !errors.Is(got.err, context.DeadlineExceeded):
			s.failf(describeLog(req), "want %q and %q, got %v", countersign.ErrRetryable, context.DeadlineExceeded, got.err)
		}
		s.remember(req)
		s.sameAll("after an append whose context ended while it waited")
	}
}
