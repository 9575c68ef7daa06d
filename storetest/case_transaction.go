package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// errBody is what a body returns to roll its transaction back.
var errBody = errors.New("storetest: the body gives up")

// transactionCase is a case on a session of a store with transactions, with an
// owner of each mode under firstFence.
func transactionCase(name string, body func(s *session, tr store.Transactor)) Case {
	return Case{Group: "atomically", Name: name, Needs: []Need{NeedOwners, NeedTransactions}, Run: func(t T, h Harness) {
		t.Helper()
		s := newSession(t, h)
		for _, o := range subjects {
			s.create(created, o, firstFence)
		}
		body(s, s.db.transactor(s.store))
		s.reopen()
	}}
}

// inside sends a request within a transaction and compares the answer with the
// model, which the caller takes back if the transaction is rolled back. Results
// inside are provisional, so none of them may be safe to acknowledge.
func (s *session) inside(ctx context.Context, tx store.Backend, want string, req request) {
	s.Helper()
	s.step++
	expected := s.model.ask(req)
	got := ask(ctx, tx, req)
	if got.ackSafe {
		s.failf("inside a transaction, "+describe(req), "the result is safe to acknowledge before the commit: %s", got)
	}
	expected.ackSafe = false
	if expected.outcome != want {
		s.failf("inside a transaction, "+describe(req), "the case wants %s, the rules say %s", want, expected)
	}
	if diff := got.differs(expected); diff != "" {
		s.failf("inside a transaction, "+describe(req), "%s", diff)
	}
}

// sameInside compares the store with the model within a transaction.
func (s *session) sameInside(ctx context.Context, tx store.Backend, what, owner string) {
	s.Helper()
	within := &session{T: inContext{s.T, ctx}, db: s.db, model: s.model, step: s.step}
	within.sameThrough(&handle{Store: tx}, what, owner)
}

// inContext is a T with another context.
type inContext struct {
	T
	ctx context.Context
}

func (c inContext) Context() context.Context { return c.ctx }

// atomically runs a body that sends its requests with inside. The body may run
// again, so each run begins with the model as it was, and a transaction that
// fails leaves it so.
func (s *session) atomically(tr store.Transactor, body func(ctx context.Context, tx store.Backend) error) error {
	s.Helper()
	before, done := s.model, false
	defer func() {
		if !done {
			s.model = before
		}
	}()
	err := tr.Atomically(s.Context(), func(ctx context.Context, tx store.Backend) error {
		s.model = maps.Clone(before) // images are replaced, never changed
		return body(ctx, tx)
	})
	done = err == nil
	return err
}

// soon runs f and ends the case if it does not come back: what waits for its own
// transaction waits for ever.
func soon(t T, what string, f func() error) error {
	t.Helper()
	const patience = 20 * time.Second
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		t.Fatalf("%s: no answer within %v", what, patience)
		return nil
	}
}

