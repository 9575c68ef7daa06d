package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"pgregory.net/rapid"
)

var randomCases = []Case{
	{Group: "random", Name: "histories_follow_the_rules", Needs: []Need{NeedOwners}, Run: randomHistories},
	{Group: "random", Name: "transactions_follow_the_rules", Needs: []Need{NeedOwners, NeedTransactions}, Run: randomTransactions},
}

// randomHistories sends random requests, good and bad ones, and compares the
// answer and the whole image with the model after each of them, also after the
// store was opened again. A history that fails is reduced to a short one.
func randomHistories(t T, h Harness) {
	random(t, h, func(t *rapid.T, s *session, owners []subject) {
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			if rapid.IntRange(0, 19).Draw(t, "reopen") == 19 {
				s.reopenOn(owners)
				continue
			}
			req := drawRequest(t, s, owners)
			got, want := s.exchange(req)
			if diff := got.differs(want); diff != "" {
				s.failf(describe(req), "%s", diff)
			}
			s.same(describe(req), ownerOf(req))
		}
		s.reopenOn(owners)
	})
}

// randomTransactions does the same with several requests in each transaction, of
// which some are rolled back.
func randomTransactions(t T, h Harness) {
	random(t, h, func(t *rapid.T, s *session, owners []subject) {
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			tr := s.db.transactor(s.store)
			requests := rapid.IntRange(0, 6).Draw(t, "requests")
			rollBack := rapid.IntRange(0, 3).Draw(t, "roll back") == 3
			// The requests are drawn on the model alone, since a body may run again.
			before := s.model
			s.model = maps.Clone(s.model)
			var reqs []request
			for range requests {
				req := drawRequest(t, s, owners)
				s.model.ask(req)
				reqs = append(reqs, req)
			}
			s.model = before
			err := s.atomically(tr, func(ctx context.Context, tx store.Backend) error {
				for _, req := range reqs {
					want, _ := decide(s.model[ownerOf(req)], req)
					s.inside(ctx, tx, want.outcome, req)
					s.sameInside(ctx, tx, describe(req), ownerOf(req))
				}
				if rollBack {
					return errBody
				}
				return nil
			})
			if rollBack != errors.Is(err, errBody) || !rollBack && err != nil {
				s.failf("Atomically", "roll back %v: %v", rollBack, err)
			}
			for _, o := range owners {
				s.same("after a transaction", o.id)
			}
		}
		s.reopenOn(owners)
	})
}

// random checks a property on histories of two fresh owners in one database.
func random(t T, h Harness, property func(t *rapid.T, s *session, owners []subject)) {
	t.Helper()
	db := newDatabase(t, h)
	db.handle()
	quietRapid()
	histories := 0
	rapid.Check(checked{t}, func(rt *rapid.T) {
		histories++
		suffix := fmt.Sprintf(" of history %d", histories)
		s := &session{T: drawing{rt, t, suffix}, db: db, store: db.handles[0], model: model{}}
		owners := []subject{{"orders" + suffix, durable.EventHistory}, {"basket" + suffix, durable.Snapshot}}
		if rapid.IntRange(0, 7).Draw(rt, "created") < 7 {
			for _, o := range owners {
				s.create(created, o, firstFence)
			}
		}
		property(rt, s, owners)
	})
}

// quietRapid keeps rapid, whose flags are those of the test binary, from writing
// files beside the adapter's tests and from looking for a smaller failure for
// longer than a reader's patience. A flag that was set on the command line stays.
var quietRapid = sync.OnceFunc(func() {
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "3s"} {
		if flag.Lookup(name) != nil && !set[name] {
			_ = flag.Set(name, value) // a flag that rapid has, with a value that it takes
		}
	}
})

// reopenOn opens the store again and compares the owners of this history alone.
func (s *session) reopenOn(owners []subject) {
	s.Helper()
	s.step++
	s.db.close()
	s.store = s.db.handle()
	for _, o := range owners {
		s.same("after the store was opened again", o.id)
	}
}

