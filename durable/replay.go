package durable

import (
	"fmt"

	"github.com/countersign/countersign"
)

// SameHistory reports whether both are evidence of the same complete history:
// the same records, with the same versions, at the same positions. Whose they
// are, and what was projected from them, does not matter. Two zero values are
// evidence of nothing: it is false.
func SameHistory(a, b HistoryFingerprint) bool {
	return a.Valid() && b.Valid() && a.source == b.source
}

// CertifyReplay reports why a replay does not prove what was recorded. It
// returns nil only if both are evidence of a complete history and agree in
// everything: owner, frontier, source, versions and projection. What differs is
// a [*ReplayMismatchError]; a zero value is a [*countersign.MalformedError].
func CertifyReplay(recorded, replayed HistoryFingerprint) error {
	if !recorded.Valid() || !replayed.Valid() {
		return &countersign.MalformedError{Field: "history fingerprint", Reason: "is the zero value, which is no evidence"}
	}
	differs := func(what, want, got string) error {
		return &ReplayMismatchError{Owner: recorded.owner, What: what, Recorded: want, Replayed: got}
	}
	switch a, b := recorded.fingerprint, replayed.fingerprint; {
	case a.owner != b.owner:
		return differs("owner", a.owner, b.owner)
	case a.frontier != b.frontier:
		return differs("frontier", fmt.Sprint(a.frontier), fmt.Sprint(b.frontier))
	case a.source != b.source:
		return differs("source digest", a.source.String(), b.source.String())
	case a.version != b.version:
		return differs("projection version", fmt.Sprint(a.version), fmt.Sprint(b.version))
	case a.projection != b.projection:
		return differs("projection digest", a.projection.String(), b.projection.String())
	}
	return nil
}

// ReplayMismatchError says that a replay differs from what was recorded, and in
// what first. It matches [countersign.ErrRefused].
type ReplayMismatchError struct {
	Owner    string // of the recorded fingerprint
	What     string // as in "source digest"
	Recorded string
	Replayed string
}

func (e *ReplayMismatchError) Error() string {
	return fmt.Sprintf("durable: owner %q: the replay's %s is %s, recorded is %s", e.Owner, e.What, e.Replayed, e.Recorded)
}

// Is reports whether target is the error's kind.
func (e *ReplayMismatchError) Is(target error) bool { return target == countersign.ErrRefused }
