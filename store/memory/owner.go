package memory

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// owner is everything that is stored of one owner.
type owner struct {
	head      durable.Head
	history   []durable.Record
	snapshot  *durable.Record
	inbox     map[string]durable.InboxRecord
	outbox    map[string]durable.Effect
	receipts  map[string]durable.Receipt
	receiptOf map[string]string // of an effect id, the id of its receipt
}

func newOwner() *owner {
	return &owner{
		inbox:     map[string]durable.InboxRecord{},
		outbox:    map[string]durable.Effect{},
		receipts:  map[string]durable.Receipt{},
		receiptOf: map[string]string{},
	}
}

// slice returns what a request touches. Of a nil owner it is empty.
func (o *owner) slice(t durable.Touch) durable.Slice {
	if o == nil {
		return durable.Slice{}
	}
	head := o.head
	s := durable.Slice{
		Head:      &head,
		Inbox:     pick(o.inbox, t.Inbox),
		Effects:   pick(o.outbox, t.Effects),
		Receipts:  pick(o.receipts, t.Receipts),
		ReceiptOf: pick(o.receiptOf, t.Effects),
	}
	return s
}

func pick[V any](from map[string]V, ids []string) map[string]V {
	picked := make(map[string]V, len(ids))
	for _, id := range ids {
		if v, ok := from[id]; ok {
			picked[id] = v
		}
	}
	return picked
}

// apply writes a plan. It copies every slice, since the plan shares memory with
// the request.
func (o *owner) apply(p durable.Plan) {
	o.head = p.Head
	for _, e := range p.Events {
		o.history = append(o.history, e.Clone())
	}
	if p.Snapshot != nil {
		snapshot := p.Snapshot.Clone()
		o.snapshot = &snapshot
	}
	if p.Inbox != nil {
		o.inbox[p.Inbox.ID] = p.Inbox.Clone()
	}
	for _, e := range p.Effects {
		o.outbox[e.ID] = e.Clone()
	}
	for _, r := range p.Receipts {
		o.receipts[r.ID] = r.Clone()
		o.receiptOf[r.EffectID] = r.ID
	}
}

// clone returns a copy that can be written to. Stored bytes never change, so
// both may share them.
func (o *owner) clone() *owner {
	c := *o
	c.history = slices.Clip(o.history)
	c.inbox = maps.Clone(o.inbox)
	c.outbox = maps.Clone(o.outbox)
	c.receipts = maps.Clone(o.receipts)
	c.receiptOf = maps.Clone(o.receiptOf)
	return &c
}

// image returns the complete image.
func (o *owner) image() durable.Image {
	img := durable.Image{
		Head:     o.head,
		History:  clones(o.history),
		Inbox:    sorted(o.inbox),
		Outbox:   sorted(o.outbox),
		Receipts: sorted(o.receipts),
	}
	if o.snapshot != nil {
		snapshot := o.snapshot.Clone()
		img.Snapshot = &snapshot
	}
	img.Pending = durable.PendingOf(img.Outbox, img.Receipts)
	return img
}

// parts returns the parts of the image that the request names.
func (o *owner) parts(p durable.Parts) durable.Image {
	img := durable.Image{Head: o.head, Partial: true, Inbox: sorted(pick(o.inbox, p.Inbox))}
	if p.State {
		img.History = o.historyAfter(p.StateAfter, p.HistoryLimit)
		if o.snapshot != nil && o.snapshot.Position > p.StateAfter {
			snapshot := o.snapshot.Clone()
			img.Snapshot = &snapshot
		}
	}
	if p.Pending {
		img.Pending = o.pendingAfter(durable.Effect{}, p.PendingLimit)
	}
	return img
}

// historyAfter returns a page of the records at greater positions.
func (o *owner) historyAfter(after uint64, limit int) []durable.Record {
	limit, _ = durable.PageLimit(limit)
	first := sort.Search(len(o.history), func(i int) bool { return o.history[i].Position > after })
	page := o.history[first:]
	return clones(page[:min(limit, len(page))])
}

// pendingAfter returns a page of the effects that follow the cursor.
func (o *owner) pendingAfter(cursor durable.Effect, limit int) []durable.Effect {
	limit, _ = durable.PageLimit(limit)
	var pending []durable.Effect
	for id, e := range o.outbox {
		if _, done := o.receiptOf[id]; !done && durable.ComparePending(e, cursor) > 0 {
			pending = append(pending, e)
		}
	}
	slices.SortFunc(pending, durable.ComparePending)
	return clones(pending[:min(limit, len(pending))])
}

