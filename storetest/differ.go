package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"pgregory.net/rapid"
)

// Differ sends the same random histories to several stores, which have names, and
// compares: every answer with that of the pure rules, and the whole images with
// those of the rules and with each other. Histories have requests, good and bad
// ones, transactions, some of which are rolled back, and stores that are opened
// again. Stores need [durable.Store] and
// [github.com/countersign/countersign/store.Transactor].
//
// The number of histories is the flag -rapid.checks. The seed is printed, and
// -rapid.seed repeats a run. Differ is for one test at a time, since it may set
// that flag.
func Differ(t *testing.T, stores map[string]Harness) {
	t.Helper()
	differ(t, stores)
}

func differ(t T, stores map[string]Harness) {
	t.Helper()
	names := slices.Sorted(maps.Keys(stores))
	if len(names) < 2 {
		t.Fatalf("Differ compares several stores, these are %v; put store/memory beside yours", names)
	}
	worlds := make([]*world, len(names))
	for i, name := range names {
		db := newDatabase(t, stores[name])
		worlds[i] = &world{name: name, db: db, store: db.handle()}
		if has := store.CapabilitiesOf(worlds[i].store.backend); !has.Transactions {
			t.Fatalf("%s: %T does not implement store.Transactor", name, worlds[i].store.backend)
		}
	}
	quietRapid()
	seed, repeat := seedRapid()
	defer repeat()
	histories := 0
	rapid.Check(checked{t}, func(rt *rapid.T) {
		histories++
		h := drawHistory(rt, fmt.Sprintf(" of history %d", histories))
		var wg sync.WaitGroup
		for _, w := range worlds {
			wg.Go(func() { w.live(t.Context(), h) })
		}
		wg.Wait()
		for _, w := range worlds {
			if w.verdict.Failed() {
				rt.Fatalf("%s: %s", w.name, strings.ReplaceAll(w.verdict.Failures[0], h.suffix, ""))
			}
			for owner, img := range w.images {
				if first := worlds[0].images[owner]; !sameImage(first, img) {
					rt.Fatalf("%s and %s hold different images:\n%s", worlds[0].name, w.name, diffImages(first, img))
				}
			}
		}
	})
	t.Logf("%d histories on %s, -rapid.seed=%s", histories, strings.Join(names, ", "), seed)
}

// seedRapid chooses a seed, unless the command line did, and returns it with what
// takes it back.
func seedRapid() (seed string, restore func()) {
	f := flag.Lookup("rapid.seed")
	if f == nil {
		return "unknown", func() {}
	}
	before := f.Value.String()
	if before == "" || before == "0" {
		_ = f.Value.Set(strconv.FormatInt(time.Now().UnixNano(), 10))
	}
	return f.Value.String(), func() { _ = f.Value.Set(before) }
}

// history is what all stores go through, drawn on the model before.
type history struct {
	suffix string
	owners []subject
	deeds  []deed
}

// deed is one step: a request, a transaction of several, or opening the store
// again.
type deed struct {
	reqs     []request
	together bool // in one transaction
	rollBack bool
	reopen   bool
}

func drawHistory(t *rapid.T, suffix string) history {
	h := history{suffix: suffix, owners: []subject{{"orders" + suffix, durable.EventHistory}, {"basket" + suffix, durable.Snapshot}}}
	s := &session{model: model{}}
	if rapid.IntRange(0, 7).Draw(t, "created") < 7 {
		for _, o := range h.owners {
			req := durable.CreateOwner{Owner: o.id, Mode: o.mode, Fence: firstFence}
			s.model.ask(req)
			h.deeds = append(h.deeds, deed{reqs: []request{req}})
		}
	}
	for range rapid.IntRange(5, 30).Draw(t, "steps") {
		switch rapid.IntRange(0, 19).Draw(t, "step") {
		case 19:
			h.deeds = append(h.deeds, deed{reopen: true})
		case 18, 17, 16:
			d := deed{together: true, rollBack: rapid.IntRange(0, 3).Draw(t, "roll back") == 3}
			before := s.model
			s.model = maps.Clone(before)
			for range rapid.IntRange(0, 6).Draw(t, "requests") {
				req := drawRequest(t, s, h.owners)
				s.model.ask(req)
				d.reqs = append(d.reqs, req)
			}
			if d.rollBack {
				s.model = before
			}
			h.deeds = append(h.deeds, d)
		default:
			req := drawRequest(t, s, h.owners)
			s.model.ask(req)
			h.deeds = append(h.deeds, deed{reqs: []request{req}})
		}
	}
	return h
}

// world is one of the stores.
type world struct {
	name  string
	db    *database
	store *handle

	verdict Verdict
	images  map[string]durable.Image // in the end
}

// live goes through a history, and keeps what was found.
func (w *world) live(ctx context.Context, h history) {
	w.images = map[string]durable.Image{}
	c := Case{Group: "differ", Name: w.name, Run: func(t T, _ Harness) {
		db := &database{t: t, h: w.db.h, open: w.db.open, handles: w.db.handles}
		s := &session{T: t, db: db, store: w.store, model: model{}}
		defer func() { w.db.handles, w.store = db.handles, s.store }()
		for _, d := range h.deeds {
			s.carryOut(d)
		}
		for _, o := range h.owners {
			s.same("in the end", o.id)
			if img, err := s.store.LoadOwner(t.Context(), durable.LoadOwner{Owner: o.id}); err == nil {
				w.images[o.id] = img
			}
		}
	}}
	w.verdict = c.Try(ctx, w.db.h)
}

// carryOut does what a deed says and compares. Whole images cost a server more than
// the requests do, so they are compared on every fourth step, and by the caller in
// the end.
func (s *session) carryOut(d deed) {
	const often = 4
	switch {
	case d.reopen:
		s.step++
		s.db.close()
		s.store = s.db.handle()
	case d.together:
		err := s.atomically(s.db.transactor(s.store), func(ctx context.Context, tx store.Backend) error {
			for _, req := range d.reqs {
				want, _ := decide(s.model[ownerOf(req)], req)
				s.inside(ctx, tx, want.outcome, req)
			}
			if d.rollBack {
				return errBody
			}
			return nil
		})
		if d.rollBack != errors.Is(err, errBody) || !d.rollBack && err != nil {
			s.failf("Atomically", "roll back %v: %v", d.rollBack, err)
		}
	default:
		got, expected := s.exchange(d.reqs[0])
		if diff := got.differs(expected); diff != "" {
			s.failf(describe(d.reqs[0]), "%s", diff)
		}
	}
	if len(d.reqs) > 0 && s.step%often == 0 {
		s.sameImageThrough(s.store, "after that", ownerOf(d.reqs[len(d.reqs)-1]))
	}
}
