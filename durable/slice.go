package durable

// A Slice is the part of an owner that a request touches, as the store holds
// it: the row of the owner and the records whose ids the request names. It is
// all that a rule may see, so an adapter reads no more than this, whatever the
// size of the owner.
//
// An adapter that decides several requests in one transaction reads one Slice
// for all of them and calls [Slice.Apply] between them.
type Slice struct {
	Head      *Head // nil: the owner does not exist
	Inbox     map[string]InboxRecord
	Effects   map[string]Effect
	Receipts  map[string]Receipt
	ReceiptOf map[string]string // of an effect id, the id of its receipt
}

// A Touch names the records of an owner that a request touches: what an adapter
// puts into the [Slice].
type Touch struct {
	Owner    string
	Inbox    []string
	Effects  []string // with their ReceiptOf
	Receipts []string
}

// Touch names the records that the commit touches.
func (c Commit) Touch() Touch {
	t := Touch{Owner: c.Owner, Inbox: []string{c.Inbox.ID}}
	if n := len(c.Effects) + len(c.Receipts); n > 0 {
		t.Effects = make([]string, 0, n)
	}
	for _, e := range c.Effects {
		t.Effects = append(t.Effects, e.ID)
	}
	for _, r := range c.Receipts {
		t.Effects = append(t.Effects, r.EffectID)
		t.Receipts = append(t.Receipts, r.ID)
	}
	return t
}

// Touch names the records that the request touches.
func (r CreateOwner) Touch() Touch { return Touch{Owner: r.Owner} }

// Touch names the records that the request touches.
func (r AdvanceFence) Touch() Touch { return Touch{Owner: r.Owner} }

// Touch names the records that the request touches.
func (r RecordReceipt) Touch() Touch {
	return Touch{Owner: r.Owner, Effects: []string{r.Receipt.EffectID}, Receipts: []string{r.Receipt.ID}}
}

// A Plan is what a rule decided: the owner's row afterwards, and the records to
// add. A plan without Writes changes nothing. Its payloads share memory with
// the request.
type Plan struct {
	Head      Head
	Writes    bool
	Creates   bool   // the owner's row is new
	Through   uint64 // of a commit: Committed.Through; of a receipt: RecordedAt
	Duplicate bool   // the identity is completed already
	Fence     uint64 // of a receipt: the fence it was recorded under
	Events    []Record
	Snapshot  *Record // put in place of the last one
	Inbox     *InboxRecord
	Effects   []Effect
	Receipts  []Receipt
}

// Apply carries the plan over to the slice, as the store's own write will.
func (s *Slice) Apply(p Plan) {
	if !p.Writes {
		return
	}
	head := p.Head
	s.Head = &head
	if p.Inbox != nil {
		put(&s.Inbox, p.Inbox.ID, *p.Inbox)
	}
	for _, e := range p.Effects {
		put(&s.Effects, e.ID, e)
	}
	for _, r := range p.Receipts {
		put(&s.Receipts, r.ID, r)
		put(&s.ReceiptOf, r.EffectID, r.ID)
	}
}

func put[V any](m *map[string]V, id string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[id] = v
}
