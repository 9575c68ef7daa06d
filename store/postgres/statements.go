package postgres

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Look-ups are LATERAL (… LIMIT 1) over the list of what is wanted, and rows are
// changed by INSERT … ON CONFLICT: both go through an index whatever the planner
// thinks of the tables. A plan that was made when they were empty, and is kept
// with a prepared statement, would scan them when they are large. The first list
// and the limits are sub-selects, so that the planner does not see their size: it
// would find each plan for a small list cheaper than the one it keeps, and plan
// every call anew.

// Each part's parameters are numbered from $1; fuse numbers them anew.
var (
	// The owner's row comes first, and alone: what is read next must be read from
	// a snapshot that was taken after the lock.
	lockPart = `SELECT 1, o.owner_key, o.owner_id, '', '', o.position, o.fence, o.mode::bigint, 0::bigint, ''::bytea
		FROM (` + each("text id") + `) w CROSS JOIN LATERAL (
			SELECT x.owner_key, x.owner_id, x.position, x.fence, x.mode FROM {s}.owners x WHERE x.owner_id = w.id LIMIT 1 FOR UPDATE`
	lockWaiting = lockPart + `) o`
	lockSkipped = lockPart + ` SKIP LOCKED) o`

	insertOwner = `INSERT INTO {s}.owners AS o (owner_id, mode, position, fence) VALUES ($1::text, $2::bigint, 0, $3::bigint)
		ON CONFLICT ON CONSTRAINT owners_id DO NOTHING
		RETURNING 1, o.owner_key, o.owner_id, '', '', o.position, o.fence, o.mode::bigint, 0::bigint, ''::bytea`

	ownerOf = `CROSS JOIN LATERAL (SELECT x.owner_key FROM {s}.owners x WHERE x.owner_id = w.owner LIMIT 1) o
		CROSS JOIN LATERAL `

	// What requests touch, by owner id.
	headsPart = `SELECT 1, o.owner_key, o.owner_id, '', '', o.position, o.fence, o.mode::bigint, 0::bigint, ''::bytea
		FROM (` + each("text id") + `) w CROSS JOIN LATERAL (
			SELECT x.owner_key, x.owner_id, x.position, x.fence, x.mode FROM {s}.owners x WHERE x.owner_id = w.id LIMIT 1) o`
	inboxPart = `SELECT 4, o.owner_key, i.inbox_id, '', '', i.committed_through, 0::bigint, 0::bigint, 0::bigint, i.fingerprint
		FROM (` + each("text owner", "text id") + `) w ` + ownerOf + `(
			SELECT x.inbox_id, x.committed_through, x.fingerprint FROM {s}.inbox x
			WHERE x.owner_key = o.owner_key AND x.inbox_id = w.id LIMIT 1) i`
	effectsPart = `SELECT 5, o.owner_key, e.effect_id, '', '', e.accepted_at, 0::bigint, e.schema_version::bigint, e.codec_version::bigint, e.bytes
		FROM (` + each("text owner", "text id") + `) w ` + ownerOf + `(
			SELECT x.effect_id, x.accepted_at, x.schema_version, x.codec_version, x.bytes FROM {s}.outbox x
			WHERE x.owner_key = o.owner_key AND x.effect_id = w.id LIMIT 1) e`
	receiptsPart = `SELECT 7, o.owner_key, r.receipt_id, r.effect_id, r.outcome, r.recorded_at, r.fence, r.schema_version::bigint, r.codec_version::bigint, r.bytes
		FROM (` + each("text owner", "text id") + `) w ` + ownerOf + `(
			SELECT x.* FROM {s}.receipts x
			WHERE x.owner_key = o.owner_key AND x.receipt_id = w.id LIMIT 1) r`
	receiptOfPart = `SELECT 8, o.owner_key, r.effect_id, r.receipt_id, '', 0::bigint, 0::bigint, 0::bigint, 0::bigint, ''::bytea
		FROM (` + each("text owner", "text id") + `) w ` + ownerOf + `(
			SELECT x.effect_id, x.receipt_id FROM {s}.receipts x
			WHERE x.owner_key = o.owner_key AND x.effect_id = w.id LIMIT 1) r`

	// What a plan writes; {if} is where a condition may stand.
	movePart = `INSERT INTO {s}.owners AS o (owner_key, owner_id, mode, position, fence)
		` + each("bigint", "text", "bigint", "bigint", "bigint") + ` {if}
		ON CONFLICT ON CONSTRAINT owners_key DO UPDATE SET position = excluded.position, fence = excluded.fence`
	historyPart = `INSERT INTO {s}.history (owner_key, position, schema_version, codec_version, bytes)
		` + each("bigint", "bigint", "bigint", "bigint", "bytea") + ` {if}`
	snapshotsPart = `INSERT INTO {s}.snapshots (owner_key, position, schema_version, codec_version, bytes)
		` + each("bigint", "bigint", "bigint", "bigint", "bytea") + ` {if}
		ON CONFLICT ON CONSTRAINT snapshots_owner DO UPDATE SET position = excluded.position,
			schema_version = excluded.schema_version, codec_version = excluded.codec_version, bytes = excluded.bytes`
	insertInboxPart = `INSERT INTO {s}.inbox (owner_key, inbox_id, fingerprint, committed_through)
		` + each("bigint", "text", "bytea", "bigint") + ` {if}`
	insertOutboxPart = `INSERT INTO {s}.outbox (owner_key, effect_id, accepted_at, schema_version, codec_version, bytes, receipt_id)
		SELECT w.k, w.id, w.at, w.schema, w.codec, w.bytes, nullif(w.receipt, '')
		FROM (` + each("bigint k", "text id", "bigint at", "bigint schema", "bigint codec", "bytea bytes", "text receipt") + `) w {if}`
	insertReceiptsPart = `INSERT INTO {s}.receipts (owner_key, receipt_id, effect_id, outcome, recorded_at, fence, schema_version, codec_version, bytes)
		` + each("bigint", "text", "text", "text", "bigint", "bigint", "bigint", "bigint", "bytea") + ` {if}`
	// Effects that were in the outbox before.
	markPart = `INSERT INTO {s}.outbox (owner_key, effect_id, accepted_at, schema_version, codec_version, bytes, receipt_id)
		SELECT w.k, w.id, x.accepted_at, x.schema_version, x.codec_version, '', w.receipt
		FROM (` + each("bigint k", "text id", "text receipt") + `) w CROSS JOIN LATERAL (
			SELECT y.accepted_at, y.schema_version, y.codec_version FROM {s}.outbox y
			WHERE y.owner_key = w.k AND y.effect_id = w.id LIMIT 1) x
		ON CONFLICT ON CONSTRAINT outbox_effect DO UPDATE SET receipt_id = excluded.receipt_id`

	// What a plan rests on that was made without reading first: every owner's row
	// is still what it was taken for, and now it is locked. Somebody else's lock is
	// not waited for. The plan is written under the condition that this holds.
	assumedPart = `locked AS (
			SELECT 1 FROM (` + each("bigint k", "text id", "bigint position", "bigint fence") + `) w CROSS JOIN LATERAL (
				SELECT 1 FROM {s}.owners x
				WHERE x.owner_key = w.k AND x.owner_id = w.id AND x.position = w.position AND x.fence = w.fence LIMIT 1 FOR UPDATE SKIP LOCKED) o
		), held AS MATERIALIZED (SELECT pg_catalog.count(*) = $5::bigint AS every FROM locked)`
	ifAssumed  = `WHERE (SELECT every FROM held)`
	assumedEnd = `SELECT every::integer, 0::bigint, '', '', '', 0::bigint, 0::bigint, 0::bigint, 0::bigint, ''::bytea FROM held`

	// Reads of one owner; $1 is its id, and the parts' own parameters begin at $1
	// again.
	ownerPart = `WITH o AS MATERIALIZED (SELECT owner_key, owner_id, mode, position, fence FROM {s}.owners WHERE owner_id = $1::text)
		SELECT 1, owner_key, owner_id, '', '', position, fence, mode::bigint, 0::bigint, ''::bytea FROM o`
	payloadTail = `, '', '', position, 0::bigint, schema_version::bigint, codec_version::bigint, bytes`
	ofOwner     = ` WHERE owner_key = (SELECT owner_key FROM o)`

	allHistoryPart   = `(SELECT 2, owner_key, ''` + payloadTail + ` FROM {s}.history` + ofOwner + `)`
	historyAfterPart = `(SELECT 2, owner_key, ''` + payloadTail + ` FROM {s}.history` + ofOwner + `
		AND position > (SELECT $1::bigint) ORDER BY position LIMIT (SELECT $2::bigint))`
	snapshotAfterPart = `(SELECT 3, owner_key, ''` + payloadTail + ` FROM {s}.snapshots` + ofOwner + ` AND position > (SELECT $1::bigint))`
	allInboxPart      = `(SELECT 4, owner_key, inbox_id, '', '', committed_through, 0::bigint, 0::bigint, 0::bigint, fingerprint FROM {s}.inbox` + ofOwner + `)`
	namedInboxPart    = `(SELECT 4, i.owner_key, i.inbox_id, '', '', i.committed_through, 0::bigint, 0::bigint, 0::bigint, i.fingerprint
		FROM (` + each("text id") + `) w CROSS JOIN LATERAL (
			SELECT x.* FROM {s}.inbox x WHERE x.owner_key = (SELECT owner_key FROM o) AND x.inbox_id = w.id LIMIT 1) i)`
	effectTail       = `, effect_id, '', '', accepted_at, 0::bigint, schema_version::bigint, codec_version::bigint, bytes`
	allOutboxPart    = `(SELECT CASE WHEN receipt_id IS NULL THEN 6 ELSE 5 END, owner_key` + effectTail + ` FROM {s}.outbox` + ofOwner + `)`
	pendingAfterPart = `(SELECT 6, owner_key` + effectTail + ` FROM {s}.outbox` + ofOwner + `
		AND receipt_id IS NULL AND (accepted_at, effect_id) > ((SELECT $1::bigint), (SELECT $2::text)) ORDER BY accepted_at, effect_id LIMIT (SELECT $3::bigint))`
	allReceiptsPart = `(SELECT 7, owner_key, receipt_id, effect_id, outcome, recorded_at, fence, schema_version::bigint, codec_version::bigint, bytes
		FROM {s}.receipts` + ofOwner + `)`
)

