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

// Each part's parameters are numbered from $1; make numbers them anew.
var (
	// The owner's row comes first, and alone: what is read next must be read from
	// a snapshot that was taken after the lock.
	lockPart = `SELECT 1, o.owner_key, o.owner_id, '', '', o.position, o.fence, o.mode::bigint, 0::bigint, ''::bytea
		FROM ({each text id}) w CROSS JOIN LATERAL (
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
		FROM ({each text id}) w CROSS JOIN LATERAL (
			SELECT x.owner_key, x.owner_id, x.position, x.fence, x.mode FROM {s}.owners x WHERE x.owner_id = w.id LIMIT 1) o`
	inboxPart = `SELECT 4, o.owner_key, i.inbox_id, '', '', i.committed_through, 0::bigint, 0::bigint, 0::bigint, i.fingerprint
		FROM ({each text owner, text id}) w ` + ownerOf + `(
			SELECT x.inbox_id, x.committed_through, x.fingerprint FROM {s}.inbox x
			WHERE x.owner_key = o.owner_key AND x.inbox_id = w.id LIMIT 1) i`
	effectsPart = `SELECT 5, o.owner_key, e.effect_id, '', '', e.accepted_at, 0::bigint, e.schema_version::bigint, e.codec_version::bigint, e.bytes
		FROM ({each text owner, text id}) w ` + ownerOf + `(
			SELECT x.effect_id, x.accepted_at, x.schema_version, x.codec_version, x.bytes FROM {s}.outbox x
			WHERE x.owner_key = o.owner_key AND x.effect_id = w.id LIMIT 1) e`
	receiptsPart = `SELECT 7, o.owner_key, r.receipt_id, r.effect_id, r.outcome, r.recorded_at, r.fence, r.schema_version::bigint, r.codec_version::bigint, r.bytes
		FROM ({each text owner, text id}) w ` + ownerOf + `(
			SELECT x.* FROM {s}.receipts x
			WHERE x.owner_key = o.owner_key AND x.receipt_id = w.id LIMIT 1) r`
	receiptOfPart = `SELECT 8, o.owner_key, r.effect_id, r.receipt_id, '', 0::bigint, 0::bigint, 0::bigint, 0::bigint, ''::bytea
		FROM ({each text owner, text id}) w ` + ownerOf + `(
			SELECT x.effect_id, x.receipt_id FROM {s}.receipts x
			WHERE x.owner_key = o.owner_key AND x.effect_id = w.id LIMIT 1) r`

	// What a plan writes; {if} is where a condition may stand.
	movePart = `INSERT INTO {s}.owners AS o (owner_key, owner_id, mode, position, fence)
		{each bigint, text, bigint, bigint, bigint} {if}
		ON CONFLICT ON CONSTRAINT owners_key DO UPDATE SET position = excluded.position, fence = excluded.fence`
	historyPart = `INSERT INTO {s}.history (owner_key, position, schema_version, codec_version, bytes)
		{each bigint, bigint, bigint, bigint, bytea} {if}`
	snapshotsPart = `INSERT INTO {s}.snapshots (owner_key, position, schema_version, codec_version, bytes)
		{each bigint, bigint, bigint, bigint, bytea} {if}
		ON CONFLICT ON CONSTRAINT snapshots_owner DO UPDATE SET position = excluded.position,
			schema_version = excluded.schema_version, codec_version = excluded.codec_version, bytes = excluded.bytes`
	insertInboxPart = `INSERT INTO {s}.inbox (owner_key, inbox_id, fingerprint, committed_through)
		{each bigint, text, bytea, bigint} {if}`
	insertOutboxPart = `INSERT INTO {s}.outbox (owner_key, effect_id, accepted_at, schema_version, codec_version, bytes, receipt_id)
		SELECT w.k, w.id, w.at, w.schema, w.codec, w.bytes, nullif(w.receipt, '')
		FROM ({each bigint k, text id, bigint at, bigint schema, bigint codec, bytea bytes, text receipt}) w {if}`
	insertReceiptsPart = `INSERT INTO {s}.receipts (owner_key, receipt_id, effect_id, outcome, recorded_at, fence, schema_version, codec_version, bytes)
		{each bigint, text, text, text, bigint, bigint, bigint, bigint, bytea} {if}`
	// Effects that were in the outbox before.
	markPart = `INSERT INTO {s}.outbox (owner_key, effect_id, accepted_at, schema_version, codec_version, bytes, receipt_id)
		SELECT w.k, w.id, x.accepted_at, x.schema_version, x.codec_version, '', w.receipt
		FROM ({each bigint k, text id, text receipt}) w CROSS JOIN LATERAL (
			SELECT y.accepted_at, y.schema_version, y.codec_version FROM {s}.outbox y
			WHERE y.owner_key = w.k AND y.effect_id = w.id LIMIT 1) x
		ON CONFLICT ON CONSTRAINT outbox_effect DO UPDATE SET receipt_id = excluded.receipt_id`

	// What a plan rests on that was made without reading first: every owner's row
	// is still what it was taken for, and now it is locked. Somebody else's lock is
	// not waited for. The plan is written under the condition that this holds.
	assumedPart = `locked AS (
			SELECT 1 FROM ({each bigint k, text id, bigint mode, bigint position, bigint fence}) w CROSS JOIN LATERAL (
				SELECT 1 FROM {s}.owners x
				WHERE x.owner_key = w.k AND x.owner_id = w.id AND x.mode = w.mode AND x.position = w.position AND x.fence = w.fence
				LIMIT 1 FOR UPDATE SKIP LOCKED) o
		), held AS (SELECT pg_catalog.count(*) = $6::bigint AS every FROM locked)`
	ifAssumed  = `WHERE (SELECT every FROM held)`
	assumedEnd = `SELECT every::integer, 0::bigint, '', '', '', 0::bigint, 0::bigint, 0::bigint, 0::bigint, ''::bytea FROM held`

	// Reads of one owner; $1 is its id, and the parts' own parameters begin at $1
	// again.
	ownerPart = `WITH o AS (SELECT owner_key, owner_id, mode, position, fence FROM {s}.owners WHERE owner_id = $1::text)
		SELECT 1, owner_key, owner_id, '', '', position, fence, mode::bigint, 0::bigint, ''::bytea FROM o`
	payloadTail = `, '', '', position, 0::bigint, schema_version::bigint, codec_version::bigint, bytes`
	ofOwner     = ` WHERE owner_key = (SELECT owner_key FROM o)`

	allHistoryPart   = `(SELECT 2, owner_key, ''` + payloadTail + ` FROM {s}.history` + ofOwner + `)`
	historyAfterPart = `(SELECT 2, owner_key, ''` + payloadTail + ` FROM {s}.history` + ofOwner + `
		AND position > (SELECT $1::bigint) ORDER BY position LIMIT (SELECT $2::bigint))`
	snapshotAfterPart = `(SELECT 3, owner_key, ''` + payloadTail + ` FROM {s}.snapshots` + ofOwner + ` AND position > (SELECT $1::bigint))`
	allInboxPart      = `(SELECT 4, owner_key, inbox_id, '', '', committed_through, 0::bigint, 0::bigint, 0::bigint, fingerprint FROM {s}.inbox` + ofOwner + `)`
	namedInboxPart    = `(SELECT 4, i.owner_key, i.inbox_id, '', '', i.committed_through, 0::bigint, 0::bigint, 0::bigint, i.fingerprint
		FROM ({each text id}) w CROSS JOIN LATERAL (
			SELECT x.* FROM {s}.inbox x WHERE x.owner_key = (SELECT owner_key FROM o) AND x.inbox_id = w.id LIMIT 1) i)`
	effectTail       = `, effect_id, '', '', accepted_at, 0::bigint, schema_version::bigint, codec_version::bigint, bytes`
	allOutboxPart    = `(SELECT CASE WHEN receipt_id IS NULL THEN 6 ELSE 5 END, owner_key` + effectTail + ` FROM {s}.outbox` + ofOwner + `)`
	pendingAfterPart = `(SELECT 6, owner_key` + effectTail + ` FROM {s}.outbox` + ofOwner + `
		AND receipt_id IS NULL AND (accepted_at, effect_id) > ((SELECT $1::bigint), (SELECT $2::text)) ORDER BY accepted_at, effect_id LIMIT (SELECT $3::bigint))`
	allReceiptsPart = `(SELECT 7, owner_key, receipt_id, effect_id, outcome, recorded_at, fence, schema_version::bigint, codec_version::bigint, bytes
		FROM {s}.receipts` + ofOwner + `)`
)

