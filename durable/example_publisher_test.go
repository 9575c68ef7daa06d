package durable_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

// publishPending publishes what an owner has in its outbox, and records that it
// did. A crash between the two publishes an effect again, under the same id: the
// receiver deduplicates by that.
func publishPending(ctx context.Context, db durable.Store, owner string, publish func(id string, body []byte) error) error {
	for cursor := (durable.ReadPending{Owner: owner}); ; {
		page, err := db.ReadPending(ctx, cursor)
		if err != nil || len(page) == 0 {
			return err
		}
		head, err := db.LoadOwner(ctx, durable.LoadOwner{Owner: owner, Parts: &durable.Parts{}})
		if err != nil {
			return err
		}
		for _, effect := range page {
			if err := publish(effect.ID, effect.Payload.Bytes); err != nil {
				return err // it stays pending
			}
			_, err := db.RecordReceipt(ctx, durable.RecordReceipt{
				Owner: owner,
				Fence: head.Fence,
				Receipt: durable.TerminalReceipt{
					ID: effect.ID, EffectID: effect.ID, Outcome: durable.Applied,
					Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 1},
				},
			})
			// Someone else was first, or has the owner now: the effect is not lost.
			if err != nil && !errors.Is(err, countersign.ErrRefused) {
				return err
			}
			cursor.AfterAccepted, cursor.AfterID = effect.AcceptedAt, effect.ID
		}
	}
}

// A publisher pages through the pending effects, publishes each under its id and
// records how it ended.
func Example_publisher() {
	ctx := context.Background()
	db := memory.New()
	if _, err := db.CreateOwner(ctx, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory}); err != nil {
		log.Fatal(err)
	}
	text := func(s string) durable.Payload {
		return durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(s)}
	}
	if _, err := db.CommitOwner(ctx, durable.Commit{
		Owner:   "order-42",
		Inbox:   durable.Inbox{ID: "message-1", Fingerprint: []byte("sum")},
		State:   durable.Append(text("placed")),
		Effects: []durable.Intent{{ID: "confirm/order-42", Payload: text("thank you")}, {ID: "invoice/order-42", Payload: text("24.00")}},
	}); err != nil {
		log.Fatal(err)
	}
	publish := func(id string, body []byte) error {
		fmt.Printf("%s: %s\n", id, body)
		return nil
	}
	for range 2 { // the second time there is nothing left to publish
		if err := publishPending(ctx, db, "order-42", publish); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// confirm/order-42: thank you
	// invoice/order-42: 24.00
}
