package durable

import (
	"fmt"

	"github.com/countersign/countersign"
)

// A Completeness says what a fingerprint proves.
type Completeness string

const (
	CompleteHistory Completeness = "complete_history"  // every record from 1 to the frontier
	SnapshotState   Completeness = "snapshot_state"    // the state at the frontier, not how it came about
	LatestStateOnly Completeness = "latest_state_only" // a state from which older ones may be missing
)

// fingerprint is what the three types of fingerprint have in common.
type fingerprint struct {
	owner        string
	completeness Completeness
	frontier     uint64
	version      Version
	source       Digest
	projection   Digest
}

// Owner returns the owner's id.
func (f fingerprint) Owner() string { return f.owner }

// Completeness returns what the fingerprint proves.
func (f fingerprint) Completeness() Completeness { return f.completeness }

// Frontier returns the position up to which the fingerprint speaks.
func (f fingerprint) Frontier() uint64 { return f.frontier }

// Version returns the versions of the projection's payload.
func (f fingerprint) Version() Version { return f.version }

// SourceDigest returns the digest of what the projection was made from, without
// the owner's id: equal sources of two owners have equal source digests.
func (f fingerprint) SourceDigest() Digest { return f.source }

// ProjectionDigest returns the digest of the projection's bytes and versions.
// Equal projections of unequal sources have equal projection digests.
func (f fingerprint) ProjectionDigest() Digest { return f.projection }

// Digest returns the digest of everything that the fingerprint binds: owner,
// completeness, frontier, versions, source and projection. Of the zero value,
// which is no evidence, it is the zero Digest.
func (f fingerprint) Digest() Digest {
	if !f.Valid() {
		return Digest{}
	}
	e := newEncoding(fingerprintTag)
	e.bytes([]byte(f.owner))
	e.bytes([]byte(f.completeness))
	e.integer(f.frontier)
	e.integer(uint64(f.version.Schema))
	e.integer(uint64(f.version.Codec))
	e.bytes(f.source[:])
	e.bytes(f.projection[:])
	return e.digest()
}

// Valid reports whether the fingerprint came from its constructor. The zero
// value did not, and is no evidence.
func (f fingerprint) Valid() bool { return f.owner != "" }

// The marks make the three types differ in their fields. Without them Go would
// convert one into another.
type (
	historyMark  struct{}
	snapshotMark struct{}
	latestMark   struct{}
)

// A HistoryFingerprint is evidence of a complete history and of a projection of
// it. It comes from [FingerprintHistory] or a [HistoryHasher] and from nowhere
// else, so where one is asked for, the compiler refuses evidence of a snapshot
// or of a latest state. The zero value is no evidence.
type HistoryFingerprint struct {
	_ historyMark
	fingerprint
}

// A SnapshotFingerprint is evidence of the state of a [Snapshot] owner. It
// comes from [FingerprintSnapshot]. The zero value is no evidence.
type SnapshotFingerprint struct {
	_ snapshotMark
	fingerprint
}

// A LatestFingerprint is evidence of a latest state, from which intermediate
// ones may be missing. It comes from [FingerprintLatest]. The zero value is no
// evidence.
type LatestFingerprint struct {
	_ latestMark
	fingerprint
}

// FingerprintHistory returns the fingerprint of a complete history, the records
// at 1 to n in position order, and of a projection of it. The frontier is n; an
// empty history has frontier 0. It proves that nothing is missing up to the
// frontier, not that the owner stands there.
//
// A history with a gap, a repeat, or a record that no store accepts is a
// [*CorruptImageError]. A malformed owner id or projection is a
// [*countersign.MalformedError] or a [*countersign.LimitError]. For a history
// that is read in pages use a [HistoryHasher].
func FingerprintHistory(owner string, history []Record, projection Payload) (HistoryFingerprint, error) {
	h, err := NewHistoryHasher(owner)
	if err != nil {
		return HistoryFingerprint{}, err
	}
	if err := h.Add(history...); err != nil {
		return HistoryFingerprint{}, err
	}
	return h.Fingerprint(projection)
}

// FingerprintSnapshot returns the fingerprint of a [Snapshot] owner's state and
// of a projection of it. The frontier is the snapshot's position.
//
// A snapshot at position 0, where no owner has one, and one that no store
// accepts are a [*CorruptImageError]. A malformed owner id or projection is a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func FingerprintSnapshot(owner string, snapshot Record, projection Payload) (SnapshotFingerprint, error) {
	if err := CheckOwner(owner); err != nil {
		return SnapshotFingerprint{}, err
	}
	if snapshot.Position == 0 || snapshot.Position > countersign.MaxInteger {
		return SnapshotFingerprint{}, &CorruptImageError{Owner: owner, Reason: SnapshotPosition,
			Detail: fmt.Sprintf("the snapshot stands at %d", snapshot.Position)}
	}
	if err := snapshot.Payload.Check("payload"); err != nil {
		return SnapshotFingerprint{}, &CorruptImageError{Owner: owner, Reason: CorruptPayload, Detail: fmt.Sprintf("snapshot: %v", err)}
	}
	source := newEncoding(snapshotSourceTag)
	source.record(snapshot)
	f, err := newFingerprint(owner, SnapshotState, snapshot.Position, source.digest(), projection)
	return SnapshotFingerprint{fingerprint: f}, err
}

// FingerprintLatest returns the fingerprint of a latest state, whatever it
// superseded, that claims to stand at a position. The latest state is both the
// source and the projection. Its source digest does not bind the position, so
// equal states that were reached at two positions have equal source digests;
// [LatestFingerprint.Digest] does.
//
// A malformed argument is a [*countersign.MalformedError] or a
// [*countersign.LimitError].
func FingerprintLatest(owner string, position uint64, latest Payload) (LatestFingerprint, error) {
	if err := CheckOwner(owner); err != nil {
		return LatestFingerprint{}, err
	}
	if err := countersign.CheckInteger("position", position); err != nil {
		return LatestFingerprint{}, err
	}
	if err := latest.Check("latest state"); err != nil {
		return LatestFingerprint{}, err
	}
	source := newEncoding(latestSourceTag)
	source.payload(latest)
	f, err := newFingerprint(owner, LatestStateOnly, position, source.digest(), latest)
	return LatestFingerprint{fingerprint: f}, err
}

func newFingerprint(owner string, c Completeness, frontier uint64, source Digest, projection Payload) (fingerprint, error) {
	if err := projection.Check("projection"); err != nil {
		return fingerprint{}, err
	}
	e := newEncoding(projectionTag)
	e.payload(projection)
	return fingerprint{
		owner: owner, completeness: c, frontier: frontier, version: projection.Version(),
		source: source, projection: e.digest(),
	}, nil
}
