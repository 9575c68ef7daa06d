package mongo

import (
	"context"

	"github.com/countersign/countersign/eventlog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// findEvents calls each with the events that match, until it says that it is enough.
func (s *Store) findEvents(ctx context.Context, filter bson.D, opts *options.FindOptionsBuilder, each func(*eventRow) (more bool)) error {
	return scan(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return s.events.Find(ctx, filter, options.Find().SetBatchSize(rowsOfABatch), opts)
	}, func(e *eventRow) (bool, error) { return each(e), nil })
}

// LoadEvents implements [store.EventPort]. The head says what there is; events below
// its next number never change. Without a transaction, the namespace may be dropped
// in between, and then it is read again: what is left of it must not be seen.
func (p port) LoadEvents(ctx context.Context, req eventlog.ReadEvents) (page eventlog.Page, err error) {
	limit, err := eventlog.PageLimit(req.Limit)
	if err != nil {
		return eventlog.Page{}, err
	}
	err = p.read(ctx, func(ctx context.Context) error {
		for {
			head, err := p.s.findHead(ctx, sequenceID(req.Sequence))
			if err != nil {
				return err
			}
			if head == nil {
				page = eventlog.NewPage(req, nil, 0)
				return nil
			}
			next := loaded(head.Next)
			bound := next
			if req.Before > 0 {
				bound = min(bound, req.Before)
			}
			found, whole, err := p.s.eventsBetween(ctx, head.ownKey(), req.Filter, req.From, bound, limit+1)
			if err != nil {
				return err
			}
			if !whole {
				whole, err = p.isThere(ctx, head)
			}
			if err != nil || whole {
				page = eventlog.NewPage(req, found, next)
				return err
			}
		}
	})
	return page, err
}

// isThere reports whether a head that was read is still there: in a transaction,
// always.
func (p port) isThere(ctx context.Context, head *logDocument) (bool, error) {
	if p.tx != nil {
		return true, nil
	}
	again, err := p.s.findHead(ctx, idOf(head.ID))
	return again != nil && again.ownKey() == head.ownKey(), err
}

// eventsBetween reads events in the order of their numbers, no more than a page
// takes. The page is whole, without another look at the head, if no number in it is
// missing.
func (s *Store) eventsBetween(ctx context.Context, sequence key, f eventlog.Filter, from, bound uint64, limit int) (found []eventlog.Recorded, whole bool, err error) {
	if from >= bound {
		return nil, true, nil
	}
	size := 0
	filter, order := eventFilter(sequence, f, from, bound)
	err = s.findEvents(ctx, filter, options.Find().SetSort(bson.D{{Key: order, Value: 1}}).SetLimit(int64(limit)), func(e *eventRow) bool {
		found = append(found, e.recorded())
		size += found[len(found)-1].Size()
		return size <= eventlog.MaxPageBytes
	})
	n := uint64(len(found))
	whole = f.Empty() && n > 0 && found[0].Number == from && found[n-1].Number == from+n-1 &&
		(len(found) == limit || size > eventlog.MaxPageBytes || from+n == bound)
	return found, whole, err
}

// LoadTail implements [store.EventPort].
func (p port) LoadTail(ctx context.Context, req eventlog.ReadTail) (tail eventlog.Tail, err error) {
	err = p.read(ctx, func(ctx context.Context) error {
		for {
			head, err := p.s.findHead(ctx, sequenceID(req.Sequence))
			tail = eventlog.Tail{}
			if err != nil || head == nil {
				return err
			}
			tail.Next = loaded(head.Next)
			tail.Last, tail.Found, err = p.s.highest(ctx, head.ownKey(), req.Filter, 0, tail.Next)
			if err != nil || req.Filter.Empty() {
				return err
			}
			if ok, err := p.isThere(ctx, head); err != nil || ok {
				return err
			}
		}
	})
	return tail, err
}
