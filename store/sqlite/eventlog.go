package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// An appendBatch is appends that are decided one after another and written
// together, in one transaction.
type appendBatch struct {
	s     session
	stmts *logStatements
	now   time.Time

	groups    []*store.AppendGroup
	found     receipt.Found
	sequences map[eventlog.Sequence]*sequence
}

// sequence is a sequence's row, as it was read.
type sequence struct {
	key         int64
	exists      bool
	state       eventlog.IndexState
	revision    uint64 // of the event store's definitions
	constraints uint64

	slice *eventlog.Slice
}

func newAppendBatch(s session, stmts *logStatements, now time.Time) *appendBatch {
	return &appendBatch{s: s, stmts: stmts, now: eventlog.Microseconds(now), found: receipt.Found{}}
}

// decide reads what the appends touch and gives each its verdict, in order. An
// error here is one of the database.
func (b *appendBatch) decide(ctx context.Context, appends []*store.Append) error {
	b.groups = store.NewAppendGroups(appends...)
	if err := b.load(ctx); err != nil {
		return err
	}
	for _, g := range b.groups {
		g.Decide(b.found, b.slice(g), b.now)
	}
	return nil
}

func (b *appendBatch) slice(g *store.AppendGroup) *eventlog.Slice {
	if g.Touch == nil {
		return nil
	}
	return b.sequences[g.Touch.Sequence].slice
}

