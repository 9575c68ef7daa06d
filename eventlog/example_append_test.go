package eventlog_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store/memory"
)

// Events are judged by schema, constraints and scopes, and appended together.
func Example() {
	ctx := context.Background()
	db := memory.New()
	_, err := db.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{
		{ID: "registered", Schema: []byte(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)},
	}})
	if err == nil {
		_, err = db.RegisterConstraints(ctx, eventlog.RegisterConstraints{EventStore: "shop", Constraints: []eventlog.Constraint{{
			Name: "user name", Kind: eventlog.UniqueValue, IgnoreCase: true,
			Covers: []eventlog.Covered{{Type: "registered", Properties: []string{"name"}}},
		}}})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	users := eventlog.NewClient(db, eventlog.Log(countersign.Namespace{EventStore: "shop", Name: "europe"}))

	res, err := users.Append(ctx, eventlog.Event{Type: "registered", Source: "user-1", Content: []byte(`{"name":"Ann"}`)})
	fmt.Println(res.First, err)

	_, err = users.AppendMany(ctx, []eventlog.Event{
		{Type: "registered", Source: "user-2", Content: []byte(`{"name":"ANN"}`)},
		{Type: "registered", Source: "user-3", Content: []byte(`{"name":7}`)},
	})
	var refused *eventlog.ViolationsError
	if errors.As(err, &refused) {
		for _, v := range refused.Violations {
			fmt.Printf("%d %s %q %q\n", v.Event, v.Kind, v.Pointer, v.Constraint)
		}
	}
	for e, err := range users.Events(ctx, 0, eventlog.Filter{}) {
		fmt.Println(e.Number, e.Source, string(e.Content), err)
	}
	// Output:
	// 0 <nil>
	// 0 unique_value "" "user name"
	// 1 schema "/name" ""
	// 0 user-1 {"name":"Ann"} <nil>
}