var transactionCases = []Case{
	transactionCase("two_owners_commit_together", func(s *session, tr store.Transactor) {
		err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
			for _, o := range subjects {
				s.inside(ctx, tx, committed, fullCommit(s, o, "m1"))
			}
			return nil
		})
		if err != nil {
			s.failf("Atomically", "%v", err)
		}
		s.sameAll("after the transaction")
	}),
	transactionCase("everything_a_store_does", func(s *session, tr store.Transactor) {
		o := subject{"created inside", durable.EventHistory}
		err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
			s.inside(ctx, tx, created, durable.CreateOwner{Owner: o.id, Mode: o.mode, Fence: 1})
			first := fullCommit(s, o, "m1")
			s.inside(ctx, tx, committed, first)
			s.inside(ctx, tx, duplicate, first)
			s.inside(ctx, tx, committed, fullCommit(s, o, "m2"))
			s.inside(ctx, tx, recorded, durable.RecordReceipt{Owner: o.id, Fence: 1, Receipt: terminal("r1", "pending of m1")})
			s.inside(ctx, tx, recordedBefore, durable.RecordReceipt{Owner: o.id, Fence: 1, Receipt: terminal("r1", "pending of m1")})
			s.inside(ctx, tx, fenceAdvanced, durable.AdvanceFence{Owner: o.id, Fence: 2})
			s.inside(ctx, tx, staleFence, durable.RecordReceipt{Owner: o.id, Fence: 1, Receipt: terminal("r2", "pending of m2")})
			s.inside(ctx, tx, created, durable.CreateOwner{Owner: o.id, Mode: o.mode})
			return nil
		})
		if err != nil {
			s.failf("Atomically", "%v", err)
		}
		s.sameAll("after the transaction")
	}),
	transactionCase("error_of_the_body_rolls_back", func(s *session, tr store.Transactor) {
		err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
			for _, o := range subjects {
				s.inside(ctx, tx, committed, fullCommit(s, o, "m1"))
				s.inside(ctx, tx, recorded, durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("r1", "pending of m1")})
				s.inside(ctx, tx, fenceAdvanced, durable.AdvanceFence{Owner: o.id, Fence: firstFence + 1})
			}
			s.inside(ctx, tx, created, durable.CreateOwner{Owner: "new", Mode: durable.Snapshot})
			return errBody
		})
		if err != errBody { //nolint:errorlint // wrapped would not be as it is
			s.failf("Atomically", "want the body's error as it is, got %v", err)
		}
		s.sameAll("after the rollback")
		s.same("after the rollback", "new")
		for _, o := range subjects {
			s.commit(committed, fullCommit(s, o, "m1"))
		}
	}),
	transactionCase("refusal_as_the_bodys_error_comes_back_typed", func(s *session, tr store.Transactor) {
		o := subjects[0]
		err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
			c := s.next(o, "m1")
			if _, err := tx.CommitOwner(ctx, c); err != nil {
				return err
			}
			_, err := tx.CommitOwner(ctx, s.next(o, "m2")) // still expects position 0
			return err
		})
		want := durable.PositionConflictError{Owner: o.id, Expected: 0, Actual: 1}
		if details(err) != want {
			s.failf("Atomically", "want %+v, got %v", want, err)
		}
		s.sameAll("after the rollback")
		s.commit(committed, s.next(o, "m1"))
	}),
	transactionCase("panic_of_the_body_rolls_back", func(s *session, tr store.Transactor) {
		for _, value := range []any{"a string", errBody, 7} {
			s.step++
			got := func() (p any) {
				defer func() { p = recover() }()
				err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
					s.inside(ctx, tx, committed, fullCommit(s, subjects[0], "m1"))
					panic(value)
				})
				s.Errorf("Atomically returned %v after its body panicked", err)
				return nil
			}()
			if got != value {
				s.failf("Atomically", "want the body's panic with %v, got %v", value, got)
			}
			s.sameAll("after the panic")
		}
		s.commit(committed, s.next(subjects[0], "m1"))
		s.commit(committed, s.next(subjects[1], "m1"))
	}),
	// B25: a statement that failed must not turn the commit into a rollback.
	transactionCase("refusal_leaves_it_usable", func(s *session, tr store.Transactor) {
		o := subjects[0]
		withEffects(s, o, "pending")
		err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
			refuse := func() {
				s.Helper()
				stale := s.next(o, "refused")
				stale.Fence++
				s.inside(ctx, tx, staleFence, stale)
				behind := s.next(o, "refused")
				behind.ExpectedPosition += 5
				s.inside(ctx, tx, positionConflict, behind)
				conflict := s.next(o, "refused")
				conflict.Effects = append(intents("unwritten"), durable.Intent{ID: "pending", Payload: text("other")})
				s.inside(ctx, tx, effectConflict, conflict)
				inbox := s.next(o, "for the effects")
				inbox.Inbox.Fingerprint = []byte("other")
				s.inside(ctx, tx, inboxConflict, inbox)
				wrong := s.next(o, "refused")
				wrong.State = o.other()
				s.inside(ctx, tx, modeMismatch, wrong)
				s.inside(ctx, tx, malformed, durable.Commit{Owner: o.id})
				s.inside(ctx, tx, unknownOwner, durable.Commit{Owner: "nobody", Inbox: durable.Inbox{ID: "m"}, State: o.change()})
				s.inside(ctx, tx, ownerConflict, durable.CreateOwner{Owner: o.id, Mode: durable.Snapshot})
				s.inside(ctx, tx, fenceStood, durable.AdvanceFence{Owner: o.id, Fence: 1})
				s.inside(ctx, tx, unknownEffect, durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("refused", "nothing")})
			}
			refuse()
			s.inside(ctx, tx, committed, fullCommit(s, o, "m1"))
			refuse()
			s.inside(ctx, tx, committed, fullCommit(s, o, "m2"))
			refuse()
			return nil
		})
		if err != nil {
			s.failf("Atomically", "refusals inside that the body did not return must not fail it: %v", err)
		}
		s.sameAll("after the transaction")
	}),
	transactionCase("results_settle_with_the_commit", func(s *session, tr store.Transactor) {
		o := subjects[0]
		before := s.next(o, "before")
		s.commit(committed, before)
		var fresh, again, earlier durable.Committed
		var receipted durable.ReceiptRecorded
		err := tr.Atomically(s.Context(), func(ctx context.Context, tx store.Backend) (err error) {
			c := fullCommit(s, o, "m1")
			if fresh, err = tx.CommitOwner(ctx, c); err != nil {
				return err
			}
			if again, err = tx.CommitOwner(ctx, c); err != nil {
				return err
			}
			if earlier, err = tx.CommitOwner(ctx, before); err != nil {
				return err
			}
			if receipted, err = tx.RecordReceipt(ctx, durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("r1", "pending of m1")}); err != nil {
				return err
			}
			if fresh.AckSafe() || again.AckSafe() || receipted.Settlement.Settled() {
				s.Errorf("results inside a transaction are safe before its commit: %+v, %+v, %+v", fresh, again, receipted)
			}
			if !again.Duplicate || !earlier.Duplicate {
				s.Errorf("redeliveries inside a transaction: %+v, %+v", again, earlier)
			}
			return nil
		})
		if err != nil {
			s.failf("Atomically", "%v", err)
		}
		if !fresh.AckSafe() || !again.AckSafe() || !earlier.AckSafe() || !receipted.Settlement.Settled() {
			s.failf("Atomically", "results are not settled after the commit: %+v, %+v, %+v, %+v", fresh, again, earlier, receipted)
		}
		s.model.ask(fullCommit(s, o, "m1"))
		s.model.ask(durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("r1", "pending of m1")})
		s.sameAll("after the transaction")
	}),
	transactionCase("results_never_settle_after_a_rollback", func(s *session, tr store.Transactor) {
		o := subjects[1]
		var results []durable.Committed
		body := func(end func() error) func(context.Context, store.Backend) error {
			return func(ctx context.Context, tx store.Backend) error {
				c := s.next(o, "m1")
				for range 2 {
					res, err := tx.CommitOwner(ctx, c)
					if err != nil {
						return err
					}
					results = append(results, res)
				}
				return end()
			}
		}
		if err := tr.Atomically(s.Context(), body(func() error { return errBody })); !errors.Is(err, errBody) {
			s.failf("Atomically", "%v", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = tr.Atomically(s.Context(), body(func() error { panic("body") }))
		}()
		s.commit(committed, s.next(o, "another"))
		for i, res := range results {
			if res.AckSafe() {
				s.failf("Atomically", "result %d of a transaction that was rolled back is safe to acknowledge: %+v", i, res)
			}
		}
	}),
	transactionCase("reads_inside_see_its_writes", func(s *session, tr store.Transactor) {
		err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
			for _, o := range subjects {
				s.sameInside(ctx, tx, "before anything was written", o.id)
				s.inside(ctx, tx, committed, fullCommit(s, o, "m1"))
				s.sameInside(ctx, tx, "after a commit inside", o.id)
				s.inside(ctx, tx, recorded, durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("r1", "pending of m1")})
				s.sameInside(ctx, tx, "after a receipt inside", o.id)
				s.inside(ctx, tx, fenceAdvanced, durable.AdvanceFence{Owner: o.id, Fence: firstFence + 1})
				s.sameInside(ctx, tx, "after a hand-off inside", o.id)
			}
			s.inside(ctx, tx, created, durable.CreateOwner{Owner: "new", Mode: durable.Snapshot})
			s.sameInside(ctx, tx, "after a creation inside", "new")
			return nil
		})
		if err != nil {
			s.failf("Atomically", "%v", err)
		}
	}),
	transactionCase("readers_outside_see_nothing_until_the_commit", func(s *session, tr store.Transactor) {
		other := s.db.handle()
		before := s.model
		err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
			for _, o := range subjects {
				s.inside(ctx, tx, committed, fullCommit(s, o, "m1"))
			}
			s.inside(ctx, tx, created, durable.CreateOwner{Owner: "new", Mode: durable.Snapshot})
			after := s.model
			s.model = before
			defer func() { s.model = after }()
			for _, o := range append([]subject{{id: "new"}}, subjects...) {
				s.sameThrough(other, "read through another handle before the commit", o.id)
			}
			return nil
		})
		if err != nil {
			s.failf("Atomically", "%v", err)
		}
		for _, o := range append([]subject{{id: "new"}}, subjects...) {
			s.sameThrough(other, "read through another handle after the commit", o.id)
		}
	}),
	transactionCase("tx_is_dead_after_its_end", func(s *session, tr store.Transactor) {
		for _, end := range []error{nil, errBody} {
			o := subjects[0]
			var dead store.Backend
			err := tr.Atomically(s.Context(), func(_ context.Context, tx store.Backend) error {
				dead = tx
				return end
			})
			if !errors.Is(err, end) {
				s.failf("Atomically", "%v", err)
			}
			for _, c := range callsOn(s, o) {
				s.step++
				if err := c.send(s.Context(), dead); !errors.Is(err, store.ErrTxDone) || !errors.Is(err, countersign.ErrRefused) {
					s.failf(c.name, "a tx whose transaction has ended must give %q, it gave %v", store.ErrTxDone, err)
				}
			}
			s.sameAll("after calls on a dead tx")
			s.same("after calls on a dead tx", "new")
		}
	}),
	transactionCase("nested_call_is_refused_and_not_hung", nestedCalls),
	transactionCase("context_ended_before_runs_no_body", func(s *session, tr store.Transactor) {
		cancelled, cancel := context.WithCancel(s.Context())
		cancel()
		var none context.Context
		for _, ctx := range []context.Context{cancelled, none} {
			s.step++
			ran := false
			err := tr.Atomically(ctx, func(context.Context, store.Backend) error { ran = true; return nil })
			if ran {
				s.failf("Atomically", "the body ran with context %v", ctx)
			}
			if ctx == nil && !errors.Is(err, countersign.ErrMalformed) || ctx != nil && (!errors.Is(err, context.Canceled) || !errors.Is(err, countersign.ErrRetryable)) {
				s.failf("Atomically", "with context %v: %v", ctx, err)
			}
		}
		s.commit(committed, s.next(subjects[0], "m1"))
	}),
	transactionCase("context_ended_inside_gives_no_wrong_result", func(s *session, tr store.Transactor) {
		o := subjects[0]
		c := fullCommit(s, o, "m1")
		var res durable.Committed
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		err := tr.Atomically(ctx, func(ctx context.Context, tx store.Backend) (err error) {
			res, err = tx.CommitOwner(ctx, c)
			cancel()
			return err
		})
		switch kind, wrong := kindOf(err); {
		case err == nil:
			if !res.AckSafe() {
				s.failf("Atomically", "it returned nil, and its result is not settled")
			}
			s.model.ask(c)
		case wrong != nil:
			s.failf("Atomically", "%v", wrong)
		case res.AckSafe():
			s.failf("Atomically", "it returned %v, and its result is settled", err)
		case kind == unknownOutcome:
			s.model.ask(c)
			if _, err := s.store.CommitOwner(s.Context(), c); err != nil {
				s.failf(describe(c), "after an unknown outcome: %v", err)
			}
		case kind != retryable:
			s.failf("Atomically", "want %q or an unknown outcome, got %v", countersign.ErrRetryable, err)
		}
		s.sameAll("after the transaction")
		s.commit(committed, s.next(o, "m2"))
	}),
	transactionCase("closed_handle_refuses", func(s *session, _ store.Transactor) {
		hd := s.db.handle()
		tr := s.db.transactor(hd)
		if err := hd.backend.Close(); err != nil {
			s.failf("close", "%v", err)
		}
		ran := false
		err := tr.Atomically(s.Context(), func(context.Context, store.Backend) error { ran = true; return nil })
		if !errors.Is(err, store.ErrClosed) || ran {
			s.failf("Atomically", "a closed handle must give %q and run no body, it gave %v, ran %v", store.ErrClosed, err, ran)
		}
	}),
	{Group: "atomically", Name: "transfers_in_both_directions_all_succeed", Needs: []Need{NeedOwners, NeedTransactions}, Run: transfers},
	{Group: "atomically", Name: "verdict_never_rests_on_what_is_rolled_back", Needs: []Need{NeedOwners, NeedTransactions}, Run: noDirtyVerdict},
}

