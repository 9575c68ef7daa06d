package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/internal/group"
)

// A batch is requests that are decided one after another and written together, in
// one transaction.
type batch struct {
	s     session
	stmts *statements

	slices map[string]*durable.Slice // by owner id
	keys   map[string]int64          // owner id → owner key
	ids    map[int64]string          // and back
}

func newBatch(s session, stmts *statements) *batch {
	return &batch{s: s, stmts: stmts, slices: map[string]*durable.Slice{}, keys: map[string]int64{}, ids: map[int64]string{}}
}

// decide reads what the requests touch and asks each request's rule, in order.
// A rule sees what the requests before it will write. The verdicts are in the
// requests; an error here is one of the database.
func (b *batch) decide(ctx context.Context, requests []*group.Request) error {
	if err := b.load(ctx, requests); err != nil {
		return err
	}
	for _, r := range requests {
		r.Decide(b.slices[r.Touch.Owner])
	}
	return nil
}

// load reads the slices that the requests touch, one statement for each kind of
// record.
func (b *batch) load(ctx context.Context, requests []*group.Request) error {
	owners := newRows(b.stmts.owners, len(requests))
	for _, r := range requests {
		if b.slices[r.Touch.Owner] == nil {
			b.slices[r.Touch.Owner] = &durable.Slice{}
			owners.add(r.Touch.Owner)
		}
	}
	if err := owners.query(ctx, b.s, func(v []driver.Value) error {
		head, err := headOf(v[0], v[2], v[3], v[4])
		if err != nil {
			return err
		}
		key := v[1].(int64)
		b.keys[head.Owner], b.ids[key] = key, head.Owner
		b.slices[head.Owner].Head = &head
		return nil
	}); err != nil {
		return err
	}

	inbox := newRows(b.stmts.inbox, len(requests))
	effects := newRows(b.stmts.effects, len(requests))
	receipts := newRows(b.stmts.receipts, 0)
	receiptOf := newRows(b.stmts.receiptOf, 0)
	for _, r := range requests {
		key, ok := b.keys[r.Touch.Owner]
		if !ok {
			continue // a new owner has no records
		}
		for _, id := range r.Touch.Inbox {
			inbox.add(key, id)
		}
		for _, id := range r.Touch.Effects {
			effects.add(key, id)
			if len(r.Touch.Receipts) > 0 {
				receiptOf.add(key, id)
			}
		}
		for _, id := range r.Touch.Receipts {
			receipts.add(key, id)
		}
	}
	if err := inbox.query(ctx, b.s, func(v []driver.Value) error {
		rec := inboxOf(v[1:])
		put(&b.slice(v[0]).Inbox, rec.ID, rec)
		return nil
	}); err != nil {
		return err
	}
	if err := effects.query(ctx, b.s, func(v []driver.Value) error {
		effect := effectOf(v[1:])
		put(&b.slice(v[0]).Effects, effect.ID, effect)
		return nil
	}); err != nil {
		return err
	}
	if err := receipts.query(ctx, b.s, func(v []driver.Value) error {
		receipt := receiptOfRow(v[1:])
		put(&b.slice(v[0]).Receipts, receipt.ID, receipt)
		return nil
	}); err != nil {
		return err
	}
	return receiptOf.query(ctx, b.s, func(v []driver.Value) error {
		put(&b.slice(v[0]).ReceiptOf, v[1].(string), v[2].(string))
		return nil
	})
}

func (b *batch) slice(key driver.Value) *durable.Slice { return b.slices[b.ids[key.(int64)]] }

func put[V any](m *map[string]V, id string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[id] = v
}