// each selects the rows of a list whose columns are arrays, of types that may be
// followed by a name.
func each(columns ...string) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, column := range columns {
		kind, name, _ := strings.Cut(column, " ")
		switch i {
		case 0:
			b.WriteString("pg_catalog.unnest((SELECT $1::" + kind + "[])) " + name)
		default:
			b.WriteString(", pg_catalog.unnest($" + strconv.Itoa(i+1) + "::" + kind + "[]) " + name)
		}
	}
	return b.String()
}

// statements makes the texts with the store's schema put in.
type statements struct {
	schema string
	fused  sync.Map // of the parts' texts together, the text
}

// text puts the schema in.
func (t *statements) text(sql string, args ...any) *statement {
	return &statement{text: t.cached(sql, func() string { return sql }), args: args}
}

func (t *statements) cached(name string, make func() string) string {
	if text, ok := t.fused.Load(name); ok {
		return text.(string)
	}
	text := inSchema(make(), t.schema)
	t.fused.Store(name, text)
	return text
}

// A part is a piece of a statement with its parameters.
type part struct {
	sql  string
	args []any
}

// union is one query that returns the rows of all parts, from one snapshot.
func (t *statements) union(parts ...part) *statement {
	return t.fuse(parts, func(i int) string {
		if i == 0 {
			return ""
		}
		return "\nUNION ALL "
	}, "")
}

