package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

const (
	crashedEffects = 2_000 // that are to be appended in all, unless the ladder says otherwise
	crashedWorkers = 8     // goroutines of a child
	crashedKills   = 8     // at least
	crashedMost    = 500   // children: then they make no progress
)

func (l Ladder) effects() int {
	if l.Effects > 0 {
		return l.Effects
	}
	return crashedEffects
}

// CrashAppends appends 2,000 effects with receipts in child processes that are
// killed at random steps of their work, as kill -9 does. Children of the same
// [Ladder] as [CrashLadder] uses; each goes on with what those before it have not
// been seen to finish, and proposes other events and another response than they
// did.
//
// Whatever a child was told before it died must stay: events and receipt are
// together or not there at all, each effect is there once, and every retry is
// answered with the first response byte for byte. Every fifth effect is appended in
// one transaction with an owner's commit, where the backend has transactions and
// owners: both are of the same attempt.
//
// A test calls CrashAppends once, first of all, and does not call CrashLadder.
func CrashAppends(t *testing.T, l Ladder) {
	t.Helper()
	switch os.Getenv(ladderTest) {
	case "":
		crashAppends(t, l)
	case t.Name():
		os.Exit(appendUntilKilled(l))
	}
}

// appendStore is what the children work on.
type appendStore interface {
	Backend
	eventlog.Store
	receipt.Store
}

var crashed = countersign.Namespace{EventStore: "crashed", Name: "effects"}

func openAppends(ctx context.Context, l Ladder, location string, step func()) (appendStore, error) {
	b, err := l.Open(ctx, location, step)
	if err != nil {
		return nil, err
	}
	s, ok := b.(appendStore)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T does not implement eventlog.Store and receipt.Store", b), b.Close())
	}
	return s, nil
}

func crashAppends(t T, l Ladder) {
	t.Helper()
	place := T.TempDir
	if l.New != nil {
		place = l.New
	}
	location := place(t)
	told := map[int]string{} // of an effect, what a child was told
	kills, effects := 0, l.effects()
	for attempt := 1; len(told) < effects; attempt++ {
		if attempt > crashedMost {
			t.Fatalf("after %d children only %d of %d effects are done", crashedMost, len(told), effects)
		}
		killed, err := spawnAppends(t, location, attempt, effects, told)
		if err != nil {
			t.Fatalf("child %d: %v", attempt, err)
		}
		if killed {
			kills++
		}
	}
	if kills < min(crashedKills, effects/250) {
		t.Errorf("only %d children were killed: the store does not call step around each of its I/O operations", kills)
	}
	s, err := openAppends(t.Context(), l, location, func() {})
	if err != nil {
		t.Fatalf("open again: %v", err)
	}
	defer func() { _ = s.Close() }()
	if err := judgeAppends(t.Context(), s, effects, told); err != nil {
		t.Fatalf("after %d kills: %v", kills, err)
	}
	t.Logf("%d effects through %d kills", effects, kills)
}

// spawnAppends runs a child until it is killed or has done everything, and adds what
// it was told. It fails if somebody was told something else before.
func spawnAppends(t T, location string, attempt, effects int, told map[int]string) (killed bool, err error) {
	var finished []string
	for n := range effects {
		if _, done := told[n]; done && rand.IntN(20) > 0 { // some are sent again all the same
			finished = append(finished, strconv.Itoa(n))
		}
	}
	const patience = 5 * time.Minute
	unharmed, err := runChild(t, location, strconv.Itoa(attempt), strings.Join(finished, " "), patience, func(line string) error {
		number, response, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("the child said %q", line)
		}
		if first, known := told[n]; known && first != response {
			return fmt.Errorf("effect %d was answered %s, and later %s", n, first, response)
		}
		told[n] = response
		return nil
	})
	return err == nil && !unharmed, err
}

