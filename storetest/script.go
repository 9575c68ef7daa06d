package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// job is one operation of the crash ladder's script: one request, or several in
// one transaction, and what must come of it the first time.
type job struct {
	outcome  string
	requests []request
	together bool
}

// script returns the operations of the crash ladder.
func script(transactions bool) []job {
	orders, basket := subjects[0], subjects[1]
	commit := func(o subject, position, fence uint64, inbox string, texts ...string) durable.Commit {
		return durable.Commit{
			Owner: o.id, ExpectedPosition: position, Fence: fence,
			Inbox: durable.Inbox{ID: inbox, Fingerprint: []byte("sum of " + inbox)}, State: o.change(texts...),
		}
	}
	first := commit(orders, 0, 1, "m1", "placed", "priced")
	first.Effects = intents("mail", "invoice")
	second := commit(basket, 0, 1, "m1", "one thing")
	second.Effects = intents("reserve", "notify")
	second.Receipts = []durable.TerminalReceipt{terminal("reserved", "reserve")}
	third := commit(orders, 2, 2, "m2", "paid")
	third.Effects = intents("ship", "mail")
	third.Receipts = []durable.TerminalReceipt{terminal("invoiced", "invoice")}
	fourth := commit(basket, 1, 1, "m2", "two things")
	last := commit(basket, 2, 5, "m3", "nothing")
	last.Receipts = []durable.TerminalReceipt{terminal("notified", "notify")}

	one := func(outcome string, req request) job { return job{outcome: outcome, requests: []request{req}} }
	jobs := []job{
		one(created, durable.CreateOwner{Owner: orders.id, Mode: orders.mode, Fence: 1}),
		one(created, durable.CreateOwner{Owner: basket.id, Mode: basket.mode, Fence: 1}),
		one(committed, first),
		one(committed, second),
		one(recorded, durable.RecordReceipt{Owner: orders.id, Fence: 1, Receipt: terminal("mailed", "mail")}),
		one(fenceAdvanced, durable.AdvanceFence{Owner: orders.id, Fence: 2}),
		one(committed, third),
		one(duplicate, first),
		one(committed, fourth),
		one(fenceAdvanced, durable.AdvanceFence{Owner: basket.id, Fence: 5}),
		one(committed, last),
	}
	if transactions {
		out, in := commit(orders, 3, 2, "move", "moved out"), commit(basket, 3, 5, "move", "moved in")
		out.Effects, in.Effects = intents("moved"), intents("moved")
		jobs = append(jobs, job{outcome: committed, requests: []request{out, in}, together: true})
	}
	return jobs
}

// work is the script on an open store, with the images that it comes to after
// each operation.
type work struct {
	backend Backend
	store   durable.Store
	script  []job
	states  []model // states[n] is after n operations
}

func newWork(b Backend) (*work, error) {
	owners, ok := b.(durable.Store)
	if !ok {
		return nil, fmt.Errorf("%T does not implement durable.Store", b)
	}
	_, transactions := b.(store.Transactor)
	w := &work{backend: b, store: owners, script: script(transactions), states: []model{{}}}
	for _, j := range w.script {
		state := maps.Clone(w.states[len(w.states)-1])
		for _, req := range j.requests {
			state.ask(req)
		}
		w.states = append(w.states, state)
	}
	return w, nil
}

// do carries out an operation and demands one of the outcomes.
func (w *work) do(ctx context.Context, j job, outcomes ...string) error {
	each := func(ctx context.Context, s durable.Store) error {
		for _, req := range j.requests {
			a := ask(ctx, s, req)
			if slices.Contains(outcomes, a.outcome) {
				continue
			}
			if a.err != nil {
				return fmt.Errorf("%s: %w", describe(req), a.err)
			}
			return fmt.Errorf("%s: %s", describe(req), a)
		}
		return nil
	}
	return taken(ctx, func() error {
		if !j.together {
			return each(ctx, w.store)
		}
		return w.backend.(store.Transactor).Atomically(ctx, func(ctx context.Context, tx store.Backend) error { return each(ctx, tx) })
	})
}

// check demands that the store holds what the script comes to after the done
// operations, or, if it did not get through, after one more.
func (w *work) check(ctx context.Context, done int, through bool) error {
	images, err := w.images(ctx)
	if err != nil {
		return err
	}
	expected := w.states[done : done+1]
	if !through {
		expected = w.states[done:min(done+2, len(w.states))]
	}
	for _, state := range expected {
		if maps.EqualFunc(state, images, func(a, b *durable.Image) bool { return sameImage(*a, *b) }) {
			return nil
		}
	}
	return fmt.Errorf("the store holds neither what the script comes to there, nor after the operation under way:\n%s", w.diff(expected[0], images))
}

// redeliver carries out the whole script once more and compares the end. Each
// operation has the same outcome as before, or that of a repetition.
func (w *work) redeliver(ctx context.Context) error {
	again := map[string]string{committed: duplicate, recorded: recordedBefore, fenceAdvanced: fenceStood}
	for i, j := range w.script {
		if err := w.do(ctx, j, j.outcome, again[j.outcome]); err != nil {
			return fmt.Errorf("operation %d: %w", i+1, err)
		}
	}
	images, err := w.images(ctx)
	if err != nil {
		return err
	}
	end := w.states[len(w.states)-1]
	if !maps.EqualFunc(end, images, func(a, b *durable.Image) bool { return sameImage(*a, *b) }) {
		return fmt.Errorf("the images are not those of a script that nothing happened to:\n%s", w.diff(end, images))
	}
	return nil
}

// images recovers every owner of the script that exists.
func (w *work) images(ctx context.Context) (model, error) {
	images := model{}
	for owner := range w.states[len(w.states)-1] {
		img, err := durable.Recover(ctx, w.store, owner)
		if outcomeOf(err) == unknownOwner {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("recover %q: %w", owner, err)
		}
		images[owner] = &img
	}
	return images, nil
}

// diff shows how the owners of two models differ.
func (w *work) diff(want, got model) string {
	showAll := func(m model) string {
		s := ""
		for _, owner := range slices.Sorted(maps.Keys(m)) {
			s += show(*m[owner])
		}
		return s
	}
	return diffLines(showAll(want), showAll(got))
}
