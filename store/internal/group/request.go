package group

import (
	"context"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// A Ticket is a member's place in a queue.
type Ticket struct {
	taken bool          // guarded by Queue.mu: a group has it, it can't be withdrawn
	done  chan struct{} // closed when the verdict is there
}

func (t *Ticket) ticket() *Ticket { return t }

// A Member is what waits in a queue: it embeds a [Ticket].
type Member interface {
	ticket() *Ticket
	Bytes() int                     // about
	Verdict() error                 // what the caller learns
	Fail(err error)                 // makes err the verdict
	Unknown(err error)              // makes an unknown outcome the verdict
	UnknownOutcome(err error) error // is what the caller learns of an unknown outcome
}

// A Request is one write of an owner, on its way to a group.
type Request struct {
	Ticket
	Op    string // as in [durable.UnknownOutcomeError]
	Touch durable.Touch
	Size  int // in bytes, about
	Rule  func(durable.Slice) (durable.Plan, error)

	// The verdict: what the rule said, or what became of the transaction.
	Plan durable.Plan
	Err  error
}

// Bytes implements [Member].
func (r *Request) Bytes() int { return r.Size }

// Verdict implements [Member].
func (r *Request) Verdict() error { return r.Err }

// Decide asks the rule about the slice, and lets the slice show what the plan
// will write, so that the next request sees it.
func (r *Request) Decide(s *durable.Slice) {
	r.Plan, r.Err = r.Rule(*s)
	if r.Err == nil {
		s.Apply(r.Plan)
	}
}

// Writes reports whether the verdict is a plan that writes something.
func (r *Request) Writes() bool { return r.Err == nil && r.Plan.Writes }

// Fail makes err the verdict.
func (r *Request) Fail(err error) { r.Plan, r.Err = durable.Plan{}, err }

// Unknown makes an unknown outcome the verdict.
func (r *Request) Unknown(err error) { r.Fail(r.UnknownOutcome(err)) }

// UnknownOutcome implements [Member].
func (r *Request) UnknownOutcome(err error) error {
	return &durable.UnknownOutcomeError{Op: r.Op, Owner: r.Touch.Owner, Err: err}
}

// A Write carries a request out, sets its verdict and returns its error: of a
// store in groups, of a transaction at once.
type Write func(ctx context.Context, r *Request) error

// CreateOwner implements the method of [durable.Store].
func CreateOwner(ctx context.Context, write Write, req durable.CreateOwner) (durable.Head, error) {
	if err := req.Check(); err != nil {
		return durable.Head{}, err
	}
	return head(ctx, write, &Request{Op: durable.OpCreateOwner, Touch: req.Touch(), Rule: func(s durable.Slice) (durable.Plan, error) {
		return durable.DecideCreate(s, req)
	}})
}

// AdvanceFence implements the method of [durable.Store].
func AdvanceFence(ctx context.Context, write Write, req durable.AdvanceFence) (durable.Head, error) {
	if err := req.Check(); err != nil {
		return durable.Head{}, err
	}
	return head(ctx, write, &Request{Op: durable.OpAdvanceFence, Touch: req.Touch(), Rule: func(s durable.Slice) (durable.Plan, error) {
		return durable.DecideFence(s, req)
	}})
}

func head(ctx context.Context, write Write, r *Request) (durable.Head, error) {
	if err := write(ctx, r); err != nil {
		return durable.Head{}, err
	}
	return r.Plan.Head, nil
}

// CommitOwner implements the method of [durable.Store]. The settlement is that of
// the result: nil, or the transaction's.
func CommitOwner(ctx context.Context, write Write, settlement *countersign.Settlement, c durable.Commit) (durable.Committed, error) {
	if err := c.Check(); err != nil {
		return durable.Committed{}, err
	}
	if ctx != nil && ctx.Done() != nil {
		c = c.Clone() // the caller may be gone while the group is written
	}
	r := &Request{Op: durable.OpCommit, Touch: c.Touch(), Size: c.Size(), Rule: func(s durable.Slice) (durable.Plan, error) {
		return durable.Decide(s, c)
	}}
	if err := write(ctx, r); err != nil {
		return durable.Committed{}, err
	}
	return durable.Committed{Through: r.Plan.Through, Duplicate: r.Plan.Duplicate, Settlement: settlement}, nil
}

// RecordReceipt implements the method of [durable.Store]. The settlement is that
// of the result: nil, or the transaction's.
func RecordReceipt(ctx context.Context, write Write, settlement *countersign.Settlement, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	if err := req.Check(); err != nil {
		return durable.ReceiptRecorded{}, err
	}
	if ctx != nil && ctx.Done() != nil {
		req.Receipt.Payload = req.Receipt.Payload.Clone()
	}
	r := &Request{Op: durable.OpRecordReceipt, Touch: req.Touch(), Size: len(req.Receipt.Payload.Bytes), Rule: func(s durable.Slice) (durable.Plan, error) {
		return durable.DecideReceipt(s, req)
	}}
	if err := write(ctx, r); err != nil {
		return durable.ReceiptRecorded{}, err
	}
	return durable.ReceiptRecorded{RecordedAt: r.Plan.Through, Fence: r.Plan.Fence, Duplicate: r.Plan.Duplicate, Settlement: settlement}, nil
}
