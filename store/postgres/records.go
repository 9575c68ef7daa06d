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

// A logRow is what the queries of the event log, the receipts and the observers
// return, but for those of events. What is in a column depends on the kind.
type logRow struct {
	kind             int64
	a, b, c, d, e, f int64
	s, t, u, v       string
	x, y             []byte
}

func (r *logRow) read(scan scanner) error {
	return scan(&r.kind, &r.a, &r.b, &r.c, &r.d, &r.e, &r.f, &r.s, &r.t, &r.u, &r.v, &r.x, &r.y)
}

// rows makes a query of a statement, of rows of the event log.
func (s *statement) rows(f func(*logRow) error) *statement {
	return s.scans(func(scan scanner) error {
		var r logRow
		if err := r.read(scan); err != nil {
			return err
		}
		return f(&r)
	})
}

// absent returns nil for no bytes: what is absent is stored as none.
func absent(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
