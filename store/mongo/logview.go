package mongo

import (
	"context"
	"time"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// clockID is the _id of the document that is read with the server's time: it is
// always there.
const clockID = clockKind

// A view is documents of the log that were read by their _ids, in a transaction or
// one by one, and the store's time at the first reading.
type view struct {
	s    *Store
	docs map[string]*logDocument
	now  time.Time
}

func (s *Store) newView() *view { return &view{s: s, docs: map[string]*logDocument{}} }

// head returns a document with a readable _id, or nil.
func (v *view) head(id string) *logDocument { return v.docs[id] }

// row returns a document that is looked up by what it is about, or nil.
func (v *view) row(id []byte) *logDocument { return v.docs[string(id)] }

// read reads documents by their _ids: strings or bytes. The first reading brings
// the time, in the same round trip.
func (v *view) read(ctx context.Context, ids ...any) error {
	for {
		n, size := 0, 0
		for n < len(ids) && (n == 0 || size <= maxFilterBytes) {
			switch id := ids[n].(type) {
			case string:
				size += len(id) + 16 // about what BSON adds
			case []byte:
				size += len(id) + 16
			}
			n++
		}
		if err := v.readSome(ctx, ids[:n]); err != nil {
			return err
		}
		if ids = ids[n:]; len(ids) == 0 {
			return nil
		}
	}
}

func (v *view) readSome(ctx context.Context, ids []any) error {
	clock := v.s.options.Clock
	asks := v.now.IsZero() && clock == nil
	if asks {
		ids = append([]any{clockID}, ids...)
	} else if v.now.IsZero() {
		v.now = eventlog.Microseconds(clock.Now())
	}
	if len(ids) == 0 {
		return nil
	}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	open := func(ctx context.Context) (*mongo.Cursor, error) {
		if asks {
			return v.s.log.Aggregate(ctx, mongo.Pipeline{{{Key: "$match", Value: filter}}, withTime}, options.Aggregate().SetBatchSize(rowsOfABatch))
		}
		return v.s.log.Find(ctx, filter, options.Find().SetBatchSize(rowsOfABatch))
	}
	err := scan(ctx, open, func(d *logDocument) (bool, error) {
		if err := d.check(); err != nil {
			return false, err
		}
		if asks && d.Kind == clockKind {
			v.now = time.UnixMilli(d.Now).UTC()
		}
		v.docs[idOf(d.ID)] = d
		return true, nil
	})
	if err == nil && asks && v.now.IsZero() {
		err = &store.UnusableError{Reason: "the document that the time is read with is missing: run the migrations"}
	}
	return err
}

// withTime adds the server's time, in milliseconds.
var withTime = bson.D{{Key: "$set", Value: bson.D{{Key: "now", Value: bson.D{{Key: "$toLong", Value: "$$NOW"}}}}}}

const rowsOfABatch = 10_000

func idOf(v bson.RawValue) string {
	if s, ok := v.StringValueOK(); ok {
		return s
	}
	_, b, _ := v.BinaryOK()
	return string(b)
}

// scan calls each with every document of a cursor, until it says that it is enough.
// In a transaction, a command that is under way is waited for (see [patient]).
func scan[D any](ctx context.Context, open func(context.Context) (*mongo.Cursor, error), each func(*D) (more bool, err error)) error {
	if mongo.SessionFromContext(ctx) != nil {
		late, cancel := patient(ctx)
		defer cancel()
		ctx = late
	}
	cursor, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	for cursor.Next(ctx) {
		d := new(D)
		if err := cursor.Decode(d); err != nil {
			return &store.UnusableError{Reason: "a document is not as this library writes it", Err: err}
		}
		if more, err := each(d); err != nil || !more {
			return err
		}
	}
	return cursor.Err()
}

// find calls each with the documents of the log that match.
func (s *Store) findLog(ctx context.Context, filter bson.D, opts *options.FindOptionsBuilder, each func(*logDocument) error) error {
	return scan(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return s.log.Find(ctx, filter, options.Find().SetBatchSize(rowsOfABatch), opts)
	}, func(d *logDocument) (bool, error) {
		err := d.check()
		if err == nil {
			err = each(d)
		}
		return true, err
	})
}

// findHead reads one head, or returns nil.
func (s *Store) findHead(ctx context.Context, id string) (*logDocument, error) {
	var found *logDocument
	err := s.findLog(ctx, bson.D{{Key: "_id", Value: id}}, options.Find().SetLimit(1), func(d *logDocument) error {
		found = d
		return nil
	})
	return found, err
}
