package durable

import (
	"strconv"

	"github.com/countersign/countersign"
)

// A Mode says how an owner keeps its state. It is fixed when the owner is created.
type Mode string

const (
	// EventHistory keeps every accepted event in exact position order.
	EventHistory Mode = "event_history"
	// Snapshot replaces older state and keeps the durable position. It proves
	// the current state, not the complete history.
	Snapshot Mode = "snapshot"
)

// Valid reports whether m is one of the two modes.
func (m Mode) Valid() bool { return m == EventHistory || m == Snapshot }

// A Head is the authority's own row of an owner: where it stands and which
// fence is in force.
type Head struct {
	Owner    string
	Mode     Mode
	Position uint64 // 0 is the empty owner
	Fence    uint64
}

// CheckOwner reports whether id may name an owner: an identity of at most
// [MaxOwnerBytes] bytes. The error is a [*countersign.MalformedError] or a
// [*countersign.LimitError].
func CheckOwner(id string) error {
	return countersign.CheckIdentityWithin("owner id", id, MaxOwnerBytes)
}

// RepairEffectID is the stable identity of the effect that schedules a repair
// of an owner's projection at a frontier: reconcile/<owner>/<position>.
// Scheduling it is an effect intent in an ordinary commit, so scheduling it
// twice adds one effect.
func RepairEffectID(owner string, frontier uint64) string {
	return "reconcile/" + owner + "/" + strconv.FormatUint(frontier, 10)
}
