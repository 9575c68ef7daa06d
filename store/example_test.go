package store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
)

// Two owners move together, or not at all. What the body is told is provisional
// until the transaction has committed.
func ExampleAtomically() {
	ctx := context.Background()
	db := memory.New()
	for _, owner := range []string{"account-1", "account-2"} {
		if _, err := db.CreateOwner(ctx, durable.CreateOwner{Owner: owner, Mode: durable.EventHistory}); err != nil {
			log.Fatal(err)
		}
	}
	transfer := func(owner, change string) durable.Commit {
		return durable.Commit{
			Owner: owner,
			Inbox: durable.Inbox{ID: "transfer-7"},
			State: durable.Append(durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(change)}),
		}
	}
	var out, in durable.Committed
	err := store.Atomically(ctx, db, func(ctx context.Context, tx store.Backend) (err error) {
		if out, err = tx.CommitOwner(ctx, transfer("account-1", "-5")); err != nil {
			return err
		}
		in, err = tx.CommitOwner(ctx, transfer("account-2", "+5"))
		fmt.Println("inside, safe to acknowledge:", out.AckSafe() || in.AckSafe())
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("after it, safe to acknowledge:", out.AckSafe() && in.AckSafe())
	// Output:
	// inside, safe to acknowledge: false
	// after it, safe to acknowledge: true
}
