package durable_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// attempt is a commit on an owner, before the rule sees it. The one that
// newAttempt returns passes every check.
type attempt struct {
	slice  durable.Slice
	commit durable.Commit
}

func newAttempt() *attempt {
	return &attempt{
		slice: durable.Slice{
			Head:  &durable.Head{Owner: "order-42", Mode: durable.EventHistory, Position: 3, Fence: 5},
			Inbox: map[string]durable.InboxRecord{"done": {ID: "done", Fingerprint: []byte("sum"), CommittedThrough: 2}},
			Effects: map[string]durable.Effect{
				"sent": {ID: "sent", AcceptedAt: 2, Payload: v1("send")},
				"open": {ID: "open", AcceptedAt: 3, Payload: v1("send")},
			},
			Receipts: map[string]durable.Receipt{
				"sent-receipt": {ID: "sent-receipt", EffectID: "sent", Outcome: durable.Applied, RecordedAt: 3, Fence: 4, Payload: v1("ok")},
			},
			ReceiptOf: map[string]string{"sent": "sent-receipt"},
		},
		commit: durable.Commit{
			Owner: "order-42", ExpectedPosition: 3, Fence: 5,
			Inbox: durable.Inbox{ID: "new", Fingerprint: []byte("sum")},
			State: durable.Append(v1("event")),
		},
	}
}

func (a *attempt) dump() string { return dump([]any{a.slice, a.commit}) }

// violation breaks one rule of an attempt and leaves the others as they are.
type violation struct {
	name  string
	apply func(*attempt)
	want  func(*attempt) error // what Decide says when nothing earlier is broken
}

// violations stand in the order of the checks. Those of one step have the same
// number before the dot.
var violations = []violation{
	{"1.1 malformed", func(a *attempt) {
		a.commit.Effects = append([]durable.Intent{{ID: "e", Payload: durable.Payload{SchemaVersion: 1}}}, a.commit.Effects...)
	}, func(*attempt) error {
		return fmt.Errorf("effect 0: %w", &countersign.MalformedError{Field: "payload", Reason: "has codec version 0, outside 1 to 2^31-1"})
	}},
	{"1.2 unknown owner", func(a *attempt) {
		a.slice.Head = nil
	}, func(*attempt) error {
		return &durable.UnknownOwnerError{Owner: "order-42"}
	}},
	{"2 inbox id with another fingerprint", func(a *attempt) {
		a.commit.Inbox = durable.Inbox{ID: "done", Fingerprint: []byte("another sum")}
	}, func(*attempt) error {
		return &durable.IdentityConflictError{Kind: durable.InboxIdentity, Owner: "order-42", ID: "done"}
	}},
	{"3 smaller fence", func(a *attempt) {
		a.commit.Fence--
	}, func(*attempt) error {
		return &durable.StaleFenceError{Owner: "order-42", Fence: 4, Current: 5}
	}},
	{"4 smaller position", func(a *attempt) {
		a.commit.ExpectedPosition--
	}, func(a *attempt) error {
		return &durable.PositionConflictError{Owner: "order-42", Expected: a.commit.ExpectedPosition, Actual: a.commit.ExpectedPosition + 1}
	}},
	{"5 effect id with another payload", func(a *attempt) {
		a.commit.Effects = append(a.commit.Effects, durable.Intent{ID: "open", Payload: v1("send more")})
	}, func(*attempt) error {
		return &durable.IdentityConflictError{Kind: durable.EffectIdentity, Owner: "order-42", ID: "open"}
	}},
	{"6.1 receipt id with another outcome", func(a *attempt) {
		a.commit.Receipts = append(a.commit.Receipts, durable.TerminalReceipt{ID: "sent-receipt", EffectID: "sent", Outcome: durable.Rejected, Payload: v1("ok")})
	}, func(*attempt) error {
		return &durable.IdentityConflictError{Kind: durable.ReceiptIdentity, Owner: "order-42", ID: "sent-receipt"}
	}},
	{"6.2 receipt of an unknown effect", func(a *attempt) {
		a.commit.Receipts = append(a.commit.Receipts, durable.TerminalReceipt{ID: "r", EffectID: "nowhere", Outcome: durable.Applied, Payload: v1("ok")})
	}, func(*attempt) error {
		return &durable.UnknownEffectError{Owner: "order-42", ReceiptID: "r", EffectID: "nowhere"}
	}},
	{"6.3 second receipt of an effect", func(a *attempt) {
		a.commit.Receipts = append(a.commit.Receipts, durable.TerminalReceipt{ID: "r2", EffectID: "sent", Outcome: durable.Applied, Payload: v1("ok")})
	}, func(*attempt) error {
		return &durable.EffectAlreadyReceiptedError{Owner: "order-42", EffectID: "sent", ReceiptID: "r2", RecordedAs: "sent-receipt"}
	}},
	{"7 snapshot in a history owner", func(a *attempt) {
		a.commit.State = durable.Replace(v1("state"))
	}, func(*attempt) error {
		return &durable.StateModeMismatchError{Owner: "order-42", Mode: durable.EventHistory}
	}},
	{"8 no position left", func(a *attempt) {
		ahead := countersign.MaxInteger - uint64(3)
		a.commit.ExpectedPosition += ahead
		if a.slice.Head != nil {
			a.slice.Head.Position += ahead
		}
	}, func(*attempt) error {
		return &durable.PositionOverflowError{Owner: "order-42", Position: countersign.MaxInteger}
	}},
}

