package durable

import (
	"bytes"
	"fmt"

	"github.com/countersign/countersign"
)

// Limits of the contract (durable owner, section 1). They are the same on every
// backend, and input beyond them is refused before anything is read.
const (
	MaxPayloadBytes = 4 << 20   // one payload
	MaxCommitBytes  = 12 << 20  // all payloads, identities and the fingerprint of one commit
	MaxCommitItems  = 1000      // events, effects and receipts of one commit together
	MaxOwnerBytes   = 480       // an owner id, so that ids derived from it fit
	MaxVersion      = 1<<31 - 1 // a schema or codec version
)

// A Version is the pair of versions that a payload carries. They are
// independent: neither defaults, normalises or stands in for the other.
type Version struct {
	Schema uint32
	Codec  uint32
}

// A Payload is opaque bytes under two versions, each from 1 to [MaxVersion].
// Stores return the bytes verbatim. Empty bytes are allowed, and nil is empty.
type Payload struct {
	SchemaVersion uint32
	CodecVersion  uint32
	Bytes         []byte
}

// Version returns both versions.
func (p Payload) Version() Version { return Version{p.SchemaVersion, p.CodecVersion} }

// Equal reports whether both payloads have the same versions and the same
// bytes. A nil and an empty slice are the same bytes.
func (p Payload) Equal(q Payload) bool {
	return p.SchemaVersion == q.SchemaVersion && p.CodecVersion == q.CodecVersion && bytes.Equal(p.Bytes, q.Bytes)
}

// Clone returns a payload that shares no memory with p. Its bytes are never nil.
func (p Payload) Clone() Payload {
	p.Bytes = append([]byte{}, p.Bytes...)
	return p
}

// Check reports the first rule that the payload breaks, as a
// [*countersign.MalformedError] or a [*countersign.LimitError]. The field names
// the payload in the error.
func (p Payload) Check(field string) error {
	switch {
	case p.SchemaVersion < 1 || p.SchemaVersion > MaxVersion:
		return &countersign.MalformedError{Field: field, Reason: fmt.Sprintf("has schema version %d, outside 1 to 2^31-1", p.SchemaVersion)}
	case p.CodecVersion < 1 || p.CodecVersion > MaxVersion:
		return &countersign.MalformedError{Field: field, Reason: fmt.Sprintf("has codec version %d, outside 1 to 2^31-1", p.CodecVersion)}
	case len(p.Bytes) > MaxPayloadBytes:
		return &countersign.LimitError{Field: field, Unit: "bytes", Limit: MaxPayloadBytes, Actual: int64(len(p.Bytes))}
	}
	return nil
}
