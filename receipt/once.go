package receipt

import (
	"context"
	"errors"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
)

// A Proposal is what an attempt would like to be the outcome of an effect.
type Proposal struct {
	Sequence string // "" is [eventlog.DefaultSequence]
	Events   []eventlog.Event
	Scopes   []eventlog.Scope
	// Refused are the reasons of a business refusal that is final. It has no events
	// and no scopes. What may pass, as a failure of a store or a conflict, is an
	// error of the attempt instead.
	Refused  []string
	Response []byte // optional: one JSON value, at most MaxResponseBytes, kept byte for byte
}

// onceAttempts is how often a proposal is sent whose outcome is unknown, or not
// settled.
const onceAttempts = 3

// Once returns the first committed outcome of an effect. If it has no receipt yet,
// run is called, and what it proposes is committed: events and receipt together.
// Then, or if another attempt was faster, the result is the receipt that was
// committed first, byte for byte.
//
// So run may run more than once, but only one of its proposals has an effect. Where
// it returns an error, or the proposal is refused (a [*eventlog.ViolationsError], a
// [*eventlog.ScopesViolatedError]), nothing is recorded and the error is returned
// as it is. A proposal whose outcome is unknown is repeated, and if it stays so, it is an
// [*UnknownOutcomeError]: call Once again.
//
// The store may be one that is bound to a transaction.
func Once(ctx context.Context, s Store, effect Effect, run func(ctx context.Context) (Proposal, error)) (Result, error) {
	if s == nil {
		return Result{}, errNoStore
	}
	if run == nil {
		return Result{}, &countersign.MalformedError{Field: "run", Reason: "is nil"}
	}
	found, there, err := look(ctx, s, effect.Key)
	if err != nil || there {
		return found, err
	}
	proposal, err := run(ctx)
	if err != nil {
		return Result{}, err
	}
	return propose(ctx, s, effect, proposal)
}

func propose(ctx context.Context, s Store, effect Effect, p Proposal) (Result, error) {
	if p.Refused != nil && len(p.Events)+len(p.Scopes) > 0 {
		return Result{}, &countersign.MalformedError{Field: "proposal", Reason: "is a refusal, and has events or scopes"}
	}
	for n := 1; ; n++ {
		res, err := send(ctx, s, effect, p)
		again := errors.Is(err, countersign.ErrUnknownOutcome) || errors.As(err, new(*UnsettledError))
		if !again || n == onceAttempts || ctx.Err() != nil {
			return res, err
		}
	}
}

func send(ctx context.Context, s Store, effect Effect, p Proposal) (Result, error) {
	if p.Refused != nil {
		return s.RecordEffect(ctx, RecordEffect{Effect: effect, Reasons: p.Refused, Response: p.Response})
	}
	return s.AppendWithReceipt(ctx, AppendWithReceipt{
		AppendEvents: eventlog.AppendEvents{
			Sequence: eventlog.Sequence{Namespace: effect.Namespace, Name: p.Sequence},
			Events:   p.Events, Scopes: p.Scopes,
		},
		Occurrence: effect.Occurrence, Effect: effect.Effect, Epoch: effect.Epoch, Response: p.Response,
	})
}
