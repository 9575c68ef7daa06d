package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/countersign/countersign/store"
)

// whileHeld sends a request whose context ends soon, while a transaction holds what
// hold has written, and rolls that transaction back. It reports whether the request
// waited for the transaction although its context had ended.
func whileHeld[A any](t T, tr store.Transactor, hold func(ctx context.Context, tx store.Backend) error, send func(ctx context.Context) A) (answer A, hung bool) {
	t.Helper()
	entered := sync.Once{}
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- tr.Atomically(context.WithoutCancel(t.Context()), func(ctx context.Context, tx store.Backend) error {
			if err := hold(ctx, tx); err != nil {
				return err
			}
			entered.Do(func() { close(inside) }) // the body may run again
			<-leave
			return errBody
		})
	}()
	select {
	case <-inside:
	case err := <-left:
		t.Fatalf("Atomically: it returned %v before its body was done", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	answers := make(chan A, 1)
	go func() { answers <- send(ctx) }()
	select {
	case answer = <-answers:
	case <-time.After(10 * time.Second):
		hung = true
	}
	close(leave)
	if err := <-left; !errors.Is(err, errBody) {
		t.Fatalf("Atomically: want the body's error as it is, got %v", err)
	}
	if hung {
		answer = <-answers
	}
	return answer, hung
}
