package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store/sqlite"
)

// As in bench_test.go, the floor is the same row writes in the same tables, and
// nothing else, measured in turns.

var (
	benchNamespace = countersign.Namespace{EventStore: "bench", Name: "eu"}
	benchContent   = []byte(`{"customer":"customer-00042","amount":12345,"text":"` + strings.Repeat("x", 200) + `"}`)
)

const benchBatch = 1000

func benchEvents(first, n int) []eventlog.Event {
	events := make([]eventlog.Event, n)
	for i := range events {
		events[i] = eventlog.Event{Type: benchType(first + i), Source: benchSource(first + i), Content: benchContent, CorrelationID: "correlation-0001"}
	}
	return events
}

func benchType(i int) string   { return fmt.Sprintf("type-%d", i%10) }
func benchSource(i int) string { return fmt.Sprintf("source-%06d", i*7919%100_000) }

// benchSchema is what a schema of such an event says.
const benchSchema = `{"type":"object","properties":{"customer":{"type":"string","maxLength":100},"amount":{"type":"integer","minimum":0},"text":{"type":"string"}},
	"required":["customer","amount"],"additionalProperties":false}`

// newLog is a store with the benchmarks' event types, which take any JSON.
func newLog(b *testing.B) *sqlite.Store {
	b.Helper()
	return newLogWith(b, `true`)
}

// newLogWith is newLog with a schema.
func newLogWith(b *testing.B, schema string) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "log.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	types := make([]eventlog.EventType, 10)
	for i := range types {
		types[i] = eventlog.EventType{ID: benchType(i), Schema: []byte(schema)}
	}
	if _, err := s.RegisterEventTypes(b.Context(), eventlog.RegisterEventTypes{EventStore: "bench", Types: types}); err != nil {
		b.Fatal(err)
	}
	if _, err := s.AppendEvents(b.Context(), eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: benchEvents(0, 1)}); err != nil {
		b.Fatal(err)
	}
	return s
}

// logFloor writes the rows of appends with prepared statements, one transaction for
// each.
type logFloor struct {
	mu                                     sync.Mutex
	begin, move, event, many, receipt, end *sql.Stmt
	next                                   int64
}

// floorRows is how many rows one statement of the floor inserts: more make it no
// faster.
const floorRows = 50

func newLogFloor(b *testing.B) *logFloor {
	b.Helper()
	s := newLog(b)
	db, err := sql.Open("sqlite", "file:"+pathOf(b, s)+"?_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=wal_autocheckpoint(4000)&_pragma=cache_size(-16384)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	f := &logFloor{next: 1}
	const insert = "INSERT INTO countersign_events (sequence_key, number, type, generation, source, content, occurred, correlation_id) VALUES "
	const row = "(?, ?, ?, ?, ?, ?, ?, ?)"
	for stmt, text := range map[**sql.Stmt]string{
		&f.begin:   "BEGIN IMMEDIATE",
		&f.move:    "UPDATE countersign_sequences SET next = ? WHERE sequence_key = 1",
		&f.event:   insert + row,
		&f.many:    insert + row + strings.Repeat(","+row, floorRows-1),
		&f.receipt: "INSERT INTO countersign_effect_receipts (event_store, namespace, occurrence, effect, outcome, sequence, first, last, epoch, recorded_at, response) VALUES ('bench', 'eu', ?, 'effect', 'appended', 'log', ?, ?, 1, ?, ?)",
		&f.end:     "COMMIT",
	} {
		if *stmt, err = db.PrepareContext(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return f
}

func pathOf(b *testing.B, s *sqlite.Store) (path string) {
	b.Helper()
	if err := s.DB().QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path); err != nil {
		b.Fatal(err)
	}
	return path
}

func (f *logFloor) row(args []any, e *eventlog.Event) []any {
	args = append(args, int64(1), f.next, e.Type, int64(1), e.Source, e.Content, int64(1_700_000_000_000_000)+f.next, e.CorrelationID)
	f.next++
	return args
}

func (f *logFloor) batch(events []eventlog.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.begin.Exec(); err != nil {
		return err
	}
	for rest := events; len(rest) > 0; rest = rest[floorRows:] {
		args := make([]any, 0, floorRows*8)
		for i := range floorRows {
			args = f.row(args, &rest[i])
		}
		if _, err := f.many.Exec(args...); err != nil {
			return err
		}
	}
	if _, err := f.move.Exec(f.next); err != nil {
		return err
	}
	_, err := f.end.Exec()
	return err
}

func (f *logFloor) single(occurrence string, e *eventlog.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.next
	for _, step := range []struct {
		stmt *sql.Stmt
		args []any
	}{
		{f.begin, nil}, {f.event, f.row(nil, e)}, {f.move, []any{at + 1}}, {f.receipt, []any{occurrence, at, at, at, []byte(`{}`)}}, {f.end, nil},
	} {
		if _, err := step.stmt.Exec(step.args...); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkAppendBatch appends batches of 1,000 events of 250 bytes, in turns with
// the floor. An operation is a batch.
func BenchmarkAppendBatch(b *testing.B) {
	b.Run("schema=any", func(b *testing.B) { appendBatches(b, `true`) })
	b.Run("schema=object", func(b *testing.B) { appendBatches(b, benchSchema) })
}

func appendBatches(b *testing.B, schema string) {
	s, f := newLogWith(b, schema), newLogFloor(b)
	var oursTime, floorTime time.Duration
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		events := benchEvents(n*benchBatch, benchBatch)
		started := time.Now()
		if _, err := s.AppendEvents(context.Background(), eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: events}); err != nil {
			b.Fatal(err)
		}
		oursTime += time.Since(started)
		b.StopTimer()
		started = time.Now()
		if err := f.batch(events); err != nil {
			b.Fatal(err)
		}
		floorTime += time.Since(started)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*benchBatch/oursTime.Seconds(), "events/s")
	b.ReportMetric(float64(b.N)*benchBatch/floorTime.Seconds(), "floor/s")
	b.ReportMetric(floorTime.Seconds()/oursTime.Seconds(), "x-floor")
}

// BenchmarkAppendWithReceipt appends one event with a receipt, from several callers,
// in turns with the floor, which has one transaction and one sync for each.
func BenchmarkAppendWithReceipt(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, f := newLog(b), newLogFloor(b)
			var oursAt, floorAt atomic.Int64
			compare(b, callers, func(int) error {
				i := int(oursAt.Add(1))
				_, err := s.AppendWithReceipt(context.Background(), benchAppend(i))
				return err
			}, func(int) error {
				i := int(floorAt.Add(1))
				return f.single(benchOccurrence(i), &benchEvents(i, 1)[0])
			})
		})
	}
}

