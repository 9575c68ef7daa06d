package durable

import (
	"context"
	"fmt"
	"slices"

	"github.com/countersign/countersign"
)

// A CorruptReason says which rule an image breaks.
type CorruptReason string

const (
	CorruptIdentity        CorruptReason = "identity" // an id or a mode that no store accepts
	CorruptInteger         CorruptReason = "integer"  // a position or fence above 2^63-1
	CorruptPayload         CorruptReason = "payload"  // a payload that no store accepts
	CorruptOutcome         CorruptReason = "outcome"  // neither applied nor rejected
	CorruptOrder           CorruptReason = "order"    // records out of order, or an id twice
	HistoryNotContiguous   CorruptReason = "history"  // not exactly the positions 1 to the owner's
	SnapshotInHistoryOwner CorruptReason = "snapshot_in_history_owner"
	HistoryInSnapshotOwner CorruptReason = "history_in_snapshot_owner"
	SnapshotPosition       CorruptReason = "snapshot_position" // missing, or not at the owner's position
	RecordPastPosition     CorruptReason = "record_past_position"
	RecordBeforeCommit     CorruptReason = "record_before_commit" // a record at position 0, or a receipt before its effect
	FencePastOwner         CorruptReason = "fence_past_owner"     // a receipt under a fence greater than the owner's
	ReceiptWithoutEffect   CorruptReason = "receipt_without_effect"
	EffectReceiptedTwice   CorruptReason = "effect_receipted_twice"
	PendingMismatch        CorruptReason = "pending" // not exactly the effects without a receipt
)

// CorruptImageError says that an image breaks a rule that every commit keeps.
// Nothing may be decided on it. It matches [countersign.ErrRefused].
type CorruptImageError struct {
	Owner  string
	Reason CorruptReason
	Detail string
}

func (e *CorruptImageError) Error() string {
	return fmt.Sprintf("durable: owner %q: corrupt image (%s): %s", e.Owner, e.Reason, e.Detail)
}

// Is reports whether target is the error's kind.
func (e *CorruptImageError) Is(target error) bool { return target == countersign.ErrRefused }

// Recover loads the complete image of an owner and validates it. It gives what
// [Store.LoadOwner] gives, and a [*CorruptImageError] for an image that no
// sequence of commits can have made.
func Recover(ctx context.Context, s Store, owner string) (Image, error) {
	img, err := s.LoadOwner(ctx, LoadOwner{Owner: owner})
	if err != nil {
		return Image{}, err
	}
	if err := img.Validate(); err != nil {
		return Image{}, err
	}
	return img, nil
}

// Validate reports the first rule that a complete image breaks, as a
// [*CorruptImageError]. It does not change the image and never panics. A partial
// image can't be validated: it is a [*countersign.MalformedError].
func (img Image) Validate() error {
	if img.Partial {
		return &countersign.MalformedError{Field: "image", Reason: "is partial, so it can't be validated"}
	}
	for _, check := range []func(Image) error{
		Image.checkHead, Image.checkState, Image.checkInbox, Image.checkOutbox, Image.checkReceipts, Image.checkPending,
	} {
		if err := check(img); err != nil {
			return err
		}
	}
	return nil
}