// drawRequest draws a request from a small world, so that identities, positions
// and fences meet again. It looks at the model to be right often enough.
func drawRequest(t *rapid.T, s *session, owners []subject) request {
	o := rapid.SampledFrom(owners).Draw(t, "owner")
	img := s.model[o.id]
	if img == nil {
		img = &durable.Image{}
	}
	if seldom(t, "stranger") {
		o.id += " stranger"
	}
	switch rapid.SampledFrom([]string{"create", "fence", "receipt", "receipt", "receipt", "commit", "commit", "commit", "commit", "commit"}).Draw(t, "kind") {
	case "create":
		if seldom(t, "other mode") {
			o.mode = rapid.SampledFrom([]durable.Mode{durable.EventHistory, durable.Snapshot, "other"}).Draw(t, "mode")
		}
		return durable.CreateOwner{Owner: o.id, Mode: o.mode, Fence: near(t, "fence", img.Fence)}
	case "fence":
		return durable.AdvanceFence{Owner: o.id, Fence: near(t, "fence", img.Fence+1)}
	case "receipt":
		return durable.RecordReceipt{Owner: o.id, Fence: near(t, "fence", img.Fence), Receipt: drawReceipt(t, img)}
	}
	c := durable.Commit{
		Owner:            o.id,
		ExpectedPosition: near(t, "position", img.Position),
		Fence:            near(t, "fence", img.Fence),
		Inbox: durable.Inbox{
			ID:          rapid.SampledFrom(drawnIDs("m")).Draw(t, "inbox"),
			Fingerprint: rapid.SampledFrom([][]byte{[]byte("sum"), []byte("sum"), []byte("sum"), nil, []byte("other")}).Draw(t, "fingerprint"),
		},
	}
	switch {
	case seldom(t, "other state"):
		c.State = o.other()
	case seldom(t, "no state"):
	case o.mode == durable.Snapshot:
		c.State = durable.Replace(drawPayload(t))
	default:
		for range rapid.IntRange(1, 3).Draw(t, "events") {
			c.State.AppendEvents = append(c.State.AppendEvents, drawPayload(t))
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "effects") {
		c.Effects = append(c.Effects, durable.Intent{ID: rapid.SampledFrom(drawnIDs("e")).Draw(t, "effect"), Payload: drawPayload(t)})
	}
	if rapid.IntRange(0, 3).Draw(t, "receipts") == 3 {
		for range rapid.IntRange(1, 2).Draw(t, "number of receipts") {
			c.Receipts = append(c.Receipts, drawReceipt(t, img))
		}
	}
	return c
}

// drawReceipt draws a receipt, mostly of an effect that there is.
func drawReceipt(t *rapid.T, img *durable.Image) durable.TerminalReceipt {
	effects := drawnIDs("e")
	if len(img.Outbox) > 0 && !seldom(t, "any effect") {
		effects = nil
		for _, e := range img.Outbox {
			effects = append(effects, e.ID)
		}
	}
	r := durable.TerminalReceipt{
		ID:       rapid.SampledFrom(drawnIDs("r")[:4]).Draw(t, "receipt"),
		EffectID: rapid.SampledFrom(effects).Draw(t, "effect"),
		Outcome:  rapid.SampledFrom([]durable.Outcome{durable.Applied, durable.Applied, durable.Rejected}).Draw(t, "outcome"),
		Payload:  drawPayload(t),
	}
	if seldom(t, "unknown outcome") {
		r.Outcome = "other"
	}
	return r
}

func drawPayload(t *rapid.T) durable.Payload {
	if seldom(t, "no version") {
		return durable.Payload{SchemaVersion: 3, Bytes: []byte("a")}
	}
	return rapid.SampledFrom([]durable.Payload{
		text("a"), text("a"), text("a"), text("a"), text("a"), text("a"), text("b"), text(""),
		{SchemaVersion: 2, CodecVersion: 3, Bytes: []byte("a")},
		{SchemaVersion: 3, CodecVersion: 2, Bytes: []byte{0, 0xff}},
	}).Draw(t, "payload")
}

// drawnIDs are few, and some of them alike.
func drawnIDs(kind string) []string {
	return []string{kind + "1", kind + "2", kind + "1 ", kind + "3", kind + "4", kind + "10", kind}
}

// seldom is true once in a while.
func seldom(t *rapid.T, what string) bool {
	return rapid.SampledFrom(once).Draw(t, what)
}

var once = append(make([]bool, 24), true)

// near draws a number that is mostly v.
func near(t *rapid.T, what string, v uint64) uint64 {
	if !seldom(t, "other "+what) && !seldom(t, "another "+what) {
		return v
	}
	switch rapid.IntRange(0, 2).Draw(t, "which "+what) {
	case 0:
		return v + 1
	case 1:
		return max(v, 1) - 1
	default:
		return rapid.SampledFrom([]uint64{0, 1, 1 << 40, 1 << 63}).Draw(t, what+" out of place")
	}
}

// checked is a T as rapid wants it.
type checked struct{ T }

var _ rapid.TB = checked{}

func (c checked) Log(args ...any)             { c.Helper(); c.Logf("%s", fmt.Sprint(args...)) }
func (c checked) Error(args ...any)           { c.Helper(); c.Errorf("%s", fmt.Sprint(args...)) }
func (c checked) Fatal(args ...any)           { c.Helper(); c.Fatalf("%s", fmt.Sprint(args...)) }
func (c checked) Fail()                       { c.Helper(); c.Errorf("failed") }
func (c checked) Skip(args ...any)            { c.Fatal(append([]any{"no case skips: "}, args...)...) }
func (c checked) Skipf(f string, args ...any) { c.Skip(fmt.Sprintf(f, args...)) }
func (c checked) SkipNow()                    { c.Skip() }

// drawing is rapid's T as a case wants it: failures go to rapid, which then
// looks for a shorter history. Rapid goes by the message, so what differs from
// one attempt to the next is left out.
type drawing struct {
	*rapid.T
	outer  T
	suffix string
}

func (d drawing) Errorf(format string, args ...any) {
	d.Helper()
	d.T.Errorf("%s", strings.ReplaceAll(fmt.Sprintf(format, args...), d.suffix, ""))
}

func (d drawing) Fatalf(format string, args ...any) {
	d.Helper()
	d.T.Fatalf("%s", strings.ReplaceAll(fmt.Sprintf(format, args...), d.suffix, ""))
}

var _ T = drawing{}

func (d drawing) TempDir() string          { return d.outer.TempDir() }
func (d drawing) Cleanup(f func())         { d.outer.Cleanup(f) }
func (d drawing) Context() context.Context { return d.outer.Context() }
