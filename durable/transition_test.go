package durable_test

import (
	"reflect"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// refusedOrPlanned checks what a rule decided, and that its slice is unchanged.
func refusedOrPlanned(t *testing.T, s durable.Slice, rule func() (durable.Plan, error), want durable.Plan, wantErr error) {
	t.Helper()
	before := dump(s)
	p, err := rule()
	if !reflect.DeepEqual(p, want) || !reflect.DeepEqual(err, wantErr) {
		t.Errorf("got      %s, %v\nexpected %s, %v", dump(p), err, dump(want), wantErr)
	}
	if err != nil && kinds(err) != 1 {
		t.Errorf("%v has %d kinds", err, kinds(err))
	}
	if dump(s) != before {
		t.Error("the slice was changed")
	}
}

func TestDecideCreate(t *testing.T) {
	stored := durable.Head{Owner: "order-42", Mode: durable.Snapshot, Position: 7, Fence: 5}
	for _, c := range []struct {
		name string
		head *durable.Head
		req  durable.CreateOwner
		want durable.Plan
		err  error
	}{
		{"a new owner", nil, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory, Fence: 3},
			durable.Plan{Head: durable.Head{Owner: "order-42", Mode: durable.EventHistory, Fence: 3}, Writes: true, Creates: true}, nil},
		{"without a fence", nil, durable.CreateOwner{Owner: "order-42", Mode: durable.Snapshot},
			durable.Plan{Head: durable.Head{Owner: "order-42", Mode: durable.Snapshot}, Writes: true, Creates: true}, nil},
		{"again, its fence stays", &stored, durable.CreateOwner{Owner: "order-42", Mode: durable.Snapshot, Fence: 9},
			durable.Plan{Head: stored, Duplicate: true}, nil},
		{"again with another mode", &stored, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory, Fence: 5},
			durable.Plan{}, &durable.IdentityConflictError{Kind: durable.OwnerIdentity, Owner: "order-42", ID: "order-42"}},
		{"without a mode", &stored, durable.CreateOwner{Owner: "order-42"},
			durable.Plan{}, &countersign.MalformedError{Field: "mode", Reason: `is "", neither event_history nor snapshot`}},
		{"with a fence above the last", nil, durable.CreateOwner{Owner: "order-42", Mode: durable.Snapshot, Fence: 1 << 63},
			durable.Plan{}, &countersign.MalformedError{Field: "fence", Reason: "is above 2^63-1"}},
		{"without a name", nil, durable.CreateOwner{Mode: durable.Snapshot},
			durable.Plan{}, &countersign.MalformedError{Field: "owner id", Reason: "is empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := durable.Slice{Head: c.head}
			refusedOrPlanned(t, s, func() (durable.Plan, error) { return durable.DecideCreate(s, c.req) }, c.want, c.err)
		})
	}
}

func TestDecideFence(t *testing.T) {
	stored := durable.Head{Owner: "order-42", Mode: durable.Snapshot, Position: 7, Fence: 5}
	advanced := stored
	advanced.Fence = 6
	last := stored
	last.Fence = countersign.MaxInteger
	for _, c := range []struct {
		name  string
		head  *durable.Head
		fence uint64
		want  durable.Plan
		err   error
	}{
		{"greater by one", &stored, 6, durable.Plan{Head: advanced, Writes: true}, nil},
		{"the greatest", &stored, countersign.MaxInteger, durable.Plan{Head: last, Writes: true}, nil},
		{"equal", &stored, 5, durable.Plan{}, &durable.FenceDidNotAdvanceError{Owner: "order-42", Fence: 5, Current: 5}},
		{"smaller", &stored, 4, durable.Plan{}, &durable.FenceDidNotAdvanceError{Owner: "order-42", Fence: 4, Current: 5}},
		{"above the last", &stored, 1 << 63, durable.Plan{}, &countersign.MalformedError{Field: "fence", Reason: "is above 2^63-1"}},
		{"of an unknown owner", nil, 6, durable.Plan{}, &durable.UnknownOwnerError{Owner: "order-42"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := durable.Slice{Head: c.head}
			refusedOrPlanned(t, s, func() (durable.Plan, error) {
				return durable.DecideFence(s, durable.AdvanceFence{Owner: "order-42", Fence: c.fence})
			}, c.want, c.err)
		})
	}
}