func (img Image) corrupt(reason CorruptReason, format string, args ...any) error {
	return &CorruptImageError{Owner: img.Owner, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

func (img Image) checkHead() error {
	if err := CheckOwner(img.Owner); err != nil {
		return img.corrupt(CorruptIdentity, "%v", err)
	}
	if !img.Mode.Valid() {
		return img.corrupt(CorruptIdentity, "unknown mode %q", img.Mode)
	}
	if img.Position > countersign.MaxInteger || img.Fence > countersign.MaxInteger {
		return img.corrupt(CorruptInteger, "position %d or fence %d is above 2^63-1", img.Position, img.Fence)
	}
	return nil
}

func (img Image) checkState() error {
	if img.Mode == Snapshot {
		return img.checkSnapshot()
	}
	if img.Snapshot != nil {
		return img.corrupt(SnapshotInHistoryOwner, "a snapshot at position %d", img.Snapshot.Position)
	}
	for i, r := range img.History {
		if r.Position != uint64(i)+1 {
			return img.corrupt(HistoryNotContiguous, "record %d stands at position %d", i+1, r.Position)
		}
		if err := r.Payload.Check("payload"); err != nil {
			return img.corrupt(CorruptPayload, "event at position %d: %v", r.Position, err)
		}
	}
	if uint64(len(img.History)) != img.Position {
		return img.corrupt(HistoryNotContiguous, "%d records, the owner is at position %d", len(img.History), img.Position)
	}
	return nil
}

func (img Image) checkSnapshot() error {
	if len(img.History) > 0 {
		return img.corrupt(HistoryInSnapshotOwner, "%d records", len(img.History))
	}
	if img.Snapshot == nil {
		if img.Position != 0 {
			return img.corrupt(SnapshotPosition, "no snapshot, the owner is at position %d", img.Position)
		}
		return nil
	}
	if img.Snapshot.Position != img.Position || img.Position == 0 {
		return img.corrupt(SnapshotPosition, "the snapshot stands at %d, the owner at %d", img.Snapshot.Position, img.Position)
	}
	if err := img.Snapshot.Payload.Check("payload"); err != nil {
		return img.corrupt(CorruptPayload, "snapshot: %v", err)
	}
	return nil
}

// checkRecord is what inbox records, effects and receipts have in common.
func (img Image) checkRecord(what, id, last string, first bool, at uint64) error {
	if err := countersign.CheckIdentity(what+" id", id); err != nil {
		return img.corrupt(CorruptIdentity, "%v", err)
	}
	if !first && id <= last {
		return img.corrupt(CorruptOrder, "%s %q follows %q", what, id, last)
	}
	if at > img.Position {
		return img.corrupt(RecordPastPosition, "%s %q points to position %d, the owner is at %d", what, id, at, img.Position)
	}
	if at == 0 {
		return img.corrupt(RecordBeforeCommit, "%s %q points to position 0", what, id)
	}
	return nil
}

func (img Image) checkInbox() error {
	last := ""
	for i, r := range img.Inbox {
		if err := img.checkRecord("inbox record", r.ID, last, i == 0, r.CommittedThrough); err != nil {
			return err
		}
		last = r.ID
	}
	return nil
}

func (img Image) checkOutbox() error {
	last := ""
	for i, e := range img.Outbox {
		if err := img.checkRecord("effect", e.ID, last, i == 0, e.AcceptedAt); err != nil {
			return err
		}
		if err := e.Payload.Check("payload"); err != nil {
			return img.corrupt(CorruptPayload, "effect %q: %v", e.ID, err)
		}
		last = e.ID
	}
	return nil
}

func (img Image) checkReceipts() error {
	last := ""
	receiptOf := make(map[string]string, len(img.Receipts))
	for i, r := range img.Receipts {
		if err := img.checkRecord("receipt", r.ID, last, i == 0, r.RecordedAt); err != nil {
			return err
		}
		last = r.ID
		if r.Outcome != Applied && r.Outcome != Rejected {
			return img.corrupt(CorruptOutcome, "receipt %q has outcome %q", r.ID, r.Outcome)
		}
		if r.Fence > img.Fence {
			return img.corrupt(FencePastOwner, "receipt %q has fence %d, the owner has %d", r.ID, r.Fence, img.Fence)
		}
		if err := r.Payload.Check("payload"); err != nil {
			return img.corrupt(CorruptPayload, "receipt %q: %v", r.ID, err)
		}
		effect, ok := img.effect(r.EffectID)
		if !ok {
			return img.corrupt(ReceiptWithoutEffect, "receipt %q names effect %q", r.ID, r.EffectID)
		}
		if r.RecordedAt < effect.AcceptedAt {
			return img.corrupt(RecordBeforeCommit, "receipt %q is recorded at %d, its effect accepted at %d", r.ID, r.RecordedAt, effect.AcceptedAt)
		}
		if other, ok := receiptOf[r.EffectID]; ok {
			return img.corrupt(EffectReceiptedTwice, "effect %q has receipts %q and %q", r.EffectID, other, r.ID)
		}
		receiptOf[r.EffectID] = r.ID
	}
	return nil
}

func (img Image) checkPending() error {
	if !slices.EqualFunc(img.Pending, PendingOf(img.Outbox, img.Receipts), func(a, b Effect) bool {
		return a.ID == b.ID && a.AcceptedAt == b.AcceptedAt && a.Payload.Equal(b.Payload)
	}) {
		return img.corrupt(PendingMismatch, "the pending effects are not those without a receipt, by position and id")
	}
	return nil
}

// effect finds an effect in the sorted outbox.
func (img Image) effect(id string) (Effect, bool) {
	i, ok := slices.BinarySearchFunc(img.Outbox, id, func(e Effect, id string) int {
		switch {
		case e.ID < id:
			return -1
		case e.ID > id:
			return 1
		}
		return 0
	})
	if !ok {
		return Effect{}, false
	}
	return img.Outbox[i], true
}

// PendingOf returns the effects without a receipt, ordered as [ComparePending]
// says. They share their payload bytes with the outbox.
func PendingOf(outbox []Effect, receipts []Receipt) []Effect {
	done := make(map[string]bool, len(receipts))
	for _, r := range receipts {
		done[r.EffectID] = true
	}
	var pending []Effect
	for _, e := range outbox {
		if !done[e.ID] {
			pending = append(pending, e)
		}
	}
	slices.SortFunc(pending, ComparePending)
	return pending
}
