package durable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

// An observed projection is compared with a rebuild. The report repairs
// nothing; the repair is an effect under an identity of its own.
func ExampleReconcile() {
	history := []durable.Step{
		{Position: 1, Fact: &durable.Fact{Type: durable.Create, EntityID: "shelf-1", Value: "12 cups"}},
		{Position: 2, Fact: &durable.Fact{Type: durable.Amend, EntityID: "shelf-1", Value: "11 cups"}},
		{Position: 3, Fact: &durable.Fact{Type: durable.Create, EntityID: "shelf-2", Value: "3 jugs"}},
	}
	observed := durable.Checkpoint{Through: 2, ProjectionVersion: 2, Entries: []durable.Entry{{EntityID: "shelf-1", Value: "12 cups"}}}
	report, err := durable.Reconcile("store-7", durable.Checkpoint{}, history, observed)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Health, "by", report.Lag)
	fmt.Println("where it stands it", report.AtOwnThrough)
	fmt.Println(durable.RepairIntent(report, durable.Payload{SchemaVersion: 1, CodecVersion: 1}).ID)
	// Output:
	// lagging by 1
	// where it stands it differs
	// reconcile/store-7/3
}

// A dry run over a store reads the owner's history in pages and writes nothing.
func ExampleReconcileOwner() {
	ctx := context.Background()
	db := memory.New()
	defer db.Close()
	_, err := db.CreateOwner(ctx, durable.CreateOwner{Owner: "store-7", Mode: durable.EventHistory})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = db.CommitOwner(ctx, durable.Commit{
		Owner: "store-7", Inbox: durable.Inbox{ID: "delivery-1"},
		State: durable.Append(durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte("shelf-1: 12 cups")}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	facts := func(r durable.Record) (*durable.Fact, error) {
		shelf, goods, ok := strings.Cut(string(r.Payload.Bytes), ": ")
		if !ok {
			return nil, errors.New("not a delivery")
		}
		return &durable.Fact{Type: durable.Create, EntityID: shelf, Value: goods}, nil
	}
	observed := func(context.Context) (durable.Checkpoint, error) { // from a read model, say
		return durable.Checkpoint{Through: 1, ProjectionVersion: 1, Entries: []durable.Entry{{EntityID: "shelf-1", Value: "12 cups"}}}, nil
	}
	report, err := durable.ReconcileOwner(ctx, db, "store-7", facts, observed)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Health, "at", report.Frontier)
	// Output:
	// healthy at 1
}
