package receipt

import (
	"bytes"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/internal/jsonvalue"
)

// Limits, the same on every backend.
const (
	MaxResponseBytes = 64 << 10
	MaxReasons       = 100
	MaxReasonsBytes  = 64 << 10 // together
	MaxOccurrences   = 1_000    // of one ListReceipts
)

// A Key is the identity of a receipt. It contains neither the payload nor the
// epoch of the attempt: the first writer wins, whatever it wrote.
type Key struct {
	Namespace  countersign.Namespace
	Occurrence string
	Effect     string // the name of the effect, as in "invoice-created"
}

// Check reports the first rule that the key breaks.
func (k Key) Check() error {
	if err := k.Namespace.Check(); err != nil {
		return err
	}
	if err := countersign.CheckIdentity("occurrence", k.Occurrence); err != nil {
		return err
	}
	return countersign.CheckIdentity("effect key", k.Effect)
}

// An Effect is a key, and the epoch under which an attempt writes it.
type Effect struct {
	Key
	Epoch uint64 // of the lease; 0 where there is none
}

// An Outcome is how an effect ended.
type Outcome string

const (
	Appended Outcome = "appended"  // events were appended
	NoEvents Outcome = "no_events" // it is complete and appended nothing
	Refused  Outcome = "refused"   // an explicit business refusal
)

// A Receipt is the first committed outcome of an effect.
type Receipt struct {
	Key     Key
	Outcome Outcome

	// Of Appended: the sequence, and the numbers of its events, inclusive.
	Sequence    string
	First, Last uint64

	Reasons []string // of Refused: at least one

	Epoch      uint64    // the writer's
	RecordedAt time.Time // the time of the store, in UTC and microseconds
	Response   []byte    // JSON, byte for byte; nil if there is none
}

// Clone returns a copy that shares no memory.
func (r Receipt) Clone() Receipt {
	r.Reasons = slices.Clone(r.Reasons)
	r.Response = bytes.Clone(r.Response)
	return r
}

// checkResponse refuses what is not one JSON value of at most MaxResponseBytes.
// Without a response there is nothing to check.
func checkResponse(response []byte) error {
	switch {
	case len(response) == 0:
		return nil
	case len(response) > MaxResponseBytes:
		return &countersign.LimitError{Field: "response", Unit: "bytes", Limit: MaxResponseBytes, Actual: int64(len(response))}
	}
	if err := jsonvalue.Check(response, jsonvalue.Limits{Depth: MaxResponseBytes}); err != nil {
		return &countersign.MalformedError{Field: "response", Reason: "is not JSON: " + err.Error()}
	}
	return nil
}

func checkReasons(reasons []string) error {
	if n := len(reasons); n == 0 {
		return &countersign.MalformedError{Field: "reasons", Reason: "are none"}
	} else if n > MaxReasons {
		return &countersign.LimitError{Field: "reasons", Unit: "items", Limit: MaxReasons, Actual: int64(n)}
	}
	size := 0
	for i, reason := range reasons {
		if size += len(reason); size > MaxReasonsBytes {
			return &countersign.LimitError{Field: "reasons", Unit: "bytes", Limit: MaxReasonsBytes, Actual: int64(size)}
		}
		if reason == "" || !utf8.ValidString(reason) {
			return &countersign.MalformedError{Field: fmt.Sprintf("reason %d", i), Reason: "is empty or not valid UTF-8"}
		}
	}
	return nil
}
