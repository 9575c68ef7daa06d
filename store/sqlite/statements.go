package sqlite

import "strings"

// maxRows is how many rows one statement takes. A statement is prepared once
// for each number of rows that occurs, so this also bounds how many there are.
const maxRows = 32

// A rowsStatement is a statement over a list of rows: its text for one row, two
// rows, and so on.
type rowsStatement struct {
	columns int
	texts   [maxRows + 1]string // by number of rows
}

// overRows makes the texts. The pattern says with {rows} where the list goes.
func overRows(pattern, prefix string, columns int) *rowsStatement {
	row := "(" + strings.TrimSuffix(strings.Repeat("?,", columns), ",") + ")"
	s := &rowsStatement{columns: columns}
	for n := 1; n <= maxRows; n++ {
		list := strings.TrimSuffix(strings.Repeat(row+",", n), ",")
		s.texts[n] = withPrefix(strings.ReplaceAll(pattern, "{rows}", list), prefix)
	}
	return s
}

// statements are the texts with the store's prefix put in.
type statements struct {
	owners, inbox, effects, receipts, receiptOf *rowsStatement // what a request touches

	insertOwners, moveOwners, insertHistory, putSnapshots, insertInbox,
	insertOutbox, insertReceipts, markReceipted *rowsStatement // what a plan writes

	lock string

	head, historyAfter, allHistory, snapshotAfter, allInbox, allOutbox, allReceipts,
	pendingAfter, allPending string // reads

	log *logStatements
}

func newStatements(prefix string) *statements {
	over := func(columns int, pattern string) *rowsStatement { return overRows(pattern, prefix, columns) }
	text := func(sql string) string { return withPrefix(sql, prefix) }
	return &statements{
		log: newLogStatements(prefix),

		// CROSS JOIN keeps the list on the outside, so that each row is one look-up.
		owners: over(1, `WITH want (id) AS (VALUES {rows})
			SELECT o.owner_id, o.owner_key, o.mode, o.position, o.fence
			FROM want CROSS JOIN {p}owners o ON o.owner_id = want.id`),
		inbox: over(2, `WITH want (k, id) AS (VALUES {rows})
			SELECT i.owner_key, i.inbox_id, i.fingerprint, i.committed_through
			FROM want CROSS JOIN {p}inbox i ON i.owner_key = want.k AND i.inbox_id = want.id`),
		effects: over(2, `WITH want (k, id) AS (VALUES {rows})
			SELECT x.owner_key, x.effect_id, x.accepted_at, x.schema_version, x.codec_version, x.bytes
			FROM want CROSS JOIN {p}outbox x ON x.owner_key = want.k AND x.effect_id = want.id`),
		receipts: over(2, `WITH want (k, id) AS (VALUES {rows})
			SELECT r.owner_key, r.receipt_id, r.effect_id, r.outcome, r.recorded_at, r.fence, r.schema_version, r.codec_version, r.bytes
			FROM want CROSS JOIN {p}receipts r ON r.owner_key = want.k AND r.receipt_id = want.id`),
		receiptOf: over(2, `WITH want (k, id) AS (VALUES {rows})
			SELECT r.owner_key, r.effect_id, r.receipt_id
			FROM want CROSS JOIN {p}receipts r ON r.owner_key = want.k AND r.effect_id = want.id`),

		// OR FAIL: a statement that fails is taken back with its transaction or
		// savepoint, so SQLite need not keep a journal of the statement's own.
		insertOwners: over(4, `INSERT OR FAIL INTO {p}owners (owner_id, mode, position, fence) VALUES {rows}`),
		moveOwners: over(3, `WITH to_do (k, position, fence) AS (VALUES {rows})
			UPDATE {p}owners SET position = to_do.position, fence = to_do.fence FROM to_do WHERE owner_key = to_do.k`),
		insertHistory: over(5, `INSERT OR FAIL INTO {p}history (owner_key, position, schema_version, codec_version, bytes) VALUES {rows}`),
		putSnapshots: over(5, `INSERT OR FAIL INTO {p}snapshots (owner_key, position, schema_version, codec_version, bytes) VALUES {rows}
			ON CONFLICT (owner_key) DO UPDATE SET position = excluded.position, schema_version = excluded.schema_version,
				codec_version = excluded.codec_version, bytes = excluded.bytes`),
		insertInbox:    over(4, `INSERT OR FAIL INTO {p}inbox (owner_key, inbox_id, fingerprint, committed_through) VALUES {rows}`),
		insertOutbox:   over(7, `INSERT OR FAIL INTO {p}outbox (owner_key, effect_id, accepted_at, schema_version, codec_version, bytes, receipt_id) VALUES {rows}`),
		insertReceipts: over(9, `INSERT OR FAIL INTO {p}receipts (owner_key, receipt_id, effect_id, outcome, recorded_at, fence, schema_version, codec_version, bytes) VALUES {rows}`),
		markReceipted: over(3, `WITH to_do (k, effect, receipt) AS (VALUES {rows})
			UPDATE {p}outbox SET receipt_id = to_do.receipt FROM to_do WHERE owner_key = to_do.k AND effect_id = to_do.effect`),

		// A write that changes nothing: it takes the write lock, so that what is
		// read next can't be outdated when it is written.
		lock: text(`UPDATE {p}owners SET fence = fence WHERE owner_key = -1`),

		head: text(`SELECT owner_key, mode, position, fence FROM {p}owners WHERE owner_id = ?`),
		historyAfter: text(`SELECT position, schema_version, codec_version, bytes FROM {p}history
			WHERE owner_key = ? AND position > ? ORDER BY position LIMIT ?`),
		allHistory: text(`SELECT position, schema_version, codec_version, bytes FROM {p}history
			WHERE owner_key = ? ORDER BY position`),
		snapshotAfter: text(`SELECT position, schema_version, codec_version, bytes FROM {p}snapshots
			WHERE owner_key = ? AND position > ?`),
		allInbox: text(`SELECT inbox_id, fingerprint, committed_through FROM {p}inbox
			WHERE owner_key = ? ORDER BY inbox_id`),
		allOutbox: text(`SELECT effect_id, accepted_at, schema_version, codec_version, bytes FROM {p}outbox
			WHERE owner_key = ? ORDER BY effect_id`),
		allReceipts: text(`SELECT receipt_id, effect_id, outcome, recorded_at, fence, schema_version, codec_version, bytes FROM {p}receipts
			WHERE owner_key = ? ORDER BY receipt_id`),
		pendingAfter: text(`SELECT effect_id, accepted_at, schema_version, codec_version, bytes FROM {p}outbox
			WHERE owner_key = ? AND receipt_id IS NULL AND (accepted_at, effect_id) > (?, ?)
			ORDER BY accepted_at, effect_id LIMIT ?`),
		allPending: text(`SELECT effect_id, accepted_at, schema_version, codec_version, bytes FROM {p}outbox
			WHERE owner_key = ? AND receipt_id IS NULL ORDER BY accepted_at, effect_id`),
	}
}