// statements makes the texts with the store's schema put in, each once.
type statements struct {
	schema string
	made   sync.Map // textKey → string
}

// A part is a piece of a statement with its parameters. A piece with an {each}
// takes lists.
type part struct {
	sql  *string
	args []any
}

// A textKey says what a text is made of.
type textKey struct {
	how   how
	parts [maxParts]*string
	ones  uint16 // the parts whose lists have one row
}

const maxParts = 10

// how parts become a statement.
type how uint8

const (
	alone  how = iota // it is one
	union             // one query that returns the rows of all, from one snapshot
	all               // one statement that carries out all, in no order: they see nothing of each other
	ifHeld            // all, if what the first says holds
)

// between is what stands before part i of n.
func (h how) between(i, n int) string {
	first, last := i == 0, i == n-1
	switch {
	case h == alone || h == union && first || h == all && n == 1:
		return ""
	case h == union:
		return "\nUNION ALL "
	case h == ifHeld && first:
		return "WITH "
	case first:
		return "WITH p0 AS ("
	case h == ifHeld && i == 1:
		return ",\np1 AS ("
	case last:
		return ")\n"
	}
	return "),\np" + strconv.Itoa(i) + " AS ("
}

// make puts parts together.
func (t *statements) make(h how, parts ...part) *statement {
	key := textKey{how: h}
	s := &statement{args: make([]any, 0, 32)}
	for i, p := range parts {
		key.parts[i] = p.sql
		if args, one := single(p.args); one {
			key.ones |= 1 << i
			s.args = append(s.args, args...)
		} else {
			s.args = append(s.args, p.args...)
		}
	}
	if text, ok := t.made.Load(key); ok {
		s.text = text.(string)
		return s
	}
	var b strings.Builder
	offset := 0
	for i, p := range parts {
		b.WriteString(h.between(i, len(parts)))
		b.WriteString(numberedFrom(withLists(*p.sql, key.ones&(1<<i) != 0), offset))
		offset += len(p.args)
	}
	condition := ""
	if h == ifHeld {
		condition = ifAssumed
	}
	s.text = inSchema(strings.ReplaceAll(b.String(), "{if}", condition), t.schema)
	t.made.Store(key, s.text)
	return s
}