func (a *attempt) mustBeRefused(t *testing.T, want error) {
	t.Helper()
	before := a.dump()
	p, err := durable.Decide(a.slice, a.commit)
	if !reflect.DeepEqual(err, want) {
		t.Errorf("got %v, expected %v", err, want)
	}
	if kinds(err) != 1 {
		t.Errorf("%v has %d kinds", err, kinds(err))
	}
	if !reflect.DeepEqual(p, durable.Plan{}) {
		t.Errorf("a refusal has a plan: %+v", p)
	}
	if a.dump() != before {
		t.Error("the arguments were changed")
	}
}

func TestDecideRefuses(t *testing.T) {
	for _, v := range violations {
		t.Run(v.name, func(t *testing.T) {
			a := newAttempt()
			v.apply(a)
			a.mustBeRefused(t, v.want(a))
		})
	}
}

func TestDecideFirstRuleDecides(t *testing.T) {
	for i, first := range violations {
		for _, second := range violations[i+1:] {
			t.Run(first.name+" before "+second.name, func(t *testing.T) {
				a := newAttempt()
				first.apply(a)
				second.apply(a)
				a.mustBeRefused(t, first.want(a))

				// Broken in the other order the same rule decides, but for those of
				// step 6, which go receipt by receipt.
				a = newAttempt()
				second.apply(a)
				first.apply(a)
				want := first.want(a)
				if first.name[0] == '6' && second.name[0] == '6' {
					want = second.want(a)
				}
				a.mustBeRefused(t, want)
			})
		}
	}
}

func TestDecideDuplicateComesBeforeEverythingAfterIt(t *testing.T) {
	for _, v := range violations {
		if v.name[0] <= '2' {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			a := newAttempt()
			v.apply(a)
			a.commit.Inbox.ID = "done"
			p, err := durable.Decide(a.slice, a.commit)
			if want := (durable.Plan{Head: *a.slice.Head, Through: 2, Duplicate: true}); err != nil || !reflect.DeepEqual(p, want) {
				t.Errorf("got %+v, %v, expected %+v", p, err, want)
			}
		})
	}
}

