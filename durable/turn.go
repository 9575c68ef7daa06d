package durable

import (
	"context"
	"fmt"
	"sync"

	"github.com/countersign/countersign"
)

// TurnError says that the caller's context ended while it waited for another
// call on the same owner. Nothing was read or written. It matches
// [countersign.ErrRetryable] and unwraps to the context's error.
type TurnError struct {
	Owner string
	Err   error
}

func (e *TurnError) Error() string {
	return fmt.Sprintf("durable: owner %q: gave up waiting for another call: %v", e.Owner, e.Err)
}

// Is reports whether target is the error's kind.
func (e *TurnError) Is(target error) bool { return target == countersign.ErrRetryable }

// Unwrap returns the context's error.
func (e *TurnError) Unwrap() error { return e.Err }

// turns lets one caller at a time work on an owner, in the order of their
// arrival. It remembers only the owners that somebody works on or waits for.
type turns struct {
	mu     sync.Mutex
	owners map[string]*turn
}

type turn struct {
	taken   chan struct{} // full while somebody has the turn; a channel, so that waiting ends with a context
	callers int           // who has it or waits for it; guarded by turns.mu
}

// take waits for the owner's turn and returns what gives it back.
func (t *turns) take(ctx context.Context, owner string) (giveBack func(), err error) {
	if ctx.Err() != nil {
		return nil, &TurnError{Owner: owner, Err: countersign.ContextError(ctx)}
	}
	mine := t.join(owner)
	select {
	case mine.taken <- struct{}{}:
		return func() {
			<-mine.taken
			t.leave(owner, mine)
		}, nil
	case <-ctx.Done():
		t.leave(owner, mine)
		return nil, &TurnError{Owner: owner, Err: countersign.ContextError(ctx)}
	}
}

func (t *turns) join(owner string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.owners[owner]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, 1)}
		put(&t.owners, owner, mine)
	}
	mine.callers++
	return mine
}

func (t *turns) leave(owner string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.callers--; mine.callers == 0 {
		delete(t.owners, owner)
	}
}
