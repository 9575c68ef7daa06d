package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

// plant gives the owner a history of ones.
func (h *tallyHost) plant(t testing.TB, events int) {
	t.Helper()
	img := h.image(t)
	img.Position = uint64(events)
	img.History = make([]durable.Record, events)
	for i := range img.History {
		img.History[i] = durable.Record{Position: uint64(i) + 1, Payload: number(1)}
	}
	h.medium.Plant(img)
}

// read is how many records a call read.
func (h *tallyHost) read(call func()) int64 {
	before := h.tap.records.Load()
	call()
	return h.tap.records.Load() - before
}

func TestCallReadsTheSuffixOnly(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.plant(t, 2500)
	if n := h.read(func() { h.must(t, "m0", 1) }); n != 2500 {
		t.Fatalf("the first call read %d records", n)
	}
	// The pages grew, from 100: few reads for a long history.
	if h.tap.pages.Load() > 7 {
		t.Fatalf("it read %d pages", h.tap.pages.Load())
	}
	h.tap.loads.Store(0)
	for i := 1; i <= 50; i++ {
		// Only m0 was not read back before: by a refusal.
		if n := h.read(func() { h.must(t, fmt.Sprint("m", i), 1) }); n > 1 || n == 1 && i > 1 {
			t.Fatalf("call %d read %d records", i, n)
		}
		refused := func() {
			if _, err := h.Handle(t.Context(), h.auth, delivery("x"), -10_000); !errors.Is(err, errNegative) {
				t.Fatal(err)
			}
		}
		if n := h.read(refused); n != 1 { // what the call before wrote
			t.Fatalf("refusal %d read %d records", i, n)
		}
		if n := h.read(refused); n != 0 {
			t.Fatalf("refusal %d read %d records the second time", i, n)
		}
		h.rival(t, fmt.Sprint("rival", i), number(1), number(1))
		if n := h.read(refused); n != 2 {
			t.Fatalf("refusal %d read %d records of its rival", i, n)
		}
	}
	if h.tap.loads.Load() != 200 {
		t.Fatalf("%d loads for 200 calls", h.tap.loads.Load())
	}
	if h.sum(t) != 2500+51+100 {
		t.Fatalf("sum %d", h.sum(t))
	}
}

func TestLargeRecordsAreReadInSmallPages(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.plant(t, 450)
	img := h.image(t)
	for i := range img.History {
		digits := make([]byte, 20_000) // 100 of them are more than 1 MiB
		for j := range digits {
			digits[j] = '0'
		}
		img.History[i].Payload.Bytes = append(bytes.Clone(digits), '1')
	}
	h.medium.Plant(img)
	h.tap.onHistory = func(req durable.ReadHistory) {
		if req.Limit > durable.DefaultPageLimit {
			t.Errorf("a page of %d", req.Limit)
		}
	}
	h.must(t, "m1", 1)
	if h.tap.pages.Load() != 4 {
		t.Fatalf("%d pages", h.tap.pages.Load())
	}
}

func TestSnapshotIsReadOnlyWhenNewer(t *testing.T) {
	h := newTallyHost(t, durable.Snapshot, nil)
	h.must(t, "m1", 1)
	h.must(t, "m2", 1)
	refused := func() {
		if _, err := h.Handle(t.Context(), h.auth, delivery("x"), -10); !errors.Is(err, errNegative) {
			t.Fatal(err)
		}
	}
	if n := h.read(refused); n != 1 {
		t.Fatalf("read %d", n)
	}
	if n := h.read(refused); n != 0 {
		t.Fatalf("read %d the second time", n)
	}
}

