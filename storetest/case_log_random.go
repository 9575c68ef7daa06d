package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"pgregory.net/rapid"
)

var logRandomCases = []Case{
	{Group: "log_random", Name: "histories_follow_the_contract", Needs: allNeeds, Run: func(t T, h Harness) {
		randomLogs(t, h, func(rt *rapid.T, s *logSession, w smallWorld) {
			for range rapid.IntRange(5, 25).Draw(rt, "steps") {
				req := w.draw(rt, s)
				got, want := s.exchange(s.store, req)
				if diff := got.differs(req, want); diff != "" {
					s.failf(describeLog(req), "%s", diff)
				}
				s.same(describeLog(req), req)
			}
			s.sameAll("at the end")
		})
	}},
	{Group: "log_random", Name: "transactions_follow_the_contract", Needs: append(slices.Clone(allNeeds), NeedTransactions), Run: func(t T, h Harness) {
		randomLogs(t, h, func(rt *rapid.T, s *logSession, w smallWorld) {
			w.frozen = true
			for range rapid.IntRange(1, 5).Draw(rt, "transactions") {
				s.clock.pass(pick(rt, "time", 0, time.Second, time.Minute))
				rollBack := rapid.IntRange(0, 3).Draw(rt, "roll back") == 3
				// The requests are drawn on the model alone, since a body may run again.
				before := s.model
				s.model = s.model.copied()
				var reqs []any
				var wants []string
				for range rapid.IntRange(0, 6).Draw(rt, "requests") {
					req := w.draw(rt, s)
					reqs = append(reqs, req)
					wants = append(wants, s.model.ask(req).outcome(req))
				}
				s.model = before
				err := s.atomically(func(ctx context.Context, tx store.Backend) error {
					for i, req := range reqs {
						s.inside(ctx, tx, wants[i], req)
					}
					s.sameInside(ctx, tx, "at its end")
					if rollBack {
						return errBody
					}
					return nil
				})
				if rollBack != errors.Is(err, errBody) || !rollBack && err != nil {
					s.failf("Atomically", "roll back %v: %v", rollBack, err)
				}
				s.sameAll("after a transaction")
			}
		})
	}},
}

// randomLogs checks a property on histories in fresh event stores of one database,
// with a clock that stands still unless a request moves it.
func randomLogs(t T, h Harness, property func(t *rapid.T, s *logSession, w smallWorld)) {
	t.Helper()
	const most = 25 // histories; a failing one is then made shorter
	whole := newLogSession(t, h, true)
	quietRapid()
	histories, failing := 0, false
	rapid.Check(checked{t}, func(rt *rapid.T) {
		if histories++; histories > most && !failing {
			return
		}
		suffix := fmt.Sprintf(" of history %d", histories)
		s := &logSession{T: drawing{rt, t, suffix}, db: whole.db, store: whole.store, clock: whole.clock, model: newLogModel(whole.model.now), occurrences: map[countersign.Namespace][]string{}}
		w := smallWorld{ns: countersign.Namespace{EventStore: "shop" + suffix, Name: "eu"}}
		fine := false
		defer func() { failing = failing || !fine }()
		s.send(registered, eventlog.RegisterEventTypes{EventStore: w.ns.EventStore, Types: standardTypes})
		property(rt, s, w)
		fine = true
	})
}

// world is a small one, so that names, values and numbers meet again.
type smallWorld struct {
	ns     countersign.Namespace
	frozen bool // time does not pass while requests are drawn
}

func pick[V any](t *rapid.T, what string, of ...V) V { return rapid.SampledFrom(of).Draw(t, what) }

// draw draws a request. It looks at the model to be right often enough.
func (w smallWorld) draw(t *rapid.T, s *logSession) any {
	if !w.frozen && seldom(t, "time passes") {
		s.clock.pass(pick(t, "for", time.Microsecond, time.Second, 40*time.Second, time.Minute, time.Hour))
	}
	switch pick(t, "request", "append", "append", "append", "append", "with", "with", "record", "constraint", "types", "claim", "save", "save", "retry", "replay", "drop") {
	case "with":
		return receipt.AppendWithReceipt{
			AppendEvents: w.appends(t, s), Occurrence: pick(t, "occurrence", "o1", "o2", "o3", "o4", ""), Effect: pick(t, "effect", "e1", "e2"),
			Epoch: pick(t, "epoch", uint64(0), 1, 1<<63-1), Response: pick(t, "response", nil, []byte(`null`), []byte(` {"a":1}`), []byte(`{`)),
		}
	case "record":
		key := receipt.Key{Namespace: w.ns, Occurrence: pick(t, "occurrence", "o1", "o2", "o3", "o4"), Effect: pick(t, "effect", "e1", "e2")}
		return receipt.RecordEffect{Effect: receipt.Effect{Key: key, Epoch: 2}, Reasons: pick(t, "reasons", nil, nil, []string{"sold out", "late"}, []string{}), Response: pick(t, "response", nil, []byte(`1`))}
	case "constraint":
		return w.constraints(t)
	case "types":
		return eventlog.RegisterEventTypes{EventStore: w.ns.EventStore, Types: []eventlog.EventType{{
			ID: pick(t, "type", opened, "new", noted), Generation: pick(t, "generation", uint32(0), 2), Schema: []byte(pick(t, "schema", `true`, `{"type":"integer"}`, `{"type": "integer"}`, `{"type":1}`)),
		}}}
	case "claim":
		return eventlog.ClaimObserver{Key: w.observer(t), Holder: pick(t, "holder", "one", "two"), StartAt: pick(t, "start", uint64(0), 3), Lease: pick(t, "lease", 0, time.Second, time.Hour)}
	case "save":
		return w.save(t, s)
	case "retry":
		return eventlog.RetryPartition{Key: w.observer(t), Source: pick(t, "source", "a", "b"), Operator: pick(t, "operator", "op", "")}
	case "replay":
		return eventlog.ReplayObserver{Key: w.observer(t), Source: pick(t, "source", "", "a", "b"), From: rapid.Uint64Range(0, 4).Draw(t, "from")}
	case "drop":
		if pick(t, "really", false, false, true) {
			return w.ns
		}
	}
	return w.appends(t, s)
}

