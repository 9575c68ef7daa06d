package postgres

import (
	"strconv"

	"github.com/countersign/countersign/eventlog"
)

// The statements of the event log, the receipts and the observers. What they return
// is the columns of a logRow, or of an event. Conditions on an index stand as a range
// of the index's own columns, in its order: so no other index serves, whatever the
// planner thinks of the tables.

// The kinds of a logRow.
const (
	stateRow int64 = iota + 1 // of the event store: time, revision, constraints
	sequenceRow
	claimRow
	scopeRow
	effectRow
	definitionRow
	observerRow
	partitionRow
	countRow
)

const (
	// The time is the statement's own: it is asked after the lock was granted.
	now = `(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::bigint`

	theSequence = `event_store = $1::text AND namespace = $2::text AND name = $3::text`
	q           = `(SELECT sequence_key FROM q)`
	// The columns of a logRow, from a kind on, that are not there.
	noText  = `, '', '', '', ''`
	noBytes = `, ''::bytea, ''::bytea`
	none2   = `, 0::bigint, 0::bigint`
	none4   = none2 + none2
)

var (
	// The sequence's row comes first, and alone: what is read next must be read from
	// a snapshot that was taken after the lock.
	lockSequence = `SELECT 2::bigint, x.sequence_key, x.next, x.indexed, x.building, x.through, 0::bigint` + noText + noBytes + `
		FROM {s}.sequences x WHERE ` + theSequence + ` LIMIT 1 FOR UPDATE`
	lockFreeSequence = lockSequence + ` SKIP LOCKED`
	insertSequence   = `INSERT INTO {s}.sequences (event_store, namespace, name, next, indexed, building, through)
		VALUES ($1::text, $2::text, $3::text, 0, 0, 0, 0) ON CONFLICT ON CONSTRAINT sequences_name DO NOTHING`
	// Who creates something in a namespace shares this lock, and who drops the
	// namespace has it alone: nothing of it appears while it is dropped.
	lockNamespace       = `SELECT pg_catalog.pg_advisory_xact_lock_shared($1::bigint)`
	lockNamespaceToDrop = `SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)`

	// What appends touch, of the sequence q.
	statePart = `WITH q AS (SELECT sequence_key FROM {s}.sequences WHERE ` + theSequence + `)
		SELECT 1::bigint, ` + now + `, coalesce(pg_catalog.max(d.revision), 0), coalesce(pg_catalog.max(d.constraints), 0), coalesce((SELECT sequence_key FROM q), 0)` + none2 + noText + noBytes + `
		FROM {s}.event_stores d WHERE d.event_store = $1::text`
	timePart        = `SELECT 1::bigint, ` + now + `, 0::bigint` + none4 + noText + noBytes
	claimsOfSources = `SELECT 3::bigint, c.number, 0::bigint` + none4 + `, c.source, '', '', '', c.index_key, c.value
		FROM ({each bytea index_key, text source}) w CROSS JOIN LATERAL (
			SELECT x.* FROM {s}.claims x
			WHERE x.sequence_key = ` + q + ` AND x.index_key = w.index_key AND x.source = w.source LIMIT 1) c`
	claimsOfValues = `SELECT 3::bigint, c.number, 0::bigint` + none4 + `, c.source, '', '', '', c.index_key, c.value
		FROM ({each bytea index_key, bytea value}) w CROSS JOIN LATERAL (
			SELECT x.* FROM {s}.claims x
			WHERE x.sequence_key = ` + q + ` AND x.index_key = w.index_key AND x.value = w.value LIMIT 1) c`
	receiptColumns = `SELECT 5::bigint, r.first, r.last, r.epoch, r.recorded_at` + none2 + `, r.occurrence_id, r.effect, r.outcome, r.sequence, r.reasons, r.response`
	receiptsByKey  = receiptColumns + `
		FROM ({each text occurrence, text effect}) w CROSS JOIN LATERAL (
			SELECT x.* FROM {s}.effect_receipts x
			WHERE x.event_store = $3::text AND x.namespace = $4::text AND x.occurrence_id = w.occurrence AND x.effect = w.effect LIMIT 1) r`
	receiptsOfOccurrences = receiptColumns + `
		FROM ({each text occurrence}) w CROSS JOIN LATERAL (
			SELECT x.* FROM {s}.effect_receipts x
			WHERE x.event_store = $2::text AND x.namespace = $3::text AND x.occurrence_id = w.occurrence AND ($4::text = '' OR x.effect = $4::text)
			OFFSET 0) r`

	// What a group of appends writes.
	moveSequence = `INSERT INTO {s}.sequences AS q (sequence_key, event_store, namespace, name, next, indexed, building, through)
		VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::bigint, $6::bigint, $7::bigint, $8::bigint)
		ON CONFLICT ON CONSTRAINT sequences_key DO UPDATE SET next = excluded.next, indexed = excluded.indexed,
			building = excluded.building, through = excluded.through`
	insertEvents = `INSERT INTO {s}.events (sequence_key, number, occurred, generation, size, event_type, source, source_type, stream_type, stream_id,
			subject, correlation_id, causation_id, caused_by, tags, content)
		SELECT $16::bigint, w.* FROM ({each bigint number, bigint occurred, bigint generation, bigint size, text event_type, text source, text source_type,
			text stream_type, text stream_id, text subject, text correlation_id, text causation_id, text caused_by, bytea tags, bytea content}) w`
	insertTags = `INSERT INTO {s}.event_tags (sequence_key, tag, number)
		SELECT $3::bigint, w.* FROM ({each bytea tag, bigint number}) w`
	insertClaims = `INSERT INTO {s}.claims (sequence_key, index_key, source, value, number)
		SELECT $5::bigint, w.* FROM ({each bytea index_key, text source, bytea value, bigint number}) w`
	insertReceipts = `INSERT INTO {s}.effect_receipts (event_store, namespace, occurrence_id, effect, outcome, sequence, first, last, epoch, recorded_at, reasons, response)
		SELECT $11::text, $12::text, w.* FROM ({each text occurrence_id, text effect, text outcome, text sequence, bigint first, bigint last,
			bigint epoch, bigint recorded_at, bytea reasons, bytea response}) w`
	notify = `SELECT pg_catalog.pg_notify($1::text, $2::text)`
	// By the rows' places: no plan for this scans the table. It is a statement of its
	// own, since a claim may be freed and made in one group.
	deleteClaims = `DELETE FROM {s}.claims WHERE ctid = ANY (ARRAY(
		SELECT c.ctid FROM ({each bytea index_key, text source}) w CROSS JOIN LATERAL (
			SELECT x.ctid FROM {s}.claims x
			WHERE x.sequence_key = $3::bigint AND x.index_key = w.index_key AND x.source = w.source LIMIT 1) c))`
	deleteSomeClaims = `WITH d AS (DELETE FROM {s}.claims WHERE ctid = ANY (ARRAY(
			SELECT x.ctid FROM {s}.claims x WHERE x.sequence_key = $1::bigint LIMIT (SELECT $2::bigint))) RETURNING 1)
		SELECT 9::bigint, pg_catalog.count(*), 0::bigint` + none4 + noText + noBytes + ` FROM d`

	// Reads of one sequence.
	pagePart = `WITH q AS (SELECT sequence_key, next FROM {s}.sequences WHERE ` + theSequence + `)
		SELECT -1::bigint, next, 0::bigint, '', '', '', '', '', '', '', '', ''` + noBytes + ` FROM q`
	tailPart = `WITH q AS (SELECT sequence_key, next FROM {s}.sequences WHERE ` + theSequence + `)
		SELECT 2::bigint, sequence_key, next` + none4 + noText + noBytes + ` FROM q`

	// Definitions of an event store.
	insertEventStore = `INSERT INTO {s}.event_stores (event_store, revision, constraints) VALUES ($1::text, 0, 0)
		ON CONFLICT ON CONSTRAINT event_stores_id DO NOTHING`
	lockEventStore = `SELECT 1::bigint, 0::bigint, revision, constraints` + none2 + `, 0::bigint` + noText + noBytes + `
		FROM {s}.event_stores WHERE event_store = $1::text FOR UPDATE`
	eventStorePart = `SELECT 1::bigint, 0::bigint, revision, constraints` + none2 + `, 0::bigint` + noText + noBytes + `
		FROM {s}.event_stores WHERE event_store = $1::text`
	definitionsPart = `SELECT 6::bigint, generation, 0::bigint` + none4 + `, kind, name, '', '', body, ''::bytea
		FROM {s}.definitions WHERE event_store = $1::text`
	moveEventStore = `UPDATE {s}.event_stores SET revision = $2::bigint, constraints = $3::bigint WHERE event_store = $1::text`
	putDefinitions = `INSERT INTO {s}.definitions (event_store, kind, name, generation, body)
		SELECT $5::text, w.* FROM ({each text kind, text name, bigint generation, bytea body}) w
		ON CONFLICT ON CONSTRAINT definitions_key DO UPDATE SET body = excluded.body`

	// Observers.
	theObserver     = `event_store = $1::text AND namespace = $2::text AND sequence = $3::text AND name = $4::text`
	observerColumns = `SELECT 7::bigint, x.observer_key, x.next, x.replay_before, x.fence, x.lease_until, ` + now + `, x.holder, '', '', ''` + noBytes
	lockObserver    = observerColumns + ` FROM {s}.observers x WHERE ` + theObserver + ` FOR UPDATE`
	readObserver    = observerColumns + ` FROM {s}.observers x WHERE ` + theObserver
	insertObserver  = `INSERT INTO {s}.observers (event_store, namespace, sequence, name, next, replay_before, fence, lease_until, holder)
		VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::text)`
	moveObserver = `UPDATE {s}.observers SET next = $2::bigint, replay_before = $3::bigint, fence = $4::bigint, lease_until = $5::bigint, holder = $6::text
		WHERE observer_key = $1::bigint`
	theObserverKey   = `(SELECT observer_key FROM {s}.observers WHERE ` + theObserver + `)`
	partitionColumns = `SELECT 8::bigint, p.from_number, p.replay_before, p.attempts, p.quarantined, p.retry_at, p.operator_at, p.source, p.last_error, p.operator, ''` + noBytes
	partitionsByName = partitionColumns + `
		FROM ({each text source}) w CROSS JOIN LATERAL (
			SELECT x.* FROM {s}.observer_partitions x
			WHERE x.observer_key = (SELECT o.observer_key FROM {s}.observers o
				WHERE o.event_store = $2::text AND o.namespace = $3::text AND o.sequence = $4::text AND o.name = $5::text)
			AND x.source = w.source LIMIT 1) p`
	partitionsInOrder = partitionColumns + ` FROM {s}.observer_partitions p
		WHERE p.observer_key = ` + theObserverKey + ` AND p.source > $5::text
			AND ($6::bigint = 0 OR p.quarantined = 0 AND p.retry_at <= CASE WHEN $7::bigint = 0 THEN ` + now + ` ELSE $7::bigint END)
		ORDER BY p.observer_key, p.source LIMIT (SELECT $8::bigint)`
	deletePartitions = `DELETE FROM {s}.observer_partitions WHERE observer_key = $2::bigint AND source IN (SELECT w.source FROM ({each text source}) w)`
	putPartitions    = `INSERT INTO {s}.observer_partitions (observer_key, source, from_number, replay_before, attempts, quarantined, retry_at, operator_at, last_error, operator)
		SELECT $10::bigint, w.* FROM ({each text source, bigint from_number, bigint replay_before, bigint attempts, bigint quarantined, bigint retry_at,
			bigint operator_at, text last_error, text operator}) w
		ON CONFLICT ON CONSTRAINT observer_partitions_source DO UPDATE SET from_number = excluded.from_number, replay_before = excluded.replay_before,
			attempts = excluded.attempts, quarantined = excluded.quarantined, retry_at = excluded.retry_at, operator_at = excluded.operator_at,
			last_error = excluded.last_error, operator = excluded.operator`

	// Dropping a namespace. Its rows are locked first, in the order of their keys.
	lockSequencesToDrop = `SELECT 2::bigint, sequence_key, next` + none4 + noText + noBytes + `
		FROM {s}.sequences WHERE event_store = $1::text AND namespace = $2::text ORDER BY sequence_key FOR UPDATE`
	lockObserversToDrop = `SELECT 7::bigint, observer_key, 0::bigint` + none4 + noText + noBytes + `
		FROM {s}.observers WHERE event_store = $1::text AND namespace = $2::text ORDER BY observer_key FOR UPDATE`
	dropNamespace = `WITH q AS (DELETE FROM {s}.sequences WHERE event_store = $1::text AND namespace = $2::text RETURNING sequence_key, next),
		o AS (DELETE FROM {s}.observers WHERE event_store = $1::text AND namespace = $2::text RETURNING observer_key),
		e AS (DELETE FROM {s}.events WHERE sequence_key IN (SELECT sequence_key FROM q) RETURNING 1),
		t AS (DELETE FROM {s}.event_tags WHERE sequence_key IN (SELECT sequence_key FROM q)),
		c AS (DELETE FROM {s}.claims WHERE sequence_key IN (SELECT sequence_key FROM q)),
		p AS (DELETE FROM {s}.observer_partitions WHERE observer_key IN (SELECT observer_key FROM o)),
		r AS (DELETE FROM {s}.effect_receipts WHERE event_store = $1::text AND namespace = $2::text RETURNING 1)
		SELECT 9::bigint, (SELECT pg_catalog.count(*) FROM q WHERE next <> 0), (SELECT pg_catalog.count(*) FROM e),
			(SELECT pg_catalog.count(*) FROM r), (SELECT pg_catalog.count(*) FROM o)` + none2 + noText + noBytes
)

