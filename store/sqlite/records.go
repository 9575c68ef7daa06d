package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// The tables are STRICT, so a column has the type that its reader expects; what
// a schema can't promise (a mode, a version) is checked where it matters.

func headOf(id, mode, position, fence driver.Value) (durable.Head, error) {
	head := durable.Head{Owner: id.(string), Position: uint64(position.(int64)), Fence: uint64(fence.(int64))}
	switch mode.(int64) {
	case 1:
		head.Mode = durable.EventHistory
	case 2:
		head.Mode = durable.Snapshot
	default:
		return head, &store.UnusableError{Reason: fmt.Sprintf("owner %q has the unknown mode %d", head.Owner, mode)}
	}
	return head, nil
}

func modeNumber(m durable.Mode) (int64, error) {
	switch m {
	case durable.EventHistory:
		return 1, nil
	case durable.Snapshot:
		return 2, nil
	}
	return 0, &store.UnusableError{Reason: fmt.Sprintf("unknown mode %q", m)}
}

// payloadOf reads schema_version, codec_version, bytes.
func payloadOf(v []driver.Value) durable.Payload {
	return durable.Payload{SchemaVersion: uint32(v[0].(int64)), CodecVersion: uint32(v[1].(int64)), Bytes: bytesOf(v[2])}
}

// recordOf reads position and a payload.
func recordOf(v []driver.Value) durable.Record {
	return durable.Record{Position: uint64(v[0].(int64)), Payload: payloadOf(v[1:])}
}

// inboxOf reads inbox_id, fingerprint, committed_through.
func inboxOf(v []driver.Value) durable.InboxRecord {
	return durable.InboxRecord{ID: v[0].(string), Fingerprint: bytesOf(v[1]), CommittedThrough: uint64(v[2].(int64))}
}

// effectOf reads effect_id, accepted_at and a payload.
func effectOf(v []driver.Value) durable.Effect {
	return durable.Effect{ID: v[0].(string), AcceptedAt: uint64(v[1].(int64)), Payload: payloadOf(v[2:])}
}

// receiptOfRow reads receipt_id, effect_id, outcome, recorded_at, fence and a payload.
func receiptOfRow(v []driver.Value) durable.Receipt {
	return durable.Receipt{
		ID: v[0].(string), EffectID: v[1].(string), Outcome: durable.Outcome(v[2].(string)),
		RecordedAt: uint64(v[3].(int64)), Fence: uint64(v[4].(int64)), Payload: payloadOf(v[5:]),
	}
}

// bytesOf returns bytes that are never nil: drivers give nil for empty ones.
func bytesOf(v driver.Value) []byte {
	b, _ := v.([]byte)
	if b == nil {
		return []byte{}
	}
	return b
}

// blob is bytesOf for arguments: a nil slice would be bound as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
