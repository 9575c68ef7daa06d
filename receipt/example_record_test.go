package receipt_test

import (
	"context"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store/memory"
)

// A refusal that is final is recorded, so that a retry is refused for the same
// reason.
func ExampleRecord() {
	ctx := context.Background()
	db := memory.New()
	ns := countersign.Namespace{EventStore: "shop", Name: "europe"}
	refused := receipt.RecordEffect{
		Effect:  receipt.Effect{Key: receipt.Key{Namespace: ns, Occurrence: "order-43", Effect: "invoice-created"}},
		Reasons: []string{"the order is void"},
	}
	if _, err := receipt.Record(ctx, db, refused); err != nil {
		fmt.Println(err)
		return
	}
	all, err := receipt.List(ctx, db, ns, "order-42", "order-43")
	for _, r := range all {
		fmt.Println(r.Key.Occurrence, r.Outcome, r.Reasons, err)
	}
	// Output:
	// order-43 refused [the order is void] <nil>
}