func TestDecideRefusesAlso(t *testing.T) {
	receipt := func(change func(*durable.TerminalReceipt)) func(*attempt) {
		return func(a *attempt) {
			r := durable.TerminalReceipt{ID: "sent-receipt", EffectID: "sent", Outcome: durable.Applied, Payload: v1("ok")}
			change(&r)
			a.commit.Receipts = append(a.commit.Receipts, r)
		}
	}
	receiptConflict := &durable.IdentityConflictError{Kind: durable.ReceiptIdentity, Owner: "order-42", ID: "sent-receipt"}
	effectConflict := func(id string) error {
		return &durable.IdentityConflictError{Kind: durable.EffectIdentity, Owner: "order-42", ID: id}
	}
	for _, c := range []struct {
		name  string
		apply func(*attempt)
		want  error
	}{
		{"a greater fence", func(a *attempt) { a.commit.Fence = 6 },
			&durable.StaleFenceError{Owner: "order-42", Fence: 6, Current: 5}},
		{"a greater position", func(a *attempt) { a.commit.ExpectedPosition = 4 },
			&durable.PositionConflictError{Owner: "order-42", Expected: 4, Actual: 3}},
		{"an inbox id without its fingerprint", func(a *attempt) { a.commit.Inbox = durable.Inbox{ID: "done"} },
			&durable.IdentityConflictError{Kind: durable.InboxIdentity, Owner: "order-42", ID: "done"}},
		{"an effect with another schema version", func(a *attempt) {
			a.commit.Effects = []durable.Intent{{ID: "open", Payload: durable.Payload{SchemaVersion: 2, CodecVersion: 1, Bytes: []byte("send")}}}
		}, effectConflict("open")},
		{"an effect with another codec version", func(a *attempt) {
			a.commit.Effects = []durable.Intent{{ID: "open", Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 2, Bytes: []byte("send")}}}
		}, effectConflict("open")},
		{"an effect twice, with other bytes", func(a *attempt) {
			a.commit.Effects = []durable.Intent{{ID: "e", Payload: v1("1")}, {ID: "e", Payload: v1("1")}, {ID: "e", Payload: v1("2")}}
		}, effectConflict("e")},
		{"a receipt of another effect", receipt(func(r *durable.TerminalReceipt) { r.EffectID = "open" }), receiptConflict},
		{"a known receipt of an unknown effect", receipt(func(r *durable.TerminalReceipt) { r.EffectID = "nowhere" }), receiptConflict},
		{"a receipt with other bytes", receipt(func(r *durable.TerminalReceipt) { r.Payload = v1("no") }), receiptConflict},
		{"a receipt with another schema version", receipt(func(r *durable.TerminalReceipt) { r.Payload.SchemaVersion = 2 }), receiptConflict},
		{"a receipt with another codec version", receipt(func(r *durable.TerminalReceipt) { r.Payload.CodecVersion = 2 }), receiptConflict},
		{"a receipt twice, with another outcome", func(a *attempt) {
			a.commit.Receipts = []durable.TerminalReceipt{
				{ID: "r", EffectID: "open", Outcome: durable.Applied, Payload: v1("")}, {ID: "r", EffectID: "open", Outcome: durable.Rejected, Payload: v1("")},
			}
		}, &durable.IdentityConflictError{Kind: durable.ReceiptIdentity, Owner: "order-42", ID: "r"}},
		{"two receipts of one effect in the commit", func(a *attempt) {
			a.commit.Effects = []durable.Intent{{ID: "e", Payload: v1("")}}
			a.commit.Receipts = []durable.TerminalReceipt{
				{ID: "r1", EffectID: "e", Outcome: durable.Applied, Payload: v1("")}, {ID: "r2", EffectID: "e", Outcome: durable.Applied, Payload: v1("")},
			}
		}, &durable.EffectAlreadyReceiptedError{Owner: "order-42", EffectID: "e", ReceiptID: "r2", RecordedAs: "r1"}},
		{"events in a snapshot owner", func(a *attempt) { a.slice.Head.Mode = durable.Snapshot },
			&durable.StateModeMismatchError{Owner: "order-42", Mode: durable.Snapshot}},
		{"one event more than positions are left", func(a *attempt) {
			a.slice.Head.Position, a.commit.ExpectedPosition = countersign.MaxInteger-1, countersign.MaxInteger-1
			a.commit.State = durable.Append(v1(""), v1(""))
		}, &durable.PositionOverflowError{Owner: "order-42", Position: countersign.MaxInteger - 1}},
		{"a snapshot when no position is left", func(a *attempt) {
			a.slice.Head.Position, a.commit.ExpectedPosition = countersign.MaxInteger, countersign.MaxInteger
			a.slice.Head.Mode, a.commit.State = durable.Snapshot, durable.Replace(v1(""))
		}, &durable.PositionOverflowError{Owner: "order-42", Position: countersign.MaxInteger}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAttempt()
			c.apply(a)
			a.mustBeRefused(t, c.want)
		})
	}
}

