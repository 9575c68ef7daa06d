package mongo_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store/mongo"
)

// A connection string that can't be read is refused without being quoted, since
// it may contain a password.
func ExampleOpen() {
	_, err := mongo.Open(context.Background(), "mongodb://user:secret@/", nil)
	fmt.Println(errors.Is(err, countersign.ErrMalformed))
	// Output:
	// true
}
