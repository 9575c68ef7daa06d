package receipt_test

import (
	"context"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store/memory"
)

// An effect runs until one attempt of it is committed. Every attempt then gets that
// one's outcome.
func ExampleOnce() {
	ctx := context.Background()
	db := memory.New()
	_, err := db.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{
		{ID: "invoice-created", Schema: []byte(`{"type":"object","required":["number"]}`)},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	effect := receipt.Effect{
		Key:   receipt.Key{Namespace: countersign.Namespace{EventStore: "shop", Name: "europe"}, Occurrence: "order-42", Effect: "invoice-created"},
		Epoch: 1, // of the lease
	}
	for attempt := range 2 {
		out, err := receipt.Once(ctx, db, effect, func(context.Context) (receipt.Proposal, error) {
			number := fmt.Appendf(nil, `{"number":%d}`, 100+attempt) // each attempt would take another one
			return receipt.Proposal{
				Events:   []eventlog.Event{{Type: "invoice-created", Source: "order-42", Content: number}},
				Response: number,
			}, nil
		})
		fmt.Println(out.Receipt.Outcome, string(out.Receipt.Response), out.AlreadyRecorded, err)
	}
	// Output:
	// appended {"number":100} false <nil>
	// appended {"number":100} true <nil>
}