func benchOccurrence(i int) string { return fmt.Sprintf("%08x", uint32(i*2654435761)) }

func benchAppend(i int) receipt.AppendWithReceipt {
	return receipt.AppendWithReceipt{
		AppendEvents: eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: benchEvents(i, 1)},
		Occurrence:   benchOccurrence(i), Effect: "effect", Epoch: 1, Response: []byte(`{}`),
	}
}

// newLongLog is a store with a log of so many events: each with a receipt, and with
// a claim of a constraint that covers all their types.
func newLongLog(b *testing.B, size int) *sqlite.Store {
	b.Helper()
	s := newLog(b)
	constraint := eventlog.Constraint{Name: "email", Kind: eventlog.UniqueValue, IgnoreCase: true}
	for i := range 10 {
		constraint.Covers = append(constraint.Covers, eventlog.Covered{Type: benchType(i), Properties: []string{"email"}})
	}
	if _, err := s.RegisterConstraints(b.Context(), eventlog.RegisterConstraints{EventStore: "bench", Constraints: []eventlog.Constraint{constraint}}); err != nil {
		b.Fatal(err)
	}
	for at := 1; at < size; at += benchBatch {
		n := min(benchBatch, size-at)
		events := benchEvents(at, n)
		for i := range events {
			events[i].Source, events[i].Content = "source-"+benchOccurrence(at+i), withEmail(at+i)
		}
		if _, err := s.AppendEvents(b.Context(), eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: events}); err != nil {
			b.Fatal(err)
		}
	}
	for _, fill := range []string{
		"INSERT INTO countersign_effect_receipts SELECT 'bench', 'eu', printf('%08x', (number * 2654435761) % 4294967296), 'effect', 'appended', 'log', number, number, NULL, 1, number, x'7b7d' FROM countersign_events ORDER BY 3",
		"PRAGMA wal_checkpoint(TRUNCATE)",
	} {
		if _, err := s.DB().Exec(fill); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func withEmail(i int) []byte {
	return bytes.Replace(benchContent, []byte(`{"customer"`), fmt.Appendf(nil, `{"email":"%s@example.org","customer"`, benchOccurrence(i)), 1)
}

// BenchmarkBehindLog compares what touches a log of 1,000,000 events with the same
// on a log of 50,000, in turns.
func BenchmarkBehindLog(b *testing.B) {
	const large, small = 1_000_000, 50_000
	logs := map[int]*sqlite.Store{large: newLongLog(b, large), small: newLongLog(b, small)}
	ctx := context.Background()
	log := eventlog.Log(benchNamespace)
	for _, op := range []struct {
		name string
		call func(s *sqlite.Store, size, i int) error
	}{
		{"receipt_hit", func(s *sqlite.Store, size, i int) error {
			res, err := s.AppendWithReceipt(ctx, benchAppend(1+i*7919%(size-1)))
			if err == nil && !res.AlreadyRecorded {
				err = fmt.Errorf("not recorded")
			}
			return err
		}},
		{"constraint_refusal", func(s *sqlite.Store, size, i int) error {
			events := benchEvents(i, 1)
			events[0].Content = withEmail(1 + i*7919%(size-1))
			_, err := s.AppendEvents(ctx, eventlog.AppendEvents{Sequence: log, Events: events})
			var refused *eventlog.ViolationsError
			return expect(err, &refused)
		}},
		{"constraint_claim", func(s *sqlite.Store, size, i int) error {
			events := benchEvents(i, 1)
			events[0].Source, events[0].Content = "source-"+benchOccurrence(size+i), withEmail(size+i)
			_, err := s.AppendEvents(ctx, eventlog.AppendEvents{Sequence: log, Events: events})
			return err
		}},
		{"scope_by_source", func(s *sqlite.Store, size, i int) error {
			_, err := s.AppendEvents(ctx, eventlog.AppendEvents{Sequence: log, Scopes: []eventlog.Scope{{Source: "source-" + benchOccurrence(1+i*7919%(size-1)), Expected: eventlog.NoneYet()}}})
			var violated *eventlog.ScopesViolatedError
			return expect(err, &violated)
		}},
		{"tail_by_type", func(s *sqlite.Store, _, i int) error {
			_, err := s.ReadTail(ctx, eventlog.ReadTail{Sequence: log, Filter: eventlog.Filter{EventTypes: []string{benchType(i), benchType(i + 3)}}})
			return err
		}},
		{"page_by_source", func(s *sqlite.Store, size, i int) error {
			page, err := s.ReadEvents(ctx, eventlog.ReadEvents{Sequence: log, Filter: eventlog.Filter{Source: "source-" + benchOccurrence(1+i*7919%(size-1))}})
			if err == nil && len(page.Events) == 0 {
				err = fmt.Errorf("no event")
			}
			return err
		}},
	} {
		b.Run(op.name, func(b *testing.B) {
			var took [2]time.Duration
			i := 0
			for b.Loop() {
				for which, size := range []int{large, small} {
					started := time.Now()
					if err := op.call(logs[size], size, i); err != nil {
						b.Fatal(err)
					}
					took[which] += time.Since(started)
				}
				i++
			}
			b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "µs-1M")
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "x-50k")
		})
	}
}