// A way is the index by which events are looked for.
type way int

const (
	bySource way = iota
	byStream
	byTag
	byType
	byNumber
	bySourceAndTag // by the source, and the tags of what is found
	byStreamAndTag
	ways
)

const (
	// What events must match. In types and tags are arrays, as text; one is the type,
	// or the tag, of a row that is for one of them.
	lookList = `({each bigint i, bigint low, bigint high, text source, text source_type, text stream_type, text stream_id, text types, text tags, text one}) w`
	// The planner takes a CASE for half of the rows. It would take such conditions for
	// very few, and the search for the first of those for work that is worth compiling.
	match = `CASE WHEN w.source || w.source_type || w.stream_type || w.stream_id = '' AND w.types = '{}' THEN true
				ELSE (w.source = '' OR x.source = w.source) AND (w.source_type = '' OR x.source_type = w.source_type)
				AND (w.stream_type = '' OR x.stream_type = w.stream_type) AND (w.stream_id = '' OR x.stream_id = w.stream_id)
				AND (w.types = '{}' OR x.event_type = ANY (w.types::text[])) END`
	withTag = ` AND EXISTS (SELECT 1 FROM {s}.event_tags y
				WHERE y.sequence_key = x.sequence_key AND y.tag = ANY (w.tags::bytea[]) AND y.number = x.number)`
	ofStream     = ` AND x.stream_id <> ''` // as the index says
	eventColumns = `x.number, x.generation, x.occurred, x.event_type, x.source, x.source_type, x.stream_type, x.stream_id,
			x.subject, x.correlation_id, x.causation_id, x.caused_by, x.tags, x.content`
	pageColumns = eventColumns + `, x.size`
)

