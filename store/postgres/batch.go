package postgres

import (
	"errors"
	"slices"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/internal/group"
)

// errApart is the verdict of a request that its caller carries out apart: another
// transaction holds its owner's row, or a neighbour may have failed its group.
var errApart = errors.New("postgres: another transaction holds the owner's row")

// A batch is requests that are decided one after another and written together, in
// one transaction: first its reads are run, then it decides, then its writes are
// run.
type batch struct {
	t        *statements
	requests []*group.Request

	slices map[string]*durable.Slice // by owner id
	keys   map[string]int64          // owner id → owner key, of the owners whose row is locked
	ids    map[int64]string          // and back
	held   map[string]bool           // owners that exist, and whose row is not locked
}

func newBatch(t *statements, requests ...*group.Request) *batch {
	n := len(requests)
	return &batch{
		t: t, requests: requests,
		slices: make(map[string]*durable.Slice, n), keys: make(map[string]int64, n), ids: make(map[int64]string, n),
	}
}

// insert is the statement that creates the owner before its row is locked. It
// does nothing if the owner exists.
func (b *batch) insert(req durable.CreateOwner) (*statement, error) {
	mode, err := modeNumber(req.Mode)
	if err != nil {
		return nil, err
	}
	// The rule is asked about an owner that was not there, so the slice stays
	// empty, and its plan is what this statement has written.
	return b.t.make(alone, part{&insertOwner, []any{req.Owner, mode, int64(req.Fence)}}).each(func(r *row) error {
		b.keys[r.id], b.ids[r.key] = r.key, r.id
		return nil
	}), nil
}

// first are the statements before the decision: insert, if an owner is to be
// created, and reads.
func (b *batch) first(create *durable.CreateOwner, wait bool) ([]*statement, error) {
	if create == nil {
		return b.reads(wait), nil
	}
	insert, err := b.insert(*create)
	if err != nil {
		return nil, err
	}
	return append([]*statement{insert}, b.reads(wait)...), nil
}

// reads are the statements that lock the owners' rows and read what the requests
// touch. The rows are locked in the order of the owners' ids; what another
// transaction holds is waited for, or left out.
func (b *batch) reads(wait bool) []*statement {
	owners := make([]string, 0, len(b.requests))
	for _, r := range b.requests {
		if b.slices[r.Touch.Owner] == nil {
			b.slices[r.Touch.Owner] = &durable.Slice{}
			owners = append(owners, r.Touch.Owner)
		}
	}
	slices.Sort(owners)
	lock := &lockWaiting
	if !wait {
		lock = &lockSkipped
	}
	read := []*statement{b.t.make(alone, part{lock, []any{owners}}).each(b.locked)}
	if parts := b.touched(owners, wait); len(parts) > 0 {
		read = append(read, b.t.make(union, parts...).each(b.found))
	}
	return read
}

// touched are the parts of the query for what the requests touch.
func (b *batch) touched(owners []string, wait bool) []part {
	var inbox, effects, receipts, receiptOf wanted
	for _, r := range b.requests {
		owner := r.Touch.Owner
		inbox.add(owner, r.Touch.Inbox)
		effects.add(owner, r.Touch.Effects)
		receipts.add(owner, r.Touch.Receipts)
		if len(r.Touch.Receipts) > 0 {
			receiptOf.add(owner, r.Touch.Effects)
		}
	}
	var parts []part
	if !wait {
		parts = append(parts, part{&headsPart, []any{owners}})
	}
	for _, w := range []struct {
		sql *string
		wanted
	}{{&inboxPart, inbox}, {&effectsPart, effects}, {&receiptsPart, receipts}, {&receiptOfPart, receiptOf}} {
		if len(w.ids) > 0 {
			parts = append(parts, part{w.sql, []any{w.owners, w.ids}})
		}
	}
	return parts
}

// wanted is a list of records to look up.
type wanted struct{ owners, ids []string }

func (w *wanted) add(owner string, ids []string) {
	for _, id := range ids {
		w.owners, w.ids = append(w.owners, owner), append(w.ids, id)
	}
}

// locked takes the row of an owner that this transaction holds now.
func (b *batch) locked(r *row) error {
	if _, created := b.keys[r.id]; created {
		return nil // by this batch
	}
	head, err := r.head()
	if err != nil {
		return err
	}
	b.keys[r.id], b.ids[r.key] = r.key, r.id
	b.slices[r.id].Head = &head
	return nil
}

// found takes a record that a request touches.
func (b *batch) found(r *row) error {
	if r.kind == headRow {
		if _, locked := b.keys[r.id]; !locked {
			if b.held == nil {
				b.held = map[string]bool{}
			}
			b.held[r.id] = true
		}
		return nil
	}
	s := b.slices[b.ids[r.key]]
	if s == nil {
		return nil // of an owner that is not locked
	}
	switch r.kind {
	case inboxRow:
		put(&s.Inbox, r.id, r.inbox())
	case outboxRow:
		put(&s.Effects, r.id, r.effect())
	case receiptRow:
		put(&s.Receipts, r.id, r.receipt())
	case receiptOfRow:
		put(&s.ReceiptOf, r.id, r.ref)
	}
	return nil
}

func put[V any](m *map[string]V, id string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[id] = v
}