// single returns the values of lists that have one row each, which is what most
// callers send: plain values cost the server less than lists.
func single(args []any) (values []any, one bool) {
	values = make([]any, len(args))
	for i, arg := range args {
		values[i] = arg
		switch list := arg.(type) {
		case []int64:
			if len(list) != 1 {
				return nil, false
			}
			values[i], one = list[0], true
		case []string:
			if len(list) != 1 {
				return nil, false
			}
			values[i], one = list[0], true
		case [][]byte:
			if len(list) != 1 {
				return nil, false
			}
			values[i], one = list[0], true
		}
	}
	return values, one
}

var lists = regexp.MustCompile(`\{each ([^}]*)\}`)

// withLists puts the query for the rows of the lists in place of {each}, which
// has the lists' types, and names where they are needed.
func withLists(sql string, one bool) string {
	return lists.ReplaceAllStringFunc(sql, func(found string) string {
		var b strings.Builder
		for i, column := range strings.Split(lists.FindStringSubmatch(found)[1], ",") {
			kind, name, _ := strings.Cut(strings.TrimSpace(column), " ")
			n := "$" + strconv.Itoa(i+1) + "::" + kind
			switch {
			case one:
				b.WriteString(", " + n + " " + name)
			case i == 0:
				b.WriteString(", pg_catalog.unnest((SELECT " + n + "[])) " + name)
			default:
				b.WriteString(", pg_catalog.unnest(" + n + "[]) " + name)
			}
		}
		return "SELECT " + b.String()[2:]
	})
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// numberedFrom adds the offset to each parameter's number.
func numberedFrom(sql string, offset int) string {
	return parameter.ReplaceAllStringFunc(sql, func(p string) string {
		n, _ := strconv.Atoi(p[1:]) // digits
		return "$" + strconv.Itoa(n+offset)
	})
}
