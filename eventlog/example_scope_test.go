package eventlog_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store/memory"
)

// A scope protects what a decision was made on: here, that nothing has happened to
// the order since it was read.
func ExampleScope() {
	ctx := context.Background()
	db := memory.New()
	if _, err := db.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "changed", Schema: []byte(`true`)}}}); err != nil {
		fmt.Println(err)
		return
	}
	orders := eventlog.NewClient(db, eventlog.Log(countersign.Namespace{EventStore: "shop", Name: "europe"}))
	changed := eventlog.Event{Type: "changed", Source: "order-42", Content: []byte(`{}`)}

	tail, err := orders.Tail(ctx, eventlog.Filter{Source: "order-42"})
	if err != nil {
		fmt.Println(err)
		return
	}
	unchanged := eventlog.Scope{Source: "order-42", Expected: tail.Expected()}
	for range 2 {
		_, err := orders.Append(ctx, changed, unchanged)
		fmt.Println(err == nil, errors.Is(err, countersign.ErrConflict))
	}
	// Output:
	// true false
	// false true
}
