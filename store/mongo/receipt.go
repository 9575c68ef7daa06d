package mongo

import (
	"cmp"
	"context"
	"slices"

	"github.com/countersign/countersign/receipt"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// FindReceipts implements [store.EventPort]. They are read under the key of the
// namespace's life. That it was the right one is seen afterwards: a key is never used
// again, so a namespace that has it then had it all the time.
func (p port) FindReceipts(ctx context.Context, req receipt.ListReceipts, effect string) (found []receipt.Receipt, err error) {
	if len(req.Occurrences) == 0 {
		return []receipt.Receipt{}, p.read(ctx, func(context.Context) error { return nil })
	}
	id := namespaceID(req.Namespace)
	err = p.read(ctx, func(ctx context.Context) error {
		life, known := p.s.known.of(id)
		for {
			found = []receipt.Receipt{}
			if known {
				if found, err = p.s.receipts(ctx, life.own, req, effect); err != nil {
					return err
				}
			}
			ns, err := p.s.findHead(ctx, id)
			switch {
			case err != nil:
				return err
			case ns == nil:
				found = []receipt.Receipt{}
				return nil
			case known && ns.ownKey() == life.own:
				return nil
			}
			life, known = keys{own: ns.ownKey()}, true
			p.s.known.set(id, life)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b receipt.Receipt) int {
		return cmp.Or(cmp.Compare(a.Key.Occurrence, b.Key.Occurrence), cmp.Compare(a.Key.Effect, b.Key.Effect))
	})
	return found, nil
}

func (s *Store) receipts(ctx context.Context, life key, req receipt.ListReceipts, effect string) ([]receipt.Receipt, error) {
	filter := bson.D{{Key: "of", Value: life[:]}, {Key: "name", Value: anyOf(req.Occurrences)}}
	if effect != "" {
		ids := make([]any, len(req.Occurrences))
		for i, occurrence := range req.Occurrences {
			ids[i] = receiptID(life, receipt.Key{Namespace: req.Namespace, Occurrence: occurrence, Effect: effect})
		}
		filter = bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	}
	found := []receipt.Receipt{}
	err := s.findLog(ctx, filter, options.Find(), func(d *logDocument) error {
		if d.Kind != effectRowKind {
			return nil // a head in the namespace, of the same name
		}
		r, err := d.receipt(receipt.Key{Namespace: req.Namespace})
		found = append(found, r)
		return err
	})
	return found, err
}
