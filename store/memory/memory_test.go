package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
	"github.com/countersign/countersign/storetest"
)

// handle is a store together with its medium, where images are planted.
type handle struct {
	*memory.Store
	medium *memory.Medium
}

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(storetest.T) storetest.Opener {
			medium := memory.NewMedium()
			return func(_ context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				return handle{memory.OpenWith(medium, &memory.Options{Clock: o.Clock}), medium}, nil
			}
		},
		Plant: func(_ context.Context, b storetest.Backend, img durable.Image) error {
			b.(handle).medium.Plant(img)
			return nil
		},
		// There is no server: a handle that is gone is all that there is to lose.
		Kill: func(_ context.Context, b storetest.Backend) error { return b.Close() },
	})
}

var order = durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory}

func TestZeroStoreIsClosed(t *testing.T) {
	var zero memory.Store
	for name, s := range map[string]*memory.Store{"zero": &zero, "nil": nil} {
		if _, err := s.CreateOwner(t.Context(), order); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: CreateOwner: %v", name, err)
		}
		if _, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "order-42"}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: LoadOwner: %v", name, err)
		}
		body := func(context.Context, store.Backend) error { panic("the body must not run") }
		if err := s.Atomically(t.Context(), body); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: Atomically: %v", name, err)
		}
	}
}

func TestStoresOfNewAreApart(t *testing.T) {
	one, two := memory.New(), memory.New()
	if _, err := one.CreateOwner(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	var unknown *durable.UnknownOwnerError
	if _, err := two.LoadOwner(t.Context(), durable.LoadOwner{Owner: "order-42"}); !errors.As(err, &unknown) {
		t.Fatal(err)
	}
}

// A write waits for another caller's transaction, but not for ever. Reads do not
// wait at all.
func TestWriteBesideALongTransactionIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		if _, err := s.CreateOwner(t.Context(), order); err != nil {
			t.Fatal(err)
		}
		err := s.Atomically(t.Context(), func(context.Context, store.Backend) error {
			if _, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "order-42"}); err != nil {
				t.Error(err)
			}
			var busy *store.BusyError
			_, err := s.CreateOwner(t.Context(), order)
			if !errors.As(err, &busy) || busy.Waited != memory.BusyTimeout || !errors.Is(err, countersign.ErrRetryable) {
				t.Errorf("want a *BusyError after %v, got %v", memory.BusyTimeout, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateOwner(t.Context(), order); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	s := memory.New()
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Atomically(t.Context(), func(context.Context, store.Backend) error {
		waiting := make(chan error)
		go func() {
			_, err := s.CreateOwner(ctx, order)
			waiting <- err
		}()
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) || !errors.Is(err, countersign.ErrRetryable) {
			t.Errorf("want a retryable error of the context, got %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
