package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// copied returns the model in memory of its own, so far as requests change it.
func (m *logModel) copied() *logModel {
	c := &logModel{now: m.now, stores: map[string]*eventStoreModel{}, events: map[eventlog.Sequence][]eventlog.Recorded{}, receipts: maps.Clone(m.receipts), observers: map[eventlog.ObserverKey]*observerModel{}}
	for name, s := range m.stores {
		own := *s
		own.types, own.rules, own.removed = slices.Clone(s.types), slices.Clone(s.rules), slices.Clone(s.removed)
		c.stores[name] = &own
	}
	for q, events := range m.events {
		c.events[q] = slices.Clone(events)
	}
	for key, o := range m.observers {
		c.observers[key] = &observerModel{o.state, maps.Clone(o.partitions)}
	}
	return c
}

// handleOf returns a transaction as a handle.
func handleOf(tx store.Backend) *handle {
	return &handle{Store: tx, events: tx, observers: tx, receipts: tx}
}

// atomically runs a body that sends its requests with inside. The body may run
// again, so each run begins with the model as it was, and a transaction that fails
// leaves it so.
func (s *logSession) atomically(body func(ctx context.Context, tx store.Backend) error) error {
	s.Helper()
	before, done := s.model, false
	defer func() {
		if !done {
			s.model = before
		}
	}()
	err := s.db.transactor(s.store).Atomically(s.Context(), func(ctx context.Context, tx store.Backend) error {
		s.model = before.copied()
		return body(ctx, tx)
	})
	done = err == nil
	return err
}

// commits is atomically for a body that must get through.
func (s *logSession) commits(body func(ctx context.Context, tx store.Backend) error) {
	s.Helper()
	if err := s.atomically(body); err != nil {
		s.failf("Atomically", "%v", err)
	}
	s.sameAll("after a transaction")
}

// inside sends a request within a transaction and compares the answer with the
// model. Results inside are provisional: none may be safe to acknowledge.
func (s *logSession) inside(ctx context.Context, tx store.Backend, want string, req any) logAnswer {
	s.Helper()
	s.step++
	s.remember(req)
	what := "inside a transaction, " + describeLog(req)
	expected := s.model.ask(req)
	got := askLog(ctx, handleOf(tx), req)
	expected = s.learn(got, expected)
	switch got.value.(type) {
	case eventlog.Registered, eventlog.Appended, eventlog.Dropped, receipt.Result:
		if got.err == nil && got.settlement.Settled() {
			s.failf(what, "the result is settled before the commit: %s", got.show(req))
		}
	}
	got.settlement = nil
	if outcome := expected.outcome(req); outcome != want {
		s.failf(what, "the case wants %s, the model says %s", want, expected.show(req))
	}
	if diff := got.differs(req, expected); diff != "" {
		s.failf(what, "%s", diff)
	}
	return got
}

// sameInside compares everything within a transaction.
func (s *logSession) sameInside(ctx context.Context, tx store.Backend, what string) {
	s.Helper()
	within := *s
	within.T, within.store, within.provisional = inContext{s.T, ctx}, handleOf(tx), true
	within.sameAll("inside a transaction, " + what)
}

// abort runs a request up to its commit point and loses the process there: the
// transaction is rolled back and every handle is gone.
func (s *logSession) abort(req any) {
	s.Helper()
	var inside logAnswer
	err := s.db.transactor(s.store).Atomically(s.Context(), func(ctx context.Context, tx store.Backend) error {
		if inside = askLog(ctx, handleOf(tx), req); inside.err != nil && logOutcomeOf(inside.err) == unexpected {
			s.Errorf("a request that is aborted later failed inside its transaction: %v", inside.err)
		}
		return errProcessLost
	})
	if !errors.Is(err, errProcessLost) {
		s.Errorf("an aborted transaction must return its body's error, it returned: %v", err)
	}
	if inside.err == nil && inside.settlement.Settled() {
		s.Errorf("the result of an aborted transaction is settled: %s", inside.show(req))
	}
	s.db.close()
}