// write writes the plans of all requests that were not refused, one statement
// for each kind of record.
func (b *batch) write(ctx context.Context, requests []*group.Request) error {
	if err := b.createOwners(ctx, requests); err != nil {
		return err
	}
	heads := map[string]durable.Head{} // an owner moves once, to where the last plan leaves it
	var order []string
	snapshots := map[string]*durable.Record{}
	receipted := map[effectKey]string{} // receipts of this group, by effect
	for _, r := range requests {
		if !r.Writes() {
			continue
		}
		owner := r.Touch.Owner
		if _, seen := heads[owner]; !seen {
			order = append(order, owner)
		}
		heads[owner] = r.Plan.Head
		if r.Plan.Snapshot != nil {
			snapshots[owner] = r.Plan.Snapshot
		}
		for _, receipt := range r.Plan.Receipts {
			receipted[effectKey{b.keys[owner], receipt.EffectID}] = receipt.ID
		}
	}

	move := newRows(b.stmts.moveOwners, len(order))
	snapshot := newRows(b.stmts.putSnapshots, len(snapshots))
	for _, owner := range order {
		head, key := heads[owner], b.keys[owner]
		move.add(key, int64(head.Position), int64(head.Fence))
		if s := snapshots[owner]; s != nil {
			snapshot.add(key, int64(s.Position), int64(s.Payload.SchemaVersion), int64(s.Payload.CodecVersion), blob(s.Payload.Bytes))
		}
	}
	history := newRows(b.stmts.insertHistory, len(requests))
	inbox := newRows(b.stmts.insertInbox, len(requests))
	outbox := newRows(b.stmts.insertOutbox, len(requests))
	receipts := newRows(b.stmts.insertReceipts, len(receipted))
	for _, r := range requests {
		if !r.Writes() {
			continue
		}
		key := b.keys[r.Touch.Owner]
		for _, e := range r.Plan.Events {
			history.add(key, int64(e.Position), int64(e.Payload.SchemaVersion), int64(e.Payload.CodecVersion), blob(e.Payload.Bytes))
		}
		if in := r.Plan.Inbox; in != nil {
			inbox.add(key, in.ID, blob(in.Fingerprint), int64(in.CommittedThrough))
		}
		for _, e := range r.Plan.Effects {
			outbox.add(key, e.ID, int64(e.AcceptedAt), int64(e.Payload.SchemaVersion), int64(e.Payload.CodecVersion), blob(e.Payload.Bytes),
				takeReceipt(receipted, effectKey{key, e.ID}))
		}
		for _, rc := range r.Plan.Receipts {
			receipts.add(key, rc.ID, rc.EffectID, string(rc.Outcome), int64(rc.RecordedAt), int64(rc.Fence),
				int64(rc.Payload.SchemaVersion), int64(rc.Payload.CodecVersion), blob(rc.Payload.Bytes))
		}
	}
	mark := newRows(b.stmts.markReceipted, len(receipted)) // effects that were in the outbox before
	for effect, receipt := range receipted {
		mark.add(effect.owner, effect.id, receipt)
	}
	for _, rows := range []*rows{move, history, snapshot, inbox, outbox, mark, receipts} {
		if err := rows.exec(ctx, b.s); err != nil {
			return err
		}
	}
	return nil
}

type effectKey struct {
	owner int64
	id    string
}

// takeReceipt removes and returns the receipt of an effect, or nil.
func takeReceipt(receipted map[effectKey]string, effect effectKey) driver.Value {
	receipt, ok := receipted[effect]
	if !ok {
		return nil
	}
	delete(receipted, effect)
	return receipt
}

// createOwners inserts the new owners, since the other records need their keys.
func (b *batch) createOwners(ctx context.Context, requests []*group.Request) error {
	created := newRows(b.stmts.insertOwners, 0)
	keys := newRows(b.stmts.owners, 0)
	for _, r := range requests {
		if !r.Writes() || !r.Plan.Creates {
			continue
		}
		mode, err := modeNumber(r.Plan.Head.Mode)
		if err != nil {
			return err
		}
		created.add(r.Touch.Owner, mode, int64(r.Plan.Head.Position), int64(r.Plan.Head.Fence))
		keys.add(r.Touch.Owner)
	}
	if err := created.exec(ctx, b.s); err != nil {
		return err
	}
	return keys.query(ctx, b.s, func(v []driver.Value) error {
		owner, key := v[0].(string), v[1].(int64)
		b.keys[owner], b.ids[key] = key, owner
		return nil
	})
}

// rows collects rows for one statement.
type rows struct {
	statement *rowsStatement
	values    []driver.Value
}

func newRows(s *rowsStatement, expect int) *rows {
	return &rows{statement: s, values: make([]driver.Value, 0, expect*s.columns)}
}

func (r *rows) add(values ...driver.Value) { r.values = append(r.values, values...) }

// chunks calls f with the rows, at most maxRows at a time.
func (r *rows) chunks(f func(query string, args []driver.Value) error) error {
	for rest := r.values; len(rest) > 0; {
		n := min(len(rest)/r.statement.columns, maxRows)
		if n == 0 {
			return fmt.Errorf("sqlite: %d values are no rows of %d columns", len(rest), r.statement.columns)
		}
		args := rest[:n*r.statement.columns]
		rest = rest[len(args):]
		if err := f(r.statement.texts[n], args); err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) exec(ctx context.Context, s session) error {
	return r.chunks(func(query string, args []driver.Value) error { return s.exec(ctx, query, args) })
}

func (r *rows) query(ctx context.Context, s session, row func([]driver.Value) error) error {
	return r.chunks(func(query string, args []driver.Value) error { return s.query(ctx, query, args, row) })
}
