package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// An executor reads: the store in a transaction of its own, a Tx in the one that
// is there.
type executor interface {
	read(ctx context.Context, f func(session) error) error
	texts() *statements
}

func load(ctx context.Context, x executor, req durable.LoadOwner) (durable.Image, error) {
	if err := req.Check(); err != nil {
		return durable.Image{}, err
	}
	var img durable.Image
	err := x.read(ctx, func(s session) error {
		key, head, err := readHead(ctx, s, x.texts(), req.Owner)
		if err != nil {
			return err
		}
		img.Head = head
		if req.Parts == nil {
			return readAll(ctx, s, x.texts(), key, &img)
		}
		img.Partial = true
		return readParts(ctx, s, x.texts(), key, *req.Parts, &img)
	})
	if err != nil {
		return durable.Image{}, err
	}
	return img, nil
}

func readHistory(ctx context.Context, x executor, req durable.ReadHistory) ([]durable.Record, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	var page []durable.Record
	err := x.read(ctx, func(s session) error {
		key, _, err := readHead(ctx, s, x.texts(), req.Owner)
		if err != nil {
			return err
		}
		page, err = historyAfter(ctx, s, x.texts(), key, req.After, req.Limit)
		return err
	})
	return page, err
}

func readPending(ctx context.Context, x executor, req durable.ReadPending) ([]durable.Effect, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	var page []durable.Effect
	err := x.read(ctx, func(s session) error {
		key, _, err := readHead(ctx, s, x.texts(), req.Owner)
		if err != nil {
			return err
		}
		page, err = pendingAfter(ctx, s, x.texts(), key, durable.Effect{AcceptedAt: req.AfterAccepted, ID: req.AfterID}, req.Limit)
		return err
	})
	return page, err
}

func readHead(ctx context.Context, s session, t *statements, owner string) (key int64, head durable.Head, err error) {
	found := false
	err = s.query(ctx, t.head, []driver.Value{owner}, func(v []driver.Value) (err error) {
		found, key = true, v[0].(int64)
		head, err = headOf(owner, v[1], v[2], v[3])
		return err
	})
	if err == nil && !found {
		err = &durable.UnknownOwnerError{Owner: owner}
	}
	return key, head, err
}

func historyAfter(ctx context.Context, s session, t *statements, key int64, after uint64, limit int) ([]durable.Record, error) {
	limit, err := durable.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	return list(ctx, s, t.historyAfter, []driver.Value{key, int64(after), int64(limit)}, recordOf)
}

func pendingAfter(ctx context.Context, s session, t *statements, key int64, cursor durable.Effect, limit int) ([]durable.Effect, error) {
	limit, err := durable.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	return list(ctx, s, t.pendingAfter, []driver.Value{key, int64(cursor.AcceptedAt), cursor.ID, int64(limit)}, effectOf)
}

func snapshotAfter(ctx context.Context, s session, t *statements, key, after int64) (*durable.Record, error) {
	found, err := list(ctx, s, t.snapshotAfter, []driver.Value{key, after}, recordOf)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func readAll(ctx context.Context, s session, t *statements, key int64, img *durable.Image) (err error) {
	args := []driver.Value{key}
	if img.History, err = list(ctx, s, t.allHistory, args, recordOf); err != nil {
		return err
	}
	if img.Snapshot, err = snapshotAfter(ctx, s, t, key, -1); err != nil {
		return err
	}
	if img.Inbox, err = list(ctx, s, t.allInbox, args, inboxOf); err != nil {
		return err
	}
	if img.Outbox, err = list(ctx, s, t.allOutbox, args, effectOf); err != nil {
		return err
	}
	if img.Receipts, err = list(ctx, s, t.allReceipts, args, receiptOfRow); err != nil {
		return err
	}
	img.Pending, err = list(ctx, s, t.allPending, args, effectOf)
	return err
}

func readParts(ctx context.Context, s session, t *statements, key int64, p durable.Parts, img *durable.Image) (err error) {
	if len(p.Inbox) > 0 {
		if img.Inbox, err = namedInbox(ctx, s, t, key, p.Inbox); err != nil {
			return err
		}
	}
	if p.State {
		if img.Mode == durable.EventHistory {
			img.History, err = historyAfter(ctx, s, t, key, p.StateAfter, p.HistoryLimit)
		} else {
			img.Snapshot, err = snapshotAfter(ctx, s, t, key, int64(p.StateAfter))
		}
		if err != nil {
			return err
		}
	}
	if p.Pending {
		img.Pending, err = pendingAfter(ctx, s, t, key, durable.Effect{}, p.PendingLimit)
	}
	return err
}

// namedInbox returns those of the named records that exist, sorted by id.
func namedInbox(ctx context.Context, s session, t *statements, key int64, ids []string) ([]durable.InboxRecord, error) {
	want := newRows(t.inbox, len(ids))
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		want.add(key, id)
	}
	var found []durable.InboxRecord
	err := want.query(ctx, s, func(v []driver.Value) error {
		found = append(found, inboxOf(v[1:]))
		return nil
	})
	return found, err
}

// list collects the rows of a query.
func list[V any](ctx context.Context, s session, query string, args []driver.Value, of func([]driver.Value) V) ([]V, error) {
	var values []V
	err := s.query(ctx, query, args, func(v []driver.Value) error {
		values = append(values, of(v))
		return nil
	})
	return values, err
}

// readError wraps errors of the driver and leaves the verdicts of a rule.
func readError(err error, waited time.Duration) error {
	var unknown *durable.UnknownOwnerError
	var unusable *store.UnusableError
	if err == nil || errors.As(err, &unknown) || errors.As(err, &unusable) {
		return err
	}
	return wrap(err, waited)
}
