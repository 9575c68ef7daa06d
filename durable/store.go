package durable

import (
	"context"
	"fmt"

	"github.com/countersign/countersign"
)

// Limits of a page, in items: a request with limit 0 gets [DefaultPageLimit]. A
// page has no limit in bytes, so ask for few where payloads are large.
const (
	DefaultPageLimit = 100
	MaxPageLimit     = 10_000
)

// Store is the durable owner as an adapter implements it. Every method is one
// transaction. CreateOwner, CommitOwner, AdvanceFence and RecordReceipt read and
// lock the owner's row in it, also when they change nothing, so that a receipt
// and a fence hand-off can never pass each other.
//
// All methods are safe for concurrent use. Nothing that goes in or comes out
// shares memory with the store. Malformed input ([countersign.ErrMalformed]) is
// refused before anything is read. A context that ends before the request is
// taken leaves no trace and gives an error that matches both the context's error
// and [countersign.ErrRetryable]; one that ends later may give an
// [*UnknownOutcomeError], never a wrong result.
type Store interface {
	// CreateOwner creates an owner at position 0. An owner that exists with the
	// same mode is returned as it is, with its own fence; one with another mode
	// gives an [*IdentityConflictError].
	CreateOwner(ctx context.Context, req CreateOwner) (Head, error)

	// LoadOwner returns the owner's complete image, or the parts asked for, from
	// one consistent read. It gives an [*UnknownOwnerError].
	LoadOwner(ctx context.Context, req LoadOwner) (Image, error)

	// CommitOwner commits one unit of work, as [Decide] says, and gives the
	// errors that are listed there.
	CommitOwner(ctx context.Context, c Commit) (Committed, error)

	// AdvanceFence hands the authority over, as [DecideFence] says. After an
	// unknown outcome advance to a greater token, do not repeat this one.
	AdvanceFence(ctx context.Context, req AdvanceFence) (Head, error)

	// RecordReceipt records how an effect ended, after its external
	// publication, as [DecideReceipt] says. It does not move the position. The
	// fence is the one in force: a publisher that holds no [Grant] reads it with
	// LoadOwner and the zero [Parts], and does not acquire the owner.
	RecordReceipt(ctx context.Context, req RecordReceipt) (ReceiptRecorded, error)

	// ReadHistory returns the records after a position, in position order. An
	// empty page is the end of the history as it stands. An owner in Snapshot
	// mode has no history. It gives an [*UnknownOwnerError].
	ReadHistory(ctx context.Context, req ReadHistory) ([]Record, error)

	// ReadPending returns effects without a terminal receipt, ordered by
	// AcceptedAt and then by id, after a cursor. An empty page is the end. It
	// gives an [*UnknownOwnerError].
	ReadPending(ctx context.Context, req ReadPending) ([]Effect, error)
}

// CreateOwner is the request of [Store.CreateOwner].
type CreateOwner struct {
	Owner string
	Mode  Mode
	Fence uint64 // the initial fence; 0 is allowed
}

// Check reports the first rule that the request breaks, as a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func (r CreateOwner) Check() error {
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	if !r.Mode.Valid() {
		return &countersign.MalformedError{Field: "mode", Reason: fmt.Sprintf("is %.40q, neither event_history nor snapshot", string(r.Mode))}
	}
	return countersign.CheckInteger("fence", r.Fence)
}

// LoadOwner is the request of [Store.LoadOwner]. A nil Parts asks for the
// complete image, whose size grows with the owner; &Parts{} asks for the head.
type LoadOwner struct {
	Owner string
	Parts *Parts
}

// Parts names the parts of an image to load, so that nobody must read a large
// owner whole. The zero Parts is the head only.
type Parts struct {
	// Inbox names the inbox records to return, those that exist; at most
	// [MaxCommitItems].
	Inbox []string

	// State asks for the history after StateAfter, at most HistoryLimit records
	// (0 is [DefaultPageLimit], at most [MaxPageLimit]); or for the snapshot, if it stands at a position
	// after StateAfter.
	State        bool
	StateAfter   uint64
	HistoryLimit int

	// Pending asks for the first pending effects, at most PendingLimit (0 is
	// [DefaultPageLimit], at most [MaxPageLimit]).
	Pending      bool
	PendingLimit int
}

