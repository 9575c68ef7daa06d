package durable_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/countersign/countersign/durable"
)

func TestPendingIsOrderedByPositionAndThenByID(t *testing.T) {
	effect := func(id string, at uint64) durable.Effect {
		return durable.Effect{ID: id, AcceptedAt: at, Payload: v1(id)}
	}
	outbox := []durable.Effect{effect("B", 2), effect("a", 1), effect("b", 2), effect("c", 1), effect("é", 1)}
	receipts := []durable.Receipt{{ID: "r", EffectID: "c"}}
	got := durable.PendingOf(outbox, receipts)
	want := []durable.Effect{effect("a", 1), effect("é", 1), effect("B", 2), effect("b", 2)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, expected %+v", got, want)
	}
	if !slices.IsSortedFunc(got, durable.ComparePending) {
		t.Error("ComparePending orders otherwise")
	}
	if durable.ComparePending(outbox[0], outbox[0]) != 0 {
		t.Error("an effect is not equal to itself")
	}
}

func TestClonesShareNoMemory(t *testing.T) {
	bytes := []byte("x")
	p := durable.Payload{SchemaVersion: 1, CodecVersion: 2, Bytes: bytes}
	record := durable.Record{Position: 1, Payload: p}.Clone()
	inbox := durable.InboxRecord{ID: "i", Fingerprint: bytes, CommittedThrough: 1}.Clone()
	effect := durable.Effect{ID: "e", AcceptedAt: 1, Payload: p}.Clone()
	receipt := durable.Receipt{ID: "r", EffectID: "e", Outcome: durable.Applied, RecordedAt: 1, Fence: 1, Payload: p}.Clone()
	bytes[0] = 'y'
	p.Bytes = []byte("x")
	for _, c := range []struct{ got, want any }{
		{record, durable.Record{Position: 1, Payload: p}},
		{inbox, durable.InboxRecord{ID: "i", Fingerprint: []byte("x"), CommittedThrough: 1}},
		{effect, durable.Effect{ID: "e", AcceptedAt: 1, Payload: p}},
		{receipt, durable.Receipt{ID: "r", EffectID: "e", Outcome: durable.Applied, RecordedAt: 1, Fence: 1, Payload: p}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("got %+v, expected %+v", c.got, c.want)
		}
	}
	if (durable.Payload{}).Clone().Bytes == nil || (durable.InboxRecord{}).Clone().Fingerprint == nil {
		t.Error("empty bytes become nil")
	}
}
