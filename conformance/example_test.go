package conformance_test

import (
	"fmt"
	"io/fs"

	"github.com/countersign/countersign/conformance"
)

func ExampleDurableOwner() {
	names, err := fs.Glob(conformance.DurableOwner(), "*.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range names {
		fmt.Println(name)
	}
	// Output:
	// atomic_crash_boundary.json
	// inbox_outbox_deduplication.json
	// ordered_replay.json
	// projection_fingerprint.json
}
