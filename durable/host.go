package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/countersign/countersign"
)

// HostOptions are the limits of a [Host]. Zero is the default of each; a
// negative one is malformed.
type HostOptions struct {
	// Attempts is how often one call may try when a rival comes first: how often
	// Handle loads and decides, and how often Acquire advances. 0 is 8.
	Attempts int

	// Repeats is how often the same request is sent again, at once, while its
	// outcome is unknown. 0 is 3.
	Repeats int

	// CachedOwners is how many owners' folded states are kept in memory, those
	// that were used last. 0 is 1000.
	CachedOwners int
}

// A Host runs a state machine over a store: it loads, decides and commits. It
// is safe for concurrent use. Calls of Handle for one owner wait for each other;
// different owners do not.
//
// Between calls a Host keeps the folded states of the owners that were used
// last, and no more: the head and the history's suffix come from the store each
// time. So a call on a kept owner costs the same whatever the length of its
// history.
//
// The store of a Host is one store, or one transaction of the caller's, and not
// something that changes between the two. A Host over a transaction is made
// inside and dropped with it. It keeps no states, since what it reads may be
// rolled back; so a Host begins to keep them when a first commit has shown that
// its store is no transaction.
type Host[S, I any] struct {
	store    Store
	machine  Machine[S, I]
	attempts int
	repeats  int
	fault    error // what is wrong with the store, the machine or the options

	turns  turns
	states shelf[S]

	// What the results of commits have told about the store. Until one came back
	// as durable, the store may be a transaction.
	durable     atomic.Bool // one without a settlement
	transaction atomic.Bool // one with a settlement
}

// NewHost returns a host of the machine over the store. Nil options are the
// defaults. A nil store, and what [Machine.Check] or the options report, is the
// [*countersign.MalformedError] of every call.
func NewHost[S, I any](s Store, m Machine[S, I], opts *HostOptions) *Host[S, I] {
	m.Reads, m.Writes = slices.Clone(m.Reads), slices.Clone(m.Writes)
	h := &Host[S, I]{store: s, machine: m, fault: m.Check()}
	if opts == nil {
		opts = &HostOptions{}
	}
	limit := func(name string, value, zero int) int {
		if value < 0 {
			h.fault = &countersign.MalformedError{Field: "host option " + name, Reason: "is negative"}
		}
		if value == 0 {
			return zero
		}
		return value
	}
	h.attempts = limit("Attempts", opts.Attempts, 8)
	h.repeats = limit("Repeats", opts.Repeats, 3)
	h.states.limit = limit("CachedOwners", opts.CachedOwners, 1000)
	return h
}

// ready is what every call asks first. It also answers for the zero Host.
func (h *Host[S, I]) ready(ctx context.Context) error {
	switch {
	case h == nil || h.store == nil:
		return &countersign.MalformedError{Field: "host's store", Reason: "is nil"}
	case h.fault != nil:
		return h.fault
	case ctx == nil:
		return &countersign.MalformedError{Field: "context", Reason: "is nil"}
	}
	return nil
}

// Handle takes a delivery to the owner that the authority names: it loads,
// decides and commits. Acknowledge the delivery if the result is AckSafe, and
// only then.
//
// One read asks for the head, for this inbox record and for the history's
// suffix or the newer snapshot. Then the first that applies decides:
//
//  1. malformed input is a [*countersign.MalformedError] or a
//     [*countersign.LimitError], an owner that does not exist an
//     [*UnknownOwnerError]
//  2. the inbox id is completed: the first position as a Duplicate, or, with
//     another fingerprint, an [*IdentityConflictError]. So a redelivery meets
//     neither a later fence, nor later versions, nor later state
//  3. the fence is not the current one: [*StaleFenceError]
//  4. the owner has another mode than the machine: [*StateModeMismatchError]
//  5. a stored payload has versions that the machine does not read:
//     [*UnsupportedVersionError], before it is decoded; one that Fold can't
//     take is a [*FoldError]; records that can't be the owner's are a
//     [*CorruptImageError]
//  6. Decide refuses: [*RefusalError]
//  7. the decision is malformed, or has versions that the machine does not
//     write: [*UnsupportedVersionError]
//  8. the commit, as [Decide] says
//
// If a rival commits in between, all of this is done again with the fresh
// state, in at most [HostOptions].Attempts attempts; then the error is the
// [*PositionConflictError]. A commit of unknown outcome is repeated as it is, at
// most [HostOptions].Repeats times and while the context lives; then the error
// is the [*UnknownOutcomeError]. Retryable errors of the store are returned as
// they are. It is always safe to call Handle again with the same delivery.
//
// A call whose context ends while it waits for another call on the owner gives
// a [*TurnError]. A panic of the machine goes on to the caller. The folded state
// is dropped then, as after an error of Fold, and the next call reads it anew;
// after a refusal it is kept.
func (h *Host[S, I]) Handle(ctx context.Context, auth Grant, in Inbox, input I) (Committed, error) {
	if err := h.ready(ctx); err != nil {
		return Committed{}, err
	}
	if err := auth.Check(); err != nil {
		return Committed{}, err
	}
	giveBack, err := h.turns.take(ctx, auth.Owner)
	if err != nil {
		return Committed{}, err
	}
	defer giveBack()
	res, known, err := h.handle(ctx, auth, in, input, h.take(auth))
	// Not deferred: a panic leaves the state off the shelf.
	h.keep(known)
	return res, err
}

