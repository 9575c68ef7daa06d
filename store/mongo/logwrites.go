package mongo

import (
	"context"
	"errors"

	"github.com/countersign/countersign"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// logWrites are the writes of one transaction to the collections of the log, for one
// round trip. The heads come first: they are the locks.
type logWrites struct {
	writes
	s     *Store
	races map[int]bool // writes that insert what another transaction may insert at the same time
}

func (s *Store) newLogWrites() *logWrites {
	return &logWrites{writes: writes{database: s.log.Database().Name(), collection: s.log.Name()}, s: s, races: map[int]bool{}}
}

// insertRacing inserts what another transaction may have inserted since this one
// began.
func (w *logWrites) insertRacing(d bson.D) {
	w.races[len(w.all)] = true
	w.insert(d)
}

// deleteThose deletes by _id.
func (w *logWrites) deleteThose(ids []any) {
	if len(ids) > 0 {
		w.deleteAll(bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	}
}

func (w *logWrites) deleteAll(filter bson.D) {
	w.add(mongo.NewClientDeleteManyModel().SetFilter(filter))
}

// event inserts an event.
func (w *logWrites) event(e bson.D) {
	log := w.collection
	w.collection = w.s.events.Name()
	w.insert(e)
	w.collection = log
}

// lockHead writes a head, whatever else of it is written: of two transactions that
// do so, one fails. It must be as it was read.
func (w *logWrites) lockHead(d *logDocument, fields bson.D) {
	update := bson.D{{Key: "$inc", Value: bson.D{{Key: "turn", Value: int64(1)}}}}
	if len(fields) > 0 {
		update = append(update, bson.E{Key: "$set", Value: fields})
	}
	filter := bson.D{{Key: "_id", Value: d.ID}}
	if d.Key != nil {
		filter = append(filter, bson.E{Key: "key", Value: d.Key})
	}
	w.update(filter, update)
}

// addHead creates a head in a namespace, whose document it locks or creates: so it
// does not happen while the namespace is dropped. It returns the keys. The namespace's
// document is nil if there is none.
func (w *logWrites) addHead(id, kind, name string, ns countersign.Namespace, namespace *logDocument, fields bson.D) keys {
	k := keys{own: newKey()}
	if namespace == nil {
		k.life = newKey()
		w.insertRacing(bson.D{{Key: "_id", Value: namespaceID(ns)}, {Key: "kind", Value: namespaceKind}, {Key: "key", Value: k.life[:]}, {Key: "turn", Value: int64(0)}})
	} else {
		k.life = namespace.ownKey()
		w.lockHead(namespace, nil)
	}
	w.insertRacing(append(bson.D{
		{Key: "_id", Value: id}, {Key: "kind", Value: kind}, {Key: "of", Value: k.life[:]}, {Key: "name", Value: name},
		{Key: "key", Value: k.own[:]}, {Key: "turn", Value: int64(0)},
	}, fields...))
	return k
}

// send carries the writes out.
func (w *logWrites) send(ctx context.Context) error {
	if len(w.all) == 0 {
		return nil
	}
	return w.judged(w.s.send(ctx, w.writes, false))
}

// judged is what an error of the writes means. A document that another transaction
// has inserted since is a [*racedError]: the next attempt sees it.
func (w *logWrites) judged(err error) error {
	var unconfirmed *unconfirmedError
	if errors.As(err, &unconfirmed) && unconfirmed.err != nil && w.races[unconfirmed.at] {
		return &racedError{err: err}
	}
	return contradiction(err)
}
