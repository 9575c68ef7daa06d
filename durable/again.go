package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign"
)

// again sends a request that has an identity, and repeats it as it is while its
// outcome is unknown: at most so many times, and while the context lives. An
// error of a repeat that says nothing about the first sending leaves the outcome
// unknown.
func again[R any](ctx context.Context, times int, send func() (R, error)) (R, error) {
	res, err := send()
	if !errors.Is(err, countersign.ErrUnknownOutcome) {
		return res, err
	}
	unknown := err
	for range times {
		if ctx.Err() != nil {
			break
		}
		if res, err = send(); err == nil || isVerdict(err) {
			return res, err
		}
	}
	var none R
	return none, stillUnknown(unknown, err)
}

// stillUnknown is the error of a call after a request of unknown outcome, if
// there was one, and a later error that did not settle it.
func stillUnknown(unknown, later error) error {
	if unknown == nil || errors.Is(later, countersign.ErrUnknownOutcome) {
		return later
	}
	return fmt.Errorf("%w; later: %v", unknown, later) //nolint:errorlint // wrapped, its kind would deny that something may be written
}

// isVerdict reports whether the error is one that [Decide] or [DecideCreate]
// gives after it has looked for the request's identity. Then no earlier sending
// of the same request was carried out. Others, as of a busy or closed store, do
// not tell.
func isVerdict(err error) bool {
	return is[*IdentityConflictError](err) ||
		is[*StaleFenceError](err) ||
		is[*PositionConflictError](err) ||
		is[*UnknownEffectError](err) ||
		is[*EffectAlreadyReceiptedError](err) ||
		is[*StateModeMismatchError](err) ||
		is[*PositionOverflowError](err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
