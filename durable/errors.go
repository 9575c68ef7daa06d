package durable

import (
	"fmt"

	"github.com/countersign/countersign"
)

// An IdentityKind says which identity was reused.
type IdentityKind string

const (
	OwnerIdentity   IdentityKind = "owner"   // another mode
	InboxIdentity   IdentityKind = "inbox"   // another fingerprint
	EffectIdentity  IdentityKind = "effect"  // another payload or version
	ReceiptIdentity IdentityKind = "receipt" // another effect, outcome, payload or version
)

// IdentityConflictError says that an identity is known with other content. The
// first record stands. It matches [countersign.ErrRefused].
type IdentityConflictError struct {
	Kind  IdentityKind
	Owner string
	ID    string // the reused identity; for OwnerIdentity the owner's
}

func (e *IdentityConflictError) Error() string {
	if e.Kind == OwnerIdentity {
		return fmt.Sprintf("durable: owner %q exists in the other mode", e.Owner)
	}
	return fmt.Sprintf("durable: owner %q: %s id %q is known with other content", e.Owner, e.Kind, e.ID)
}

// Is reports whether target is the error's kind.
func (e *IdentityConflictError) Is(target error) bool { return target == countersign.ErrRefused }

// UnknownOwnerError says that the owner does not exist. It matches
// [countersign.ErrRefused].
type UnknownOwnerError struct{ Owner string }

func (e *UnknownOwnerError) Error() string { return fmt.Sprintf("durable: unknown owner %q", e.Owner) }

// Is reports whether target is the error's kind.
func (e *UnknownOwnerError) Is(target error) bool { return target == countersign.ErrRefused }

// StaleFenceError says that the request's fence is not the one in force,
// smaller or greater: another process holds the authority, or never gave it to
// this one. It matches [countersign.ErrRefused].
type StaleFenceError struct {
	Owner   string
	Fence   uint64 // the request's
	Current uint64
}

func (e *StaleFenceError) Error() string {
	if e.Fence > e.Current {
		return fmt.Sprintf("durable: owner %q: fence %d was never given, the current one is %d", e.Owner, e.Fence, e.Current)
	}
	return fmt.Sprintf("durable: owner %q: fence %d is not the current fence %d: another holder has acquired the owner", e.Owner, e.Fence, e.Current)
}

// Is reports whether target is the error's kind.
func (e *StaleFenceError) Is(target error) bool { return target == countersign.ErrRefused }

// PositionConflictError says that the owner stands at another position than the
// commit expects. Load again and decide again. It matches
// [countersign.ErrConflict].
type PositionConflictError struct {
	Owner    string
	Expected uint64
	Actual   uint64
}

func (e *PositionConflictError) Error() string {
	return fmt.Sprintf("durable: owner %q: expected position %d, is at %d", e.Owner, e.Expected, e.Actual)
}

// Is reports whether target is the error's kind.
func (e *PositionConflictError) Is(target error) bool { return target == countersign.ErrConflict }

// UnknownEffectError says that a receipt names an effect that is neither in the
// outbox nor in the commit. It matches [countersign.ErrRefused].
type UnknownEffectError struct {
	Owner     string
	ReceiptID string
	EffectID  string
}

func (e *UnknownEffectError) Error() string {
	return fmt.Sprintf("durable: owner %q: receipt %q names the unknown effect %q", e.Owner, e.ReceiptID, e.EffectID)
}

// Is reports whether target is the error's kind.
func (e *UnknownEffectError) Is(target error) bool { return target == countersign.ErrRefused }

// EffectAlreadyReceiptedError says that the effect has a terminal receipt under
// another receipt id. It matches [countersign.ErrRefused].
type EffectAlreadyReceiptedError struct {
	Owner      string
	EffectID   string
	ReceiptID  string // the request's
	RecordedAs string // the receipt that the effect has
}

func (e *EffectAlreadyReceiptedError) Error() string {
	return fmt.Sprintf("durable: owner %q: effect %q has receipt %q, so %q is refused", e.Owner, e.EffectID, e.RecordedAs, e.ReceiptID)
}

