package durable

import "cmp"

// A Record is an event or a snapshot at the position it was assigned.
type Record struct {
	Position uint64
	Payload  Payload
}

// An InboxRecord is a completed delivery: its identity, the fingerprint it came
// with, and the position after the commit that completed it.
type InboxRecord struct {
	ID               string
	Fingerprint      []byte
	CommittedThrough uint64
}

// An Effect is an intent in the outbox. AcceptedAt is the position after the
// commit that first carried it.
type Effect struct {
	ID         string
	AcceptedAt uint64
	Payload    Payload
}

// A Receipt is a recorded terminal receipt. RecordedAt is the owner's position
// when it was recorded, Fence the fence in force then.
type Receipt struct {
	ID         string
	EffectID   string
	Outcome    Outcome
	RecordedAt uint64
	Fence      uint64
	Payload    Payload
}

// An Image is what a store holds of one owner, from one transaction-consistent
// read. A complete image has every part; a partial one, which has Partial set,
// has the parts that the request named.
//
// The caller owns the image: no store keeps a reference to it. Pending may
// share payload bytes with Outbox of the same image. A part without records is
// nil or empty, whichever the store gives.
type Image struct {
	Head
	Partial  bool
	History  []Record      // in position order
	Snapshot *Record       // nil: none
	Inbox    []InboxRecord // sorted by id, byte by byte
	Outbox   []Effect      // sorted by id, byte by byte
	Receipts []Receipt     // sorted by id, byte by byte
	Pending  []Effect      // effects without a receipt, by AcceptedAt and then id
}

// ComparePending orders pending effects: by AcceptedAt, then by id, byte by byte.
func ComparePending(a, b Effect) int {
	return cmp.Or(cmp.Compare(a.AcceptedAt, b.AcceptedAt), cmp.Compare(a.ID, b.ID))
}

// Clone returns a record that shares no memory with r.
func (r Record) Clone() Record {
	r.Payload = r.Payload.Clone()
	return r
}

// Clone returns a record that shares no memory with r. Its fingerprint is never nil.
func (r InboxRecord) Clone() InboxRecord {
	r.Fingerprint = append([]byte{}, r.Fingerprint...)
	return r
}

// Clone returns an effect that shares no memory with e.
func (e Effect) Clone() Effect {
	e.Payload = e.Payload.Clone()
	return e
}

// Clone returns a receipt that shares no memory with r.
func (r Receipt) Clone() Receipt {
	r.Payload = r.Payload.Clone()
	return r
}
