package storetest

import (
	"context"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// logCall is one method of the event log, the receipts or the observers with a
// request that would succeed.
type logCall struct {
	name string
	send func(ctx context.Context, hd *handle) error
	req  any // of one that writes
}

// logCalls returns every method, each with a request that the store would accept
// after prepareCalls.
func logCalls() []logCall {
	var calls []logCall
	for _, w := range []struct {
		name string
		req  any
	}{
		{"RegisterEventTypes", types(eventlog.EventType{ID: "unseen", Schema: []byte(`true`)})},
		{"RegisterConstraints", eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: []eventlog.Constraint{unique("unseen")}}},
		{"AppendEvents", eventlog.AppendEvents{Sequence: orders, Events: []eventlog.Event{note("unseen", `1`)}}},
		{"AppendWithReceipt", effect("unseen", note("unseen", `2`))},
		{"RecordEffect", outcomeOnly("unseen too", "refused")},
		{"ClaimObserver", eventlog.ClaimObserver{Key: eventlog.ObserverKey{Sequence: orders, Name: "unseen"}, Holder: "one"}},
		{"SaveObserver", eventlog.SaveObserver{Key: mailer, Fence: 1, Next: 12, Partitions: []eventlog.PartitionProgress{failed("unseen", 3, "x")}}},
		{"RetryPartition", eventlog.RetryPartition{Key: mailer, Source: "q", Operator: "op"}},
		{"ReplayObserver", eventlog.ReplayObserver{Key: mailer, From: 1}},
		{"DropNamespace", shop},
	} {
		calls = append(calls, logCall{w.name, func(ctx context.Context, hd *handle) error { return askLog(ctx, hd, w.req).err }, w.req})
	}
	return append(calls,
		logCall{"ReadDefinitions", func(ctx context.Context, hd *handle) error {
			_, err := hd.events.ReadDefinitions(ctx, shop.EventStore)
			return err
		}, nil},
		logCall{"ReadEvents", func(ctx context.Context, hd *handle) error {
			_, err := hd.events.ReadEvents(ctx, eventlog.ReadEvents{Sequence: orders})
			return err
		}, nil},
		logCall{"ReadTail", func(ctx context.Context, hd *handle) error {
			_, err := hd.events.ReadTail(ctx, eventlog.ReadTail{Sequence: orders})
			return err
		}, nil},
		logCall{"AwaitEvents", func(ctx context.Context, hd *handle) error {
			return hd.events.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders})
		}, nil},
		logCall{"ReadReceipt", func(ctx context.Context, hd *handle) error {
			_, err := hd.receipts.ReadReceipt(ctx, effect("there").Key())
			return err
		}, nil},
		logCall{"ListReceipts", func(ctx context.Context, hd *handle) error {
			_, err := hd.receipts.ListReceipts(ctx, receipt.ListReceipts{Namespace: shop, Occurrences: []string{"there"}})
			return err
		}, nil},
		logCall{"ReadObserver", func(ctx context.Context, hd *handle) error {
			_, err := hd.observers.ReadObserver(ctx, mailer)
			return err
		}, nil},
		logCall{"ReadPartitions", func(ctx context.Context, hd *handle) error {
			_, err := hd.observers.ReadPartitions(ctx, eventlog.ReadPartitions{Key: mailer})
			return err
		}, nil},
	)
}

// prepareCalls makes the store such that logCalls would succeed.
func (s *logSession) prepareCalls() {
	s.Helper()
	s.send(appended, effect("there", notes(2)...))
	s.claim(claimed, "one", 0)
	for range 11 {
		s.exchangeOnly(saved, eventlog.SaveObserver{Key: mailer, Fence: 1, Next: 10, Partitions: []eventlog.PartitionProgress{failed("q", 3, "x")}})
	}
	for _, c := range logCalls() { // what they would leave must be looked for
		if c.req != nil {
			s.remember(c.req)
		}
	}
	s.sameAll("before the calls")
}