// appendUntilKilled is the child. It returns the exit code of the process, if there
// is one.
func appendUntilKilled(l Ladder) int {
	ctx := context.Background()
	attempt := os.Getenv(ladderStep)
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	finished := strings.Fields(string(in))
	effects := l.effects()
	// It dies at one of the steps after so many answers: a store that steps often has
	// as many kills as one that steps seldom.
	var answers, left atomic.Int64
	deadly := rand.Int64N(200)
	left.Store(1 + rand.Int64N(40))
	var say sync.Mutex
	s, err := openAppends(ctx, l, os.Getenv(ladderLocation), func() {
		if answers.Load() >= deadly && left.Add(-1) == 0 {
			say.Lock() // and nobody says anything after it
			fmt.Printf("\n%skilled\n", ladderMark)
			die()
		}
	})
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	if _, err := s.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: crashed.EventStore, Types: []eventlog.EventType{{ID: "happened", Schema: []byte(`{"type":"object"}`)}}}); err != nil && !errors.Is(err, countersign.ErrUnknownOutcome) {
		fmt.Println("register:", err)
		return 1
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, crashedWorkers)
	for i := range crashedWorkers {
		wg.Go(func() {
			for errs[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= effects {
					return
				}
				if slices.Contains(finished, strconv.Itoa(n)) {
					continue
				}
				var res receipt.Result
				if res, errs[i] = appendEffect(ctx, s, n, attempt); errs[i] == nil {
					say.Lock()
					fmt.Printf("\n%s%d %s\n", ladderMark, n, res.Receipt.Response)
					say.Unlock()
					answers.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("\n%sthrough\n", ladderMark)
	return 0
}

// appendEffect appends an effect until it is answered. Each attempt has something
// else to say: the first one that is committed counts.
func appendEffect(ctx context.Context, s appendStore, n int, attempt string) (receipt.Result, error) {
	req := receipt.AppendWithReceipt{
		AppendEvents: eventlog.AppendEvents{Sequence: eventlog.Log(crashed)},
		Occurrence:   fmt.Sprint("occurrence ", n), Effect: "effect",
		Response: fmt.Appendf(nil, `{"effect":%d,  "attempt":%s}`, n, attempt),
	}
	for range 1 + n%3 {
		req.Events = append(req.Events, eventlog.Event{Type: "happened", Source: req.Occurrence, CausationID: attempt, Content: req.Response})
	}
	for tries := 0; ; tries++ {
		res, err := appendOrJoin(ctx, s, n, req)
		again := errors.Is(err, countersign.ErrRetryable) || errors.Is(err, countersign.ErrUnknownOutcome)
		if !again || tries == 1_000 {
			return res, err
		}
		time.Sleep(time.Millisecond)
	}
}

// joins reports whether an effect is appended together with an owner's commit.
func joins(s appendStore, n int) (store.Transactor, bool) {
	t, _ := s.(store.Transactor)
	has := store.CapabilitiesOf(s)
	return t, has.Transactions && has.Owners && n%5 == 0
}

func appendOrJoin(ctx context.Context, s appendStore, n int, req receipt.AppendWithReceipt) (receipt.Result, error) {
	t, ok := joins(s, n)
	if !ok {
		return s.AppendWithReceipt(ctx, req)
	}
	var res receipt.Result
	err := t.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
		if _, err := tx.CreateOwner(ctx, durable.CreateOwner{Owner: req.Occurrence, Mode: durable.EventHistory}); err != nil {
			return err
		}
		_, err := tx.CommitOwner(ctx, durable.Commit{
			Owner: req.Occurrence, Inbox: durable.Inbox{ID: "message", Fingerprint: []byte("sum")},
			State: durable.Append(durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: req.Response}),
		})
		if err != nil {
			return err
		}
		res, err = tx.AppendWithReceipt(ctx, req)
		return err
	})
	return res, err
}

// judgeOwner compares the owner of a joined effect with what its callers were told.
func judgeOwner(ctx context.Context, s appendStore, n int, told string) error {
	if _, ok := joins(s, n); !ok {
		return nil
	}
	img, err := durable.Recover(ctx, s.(durable.Store), fmt.Sprint("occurrence ", n))
	if err != nil {
		return fmt.Errorf("the owner of effect %d: %w", n, err)
	}
	if len(img.History) != 1 || string(img.History[0].Payload.Bytes) != told {
		return fmt.Errorf("the owner of effect %d was not committed together with the receipt, which says %s: %+v", n, told, img)
	}
	return nil
}

// judgeAppends compares what the store holds with what the children were told.
func judgeAppends(ctx context.Context, s appendStore, effects int, told map[int]string) error {
	held := map[string][]eventlog.Recorded{}
	next := uint64(0)
	for e, err := range eventlog.Events(ctx, s, eventlog.ReadEvents{Sequence: eventlog.Log(crashed)}) {
		if err != nil {
			return err
		}
		if e.Number != next {
			return fmt.Errorf("after event %d comes %d", next-1, e.Number)
		}
		next++
		held[e.Source] = append(held[e.Source], e)
	}
	for n := range effects {
		id := fmt.Sprint("occurrence ", n)
		r, there, err := receipt.Get(ctx, s, receipt.Key{Namespace: crashed, Occurrence: id, Effect: "effect"})
		if err != nil {
			return err
		}
		events := held[id]
		switch {
		case !there:
			return fmt.Errorf("the receipt of effect %d, which was acknowledged, is not there", n)
		case string(r.Response) != told[n]:
			return fmt.Errorf("the receipt of effect %d says %s, its caller was told %s", n, r.Response, told[n])
		case len(events) != 1+n%3:
			return fmt.Errorf("effect %d has %d events, it is to have %d, once", n, len(events), 1+n%3)
		case r.First != events[0].Number || r.Last != events[len(events)-1].Number || r.Last-r.First+1 != uint64(len(events)):
			return fmt.Errorf("the receipt of effect %d says %d to %d, its events are %d to %d", n, r.First, r.Last, events[0].Number, events[len(events)-1].Number)
		}
		for _, e := range events {
			if string(e.Content) != told[n] {
				return fmt.Errorf("an event of effect %d is of another attempt than its receipt: %s, not %s", n, e.Content, told[n])
			}
		}
		if err := judgeOwner(ctx, s, n, told[n]); err != nil {
			return err
		}
		delete(held, id)
	}
	if len(held) > 0 {
		return fmt.Errorf("there are events of effects that nobody has sent: %d", len(held))
	}
	return nil
}
