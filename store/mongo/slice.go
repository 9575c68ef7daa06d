package mongo

import (
	"context"

	"github.com/countersign/countersign/durable"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxFilterBytes bounds the _ids of one query, far below the 16 MiB of a
// document.
const maxFilterBytes = 4 << 20

// assume returns the slice on which the commit would be carried out: the owner
// stands where the commit expects it, and knows nothing of it but the effects that
// its receipts are for. What [durable.Decide] plans on it is right if the
// assumption is, and the plan's writes find that out: the head must match, the
// ids must be free, the effects must be pending. So the usual commit reads
// nothing, and no rule is written a second time.
func assume(c durable.Commit) durable.Slice {
	mode := durable.EventHistory
	if c.State.ReplaceSnapshot != nil {
		mode = durable.Snapshot
	}
	s := durable.Slice{Head: &durable.Head{Owner: c.Owner, Mode: mode, Position: c.ExpectedPosition, Fence: c.Fence}}
	if len(c.Receipts) == 0 {
		return s
	}
	added := make(map[string]bool, len(c.Effects))
	for _, e := range c.Effects {
		added[e.ID] = true
	}
	s.Effects = make(map[string]durable.Effect, len(c.Receipts))
	for _, r := range c.Receipts {
		if !added[r.EffectID] {
			s.Effects[r.EffectID] = durable.Effect{ID: r.EffectID}
		}
	}
	return s
}

// readSlice reads what a request touches, without the head if that is known.
func (s *Store) readSlice(ctx context.Context, t durable.Touch, head *durable.Head) (durable.Slice, error) {
	slice := durable.Slice{
		Head: head, Inbox: map[string]durable.InboxRecord{}, Effects: map[string]durable.Effect{},
		Receipts: map[string]durable.Receipt{}, ReceiptOf: map[string]string{},
	}
	ids := make([]string, 0, 1+len(t.Inbox)+len(t.Effects)+len(t.Receipts))
	if head == nil {
		ids = append(ids, recordID(t.Owner, headKind, ""))
	}
	for _, id := range t.Inbox {
		ids = append(ids, recordID(t.Owner, inboxKind, id))
	}
	for _, id := range t.Effects {
		ids = append(ids, recordID(t.Owner, effectKind, id))
	}
	for _, id := range t.Receipts {
		ids = append(ids, recordID(t.Owner, receiptKind, id))
	}
	err := s.findNamed(ctx, t.Owner, ids, func(d *document) {
		switch kind, id := d.kindAndID(); kind {
		case headKind:
			head := d.head()
			slice.Head = &head
		case inboxKind:
			slice.Inbox[id] = d.inbox(id)
		case effectKind:
			slice.Effects[id] = d.effect(id)
			if d.ReceiptID != "" {
				slice.ReceiptOf[id] = d.ReceiptID
			}
		case receiptKind:
			slice.Receipts[id] = d.receipt(id)
		}
	})
	return slice, err
}

// findNamed calls each with the records of these _ids that exist.
func (s *Store) findNamed(ctx context.Context, owner string, ids []string, each func(*document)) error {
	for len(ids) > 0 {
		n, size := 0, 0
		for n < len(ids) && (n == 0 || size+len(ids[n]) <= maxFilterBytes) {
			size += len(ids[n]) + 16 // about what BSON adds
			n++
		}
		filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids[:n]}}}, {Key: "owner", Value: owner}}
		if n == 1 {
			filter[0].Value = ids[0]
		}
		if err := s.find(ctx, filter, each); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}
