package durable_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

func TestAcquireCreatesAndAdvances(t *testing.T) {
	for _, mode := range []durable.Mode{durable.EventHistory, durable.Snapshot} {
		medium := memory.NewMedium()
		for want := uint64(1); want <= 3; want++ {
			host := durable.NewHost(memory.Open(medium), (&tally{}).machine(mode), nil)
			auth, err := host.Acquire(t.Context(), "o")
			if err != nil || auth != (durable.Grant{Owner: "o", Fence: want}) {
				t.Fatalf("got %+v, %v", auth, err)
			}
		}
		img, err := durable.Recover(t.Context(), memory.Open(medium), "o")
		if err != nil || img.Fence != 3 || img.Mode != mode {
			t.Fatalf("got %+v, %v", img, err)
		}
	}
}

func TestAcquireRefuses(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	_, err := durable.NewHost(h.tap, h.tally.machine(durable.Snapshot), nil).Acquire(t.Context(), "o")
	if e := mustBe[*durable.IdentityConflictError](t, err, countersign.ErrRefused); e.Kind != durable.OwnerIdentity {
		t.Fatalf("got %+v", e)
	}
	_, err = h.Acquire(t.Context(), "")
	mustBe[*countersign.MalformedError](t, err, countersign.ErrMalformed)
	if _, err := h.tap.AdvanceFence(t.Context(), durable.AdvanceFence{Owner: "o", Fence: countersign.MaxInteger}); err != nil {
		t.Fatal(err)
	}
	_, err = h.Acquire(t.Context(), "o") // no fence is left
	mustBe[*countersign.MalformedError](t, err, countersign.ErrMalformed)
}

func TestAcquireTakesAGreaterFenceThanItsRival(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	rivals := 0
	h.tap.onAdvance = func(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
		if rivals++; rivals <= 2 {
			if _, err := h.tap.Store.AdvanceFence(ctx, durable.AdvanceFence{Owner: "o", Fence: req.Fence + 10}); err != nil {
				t.Error(err)
			}
		}
		return h.tap.Store.AdvanceFence(ctx, req)
	}
	auth, err := h.Acquire(t.Context(), "o")
	if err != nil || auth.Fence != 24 {
		t.Fatalf("got %+v, %v", auth, err)
	}
}

func TestAcquireIsBounded(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, &durable.HostOptions{Attempts: 3})
	rivals := 0
	h.tap.onAdvance = func(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
		rivals++
		if _, err := h.tap.Store.AdvanceFence(ctx, req); err != nil {
			t.Error(err)
		}
		return h.tap.Store.AdvanceFence(ctx, req)
	}
	_, err := h.Acquire(t.Context(), "o")
	mustBe[*durable.FenceDidNotAdvanceError](t, err, countersign.ErrRefused)
	if rivals != 3 {
		t.Fatalf("%d attempts", rivals)
	}
}

func TestAcquireNeverRepeatsAFenceOfUnknownOutcome(t *testing.T) {
	for name, carriedOut := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			h := newTallyHost(t, durable.EventHistory, nil)
			var tried []uint64
			h.tap.onAdvance = func(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
				tried = append(tried, req.Fence)
				if len(tried) > 2 {
					return h.tap.Store.AdvanceFence(ctx, req)
				}
				if carriedOut {
					_, _ = h.tap.Store.AdvanceFence(ctx, req)
				}
				return durable.Head{}, lost("advance fence")
			}
			auth, err := h.Acquire(t.Context(), "o")
			if err != nil || !slices.Equal(tried, []uint64{2, 3, 4}) || auth.Fence != 4 {
				t.Fatalf("got %+v, %v after %v", auth, err, tried)
			}
			h.auth = auth
			h.must(t, "m1", 1)
		})
	}
	t.Run("head not read", func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		h.tap.onAdvance = func(context.Context, durable.AdvanceFence) (durable.Head, error) {
			return durable.Head{}, lost("advance fence")
		}
		h.tap.onLoad = func(durable.Image, error) (durable.Image, error) {
			return durable.Image{}, fmt.Errorf("busy: %w", countersign.ErrRetryable)
		}
		_, err := h.Acquire(t.Context(), "o")
		mustBe[*durable.UnknownOutcomeError](t, err, countersign.ErrUnknownOutcome)
		if errors.Is(err, countersign.ErrRetryable) {
			t.Fatalf("%v says that nothing was written", err)
		}
	})
	t.Run("then busy", func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		n := 0
		h.tap.onAdvance = func(context.Context, durable.AdvanceFence) (durable.Head, error) {
			if n++; n == 1 {
				return durable.Head{}, lost("advance fence")
			}
			return durable.Head{}, fmt.Errorf("busy: %w", countersign.ErrRetryable)
		}
		_, err := h.Acquire(t.Context(), "o")
		mustBe[*durable.UnknownOutcomeError](t, err, countersign.ErrUnknownOutcome)
		if n != 2 || errors.Is(err, countersign.ErrRetryable) {
			t.Fatalf("%v after %d attempts", err, n)
		}
	})
	t.Run("always", func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		n := 0
		h.tap.onAdvance = func(context.Context, durable.AdvanceFence) (durable.Head, error) {
			n++
			return durable.Head{}, lost("advance fence")
		}
		auth, err := h.Acquire(t.Context(), "o")
		mustBe[*durable.UnknownOutcomeError](t, err, countersign.ErrUnknownOutcome)
		if n != 8 || auth != (durable.Grant{}) {
			t.Fatalf("%d attempts, %+v", n, auth)
		}
	})
	t.Run("context ended", func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		h.tap.onAdvance = func(context.Context, durable.AdvanceFence) (durable.Head, error) {
			n++
			cancel()
			return durable.Head{}, lost("advance fence")
		}
		_, err := h.Acquire(ctx, "o")
		mustBe[*durable.UnknownOutcomeError](t, err, countersign.ErrUnknownOutcome)
		if n != 1 {
			t.Fatalf("%d attempts", n)
		}
	})
}

func TestAcquireRepeatsACreationOfUnknownOutcome(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	n := 0
	h.tap.onCreate = func(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
		head, err := h.tap.Store.CreateOwner(ctx, req)
		if n++; n <= 2 {
			return durable.Head{}, lost("create owner")
		}
		return head, err
	}
	auth, err := h.Acquire(t.Context(), "new")
	if err != nil || auth.Fence != 1 || n != 3 {
		t.Fatalf("got %+v, %v after %d", auth, err, n)
	}
}

// Eight goroutines over two hosts get eight fences, and the greatest one writes.
func TestAcquireRaces(t *testing.T) {
	medium := memory.NewMedium()
	hosts := make([]*durable.Host[*int, int], 2)
	for i := range hosts {
		hosts[i] = durable.NewHost(memory.Open(medium), (&tally{}).machine(durable.EventHistory), &durable.HostOptions{Attempts: 100})
	}
	auths := make([]durable.Grant, 8)
	var wg sync.WaitGroup
	for i := range auths {
		wg.Go(func() {
			var err error
			if auths[i], err = hosts[i%2].Acquire(t.Context(), "o"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(auths, func(a, b durable.Grant) int { return int(a.Fence) - int(b.Fence) })
	for i, auth := range auths {
		if auth.Fence != uint64(i)+1 {
			t.Fatalf("fences %v", auths)
		}
		_, err := hosts[i%2].Handle(t.Context(), auth, delivery(fmt.Sprint("m", i)), 1)
		if last := i == len(auths)-1; last && err != nil || !last && !errors.Is(err, countersign.ErrRefused) {
			t.Fatalf("fence %d: %v", auth.Fence, err)
		}
	}
}
