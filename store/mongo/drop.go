package mongo

import (
	"context"
	"errors"
	"maps"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// dropPage is how many documents one step of a dropping deletes.
const dropPage = 1_000

// Drop implements [store.EventPort]. One transaction deletes the namespace's head and
// those of its sequences and observers, and notes their keys: from then on nothing
// that is stored under them is seen any more, and a new life of the namespace has
// keys of its own. What was noted is deleted after that, a page at a time; if that is
// interrupted, the next call for the namespace goes on. In a caller's transaction
// everything is deleted in it.
func (p port) Drop(ctx context.Context, ns countersign.Namespace) (eventlog.Dropped, error) {
	if p.tx != nil {
		var dropped eventlog.Dropped
		err := p.tx.within(ctx, func(ctx context.Context) (err error) {
			dropped, err = p.s.dropAtOnce(ctx, ns)
			return err
		})
		return dropped, err
	}
	s := p.s
	if err := s.enter(ctx); err != nil {
		return eventlog.Dropped{}, err
	}
	defer s.leave()
	if ctx.Value(inBody{s}) != nil {
		return eventlog.Dropped{}, store.ErrNestedTransaction
	}
	dropped, err := s.dropHeads(ctx, ns)
	if err == nil {
		err = s.sweep(ctx, ns, &dropped)
	}
	if err != nil {
		return eventlog.Dropped{}, err
	}
	return dropped, nil
}

// A life is what is found of a namespace before it is dropped.
type life struct {
	namespace *logDocument // nil: there is nothing
	heads     []*logDocument
}

func (s *Store) readLife(ctx context.Context, ns countersign.Namespace) (l life, err error) {
	l.namespace, err = s.findHead(ctx, namespaceID(ns))
	if err != nil || l.namespace == nil {
		return l, err
	}
	err = s.findLog(ctx, headsOf(l.namespace.ownKey()), options.Find(), func(d *logDocument) error {
		l.heads = append(l.heads, d)
		return nil
	})
	return l, err
}

// headsOf matches the heads in a life of a namespace.
func headsOf(life key) bson.D {
	return bson.D{
		{Key: "of", Value: life[:]},
		{Key: "kind", Value: bson.D{{Key: "$in", Value: []string{sequenceKind, recordsKind, observerKind}}}},
	}
}

// dropped is what deleting the heads deletes.
func (l life) dropped() (d eventlog.Dropped) {
	for _, head := range l.heads {
		switch head.Kind {
		case sequenceKind:
			if head.Next != 0 {
				d.Sequences++
			}
		case observerKind:
			d.Observers++
		}
	}
	return d
}

// errMoved says that heads came between the reading and the deleting of a life.
var errMoved = errors.New("mongo: the namespace has changed since it was read")

// drop deletes the heads. They are as they were read, or somebody has come between.
func (w *logWrites) drop(l life) (deleted int64) {
	w.deleteAll(bson.D{{Key: "_id", Value: l.namespace.ID}, {Key: "key", Value: l.namespace.Key}})
	w.deleteAll(headsOf(l.namespace.ownKey()))
	return int64(1 + len(l.heads))
}

// dropHeads makes everything of the namespace invisible. The heads are read before
// the transaction, which sends everything in one command: so it does not often meet
// one that an append has just locked.
func (s *Store) dropHeads(ctx context.Context, ns countersign.Namespace) (dropped eventlog.Dropped, err error) {
	err = s.repeat(ctx, func() error {
		alone := mongo.NewSessionContext(ctx, nil)
		l, err := s.readLife(alone, ns)
		dropped = l.dropped()
		if err != nil || l.namespace == nil {
			return err
		}
		return s.once(ctx, writingOptions(), func(ctx context.Context) error {
			w := s.newLogWrites()
			deletes := w.drop(l)
			w.replace(leftoverDocument(ns, l.namespace))
			for _, head := range l.heads {
				if head.Kind != recordsKind { // nothing is stored under its key
					w.replace(leftoverDocument(ns, head))
				}
			}
			deleted, err := w.sendDeletes(ctx)
			if err == nil && deleted != deletes {
				return &racedError{err: errMoved}
			}
			return err
		})
	})
	var unknown *unknownCommit
	if errors.As(err, &unknown) {
		return eventlog.Dropped{}, &eventlog.UnknownOutcomeError{Op: eventlog.OpDropNamespace, Err: unknown.err}
	}
	return dropped, err
}

// leftoverDocument notes a head whose documents are still to be deleted: a
// sequence's events and claims, an observer's partitions, a namespace's receipts.
func leftoverDocument(ns countersign.Namespace, head *logDocument) bson.D {
	next := int64(0)
	if head.Kind == sequenceKind {
		next = head.Next
	}
	return bson.D{
		{Key: "_id", Value: leftoverID(ns, head.ownKey())}, {Key: "kind", Value: leftoverKind},
		{Key: "of", Value: leftoversKey(ns)}, {Key: "name", Value: head.Kind},
		{Key: "key", Value: head.Key}, {Key: "next", Value: next},
	}
}

// sweep deletes what was noted of the namespace, by this call or by one that was
// interrupted, and counts it. An error is an unknown outcome: the namespace has been
// dropped, and the call is to be repeated.
func (s *Store) sweep(ctx context.Context, ns countersign.Namespace, dropped *eventlog.Dropped) error {
	through := map[key]uint64{} // of a sequence, the events below are deleted
	for {
		var p sweptPage
		err := store.CheckContext(ctx)
		if err == nil {
			err = s.run(ctx, TransactionOptions(), func(ctx context.Context) (err error) {
				p, err = s.sweepPage(ctx, ns, through)
				return err
			})
		}
		if err != nil {
			return &eventlog.UnknownOutcomeError{Op: eventlog.OpDropNamespace, Err: err}
		}
		dropped.Events += p.events
		dropped.Receipts += p.receipts
		maps.Copy(through, p.through)
		if !p.more {
			return nil
		}
	}
}

// A sweptPage is what one step of a sweep has deleted.
type sweptPage struct {
	events, receipts int64
	through          map[key]uint64
	more             bool
}

// sweepPage deletes a page of what was noted, and the notes of which nothing is left.
// Somebody else may be doing the same: then one of the two begins again.
func (s *Store) sweepPage(ctx context.Context, ns countersign.Namespace, through map[key]uint64) (p sweptPage, err error) {
	const notesOfAPage = 100
	var notes []*logDocument
	err = s.findLog(ctx, bson.D{{Key: "of", Value: leftoversKey(ns)}}, options.Find().SetLimit(notesOfAPage), func(d *logDocument) error {
		notes = append(notes, d)
		return nil
	})
	if err != nil || len(notes) == 0 {
		return p, err
	}
	rows := s.newLogWrites()
	n, receipts, err := rows.deleteRows(ctx, notes)
	if err != nil {
		return p, err
	}
	p.receipts, p.more, p.through = receipts, len(notes) == notesOfAPage, map[key]uint64{}
	events := s.newLogWrites()
	budget := uint64(dropPage)
	var finished []any
	for _, note := range notes {
		from, to, err := s.nextToSweep(ctx, note, through, budget)
		if err != nil {
			return p, err
		}
		if from < to {
			events.deleteEvents(note.ownKey(), from, to)
			budget -= to - from
			p.through[note.ownKey()] = to
		}
		if to == loaded(note.Next) && n < dropPage {
			finished = append(finished, note.ID)
		} else {
			p.more = true
		}
	}
	if p.events, err = events.sendDeletes(ctx); err != nil {
		return p, err
	}
	rows.deleteThose(finished)
	_, err = rows.sendDeletes(ctx)
	return p, err
}

// nextToSweep returns which events of a sequence to delete next. A long one may have
// been swept in part by an earlier call.
func (s *Store) nextToSweep(ctx context.Context, note *logDocument, through map[key]uint64, budget uint64) (from, to uint64, err error) {
	next := loaded(note.Next)
	from, known := through[note.ownKey()]
	if !known && next > dropPage && budget > 0 {
		filter, order := eventFilter(note.ownKey(), eventlog.Filter{}, 0, next)
		from = next
		err = s.findEvents(ctx, filter, options.Find().SetSort(bson.D{{Key: order, Value: 1}}).SetLimit(1).SetProjection(bson.D{{Key: "number", Value: 1}}),
			func(e *eventRow) bool {
				from = loaded(e.Number)
				return false
			})
	}
	return from, from + min(next-from, budget), err
}

// deleteRows deletes a page of what else is stored under the keys, and returns how
// many there were, and how many of them were receipts.
func (w *logWrites) deleteRows(ctx context.Context, notes []*logDocument) (n int, receipts int64, err error) {
	keys := make([][]byte, len(notes))
	for i, note := range notes {
		keys[i] = note.Key
	}
	var ids []any
	err = w.s.findLog(ctx, bson.D{{Key: "of", Value: bson.D{{Key: "$in", Value: keys}}}}, options.Find().SetLimit(dropPage), func(d *logDocument) error {
		n++
		ids = append(ids, d.ID)
		switch d.Kind {
		case effectRowKind:
			receipts++
		case claimKind:
			ids = append(ids, holderID(key(d.Of), valueOf(d.claim())))
		}
		return nil
	})
	w.deleteThose(ids)
	return n, receipts, err
}

// deleteEvents deletes the events of a sequence in a range of numbers.
func (w *logWrites) deleteEvents(sequence key, from, bound uint64) {
	log := w.collection
	w.collection = w.s.events.Name()
	filter, _ := eventFilter(sequence, eventlog.Filter{}, from, bound)
	w.deleteAll(filter)
	w.collection = log
}

// dropAtOnce drops the namespace in the transaction of ctx. What an earlier call left
// over stays.
func (s *Store) dropAtOnce(ctx context.Context, ns countersign.Namespace) (eventlog.Dropped, error) {
	l, err := s.readLife(ctx, ns)
	if err != nil || l.namespace == nil {
		return eventlog.Dropped{}, err
	}
	dropped := l.dropped()
	heads := s.newLogWrites()
	heads.drop(l)
	if _, err := heads.sendDeletes(ctx); err != nil {
		return dropped, err
	}
	events, receipts, rest := s.newLogWrites(), s.newLogWrites(), s.newLogWrites()
	receipts.deleteAll(bson.D{{Key: "of", Value: l.namespace.Key}})
	for _, head := range l.heads {
		switch head.Kind {
		case sequenceKind:
			if head.Next != 0 {
				events.deleteEvents(head.ownKey(), 0, loaded(head.Next))
			}
			for {
				n, err := rest.deleteClaims(ctx, head.ownKey(), dropPage)
				if err != nil {
					return dropped, err
				}
				if n == 0 {
					break
				}
				if _, err := rest.sendDeletes(ctx); err != nil {
					return dropped, err
				}
				rest = s.newLogWrites()
			}
		case observerKind:
			rest.deleteAll(bson.D{{Key: "of", Value: head.Key}})
		}
	}
	if dropped.Events, err = events.sendDeletes(ctx); err != nil {
		return dropped, err
	}
	if dropped.Receipts, err = receipts.sendDeletes(ctx); err != nil {
		return dropped, err
	}
	_, err = rest.sendDeletes(ctx)
	return dropped, err
}

// sendDeletes carries the writes out, and returns how many documents it deleted.
func (w *logWrites) sendDeletes(ctx context.Context) (int64, error) {
	if len(w.all) == 0 {
		return 0, nil
	}
	deleted, err := w.s.deliver(ctx, w.writes, false)
	return deleted, w.judged(err)
}