// all is one statement that carries out all parts, in no order: they see nothing
// of each other.
func (t *statements) all(parts ...part) *statement {
	last := len(parts) - 1
	return t.fuse(parts, func(i int) string {
		switch {
		case last == 0:
			return ""
		case i == 0:
			return "WITH p0 AS ("
		case i == last:
			return ")\n"
		default:
			return "),\np" + strconv.Itoa(i) + " AS ("
		}
	}, "")
}

// allIf is [statements.all] under the condition of the first part.
func (t *statements) allIf(assumed part, parts ...part) *statement {
	all := append(append([]part{assumed}, parts...), part{sql: assumedEnd})
	return t.fuse(all, func(i int) string {
		switch i {
		case 0:
			return "WITH "
		case 1:
			return ",\np1 AS ("
		case len(all) - 1:
			return ")\n"
		default:
			return "),\np" + strconv.Itoa(i) + " AS ("
		}
	}, ifAssumed)
}

func (t *statements) fuse(parts []part, before func(i int) string, condition string) *statement {
	args := 0
	var name strings.Builder
	name.WriteString(condition)
	for i, p := range parts {
		args += len(p.args)
		name.WriteString(before(i))
		name.WriteString(p.sql)
	}
	s := &statement{args: make([]any, 0, args)}
	s.text = t.cached(name.String(), func() string {
		var b strings.Builder
		offset := 0
		for i, p := range parts {
			b.WriteString(before(i))
			b.WriteString(numberedFrom(p.sql, offset))
			offset += len(p.args)
		}
		return strings.ReplaceAll(b.String(), "{if}", condition)
	})
	for _, p := range parts {
		s.args = append(s.args, p.args...)
	}
	return s
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// numberedFrom adds the offset to each parameter's number.
func numberedFrom(sql string, offset int) string {
	return parameter.ReplaceAllStringFunc(sql, func(p string) string {
		n, _ := strconv.Atoi(p[1:]) // digits
		return "$" + strconv.Itoa(n+offset)
	})
}
