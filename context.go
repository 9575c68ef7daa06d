package countersign

import (
	"context"
	"errors"
	"fmt"
)

// ContextError is the error of a context that has ended. It matches the
// context's own error ([context.Canceled] or [context.DeadlineExceeded]) and its
// cause, where the cause says more. It is nil for a context that has not ended.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || cause == err { //nolint:errorlint // the context's error itself, not what wraps it
		return err
	}
	return &contextError{err: err, cause: cause}
}

// contextError does not unwrap to the cause: a cause is about something else, as
// with errgroup, where it is a sibling's error. If that is one of this module's,
// its kind would say something untrue about this request.
type contextError struct{ err, cause error }

func (e *contextError) Error() string { return fmt.Sprintf("%v: %v", e.err, e.cause) }
func (e *contextError) Unwrap() error { return e.err }

func (e *contextError) Is(target error) bool {
	switch target {
	case ErrRefused, ErrConflict, ErrRetryable, ErrUnknownOutcome, ErrMalformed:
		return false
	}
	return errors.Is(e.cause, target)
}