// nestedCalls calls the backend itself with the context of a body that holds the
// owner's row. Where the call would wait for that, it must be refused.
func nestedCalls(s *session, tr store.Transactor) {
	o := subjects[0]
	var answers []string
	err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
		s.inside(ctx, tx, committed, s.next(o, "m1"))
		_, err := s.nested("CommitOwner", func() error { _, err := s.store.CommitOwner(ctx, s.next(o, "nested")); return err })
		if !errors.Is(err, store.ErrNestedTransaction) || !errors.Is(err, countersign.ErrRefused) {
			s.failf("CommitOwner inside a body, on the backend", "want %q, got %v", store.ErrNestedTransaction, err)
		}
		for _, c := range callsOn(s, o) {
			answer, err := s.nested(c.name, func() error { return c.send(ctx, s.store) })
			answers = append(answers, answer)
			// Reads need not wait. Of the writes only one to another owner need not.
			if c.name == "AdvanceFence" || c.name == "RecordReceipt" || c.name == "CommitOwner" {
				if !errors.Is(err, store.ErrNestedTransaction) {
					s.failf(c.name+" inside a body, on the backend", "want %q, got %v", store.ErrNestedTransaction, err)
				}
			} else if err != nil && !errors.Is(err, store.ErrNestedTransaction) {
				s.failf(c.name+" inside a body, on the backend", "want nil or %q, got %v", store.ErrNestedTransaction, err)
			}
		}
		answer, err := s.nested("Atomically", func() error {
			return tr.Atomically(ctx, func(context.Context, store.Backend) error { return nil })
		})
		if err != nil && !errors.Is(err, store.ErrNestedTransaction) {
			s.failf("Atomically inside a body", "want nil or %q, got %v", store.ErrNestedTransaction, err)
		}
		answers = append(answers, answer)
		s.inside(ctx, tx, committed, s.next(o, "m2")) // and it is still usable
		return nil
	})
	if err != nil {
		s.failf("Atomically", "%v", err)
	}
	s.Logf("nested calls: %q", answers)
	s.sameAll("after the transaction")
}

