package durable

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// A Digest is a SHA-256 sum.
type Digest [sha256.Size]byte

// String returns the digest as 64 lower-case hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// The domain tags. Each digest begins with its own, so that no two kinds of
// input share an encoding.
const (
	historySourceTag  = "countersign/durable-owner/v1/history-source"
	snapshotSourceTag = "countersign/durable-owner/v1/snapshot-source"
	latestSourceTag   = "countersign/durable-owner/v1/latest-source"
	projectionTag     = "countersign/durable-owner/v1/projection"
	fingerprintTag    = "countersign/durable-owner/v1/fingerprint"
)

// An encoding is the hash of a domain tag and of the fields after it. Each is
// preceded by its length, so that the fields can be told apart and no two
// inputs share an encoding. Fields are far shorter than 4 GiB: the callers check
// them against the limits of the contract.
type encoding struct{ hash hash.Hash }

func newEncoding(tag string) encoding {
	e := encoding{sha256.New()}
	e.bytes([]byte(tag))
	return e
}

func (e encoding) bytes(b []byte) {
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(b)))
	e.hash.Write(length[:])
	e.hash.Write(b)
}

func (e encoding) integer(v uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	e.bytes(b[:])
}

func (e encoding) payload(p Payload) {
	e.integer(uint64(p.SchemaVersion))
	e.integer(uint64(p.CodecVersion))
	e.bytes(p.Bytes)
}

// record is a payload after its position: always four fields, so a sequence of
// records needs no count.
func (e encoding) record(r Record) {
	e.integer(r.Position)
	e.payload(r.Payload)
}

// digest returns the sum so far. More fields may follow.
func (e encoding) digest() (d Digest) {
	e.hash.Sum(d[:0])
	return d
}