// Check reports the first rule that the request breaks, as a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func (r LoadOwner) Check() error {
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	if r.Parts == nil {
		return nil
	}
	if n := len(r.Parts.Inbox); n > MaxCommitItems {
		return &countersign.LimitError{Field: "inbox ids", Unit: "items", Limit: MaxCommitItems, Actual: int64(n)}
	}
	for _, id := range r.Parts.Inbox {
		if err := countersign.CheckIdentity("inbox id", id); err != nil {
			return err
		}
	}
	if err := countersign.CheckInteger("position", r.Parts.StateAfter); err != nil {
		return err
	}
	if _, err := PageLimit(r.Parts.HistoryLimit); err != nil {
		return err
	}
	_, err := PageLimit(r.Parts.PendingLimit)
	return err
}

// Committed is the result of a commit: it was carried out now, or it had been
// before.
type Committed struct {
	// Through is the position after the commit; of a duplicate, the position
	// after the first one.
	Through uint64
	// Duplicate says that the inbox id was completed before, with the same
	// fingerprint. Nothing was changed.
	Duplicate bool
	// Settlement is nil, or the transaction of the caller's that this result is
	// part of.
	Settlement *countersign.Settlement
}

// AckSafe reports whether the delivery may be acknowledged: it is committed or
// was before, and the transaction that says so has committed. It is false for
// the zero Committed.
func (c Committed) AckSafe() bool { return c.Through > 0 && c.Settlement.Settled() }

// AdvanceFence is the request of [Store.AdvanceFence].
type AdvanceFence struct {
	Owner string
	Fence uint64 // strictly greater than the current one
}

// Check reports the first rule that the request breaks, as a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func (r AdvanceFence) Check() error {
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	return countersign.CheckInteger("fence", r.Fence)
}

// RecordReceipt is the request of [Store.RecordReceipt].
type RecordReceipt struct {
	Owner   string
	Fence   uint64
	Receipt TerminalReceipt
}

// Check reports the first rule that the request breaks, as a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func (r RecordReceipt) Check() error {
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	if err := countersign.CheckInteger("fence", r.Fence); err != nil {
		return err
	}
	return r.Receipt.check()
}

// ReceiptRecorded is the result of [Store.RecordReceipt].
type ReceiptRecorded struct {
	RecordedAt uint64 // the owner's position when the receipt was first recorded
	Fence      uint64 // the fence in force then
	// Duplicate says that the receipt was recorded before, with the same content.
	Duplicate bool
	// Settlement is nil, or the transaction of the caller's that this result is
	// part of.
	Settlement *countersign.Settlement
}

// ReadHistory is the request of [Store.ReadHistory].
type ReadHistory struct {
	Owner string
	After uint64 // records with a greater position
	Limit int    // 0 is [DefaultPageLimit]; at most [MaxPageLimit]
}

// Check reports the first rule that the request breaks, as a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func (r ReadHistory) Check() error {
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	if err := countersign.CheckInteger("position", r.After); err != nil {
		return err
	}
	_, err := PageLimit(r.Limit)
	return err
}

// ReadPending is the request of [Store.ReadPending]. The cursor is the pair of
// AfterAccepted and AfterID, from the last effect of the page before; the zero
// cursor is the beginning.
type ReadPending struct {
	Owner         string
	AfterAccepted uint64
	AfterID       string
	Limit         int // 0 is [DefaultPageLimit]; at most [MaxPageLimit]
}

// Check reports the first rule that the request breaks, as a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func (r ReadPending) Check() error {
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	if err := countersign.CheckInteger("position", r.AfterAccepted); err != nil {
		return err
	}
	if r.AfterID != "" {
		if err := countersign.CheckIdentity("effect id", r.AfterID); err != nil {
			return err
		}
	}
	_, err := PageLimit(r.Limit)
	return err
}

// PageLimit returns the number of items that a page may have: limit itself, or
// [DefaultPageLimit] for 0. A negative limit is a [*countersign.MalformedError],
// one above [MaxPageLimit] a [*countersign.LimitError].
func PageLimit(limit int) (int, error) {
	switch {
	case limit < 0:
		return 0, &countersign.MalformedError{Field: "limit", Reason: "is negative"}
	case limit > MaxPageLimit:
		return 0, &countersign.LimitError{Field: "page", Unit: "items", Limit: MaxPageLimit, Actual: int64(limit)}
	case limit == 0:
		return DefaultPageLimit, nil
	}
	return limit, nil
}