func TestKeptStatesAreTheLastUsed(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, &durable.HostOptions{CachedOwners: 2})
	auth := map[string]durable.Grant{}
	for _, owner := range []string{"a", "b", "c"} {
		var err error
		if auth[owner], err = h.Acquire(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	handle := func(owner string) int64 {
		return h.read(func() {
			n++
			if _, err := h.Handle(t.Context(), auth[owner], delivery(fmt.Sprint("m", n)), 1); err != nil {
				t.Fatal(err)
			}
		})
	}
	for range 10 {
		handle("a")
		handle("b")
	}
	for i, step := range []struct {
		owner string
		reads int64
	}{{"a", 1}, {"b", 1}, {"c", 0}, {"b", 1}, {"a", 11}, {"b", 1}, {"c", 1}, {"a", 1 + 11}} {
		if got := handle(step.owner); got != step.reads {
			t.Fatalf("step %d: %s read %d records, want %d", i, step.owner, got, step.reads)
		}
	}
}

func TestStateBelongsToItsAuthority(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	for i := range 5 {
		h.must(t, fmt.Sprint("m", i), 1)
	}
	old := h.auth
	var err error
	if h.auth, err = h.Acquire(t.Context(), "o"); err != nil {
		t.Fatal(err)
	}
	if n := h.read(func() { h.must(t, "m5", 1) }); n != 5 {
		t.Fatalf("read %d", n)
	}
	// A call under the old authority leaves the new one's state.
	if _, err := h.Handle(t.Context(), old, delivery("m6"), 1); !is[*durable.StaleFenceError](err) {
		t.Fatal(err)
	}
	if n := h.read(func() { h.must(t, "m6", 1) }); n != 1 {
		t.Fatalf("read %d", n)
	}
}

func TestRestoredBackupIsReadAnew(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	backup := h.image(t)
	h.must(t, "m2", 50)
	h.must(t, "m3", 50)
	h.medium.Plant(backup)
	if _, err := h.Handle(t.Context(), h.auth, delivery("m4"), -2); !errors.Is(err, errNegative) {
		t.Fatalf("decided on lost state: %v", err)
	}
	if res := h.must(t, "m2", 5); res.Through != 2 || res.Duplicate || h.sum(t) != 6 {
		t.Fatalf("got %+v, sum %d", res, h.sum(t))
	}
	// The history went on from the backup, past where the state stands.
	h.medium.Plant(backup)
	h.rival(t, "r", number(0), number(0), number(0))
	var err error
	if h.auth, err = h.Acquire(t.Context(), "o"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Handle(t.Context(), h.auth, delivery("m5"), -2); !errors.Is(err, errNegative) {
		t.Fatalf("decided on lost state: %v", err)
	}
}

func TestFailingFoldDropsTheState(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	h.must(t, "m2", 1)
	cause := errors.New("half way")
	h.tally.onFold = func(sum *int, _ durable.Payload) error {
		*sum = -1000
		return cause
	}
	before := h.image(t)
	_, err := h.Handle(t.Context(), h.auth, delivery("m3"), 1)
	if e := mustBe[*durable.FoldError](t, err, countersign.ErrRefused); e.Position != 2 || !errors.Is(err, cause) {
		t.Fatalf("got %+v", e)
	}
	if h.image(t).Position != before.Position {
		t.Fatal("it was committed")
	}
	h.tally.onFold = nil
	if n := h.read(func() { h.must(t, "m3", 1) }); n != 2 || h.sum(t) != 3 {
		t.Fatalf("read %d, sum %d", n, h.sum(t))
	}
}

func TestUnsupportedVersionsFailBeforeDecode(t *testing.T) {
	for name, p := range map[string]durable.Payload{
		"schema": {SchemaVersion: 2, CodecVersion: 1, Bytes: []byte("1")},
		"codec":  {SchemaVersion: 1, CodecVersion: 2, Bytes: []byte("1")},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTallyHost(t, durable.EventHistory, nil)
			h.rival(t, "r1", number(1), number(1), p, number(1))
			_, err := h.Handle(t.Context(), h.auth, delivery("m1"), 1)
			e := mustBe[*durable.UnsupportedVersionError](t, err, countersign.ErrRefused)
			if e.Position != 3 || e.What != "event at position 3" || e.Version != p.Version() {
				t.Fatalf("got %+v", e)
			}
			if h.tally.folds.Load() != 0 || h.tally.decides.Load() != 0 || h.image(t).Position != 4 {
				t.Fatal("something was decoded, decided or written")
			}
			// A machine that reads both versions goes on.
			m := h.tally.machine(durable.EventHistory)
			m.Reads = append(m.Reads, p.Version())
			if _, err := durable.NewHost(h.tap, m, nil).Handle(t.Context(), h.auth, delivery("m1"), 1); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("snapshot", func(t *testing.T) {
		h := newTallyHost(t, durable.Snapshot, nil)
		_, err := h.tap.CommitOwner(t.Context(), durable.Commit{
			Owner: "o", Fence: 1, Inbox: delivery("r1"), State: durable.Replace(durable.Payload{SchemaVersion: 1, CodecVersion: 7}),
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Handle(t.Context(), h.auth, delivery("m1"), 1)
		e := mustBe[*durable.UnsupportedVersionError](t, err, countersign.ErrRefused)
		if e.Position != 1 || e.What != "snapshot at position 1" || h.tally.folds.Load() != 0 {
			t.Fatalf("got %+v", e)
		}
	})
	t.Run("later than the kept state", func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		h.must(t, "m1", 1)
		h.must(t, "m2", 1)
		h.rival(t, "r1", durable.Payload{SchemaVersion: 2, CodecVersion: 1})
		for range 3 {
			n := h.read(func() {
				_, err := h.Handle(t.Context(), h.auth, delivery("m3"), 1)
				mustBe[*durable.UnsupportedVersionError](t, err, countersign.ErrRefused)
			})
			if n > 2 {
				t.Fatalf("read %d records: the state was dropped", n)
			}
		}
	})
}

// The machine's lists are the host's own.
func TestVersionsAreCopied(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	m := h.tally.machine(durable.EventHistory)
	host := durable.NewHost(h.tap, m, nil)
	m.Reads[0], m.Writes[0] = durable.Version{Schema: 9, Codec: 9}, durable.Version{Schema: 9, Codec: 9}
	if _, err := host.Handle(t.Context(), h.auth, delivery("m1"), 1); err != nil {
		t.Fatal(err)
	}
}

// What a rival commits while the pages are read is not part of the state, and
// makes the commit a conflict.
func TestPagesEndAtTheHeadThatWasRead(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.plant(t, 150)
	h.tap.onHistory = func(durable.ReadHistory) {
		h.tap.onHistory = nil
		h.rival(t, "rival", number(1000))
	}
	var sums []int
	h.tally.onDecide = func(sum, _ int) error {
		sums = append(sums, sum)
		return nil
	}
	h.must(t, "m1", 1)
	if fmt.Sprint(sums) != "[150 1150]" || h.sum(t) != 1151 {
		t.Fatalf("decided on %v, sum %d", sums, h.sum(t))
	}
}

// A load that was cut short goes on from where it came to.
func TestLongLoadMakesProgress(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	h.plant(t, 250)
	ctx, cancel := context.WithCancel(t.Context())
	h.tap.onHistory = func(durable.ReadHistory) { cancel() }
	if _, err := h.Handle(ctx, h.auth, delivery("m2"), 1); !errors.Is(err, countersign.ErrRetryable) {
		t.Fatal(err)
	}
	h.tap.onHistory = nil
	if n := h.read(func() { h.must(t, "m2", 1) }); n != 150 {
		t.Fatalf("read %d", n)
	}
}

func TestCorruptRecordsAreNotFolded(t *testing.T) {
	record := func(at uint64) durable.Record { return durable.Record{Position: at, Payload: number(1)} }
	snapshot := record(2)
	for name, c := range map[string]struct {
		mode   durable.Mode
		reason durable.CorruptReason
		img    durable.Image
	}{
		"gap":           {durable.EventHistory, durable.HistoryNotContiguous, durable.Image{History: []durable.Record{record(1), record(3), record(4)}}},
		"missing start": {durable.EventHistory, durable.HistoryNotContiguous, durable.Image{History: []durable.Record{record(2), record(3)}}},
		"missing end":   {durable.EventHistory, durable.HistoryNotContiguous, durable.Image{History: []durable.Record{record(1), record(2)}}},
		"past the head": {durable.EventHistory, durable.HistoryNotContiguous, durable.Image{History: []durable.Record{record(1), record(2), record(3), record(4)}}},
		"no snapshot":   {durable.Snapshot, durable.SnapshotPosition, durable.Image{}},
		"old snapshot":  {durable.Snapshot, durable.SnapshotPosition, durable.Image{Snapshot: &snapshot}},
	} {
		t.Run(name, func(t *testing.T) {
			tally := &tally{}
			medium := memory.NewMedium()
			c.img.Head = durable.Head{Owner: "o", Mode: c.mode, Position: 3, Fence: 1}
			medium.Plant(c.img)
			host := durable.NewHost(memory.Open(medium), tally.machine(c.mode), nil)
			_, err := host.Handle(t.Context(), durable.Grant{Owner: "o", Fence: 1}, delivery("m1"), 1)
			if e := mustBe[*durable.CorruptImageError](t, err, countersign.ErrRefused); e.Reason != c.reason {
				t.Fatalf("got %+v", e)
			}
			if tally.decides.Load() != 0 || name == "past the head" && tally.folds.Load() != 0 {
				t.Fatal("it was decided or decoded")
			}
		})
	}
}