// found is the query for events by an index of a column, in the order of the index.
// It does not compare the column with a value alone: then the order of the numbers
// would do, and with it another index.
func found(columns, column, value, direction, limit, more string) string {
	within := `x.number >= w.low AND x.number <= w.high`
	order := `x.number` + direction
	if column != "" {
		key := `(` + column + `, x.number)`
		within = key + ` >= (` + value + `, w.low) AND ` + key + ` <= (` + value + `, w.high)`
		order = column + direction + `, ` + order
	}
	return `SELECT ` + columns + ` FROM {s}.events x WHERE x.sequence_key = ` + q + ` AND ` + within + `
			AND ` + match + more + ` ORDER BY ` + order + ` LIMIT ` + limit
}

// foundByTag is found by the index of the tags.
func foundByTag(direction, limit string) string {
	return `SELECT t.number FROM {s}.event_tags t CROSS JOIN LATERAL (
				SELECT 1 FROM {s}.events x WHERE x.sequence_key = t.sequence_key AND x.number = t.number AND ` + match + ` LIMIT 1) x
			WHERE t.sequence_key = ` + q + ` AND (t.tag, t.number) >= (w.one::bytea, w.low) AND (t.tag, t.number) <= (w.one::bytea, w.high)
			ORDER BY t.tag` + direction + `, t.number` + direction + ` LIMIT ` + limit
}

