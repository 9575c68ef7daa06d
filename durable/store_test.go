package durable_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

func TestRequestsAreCheckedBeforeAnythingIsRead(t *testing.T) {
	long := strings.Repeat("x", 513)
	ids := make([]string, 1001)
	for i := range ids {
		ids[i] = "i"
	}
	load := func(p durable.Parts) error { return durable.LoadOwner{Owner: "o", Parts: &p}.Check() }
	receipt := durable.TerminalReceipt{ID: "r", EffectID: "e", Outcome: durable.Applied, Payload: v1("")}
	for name, err := range map[string]error{
		"create":                     durable.CreateOwner{Owner: "o", Mode: durable.Snapshot, Fence: countersign.MaxInteger}.Check(),
		"load everything":            durable.LoadOwner{Owner: "o"}.Check(),
		"load the head":              load(durable.Parts{}),
		"load parts":                 load(durable.Parts{Inbox: ids[:1000], State: true, StateAfter: countersign.MaxInteger, HistoryLimit: 10_000, Pending: true, PendingLimit: 10_000}),
		"advance":                    durable.AdvanceFence{Owner: "o"}.Check(),
		"record":                     durable.RecordReceipt{Owner: "o", Receipt: receipt}.Check(),
		"history":                    durable.ReadHistory{Owner: "o", After: countersign.MaxInteger, Limit: 10_000}.Check(),
		"pending from the beginning": durable.ReadPending{Owner: "o"}.Check(),
		"pending after a cursor":     durable.ReadPending{Owner: "o", AfterAccepted: 3, AfterID: "e", Limit: 1}.Check(),
	} {
		if err != nil {
			t.Errorf("%s: refused: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"create without owner":             durable.CreateOwner{Mode: durable.Snapshot}.Check(),
		"create with a mode in capitals":   durable.CreateOwner{Owner: "o", Mode: "Snapshot"}.Check(),
		"create with a fence too great":    durable.CreateOwner{Owner: "o", Mode: durable.Snapshot, Fence: 1 << 63}.Check(),
		"load without owner":               durable.LoadOwner{}.Check(),
		"load of too many inbox records":   load(durable.Parts{Inbox: ids}),
		"load of an inbox id too long":     load(durable.Parts{Inbox: []string{long}}),
		"load of an empty inbox id":        load(durable.Parts{Inbox: []string{""}}),
		"load after a position too great":  load(durable.Parts{State: true, StateAfter: 1 << 63}),
		"load of too much history":         load(durable.Parts{State: true, HistoryLimit: 10_001}),
		"load of less than no history":     load(durable.Parts{State: true, HistoryLimit: -1}),
		"load of too many effects":         load(durable.Parts{Pending: true, PendingLimit: 10_001}),
		"advance without owner":            durable.AdvanceFence{Fence: 1}.Check(),
		"advance to a fence too great":     durable.AdvanceFence{Owner: "o", Fence: 1 << 63}.Check(),
		"record without owner":             durable.RecordReceipt{Receipt: receipt}.Check(),
		"record under a fence too great":   durable.RecordReceipt{Owner: "o", Fence: 1 << 63, Receipt: receipt}.Check(),
		"record without receipt":           durable.RecordReceipt{Owner: "o"}.Check(),
		"history without owner":            durable.ReadHistory{}.Check(),
		"history after a position too far": durable.ReadHistory{Owner: "o", After: 1 << 63}.Check(),
		"history with a page too large":    durable.ReadHistory{Owner: "o", Limit: 10_001}.Check(),
		"pending without owner":            durable.ReadPending{}.Check(),
		"pending after a position too far": durable.ReadPending{Owner: "o", AfterAccepted: 1 << 63}.Check(),
		"pending after an id too long":     durable.ReadPending{Owner: "o", AfterID: long}.Check(),
		"pending with a negative page":     durable.ReadPending{Owner: "o", Limit: -1}.Check(),
	} {
		if !errors.Is(err, countersign.ErrMalformed) || kinds(err) != 1 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestPageLimit(t *testing.T) {
	for limit, want := range map[int]int{0: 100, 1: 1, 10_000: 10_000} {
		if got, err := durable.PageLimit(limit); got != want || err != nil {
			t.Errorf("%d: got %d, %v, expected %d", limit, got, err, want)
		}
	}
	var tooMuch *countersign.LimitError
	if _, err := durable.PageLimit(10_001); !errors.As(err, &tooMuch) {
		t.Errorf("got %v", err)
	}
	var malformed *countersign.MalformedError
	if _, err := durable.PageLimit(-1); !errors.As(err, &malformed) {
		t.Errorf("got %v", err)
	}
}

func TestAckIsSafeOnlyOnceItIsCommitted(t *testing.T) {
	pending := &countersign.Settlement{}
	for _, c := range []struct {
		name string
		c    durable.Committed
		want bool
	}{
		{"the zero value", durable.Committed{}, false},
		{"committed", durable.Committed{Through: 1}, true},
		{"a duplicate", durable.Committed{Through: 1, Duplicate: true}, true},
		{"in a transaction under way", durable.Committed{Through: 1, Settlement: pending}, false},
		{"a duplicate in a transaction under way", durable.Committed{Through: 1, Duplicate: true, Settlement: pending}, false},
	} {
		if got := c.c.AckSafe(); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
	pending.Commit()
	if !(durable.Committed{Through: 1, Settlement: pending}).AckSafe() {
		t.Error("not safe after the transaction has committed")
	}
}