func TestDecidePlans(t *testing.T) {
	head := func(mode durable.Mode, position uint64) durable.Head {
		return durable.Head{Owner: "order-42", Mode: mode, Position: position, Fence: 5}
	}
	completed := func(through uint64) *durable.InboxRecord {
		return &durable.InboxRecord{ID: "new", Fingerprint: []byte("sum"), CommittedThrough: through}
	}
	for _, c := range []struct {
		name  string
		apply func(*attempt)
		want  durable.Plan
	}{
		{"one event", func(*attempt) {}, durable.Plan{
			Head: head(durable.EventHistory, 4), Writes: true, Through: 4, Inbox: completed(4),
			Events: []durable.Record{{Position: 4, Payload: v1("event")}},
		}},
		{"everything points past the whole batch", func(a *attempt) {
			a.commit.State = durable.Append(v1("1"), v1("2"), v1("3"))
			a.commit.Effects = []durable.Intent{{ID: "e", Payload: v1("send")}, {ID: "f", Payload: v1("send")}}
			a.commit.Receipts = []durable.TerminalReceipt{
				{ID: "r", EffectID: "e", Outcome: durable.Applied, Payload: v1("ok")},
				{ID: "s", EffectID: "open", Outcome: durable.Rejected, Payload: v1("no")},
			}
		}, durable.Plan{
			Head: head(durable.EventHistory, 6), Writes: true, Through: 6, Inbox: completed(6),
			Events:  []durable.Record{{Position: 4, Payload: v1("1")}, {Position: 5, Payload: v1("2")}, {Position: 6, Payload: v1("3")}},
			Effects: []durable.Effect{{ID: "e", AcceptedAt: 6, Payload: v1("send")}, {ID: "f", AcceptedAt: 6, Payload: v1("send")}},
			Receipts: []durable.Receipt{
				{ID: "r", EffectID: "e", Outcome: durable.Applied, RecordedAt: 6, Fence: 5, Payload: v1("ok")},
				{ID: "s", EffectID: "open", Outcome: durable.Rejected, RecordedAt: 6, Fence: 5, Payload: v1("no")},
			},
		}},
		{"a snapshot takes one position", func(a *attempt) {
			a.slice.Head.Mode = durable.Snapshot
			a.commit.State = durable.Replace(v1("state"))
		}, durable.Plan{
			Head: head(durable.Snapshot, 4), Writes: true, Through: 4, Inbox: completed(4),
			Snapshot: &durable.Record{Position: 4, Payload: v1("state")},
		}},
		{"known effects and receipts add nothing", func(a *attempt) {
			a.commit.Effects = []durable.Intent{{ID: "open", Payload: v1("send")}, {ID: "e", Payload: v1("send")}, {ID: "e", Payload: v1("send")}}
			known := durable.TerminalReceipt{ID: "sent-receipt", EffectID: "sent", Outcome: durable.Applied, Payload: v1("ok")}
			added := durable.TerminalReceipt{ID: "r", EffectID: "e", Outcome: durable.Applied, Payload: v1("ok")}
			a.commit.Receipts = []durable.TerminalReceipt{known, added, added}
		}, durable.Plan{
			Head: head(durable.EventHistory, 4), Writes: true, Through: 4, Inbox: completed(4),
			Events:   []durable.Record{{Position: 4, Payload: v1("event")}},
			Effects:  []durable.Effect{{ID: "e", AcceptedAt: 4, Payload: v1("send")}},
			Receipts: []durable.Receipt{{ID: "r", EffectID: "e", Outcome: durable.Applied, RecordedAt: 4, Fence: 5, Payload: v1("ok")}},
		}},
		{"a duplicate without fingerprint", func(a *attempt) {
			a.slice.Inbox["new"] = durable.InboxRecord{ID: "new", Fingerprint: []byte{}, CommittedThrough: 1}
			a.commit.Inbox.Fingerprint = nil
		}, durable.Plan{Head: head(durable.EventHistory, 3), Through: 1, Duplicate: true}},
		{"the last positions", func(a *attempt) {
			a.slice.Head.Position, a.commit.ExpectedPosition = countersign.MaxInteger-2, countersign.MaxInteger-2
			a.commit.State = durable.Append(v1("1"), v1("2"))
		}, durable.Plan{
			Head: head(durable.EventHistory, countersign.MaxInteger), Writes: true, Through: countersign.MaxInteger, Inbox: completed(countersign.MaxInteger),
			Events: []durable.Record{{Position: countersign.MaxInteger - 1, Payload: v1("1")}, {Position: countersign.MaxInteger, Payload: v1("2")}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAttempt()
			c.apply(a)
			before := a.dump()
			p, err := durable.Decide(a.slice, a.commit)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(p, c.want) {
				t.Errorf("got      %s\nexpected %s", dump(p), dump(c.want))
			}
			if a.dump() != before {
				t.Error("the arguments were changed")
			}
		})
	}
}

func TestDecideRefusesMalformedBeforeItLooks(t *testing.T) {
	// The inbox id is completed and the owner unknown: neither is told to a
	// commit that no store accepts.
	a := newAttempt()
	a.slice.Head = nil
	a.commit.Inbox.ID = "done"
	a.commit.Fence = countersign.MaxInteger + 1
	a.mustBeRefused(t, &countersign.MalformedError{Field: "fence", Reason: "is above 2^63-1"})
}

func TestRefusalsSayWhoAndWhat(t *testing.T) {
	for _, v := range violations[1:] {
		a := newAttempt()
		v.apply(a)
		if text := v.want(a).Error(); !strings.HasPrefix(text, "durable: ") || !strings.Contains(text, `"order-42"`) {
			t.Errorf("%s: %q", v.name, text)
		}
	}
}