// highestBy are the parts of a query for the highest numbers that match.
var highestBy = [ways]string{
	bySource: highest(found(`x.number`, `x.source`, `w.source`, ` DESC`, `1`, ``)),
	byStream: highest(found(`x.number`, `x.stream_id`, `w.stream_id`, ` DESC`, `1`, ofStream)),
	byTag:    highest(foundByTag(` DESC`, `1`)),
	byType:   highest(found(`x.number`, `x.event_type`, `w.one`, ` DESC`, `1`, ``)),
	byNumber: highest(found(`x.number`, ``, ``, ` DESC`, `1`, ``)),

	bySourceAndTag: highest(found(`x.number`, `x.source`, `w.source`, ` DESC`, `1`, withTag)),
	byStreamAndTag: highest(found(`x.number`, `x.stream_id`, `w.stream_id`, ` DESC`, `1`, ofStream+withTag)),
}

func highest(found string) string {
	return `SELECT 4::bigint, w.i, e.number` + none4 + noText + noBytes + `
		FROM ` + lookList + ` CROSS JOIN LATERAL (
			` + found + `) e`
}

// pageLimit is the parameter behind those of lookList. The planner sees it, and makes
// a plan for each page: one for any limit would be for a tenth of the sequence.
const pageLimit = `$11::bigint`

