package durable

import (
	"errors"
	"fmt"

	"github.com/countersign/countersign"
)

// A Machine is a user's state machine: a state S, an input I, the functions
// between them, and the versions that these can read and write. A [Host] runs it.
//
// The functions are pure: what they return depends on their arguments only, and
// they do nothing else. They may run again for the same arguments, for different
// owners at the same time, and never at the same time for one state.
type Machine[S, I any] struct {
	// Mode is how the owners of this machine keep their state.
	Mode Mode

	// Reads lists the versions of stored events or snapshots that Fold decodes.
	// Everything else is refused before Fold sees it.
	Reads []Version

	// Writes lists the versions that Decide gives: of events or snapshots, of
	// effects and of receipts. Everything else is refused before it is
	// committed. A version of events or snapshots belongs into Reads as well, or
	// the machine can't go on from what it wrote.
	Writes []Version

	// Initial returns the state of an owner at position 0, each time a new one.
	Initial func() S

	// Fold decodes a stored payload and returns the state after it. In
	// [EventHistory] mode that is the next event; in [Snapshot] mode it is the
	// snapshot, and state is an initial one. Fold may change the state it is
	// given and return that, and it may keep the payload's bytes. Its error is
	// returned as a [*FoldError].
	Fold func(state S, p Payload) (S, error)

	// Decide says what the input leads to. It must not change the state or the
	// input. Its error is a refusal, returned as a [*RefusalError]: nothing is
	// written.
	Decide func(state S, input I) (Decision, error)
}

// A Decision is what one input leads to: one or more events in [EventHistory]
// mode, a new snapshot in [Snapshot] mode, and what is committed together with
// them. An input that changes nothing but must be completed appends an event that
// says so, or repeats the snapshot.
type Decision struct {
	Events   []Payload
	Snapshot *Payload
	Effects  []Intent
	Receipts []TerminalReceipt
}

// Check reports the first thing that the machine lacks, as a
// [*countersign.MalformedError]. A [Host] reports it at every call.
func (m Machine[S, I]) Check() error {
	lacks := func(reason string) error { return &countersign.MalformedError{Field: "machine", Reason: reason} }
	switch {
	case !m.Mode.Valid():
		return lacks(fmt.Sprintf("has mode %.40q, neither event_history nor snapshot", string(m.Mode)))
	case len(m.Reads) == 0:
		return lacks("reads no version")
	case len(m.Writes) == 0:
		return lacks("writes no version")
	case m.Initial == nil:
		return lacks("has no Initial")
	case m.Fold == nil:
		return lacks("has no Fold")
	case m.Decide == nil:
		return lacks("has no Decide")
	}
	for _, v := range m.Reads {
		if err := (Payload{SchemaVersion: v.Schema, CodecVersion: v.Codec}).Check("machine's Reads"); err != nil {
			return err
		}
	}
	for _, v := range m.Writes {
		if err := (Payload{SchemaVersion: v.Schema, CodecVersion: v.Codec}).Check("machine's Writes"); err != nil {
			return err
		}
	}
	return nil
}

// RefusalError says that the machine's Decide refused the input. Nothing was
// written, and the inbox id is not completed. It matches
// [countersign.ErrRefused] and unwraps to the machine's own error.
type RefusalError struct {
	Owner   string
	InboxID string
	Err     error
}

func (e *RefusalError) Error() string {
	return fmt.Sprintf("durable: owner %q: inbox id %q is refused: %v", e.Owner, e.InboxID, e.Err)
}

// Is reports whether target is the error's kind.
func (e *RefusalError) Is(target error) bool { return target == countersign.ErrRefused }

// Unwrap returns the machine's error.
func (e *RefusalError) Unwrap() error { return e.Err }

// RefusesDelivery reports whether an error of [Host.Handle] says that the
// delivery itself can never succeed, so that it may be rejected for good: the
// machine refused it, or its inbox id is known with another fingerprint. Other
// refusals are about the process and not about the delivery (a stale fence, a
// closed store, versions that this release does not know), or about the machine
// (a decision that is malformed): after them the delivery must come again.
func RefusesDelivery(err error) bool {
	if is[*RefusalError](err) {
		return true
	}
	conflict, ok := errors.AsType[*IdentityConflictError](err)
	return ok && conflict.Kind == InboxIdentity
}

// FoldError says that the machine's Fold could not take a stored payload whose
// versions it names. Nothing was written. It matches [countersign.ErrRefused]
// and unwraps to the machine's own error.
type FoldError struct {
	Owner    string
	Position uint64
	Err      error
}

func (e *FoldError) Error() string {
	return fmt.Sprintf("durable: owner %q: can't fold position %d: %v", e.Owner, e.Position, e.Err)
}

// Is reports whether target is the error's kind.
func (e *FoldError) Is(target error) bool { return target == countersign.ErrRefused }

// Unwrap returns the machine's error.
func (e *FoldError) Unwrap() error { return e.Err }
