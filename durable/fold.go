package durable

import (
	"context"
	"fmt"
	"slices"
)

// smallPage is the size in bytes below which the next page may have twice as
// many records: a long history of small events takes few reads, one of large
// events little memory.
const smallPage = 1 << 20

// maxFoldPage bounds a page in records, since what follows small events may be
// large ones.
const maxFoldPage = 500

// fold brings the state up to the image's position, with the image's records and
// the pages after them. A history is append-only, so the prefix up to the
// image's position is the same in every read.
//
// With an error it returns the state as far as it came, or nil if Fold failed.
func (h *Host[S, I]) fold(ctx context.Context, known *folded[S], img Image) (*folded[S], error) {
	if img.Mode == Snapshot {
		return h.foldSnapshot(known, img)
	}
	page, limit := img.History, DefaultPageLimit
	for {
		if err := h.foldPage(known, img, page); is[*FoldError](err) {
			return nil, err
		} else if err != nil || known.position == img.Position {
			return known, err
		}
		if bytesOf(page) < smallPage {
			limit = min(2*limit, maxFoldPage)
		}
		left := min(img.Position-known.position, uint64(limit))
		var err error
		page, err = h.store.ReadHistory(ctx, ReadHistory{Owner: img.Owner, After: known.position, Limit: int(left)})
		if err != nil {
			return known, err
		}
		if len(page) == 0 {
			return known, img.corrupt(HistoryNotContiguous, "no record after %d, the owner is at position %d", known.position, img.Position)
		}
	}
}

// foldPage folds the records of a page. All of them are checked before the first
// is decoded.
func (h *Host[S, I]) foldPage(known *folded[S], img Image, page []Record) error {
	if uint64(len(page)) > img.Position-known.position {
		return img.corrupt(HistoryNotContiguous, "%d records after %d, the owner is at position %d", len(page), known.position, img.Position)
	}
	for i, r := range page {
		if expected := known.position + 1 + uint64(i); r.Position != expected {
			return img.corrupt(HistoryNotContiguous, "a record at position %d instead of %d", r.Position, expected)
		}
		if err := h.reads(img.Owner, "event", r); err != nil {
			return err
		}
	}
	for _, r := range page {
		state, err := h.machine.Fold(known.state, r.Payload)
		if err != nil {
			return &FoldError{Owner: img.Owner, Position: r.Position, Err: err}
		}
		known.state, known.position = state, r.Position
	}
	return nil
}

// foldSnapshot takes the image's snapshot if it is newer than the state.
func (h *Host[S, I]) foldSnapshot(known *folded[S], img Image) (*folded[S], error) {
	if known.position == img.Position {
		return known, nil
	}
	if img.Snapshot == nil {
		return known, img.corrupt(SnapshotPosition, "no snapshot, the owner is at position %d", img.Position)
	}
	if img.Snapshot.Position != img.Position {
		return known, img.corrupt(SnapshotPosition, "the snapshot stands at %d, the owner at %d", img.Snapshot.Position, img.Position)
	}
	if err := h.reads(img.Owner, "snapshot", *img.Snapshot); err != nil {
		return known, err
	}
	state, err := h.machine.Fold(h.machine.Initial(), img.Snapshot.Payload)
	if err != nil {
		return nil, &FoldError{Owner: img.Owner, Position: img.Position, Err: err}
	}
	return &folded[S]{auth: known.auth, position: img.Position, state: state}, nil
}

// reads reports a record whose versions the machine does not read.
func (h *Host[S, I]) reads(owner, what string, r Record) error {
	if slices.Contains(h.machine.Reads, r.Payload.Version()) {
		return nil
	}
	return &UnsupportedVersionError{
		Owner:    owner,
		What:     fmt.Sprintf("%s at position %d", what, r.Position),
		Version:  r.Payload.Version(),
		Position: r.Position,
	}
}

func bytesOf(page []Record) int {
	size := 0
	for _, r := range page {
		size += len(r.Payload.Bytes)
	}
	return size
}
