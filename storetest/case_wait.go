package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// waitCases are about requests that wait for a transaction of somebody else's.
var waitCases = []Case{
	transactionCase("context_ended_while_waiting_gives_no_wrong_result", waitEnds),
}

// waitEnds sends each write while a transaction holds its owner, with a context
// that ends soon. The call must return while the transaction is still open: with
// a retryable error and no trace, or with an unknown outcome.
func waitEnds(s *session, tr store.Transactor) {
	o := subjects[0]
	withEffects(s, o, "pending")
	for _, c := range callsOn(s, o) {
		var repeat request // those that have an identity can be repeated to find out
		switch c.name {
		case "CommitOwner":
			unseen := s.next(o, "unseen")
			unseen.Effects = intents("unseen")
			repeat = unseen
		case "RecordReceipt":
			repeat = durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("unseen", "pending")}
		default:
			continue
		}
		s.step++
		held, entered := s.next(o, "held"), sync.Once{}
		inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			left <- tr.Atomically(context.WithoutCancel(s.Context()), func(ctx context.Context, tx store.Backend) error {
				if _, err := tx.CommitOwner(ctx, held); err != nil {
					return err
				}
				entered.Do(func() { close(inside) }) // the body may run again
				<-leave
				return errBody
			})
		}()
		select {
		case <-inside:
		case err := <-left:
			s.failf("Atomically", "it returned %v before its body was done", err)
		}
		ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
		answer := make(chan error, 1)
		go func() { answer <- c.send(ctx, s.store) }()
		var err error
		hung := false
		select {
		case err = <-answer:
		case <-time.After(10 * time.Second):
			hung = true
		}
		close(leave)
		cancel()
		if bodyErr := <-left; !errors.Is(bodyErr, errBody) {
			s.failf("Atomically", "want the body's error as it is, got %v", bodyErr)
		}
		switch {
		case hung:
			s.failf(c.name, "it waited for another transaction although its context had ended, and then returned %v", <-answer)
		case err == nil:
			s.failf(c.name, "it succeeded while another transaction held the owner")
		case errors.Is(err, countersign.ErrUnknownOutcome):
			// The request follows from the model: it is the same one as before only as
			// long as the model is.
			if err := c.send(s.Context(), s.store); err != nil {
				s.failf(c.name, "repeated after an unknown outcome: %v", err)
			}
			s.model.ask(repeat)
		case !errors.Is(err, countersign.ErrRetryable) || !errors.Is(err, context.DeadlineExceeded):
			s.failf(c.name, "want %q and %q, got %v", countersign.ErrRetryable, context.DeadlineExceeded, err)
		}
		s.sameAll("after a request whose context ended while it waited")
	}
}