// nested makes a call that could wait for itself, and returns what came of it.
func (s *session) nested(name string, call func() error) (string, error) {
	s.Helper()
	s.step++
	err := soon(s.T, name+" inside a body, on the backend", call)
	return fmt.Sprintf("%s: %v", name, err), err
}

// transfers moves between two owners in both directions at once (B27). Whoever
// loses a deadlock or a conflict begins again; in the end all are done, and both
// owners have all of it.
func transfers(t T, h Harness) {
	const movers, each = 4, 15
	db := newDatabase(t, h)
	pool := db.pool()
	owners := []subject{{"debit", durable.EventHistory}, {"credit", durable.EventHistory}}
	for _, o := range owners {
		newOwner(t, pool(0), o)
	}
	together(t, movers, func(i int) error {
		from, to := owners[i%2], owners[(i+1)%2]
		tr := pool(i / 2).backend.(store.Transactor)
		for n := range each {
			inbox := fmt.Sprintf("mover %d, transfer %d", i, n)
			err := errors.New("not tried")
			for attempts := 0; err != nil; attempts++ {
				err = tr.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
					for _, o := range []subject{from, to} {
						img, err := tx.LoadOwner(ctx, durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{}})
						if err != nil {
							return err
						}
						c := durable.Commit{Owner: o.id, ExpectedPosition: img.Position, Fence: img.Fence, Inbox: durable.Inbox{ID: inbox}, State: o.change(inbox)}
						if _, err := tx.CommitOwner(ctx, c); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil && !errors.Is(err, countersign.ErrRetryable) && !errors.Is(err, countersign.ErrConflict) || attempts > 1000 {
					return fmt.Errorf("%s, attempt %d: %w", inbox, attempts, err)
				}
			}
		}
		return nil
	})
	for _, o := range owners {
		if img := recoverOwner(t, db, o.id); img.Position != movers*each || len(img.Inbox) != movers*each {
			t.Errorf("%s is at %d with %d deliveries, want %d", o.id, img.Position, len(img.Inbox), movers*each)
		}
	}
}

