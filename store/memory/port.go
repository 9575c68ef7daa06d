package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// A port is the [store.EventPort] of a Store or a tx.
type port struct {
	logAccess
	settlement *countersign.Settlement
}

// logAccess is what a Store and a tx have in common: they read and write the event
// log.
type logAccess interface {
	writeLog(ctx context.Context, f func(l *eventLog, now time.Time) error) error
	readLog(ctx context.Context, f func(l *eventLog, now time.Time)) error
	wake(s eventlog.Sequence)
	watch(ctx context.Context) (time.Duration, error)
}

var _ store.EventPort = port{}

func (p port) LoadDefinitions(ctx context.Context, eventStore string) (eventlog.Definitions, error) {
	var d eventlog.Definitions
	err := p.readLog(ctx, func(l *eventLog, _ time.Time) { d = cloneDefinitions(l.definitionsIn(eventStore)) })
	return d, err
}

func (p port) Define(ctx context.Context, _, eventStore string, rule func(eventlog.Definitions) (eventlog.DefinitionPlan, error)) error {
	return p.writeLog(ctx, func(l *eventLog, _ time.Time) error {
		before := l.definitionsIn(eventStore)
		plan, err := rule(before)
		if err == nil && plan.Writes {
			l.definitions[eventStore] = cloneDefinitions(before.Apply(plan))
		}
		return err
	})
}

func cloneDefinitions(d eventlog.Definitions) eventlog.Definitions {
	d.All = slices.Clone(d.All)
	for i := range d.All {
		d.All[i].Body = slices.Clone(d.All[i].Body)
	}
	return d
}

func (p port) Append(ctx context.Context, a *store.Append) error {
	err := p.writeLog(ctx, func(l *eventLog, now time.Time) error {
		found := receipt.Found{}
		for _, g := range store.NewAppendGroups(a) {
			for _, key := range g.Keys {
				if all, _ := look(l, receiptsOf, occurrence{key.Namespace, key.Occurrence}); all != nil {
					if r, ok := all[key.Effect]; ok {
						found[key] = r
					}
				}
			}
			l.carryOut(g, found, now)
		}
		return a.Err()
	})
	if sequence, ok := a.Sequence(); ok && err == nil {
		p.wake(sequence)
	}
	return err
}

func (l *eventLog) carryOut(g *store.AppendGroup, found receipt.Found, now time.Time) {
	var slice *eventlog.Slice
	if g.Touch != nil {
		s := g.Touch.Sequence
		slice = l.sequence(s).slice(*g.Touch, l.definitionsIn(s.Namespace.EventStore))
	}
	g.Decide(found, slice, now)
	if changes := g.Changes(); changes.Writes() {
		l.writable(g.Touch.Sequence).apply(changes)
	}
	for _, r := range g.Receipts() {
		l.putReceipt(r)
	}
}

func (p port) Index(ctx context.Context, x *store.Indexing) (more bool, err error) {
	err = p.writeLog(ctx, func(l *eventLog, _ time.Time) error {
		var err error
		more, err = x.Step(ctx, indexStore{l, x.Sequence})
		return err
	})
	return more, err
}

// indexStore is the [store.IndexStore] of a sequence.
type indexStore struct {
	log      *eventLog
	sequence eventlog.Sequence
}

func (i indexStore) ReadIndexState(context.Context) (eventlog.IndexState, uint64, bool, error) {
	s := i.log.sequence(i.sequence)
	if s == nil {
		return eventlog.IndexState{}, 0, false, nil
	}
	return s.state, i.log.definitionsIn(i.sequence.Namespace.EventStore).Constraints, true, nil
}

func (i indexStore) WriteIndexState(_ context.Context, state eventlog.IndexState) error {
	i.log.writable(i.sequence).state = state
	return nil
}

func (i indexStore) DeleteClaims(_ context.Context, limit int) (int, error) {
	s := i.log.writable(i.sequence)
	deleted := 0
	for owner := range s.claims {
		if deleted == limit {
			break
		}
		s.writeClaims([]eventlog.ClaimOwner{owner}, nil)
		deleted++
	}
	return deleted, nil
}

func (i indexStore) ReadIndexEvents(_ context.Context, from uint64, limit int) ([]eventlog.Recorded, error) {
	events := i.log.sequence(i.sequence).from(from)
	return events[:min(limit, len(events))], nil
}

