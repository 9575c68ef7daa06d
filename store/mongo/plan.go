package mongo

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// unconfirmedError says that the server's records are not those that a plan was
// made on: a key is taken that should be free, or a record does not match.
// Nothing of the transaction may stay.
type unconfirmedError struct {
	created bool  // the key that is taken is that of a new owner
	at      int   // the write whose key is taken
	err     error // the driver's error, or nil
}

func (e *unconfirmedError) Error() string {
	if e.err == nil {
		return "mongo: a record does not match the plan"
	}
	return e.err.Error()
}

func (e *unconfirmedError) Unwrap() error { return e.err }

// writes are the writes of one plan, for one round trip. Each of them demands
// what the plan was made on.
type writes struct {
	database, collection string
	all                  []mongo.ClientBulkWrite
	matches, inserts     int64 // what the server must report
}

func (w *writes) add(model mongo.ClientWriteModel) {
	w.all = append(w.all, mongo.ClientBulkWrite{Database: w.database, Collection: w.collection, Model: model})
}

func (w *writes) insert(d bson.D) {
	w.inserts++
	w.add(mongo.NewClientInsertOneModel().SetDocument(d))
}

func (w *writes) update(filter, update bson.D) {
	w.matches++
	w.add(mongo.NewClientUpdateOneModel().SetFilter(filter).SetUpdate(update))
}

// put replaces a document, or inserts it.
func (w *writes) put(d bson.D) {
	w.matches++
	w.add(mongo.NewClientReplaceOneModel().SetFilter(d[:2:2]).SetReplacement(d).SetUpsert(true)) // by _id and owner
}

// writePlan writes the plan that was made with the owner at before, nil for a new
// one. It gives an [*unconfirmedError] if the server's records are others.
func (s *Store) writePlan(ctx context.Context, before *durable.Head, p durable.Plan) error {
	w := writes{database: s.records.Database().Name(), collection: s.records.Name()}
	owner := p.Head.Owner
	if p.Creates {
		w.insert(headDocument(p.Head))
	} else {
		// The turn makes it a write also where position and fence stay: of two
		// transactions that write anything of an owner, one fails.
		w.update(bson.D{
			{Key: "_id", Value: recordID(owner, headKind, "")}, {Key: "owner", Value: owner},
			{Key: "mode", Value: string(before.Mode)}, {Key: "position", Value: int64(before.Position)}, {Key: "fence", Value: int64(before.Fence)},
		}, bson.D{
			{Key: "$set", Value: bson.D{{Key: "position", Value: int64(p.Head.Position)}, {Key: "fence", Value: int64(p.Head.Fence)}}},
			{Key: "$inc", Value: bson.D{{Key: "turn", Value: int64(1)}}},
		})
	}
	if p.Snapshot != nil {
		w.put(snapshotDocument(owner, *p.Snapshot))
	}
	for _, r := range p.Events {
		w.insert(eventDocument(owner, r))
	}
	if p.Inbox != nil {
		w.insert(inboxDocument(owner, *p.Inbox))
	}
	receiptOf := make(map[string]string, len(p.Receipts))
	for _, r := range p.Receipts {
		receiptOf[r.EffectID] = r.ID
		w.insert(receiptDocument(owner, r))
	}
	for _, e := range p.Effects {
		w.insert(effectDocument(owner, e, receiptOf[e.ID]))
		delete(receiptOf, e.ID)
	}
	for _, r := range p.Receipts { // of effects that were in the outbox before
		if receiptOf[r.EffectID] == "" {
			continue
		}
		w.update(bson.D{
			{Key: "_id", Value: recordID(owner, effectKind, r.EffectID)}, {Key: "owner", Value: owner},
			{Key: "receipt_id", Value: bson.D{{Key: "$exists", Value: false}}},
		}, bson.D{
			{Key: "$set", Value: bson.D{{Key: "receipt_id", Value: r.ID}}},
			{Key: "$unset", Value: bson.D{{Key: "pending", Value: ""}}},
		})
	}
	return s.send(ctx, w, p.Creates)
}

// send carries the writes out in one command, in their order, and compares what
// the server did with what it should have done.
func (s *Store) send(ctx context.Context, w writes, creates bool) error {
	_, err := s.deliver(ctx, w, creates)
	return err
}

// deliver is send, and returns how many documents were deleted.
func (s *Store) deliver(ctx context.Context, w writes, creates bool) (deleted int64, err error) {
	ctx, cancel := patient(ctx)
	defer cancel()
	res, err := s.client.BulkWrite(ctx, w.all, options.ClientBulkWrite().SetOrdered(true))
	if err != nil {
		var bulk mongo.ClientBulkWriteException
		if errors.As(err, &bulk) {
			for i, e := range bulk.WriteErrors {
				if e.Code == codeDuplicateKey {
					return 0, &unconfirmedError{created: creates && i == 0, at: i, err: err}
				}
			}
		}
		return 0, err
	}
	if res.MatchedCount+res.UpsertedCount != w.matches || res.InsertedCount != w.inserts {
		return 0, &unconfirmedError{}
	}
	return res.DeletedCount, nil
}

// contradiction is what an unconfirmed plan means that was made on records read
// in the same transaction: another transaction created the owner just now, or
// the records contradict each other, and then no repetition helps. It leaves
// other errors.
func contradiction(err error) error {
	var unconfirmed *unconfirmedError
	switch {
	case !errors.As(err, &unconfirmed):
		return err
	case unconfirmed.created:
		return &racedError{err: err}
	}
	return &store.UnusableError{Reason: "the records contradict each other", Err: fmt.Errorf("mongo: a plan does not fit: %w", err)}
}
