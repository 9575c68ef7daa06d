package sqlite

// logStatements are the texts of the event log, the receipts and the observers.
type logStatements struct {
	prefix string

	sequences, claimsByOwner, claimsByValue, receipts *rowsStatement // what appends touch

	insertSequences, moveSequences, insertEvents, insertTags, deleteClaims,
	insertClaims, insertReceipts *rowsStatement // what they write

	eventStore, definitions, putEventStore string
	putDefinitions                         *rowsStatement

	moveIndex, clearClaims, changes string

	receiptsOf *rowsStatement

	observer, putObserver, partitionsAfter, duePartitions string
	partitions, deletePartitions, putPartitions           *rowsStatement

	drop []string // of a namespace, in this order
}

const (
	receiptColumns   = `r.event_store, r.namespace, r.occurrence, r.effect, r.outcome, r.sequence, r.first, r.last, r.reasons, r.epoch, r.recorded_at, r.response`
	partitionColumns = `p.source, p.next, p.replay_before, p.attempts, p.quarantined, p.retry_at, p.last_error, p.operator, p.operator_at`
)

func newLogStatements(prefix string) *logStatements {
	over := func(columns int, pattern string) *rowsStatement { return overRows(pattern, prefix, columns) }
	text := func(sql string) string { return withPrefix(sql, prefix) }
	return &logStatements{
		prefix: prefix,

		sequences: over(3, `WITH want (event_store, namespace, name) AS (VALUES {rows})
			SELECT want.event_store, want.namespace, want.name, e.revision, e.constraints,
				s.sequence_key, s.next, s.indexed, s.building, s.through
			FROM want LEFT JOIN {p}event_stores e ON e.event_store = want.event_store
			LEFT JOIN {p}sequences s ON s.event_store = want.event_store AND s.namespace = want.namespace AND s.name = want.name`),
		claimsByOwner: over(3, `WITH want (k, i, source) AS (VALUES {rows})
			SELECT c.sequence_key, c.index_key, c.source, c.value_key, c.number
			FROM want CROSS JOIN {p}claims c ON c.sequence_key = want.k AND c.index_key = want.i AND c.source = want.source`),
		claimsByValue: over(3, `WITH want (k, i, value) AS (VALUES {rows})
			SELECT c.sequence_key, c.index_key, c.source, c.value_key, c.number
			FROM want CROSS JOIN {p}claims c ON c.sequence_key = want.k AND c.index_key = want.i AND c.value_key = want.value`),
		receipts: over(4, `WITH want (event_store, namespace, occurrence, effect) AS (VALUES {rows})
			SELECT `+receiptColumns+` FROM want CROSS JOIN {p}effect_receipts r
			ON r.event_store = want.event_store AND r.namespace = want.namespace AND r.occurrence = want.occurrence AND r.effect = want.effect`),

		insertSequences: over(5, `INSERT OR FAIL INTO {p}sequences (event_store, namespace, name, next, indexed, building, through)
			SELECT column1, column2, column3, column4, column5, 0, 0 FROM (VALUES {rows}) WHERE true
			RETURNING sequence_key, event_store, namespace, name`),
		moveSequences: over(2, `WITH to_do (k, next) AS (VALUES {rows})
			UPDATE {p}sequences SET next = to_do.next FROM to_do WHERE sequence_key = to_do.k`),
		insertEvents: over(15, `INSERT OR FAIL INTO {p}events (sequence_key, number, type, generation, source, source_type, stream_type,
			stream_id, subject, tags, content, occurred, correlation_id, causation_id, caused_by) VALUES {rows}`),
		insertTags:   over(3, `INSERT OR FAIL INTO {p}event_tags (sequence_key, tag, number) VALUES {rows}`),
		deleteClaims: over(3, `DELETE FROM {p}claims WHERE (sequence_key, index_key, source) IN (VALUES {rows})`),
		insertClaims: over(5, `INSERT OR FAIL INTO {p}claims (sequence_key, index_key, source, value_key, number) VALUES {rows}`),
		insertReceipts: over(12, `INSERT OR FAIL INTO {p}effect_receipts (event_store, namespace, occurrence, effect, outcome, sequence,
			first, last, reasons, epoch, recorded_at, response) VALUES {rows}`),

		eventStore: text(`SELECT revision, constraints FROM {p}event_stores WHERE event_store = ?`),
		definitions: text(`SELECT kind, name, generation, body FROM {p}definitions
			WHERE event_store = ? ORDER BY kind, name, generation`),
		putEventStore: text(`INSERT INTO {p}event_stores (event_store, revision, constraints) VALUES (?, ?, ?)
			ON CONFLICT (event_store) DO UPDATE SET revision = excluded.revision, constraints = excluded.constraints`),
		putDefinitions: over(5, `INSERT OR FAIL INTO {p}definitions (event_store, kind, name, generation, body) VALUES {rows}
			ON CONFLICT (event_store, kind, name, generation) DO UPDATE SET body = excluded.body`),

		moveIndex: text(`UPDATE {p}sequences SET indexed = ?, building = ?, through = ? WHERE sequence_key = ?`),
		clearClaims: text(`DELETE FROM {p}claims WHERE sequence_key = ?1 AND (index_key, source) IN
			(SELECT index_key, source FROM {p}claims WHERE sequence_key = ?1 LIMIT ?2) RETURNING 1`),
		changes: `SELECT changes()`,

		receiptsOf: over(3, `WITH want (event_store, namespace, occurrence) AS (VALUES {rows})
			SELECT `+receiptColumns+` FROM want CROSS JOIN {p}effect_receipts r
			ON r.event_store = want.event_store AND r.namespace = want.namespace AND r.occurrence = want.occurrence`),

		observer: text(`SELECT observer_key, next, replay_before, fence, holder, lease_until FROM {p}observers
			WHERE event_store = ? AND namespace = ? AND sequence = ? AND name = ?`),
		putObserver: text(`INSERT INTO {p}observers (event_store, namespace, sequence, name, next, replay_before, fence, holder, lease_until)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (event_store, namespace, sequence, name) DO UPDATE SET next = excluded.next, replay_before = excluded.replay_before,
				fence = excluded.fence, holder = excluded.holder, lease_until = excluded.lease_until
			RETURNING observer_key`),
		partitionsAfter: text(`SELECT ` + partitionColumns + ` FROM {p}observer_partitions p
			WHERE p.observer_key = ? AND p.source > ? ORDER BY p.source LIMIT ?`),
		duePartitions: text(`SELECT ` + partitionColumns + ` FROM {p}observer_partitions p INDEXED BY {p}observer_partitions_due
			WHERE p.observer_key = ? AND p.source > ? AND p.retry_at <= ? AND p.quarantined = 0 ORDER BY p.source LIMIT ?`),
		partitions: over(2, `WITH want (k, source) AS (VALUES {rows})
			SELECT `+partitionColumns+` FROM want CROSS JOIN {p}observer_partitions p ON p.observer_key = want.k AND p.source = want.source`),
		deletePartitions: over(2, `DELETE FROM {p}observer_partitions WHERE (observer_key, source) IN (VALUES {rows})`),
		putPartitions: over(10, `INSERT OR FAIL INTO {p}observer_partitions (observer_key, source, next, replay_before, attempts, quarantined,
			retry_at, last_error, operator, operator_at) VALUES {rows}
			ON CONFLICT (observer_key, source) DO UPDATE SET next = excluded.next, replay_before = excluded.replay_before,
				attempts = excluded.attempts, quarantined = excluded.quarantined, retry_at = excluded.retry_at,
				last_error = excluded.last_error, operator = excluded.operator, operator_at = excluded.operator_at`),

		drop: []string{
			text(`DELETE FROM {p}event_tags WHERE sequence_key IN (SELECT sequence_key FROM {p}sequences WHERE event_store = ? AND namespace = ?)`),
			text(`DELETE FROM {p}claims WHERE sequence_key IN (SELECT sequence_key FROM {p}sequences WHERE event_store = ? AND namespace = ?)`),
			text(`DELETE FROM {p}observer_partitions WHERE observer_key IN (SELECT observer_key FROM {p}observers WHERE event_store = ? AND namespace = ?)`),
			text(`DELETE FROM {p}events WHERE sequence_key IN (SELECT sequence_key FROM {p}sequences WHERE event_store = ? AND namespace = ?)`),
			text(`DELETE FROM {p}sequences WHERE event_store = ? AND namespace = ?`),
			text(`DELETE FROM {p}effect_receipts WHERE event_store = ? AND namespace = ?`),
			text(`DELETE FROM {p}observers WHERE event_store = ? AND namespace = ?`),
		},
	}
}
