package mongo

import (
	"context"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Index implements [store.EventPort].
func (p port) Index(ctx context.Context, x *store.Indexing) (more bool, err error) {
	id := sequenceID(x.Sequence)
	err = p.write(ctx, id, unknownOutcome(eventlog.OpIndex, x.Sequence), func(ctx context.Context) error {
		more, err = x.Step(ctx, &indexStore{s: p.s, sequence: x.Sequence})
		return err
	})
	return more, err
}

// indexStore is the [store.IndexStore] of a sequence, in a transaction.
type indexStore struct {
	s        *Store
	sequence eventlog.Sequence
	head     *logDocument
	claimed  map[eventlog.ClaimOwner]eventlog.Claim
}

// ReadIndexState implements [store.IndexStore]. The lock is what is written to the
// head.
func (i *indexStore) ReadIndexState(ctx context.Context) (state eventlog.IndexState, constraints uint64, ok bool, err error) {
	v := i.s.newView()
	if err := v.read(ctx, sequenceID(i.sequence), definitionsID(i.sequence.Namespace.EventStore)); err != nil {
		return state, 0, false, err
	}
	if i.head = v.head(sequenceID(i.sequence)); i.head == nil || i.head.Next == 0 {
		return state, 0, false, nil
	}
	if d := v.head(definitionsID(i.sequence.Namespace.EventStore)); d != nil {
		constraints = loaded(d.Constraints)
	}
	w := i.s.newLogWrites()
	w.lockHead(i.head, nil)
	return i.head.indexState(), constraints, true, w.send(ctx)
}

func (i *indexStore) WriteIndexState(ctx context.Context, state eventlog.IndexState) error {
	w := i.s.newLogWrites()
	w.lockHead(i.head, bson.D{
		{Key: "indexed", Value: stored(state.Indexed)}, {Key: "building", Value: stored(state.Building)}, {Key: "through", Value: stored(state.Through)},
	})
	return w.send(ctx)
}

func (i *indexStore) DeleteClaims(ctx context.Context, limit int) (int, error) {
	w := i.s.newLogWrites()
	n, err := w.deleteClaims(ctx, i.head.ownKey(), limit)
	if err != nil {
		return 0, err
	}
	return n, w.send(ctx)
}

// deleteClaims deletes claims of a sequence, at most so many, and returns how many.
func (w *logWrites) deleteClaims(ctx context.Context, sequence key, limit int) (int, error) {
	var ids []any
	err := w.s.findLog(ctx, bson.D{{Key: "of", Value: sequence[:]}}, options.Find().SetLimit(int64(limit)), func(d *logDocument) error {
		c := d.claim()
		ids = append(ids, claimID(sequence, ownerOf(c)), holderID(sequence, valueOf(c)))
		return nil
	})
	w.deleteThose(ids)
	return len(ids) / 2, err
}

func (i *indexStore) ReadIndexEvents(ctx context.Context, from uint64, limit int) (found []eventlog.Recorded, err error) {
	next := loaded(i.head.Next)
	if from >= next {
		return nil, nil
	}
	filter, order := eventFilter(i.head.ownKey(), eventlog.Filter{}, from, min(next, from+uint64(limit))) //nolint:gosec // a page
	err = i.s.findEvents(ctx, filter, options.Find().SetSort(bson.D{{Key: order, Value: 1}}), func(e *eventRow) bool {
		found = append(found, e.recorded())
		return true
	})
	return found, err
}

func (i *indexStore) ReadClaims(ctx context.Context, t eventlog.Touch, slice *eventlog.Slice) error {
	var ids []any
	for _, o := range t.Owners {
		ids = append(ids, claimID(i.head.ownKey(), o))
	}
	for _, v := range t.Values {
		ids = append(ids, holderID(i.head.ownKey(), v))
	}
	v := i.s.newView()
	if err := v.read(ctx, ids...); err != nil {
		return err
	}
	i.claimed = v.claims(i.head.ownKey(), t, slice)
	return nil
}

func (i *indexStore) WriteClaims(ctx context.Context, freed []eventlog.ClaimOwner, made []eventlog.Claim) error {
	w := i.s.newLogWrites()
	w.moveClaims(i.head.ownKey(), i.claimed, freed, made)
	return w.send(ctx)
}