func clones[V interface{ Clone() V }](from []V) []V {
	copied := make([]V, len(from))
	for i, v := range from {
		copied[i] = v.Clone()
	}
	return copied
}

func sorted[V interface{ Clone() V }](from map[string]V) []V {
	values := make([]V, 0, len(from))
	for _, id := range slices.Sorted(maps.Keys(from)) {
		values = append(values, from[id].Clone())
	}
	return values
}

// CreateOwner implements [durable.Store].
func (s *Store) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return create(ctx, s, req)
}

// LoadOwner implements [durable.Store].
func (s *Store) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return load(ctx, s, req)
}

// CommitOwner implements [durable.Store].
func (s *Store) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return commit(ctx, s, c, nil)
}

// AdvanceFence implements [durable.Store].
func (s *Store) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return advance(ctx, s, req)
}

// RecordReceipt implements [durable.Store].
func (s *Store) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return record(ctx, s, req, nil)
}

// ReadHistory implements [durable.Store].
func (s *Store) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return readHistory(ctx, s, req)
}

// ReadPending implements [durable.Store].
func (s *Store) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return readPending(ctx, s, req)
}

// access is what a Store and a tx have in common: they read and write owners.
type access interface {
	write(ctx context.Context, t durable.Touch, rule func(durable.Slice) (durable.Plan, error)) (durable.Plan, error)
	read(ctx context.Context, id string, f func(*owner)) error
}

func create(ctx context.Context, a access, req durable.CreateOwner) (durable.Head, error) {
	if err := req.Check(); err != nil {
		return durable.Head{}, err
	}
	plan, err := a.write(ctx, req.Touch(), func(s durable.Slice) (durable.Plan, error) { return durable.DecideCreate(s, req) })
	return plan.Head, err
}

func load(ctx context.Context, a access, req durable.LoadOwner) (durable.Image, error) {
	if err := req.Check(); err != nil {
		return durable.Image{}, err
	}
	var img durable.Image
	err := a.read(ctx, req.Owner, func(o *owner) {
		if req.Parts == nil {
			img = o.image()
		} else {
			img = o.parts(*req.Parts)
		}
	})
	return img, err
}

func commit(ctx context.Context, a access, c durable.Commit, settlement *countersign.Settlement) (durable.Committed, error) {
	if err := c.Check(); err != nil {
		return durable.Committed{}, err
	}
	plan, err := a.write(ctx, c.Touch(), func(s durable.Slice) (durable.Plan, error) { return durable.Decide(s, c) })
	if err != nil {
		return durable.Committed{}, err
	}
	return durable.Committed{Through: plan.Through, Duplicate: plan.Duplicate, Settlement: settlement}, nil
}

func advance(ctx context.Context, a access, req durable.AdvanceFence) (durable.Head, error) {
	if err := req.Check(); err != nil {
		return durable.Head{}, err
	}
	plan, err := a.write(ctx, req.Touch(), func(s durable.Slice) (durable.Plan, error) { return durable.DecideFence(s, req) })
	return plan.Head, err
}

func record(ctx context.Context, a access, req durable.RecordReceipt, settlement *countersign.Settlement) (durable.ReceiptRecorded, error) {
	if err := req.Check(); err != nil {
		return durable.ReceiptRecorded{}, err
	}
	plan, err := a.write(ctx, req.Touch(), func(s durable.Slice) (durable.Plan, error) { return durable.DecideReceipt(s, req) })
	if err != nil {
		return durable.ReceiptRecorded{}, err
	}
	return durable.ReceiptRecorded{RecordedAt: plan.Through, Fence: plan.Fence, Duplicate: plan.Duplicate, Settlement: settlement}, nil
}

func readHistory(ctx context.Context, a access, req durable.ReadHistory) ([]durable.Record, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	var page []durable.Record
	err := a.read(ctx, req.Owner, func(o *owner) { page = o.historyAfter(req.After, req.Limit) })
	return page, err
}

func readPending(ctx context.Context, a access, req durable.ReadPending) ([]durable.Effect, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	var page []durable.Effect
	cursor := durable.Effect{AcceptedAt: req.AfterAccepted, ID: req.AfterID}
	err := a.read(ctx, req.Owner, func(o *owner) { page = o.pendingAfter(cursor, req.Limit) })
	return page, err
}
