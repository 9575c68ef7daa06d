package durable_test

import (
	"context"
	"errors"
	"testing"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
)

func TestHostInATransactionIsAckSafeAfterIt(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	var results []durable.Committed
	err := store.Atomically(t.Context(), memory.Open(h.medium), func(ctx context.Context, tx store.Backend) error {
		inside := durable.NewHost(tx, h.tally.machine(durable.EventHistory), nil)
		// The second is answered from an inbox record that is not committed yet,
		// the fourth on a host that has seen no commit.
		for _, step := range []struct {
			host *durable.Host[*int, int]
			id   string
		}{{inside, "m1"}, {inside, "m1"}, {inside, "m2"}, {durable.NewHost(tx, h.tally.machine(durable.EventHistory), nil), "m2"}} {
			res, err := step.host.Handle(ctx, h.auth, delivery(step.id), 1)
			if err != nil {
				return err
			}
			if res.AckSafe() {
				t.Errorf("%s may be acknowledged before the transaction committed", step.id)
			}
			results = append(results, res)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, res := range results {
		if !res.AckSafe() || res.Duplicate != (i%2 == 1) || res.Through != uint64(i/2)+1 {
			t.Errorf("result %d: %+v", i, res)
		}
	}
	if h.sum(t) != 2 {
		t.Fatalf("sum %d", h.sum(t))
	}
}

func TestRolledBackTransactionLeavesNoTrace(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	rollback := errors.New("roll back")
	var res durable.Committed
	err := store.Atomically(t.Context(), memory.Open(h.medium), func(ctx context.Context, tx store.Backend) error {
		inside := durable.NewHost(tx, h.tally.machine(durable.EventHistory), nil)
		var err error
		if res, err = inside.Handle(ctx, h.auth, delivery("m2"), 100); err != nil {
			t.Error(err)
		}
		return rollback
	})
	if !errors.Is(err, rollback) || res.AckSafe() {
		t.Fatalf("got %+v, %v", res, err)
	}
	if _, err := h.Handle(t.Context(), h.auth, delivery("m3"), -2); !errors.Is(err, errNegative) {
		t.Fatalf("decided on state that was rolled back: %v", err)
	}
	if res := h.must(t, "m2", 1); res.Duplicate || res.Through != 2 {
		t.Fatalf("got %+v", res)
	}
}

// A host over a transaction keeps no state, so that a savepoint which is rolled
// back under it can't leave one behind.
func TestHostInATransactionKeepsNoState(t *testing.T) {
	medium := memory.NewMedium()
	outside := &tally{}
	auth, err := durable.NewHost(memory.Open(medium), outside.machine(durable.EventHistory), nil).Acquire(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	inside := &tap{}
	host := durable.NewHost(inside, outside.machine(durable.EventHistory), nil)
	raw := func(ctx context.Context, id string, n int) {
		if _, err := inside.CommitOwner(ctx, durable.Commit{Owner: "o", Fence: 1, Inbox: delivery(id), State: durable.Append(number(n))}); err != nil {
			t.Error(err)
		}
	}
	refused := func(ctx context.Context, add int) {
		if _, err := host.Handle(ctx, auth, delivery("x"), add); !errors.Is(err, errNegative) {
			t.Errorf("decided on state that was rolled back: %v", err)
		}
	}
	// Each body stands for one savepoint. The caller's own commits differ, and
	// reach the same position.
	for _, n := range []int{100, 10, 1} {
		_ = store.Atomically(t.Context(), memory.Open(medium), func(ctx context.Context, tx store.Backend) error {
			inside.Store = tx
			raw(ctx, "r", n)
			refused(ctx, -n-1)
			if n == 10 {
				if _, err := host.Handle(ctx, auth, delivery("m"), 1); err != nil {
					t.Error(err)
				}
				refused(ctx, -n-2)
			}
			return errors.New("roll back")
		})
	}
}

// A store must not change between itself and a transaction under a host. One
// that does is found out by the first commit in the transaction.
func TestHostThatMetATransactionKeepsNoState(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	db := h.tap.Store
	_ = store.Atomically(t.Context(), memory.Open(h.medium), func(ctx context.Context, tx store.Backend) error {
		h.tap.Store = tx
		for _, id := range []string{"m2", "m2", "m3"} {
			if res, err := h.Handle(ctx, h.auth, delivery(id), 100); err != nil || res.AckSafe() {
				t.Errorf("%s: got %+v, %v", id, res, err)
			}
		}
		return errors.New("roll back")
	})
	h.tap.Store = db
	h.rival(t, "r1", number(1), number(1))
	if _, err := h.Handle(t.Context(), h.auth, delivery("m4"), -4); !errors.Is(err, errNegative) {
		t.Fatalf("decided on state that was rolled back: %v", err)
	}
}

// Where the store may be a transaction, a redelivery is answered by a commit. It
// writes nothing, even if the record that was read is not there.
func TestRedeliveryNeverWrites(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.tap.onLoad = func(img durable.Image, err error) (durable.Image, error) {
		img.Inbox = []durable.InboxRecord{{ID: "m1", Fingerprint: []byte("f"), CommittedThrough: 1}}
		return img, err
	}
	res, err := h.Handle(t.Context(), h.auth, delivery("m1"), 1)
	if err == nil || res.AckSafe() || h.image(t).Position != 0 {
		t.Fatalf("got %+v, %v", res, err)
	}
}
