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
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