// load reads the slices and the receipts that the appends touch, one statement for
// each kind of record, and one for each scope.
func (b *appendBatch) load(ctx context.Context) (err error) {
	var names []eventlog.Sequence
	receipts := newRows(b.stmts.receipts, len(b.groups))
	for _, g := range b.groups {
		if g.Touch != nil {
			names = append(names, g.Touch.Sequence)
		}
		for _, k := range g.Keys {
			receipts.add(k.Namespace.EventStore, k.Namespace.Name, k.Occurrence, k.Effect)
		}
	}
	if b.sequences, err = readSequences(ctx, b.s, b.stmts, names); err != nil {
		return err
	}
	if err := receipts.query(ctx, b.s, func(v []driver.Value) error {
		r, err := effectReceiptOf(v)
		b.found[r.Key] = r
		return err
	}); err != nil {
		return err
	}
	bySequence := map[int64]*eventlog.Slice{}
	owners, values := newRows(b.stmts.claimsByOwner, 0), newRows(b.stmts.claimsByValue, 0)
	for _, g := range b.groups {
		if g.Touch == nil {
			continue
		}
		q := b.sequences[g.Touch.Sequence]
		q.slice = &eventlog.Slice{Revision: q.revision, Constraints: q.constraints, Exists: q.exists, Next: q.state.Next, Indexed: q.state.Indexed}
		if !q.exists {
			continue // it has neither claims nor events
		}
		bySequence[q.key] = q.slice
		wantClaims(q.key, *g.Touch, owners, values)
		for _, scope := range g.Touch.Scopes {
			highest, ok, err := highest(ctx, b.s, b.stmts, q.key, scope.Filter(), scope.Expected.From())
			if err != nil {
				return err
			}
			if ok {
				q.slice.SetHighest(scope, highest)
			}
		}
	}
	for _, want := range []*rows{owners, values} {
		if err := want.query(ctx, b.s, func(v []driver.Value) error {
			bySequence[v[0].(int64)].AddClaim(claimOf(v[1:]))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// readSequences reads the rows of sequences, and of their event stores, also of
// those that do not exist.
func readSequences(ctx context.Context, s session, t *logStatements, names []eventlog.Sequence) (map[eventlog.Sequence]*sequence, error) {
	all := make(map[eventlog.Sequence]*sequence, len(names))
	want := newRows(t.sequences, len(names))
	for _, q := range names {
		want.add(q.Namespace.EventStore, q.Namespace.Name, q.Name)
	}
	err := want.query(ctx, s, func(v []driver.Value) error {
		q := &sequence{}
		if v[3] != nil {
			q.revision, q.constraints = number(v[3]), number(v[4])
		}
		if v[5] != nil {
			q.key, q.exists = v[5].(int64), true
			q.state = eventlog.IndexState{Next: number(v[6]), Indexed: number(v[7]), Building: number(v[8]), Through: number(v[9])}
		}
		all[sequenceOf(v)] = q
		return nil
	})
	return all, err
}

func wantClaims(key int64, t eventlog.Touch, owners, values *rows) {
	for _, o := range t.Owners {
		owners.add(key, o.Index[:], o.Source)
	}
	for _, v := range t.Values {
		values.add(key, v.Index[:], v.Value[:])
	}
}

// highest returns the highest number from from on that matches the filter.
func highest(ctx context.Context, s session, t *logStatements, key int64, f eventlog.Filter, from uint64) (found uint64, ok bool, err error) {
	q := search{key: key, filter: f, from: from, to: maxNumber, descending: true}
	err = q.each(ctx, s, t, func(v []driver.Value) (bool, error) {
		found, ok = number(v[0]), true
		return true, nil
	})
	return found, ok, err
}

// write writes what the appends came to that were not refused, one statement for
// each kind of record.
func (b *appendBatch) write(ctx context.Context) error {
	if err := b.createSequences(ctx); err != nil {
		return err
	}
	move := newRows(b.stmts.moveSequences, len(b.sequences))
	freed, claims := newRows(b.stmts.deleteClaims, 0), newRows(b.stmts.insertClaims, 0)
	tags, receipts := newRows(b.stmts.insertTags, 0), newRows(b.stmts.insertReceipts, len(b.groups))
	for _, g := range b.groups {
		for _, r := range g.Receipts() {
			if err := addReceipt(receipts, r); err != nil {
				return err
			}
		}
		changes := g.Changes()
		if !changes.Writes() {
			continue
		}
		q := b.sequences[g.Touch.Sequence]
		if q.exists {
			move.add(q.key, int64(changes.Next)) // by its bits
		}
		events := newRows(b.stmts.insertEvents, min(len(changes.Events), maxRows))
		for i := range changes.Events {
			e := &changes.Events[i]
			addEvent(events, q.key, e)
			for _, tag := range e.Tags {
				tags.add(q.key, []byte(tag.Key()), int64(e.Number))
			}
			if (i+1)%maxRows == 0 || i+1 == len(changes.Events) {
				if err := events.exec(ctx, b.s); err != nil {
					return err
				}
				events.values = events.values[:0] // a large batch needs no second copy of itself
			}
		}
		addClaims(q.key, changes.Freed, changes.Claims, freed, claims)
	}
	for _, rows := range []*rows{move, tags, freed, claims, receipts} {
		if err := rows.exec(ctx, b.s); err != nil {
			return err
		}
	}
	return nil
}

func addClaims(key int64, gone []eventlog.ClaimOwner, made []eventlog.Claim, freed, claims *rows) {
	for _, o := range gone {
		freed.add(key, o.Index[:], o.Source)
	}
	for _, c := range made {
		claims.add(key, c.Index[:], c.Source, c.Value[:], int64(c.Number))
	}
}

// createSequences inserts the new sequences, since the other records need their
// keys.
func (b *appendBatch) createSequences(ctx context.Context) error {
	created := newRows(b.stmts.insertSequences, 0)
	for _, g := range b.groups {
		if c := g.Changes(); c.Creates {
			q := g.Touch.Sequence
			created.add(q.Namespace.EventStore, q.Namespace.Name, q.Name, int64(c.Next), int64(c.Indexed)) // by its bits
		}
	}
	return created.query(ctx, b.s, func(v []driver.Value) error {
		b.sequences[sequenceOf(v[1:])].key = v[0].(int64)
		return nil
	})
}

// pagesOf is about how many pages a transaction writes with rows of so many bytes.
func pagesOf(bytes int) int { return 8 + bytes/pageSize }

func (p port) Append(ctx context.Context, a *store.Append) error { return p.carryOut(ctx, a) }

func (p port) LoadEvents(ctx context.Context, req eventlog.ReadEvents) (eventlog.Page, error) {
	limit, err := eventlog.PageLimit(req.Limit)
	if err != nil {
		return eventlog.Page{}, err
	}
	var page eventlog.Page
	err = p.read(ctx, func(s session) error {
		q, err := readSequence(ctx, s, p.texts().log, req.Sequence)
		if err != nil {
			return err
		}
		to := uint64(maxNumber)
		if req.Before > 0 {
			to = req.Before - 1
		}
		var found []eventlog.Recorded
		if q.exists {
			found, err = readEvents(ctx, s, p.texts().log, search{key: q.key, filter: req.Filter, from: req.From, to: to}, limit+1)
		}
		page = eventlog.NewPage(req, found, q.state.Next)
		return err
	})
	if err != nil {
		return eventlog.Page{}, err
	}
	return page, nil
}

func readSequence(ctx context.Context, s session, t *logStatements, name eventlog.Sequence) (*sequence, error) {
	all, err := readSequences(ctx, s, t, []eventlog.Sequence{name})
	if err != nil {
		return nil, err
	}
	return all[name], nil
}

// readEvents reads what a search finds, up to so many events, or to the first one
// that takes them past what a page may hold.
func readEvents(ctx context.Context, s session, t *logStatements, q search, limit int) ([]eventlog.Recorded, error) {
	q.columns = eventColumns
	var found []eventlog.Recorded
	size := 0
	err := q.each(ctx, s, t, func(v []driver.Value) (bool, error) {
		e := recordedOf(v)
		found = append(found, e)
		size += e.Size()
		return len(found) == limit || size > eventlog.MaxPageBytes, nil
	})
	return found, err
}

func (p port) LoadTail(ctx context.Context, req eventlog.ReadTail) (eventlog.Tail, error) {
	var tail eventlog.Tail
	err := p.read(ctx, func(s session) error {
		q, err := readSequence(ctx, s, p.texts().log, req.Sequence)
		if err != nil || !q.exists {
			return err
		}
		tail.Next = q.state.Next
		tail.Last, tail.Found, err = highest(ctx, s, p.texts().log, q.key, req.Filter, 0)
		return err
	})
	if err != nil {
		return eventlog.Tail{}, err
	}
	return tail, nil
}