func (w smallWorld) sequence(t *rapid.T) eventlog.Sequence {
	return eventlog.Sequence{Namespace: w.ns, Name: pick(t, "sequence", "orders", "orders", "")}
}

func (w smallWorld) observer(t *rapid.T) eventlog.ObserverKey {
	return eventlog.ObserverKey{Sequence: eventlog.Sequence{Namespace: w.ns, Name: "orders"}, Name: pick(t, "observer", "mailer", "mailer", "another")}
}

func (w smallWorld) appends(t *rapid.T, s *logSession) eventlog.AppendEvents {
	req := eventlog.AppendEvents{Sequence: w.sequence(t)}
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		e := eventlog.Event{
			Type: pick(t, "type", opened, opened, renamed, renamed, closedE, noted), Source: pick(t, "source", "a", "b", "c"),
			StreamType: pick(t, "stream type", "", "s"), StreamID: pick(t, "stream id", "", "1", "2"),
			Content: []byte(pick(t, "content", `{"name":"x"}`, `{"name":"y"}`, `{"name":"X","age":1}`, `{ "name" : "y","age":1.0 }`, `{"name":"z"}`, `{"name":"x","age":1e400}`)),
			Tags:    pick(t, "tags", nil, []eventlog.Tag{{Value: "t"}}, []eventlog.Tag{{Name: "n", Value: "v"}, {Value: "t"}}),
		}
		if seldom(t, "odd event") {
			e = pick(t, "event", of("unknown", "a", `1`), of(opened, "b", `{"age":-1}`), of(renamed, "c", `{"name":null}`), of(renamed, "a", `{}`), note("", `1`), note("a", `{`), fullEvent("1"))
		}
		req.Events = append(req.Events, e)
	}
	next := uint64(len(s.model.events[req.Sequence.Named()]))
	for range max(0, rapid.IntRange(-2, 2).Draw(t, "scopes")) {
		scope := eventlog.Scope{
			Label: pick(t, "label", "", "l"), Source: pick(t, "source", "", "a", "b"), StreamID: pick(t, "stream id", "", "", "1"),
			EventTypes: pick(t, "types", nil, []string{opened}, []string{renamed, closedE}), Expected: eventlog.NoneYet(),
		}
		if next > 0 && pick(t, "seen", true, true, false) {
			scope.Expected = eventlog.Seen(next - 1 - min(next-1, rapid.Uint64Range(0, 3).Draw(t, "missed")))
		}
		if seldom(t, "incomplete") {
			scope.Expected = eventlog.Expected{}
		}
		req.Scopes = append(req.Scopes, scope)
	}
	return req
}

func (w smallWorld) constraints(t *rapid.T) eventlog.RegisterConstraints {
	c := eventlog.Constraint{Name: pick(t, "name", "c1", "c2"), Kind: pick(t, "kind", eventlog.UniqueValue, eventlog.UniqueValue, eventlog.UniqueEventType)}
	for _, typ := range pick(t, "covers", []string{opened}, []string{opened, renamed}, []string{renamed, opened}) {
		covered := eventlog.Covered{Type: typ}
		if c.Kind == eventlog.UniqueValue {
			covered.Properties = pick(t, "properties", []string{"name"}, []string{"/name"}, []string{"age", "name"})
		}
		c.Covers = append(c.Covers, covered)
	}
	c.RemovedBy = pick(t, "removed by", nil, []string{closedE}, []string{closedE, noted})
	c.IgnoreCase = c.Kind == eventlog.UniqueValue && pick(t, "fold", true, false)
	c.Within = eventlog.Within{StreamType: pick(t, "within stream type", false, false, true), StreamID: pick(t, "within stream id", false, true)}
	if seldom(t, "removes") {
		return eventlog.RegisterConstraints{EventStore: w.ns.EventStore, Remove: []string{c.Name}}
	}
	return eventlog.RegisterConstraints{EventStore: w.ns.EventStore, Constraints: []eventlog.Constraint{c}}
}

func (w smallWorld) save(t *rapid.T, s *logSession) eventlog.SaveObserver {
	req := eventlog.SaveObserver{Key: w.observer(t), Next: rapid.Uint64Range(0, 6).Draw(t, "next"), Release: seldom(t, "release"), Lease: pick(t, "lease", 0, time.Second)}
	if o := s.model.observers[req.Key.Named()]; o != nil {
		req.Fence = o.state.Fence
	}
	if seldom(t, "stale") {
		req.Fence++
	}
	for _, source := range pick(t, "partitions", nil, []string{"a"}, []string{"b", "a"}) {
		p := eventlog.PartitionProgress{Source: source, From: rapid.Uint64Range(0, 4).Draw(t, "from")}
		switch pick(t, "progress", "failed", "failed", "done", "") {
		case "failed":
			p.Failed, p.Error = true, pick(t, "error", "", "it fails")
		case "done":
			p.Done = true
		}
		req.Partitions = append(req.Partitions, p)
	}
	return req
}
