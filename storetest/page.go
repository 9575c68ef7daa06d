package storetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/countersign/countersign/durable"
)

// historyPage is the page that [durable.Store.ReadHistory] must return of an
// image.
func historyPage(img durable.Image, after uint64, limit int) []durable.Record {
	limit, _ = durable.PageLimit(limit)
	first, _ := slices.BinarySearchFunc(img.History, after, func(r durable.Record, after uint64) int {
		if r.Position <= after {
			return -1
		}
		return 1
	})
	page := img.History[first:]
	return page[:min(limit, len(page))]
}

// pendingPage is the page that [durable.Store.ReadPending] must return of an
// image.
func pendingPage(img durable.Image, req durable.ReadPending) []durable.Effect {
	limit, _ := durable.PageLimit(req.Limit)
	cursor := durable.Effect{AcceptedAt: req.AfterAccepted, ID: req.AfterID}
	first, _ := slices.BinarySearchFunc(img.Pending, cursor, func(e, cursor durable.Effect) int {
		if durable.ComparePending(e, cursor) <= 0 {
			return -1
		}
		return 1
	})
	page := img.Pending[first:]
	return page[:min(limit, len(page))]
}

// partOf is the partial image that [durable.Store.LoadOwner] must return of an
// image.
func partOf(img durable.Image, p durable.Parts) durable.Image {
	part := durable.Image{Head: img.Head, Partial: true}
	for _, r := range img.Inbox {
		if slices.Contains(p.Inbox, r.ID) {
			part.Inbox = append(part.Inbox, r)
		}
	}
	if p.State {
		part.History = historyPage(img, p.StateAfter, p.HistoryLimit)
		if img.Snapshot != nil && img.Snapshot.Position > p.StateAfter {
			part.Snapshot = img.Snapshot
		}
	}
	if p.Pending {
		part.Pending = pendingPage(img, durable.ReadPending{Limit: p.PendingLimit})
	}
	return part
}

// readParts puts an image together from pages and parts, as a caller does who
// must not load a large owner whole. It knows no more of the owner than the ids
// of the inbox records to ask for, and gives an image without outbox and
// receipts, of which there are no pages.
func readParts(ctx context.Context, s durable.Store, owner string, inbox []string, limit int) (durable.Image, error) {
	img, err := s.LoadOwner(ctx, durable.LoadOwner{Owner: owner, Parts: &durable.Parts{}})
	if err != nil {
		return img, fmt.Errorf("load the head: %w", err)
	}
	if !img.Partial || len(img.History)+len(img.Inbox)+len(img.Outbox)+len(img.Receipts)+len(img.Pending) > 0 || img.Snapshot != nil {
		return img, fmt.Errorf("a load of the head alone returned:\n%s", show(img))
	}
	for ids := range slices.Chunk(inbox, durable.MaxCommitItems) {
		part, err := s.LoadOwner(ctx, durable.LoadOwner{Owner: owner, Parts: &durable.Parts{Inbox: ids}})
		if err != nil {
			return img, fmt.Errorf("load inbox records: %w", err)
		}
		img.Inbox = append(img.Inbox, part.Inbox...)
	}
	part, err := s.LoadOwner(ctx, durable.LoadOwner{Owner: owner, Parts: &durable.Parts{State: true, HistoryLimit: limit}})
	if err != nil {
		return img, fmt.Errorf("load the state: %w", err)
	}
	img.Snapshot = part.Snapshot
	if img.History, err = readHistory(ctx, s, owner, limit); err != nil {
		return img, err
	}
	if !slices.EqualFunc(part.History, img.History[:min(limit, len(img.History))], sameRecord) {
		return img, fmt.Errorf("the state of a partial load is not the first page of the history: %d records, want %d", len(part.History), min(limit, len(img.History)))
	}
	img.Pending, err = readPending(ctx, s, owner, limit)
	return img, err
}

// readHistory reads all pages of the history.
func readHistory(ctx context.Context, s durable.Store, owner string, limit int) ([]durable.Record, error) {
	var all []durable.Record
	after := uint64(0)
	for {
		page, err := s.ReadHistory(ctx, durable.ReadHistory{Owner: owner, After: after, Limit: limit})
		if err != nil {
			return all, fmt.Errorf("read the history after %d: %w", after, err)
		}
		if len(page) == 0 {
			return all, nil
		}
		if len(page) > limit {
			return all, fmt.Errorf("a page of the history has %d records, the limit is %d", len(page), limit)
		}
		for _, r := range page {
			if r.Position <= after {
				return all, fmt.Errorf("a page of the history has position %d after %d", r.Position, after)
			}
			after = r.Position
		}
		all = append(all, page...)
	}
}

// readPending reads all pages of the pending effects.
func readPending(ctx context.Context, s durable.Store, owner string, limit int) ([]durable.Effect, error) {
	var all []durable.Effect
	var cursor durable.Effect
	for {
		page, err := s.ReadPending(ctx, durable.ReadPending{Owner: owner, AfterAccepted: cursor.AcceptedAt, AfterID: cursor.ID, Limit: limit})
		if err != nil {
			return all, fmt.Errorf("read pending effects after (%d, %q): %w", cursor.AcceptedAt, cursor.ID, err)
		}
		if len(page) == 0 {
			return all, nil
		}
		if len(page) > limit {
			return all, fmt.Errorf("a page of pending effects has %d, the limit is %d", len(page), limit)
		}
		for _, e := range page {
			if durable.ComparePending(e, cursor) <= 0 {
				return all, fmt.Errorf("a page of pending effects has (%d, %q) after (%d, %q)", e.AcceptedAt, e.ID, cursor.AcceptedAt, cursor.ID)
			}
			cursor = e
		}
		all = append(all, page...)
	}
}

// withoutOutbox is what of an image can be read in pages and parts.
func withoutOutbox(img durable.Image) durable.Image {
	img.Partial = true
	img.Outbox, img.Receipts = nil, nil
	return img
}
