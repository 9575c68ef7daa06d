package durable_test

import (
	"context"
	"errors"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

func TestEveryErrorHasItsKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind error
	}{
		{&durable.IdentityConflictError{}, countersign.ErrRefused},
		{&durable.UnknownOwnerError{}, countersign.ErrRefused},
		{&durable.StaleFenceError{}, countersign.ErrRefused},
		{&durable.PositionConflictError{}, countersign.ErrConflict},
		{&durable.UnknownEffectError{}, countersign.ErrRefused},
		{&durable.EffectAlreadyReceiptedError{}, countersign.ErrRefused},
		{&durable.StateModeMismatchError{}, countersign.ErrRefused},
		{&durable.PositionOverflowError{}, countersign.ErrRefused},
		{&durable.FenceDidNotAdvanceError{}, countersign.ErrRefused},
		{&durable.UnsupportedVersionError{}, countersign.ErrRefused},
		{&durable.CorruptImageError{}, countersign.ErrRefused},
		{&durable.CorruptCheckpointError{}, countersign.ErrRefused},
		{&durable.ProjectionError{}, countersign.ErrRefused},
		{&durable.NoHistoryError{}, countersign.ErrRefused},
		{&durable.ReplayMismatchError{}, countersign.ErrRefused},
		{&durable.UnknownOutcomeError{Err: context.Canceled}, countersign.ErrUnknownOutcome},
	} {
		if !errors.Is(c.err, c.kind) || kinds(c.err) != 1 {
			t.Errorf("%T: expected %v only", c.err, c.kind)
		}
		if errors.Is(c.err, countersign.ErrMalformed) {
			t.Errorf("%T is malformed input", c.err)
		}
		if c.err.Error() == "" {
			t.Errorf("%T says nothing", c.err)
		}
	}
}

func TestUnknownOutcomeUnwrapsToItsCause(t *testing.T) {
	cause := errors.New("connection reset")
	err := &durable.UnknownOutcomeError{Op: "commit", Owner: "order-42", Err: cause}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	if want := `durable: owner "order-42": the outcome of "commit" is unknown: connection reset`; err.Error() != want {
		t.Errorf("got %q, expected %q", err, want)
	}
}
