package mongo

import (
	"context"

	"github.com/countersign/countersign/eventlog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Observe implements [store.EventPort]. Its lock is the observer's head.
func (p port) Observe(ctx context.Context, op string, k eventlog.ObserverKey, sources []string, rule func(eventlog.ObserverSlice) (eventlog.ObserverPlan, error)) error {
	id := observerID(k)
	var verdict error
	var found keys
	err := p.write(ctx, id, unknownOutcome(op, k.Sequence), func(ctx context.Context) error {
		v := p.s.newView()
		head, err := v.readObserver(ctx, k, sources)
		if err != nil {
			return err
		}
		slice := eventlog.ObserverSlice{Now: v.now, Partitions: map[string]eventlog.Partition{}}
		if head != nil {
			found = head.keys()
			slice.State = head.observer(k, v.now)
			for _, source := range sources {
				if d := v.row(partitionID(found.own, source)); d != nil {
					slice.Partitions[source] = d.partition()
				}
			}
		}
		plan, err := rule(slice)
		w := p.s.newLogWrites()
		switch verdict = err; {
		case err == nil && plan.Writes:
			if head != nil {
				w.lockHead(head, observerFields(plan.State))
			} else {
				found = w.addHead(id, observerKind, k.Name, k.Sequence.Namespace, v.head(namespaceID(k.Sequence.Namespace)), observerFields(plan.State))
			}
			w.partitions(found.own, slice.Partitions, plan)
		case p.locks() && head != nil:
			w.lockHead(head, nil)
		}
		return w.send(ctx)
	})
	if err != nil {
		return err
	}
	if p.tx == nil && found != (keys{}) {
		p.s.known.set(id, found)
	}
	return verdict
}

// readObserver reads an observer's head and partitions: in one query if its keys are
// known. If there is none, it reads the namespace's document.
func (v *view) readObserver(ctx context.Context, k eventlog.ObserverKey, sources []string) (*logDocument, error) {
	id, ns := observerID(k), namespaceID(k.Sequence.Namespace)
	guess, guessed := v.s.known.of(id)
	ids := []any{id}
	if guessed {
		ids = append(ids, partitionIDs(guess.own, sources)...)
	} else {
		ids = append(ids, ns)
	}
	if err := v.read(ctx, ids...); err != nil {
		return nil, err
	}
	head := v.head(id)
	switch {
	case head == nil && guessed:
		return nil, v.read(ctx, ns)
	case head != nil && (!guessed || head.keys() != guess) && len(sources) > 0:
		return head, v.read(ctx, partitionIDs(head.ownKey(), sources)...)
	}
	return head, nil
}

func partitionIDs(observer key, sources []string) []any {
	ids := make([]any, len(sources))
	for i, source := range sources {
		ids[i] = partitionID(observer, source)
	}
	return ids
}

// partitions writes a plan's, which was made on those before.
func (w *logWrites) partitions(observer key, before map[string]eventlog.Partition, plan eventlog.ObserverPlan) {
	w.deleteThose(partitionIDs(observer, plan.Delete))
	for _, p := range plan.Put {
		if _, exists := before[p.Source]; exists {
			w.replace(partitionDocument(observer, p))
		} else {
			w.insert(partitionDocument(observer, p))
		}
	}
}

// LoadObserver implements [store.EventPort].
func (p port) LoadObserver(ctx context.Context, k eventlog.ObserverKey) (state *eventlog.ObserverState, err error) {
	err = p.read(ctx, func(ctx context.Context) error {
		state = nil
		v := p.s.newView()
		if err := v.read(ctx, observerID(k)); err != nil {
			return err
		}
		if d := v.head(observerID(k)); d != nil {
			state = d.observer(k, v.now)
		}
		return nil
	})
	return state, err
}

// LoadPartitions implements [store.EventPort].
func (p port) LoadPartitions(ctx context.Context, req eventlog.ReadPartitions) (found []eventlog.Partition, err error) {
	limit, err := eventlog.PageLimit(req.Limit)
	if err != nil {
		return nil, err
	}
	err = p.read(ctx, func(ctx context.Context) error {
		for {
			found = []eventlog.Partition{}
			v := p.s.newView()
			if err := v.read(ctx, observerID(req.Key)); err != nil {
				return err
			}
			head := v.head(observerID(req.Key))
			if head == nil {
				return nil
			}
			filter := bson.D{{Key: "of", Value: head.Key}, {Key: "name", Value: bson.D{{Key: "$gt", Value: req.After}}}}
			if req.Due {
				filter = append(filter, bson.E{Key: "quarantined", Value: false},
					bson.E{Key: "retry_at", Value: bson.D{{Key: "$lte", Value: v.now.UnixMicro()}}})
			}
			err := p.s.findLog(ctx, filter, options.Find().SetSort(bson.D{{Key: "name", Value: 1}}).SetLimit(int64(limit)), func(d *logDocument) error {
				found = append(found, d.partition())
				return nil
			})
			if err != nil {
				return err
			}
			if ok, err := p.isThere(ctx, head); err != nil || ok {
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
