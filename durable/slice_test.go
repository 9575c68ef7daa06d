package durable_test

import (
	"reflect"
	"testing"

	"github.com/countersign/countersign/durable"
)

func TestTouchNamesWhatTheRuleAsksFor(t *testing.T) {
	for _, c := range []struct {
		name string
		got  durable.Touch
		want durable.Touch
	}{
		{"commit", durable.Commit{
			Owner: "order-42", Inbox: durable.Inbox{ID: "i"},
			Effects:  []durable.Intent{{ID: "e"}, {ID: "f"}},
			Receipts: []durable.TerminalReceipt{{ID: "r", EffectID: "g"}},
		}.Touch(), durable.Touch{Owner: "order-42", Inbox: []string{"i"}, Effects: []string{"e", "f", "g"}, Receipts: []string{"r"}}},
		{"commit of events only", durable.Commit{Owner: "order-42", Inbox: durable.Inbox{ID: "i"}}.Touch(), durable.Touch{Owner: "order-42", Inbox: []string{"i"}}},
		{"create", durable.CreateOwner{Owner: "order-42"}.Touch(), durable.Touch{Owner: "order-42"}},
		{"advance", durable.AdvanceFence{Owner: "order-42"}.Touch(), durable.Touch{Owner: "order-42"}},
		{"record", durable.RecordReceipt{Owner: "order-42", Receipt: durable.TerminalReceipt{ID: "r", EffectID: "e"}}.Touch(),
			durable.Touch{Owner: "order-42", Effects: []string{"e"}, Receipts: []string{"r"}}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %+v, expected %+v", c.name, c.got, c.want)
		}
	}
}

func TestApplyLetsTheNextRequestSeeTheOneBefore(t *testing.T) {
	a := newAttempt()
	a.commit.Effects = []durable.Intent{{ID: "e", Payload: v1("send")}}
	a.commit.Receipts = []durable.TerminalReceipt{{ID: "r", EffectID: "e", Outcome: durable.Applied, Payload: v1("ok")}}
	p, err := durable.Decide(a.slice, a.commit)
	if err != nil {
		t.Fatal(err)
	}
	before := *a.slice.Head
	given := a.slice.Head
	a.slice.Apply(p)
	if *given != before {
		t.Error("the head that the slice was made with was changed")
	}
	p, err = durable.Decide(a.slice, a.commit)
	if err != nil || !p.Duplicate || p.Through != 4 {
		t.Errorf("the same commit again: %+v, %v", p, err)
	}
	a.commit.Inbox.ID, a.commit.ExpectedPosition = "next", 4
	p, err = durable.Decide(a.slice, a.commit)
	if err != nil || p.Through != 5 || len(p.Effects) != 0 || len(p.Receipts) != 0 {
		t.Errorf("its effect and receipt again: %+v, %v", p, err)
	}
}

func TestApplyOfWhatWritesNothing(t *testing.T) {
	a := newAttempt()
	before := dump(a.slice)
	a.commit.Inbox.ID = "done"
	p, err := durable.Decide(a.slice, a.commit)
	if err != nil || !p.Duplicate {
		t.Fatalf("got %+v, %v", p, err)
	}
	a.slice.Apply(p)
	a.slice.Apply(durable.Plan{})
	if dump(a.slice) != before {
		t.Errorf("got %s, expected %s", dump(a.slice), before)
	}
}

func TestApplyToTheEmptySlice(t *testing.T) {
	var s durable.Slice
	p, err := durable.DecideCreate(s, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory, Fence: 5})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(p)
	c := newAttempt().commit
	c.ExpectedPosition = 0
	c.Effects = []durable.Intent{{ID: "e", Payload: v1("send")}}
	if p, err = durable.Decide(s, c); err != nil {
		t.Fatal(err)
	}
	s.Apply(p)
	if s.Head.Position != 1 || s.Inbox["new"].CommittedThrough != 1 || s.Effects["e"].AcceptedAt != 1 {
		t.Errorf("got %s", dump(s))
	}
}
