package durable

import (
	"bytes"

	"github.com/countersign/countersign"
)

// Decide is the rule of a commit (contract, section 2), in the order of its
// checks. The first that applies decides:
//
//  1. the commit is malformed: [*countersign.MalformedError] or
//     [*countersign.LimitError]; the owner does not exist: [*UnknownOwnerError]
//  2. the inbox id is completed: a plan with Duplicate and the first position,
//     or, with another fingerprint, an [*IdentityConflictError]
//  3. the fence is not the current one: [*StaleFenceError]
//  4. the position is not the current one: [*PositionConflictError]
//  5. an effect id is known with other content: [*IdentityConflictError]
//  6. a receipt id is known with other content: [*IdentityConflictError]; its
//     effect is unknown: [*UnknownEffectError]; its effect has another receipt:
//     [*EffectAlreadyReceiptedError]
//  7. the state change does not fit the mode: [*StateModeMismatchError]
//  8. no position is left: [*PositionOverflowError]
//
// Otherwise the plan holds everything to write. Decide is pure: it changes
// neither s nor c.
func Decide(s Slice, c Commit) (Plan, error) {
	if err := c.Check(); err != nil {
		return Plan{}, err
	}
	if s.Head == nil {
		return Plan{}, &UnknownOwnerError{Owner: c.Owner}
	}
	head := *s.Head
	// The completed inbox comes before position and fence, so that a redelivery
	// is still a duplicate after later commits and after a fence hand-off.
	if known, ok := s.Inbox[c.Inbox.ID]; ok {
		if !bytes.Equal(known.Fingerprint, c.Inbox.Fingerprint) {
			return Plan{}, &IdentityConflictError{Kind: InboxIdentity, Owner: c.Owner, ID: c.Inbox.ID}
		}
		return Plan{Head: head, Through: known.CommittedThrough, Duplicate: true}, nil
	}
	if c.Fence != head.Fence {
		return Plan{}, &StaleFenceError{Owner: c.Owner, Fence: c.Fence, Current: head.Fence}
	}
	if c.ExpectedPosition != head.Position {
		return Plan{}, &PositionConflictError{Owner: c.Owner, Expected: c.ExpectedPosition, Actual: head.Position}
	}
	effects, err := newEffects(s, c)
	if err != nil {
		return Plan{}, err
	}
	receipts, err := newReceipts(s, c, effects)
	if err != nil {
		return Plan{}, err
	}
	if (c.State.ReplaceSnapshot != nil) != (head.Mode == Snapshot) {
		return Plan{}, &StateModeMismatchError{Owner: c.Owner, Mode: head.Mode}
	}
	steps := uint64(1)
	if head.Mode == EventHistory {
		steps = uint64(len(c.State.AppendEvents))
	}
	if head.Position > countersign.MaxInteger-steps {
		return Plan{}, &PositionOverflowError{Owner: c.Owner, Position: head.Position}
	}

	// From here on nothing can be refused: assign the positions.
	through := head.Position + steps
	p := Plan{
		Head:     Head{Owner: head.Owner, Mode: head.Mode, Position: through, Fence: head.Fence},
		Writes:   true,
		Through:  through,
		Inbox:    &InboxRecord{ID: c.Inbox.ID, Fingerprint: c.Inbox.Fingerprint, CommittedThrough: through},
		Effects:  effects,
		Receipts: receipts,
	}
	if head.Mode == Snapshot {
		p.Snapshot = &Record{Position: through, Payload: *c.State.ReplaceSnapshot}
	} else {
		p.Events = make([]Record, len(c.State.AppendEvents))
		for i, e := range c.State.AppendEvents {
			p.Events[i] = Record{Position: head.Position + 1 + uint64(i), Payload: e}
		}
	}
	for i := range p.Effects {
		p.Effects[i].AcceptedAt = through
	}
	for i := range p.Receipts {
		p.Receipts[i].RecordedAt = through
	}
	return p, nil
}

// newEffects returns the commit's effects that the outbox does not hold yet,
// each once.
func newEffects(s Slice, c Commit) ([]Effect, error) {
	if len(c.Effects) == 0 {
		return nil, nil
	}
	effects := make([]Effect, 0, len(c.Effects))
	seen := make(map[string]Payload, len(c.Effects))
	for _, e := range c.Effects {
		first, known := seen[e.ID]
		if stored, ok := s.Effects[e.ID]; ok {
			first, known = stored.Payload, true
		}
		if !known {
			seen[e.ID] = e.Payload
			effects = append(effects, Effect{ID: e.ID, Payload: e.Payload})
			continue
		}
		if !first.Equal(e.Payload) {
			return nil, &IdentityConflictError{Kind: EffectIdentity, Owner: c.Owner, ID: e.ID}
		}
	}
	return effects, nil
}

// newReceipts returns the commit's receipts that are not recorded yet, each
// once. The effects are those that the commit adds.
func newReceipts(s Slice, c Commit, effects []Effect) ([]Receipt, error) {
	if len(c.Receipts) == 0 {
		return nil, nil
	}
	work := s.overlay()
	for _, e := range effects {
		work.Effects[e.ID] = e
	}
	receipts := make([]Receipt, 0, len(c.Receipts))
	for _, r := range c.Receipts {
		if known, err := work.knowsReceipt(c.Owner, r); err != nil {
			return nil, err
		} else if known {
			continue
		}
		if err := work.mayReceipt(c.Owner, r); err != nil {
			return nil, err
		}
		added := Receipt{ID: r.ID, EffectID: r.EffectID, Outcome: r.Outcome, Fence: c.Fence, Payload: r.Payload}
		work.Receipts[r.ID] = added
		work.ReceiptOf[r.EffectID] = r.ID
		receipts = append(receipts, added)
	}
	return receipts, nil
}

// overlay returns a copy of the slice's maps that may be written to.
func (s Slice) overlay() Slice {
	work := Slice{
		Effects:   make(map[string]Effect, len(s.Effects)),
		Receipts:  make(map[string]Receipt, len(s.Receipts)),
		ReceiptOf: make(map[string]string, len(s.ReceiptOf)),
	}
	for id, e := range s.Effects {
		work.Effects[id] = e
	}
	for id, r := range s.Receipts {
		work.Receipts[id] = r
	}
	for id, r := range s.ReceiptOf {
		work.ReceiptOf[id] = r
	}
	return work
}

// knowsReceipt reports whether the receipt is recorded with the same content.
func (s Slice) knowsReceipt(owner string, r TerminalReceipt) (bool, error) {
	known, ok := s.Receipts[r.ID]
	if !ok {
		return false, nil
	}
	if known.EffectID != r.EffectID || known.Outcome != r.Outcome || !known.Payload.Equal(r.Payload) {
		return false, &IdentityConflictError{Kind: ReceiptIdentity, Owner: owner, ID: r.ID}
	}
	return true, nil
}

// mayReceipt reports why the effect can't take the receipt.
func (s Slice) mayReceipt(owner string, r TerminalReceipt) error {
	if _, ok := s.Effects[r.EffectID]; !ok {
		return &UnknownEffectError{Owner: owner, ReceiptID: r.ID, EffectID: r.EffectID}
	}
	if other, ok := s.ReceiptOf[r.EffectID]; ok {
		return &EffectAlreadyReceiptedError{Owner: owner, EffectID: r.EffectID, ReceiptID: r.ID, RecordedAs: other}
	}
	return nil
}