func (i indexStore) ReadClaims(_ context.Context, t eventlog.Touch, s *eventlog.Slice) error {
	i.log.sequence(i.sequence).readClaims(t, s)
	return nil
}

func (i indexStore) WriteClaims(_ context.Context, freed []eventlog.ClaimOwner, made []eventlog.Claim) error {
	i.log.writable(i.sequence).writeClaims(freed, made)
	return nil
}

func (p port) LoadEvents(ctx context.Context, req eventlog.ReadEvents) (eventlog.Page, error) {
	var page eventlog.Page
	err := p.readLog(ctx, func(l *eventLog, _ time.Time) { page = l.sequence(req.Sequence).page(req) })
	return page, err
}

func (p port) LoadTail(ctx context.Context, req eventlog.ReadTail) (eventlog.Tail, error) {
	var tail eventlog.Tail
	err := p.readLog(ctx, func(l *eventLog, _ time.Time) {
		if s := l.sequence(req.Sequence); s != nil {
			last, found := s.highest(req.Filter, 0)
			tail = eventlog.Tail{Next: s.state.Next, Last: last.Number, Found: found}
		}
	})
	return tail, err
}

func (p port) Drop(ctx context.Context, ns countersign.Namespace) (eventlog.Dropped, error) {
	var dropped eventlog.Dropped
	err := p.writeLog(ctx, func(l *eventLog, _ time.Time) error {
		dropped = l.drop(ns)
		return nil
	})
	return dropped, err
}

func (p port) FindReceipts(ctx context.Context, req receipt.ListReceipts, effect string) ([]receipt.Receipt, error) {
	found := []receipt.Receipt{}
	err := p.readLog(ctx, func(l *eventLog, _ time.Time) {
		known := map[string]bool{}
		for _, id := range req.Occurrences {
			if known[id] {
				continue
			}
			known[id] = true
			all, _ := look(l, receiptsOf, occurrence{req.Namespace, id})
			for name, r := range all {
				if effect == "" || effect == name {
					found = append(found, r.Clone())
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, compareReceipts)
	return found, nil
}

func (p port) Observe(ctx context.Context, _ string, key eventlog.ObserverKey, sources []string, rule func(eventlog.ObserverSlice) (eventlog.ObserverPlan, error)) error {
	return p.writeLog(ctx, func(l *eventLog, now time.Time) error {
		slice := eventlog.ObserverSlice{Now: now, Partitions: map[string]eventlog.Partition{}}
		o := l.observer(key)
		if o != nil {
			state := o.state
			slice.State = &state
			for _, source := range sources {
				if p, ok := o.partitions[source]; ok {
					slice.Partitions[source] = p
				}
			}
		}
		plan, err := rule(slice)
		if err != nil || !plan.Writes {
			return err
		}
		l.observers[key] = o.after(plan)
		return nil
	})
}

// after returns a new observer: the old one may be the medium's.
func (o *observer) after(plan eventlog.ObserverPlan) *observer {
	next := &observer{state: plan.State}
	if o != nil {
		next.partitions = maps.Clone(o.partitions)
	}
	if next.partitions == nil {
		next.partitions = map[string]eventlog.Partition{}
	}
	for _, source := range plan.Delete {
		delete(next.partitions, source)
	}
	for _, p := range plan.Put {
		next.partitions[p.Source] = p
	}
	return next
}

func (p port) LoadObserver(ctx context.Context, key eventlog.ObserverKey) (*eventlog.ObserverState, error) {
	var state *eventlog.ObserverState
	err := p.readLog(ctx, func(l *eventLog, now time.Time) {
		if o := l.observer(key); o != nil {
			found := o.state
			found.Now = now
			state = &found
		}
	})
	return state, err
}

func (p port) LoadPartitions(ctx context.Context, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
	found := []eventlog.Partition{}
	limit, _ := eventlog.PageLimit(req.Limit)
	err := p.readLog(ctx, func(l *eventLog, now time.Time) {
		o := l.observer(req.Key)
		if o == nil {
			return
		}
		for _, source := range slices.Sorted(maps.Keys(o.partitions)) {
			p := o.partitions[source]
			if source > req.After && len(found) < limit && (!req.Due || !p.Quarantined && !p.RetryAt.After(now)) {
				found = append(found, p)
			}
		}
	})
	return found, err
}

func (p port) Watch(ctx context.Context) (time.Duration, error) { return p.watch(ctx) }

func (p port) Settlement() *countersign.Settlement { return p.settlement }
