package eventlog

// A trial is what a batch does to the claims of a slice, before it is known
// whether the batch will be written.
type trial struct {
	base   *claims
	owners map[ClaimOwner]*Claim // nil: freed
	values map[ClaimValue]*ClaimOwner
}

func (t *trial) byOwner(o ClaimOwner) (Claim, bool) {
	if c, ok := t.owners[o]; ok {
		if c == nil {
			return Claim{}, false
		}
		return *c, true
	}
	c, ok := t.base.byOwner[o]
	return c, ok
}

func (t *trial) byValue(v ClaimValue) (ClaimOwner, bool) {
	if o, ok := t.values[v]; ok {
		if o == nil {
			return ClaimOwner{}, false
		}
		return *o, true
	}
	o, ok := t.base.byValue[v]
	return o, ok
}

func (t *trial) free(o ClaimOwner) {
	if old, ok := t.byOwner(o); ok {
		t.values = put(t.values, ClaimValue{old.Index, old.Value}, nil)
		t.owners = put(t.owners, o, nil)
	}
}

func (t *trial) set(c Claim) {
	owner := ClaimOwner{c.Index, c.Source}
	t.free(owner)
	t.owners = put(t.owners, owner, &c)
	t.values = put(t.values, ClaimValue{c.Index, c.Value}, &owner)
}

// holder returns the claim that refuses the move.
func (t *trial) holder(m move) (Claim, bool) {
	if m.frees {
		return Claim{}, false
	}
	if m.constraint.Kind == UniqueEventType {
		return t.byOwner(m.owner)
	}
	holder, ok := t.byValue(ClaimValue{m.owner.Index, m.value})
	if !ok || holder.Source == m.owner.Source {
		return Claim{}, false
	}
	return t.byOwner(holder)
}

// make carries out a move that nothing refuses.
func (t *trial) make(m move, number uint64) {
	if m.frees {
		t.free(m.owner)
		return
	}
	if c, ok := t.byOwner(m.owner); ok && c.Value == m.value {
		return // it holds it already, by an earlier event
	}
	t.set(Claim{Index: m.owner.Index, Source: m.owner.Source, Value: m.value, Number: number})
}

// keep carries the trial over to the slice's claims.
func (t *trial) keep() {
	if t == nil {
		return
	}
	for owner, c := range t.owners {
		t.base.changed = put(t.base.changed, owner, true)
		if c == nil {
			t.base.free(owner)
		}
	}
	for _, c := range t.owners {
		if c != nil {
			t.base.set(*c)
		}
	}
}