// pageBy are the parts of a query for a page.
var pageBy = [ways]string{
	bySource: page(found(pageColumns, `x.source`, `w.source`, ``, pageLimit, ``)),
	byStream: page(found(pageColumns, `x.stream_id`, `w.stream_id`, ``, pageLimit, ofStream)),
	byTag: page(`SELECT ` + pageColumns + ` FROM (
				` + foundByTag(``, pageLimit) + `) t CROSS JOIN LATERAL (
				SELECT ` + pageColumns + ` FROM {s}.events x WHERE x.sequence_key = ` + q + ` AND x.number = t.number LIMIT 1) x`),
	byType:   page(found(pageColumns, `x.event_type`, `w.one`, ``, pageLimit, ``)),
	byNumber: page(found(pageColumns, ``, ``, ``, pageLimit, ``)),

	bySourceAndTag: page(found(pageColumns, `x.source`, `w.source`, ``, pageLimit, withTag)),
	byStreamAndTag: page(found(pageColumns, `x.stream_id`, `w.stream_id`, ``, pageLimit, ofStream+withTag)),
}

// page cuts off what goes beyond the bytes of a page, before it is sent. The events
// before it count, so that there is one more than fits.
func page(found string) string {
	return `(SELECT x.number, x.generation::bigint, x.occurred, x.event_type, x.source, x.source_type, x.stream_type, x.stream_id,
			x.subject, x.correlation_id, x.causation_id, x.caused_by, x.tags, x.content FROM (
		SELECT ` + eventColumns + `, pg_catalog.sum(x.size) OVER (ORDER BY x.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes FROM (
			SELECT DISTINCT ON (x.number) ` + eventColumns + `, x.size FROM ` + lookList + ` CROSS JOIN LATERAL (
			` + found + `) x ORDER BY x.number LIMIT ` + pageLimit + `) x) x
		WHERE coalesce(x.bytes, 0) <= ` + strconv.Itoa(eventlog.MaxPageBytes) + `)`
}