// handle returns the result and the state to keep, which is nil when there is
// none that can be trusted.
func (h *Host[S, I]) handle(ctx context.Context, auth Grant, in Inbox, input I, known *folded[S]) (Committed, *folded[S], error) {
	for attempt := 1; ; attempt++ {
		img, err := h.load(ctx, auth, in, known.through())
		if err == nil && known.through() > img.Position {
			// The store has gone back, as after a restored backup: so do we.
			known = nil
			img, err = h.load(ctx, auth, in, 0)
		}
		if err != nil {
			return Committed{}, known, err
		}
		if through, ok, err := completed(img, in); err != nil {
			return Committed{}, known, err
		} else if ok {
			res, err := h.duplicate(ctx, auth, in, through)
			return res, known, err
		}
		if img.Fence != auth.Fence {
			return Committed{}, nil, &StaleFenceError{Owner: auth.Owner, Fence: auth.Fence, Current: img.Fence}
		}
		if img.Mode != h.machine.Mode {
			return Committed{}, nil, &StateModeMismatchError{Owner: auth.Owner, Mode: img.Mode}
		}
		if known == nil {
			known = &folded[S]{auth: auth, state: h.machine.Initial()}
		}
		if known, err = h.fold(ctx, known, img); err != nil {
			return Committed{}, known, err
		}
		c, err := h.decide(known, in, input)
		if err != nil {
			return Committed{}, known, err
		}
		res, err := h.commit(ctx, c)
		if attempt >= h.attempts || !errors.Is(err, countersign.ErrConflict) || errors.Is(err, countersign.ErrUnknownOutcome) {
			return res, known, err
		}
	}
}

func (h *Host[S, I]) load(ctx context.Context, auth Grant, in Inbox, after uint64) (Image, error) {
	return h.store.LoadOwner(ctx, LoadOwner{
		Owner: auth.Owner,
		Parts: &Parts{Inbox: []string{in.ID}, State: true, StateAfter: after},
	})
}

// completed returns the position of the delivery's first commit, if there is one.
func completed(img Image, in Inbox) (through uint64, ok bool, err error) {
	for _, r := range img.Inbox {
		if r.ID != in.ID {
			continue
		}
		if !bytes.Equal(r.Fingerprint, in.Fingerprint) {
			return 0, false, &IdentityConflictError{Kind: InboxIdentity, Owner: img.Owner, ID: in.ID}
		}
		return r.CommittedThrough, true, nil
	}
	return 0, false, nil
}

// duplicate answers a completed delivery. Where the store may be a transaction,
// the record may be its own and not committed yet, and only the result of a
// commit carries the settlement that tells. So that store is sent a commit that
// can be nothing but a duplicate: it expects a position after which there is
// none, and is refused if the record is not there.
func (h *Host[S, I]) duplicate(ctx context.Context, auth Grant, in Inbox, through uint64) (Committed, error) {
	if h.isDurable() {
		return Committed{Through: through, Duplicate: true}, nil
	}
	v := h.machine.Writes[0]
	return h.commit(ctx, Commit{
		Owner:            auth.Owner,
		ExpectedPosition: countersign.MaxInteger,
		Fence:            auth.Fence,
		Inbox:            in,
		State:            Append(Payload{SchemaVersion: v.Schema, CodecVersion: v.Codec}),
	})
}

// decide asks the machine and returns the commit to make.
func (h *Host[S, I]) decide(known *folded[S], in Inbox, input I) (Commit, error) {
	d, err := h.machine.Decide(known.state, input)
	if err != nil {
		return Commit{}, &RefusalError{Owner: known.auth.Owner, InboxID: in.ID, Err: err}
	}
	c := Commit{
		Owner:            known.auth.Owner,
		ExpectedPosition: known.position,
		Fence:            known.auth.Fence,
		Inbox:            in,
		State:            StateChange{AppendEvents: d.Events, ReplaceSnapshot: d.Snapshot},
		Effects:          d.Effects,
		Receipts:         d.Receipts,
	}
	if err := c.Check(); err != nil {
		return Commit{}, err
	}
	return c, h.writes(c)
}

// writes reports the first payload of the commit whose versions the machine does
// not write.
func (h *Host[S, I]) writes(c Commit) error {
	check := func(p Payload, what string, args ...any) error {
		if slices.Contains(h.machine.Writes, p.Version()) {
			return nil
		}
		return &UnsupportedVersionError{Owner: c.Owner, What: fmt.Sprintf(what, args...), Version: p.Version()}
	}
	for i, e := range c.State.AppendEvents {
		if err := check(e, "event %d to write", i); err != nil {
			return err
		}
	}
	if s := c.State.ReplaceSnapshot; s != nil {
		if err := check(*s, "snapshot to write"); err != nil {
			return err
		}
	}
	for _, e := range c.Effects {
		if err := check(e.Payload, "effect %q to write", e.ID); err != nil {
			return err
		}
	}
	for _, r := range c.Receipts {
		if err := check(r.Payload, "receipt %q to write", r.ID); err != nil {
			return err
		}
	}
	return nil
}

// commit sends the commit, and again while its outcome is unknown.
func (h *Host[S, I]) commit(ctx context.Context, c Commit) (Committed, error) {
	res, err := again(ctx, h.repeats, func() (Committed, error) { return h.store.CommitOwner(ctx, c) })
	if err != nil {
		return Committed{}, err
	}
	if res.Settlement == nil {
		h.durable.Store(true)
	} else {
		h.transaction.Store(true)
	}
	return res, nil
}

// isDurable reports whether the store is known to be no transaction.
func (h *Host[S, I]) isDurable() bool { return h.durable.Load() && !h.transaction.Load() }

// take returns the state that is kept for the authority, or nil.
func (h *Host[S, I]) take(auth Grant) *folded[S] {
	if !h.isDurable() {
		return nil
	}
	return h.states.take(auth)
}

// keep puts a state on the shelf, but for one that a transaction read.
func (h *Host[S, I]) keep(f *folded[S]) {
	if f != nil && h.isDurable() {
		h.states.put(f)
	}
}
