package store_test

import (
	"context"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
)

// An owner's commit and an append with its receipt are one transaction.
func ExampleAtomically_join() {
	ctx := context.Background()
	db := memory.New()
	_, err := db.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "paid", Schema: []byte(`true`)}}})
	if err == nil {
		_, err = db.CreateOwner(ctx, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	var committed durable.Committed
	var recorded receipt.Result
	err = store.Atomically(ctx, db, func(ctx context.Context, tx store.Backend) error {
		var err error
		committed, err = tx.CommitOwner(ctx, durable.Commit{
			Owner: "order-42", Inbox: durable.Inbox{ID: "message-1", Fingerprint: []byte("sum")},
			State: durable.Append(durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte("paid")}),
		})
		if err != nil {
			return err
		}
		recorded, err = tx.AppendWithReceipt(ctx, receipt.AppendWithReceipt{
			AppendEvents: eventlog.AppendEvents{
				Sequence: eventlog.Log(countersign.Namespace{EventStore: "shop", Name: "europe"}),
				Events:   []eventlog.Event{{Type: "paid", Source: "order-42", Content: []byte(`{}`)}},
			},
			Occurrence: "message-1", Effect: "paid",
		})
		return err
	})
	fmt.Println(err, committed.AckSafe(), recorded.AckSafe(), recorded.Receipt.Outcome)
	// Output:
	// <nil> true true appended
}
