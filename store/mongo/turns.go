package mongo

import (
	"context"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
)

// turns lets one writer of this process at a time work on an owner: the server
// lets only one of two transactions through, and fails the other at once instead
// of letting it wait. Owners do not wait for each other.
type turns struct {
	mu     sync.Mutex
	owners map[string]*turn
}

type turn struct {
	taken   chan struct{} // full while somebody has the turn
	callers int           // who has it or waits for it; guarded by turns.mu
}

// take waits for the owner's turn, at most so long, and returns what gives it
// back.
func (t *turns) take(ctx context.Context, owner string, busy time.Duration) (giveBack func(), err error) {
	mine := t.join(owner)
	giveBack = func() {
		<-mine.taken
		t.leave(owner, mine)
	}
	select {
	case mine.taken <- struct{}{}: // usually nobody else wants it
		return giveBack, nil
	default:
	}
	timer := time.NewTimer(busy)
	defer timer.Stop()
	select {
	case mine.taken <- struct{}{}:
		return giveBack, nil
	case <-ctx.Done():
		err = &store.NotTakenError{Err: countersign.ContextError(ctx)}
	case <-timer.C:
		err = &store.BusyError{Waited: busy}
	}
	t.leave(owner, mine)
	return nil, err
}

func (t *turns) join(owner string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.owners[owner]
	if mine == nil {
		if t.owners == nil {
			t.owners = map[string]*turn{}
		}
		mine = &turn{taken: make(chan struct{}, 1)}
		t.owners[owner] = mine
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
