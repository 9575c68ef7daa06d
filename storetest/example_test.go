package storetest_test

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
	"github.com/countersign/countersign/storetest"
)

// forgetful answers a redelivery with the position where the owner stands now.
type forgetful struct{ *memory.Store }

func (f forgetful) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	res, err := f.Store.CommitOwner(ctx, c)
	if res.Duplicate {
		head, err := f.LoadOwner(ctx, durable.LoadOwner{Owner: c.Owner, Parts: &durable.Parts{}})
		return durable.Committed{Through: head.Position, Duplicate: true}, err
	}
	return res, err
}

// A case is a value. It can be run by itself, and tells what it found.
func ExampleCase_Try() {
	broken := storetest.Harness{New: func(storetest.T) storetest.Opener {
		medium := memory.NewMedium()
		return func(context.Context, storetest.OpenOptions) (storetest.Backend, error) {
			return forgetful{memory.Open(medium)}, nil
		}
	}}
	for _, c := range storetest.Cases() {
		if c.Group != "inbox" {
			continue
		}
		if v := c.Try(context.Background(), broken); v.Failed() {
			fmt.Println(v.Case)
		}
	}
	// Output:
	// inbox/duplicate_keeps_the_first_position
}
