package memory_test

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
)

var placed = durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(`{"placed":"order-42"}`)}

// placeOrder is a unit of work: an event, and the mail that follows from it.
var placeOrder = durable.Commit{
	Owner:   "order-42",
	Inbox:   durable.Inbox{ID: "message-1", Fingerprint: []byte("sum of message-1")},
	State:   durable.Append(placed),
	Effects: []durable.Intent{{ID: "mail/order-42", Payload: placed}},
}

func Example() {
	ctx := context.Background()
	db := memory.New()
	if _, err := db.CreateOwner(ctx, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // the message is delivered twice
		res, err := db.CommitOwner(ctx, placeOrder)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("through", res.Through, "duplicate", res.Duplicate, "ack safe", res.AckSafe())
	}
	// Output:
	// through 1 duplicate false ack safe true
	// through 1 duplicate true ack safe true
}

// What was committed through one handle is there for the next one, as it would
// be for another process on one database.
func ExampleOpen() {
	ctx := context.Background()
	medium := memory.NewMedium()
	first := memory.Open(medium)
	err := first.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
		if _, err := tx.CreateOwner(ctx, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory}); err != nil {
			return err
		}
		_, err := tx.CommitOwner(ctx, placeOrder)
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := first.Close(); err != nil {
		fmt.Println(err)
		return
	}

	second := memory.Open(medium)
	img, err := durable.Recover(ctx, second, "order-42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("position", img.Position, "pending", img.Pending[0].ID)
	// Output: position 1 pending mail/order-42
}