// Is reports whether target is the error's kind.
func (e *EffectAlreadyReceiptedError) Is(target error) bool { return target == countersign.ErrRefused }

// StateModeMismatchError says that the state change does not fit the owner's
// mode. It matches [countersign.ErrRefused].
type StateModeMismatchError struct {
	Owner string
	Mode  Mode
}

func (e *StateModeMismatchError) Error() string {
	return fmt.Sprintf("durable: owner %q: the state change does not fit mode %s", e.Owner, e.Mode)
}

// Is reports whether target is the error's kind.
func (e *StateModeMismatchError) Is(target error) bool { return target == countersign.ErrRefused }

// PositionOverflowError says that the commit would assign a position above
// 2^63-1. It matches [countersign.ErrRefused].
type PositionOverflowError struct {
	Owner    string
	Position uint64
}

func (e *PositionOverflowError) Error() string {
	return fmt.Sprintf("durable: owner %q: no position is left after %d", e.Owner, e.Position)
}

// Is reports whether target is the error's kind.
func (e *PositionOverflowError) Is(target error) bool { return target == countersign.ErrRefused }

// FenceDidNotAdvanceError says that the new fence is not greater than the
// current one. It matches [countersign.ErrRefused].
type FenceDidNotAdvanceError struct {
	Owner   string
	Fence   uint64 // the request's
	Current uint64
}

func (e *FenceDidNotAdvanceError) Error() string {
	return fmt.Sprintf("durable: owner %q: fence %d does not advance the current fence %d", e.Owner, e.Fence, e.Current)
}

// Is reports whether target is the error's kind.
func (e *FenceDidNotAdvanceError) Is(target error) bool { return target == countersign.ErrRefused }

// What an [UnknownOutcomeError] is about.
const (
	OpCommit        = "commit"
	OpRecordReceipt = "record receipt"
	OpCreateOwner   = "create owner"
	OpAdvanceFence  = "advance fence"
	OpTransaction   = "transaction"
)

// UnknownOutcomeError says that a request was sent and that its result is not
// known: the connection was lost, or the context ended, while it was being
// committed. What to do depends on Op:
//
//   - [OpCommit] and [OpRecordReceipt]: repeat the same request. It learns
//     Duplicate, or is carried out now.
//   - [OpCreateOwner]: repeat it; an owner that exists is returned as it is.
//   - [OpAdvanceFence]: do not repeat the token, a rival may hold it. Advance to
//     a greater one.
//   - [OpTransaction]: nothing but your own records can tell; repeat the body
//     only if every request in it has an identity. Owner is empty.
//
// A read has no outcome: one whose answer is lost is retryable. The error matches [countersign.ErrUnknownOutcome] and unwraps to the cause.
type UnknownOutcomeError struct {
	Op    string
	Owner string
	Err   error
}

func (e *UnknownOutcomeError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("durable: the outcome of %q is unknown: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("durable: owner %q: the outcome of %q is unknown: %v", e.Owner, e.Op, e.Err)
}

// Is reports whether target is the error's kind.
func (e *UnknownOutcomeError) Is(target error) bool { return target == countersign.ErrUnknownOutcome }

// Unwrap returns the cause.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// UnsupportedVersionError says that a payload carries versions that the host
// does not name. It is reported before the payload is decoded and before
// anything is written. It matches [countersign.ErrRefused].
type UnsupportedVersionError struct {
	Owner    string
	What     string // as in "event at position 7" or "effect to write"
	Version  Version
	Position uint64 // 0 when the payload is not stored yet
}

func (e *UnsupportedVersionError) Error() string {
	return fmt.Sprintf("durable: owner %q: %s has schema version %d and codec version %d, which this host does not support",
		e.Owner, e.What, e.Version.Schema, e.Version.Codec)
}

// Is reports whether target is the error's kind.
func (e *UnsupportedVersionError) Is(target error) bool { return target == countersign.ErrRefused }
