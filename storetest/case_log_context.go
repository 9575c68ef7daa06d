package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

var logContextCases = []Case{
	sessionCase("log_context", "cancelled_before_leaves_no_trace", true, allNeeds, func(s *logSession) {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		s.endedBefore(ctx, context.Canceled)
	}),
	sessionCase("log_context", "deadline_before_leaves_no_trace", true, allNeeds, func(s *logSession) {
		ctx, cancel := context.WithDeadline(s.Context(), time.Unix(1, 0))
		defer cancel()
		s.endedBefore(ctx, context.DeadlineExceeded)
	}),
	sessionCase("log_context", "nil_is_malformed", true, allNeeds, func(s *logSession) {
		s.prepareCalls()
		for _, c := range logCalls() {
			s.step++
			var none context.Context
			if err := c.send(none, s.store); !errors.Is(err, countersign.ErrMalformed) {
				s.failf(c.name, "a nil context must be malformed, got %v", err)
			}
		}
		s.sameAll("after calls with a nil context")
	}),
	{Group: "log_context", Name: "ended_during_the_call_gives_no_wrong_result", Needs: []Need{NeedEvents, NeedReceipts}, Run: appendEndsDuring},
	sessionCase("log_context", "closed_handle_refuses_every_call", true, allNeeds, func(s *logSession) {
		s.prepareCalls()
		hd := s.db.handle()
		if err := hd.backend.Close(); err != nil {
			s.failf("close", "%v", err)
		}
		for _, c := range logCalls() {
			s.step++
			if err := c.send(s.Context(), hd); !errors.Is(err, store.ErrClosed) || !errors.Is(err, countersign.ErrRefused) {
				s.failf(c.name, "a closed handle must give %q, it gave %v", store.ErrClosed, err)
			}
		}
		s.sameAll("after calls on a closed handle")
		s.append(appended, notes(1)...)
	}),
	// Opened again, it goes on where it was.
	sessionCase("log_context", "opened_again_holds_everything", true, allNeeds, func(s *logSession) {
		s.constrain(unique("name"))
		s.send(appended, effect("o", of(opened, "a", withName("x"))))
		s.claim(claimed, "one", 0)
		s.save(saved, 1, 1, failed("a", 0, "x"))
		s.reopen()
		s.append(violations, of(opened, "b", withName("x")))
		s.send(alreadyRecorded, effect("o", notes(1)...))
		s.append(appended, notes(2)...)
		s.claim(observerHeld, "two", 0)
		s.reopen()
		s.within(scopesViolated, one(eventlog.Scope{Source: "a", Expected: eventlog.NoneYet()}))
		s.save(saved, 1, 2, failed("a", 0, "y"))
	}),
	sessionCase("log_context", "two_handles_see_each_other", true, allNeeds, func(s *logSession) {
		first, second := s.store, s.db.handle()
		s.constrain(unique("name"))
		for i := range 4 {
			id := fmt.Sprint(i)
			s.store = first
			s.send(appended, effect("o"+id, of(opened, "a"+id, withName(id))))
			s.store = second
			s.sameAll("read through the other handle")
			s.send(alreadyRecorded, effect("o"+id, notes(3)...))
			s.append(violations, of(opened, "b", withName(id)))
			s.within(scopesViolated, one(eventlog.Scope{Source: "a" + id, Expected: eventlog.NoneYet()}))
			s.append(appended, notes(1)...)
			s.store = first
			s.sameAll("read through the first handle")
		}
	}),
}

// endedBefore demands that every method refuses a context that has ended, with an
// error that says so and that the request may be repeated, and writes nothing.
func (s *logSession) endedBefore(ctx context.Context, cause error) {
	s.Helper()
	s.prepareCalls()
	for _, c := range logCalls() {
		s.step++
		err := c.send(ctx, s.store)
		if !errors.Is(err, cause) || !errors.Is(err, countersign.ErrRetryable) {
			s.failf(c.name, "want an error that is %q and %q, got %v", cause, countersign.ErrRetryable, err)
		}
		if _, wrong := kindOf(err); wrong != nil {
			s.failf(c.name, "%v", wrong)
		}
	}
	s.sameAll("after calls with a context that had ended")
}

