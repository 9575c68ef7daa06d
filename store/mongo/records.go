package mongo

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The kinds of record. Each is a document of its own in one collection, so that
// nothing grows with history and everything of an owner can stand on one shard.
const (
	headKind     = "head"
	snapshotKind = "snapshot"
	eventKind    = "event"
	inboxKind    = "inbox"
	effectKind   = "effect"
	receiptKind  = "receipt"
)

// separator stands between the parts of a record's _id. No identity contains
// it, so different records never have the same _id (B57). Strings are compared
// byte by byte, so the records of an owner and a kind are ordered by their ids.
const separator = "\x00"

// afterSeparator ends a range of _ids that begin alike.
const afterSeparator = "\x01"

func recordID(owner, kind, id string) string {
	return owner + separator + kind + separator + id
}

// eventID orders positions as strings.
func eventID(owner string, position uint64) string {
	return recordID(owner, eventKind, fixed(position))
}

// pendingKey orders the pending effects of all owners: by owner, then by
// position, then by id.
func pendingKey(owner string, acceptedAt uint64, id string) string {
	return owner + separator + fixed(acceptedAt) + id
}

// fixed is a number in 16 hexadecimal digits.
func fixed(v uint64) string {
	digits := strconv.FormatUint(v, 16)
	return "0000000000000000"[len(digits):] + digits
}

// A document is a record as it is stored. Which fields it has depends on its
// kind; the kind and the id are in the _id.
type document struct {
	ID    string `bson:"_id"`
	Owner string `bson:"owner"` // the shard key

	Mode     string `bson:"mode"`     // head
	Position int64  `bson:"position"` // head, snapshot, event
	Fence    int64  `bson:"fence"`    // head, receipt

	SchemaVersion int64  `bson:"schema_version"` // snapshot, event, effect, receipt
	CodecVersion  int64  `bson:"codec_version"`
	Bytes         []byte `bson:"bytes"`

	Fingerprint      []byte `bson:"fingerprint"` // inbox
	CommittedThrough int64  `bson:"committed_through"`

	AcceptedAt int64  `bson:"accepted_at"` // effect
	Pending    string `bson:"pending"`     // effect: its pendingKey until it has a receipt
	ReceiptID  string `bson:"receipt_id"`  // effect: and then this

	EffectID   string `bson:"effect_id"` // receipt
	Outcome    string `bson:"outcome"`
	RecordedAt int64  `bson:"recorded_at"`
}

// kindAndID takes the _id apart. Only the id can have a separator in it, and only
// in an image that is corrupt.
func (d *document) kindAndID() (kind, id string) {
	kind, id, _ = strings.Cut(strings.TrimPrefix(d.ID, d.Owner+separator), separator)
	return kind, id
}

// check reports a number that no commit can have written.
func (d *document) check() error {
	for _, v := range []int64{d.Position, d.Fence, d.CommittedThrough, d.AcceptedAt, d.RecordedAt, d.SchemaVersion, d.CodecVersion} {
		if v < 0 {
			return &store.UnusableError{Reason: fmt.Sprintf("the record %q has the negative number %d", d.ID, v)}
		}
	}
	if d.SchemaVersion > math.MaxUint32 || d.CodecVersion > math.MaxUint32 {
		return &store.UnusableError{Reason: fmt.Sprintf("the record %q has a version above 2^32", d.ID)}
	}
	return nil
}

func (d *document) head() durable.Head {
	return durable.Head{Owner: d.Owner, Mode: durable.Mode(d.Mode), Position: uint64(d.Position), Fence: uint64(d.Fence)}
}

// payload copies the bytes: the driver's share memory with everything else of
// the same reply.
func (d *document) payload() durable.Payload {
	return durable.Payload{SchemaVersion: uint32(d.SchemaVersion), CodecVersion: uint32(d.CodecVersion), Bytes: copied(d.Bytes)}
}

func (d *document) record() durable.Record {
	return durable.Record{Position: uint64(d.Position), Payload: d.payload()}
}

func (d *document) inbox(id string) durable.InboxRecord {
	return durable.InboxRecord{ID: id, Fingerprint: copied(d.Fingerprint), CommittedThrough: uint64(d.CommittedThrough)}
}

func (d *document) effect(id string) durable.Effect {
	return durable.Effect{ID: id, AcceptedAt: uint64(d.AcceptedAt), Payload: d.payload()}
}

func (d *document) receipt(id string) durable.Receipt {
	return durable.Receipt{
		ID: id, EffectID: d.EffectID, Outcome: durable.Outcome(d.Outcome),
		RecordedAt: uint64(d.RecordedAt), Fence: uint64(d.Fence), Payload: d.payload(),
	}
}

func copied(b []byte) []byte { return append([]byte{}, b...) }

// The same in the other direction. Positions and fences are at most 2^63-1, as
// the rules promise.

func headDocument(h durable.Head) bson.D {
	return bson.D{
		{Key: "_id", Value: recordID(h.Owner, headKind, "")}, {Key: "owner", Value: h.Owner},
		{Key: "mode", Value: string(h.Mode)}, {Key: "position", Value: int64(h.Position)}, {Key: "fence", Value: int64(h.Fence)},
		{Key: "turn", Value: int64(0)},
	}
}

func eventDocument(owner string, r durable.Record) bson.D {
	return withPayload(bson.D{
		{Key: "_id", Value: eventID(owner, r.Position)}, {Key: "owner", Value: owner},
		{Key: "position", Value: int64(r.Position)},
	}, r.Payload)
}

func snapshotDocument(owner string, r durable.Record) bson.D {
	return withPayload(bson.D{
		{Key: "_id", Value: recordID(owner, snapshotKind, "")}, {Key: "owner", Value: owner},
		{Key: "position", Value: int64(r.Position)},
	}, r.Payload)
}

func inboxDocument(owner string, r durable.InboxRecord) bson.D {
	return bson.D{
		{Key: "_id", Value: recordID(owner, inboxKind, r.ID)}, {Key: "owner", Value: owner},
		{Key: "fingerprint", Value: bytesOf(r.Fingerprint)}, {Key: "committed_through", Value: int64(r.CommittedThrough)},
	}
}

// effectDocument is pending if it has no receipt.
func effectDocument(owner string, e durable.Effect, receipt string) bson.D {
	d := bson.D{
		{Key: "_id", Value: recordID(owner, effectKind, e.ID)}, {Key: "owner", Value: owner},
		{Key: "accepted_at", Value: int64(e.AcceptedAt)},
	}
	if receipt == "" {
		d = append(d, bson.E{Key: "pending", Value: pendingKey(owner, e.AcceptedAt, e.ID)})
	} else {
		d = append(d, bson.E{Key: "receipt_id", Value: receipt})
	}
	return withPayload(d, e.Payload)
}

func receiptDocument(owner string, r durable.Receipt) bson.D {
	return withPayload(bson.D{
		{Key: "_id", Value: recordID(owner, receiptKind, r.ID)}, {Key: "owner", Value: owner},
		{Key: "effect_id", Value: r.EffectID}, {Key: "outcome", Value: string(r.Outcome)},
		{Key: "recorded_at", Value: int64(r.RecordedAt)}, {Key: "fence", Value: int64(r.Fence)},
	}, r.Payload)
}

func withPayload(d bson.D, p durable.Payload) bson.D {
	return append(d, bson.E{Key: "schema_version", Value: int64(p.SchemaVersion)},
		bson.E{Key: "codec_version", Value: int64(p.CodecVersion)}, bson.E{Key: "bytes", Value: bytesOf(p.Bytes)})
}

// bytesOf is never nil: a nil slice would be stored as null.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
