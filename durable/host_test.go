package durable_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

// A tally adds numbers up. Its machine counts what it is asked, and the hooks of
// a test run first.
type tally struct {
	folds, decides atomic.Int64
	onFold         func(sum *int, p durable.Payload) error
	onDecide       func(sum, add int) error
}

var errNegative = errors.New("the sum would be negative")

func number(n int) durable.Payload {
	return durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(strconv.Itoa(n))}
}

// machine folds numbers: added up in an event history, or taken as they are in
// snapshots. Each input asks for one effect.
func (t *tally) machine(mode durable.Mode) durable.Machine[*int, int] {
	return durable.Machine[*int, int]{
		Mode:    mode,
		Reads:   []durable.Version{{Schema: 1, Codec: 1}},
		Writes:  []durable.Version{{Schema: 1, Codec: 1}},
		Initial: func() *int { return new(int) },
		Fold: func(sum *int, p durable.Payload) (*int, error) {
			t.folds.Add(1)
			if t.onFold != nil {
				if err := t.onFold(sum, p); err != nil {
					return nil, err
				}
			}
			n, err := strconv.Atoi(string(p.Bytes))
			if err != nil {
				return nil, err
			}
			*sum += n // in place, as Fold may
			return sum, nil
		},
		Decide: func(sum *int, add int) (durable.Decision, error) {
			t.decides.Add(1)
			if t.onDecide != nil {
				if err := t.onDecide(*sum, add); err != nil {
					return durable.Decision{}, err
				}
			}
			if *sum+add < 0 {
				return durable.Decision{}, errNegative
			}
			d := durable.Decision{Effects: []durable.Intent{{ID: fmt.Sprintf("show-%d", *sum+add), Payload: number(*sum + add)}}}
			if mode == durable.Snapshot {
				snapshot := number(*sum + add)
				d.Snapshot = &snapshot
			} else {
				d.Events = []durable.Payload{number(add)}
			}
			return d, nil
		},
	}
}

// A tap is a store whose calls a test can count, replace and fail.
type tap struct {
	durable.Store
	onCreate  func(ctx context.Context, req durable.CreateOwner) (durable.Head, error)
	onLoad    func(img durable.Image, err error) (durable.Image, error)
	onCommit  func(ctx context.Context, c durable.Commit) (durable.Committed, error)
	onAdvance func(ctx context.Context, req durable.AdvanceFence) (durable.Head, error)
	onHistory func(req durable.ReadHistory)

	loads, pages, commits atomic.Int64
	records               atomic.Int64 // of history, and snapshots
}

func (s *tap) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	if s.onCreate != nil {
		return s.onCreate(ctx, req)
	}
	return s.Store.CreateOwner(ctx, req)
}

func (s *tap) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	s.loads.Add(1)
	img, err := s.Store.LoadOwner(ctx, req)
	s.records.Add(int64(len(img.History)))
	if img.Snapshot != nil {
		s.records.Add(1)
	}
	if s.onLoad != nil {
		return s.onLoad(img, err)
	}
	return img, err
}

func (s *tap) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	s.pages.Add(1)
	if s.onHistory != nil {
		s.onHistory(req)
	}
	page, err := s.Store.ReadHistory(ctx, req)
	s.records.Add(int64(len(page)))
	return page, err
}

func (s *tap) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	s.commits.Add(1)
	if s.onCommit != nil {
		return s.onCommit(ctx, c)
	}
	return s.Store.CommitOwner(ctx, c)
}

func (s *tap) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	if s.onAdvance != nil {
		return s.onAdvance(ctx, req)
	}
	return s.Store.AdvanceFence(ctx, req)
}

// tallyHost is a host of a tally over a tapped store, with the authority over
// the owner "o".
type tallyHost struct {
	*durable.Host[*int, int]
	tally  *tally
	tap    *tap
	medium *memory.Medium
	auth   durable.Grant
}