// appendEndsDuring cancels contexts while appends are under way, at no moment in
// particular. A success is there, a retryable error has left nothing; after an
// unknown outcome the append with a receipt is repeated, and the events of one
// without are looked for where the error says.
func appendEndsDuring(t T, h Harness) {
	const rounds = 40
	s := newLogSession(t, h, false)
	s.send(registered, types(standardTypes...))
	answers := map[string]int{}
	began := time.Now()
	for range 4 {
		s.exchangeOnly(appended, eventlog.AppendEvents{Sequence: orders, Events: notes(2)})
	}
	usual := time.Since(began) / 4
	for i := range rounds {
		s.step++
		id := fmt.Sprintf("o%d", i)
		e := note("a", fmt.Sprint(i))
		e.CorrelationID = id
		var req any = effect(id, e, e)
		if i%2 == 1 {
			req = eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{e, e}}
		}
		what := fmt.Sprintf("append %d, cancelled on its way", i)
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan struct{})
		go func() {
			defer close(cancelled)
			defer cancel()
			until := time.Now().Add(usual * time.Duration(i) * 3 / (2 * rounds)) // a little later each time
			for time.Now().Before(until) {
				runtime.Gosched()
			}
		}()
		got := askLog(ctx, s.store, req)
		<-cancelled
		switch kind, wrong := kindOf(got.err); {
		case got.err == nil:
			answers["appended"]++
			s.remember(req)
			expected := s.learn(got, s.model.ask(req))
			if diff := got.differs(req, expected); diff != "" {
				s.failf(what, "%s", diff)
			}
		case wrong != nil:
			s.failf(what, "%v", wrong)
		case kind == retryable:
			answers["retryable"]++
		case kind == unknownOutcome:
			answers["unknown"]++
			s.settleUnknown(what, req, got.err)
		default:
			s.failf(what, "a cancelled append is not refused: %v", got.err)
		}
		s.sameSequence(s.store, what, orders)
		s.sameReceipts(s.store, what, shop)
	}
	t.Logf("%d appends with a context that ends: %v", rounds, answers)
	s.reopen()
}

// settleUnknown finds out what became of an append, as its error says, and tells the
// model.
func (s *logSession) settleUnknown(what string, req any, err error) {
	s.Helper()
	s.remember(req)
	if _, is := req.(receipt.AppendWithReceipt); is {
		if !as[*receipt.UnknownOutcomeError](err) {
			s.failf(what, "want a *receipt.UnknownOutcomeError, got %v", err)
		}
		got := askLog(s.Context(), s.store, req)
		if got.err != nil {
			s.failf(what, "the repetition after an unknown outcome: %v", got.err)
		}
		v := got.value.(receipt.Result)
		v.AlreadyRecorded = false // it may be its own
		got.value = v
		expected := s.learn(got, s.model.ask(req))
		if diff := got.differs(req, expected); diff != "" {
			s.failf(what, "the repetition after an unknown outcome: %s", diff)
		}
		return
	}
	r := req.(eventlog.AppendEvents)
	unknown, ok := errors.AsType[*eventlog.UnknownOutcomeError](err)
	if !ok || unknown.Op != eventlog.OpAppend || unknown.Sequence != r.Sequence.Named() || unknown.From > uint64(len(s.model.events[r.Sequence.Named()])) {
		s.failf(what, "want an *eventlog.UnknownOutcomeError of this append, whose From is not above %d, got %+v", len(s.model.events[r.Sequence.Named()]), err)
	}
	// The store may still be at it. When its handles are closed, it is not.
	s.db.close()
	s.store = s.db.handle()
	page, err := s.store.events.ReadEvents(s.Context(), eventlog.ReadEvents{Sequence: r.Sequence, From: unknown.From})
	if err != nil {
		s.failf(what, "read from %d on: %v", unknown.From, err)
	}
	for _, e := range page.Events {
		if e.CorrelationID == r.Events[0].CorrelationID {
			s.model.ask(req)
			return
		}
	}
}
