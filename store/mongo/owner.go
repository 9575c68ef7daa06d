package mongo

import (
	"context"
	"slices"
	"strings"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A reader carries reads out: the store by themselves, a Tx in its transaction.
type reader interface {
	// read calls f for queries each of which is of one state. It may call f again
	// from the beginning.
	read(ctx context.Context, f func(context.Context) error) error
	// readTogether calls f for queries all of which are of one state. It may call
	// f again too.
	readTogether(ctx context.Context, f func(context.Context) error) error
}

// load returns an image. A complete one is one query, and so is what a host
// reads: the head, an inbox record, and the snapshot. History is read by a second
// query, of records that were there at the first one and never change.
func (s *Store) load(ctx context.Context, r reader, req durable.LoadOwner) (img durable.Image, err error) {
	if err := req.Check(); err != nil {
		return durable.Image{}, err
	}
	run := r.read
	if p := req.Parts; p != nil && p.Pending {
		run = r.readTogether
	}
	err = run(ctx, func(ctx context.Context) (err error) {
		if req.Parts == nil {
			img, err = s.complete(ctx, req.Owner)
		} else {
			img, err = s.partial(ctx, req.Owner, *req.Parts)
		}
		return err
	})
	if err != nil {
		return durable.Image{}, err
	}
	return img, nil
}

func (s *Store) readHistory(ctx context.Context, r reader, req durable.ReadHistory) (page []durable.Record, err error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	err = r.read(ctx, func(ctx context.Context) error {
		img, err := s.partial(ctx, req.Owner, durable.Parts{})
		if err != nil {
			return err
		}
		page, err = s.historyAfter(ctx, img.Head, req.After, req.Limit)
		return err
	})
	return page, err
}

func (s *Store) readPending(ctx context.Context, r reader, req durable.ReadPending) (page []durable.Effect, err error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	err = r.read(ctx, func(ctx context.Context) error {
		if _, err := s.partial(ctx, req.Owner, durable.Parts{}); err != nil {
			return err
		}
		page, err = s.pendingAfter(ctx, req.Owner, durable.Effect{AcceptedAt: req.AfterAccepted, ID: req.AfterID}, req.Limit)
		return err
	})
	return page, err
}

// complete reads every record of the owner.
func (s *Store) complete(ctx context.Context, owner string) (img durable.Image, err error) {
	known := false
	err = s.find(ctx, ownerRange(owner, "_id", owner+separator), func(d *document) {
		switch kind, id := d.kindAndID(); kind {
		case headKind:
			img.Head, known = d.head(), true
		case snapshotKind:
			snapshot := d.record()
			img.Snapshot = &snapshot
		case eventKind:
			img.History = append(img.History, d.record())
		case inboxKind:
			img.Inbox = append(img.Inbox, d.inbox(id))
		case effectKind:
			effect := d.effect(id)
			img.Outbox = append(img.Outbox, effect)
			if d.Pending != "" {
				img.Pending = append(img.Pending, effect)
			}
		case receiptKind:
			img.Receipts = append(img.Receipts, d.receipt(id))
		}
	}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err == nil && !known {
		err = &durable.UnknownOwnerError{Owner: owner}
	}
	slices.SortFunc(img.Pending, durable.ComparePending)
	return img, err
}

// partial reads the parts that are named.
func (s *Store) partial(ctx context.Context, owner string, p durable.Parts) (durable.Image, error) {
	img := durable.Image{Partial: true}
	known := false
	ids := []string{recordID(owner, headKind, "")}
	if p.State {
		ids = append(ids, recordID(owner, snapshotKind, ""))
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(p.Inbox))) {
		ids = append(ids, recordID(owner, inboxKind, id))
	}
	var snapshot *durable.Record
	err := s.findNamed(ctx, owner, ids, func(d *document) {
		switch kind, id := d.kindAndID(); kind {
		case headKind:
			img.Head, known = d.head(), true
		case snapshotKind:
			if uint64(d.Position) > p.StateAfter {
				r := d.record()
				snapshot = &r
			}
		case inboxKind:
			img.Inbox = append(img.Inbox, d.inbox(id))
		}
	})
	if err != nil {
		return img, err
	}
	if !known {
		return img, &durable.UnknownOwnerError{Owner: owner}
	}
	slices.SortFunc(img.Inbox, func(a, b durable.InboxRecord) int { return strings.Compare(a.ID, b.ID) })
	if p.State && img.Mode == durable.Snapshot {
		img.Snapshot = snapshot
	} else if p.State {
		if img.History, err = s.historyAfter(ctx, img.Head, p.StateAfter, p.HistoryLimit); err != nil {
			return img, err
		}
	}
	if p.Pending {
		img.Pending, err = s.pendingAfter(ctx, owner, durable.Effect{}, p.PendingLimit)
	}
	return img, err
}

// historyAfter reads a page of the records up to the head's position.
func (s *Store) historyAfter(ctx context.Context, head durable.Head, after uint64, limit int) ([]durable.Record, error) {
	limit, err := durable.PageLimit(limit)
	if err != nil || after >= head.Position {
		return nil, err
	}
	var page []durable.Record
	err = s.find(ctx, bson.D{
		{Key: "_id", Value: bson.D{{Key: "$gt", Value: eventID(head.Owner, after)}, {Key: "$lte", Value: eventID(head.Owner, head.Position)}}},
		{Key: "owner", Value: head.Owner},
	}, func(d *document) { page = append(page, d.record()) }, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)))
	return page, err
}

// pendingAfter reads a page of the pending effects.
func (s *Store) pendingAfter(ctx context.Context, owner string, cursor durable.Effect, limit int) ([]durable.Effect, error) {
	limit, err := durable.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	var page []durable.Effect
	err = s.find(ctx, ownerRange(owner, "pending", pendingKey(owner, cursor.AcceptedAt, cursor.ID)), func(d *document) {
		_, id := d.kindAndID()
		page = append(page, d.effect(id))
	}, options.Find().SetSort(bson.D{{Key: "pending", Value: 1}}).SetLimit(int64(limit)))
	return page, err
}

// ownerRange matches what comes after a key in the range of an owner's keys.
func ownerRange(owner, field, after string) bson.D {
	return bson.D{
		{Key: field, Value: bson.D{{Key: "$gt", Value: after}, {Key: "$lt", Value: owner + afterSeparator}}},
		{Key: "owner", Value: owner},
	}
}

// find calls each with the records that match. The document is each's only until
// it returns.
func (s *Store) find(ctx context.Context, filter bson.D, each func(*document), opts ...*options.FindOptionsBuilder) error {
	all := []options.Lister[options.FindOptions]{options.Find().SetBatchSize(1000)}
	for _, o := range opts {
		all = append(all, o)
	}
	if mongo.SessionFromContext(ctx) != nil {
		late, cancel := patient(ctx)
		defer cancel()
		ctx = late
	}
	cursor, err := s.records.Find(ctx, filter, all...)
	if err != nil {
		return err
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	for cursor.Next(ctx) {
		var d document
		if err := cursor.Decode(&d); err != nil {
			return &store.UnusableError{Reason: "a record is not as this library writes it", Err: err}
		}
		if err := d.check(); err != nil {
			return err
		}
		each(&d)
	}
	return cursor.Err()
}
