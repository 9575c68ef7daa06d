package durable_test

import (
	"fmt"

	"github.com/countersign/countersign/durable"
)

// A projection goes on from its checkpoint with the steps after it.
func ExampleProject() {
	start := durable.Checkpoint{}
	monday, err := durable.Project(start, []durable.Step{
		{Position: 1, Fact: &durable.Fact{Type: durable.Create, EntityID: "shelf-1", Value: "12 cups"}},
		{Position: 2}, // an event that says nothing to this projection
		{Position: 3, Fact: &durable.Fact{Type: durable.Create, EntityID: "shelf-2", Value: "3 jugs"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", monday)
	tuesday, err := durable.Project(monday, []durable.Step{
		{Position: 4, Fact: &durable.Fact{Type: durable.Amend, EntityID: "shelf-1", Value: "11 cups"}},
		{Position: 5, Fact: &durable.Fact{Type: durable.Retract, EntityID: "shelf-2"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", tuesday)
	_, err = durable.Project(tuesday, []durable.Step{{Position: 7}})
	fmt.Println(err)
	// Output:
	// {Through:3 ProjectionVersion:2 Entries:[{EntityID:shelf-1 Value:12 cups} {EntityID:shelf-2 Value:3 jugs}]}
	// {Through:5 ProjectionVersion:4 Entries:[{EntityID:shelf-1 Value:11 cups}]}
	// durable: position 7 can't be projected (gap): the next position is 6
}