// expect turns a refusal of the type that is wanted into success.
func expect[E error](err error, target *E) error {
	if errors.As(err, target) {
		return nil
	}
	return fmt.Errorf("want %T, got %w", *target, err)
}

// BenchmarkReadEvents reads a log of 200,000 events in pages of 1,000, and lets an
// observer catch up with it.
func BenchmarkReadEvents(b *testing.B) {
	const events = 200_000
	s := newLog(b)
	for at := 1; at < events; at += benchBatch {
		if _, err := s.AppendEvents(b.Context(), eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: benchEvents(at, min(benchBatch, events-at))}); err != nil {
			b.Fatal(err)
		}
	}
	count := func(b *testing.B, read func() int) {
		b.ReportAllocs()
		for b.Loop() {
			if n := read(); n != events {
				b.Fatalf("read %d events", n)
			}
		}
		b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	}
	for _, filter := range []eventlog.Filter{{}, {EventTypes: []string{"type-0", "type-1", "type-2", "type-3", "type-4", "type-5", "type-6", "type-7", "type-8", "type-9"}}} {
		b.Run(fmt.Sprintf("pages/types=%d", len(filter.EventTypes)), func(b *testing.B) {
			count(b, func() (n int) {
				for _, err := range eventlog.Events(b.Context(), s, eventlog.ReadEvents{Sequence: eventlog.Log(benchNamespace), Filter: filter}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				return n
			})
		})
	}
	b.Run("observer", func(b *testing.B) {
		run := 0
		count(b, func() (n int) {
			run++
			o, err := eventlog.NewObserver(s, func(context.Context, eventlog.Delivery) error { n++; return nil },
				eventlog.ObserverOptions{Name: fmt.Sprint("observer ", run), Sequence: eventlog.Log(benchNamespace)})
			if err == nil {
				err = o.CatchUp(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			return n
		})
	})
}
