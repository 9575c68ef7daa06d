package storetest

import (
	"context"
	"errors"

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
		held := s.next(o, "held")
		err, hung := whileHeld(s, tr, func(ctx context.Context, tx store.Backend) error {
			_, err := tx.CommitOwner(ctx, held)
			return err
		}, func(ctx context.Context) error { return c.send(ctx, s.store) })
		switch {
		case hung:
			s.failf(c.name, "it waited for another transaction although its context had ended, and then returned %v", err)
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