// noDirtyVerdict sends a delivery while a transaction that holds the same
// delivery is under way, and rolls that one back. The other must not have been
// told that it is a duplicate, or that somebody is ahead of it.
func noDirtyVerdict(t T, h Harness) {
	const rounds = 8
	db := newDatabase(t, h)
	pool := db.pool()
	o := subjects[0]
	newOwner(t, pool(0), o)
	tr := pool(0).backend.(store.Transactor)
	for round := range rounds {
		c := durable.Commit{
			Owner: o.id, ExpectedPosition: uint64(round), Fence: firstFence, Inbox: durable.Inbox{ID: fmt.Sprint(round)}, State: o.change("state"),
		}
		var res durable.Committed
		written, sent := make(chan struct{}), make(chan struct{})
		var once, begun sync.Once
		together(t, 2, func(i int) error {
			if i == 1 {
				<-written
				return taken(t.Context(), func() (err error) {
					once.Do(func() { close(sent) })
					res, err = pool(1).CommitOwner(t.Context(), c)
					return err
				})
			}
			defer begun.Do(func() { close(written) })
			err := tr.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
				if _, err := tx.CommitOwner(ctx, c); err != nil {
					return err
				}
				begun.Do(func() { close(written) })
				<-sent
				// Let the other one get as far as it can.
				for range 50 {
					if _, err := tx.ReadHistory(ctx, durable.ReadHistory{Owner: o.id}); err != nil {
						return err
					}
				}
				return errBody
			})
			if !errors.Is(err, errBody) {
				return fmt.Errorf("the transaction to roll back: %w", err)
			}
			return nil
		})
		if res.Duplicate || res.Through != uint64(round)+1 || !res.AckSafe() {
			t.Fatalf("round %d: a delivery beside one that was rolled back was answered %+v", round, res)
		}
	}
	if img := recoverOwner(t, db, o.id); img.Position != rounds {
		t.Fatalf("%d deliveries were acknowledged, the owner is at %d", rounds, img.Position)
	}
}
