package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math/bits"
	"path/filepath"
	"strings"
	"testing"

	"github.com/countersign/countersign/eventlog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plan returns SQLite's plan of a statement, a line a step.
func plan(t *testing.T, s *Store, query string, args []driver.Value) string {
	t.Helper()
	var steps []string
	require.NoError(t, s.read(t.Context(), func(x session) error {
		return x.query(t.Context(), "EXPLAIN QUERY PLAN "+query, args, func(v []driver.Value) error {
			steps = append(steps, fmt.Sprint(v[3]))
			return nil
		})
	}))
	return strings.Join(steps, "\n")
}

// Every search walks along one index, in both directions, and sorts nothing: what it
// costs does not grow with the log.
func TestSearchesWalkAlongAnIndex(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "plans.db"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	tags := []eventlog.Tag{{Value: "plain"}, {Name: "name", Value: "value"}, {Name: "name"}}
	types := []string{"a", "b", "c", "d", "e"}
	for set := range 1 << 6 {
		var f eventlog.Filter
		along := "sqlite_autoindex_countersign_events_1 (sequence_key=?"
		for bit, narrow := range []struct {
			by    func()
			along string
		}{
			{func() { f.SourceType = "x" }, "events_source_type (sequence_key=? AND source_type=?"},
			{func() { f.StreamType = "x" }, "events_stream_type (sequence_key=? AND stream_type=?"},
			{func() { f.EventTypes = types }, "events_type (sequence_key=? AND type=?"},
			{func() { f.Tags = tags }, "SEARCH t USING PRIMARY KEY (sequence_key=? AND tag=?"},
			{func() { f.StreamID = "x" }, "events_stream_id (sequence_key=? AND stream_id=?"},
			{func() { f.Source = "x" }, "events_source (sequence_key=? AND source=?"},
		} {
			if set&(1<<bit) != 0 {
				narrow.by()
				along = narrow.along
			}
		}
		for _, descending := range []bool{false, true} {
			query, args := search{key: 1, filter: f, to: maxNumber, columns: eventColumns, descending: descending}.text(DefaultPrefix)
			steps := plan(t, s, query, args)
			assert.Contains(t, steps, along, "filter %+v", f)
			assert.NotContains(t, steps, "TEMP B-TREE", "filter %+v", f)
			assert.NotContains(t, steps, "SCAN", "filter %+v", f)
			if strings.Contains(along, "tag=?") {
				assert.NotRegexp(t, `SEARCH e [^\n]*number>`, steps, "an event is found by its number: filter %+v", f)
			}
		}
	}
}

// Lists of values are padded, so that a connection prepares few statements.
func TestListsArePadded(t *testing.T) {
	for n := range 101 {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		all := padded(append(values, values...))
		assert.LessOrEqual(t, bits.OnesCount(uint(len(all))), 1)
		assert.GreaterOrEqual(t, len(all), n)
		assert.LessOrEqual(t, len(all), 2*n)
	}
}

// What is read or deleted by its key is found by it.
func TestLookUpsUseTheirKeys(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "plans.db"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	l := s.stmts.log
	for name, statement := range map[string]*rowsStatement{
		"sequences": l.sequences, "claims by owner": l.claimsByOwner, "claims by value": l.claimsByValue, "receipts": l.receipts,
		"receipts of": l.receiptsOf, "move": l.moveSequences, "delete claims": l.deleteClaims, "partitions": l.partitions, "delete partitions": l.deletePartitions,
	} {
		steps := plan(t, s, statement.texts[3], make([]driver.Value, 3*statement.columns))
		assert.NotRegexp(t, `SCAN (\w|countersign_\w+)\b *(USING|$)`, strings.ReplaceAll(steps, "SCAN want", ""), name)
		assert.Regexp(t, `SEARCH \w+ USING (PRIMARY KEY|INDEX|INTEGER PRIMARY KEY)`, steps, name)
	}
	for _, one := range append([]string{l.clearClaims, l.duePartitions, l.partitionsAfter, l.observer, l.eventStore, l.definitions}, l.drop...) {
		steps := plan(t, s, one, make([]driver.Value, max(strings.Count(one, "?"), 2)))
		assert.NotContains(t, steps, "SCAN", one)
		assert.NotContains(t, steps, "TEMP B-TREE", one)
	}
}

// A connection keeps a bounded number of statements, and goes on after it has let go
// of them.
func TestPreparedStatementsAreBounded(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "prepared.db"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.read(t.Context(), func(x session) error {
		for i := range 2*maxPrepared + 1 {
			found := int64(-1)
			if err := x.query(t.Context(), fmt.Sprint("SELECT ", i), nil, func(v []driver.Value) error { found = v[0].(int64); return nil }); err != nil {
				return err
			}
			assert.EqualValues(t, i, found)
			assert.LessOrEqual(t, len(x.(*connSession).stmts), maxPrepared)
		}
		return nil
	}))
}
