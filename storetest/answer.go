package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// Outcomes, by the names that the fixtures use.
const (
	aborted        = "aborted"
	committed      = "committed"
	duplicate      = "duplicate"
	recovered      = "recovered"
	fenceAdvanced  = "fence_advanced"
	recorded       = "receipt_recorded"
	recordedBefore = "receipt_duplicate"
	created        = "created" // no fixture has it: it is new, or was there with the same mode

	positionConflict = "position_conflict"
	staleFence       = "stale_fence"
	inboxConflict    = "inbox_identity_conflict"
	effectConflict   = "effect_identity_conflict"
	receiptConflict  = "receipt_identity_conflict"
	ownerConflict    = "owner_identity_conflict"
	receiptedBefore  = "effect_already_receipted"
	malformed        = "malformed"
	unknownOwner     = "unknown_owner"
	unknownEffect    = "unknown_effect"
	modeMismatch     = "state_mode_mismatch"
	fenceStood       = "fence_did_not_advance"
	overflow         = "position_overflow"

	unexpected = "unexpected" // an error that the contract does not give here
)

// request is a request that writes: [durable.CreateOwner], [durable.Commit],
// [durable.AdvanceFence] or [durable.RecordReceipt].
type request interface{ Check() error }

// answer is what a request was answered with, in a form that can be compared.
type answer struct {
	outcome  string
	head     durable.Head            // of a create and of a fence advance
	through  uint64                  // of a commit
	recorded durable.ReceiptRecorded // of a receipt, without its settlement
	ackSafe  bool                    // of a receipt: it is settled
	err      error
}

// ask sends a request to a store.
func ask(ctx context.Context, s durable.Store, req request) answer {
	switch r := req.(type) {
	case durable.CreateOwner:
		head, err := s.CreateOwner(ctx, r)
		return answer{head: head, err: err}.named(created)
	case durable.AdvanceFence:
		head, err := s.AdvanceFence(ctx, r)
		return answer{head: head, err: err}.named(fenceAdvanced)
	case durable.Commit:
		c, err := s.CommitOwner(ctx, r)
		return answerOfCommit(c, err)
	case durable.RecordReceipt:
		c, err := s.RecordReceipt(ctx, r)
		a := answer{recorded: c, ackSafe: err == nil && c.Settlement.Settled(), err: err}
		a.recorded.Settlement = nil
		if c.Duplicate {
			return a.named(recordedBefore)
		}
		return a.named(recorded)
	}
	panic(fmt.Sprintf("storetest: a request of type %T", req))
}

func answerOfCommit(c durable.Committed, err error) answer {
	a := answer{through: c.Through, ackSafe: c.AckSafe(), err: err}
	if c.Duplicate {
		return a.named(duplicate)
	}
	return a.named(committed)
}

// named gives the answer its outcome: that of its error, or the one named.
func (a answer) named(outcome string) answer {
	a.outcome = outcome
	if a.err != nil {
		a.outcome = outcomeOf(a.err)
	}
	return a
}

// outcomeOf names the outcome that an error stands for.
func outcomeOf(err error) string {
	var conflict *durable.IdentityConflictError
	switch {
	case errors.Is(err, countersign.ErrMalformed):
		return malformed
	case errors.As(err, &conflict):
		switch conflict.Kind {
		case durable.OwnerIdentity:
			return ownerConflict
		case durable.InboxIdentity:
			return inboxConflict
		case durable.EffectIdentity:
			return effectConflict
		case durable.ReceiptIdentity:
			return receiptConflict
		}
	case as[*durable.UnknownOwnerError](err):
		return unknownOwner
	case as[*durable.StaleFenceError](err):
		return staleFence
	case as[*durable.PositionConflictError](err):
		return positionConflict
	case as[*durable.UnknownEffectError](err):
		return unknownEffect
	case as[*durable.EffectAlreadyReceiptedError](err):
		return receiptedBefore
	case as[*durable.StateModeMismatchError](err):
		return modeMismatch
	case as[*durable.PositionOverflowError](err):
		return overflow
	case as[*durable.FenceDidNotAdvanceError](err):
		return fenceStood
	}
	return unexpected
}

func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// details returns the typed error of the rules inside err, without its address,
// so that two of them can be compared field by field.
func details(err error) any {
	if err == nil {
		return nil
	}
	rules := reflect.TypeFor[durable.Head]().PkgPath()
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.Type().Elem().PkgPath() == rules {
		return v.Elem().Interface()
	}
	switch e := any(err).(type) { // each error by itself: the walk is this function
	case interface{ Unwrap() error }:
		return details(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if found := details(err); found != nil {
				return found
			}
		}
	}
	return nil
}

// kind is one of the four kinds of error.
type kind string

const (
	refused        kind = "refused"
	conflict       kind = "conflict"
	retryable      kind = "retryable"
	unknownOutcome kind = "unknown outcome"
)

var kinds = map[kind]error{
	refused: countersign.ErrRefused, conflict: countersign.ErrConflict,
	retryable: countersign.ErrRetryable, unknownOutcome: countersign.ErrUnknownOutcome,
}

// kindOf returns the kind of an error, and an error of its own when it is not
// exactly one. Nil has none.
func kindOf(err error) (k kind, wrong error) {
	if err == nil {
		return "", nil
	}
	for one, sentinel := range kinds {
		switch {
		case !errors.Is(err, sentinel):
		case k != "":
			return "", fmt.Errorf("the error is both %s and %s: %w", k, one, err)
		default:
			k = one
		}
	}
	if k == "" {
		return "", fmt.Errorf("the error has none of the four kinds: %w", err)
	}
	return k, nil
}

// differs says how an answer differs from the one wanted, or nothing.
func (a answer) differs(want answer) string {
	switch {
	case a.outcome != want.outcome:
		return fmt.Sprintf("want %s, got %s", want, a)
	case a.err != nil:
		if _, wrong := kindOf(a.err); wrong != nil {
			return wrong.Error()
		}
		if a.head != (durable.Head{}) || a.through != 0 || a.recorded != (durable.ReceiptRecorded{}) || a.ackSafe {
			return fmt.Sprintf("a refusal came with a result: %s", a)
		}
		// Which rule a malformed request breaks first is not part of the contract.
		if a.outcome != malformed && details(a.err) != details(want.err) {
			return fmt.Sprintf("the error says other things:\n want %+v\n  got %+v", details(want.err), details(a.err))
		}
	case a.head != want.head || a.through != want.through || a.recorded != want.recorded || a.ackSafe != want.ackSafe:
		return fmt.Sprintf("want %s, got %s", want, a)
	}
	return ""
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return fmt.Sprintf("%s (%v)", a.outcome, a.err)
	case a.head != (durable.Head{}):
		return fmt.Sprintf("%s %+v", a.outcome, a.head)
	case a.recorded != (durable.ReceiptRecorded{}):
		return fmt.Sprintf("%s at %d under fence %d", a.outcome, a.recorded.RecordedAt, a.recorded.Fence)
	}
	return fmt.Sprintf("%s through %d (ack safe %v)", a.outcome, a.through, a.ackSafe)
}

// taken repeats a request for as long as the store says that it was not taken
// for a passing reason, as every caller under load has to. Errors that match one
// of the expected ones are answers too, and give nil.
func taken(ctx context.Context, send func() error, expected ...error) error {
	const attempts = 50
	var err error
	for range attempts {
		err = send()
		if err == nil || slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
			return nil
		}
		if !errors.Is(err, countersign.ErrRetryable) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("still not taken after %d attempts: %w", attempts, err)
}
