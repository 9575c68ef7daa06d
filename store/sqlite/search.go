package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
)

const eventColumns = `, e.type, e.generation, e.source, e.source_type, e.stream_type, e.stream_id, e.subject, e.tags, e.content,
	e.occurred, e.correlation_id, e.causation_id, e.caused_by`

// A search finds events of a sequence in the order of their numbers. It walks along
// one index, that of what narrows the most as a rule, and looks at nothing of the
// log that is not in it. With several types or tags it walks along the index at
// several places at once, and merges them. It has no limit: whoever has enough
// stops.
type search struct {
	key        int64
	filter     eventlog.Filter
	from, to   uint64 // inclusive
	columns    string // besides the number
	descending bool
}

// errEnough ends a query whose other rows are not wanted.
var errEnough = errors.New("sqlite: enough")

// each calls row for the events that are found, until it says that it has enough.
func (q search) each(ctx context.Context, s session, t *logStatements, row func([]driver.Value) (enough bool, err error)) error {
	if q.from > countersign.MaxInteger || q.from > q.to {
		return nil // no event has such a number
	}
	query, args := q.text(t.prefix)
	last := driver.Value(nil)
	err := s.query(ctx, query, args, func(v []driver.Value) error {
		if v[0] == last {
			return nil // it has several of the tags
		}
		last = v[0]
		enough, err := row(v)
		if err == nil && enough {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// text builds the statement and its arguments.
func (q search) text(prefix string) (string, []driver.Value) {
	var along string // the index
	var places []driver.Value
	f := q.filter
	switch {
	case f.Source != "":
		along, places = "source", []driver.Value{f.Source}
		f.Source = ""
	case f.StreamID != "":
		along, places = "stream_id", []driver.Value{f.StreamID}
		f.StreamID = ""
	case len(f.Tags) > 0:
		along, places = "tag", padded(tagKeys(f.Tags))
		f.Tags = nil
	case len(f.EventTypes) > 0:
		along, places = "type", padded(f.EventTypes)
		f.EventTypes = nil
	case f.StreamType != "":
		along, places = "stream_type", []driver.Value{f.StreamType}
		f.StreamType = ""
	case f.SourceType != "":
		along, places = "source_type", []driver.Value{f.SourceType}
		f.SourceType = ""
	default:
		places = []driver.Value{nil}
	}
	rest, restArgs := conditions(f)
	var b strings.Builder
	var args []driver.Value
	for i, place := range places {
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		args = append(args, q.key)
		switch along {
		case "":
			b.WriteString("SELECT e.number" + q.columns + " FROM {p}events e WHERE e.sequence_key = ? AND e.number BETWEEN ? AND ?")
		case "tag":
			b.WriteString("SELECT t.number" + q.columns + " FROM {p}event_tags t CROSS JOIN {p}events e ON e.sequence_key = t.sequence_key AND e.number = +t.number" +
				" WHERE t.sequence_key = ? AND t.tag = ? AND t.number BETWEEN ? AND ?")
			args = append(args, place)
		default:
			b.WriteString("SELECT e.number" + q.columns + " FROM {p}events e INDEXED BY {p}events_" + along +
				" WHERE e.sequence_key = ? AND e." + along + " = ? AND e.number BETWEEN ? AND ?")
			args = append(args, place)
		}
		b.WriteString(rest)
		args = append(args, int64(q.from), int64(min(q.to, countersign.MaxInteger)))
		args = append(args, restArgs...)
	}
	b.WriteString(" ORDER BY 1")
	if q.descending {
		b.WriteString(" DESC")
	}
	return withPrefix(b.String(), prefix), args
}

// conditions are those of the events that the index does not take care of.
func conditions(f eventlog.Filter) (string, []driver.Value) {
	var b strings.Builder
	var args []driver.Value
	for _, part := range []struct{ column, id string }{{"source_type", f.SourceType}, {"stream_type", f.StreamType}, {"stream_id", f.StreamID}} {
		if part.id != "" {
			b.WriteString(" AND e." + part.column + " = ?")
			args = append(args, part.id)
		}
	}
	if types := padded(f.EventTypes); len(types) > 0 {
		b.WriteString(" AND e.type IN (" + marks(len(types)) + ")")
		args = append(args, types...)
	}
	if tags := padded(tagKeys(f.Tags)); len(tags) > 0 {
		b.WriteString(" AND EXISTS (SELECT 1 FROM {p}event_tags t WHERE t.sequence_key = e.sequence_key AND t.tag IN (" + marks(len(tags)) + ") AND t.number = e.number)")
		args = append(args, tags...)
	}
	return b.String(), args
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// padded returns the distinct values, and nulls up to a power of two: so there are
// few statements to prepare. Nothing equals null.
func padded[V string | []byte](values []V) []driver.Value {
	var all []driver.Value
	known := map[string]bool{}
	for _, v := range values {
		if !known[string(v)] {
			known[string(v)] = true
			all = append(all, v)
		}
	}
	for len(all)&(len(all)-1) != 0 {
		all = append(all, nil)
	}
	return all
}

func tagKeys(tags []eventlog.Tag) [][]byte {
	keys := make([][]byte, len(tags))
	for i, t := range tags {
		keys[i] = []byte(t.Key())
	}
	return keys
}
