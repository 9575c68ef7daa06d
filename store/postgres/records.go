package postgres

import (
	"fmt"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// A kind says which table a row is from.
type kind int32

const (
	headRow kind = iota + 1
	historyRow
	snapshotRow
	inboxRow
	outboxRow
	pendingRow
	receiptRow
	receiptOfRow
)

// A row is what every query of this package returns, so that rows of several
// tables can come from one statement, and so from one snapshot. Columns that a
// kind does not have are zero.
type row struct {
	kind    kind
	key     int64  // the owner's
	id      string // of the record; of a head, the owner's
	ref     string // of a receipt, its effect; of receiptOf, the receipt
	word    string // of a receipt, its outcome
	a, b    int64  // position, fence and the like
	schema  int64  // of a head, its mode
	codec   int64
	payload []byte
}

// columns are the targets of a scan.
func (r *row) columns() []any {
	return []any{&r.kind, &r.key, &r.id, &r.ref, &r.word, &r.a, &r.b, &r.schema, &r.codec, &r.payload}
}

func (r *row) head() (durable.Head, error) {
	head := durable.Head{Owner: r.id, Position: uint64(r.a), Fence: uint64(r.b)}
	switch r.schema {
	case 1:
		head.Mode = durable.EventHistory
	case 2:
		head.Mode = durable.Snapshot
	default:
		return head, &store.UnusableError{Reason: fmt.Sprintf("owner %q has the unknown mode %d", head.Owner, r.schema)}
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

func (r *row) content() durable.Payload {
	return durable.Payload{SchemaVersion: uint32(r.schema), CodecVersion: uint32(r.codec), Bytes: blob(r.payload)}
}

func (r *row) record() durable.Record {
	return durable.Record{Position: uint64(r.a), Payload: r.content()}
}

func (r *row) inbox() durable.InboxRecord {
	return durable.InboxRecord{ID: r.id, Fingerprint: blob(r.payload), CommittedThrough: uint64(r.a)}
}

func (r *row) effect() durable.Effect {
	return durable.Effect{ID: r.id, AcceptedAt: uint64(r.a), Payload: r.content()}
}

func (r *row) receipt() durable.Receipt {
	return durable.Receipt{
		ID: r.id, EffectID: r.ref, Outcome: durable.Outcome(r.word),
		RecordedAt: uint64(r.a), Fence: uint64(r.b), Payload: r.content(),
	}
}

// blob returns bytes that are never nil: as an argument, nil would be NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
