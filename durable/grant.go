package durable

import (
	"context"
	"errors"

	"github.com/countersign/countersign"
)

// A Grant is the authority over an owner: who holds the fence that is in force
// may write. It is a plain value; it ends when somebody else acquires the owner,
// and the store, not the value, knows that.
type Grant struct {
	Owner string
	Fence uint64
}

// Check reports the first rule that the grant breaks, as a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func (g Grant) Check() error { return AdvanceFence(g).Check() }

// Acquire takes the authority over an owner: it creates the owner in the
// machine's mode if it is missing, and advances the fence. Whoever had the
// authority before has lost it, and their next commit is a [*StaleFenceError].
//
// A rival that advances first is answered with a greater fence, in at most
// [HostOptions].Attempts attempts; then the error is the store's
// [*FenceDidNotAdvanceError]. After an unknown outcome the same fence is never
// tried again, since a rival may hold it, but a greater one; in the end the
// error is the [*UnknownOutcomeError], and Acquire may be called again. An owner
// that exists in another mode is an [*IdentityConflictError].
//
// Over a transaction of the caller's, the authority is good for nothing until
// that has committed.
func (h *Host[S, I]) Acquire(ctx context.Context, owner string) (Grant, error) {
	if err := h.ready(ctx); err != nil {
		return Grant{}, err
	}
	create := CreateOwner{Owner: owner, Mode: h.machine.Mode}
	head, err := again(ctx, h.repeats, func() (Head, error) { return h.store.CreateOwner(ctx, create) })
	if err != nil {
		return Grant{}, err
	}
	tried := uint64(0)
	var unknown error // of an advance that may have been carried out
	for attempt := 1; ; attempt++ {
		tried = max(head.Fence, tried) + 1
		_, err := h.store.AdvanceFence(ctx, AdvanceFence{Owner: owner, Fence: tried})
		if err == nil {
			return Grant{Owner: owner, Fence: tried}, nil
		}
		greater := is[*FenceDidNotAdvanceError](err) // can help
		if errors.Is(err, countersign.ErrUnknownOutcome) {
			greater, unknown = true, err
		}
		if !greater || attempt >= h.attempts || ctx.Err() != nil {
			return Grant{}, stillUnknown(unknown, err)
		}
		img, err := h.store.LoadOwner(ctx, LoadOwner{Owner: owner, Parts: &Parts{}})
		if err != nil {
			return Grant{}, stillUnknown(unknown, err)
		}
		head = img.Head
	}
}
