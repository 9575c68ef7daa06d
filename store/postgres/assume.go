package postgres

import (
	"context"
	"sync"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/internal/group"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A commit that is neither late nor repeated needs no reading: the rule is asked
// about the owner as this store saw it last, without any of the records that the
// request names, and its plan is written on condition that the row is still the
// same. That the named records are new is seen when they are inserted. So such a
// commit is one statement in one round trip, and decided by the row that is locked
// in its transaction like any other. Whatever else comes out is decided by reading
// first.

// maxHeads is how many owners a store remembers.
const maxHeads = 10_000

// heads are the owners' rows as they were seen last. They authorise nothing.
type heads struct {
	mu   sync.Mutex
	seen map[string]seenHead
}

type seenHead struct {
	key int64
	durable.Head
}

// keep takes over what a batch has read, or written, after its transaction.
func (h *heads) keep(b *batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for owner, key := range b.keys {
		head := b.slices[owner].Head
		if head == nil {
			continue
		}
		if h.seen == nil || len(h.seen) >= maxHeads {
			h.seen = make(map[string]seenHead)
		}
		h.seen[owner] = seenHead{key, *head}
	}
}

// forget drops the owners of a batch: somebody else has moved one of them.
func (h *heads) forget(b *batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for owner := range b.keys {
		delete(h.seen, owner)
	}
}

// assume puts the owners' heads into the batch, and reports whether all of them
// are known.
func (h *heads) assume(b *batch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range b.requests {
		owner := r.Touch.Owner
		seen, ok := h.seen[owner]
		if !ok {
			return false
		}
		if b.slices[owner] == nil {
			b.slices[owner] = &durable.Slice{Head: &seen.Head}
			b.keys[owner], b.ids[seen.key] = seen.key, owner
		}
	}
	return true
}

// tryAssumed writes the requests without reading first, if the rules would let
// all of them write. It reports whether that is done; if not, nothing was written.
func (s *Store) tryAssumed(ctx context.Context, conn *pgxpool.Conn, requests []*group.Request) (done bool, err error) {
	b := newBatch(s.stmts, requests...)
	if !s.heads.assume(b) {
		return false, nil
	}
	assumed := b.assumption()
	for _, r := range requests {
		// Only a commit's records are all new; only its position tells it from a
		// request of somebody who took the fence.
		if r.Decide(b.slices[r.Touch.Owner]); !r.Writes() || r.Plan.Inbox == nil {
			return false, nil
		}
	}
	// The statement is a transaction of its own. Its end is the end of the run.
	parts := append(append([]part{assumed}, b.plans()...), part{sql: &assumedEnd})
	err = pgxSession{conn}.run(ctx, s.stmts.make(ifHeld, parts...).each(func(r *row) error {
		done = r.kind == 1
		return nil
	}))
	switch {
	case err == nil && done:
		s.heads.keep(b)
		return true, nil
	case err == nil || answer(err) != nil && !idledOut(err) && surelyNotCommitted(err):
		// A row has moved or is held, or a record is there already.
		s.heads.forget(b)
		return false, nil
	case surelyNotCommitted(err):
		return false, lostConnection(err)
	}
	return false, &unknownError{err}
}

// assumption is what the batch takes its owners' rows for.
func (b *batch) assumption() part {
	var rows columns
	for owner, key := range b.keys {
		head := b.slices[owner].Head
		mode, _ := modeNumber(head.Mode) // it was read as one
		rows.add(key, owner, "", "", nil, int64(head.Position), int64(head.Fence))
		rows.schemas = append(rows.schemas, mode)
	}
	return part{&assumedPart, []any{rows.keys, rows.ids, rows.schemas, rows.a, rows.b, int64(len(rows.keys))}}
}