// decide asks each request's rule, in order. A rule sees what the requests before
// it will write. The verdicts are in the requests.
func (b *batch) decide() {
	for _, r := range b.requests {
		if b.held[r.Touch.Owner] {
			r.Fail(errApart)
			continue
		}
		r.Decide(b.slices[r.Touch.Owner])
	}
}

// writes are the statements that write the plans of all requests that were not
// refused: one, or none.
func (b *batch) writes() []*statement {
	parts := b.plans()
	if len(parts) == 0 {
		return nil
	}
	return []*statement{b.t.make(all, parts...)}
}

// plans are the parts of the statement that writes, one for each kind of record.
func (b *batch) plans() []part {
	var move, history, snapshots, inbox, outbox, receipts, mark columns
	heads := map[string]durable.Head{} // an owner moves once, to where the last plan leaves it
	replaced := map[string]*durable.Record{}
	receipted := map[effectKey]string{} // receipts of this batch, by effect
	var order []string
	for _, r := range b.requests {
		if !r.Writes() || r.Plan.Creates {
			continue
		}
		owner := r.Touch.Owner
		if _, seen := heads[owner]; !seen {
			order = append(order, owner)
		}
		heads[owner] = r.Plan.Head
		if r.Plan.Snapshot != nil {
			replaced[owner] = r.Plan.Snapshot
		}
		for _, rc := range r.Plan.Receipts {
			receipted[effectKey{b.keys[owner], rc.EffectID}] = rc.ID
		}
	}
	// The owner's row is written even if it does not move: a transaction of a
	// caller's that reads from an older snapshot must not miss the receipt.
	for _, owner := range order {
		head, key := heads[owner], b.keys[owner]
		mode, _ := modeNumber(head.Mode) // it was read as one
		move.add(key, owner, "", "", nil, int64(head.Position), int64(head.Fence))
		move.schemas = append(move.schemas, mode)
		if s := replaced[owner]; s != nil {
			snapshots.payload(key, "", "", "", s.Payload, int64(s.Position))
		}
	}
	for _, r := range b.requests {
		if !r.Writes() {
			continue
		}
		key := b.keys[r.Touch.Owner]
		for _, e := range r.Plan.Events {
			history.payload(key, "", "", "", e.Payload, int64(e.Position))
		}
		if in := r.Plan.Inbox; in != nil {
			inbox.add(key, in.ID, "", "", in.Fingerprint, int64(in.CommittedThrough), 0)
		}
		for _, e := range r.Plan.Effects {
			effect := effectKey{key, e.ID}
			outbox.payload(key, e.ID, receipted[effect], "", e.Payload, int64(e.AcceptedAt))
			delete(receipted, effect)
		}
		for _, rc := range r.Plan.Receipts {
			receipts.payload(key, rc.ID, rc.EffectID, string(rc.Outcome), rc.Payload, int64(rc.RecordedAt), int64(rc.Fence))
		}
	}
	for effect, receipt := range receipted { // of effects that were in the outbox before
		mark.add(effect.owner, effect.id, receipt, "", nil, 0, 0)
	}
	var parts []part
	for _, p := range []struct {
		columns
		sql  *string
		args []any
	}{
		{move, &movePart, []any{move.keys, move.ids, move.schemas, move.a, move.b}},
		{history, &historyPart, []any{history.keys, history.a, history.schemas, history.codecs, history.bytes}},
		{snapshots, &snapshotsPart, []any{snapshots.keys, snapshots.a, snapshots.schemas, snapshots.codecs, snapshots.bytes}},
		{inbox, &insertInboxPart, []any{inbox.keys, inbox.ids, inbox.bytes, inbox.a}},
		{outbox, &insertOutboxPart, []any{outbox.keys, outbox.ids, outbox.a, outbox.schemas, outbox.codecs, outbox.bytes, outbox.refs}},
		{mark, &markPart, []any{mark.keys, mark.ids, mark.refs}},
		{receipts, &insertReceiptsPart, []any{receipts.keys, receipts.ids, receipts.refs, receipts.words, receipts.a, receipts.b, receipts.schemas, receipts.codecs, receipts.bytes}},
	} {
		if len(p.keys) > 0 {
			parts = append(parts, part{p.sql, p.args})
		}
	}
	return parts
}

type effectKey struct {
	owner int64
	id    string
}

// columns collect rows for one part of a statement, as the arrays that it takes.
type columns struct {
	keys             []int64
	ids, refs, words []string
	bytes            [][]byte
	a, b             []int64
	schemas, codecs  []int64
}

func (c *columns) add(key int64, id, ref, word string, bytes []byte, a, b int64) {
	c.keys = append(c.keys, key)
	c.ids, c.refs, c.words = append(c.ids, id), append(c.refs, ref), append(c.words, word)
	c.bytes = append(c.bytes, blob(bytes))
	c.a, c.b = append(c.a, a), append(c.b, b)
}

func (c *columns) payload(key int64, id, ref, word string, p durable.Payload, numbers ...int64) {
	numbers = append(numbers, 0) // a row without b
	c.add(key, id, ref, word, p.Bytes, numbers[0], numbers[1])
	c.schemas, c.codecs = append(c.schemas, int64(p.SchemaVersion)), append(c.codecs, int64(p.CodecVersion))
}
