package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// call is one method of the store with a request that would succeed.
type call struct {
	name string
	send func(ctx context.Context, s durable.Store) error
}

// callsOn returns every method, each with a request that the owner would accept.
func callsOn(s *session, o subject) []call {
	return []call{
		{"CreateOwner", func(ctx context.Context, st durable.Store) error {
			_, err := st.CreateOwner(ctx, durable.CreateOwner{Owner: "new", Mode: o.mode})
			return err
		}},
		{"LoadOwner", func(ctx context.Context, st durable.Store) error {
			_, err := st.LoadOwner(ctx, durable.LoadOwner{Owner: o.id})
			return err
		}},
		{"LoadOwner in parts", func(ctx context.Context, st durable.Store) error {
			_, err := st.LoadOwner(ctx, durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{State: true, Pending: true}})
			return err
		}},
		{"CommitOwner", func(ctx context.Context, st durable.Store) error {
			c := s.next(o, "unseen")
			c.Effects = intents("unseen")
			_, err := st.CommitOwner(ctx, c)
			return err
		}},
		{"AdvanceFence", func(ctx context.Context, st durable.Store) error {
			_, err := st.AdvanceFence(ctx, durable.AdvanceFence{Owner: o.id, Fence: firstFence + 1})
			return err
		}},
		{"RecordReceipt", func(ctx context.Context, st durable.Store) error {
			_, err := st.RecordReceipt(ctx, durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("unseen", "pending")})
			return err
		}},
		{"ReadHistory", func(ctx context.Context, st durable.Store) error {
			_, err := st.ReadHistory(ctx, durable.ReadHistory{Owner: o.id})
			return err
		}},
		{"ReadPending", func(ctx context.Context, st durable.Store) error {
			_, err := st.ReadPending(ctx, durable.ReadPending{Owner: o.id})
			return err
		}},
	}
}

var contextCases = []Case{
	bothModes("context", "cancelled_before_leaves_no_trace", func(s *session, o subject) {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		ended(ctx, s, o, context.Canceled)
	}),
	bothModes("context", "deadline_before_leaves_no_trace", func(s *session, o subject) {
		ctx, cancel := context.WithDeadline(s.Context(), time.Unix(1, 0))
		defer cancel()
		ended(ctx, s, o, context.DeadlineExceeded)
	}),
	bothModes("context", "cancelled_with_a_cause_leaves_no_trace", func(s *session, o subject) {
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(errors.New("the caller's own reason"))
		ended(ctx, s, o, context.Canceled)
	}),
	bothModes("context", "nil_is_malformed", func(s *session, o subject) {
		withEffects(s, o, "pending")
		for _, c := range callsOn(s, o) {
			s.step++
			var none context.Context
			err := c.send(none, s.store)
			if !errors.Is(err, countersign.ErrMalformed) {
				s.failf(c.name, "a nil context must be malformed, got %v", err)
			}
			s.same(c.name+" with a nil context", o.id)
			s.same(c.name+" with a nil context", "new")
		}
	}),
	{Group: "context", Name: "ended_during_the_call_gives_no_wrong_result", Needs: []Need{NeedOwners}, Run: endsDuring},
}

// ended demands that every method refuses a context that has ended, with an
// error that says so and that the request may be repeated, and writes nothing.
func ended(ctx context.Context, s *session, o subject, cause error) {
	s.Helper()
	withEffects(s, o, "pending")
	for _, c := range callsOn(s, o) {
		s.step++
		err := c.send(ctx, s.store)
		if !errors.Is(err, cause) || !errors.Is(err, countersign.ErrRetryable) {
			s.failf(c.name, "want an error that is %q and %q, got %v", cause, countersign.ErrRetryable, err)
		}
		if _, wrong := kindOf(err); wrong != nil {
			s.failf(c.name, "%v", wrong)
		}
		s.same(c.name+" with a context that had ended", o.id)
		s.same(c.name+" with a context that had ended", "new")
	}
}

// endsDuring cancels contexts while commits are under way, at no moment in
// particular. Whatever the store answers must be true: a success is there, a
// retryable error has left nothing, and an unknown outcome becomes known when
// the same commit is repeated.
func endsDuring(t T, h Harness) {
	const rounds = 60
	s := newSession(t, h)
	o := subjects[0]
	s.create(created, o, firstFence)
	answers := map[string]int{}
	for i := range rounds {
		s.step++
		c := fullCommit(s, o, fmt.Sprintf("m%d", i))
		what := fmt.Sprintf("commit %d, cancelled on its way", i)
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan struct{})
		go func() {
			defer close(cancelled)
			for range i * 40 { // a little later each time
				_ = ctx.Err()
			}
			cancel()
		}()
		got, err := s.store.CommitOwner(ctx, c)
		<-cancelled
		switch kind, wrong := kindOf(err); {
		case err == nil:
			answers["committed"]++
			s.model.ask(c)
			if got.Through != s.model[o.id].Position || got.Duplicate || !got.AckSafe() {
				s.failf(what, "the store answered %+v", got)
			}
		case wrong != nil:
			s.failf(what, "%v", wrong)
		case kind == retryable:
			answers["retryable"]++
		case kind == unknownOutcome:
			answers["unknown"]++
			if got, err = s.store.CommitOwner(t.Context(), c); err != nil {
				s.failf(what, "the repetition after an unknown outcome: %v", err)
			}
			s.model.ask(c)
			if got.Through != s.model[o.id].Position || !got.AckSafe() {
				s.failf(what, "the repetition after an unknown outcome answered %+v", got)
			}
		default:
			s.failf(what, "a cancelled commit is not refused: %v", err)
		}
		s.same(what, o.id)
	}
	t.Logf("%d commits with a context that ends: %v", rounds, answers)
	s.reopen()
}
