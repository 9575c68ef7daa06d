package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/countersign/countersign/durable"
)

// A reader runs one query: the store on any connection, a Tx in the transaction
// that is there. One query has one snapshot, whatever the isolation level, so
// what it reads is consistent without a transaction and without a lock.
type reader func(ctx context.Context, q *statement) error

func load(ctx context.Context, read reader, t *statements, req durable.LoadOwner) (durable.Image, error) {
	if err := req.Check(); err != nil {
		return durable.Image{}, err
	}
	if req.Parts == nil {
		return view(ctx, read, t, req.Owner, part{sql: &allHistoryPart}, part{&snapshotAfterPart, []any{int64(-1)}},
			part{sql: &allInboxPart}, part{sql: &allOutboxPart}, part{sql: &allReceiptsPart})
	}
	parts, err := named(*req.Parts)
	if err != nil {
		return durable.Image{}, err
	}
	img, err := view(ctx, read, t, req.Owner, parts...)
	if err != nil {
		return durable.Image{}, err
	}
	img.Partial, img.Outbox = true, nil
	return img, nil
}

// named returns what to read for the parts of an image.
func named(p durable.Parts) ([]part, error) {
	var parts []part
	if len(p.Inbox) > 0 {
		parts = append(parts, part{&namedInboxPart, []any{slices.Compact(slices.Sorted(slices.Values(p.Inbox)))}})
	}
	if p.State { // the owner's mode says which of the two there is
		limit, err := durable.PageLimit(p.HistoryLimit)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{&historyAfterPart, []any{int64(p.StateAfter), int64(limit)}},
			part{&snapshotAfterPart, []any{int64(p.StateAfter)}})
	}
	if p.Pending {
		limit, err := durable.PageLimit(p.PendingLimit)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{&pendingAfterPart, []any{int64(0), "", int64(limit)}})
	}
	return parts, nil
}

func readHistory(ctx context.Context, read reader, t *statements, req durable.ReadHistory) ([]durable.Record, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	limit, err := durable.PageLimit(req.Limit)
	if err != nil {
		return nil, err
	}
	img, err := view(ctx, read, t, req.Owner, part{&historyAfterPart, []any{int64(req.After), int64(limit)}})
	return img.History, err
}

func readPending(ctx context.Context, read reader, t *statements, req durable.ReadPending) ([]durable.Effect, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	limit, err := durable.PageLimit(req.Limit)
	if err != nil {
		return nil, err
	}
	img, err := view(ctx, read, t, req.Owner, part{&pendingAfterPart, []any{int64(req.AfterAccepted), req.AfterID, int64(limit)}})
	return img.Pending, err
}

// view reads the owner's row and the parts, in one query.
func view(ctx context.Context, read reader, t *statements, owner string, parts ...part) (durable.Image, error) {
	var img durable.Image
	found := false
	q := t.make(union, append([]part{{&ownerPart, []any{owner}}}, parts...)...).each(func(r *row) (err error) {
		switch r.kind {
		case headRow:
			found = true
			img.Head, err = r.head()
		case historyRow:
			img.History = append(img.History, r.record())
		case snapshotRow:
			snapshot := r.record()
			img.Snapshot = &snapshot
		case inboxRow:
			img.Inbox = append(img.Inbox, r.inbox())
		case outboxRow:
			img.Outbox = append(img.Outbox, r.effect())
		case pendingRow:
			effect := r.effect()
			img.Outbox, img.Pending = append(img.Outbox, effect), append(img.Pending, effect)
		case receiptRow:
			img.Receipts = append(img.Receipts, r.receipt())
		}
		return err
	})
	if err := read(ctx, q); err != nil {
		return durable.Image{}, err
	}
	if !found {
		return durable.Image{}, &durable.UnknownOwnerError{Owner: owner}
	}
	// A union promises no order of its rows.
	slices.SortFunc(img.History, func(a, b durable.Record) int { return cmp.Compare(a.Position, b.Position) })
	slices.SortFunc(img.Inbox, func(a, b durable.InboxRecord) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(img.Outbox, func(a, b durable.Effect) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(img.Receipts, func(a, b durable.Receipt) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(img.Pending, durable.ComparePending)
	return img, nil
}