func newTallyHost(t testing.TB, mode durable.Mode, opts *durable.HostOptions) *tallyHost {
	t.Helper()
	medium := memory.NewMedium()
	h := &tallyHost{tally: &tally{}, tap: &tap{Store: memory.Open(medium)}, medium: medium}
	h.Host = durable.NewHost(h.tap, h.tally.machine(mode), opts)
	auth, err := h.Acquire(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	h.auth = auth
	return h
}

func delivery(id string) durable.Inbox { return durable.Inbox{ID: id, Fingerprint: []byte("f")} }

// must handles the input and fails the test on an error.
func (h *tallyHost) must(t testing.TB, id string, add int) durable.Committed {
	t.Helper()
	res, err := h.Handle(t.Context(), h.auth, delivery(id), add)
	if err != nil {
		t.Fatalf("handle %s: %v", id, err)
	}
	return res
}

// rival commits past the host, at the owner's position and under its fence.
func (h *tallyHost) rival(t testing.TB, id string, events ...durable.Payload) {
	t.Helper()
	img := h.image(t)
	_, err := memory.Open(h.medium).CommitOwner(context.Background(), durable.Commit{
		Owner: "o", ExpectedPosition: img.Position, Fence: img.Fence, Inbox: delivery(id), State: durable.Append(events...),
	})
	if err != nil {
		t.Errorf("rival %s: %v", id, err)
	}
}

// image is the owner as it is stored, and valid.
func (h *tallyHost) image(t testing.TB) durable.Image {
	t.Helper()
	img, err := durable.Recover(context.Background(), memory.Open(h.medium), "o")
	if err != nil {
		t.Errorf("recover: %v", err)
	}
	return img
}

// sum is what the owner's events add up to.
func (h *tallyHost) sum(t testing.TB) int {
	t.Helper()
	sum := 0
	for _, r := range h.image(t).History {
		n, _ := strconv.Atoi(string(r.Payload.Bytes))
		sum += n
	}
	return sum
}

func mustBe[E error](t testing.TB, err error, kind error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok || !errors.Is(err, kind) {
		t.Fatalf("got error %v, want a %T of kind %q", err, e, kind)
	}
	return e
}

func TestHandleCommitsInBothModes(t *testing.T) {
	for _, mode := range []durable.Mode{durable.EventHistory, durable.Snapshot} {
		t.Run(string(mode), func(t *testing.T) {
			h := newTallyHost(t, mode, nil)
			for i, add := range []int{3, 4, -2} {
				res := h.must(t, fmt.Sprint("m", i), add)
				if want := uint64(i + 1); res.Through != want || res.Duplicate || !res.AckSafe() {
					t.Fatalf("got %+v, want position %d", res, want)
				}
			}
			img := h.image(t)
			if len(img.Inbox) != 3 || len(img.Outbox) != 3 || img.Outbox[1].ID != "show-5" {
				t.Fatalf("inbox %v, outbox %v", img.Inbox, img.Outbox)
			}
			if mode == durable.Snapshot && string(img.Snapshot.Payload.Bytes) != "5" {
				t.Fatalf("snapshot %s", img.Snapshot.Payload.Bytes)
			}
			if mode == durable.EventHistory && h.sum(t) != 5 {
				t.Fatalf("sum %d", h.sum(t))
			}
			// Another process goes on from there.
			again := durable.NewHost(memory.Open(h.medium), h.tally.machine(mode), nil)
			if _, err := again.Handle(t.Context(), h.auth, delivery("m3"), -6); !errors.Is(err, errNegative) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestDecisionCarriesReceipts(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	m := h.tally.machine(durable.EventHistory)
	m.Decide = func(_ *int, add int) (durable.Decision, error) {
		return durable.Decision{
			Events:   []durable.Payload{number(add), number(add)},
			Receipts: []durable.TerminalReceipt{{ID: "r1", EffectID: "show-1", Outcome: durable.Applied, Payload: number(9)}},
		}, nil
	}
	res, err := durable.NewHost(h.tap, m, nil).Handle(t.Context(), h.auth, delivery("m2"), 2)
	if err != nil || res.Through != 3 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if img := h.image(t); len(img.Receipts) != 1 || len(img.Pending) != 0 {
		t.Fatalf("receipts %v, pending %v", img.Receipts, img.Pending)
	}
}

func TestRedeliveryIsAnsweredBeforeFenceVersionsAndState(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 3)
	h.must(t, "m2", -3) // m1 again would now be decided, m2 refused
	old := h.auth
	if _, err := h.Acquire(t.Context(), "o"); err != nil {
		t.Fatal(err)
	}
	h.rival(t, "m3", durable.Payload{SchemaVersion: 2, CodecVersion: 1})
	before := h.image(t)

	fresh := durable.NewHost(h.tap, h.tally.machine(durable.Snapshot), nil) // also in the wrong mode
	folds, decides := h.tally.folds.Load(), h.tally.decides.Load()
	for name, host := range map[string]*durable.Host[*int, int]{"same": h.Host, "fresh": fresh} {
		for id, through := range map[string]uint64{"m1": 1, "m2": 2} {
			res, err := host.Handle(t.Context(), old, delivery(id), -100)
			if err != nil || !res.Duplicate || res.Through != through || !res.AckSafe() {
				t.Fatalf("%s host, %s: got %+v, %v", name, id, res, err)
			}
		}
		_, err := host.Handle(t.Context(), old, durable.Inbox{ID: "m1", Fingerprint: []byte("other")}, 3)
		if e := mustBe[*durable.IdentityConflictError](t, err, countersign.ErrRefused); e.Kind != durable.InboxIdentity || e.ID != "m1" {
			t.Fatalf("got %+v", e)
		}
	}
	if h.tally.folds.Load() != folds || h.tally.decides.Load() != decides {
		t.Fatal("the machine was asked")
	}
	if !reflect.DeepEqual(before, h.image(t)) {
		t.Fatal("a redelivery changed the owner")
	}
}

func TestRedeliveryOnADurableStoreIsOneRead(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 3)
	h.tap.loads.Store(0)
	h.tap.commits.Store(0)
	h.must(t, "m1", 3)
	if h.tap.loads.Load() != 1 || h.tap.commits.Load() != 0 {
		t.Fatalf("%d loads, %d commits", h.tap.loads.Load(), h.tap.commits.Load())
	}
}

// The same id with other content, while the first is still being decided.
func TestOtherContentInFlightIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		deciding, decide := make(chan struct{}), make(chan struct{})
		h.tally.onDecide = func(int, int) error {
			close(deciding) // a second time would panic
			<-decide
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() { h.must(t, "m1", 1) })
		<-deciding
		for range 8 {
			wg.Go(func() {
				_, err := h.Handle(t.Context(), h.auth, durable.Inbox{ID: "m1", Fingerprint: []byte("other")}, 1)
				if !is[*durable.IdentityConflictError](err) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		close(decide)
		wg.Wait()
	})
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestRefusalWritesNothing(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	before := h.image(t)
	_, err := h.Handle(t.Context(), h.auth, delivery("m2"), -2)
	e := mustBe[*durable.RefusalError](t, err, countersign.ErrRefused)
	if e.Owner != "o" || e.InboxID != "m2" || !errors.Is(err, errNegative) {
		t.Fatalf("got %+v", e)
	}
	if !reflect.DeepEqual(before, h.image(t)) {
		t.Fatal("a refusal changed the owner")
	}
	h.must(t, "m2", 2) // the inbox id is not completed
	if h.sum(t) != 3 {
		t.Fatalf("sum %d", h.sum(t))
	}
}

func TestRefusalThatLooksLikeAStoresErrorIsNotRepeated(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	for _, lookalike := range []error{
		&durable.PositionConflictError{Owner: "o"},
		&durable.UnknownOutcomeError{Op: "commit", Owner: "o", Err: errors.New("x")},
		(*lookalikeError)(nil),
	} {
		h.tally.onDecide = func(int, int) error { return lookalike }
		h.tally.decides.Store(0)
		_, err := h.Handle(t.Context(), h.auth, delivery("m1"), 1)
		mustBe[*durable.RefusalError](t, err, countersign.ErrRefused)
		if n := h.tally.decides.Load(); n != 1 || err.Error() == "" {
			t.Fatalf("%v: decided %d times", err, n)
		}
	}
}

// lookalikeError is a nil pointer that is an error, and can't say so.
type lookalikeError struct{ text string }

func (e *lookalikeError) Error() string { return e.text }

func TestDecisionsTheContractRefuses(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m0", 1)
	before := h.image(t)
	other := durable.Payload{SchemaVersion: 1, CodecVersion: 2}
	snapshot := number(1)
	version := func(t *testing.T, err error) {
		e := mustBe[*durable.UnsupportedVersionError](t, err, countersign.ErrRefused)
		if e.Version != (durable.Version{Schema: 1, Codec: 2}) || e.Position != 0 || !strings.HasSuffix(e.What, "to write") {
			t.Fatalf("got %+v", e)
		}
	}
	for name, c := range map[string]struct {
		decision durable.Decision
		check    func(*testing.T, error)
	}{
		"nothing": {durable.Decision{}, func(t *testing.T, err error) {
			mustBe[*countersign.MalformedError](t, err, countersign.ErrMalformed)
		}},
		"snapshot in a history": {durable.Decision{Snapshot: &snapshot}, func(t *testing.T, err error) {
			mustBe[*durable.StateModeMismatchError](t, err, countersign.ErrRefused)
		}},
		"version zero": {durable.Decision{Events: []durable.Payload{{}}}, func(t *testing.T, err error) {
			mustBe[*countersign.MalformedError](t, err, countersign.ErrMalformed)
		}},
		"event version": {durable.Decision{Events: []durable.Payload{number(1), other}}, version},
		"effect version": {durable.Decision{Events: []durable.Payload{number(1)},
			Effects: []durable.Intent{{ID: "e", Payload: other}}}, version},
		"receipt version": {durable.Decision{Events: []durable.Payload{number(1)},
			Receipts: []durable.TerminalReceipt{{ID: "r", EffectID: "show-1", Outcome: durable.Applied, Payload: other}}}, version},
		"snapshot version": {durable.Decision{Snapshot: &other}, version},
	} {
		t.Run(name, func(t *testing.T) {
			m := h.tally.machine(durable.EventHistory)
			m.Decide = func(*int, int) (durable.Decision, error) { return c.decision, nil }
			_, err := durable.NewHost(h.tap, m, nil).Handle(t.Context(), h.auth, delivery("m1"), 1)
			c.check(t, err)
			if !reflect.DeepEqual(before, h.image(t)) {
				t.Fatal("it changed the owner")
			}
		})
	}
}

func TestPositionConflictIsDecidedAgainOnFreshState(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 5)
	var sums []int
	h.tally.onDecide = func(sum, _ int) error {
		sums = append(sums, sum)
		return nil
	}
	rivals := 0
	h.tap.onCommit = func(ctx context.Context, c durable.Commit) (durable.Committed, error) {
		if rivals++; rivals <= 2 {
			h.rival(t, fmt.Sprint("rival", rivals), number(10))
		}
		return h.tap.Store.CommitOwner(ctx, c)
	}
	if res := h.must(t, "m2", 1); res.Through != 4 {
		t.Fatalf("got %+v", res)
	}
	if !reflect.DeepEqual(sums, []int{5, 15, 25}) || h.sum(t) != 26 {
		t.Fatalf("decided on %v, sum %d", sums, h.sum(t))
	}
	if effect := h.image(t).Outbox[0]; effect.ID != "show-26" || len(h.image(t).Outbox) != 2 {
		t.Fatalf("outbox %v", h.image(t).Outbox)
	}
}

func TestPositionConflictsAreBounded(t *testing.T) {
	for attempts, want := range map[int]int64{0: 8, 1: 1, 3: 3} {
		h := newTallyHost(t, durable.EventHistory, &durable.HostOptions{Attempts: attempts})
		n := 0
		h.tap.onCommit = func(ctx context.Context, c durable.Commit) (durable.Committed, error) {
			n++
			h.rival(t, fmt.Sprint("rival", n), number(1))
			return h.tap.Store.CommitOwner(ctx, c)
		}
		_, err := h.Handle(t.Context(), h.auth, delivery("m1"), 1)
		mustBe[*durable.PositionConflictError](t, err, countersign.ErrConflict)
		if h.tally.decides.Load() != want {
			t.Fatalf("%d attempts: decided %d times", attempts, h.tally.decides.Load())
		}
	}
}

// The rival is the same delivery, on another host under the same authority.
func TestRivalOfTheSameDeliveryIsADuplicate(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.tap.onCommit = func(ctx context.Context, c durable.Commit) (durable.Committed, error) {
		h.tap.onCommit = nil
		if _, err := durable.NewHost(memory.Open(h.medium), h.tally.machine(durable.EventHistory), nil).Handle(ctx, h.auth, c.Inbox, 1); err != nil {
			t.Error(err)
		}
		return h.tap.Store.CommitOwner(ctx, c)
	}
	if res := h.must(t, "m1", 1); !res.Duplicate || res.Through != 1 {
		t.Fatalf("got %+v", res)
	}
}

// lost is a commit whose answer does not arrive.
func lost(op string) error {
	return &durable.UnknownOutcomeError{Op: op, Owner: "o", Err: errors.New("connection lost")}
}

func TestUnknownOutcomeIsRepeatedAsItIs(t *testing.T) {
	for name, carriedOut := range map[string]bool{"before the commit": false, "after the commit": true} {
		t.Run(name, func(t *testing.T) {
			h := newTallyHost(t, durable.EventHistory, nil)
			var sent []durable.Commit
			h.tap.onCommit = func(ctx context.Context, c durable.Commit) (durable.Committed, error) {
				sent = append(sent, c)
				if len(sent) > 2 {
					return h.tap.Store.CommitOwner(ctx, c)
				}
				if carriedOut {
					_, _ = h.tap.Store.CommitOwner(ctx, c)
				}
				return durable.Committed{}, lost("commit")
			}
			res := h.must(t, "m1", 1)
			if res.Through != 1 || res.Duplicate != carriedOut || !res.AckSafe() {
				t.Fatalf("got %+v", res)
			}
			if len(sent) != 3 || !reflect.DeepEqual(sent[0], sent[1]) || !reflect.DeepEqual(sent[0], sent[2]) {
				t.Fatalf("sent %+v", sent)
			}
			if img := h.image(t); h.tally.decides.Load() != 1 || len(img.Outbox) != 1 || len(img.History) != 1 {
				t.Fatalf("decided %d times: %+v", h.tally.decides.Load(), img)
			}
		})
	}
}

func TestUnknownOutcomeEndsUnknown(t *testing.T) {
	busy := fmt.Errorf("busy: %w", countersign.ErrRetryable)
	closed := fmt.Errorf("closed: %w", countersign.ErrRefused)
	for name, c := range map[string]struct {
		repeats int
		then    error // of the repeats
		cancel  bool
		sent    int
	}{
		"bounded by default":                {0, lost("commit"), false, 4},
		"bounded by the option":             {1, lost("commit"), false, 2},
		"the context ended":                 {0, lost("commit"), true, 1},
		"a busy store says nothing of it":   {0, busy, false, 4},
		"a closed store says nothing of it": {0, closed, false, 4},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTallyHost(t, durable.EventHistory, &durable.HostOptions{Repeats: c.repeats})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sent := 0
			h.tap.onCommit = func(context.Context, durable.Commit) (durable.Committed, error) {
				if sent++; sent > 1 {
					return durable.Committed{}, c.then
				}
				if c.cancel {
					cancel()
				}
				return durable.Committed{}, lost("commit")
			}
			res, err := h.Handle(ctx, h.auth, delivery("m1"), 1)
			mustBe[*durable.UnknownOutcomeError](t, err, countersign.ErrUnknownOutcome)
			if errors.Is(err, countersign.ErrRetryable) || errors.Is(err, countersign.ErrRefused) || res.AckSafe() {
				t.Fatalf("got %+v, %v", res, err)
			}
			if sent != c.sent {
				t.Fatalf("sent %d times", sent)
			}
			h.tap.onCommit = nil
			h.must(t, "m1", 1)
		})
	}
}

// A conflict on the repeat proves that the first was not carried out.
func TestUnknownOutcomeThenConflictIsDecidedAgain(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	sent := 0
	h.tap.onCommit = func(ctx context.Context, c durable.Commit) (durable.Committed, error) {
		if sent++; sent == 1 {
			h.rival(t, "rival", number(7))
			return durable.Committed{}, lost("commit")
		}
		return h.tap.Store.CommitOwner(ctx, c)
	}
	if res := h.must(t, "m1", 1); res.Through != 2 || res.Duplicate || sent != 3 || h.sum(t) != 8 {
		t.Fatalf("got %+v, sent %d, sum %d", res, sent, h.sum(t))
	}
}

func TestRetryableErrorsGoToTheCaller(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	busy := fmt.Errorf("busy: %w", countersign.ErrRetryable)
	h.tap.onCommit = func(context.Context, durable.Commit) (durable.Committed, error) {
		return durable.Committed{Through: 1}, busy
	}
	res, err := h.Handle(t.Context(), h.auth, delivery("m1"), 1)
	if !errors.Is(err, busy) || res.AckSafe() || h.tap.commits.Load() != 1 {
		t.Fatalf("got %+v, %v after %d commits", res, err, h.tap.commits.Load())
	}
}

func TestStaleFenceStops(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	decides, commits := h.tally.decides.Load(), h.tap.commits.Load()
	for _, fence := range []uint64{0, 2} {
		_, err := h.Handle(t.Context(), durable.Grant{Owner: "o", Fence: fence}, delivery("m2"), 1)
		e := mustBe[*durable.StaleFenceError](t, err, countersign.ErrRefused)
		if e.Fence != fence || e.Current != 1 {
			t.Fatalf("got %+v", e)
		}
	}
	if h.tally.decides.Load() != decides || h.tap.commits.Load() != commits {
		t.Fatal("it was decided or committed")
	}
	// The hand-off comes between the read and the commit.
	h.tap.onCommit = func(ctx context.Context, c durable.Commit) (durable.Committed, error) {
		if _, err := h.tap.Store.AdvanceFence(ctx, durable.AdvanceFence{Owner: "o", Fence: 5}); err != nil {
			t.Error(err)
		}
		return h.tap.Store.CommitOwner(ctx, c)
	}
	_, err := h.Handle(t.Context(), h.auth, delivery("m2"), 1)
	mustBe[*durable.StaleFenceError](t, err, countersign.ErrRefused)
	if h.tally.decides.Load() != decides+1 || h.tap.commits.Load() != commits+1 {
		t.Fatal("it was tried again")
	}
}

func TestHandleChecksItsInputBeforeTheStore(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	for name, call := range map[string]func() error{
		"owner": func() error {
			_, err := h.Handle(t.Context(), durable.Grant{Fence: 1}, delivery("m1"), 1)
			return err
		},
		"fence": func() error {
			_, err := h.Handle(t.Context(), durable.Grant{Owner: "o", Fence: 1 << 63}, delivery("m1"), 1)
			return err
		},
		"inbox": func() error {
			_, err := h.Handle(t.Context(), h.auth, delivery("a\x00"), 1)
			return err
		},
		"context": func() error {
			_, err := h.Handle(nil, h.auth, delivery("m1"), 1) //nolint:staticcheck // what is tested
			return err
		},
		"context of Acquire": func() error {
			_, err := h.Acquire(nil, "o") //nolint:staticcheck // what is tested
			return err
		},
	} {
		if err := call(); !is[*countersign.MalformedError](err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if h.tally.decides.Load() != 0 {
		t.Error("it was decided")
	}
	_, err := h.Handle(t.Context(), durable.Grant{Owner: "nobody", Fence: 1}, delivery("m1"), 1)
	mustBe[*durable.UnknownOwnerError](t, err, countersign.ErrRefused)
}

func TestWrongHostIsAnErrorOfEveryCall(t *testing.T) {
	good := (&tally{}).machine(durable.EventHistory)
	type machine = durable.Machine[*int, int]
	wrong := func(change func(*machine)) *durable.Host[*int, int] {
		m := good
		change(&m)
		return durable.NewHost(memory.New(), m, nil)
	}
	for name, h := range map[string]*durable.Host[*int, int]{
		"nil host":       nil,
		"zero host":      {},
		"nil store":      durable.NewHost(nil, good, nil),
		"zero machine":   durable.NewHost(memory.New(), machine{}, nil),
		"mode":           wrong(func(m *machine) { m.Mode = "both" }),
		"no reads":       wrong(func(m *machine) { m.Reads = nil }),
		"no writes":      wrong(func(m *machine) { m.Writes = []durable.Version{} }),
		"reads version":  wrong(func(m *machine) { m.Reads = []durable.Version{{Schema: 1}} }),
		"writes version": wrong(func(m *machine) { m.Writes = []durable.Version{{Schema: 1 << 31, Codec: 1}} }),
		"no initial":     wrong(func(m *machine) { m.Initial = nil }),
		"no fold":        wrong(func(m *machine) { m.Fold = nil }),
		"no decide":      wrong(func(m *machine) { m.Decide = nil }),
		"attempts":       durable.NewHost(memory.New(), good, &durable.HostOptions{Attempts: -1}),
		"repeats":        durable.NewHost(memory.New(), good, &durable.HostOptions{Repeats: -1}),
		"cached owners":  durable.NewHost(memory.New(), good, &durable.HostOptions{CachedOwners: -1}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.Acquire(t.Context(), "o")
			mustBe[*countersign.MalformedError](t, err, countersign.ErrMalformed)
			_, err = h.Handle(t.Context(), durable.Grant{Owner: "o", Fence: 1}, delivery("m1"), 1)
			mustBe[*countersign.MalformedError](t, err, countersign.ErrMalformed)
		})
	}
}

func TestMachineOfAnotherModeIsRefused(t *testing.T) {
	h := newTallyHost(t, durable.EventHistory, nil)
	h.must(t, "m1", 1)
	folds := h.tally.folds.Load()
	other := durable.NewHost(h.tap, h.tally.machine(durable.Snapshot), nil)
	_, err := other.Handle(t.Context(), h.auth, delivery("m2"), 1)
	if e := mustBe[*durable.StateModeMismatchError](t, err, countersign.ErrRefused); e.Mode != durable.EventHistory || h.tally.folds.Load() != folds {
		t.Fatalf("got %+v", e)
	}
}

func TestPanicOfTheMachineLeavesTheHostUsable(t *testing.T) {
	panicking := func(t *testing.T, h *tallyHost) (value any) {
		defer func() { value = recover() }()
		_, _ = h.Handle(t.Context(), h.auth, delivery("bad"), 1)
		return "it returned"
	}
	t.Run("decide", func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		h.must(t, "m1", 1)
		h.tally.onDecide = func(int, int) error { panic("decide") }
		if value := panicking(t, h); value != "decide" {
			t.Fatalf("recovered %v", value)
		}
		h.tally.onDecide = nil
		h.must(t, "m2", 1)
		if h.sum(t) != 2 {
			t.Fatalf("sum %d", h.sum(t))
		}
	})
	t.Run("fold", func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		h.must(t, "m1", 1)
		h.tally.onFold = func(sum *int, _ durable.Payload) error {
			*sum = -1000
			panic("fold")
		}
		if value := panicking(t, h); value != "fold" {
			t.Fatalf("recovered %v", value)
		}
		h.tally.onFold = nil
		h.must(t, "m2", 1) // refused, had the state been kept
	})
	t.Run("goexit", func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		h.tally.onDecide = func(int, int) error { runtime.Goexit(); return nil }
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = h.Handle(t.Context(), h.auth, delivery("bad"), 1) })
		wg.Wait()
		h.tally.onDecide = nil
		h.must(t, "m1", 1)
	})
}

func TestWaitingForTheOwnersTurnEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTallyHost(t, durable.EventHistory, nil)
		other, err := h.Acquire(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		decide := make(chan struct{})
		h.tally.onDecide = func(_, add int) error {
			if add == 1 {
				<-decide
			}
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() { h.must(t, "m1", 1) })
		synctest.Wait() // m1 is being decided

		mine := errors.New("mine")
		ctx, cancel := context.WithCancelCause(t.Context())
		wg.Go(func() {
			_, err := h.Handle(ctx, h.auth, delivery("m2"), 2)
			e := mustBe[*durable.TurnError](t, err, countersign.ErrRetryable)
			if e.Owner != "o" || !errors.Is(err, context.Canceled) || !errors.Is(err, mine) || !strings.Contains(err.Error(), "mine") {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait() // m2 waits for m1
		if _, err := h.Handle(t.Context(), other, delivery("m1"), 2); err != nil {
			t.Fatalf("another owner waited too: %v", err)
		}
		loads := h.tap.loads.Load()
		cancel(mine)
		synctest.Wait()
		_, err = h.Handle(ctx, h.auth, delivery("m2"), 2) // has ended before
		mustBe[*durable.TurnError](t, err, countersign.ErrRetryable)
		if h.tap.loads.Load() != loads {
			t.Error("the store was asked")
		}
		close(decide)
		wg.Wait()
		h.must(t, "m2", 2)
	})
}

func TestConcurrentDeliveriesAreCommittedOnceEach(t *testing.T) {
	const goroutines, inputs = 8, 25
	h := newTallyHost(t, durable.EventHistory, &durable.HostOptions{Attempts: 1000})
	second := durable.NewHost(memory.Open(h.medium), h.tally.machine(durable.EventHistory), &durable.HostOptions{Attempts: 1000})
	var fresh atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		host := []*durable.Host[*int, int]{h.Host, second}[g%2]
		wg.Go(func() {
			for i := range inputs { // every goroutine delivers every input
				res, err := host.Handle(t.Context(), h.auth, delivery(fmt.Sprint("m", (i+g)%inputs)), 1)
				if err != nil || !res.AckSafe() {
					t.Errorf("got %+v, %v", res, err)
				}
				if !res.Duplicate {
					fresh.Add(1)
				}
			}
		})
	}
	wg.Wait()
	img := h.image(t)
	if fresh.Load() != inputs || len(img.History) != inputs || len(img.Inbox) != inputs || len(img.Outbox) != inputs {
		t.Fatalf("%d fresh, %d events, %d inbox records, %d effects", fresh.Load(), len(img.History), len(img.Inbox), len(img.Outbox))
	}
}

// One event costs the same whatever stands before it.
func BenchmarkHandle(b *testing.B) {
	for _, events := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("history=%d", events), func(b *testing.B) {
			h := newTallyHost(b, durable.EventHistory, nil)
			h.plant(b, events)
			h.must(b, "warm", 1)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				h.must(b, strconv.Itoa(n), 1)
			}
		})
	}
}
