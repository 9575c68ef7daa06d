package durable

// DecideCreate is the rule of [Store.CreateOwner] (contract, section 3): a new
// owner stands at position 0; one that exists with the same mode is returned
// unchanged, its fence too; with another mode it is an [*IdentityConflictError].
func DecideCreate(s Slice, r CreateOwner) (Plan, error) {
	if err := r.Check(); err != nil {
		return Plan{}, err
	}
	if s.Head == nil {
		return Plan{Head: Head{Owner: r.Owner, Mode: r.Mode, Fence: r.Fence}, Writes: true, Creates: true}, nil
	}
	if s.Head.Mode != r.Mode {
		return Plan{}, &IdentityConflictError{Kind: OwnerIdentity, Owner: r.Owner, ID: r.Owner}
	}
	return Plan{Head: *s.Head, Duplicate: true}, nil
}

// DecideFence is the rule of [Store.AdvanceFence] (contract, section 3): the new
// fence is strictly greater than the current one, else it is a
// [*FenceDidNotAdvanceError]. An owner that does not exist is an
// [*UnknownOwnerError].
func DecideFence(s Slice, r AdvanceFence) (Plan, error) {
	if err := r.Check(); err != nil {
		return Plan{}, err
	}
	if s.Head == nil {
		return Plan{}, &UnknownOwnerError{Owner: r.Owner}
	}
	if r.Fence <= s.Head.Fence {
		return Plan{}, &FenceDidNotAdvanceError{Owner: r.Owner, Fence: r.Fence, Current: s.Head.Fence}
	}
	head := *s.Head
	head.Fence = r.Fence
	return Plan{Head: head, Writes: true}, nil
}

// DecideReceipt is the rule of [Store.RecordReceipt] (contract, section 3), in
// the order of its checks. A receipt that is known with the same content is a
// duplicate, before the fence is looked at; with other content it is an
// [*IdentityConflictError]. Then a fence that is not the current one is a
// [*StaleFenceError], an effect that is not in the outbox an
// [*UnknownEffectError], and an effect with another receipt an
// [*EffectAlreadyReceiptedError]. An owner that does not exist is an
// [*UnknownOwnerError].
func DecideReceipt(s Slice, r RecordReceipt) (Plan, error) {
	if err := r.Check(); err != nil {
		return Plan{}, err
	}
	if s.Head == nil {
		return Plan{}, &UnknownOwnerError{Owner: r.Owner}
	}
	head := *s.Head
	if known, err := s.knowsReceipt(r.Owner, r.Receipt); err != nil {
		return Plan{}, err
	} else if known {
		first := s.Receipts[r.Receipt.ID]
		return Plan{Head: head, Through: first.RecordedAt, Fence: first.Fence, Duplicate: true}, nil
	}
	if r.Fence != head.Fence {
		return Plan{}, &StaleFenceError{Owner: r.Owner, Fence: r.Fence, Current: head.Fence}
	}
	if err := s.mayReceipt(r.Owner, r.Receipt); err != nil {
		return Plan{}, err
	}
	return Plan{
		Head:    head,
		Writes:  true,
		Through: head.Position,
		Fence:   head.Fence,
		Receipts: []Receipt{{
			ID: r.Receipt.ID, EffectID: r.Receipt.EffectID, Outcome: r.Receipt.Outcome,
			RecordedAt: head.Position, Fence: head.Fence, Payload: r.Receipt.Payload,
		}},
	}, nil
}