func TestDecideReceipt(t *testing.T) {
	known := durable.TerminalReceipt{ID: "sent-receipt", EffectID: "sent", Outcome: durable.Applied, Payload: v1("ok")}
	added := durable.TerminalReceipt{ID: "r", EffectID: "open", Outcome: durable.Rejected, Payload: v1("no")}
	with := func(r durable.TerminalReceipt, change func(*durable.TerminalReceipt)) durable.TerminalReceipt {
		change(&r)
		return r
	}
	head := *newAttempt().slice.Head
	conflict := &durable.IdentityConflictError{Kind: durable.ReceiptIdentity, Owner: "order-42", ID: "sent-receipt"}
	for _, c := range []struct {
		name    string
		fence   uint64
		receipt durable.TerminalReceipt
		want    durable.Plan
		err     error
	}{
		{"a new one does not move the position", 5, added, durable.Plan{
			Head: head, Writes: true, Through: 3, Fence: 5,
			Receipts: []durable.Receipt{{ID: "r", EffectID: "open", Outcome: durable.Rejected, RecordedAt: 3, Fence: 5, Payload: v1("no")}},
		}, nil},
		{"a duplicate", 5, known, durable.Plan{Head: head, Through: 3, Fence: 4, Duplicate: true}, nil},
		{"a duplicate under an old fence", 4, known, durable.Plan{Head: head, Through: 3, Fence: 4, Duplicate: true}, nil},
		{"another outcome, under an old fence", 4, with(known, func(r *durable.TerminalReceipt) { r.Outcome = durable.Rejected }), durable.Plan{}, conflict},
		{"another effect", 5, with(known, func(r *durable.TerminalReceipt) { r.EffectID = "open" }), durable.Plan{}, conflict},
		{"an unknown effect under a known id", 5, with(known, func(r *durable.TerminalReceipt) { r.EffectID = "nowhere" }), durable.Plan{}, conflict},
		{"other bytes", 5, with(known, func(r *durable.TerminalReceipt) { r.Payload.Bytes = []byte("OK") }), durable.Plan{}, conflict},
		{"another schema version", 5, with(known, func(r *durable.TerminalReceipt) { r.Payload.SchemaVersion = 2 }), durable.Plan{}, conflict},
		{"another codec version", 5, with(known, func(r *durable.TerminalReceipt) { r.Payload.CodecVersion = 2 }), durable.Plan{}, conflict},
		{"a smaller fence", 4, added, durable.Plan{}, &durable.StaleFenceError{Owner: "order-42", Fence: 4, Current: 5}},
		{"a greater fence", 6, added, durable.Plan{}, &durable.StaleFenceError{Owner: "order-42", Fence: 6, Current: 5}},
		{"a smaller fence and an unknown effect", 4, with(added, func(r *durable.TerminalReceipt) { r.EffectID = "nowhere" }),
			durable.Plan{}, &durable.StaleFenceError{Owner: "order-42", Fence: 4, Current: 5}},
		{"a smaller fence and a second receipt", 4, with(added, func(r *durable.TerminalReceipt) { r.EffectID = "sent" }),
			durable.Plan{}, &durable.StaleFenceError{Owner: "order-42", Fence: 4, Current: 5}},
		{"an unknown effect", 5, with(added, func(r *durable.TerminalReceipt) { r.EffectID = "nowhere" }),
			durable.Plan{}, &durable.UnknownEffectError{Owner: "order-42", ReceiptID: "r", EffectID: "nowhere"}},
		{"a second receipt", 5, with(added, func(r *durable.TerminalReceipt) { r.EffectID = "sent" }),
			durable.Plan{}, &durable.EffectAlreadyReceiptedError{Owner: "order-42", EffectID: "sent", ReceiptID: "r", RecordedAs: "sent-receipt"}},
		{"no outcome, under an old fence", 4, with(added, func(r *durable.TerminalReceipt) { r.Outcome = "" }),
			durable.Plan{}, &countersign.MalformedError{Field: "outcome", Reason: "is neither applied nor rejected"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newAttempt().slice
			refusedOrPlanned(t, s, func() (durable.Plan, error) {
				return durable.DecideReceipt(s, durable.RecordReceipt{Owner: "order-42", Fence: c.fence, Receipt: c.receipt})
			}, c.want, c.err)
		})
	}
	t.Run("an unknown owner", func(t *testing.T) {
		refusedOrPlanned(t, durable.Slice{}, func() (durable.Plan, error) {
			return durable.DecideReceipt(durable.Slice{}, durable.RecordReceipt{Owner: "order-42", Receipt: added})
		}, durable.Plan{}, &durable.UnknownOwnerError{Owner: "order-42"})
	})
}
