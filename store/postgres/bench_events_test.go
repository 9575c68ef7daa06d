package postgres_test

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	benchNamespace = countersign.Namespace{EventStore: "bench", Name: "n"}
	benchContent   = []byte(`{"amount":100,"currency":"EUR","note":"` + strings.Repeat("x", 60) + `"}`)
)

// benchSchema is what a schema of such an event says.
const benchSchema = `{"type":"object","properties":{"amount":{"type":"integer","minimum":0},"currency":{"type":"string","maxLength":3},"note":{"type":"string"}},
	"required":["amount","currency"],"additionalProperties":false}`

// newLog is a store with the event types "noted", whose schema is `true`, and "judged",
// which has one, and the unique property "name" of "named".
func newLog(b *testing.B) *postgres.Store {
	b.Helper()
	return newLogWith(b, 4)
}

func newLogWith(b *testing.B, connections int) *postgres.Store {
	b.Helper()
	s, err := postgres.Open(b.Context(), setting(migratedDatabase(b, serverDSN(b)), "pool_max_conns", fmt.Sprint(connections)), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	_, err = s.RegisterEventTypes(b.Context(), eventlog.RegisterEventTypes{EventStore: "bench", Types: []eventlog.EventType{
		{ID: "noted", Schema: []byte(`true`)}, {ID: "judged", Schema: []byte(benchSchema)}, {ID: "named", Schema: []byte(`true`)},
	}})
	if err == nil {
		_, err = s.RegisterConstraints(b.Context(), eventlog.RegisterConstraints{EventStore: "bench", Constraints: []eventlog.Constraint{
			{Name: "name", Kind: eventlog.UniqueValue, Covers: []eventlog.Covered{{Type: "named", Properties: []string{"name"}}}},
		}})
	}
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// rawLog is the floor: the rows alone, on the same tables in a database of its own.
type rawLog struct {
	pool *pgxpool.Pool
	next atomic.Int64
}

func newRawLog(b *testing.B, callers int) *rawLog {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), setting(migratedDatabase(b, serverDSN(b)), "pool_max_conns", fmt.Sprint(callers)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), "INSERT INTO countersign.sequences VALUES (1, 'bench', 'n', 'log', 0, 0, 0, 0)"); err != nil {
		b.Fatal(err)
	}
	return &rawLog{pool: pool}
}

const rawEvent = `INSERT INTO countersign.events (sequence_key, number, occurred, generation, size, event_type, source, source_type, stream_type, stream_id,
	subject, correlation_id, causation_id, caused_by, tags, content) `

// BenchmarkAppendWithReceipt appends one event with a receipt to one sequence, from
// several callers. The floor is a COMMIT for each, which takes the number from the
// sequence's row and inserts the same two rows, in one round trip and without any
// reading. With "unnumbered" it leaves that row alone, so that its callers do not
// wait for each other, and numbers have gaps and no order.
func BenchmarkAppendWithReceipt(b *testing.B) {
	for _, with := range []struct {
		callers    int
		unnumbered bool
	}{{1, false}, {16, false}, {16, true}} {
		callers := with.callers
		b.Run(fmt.Sprintf("callers=%d/unnumbered=%v", callers, with.unnumbered), func(b *testing.B) {
			s, raw := newLog(b), newRawLog(b, callers)
			var n atomic.Int64
			compare(b, callers, func(int) error {
				i := n.Add(1)
				_, err := s.AppendWithReceipt(context.Background(), receipt.AppendWithReceipt{
					AppendEvents: eventlog.AppendEvents{
						Sequence: eventlog.Log(benchNamespace),
						Events:   []eventlog.Event{{Type: "noted", Source: fmt.Sprintf("source-%05d", i%5000), Content: benchContent}},
					},
					Occurrence: fmt.Sprintf("occurrence-%08d", i), Effect: "effect",
				})
				return err
			}, func(int) error {
				i := raw.next.Add(1)
				batch := &pgx.Batch{}
				batch.Queue("BEGIN")
				if !with.unnumbered {
					batch.Queue(`UPDATE countersign.sequences SET next = next + 1 WHERE sequence_key = 1`)
				}
				batch.Queue(rawEvent+`VALUES (1, $1, $2, 1, 120, 'noted', $3, '', '', '', '', '', '', '', '', $4)`,
					i, time.Now().UnixMicro(), fmt.Sprintf("source-%05d", i%5000), benchContent)
				batch.Queue(`INSERT INTO countersign.effect_receipts VALUES ('bench', 'n', $1, 'effect', 'appended', 'log', $2, $2, 0, 0, '', '')`,
					fmt.Sprintf("occurrence-%08d", i), i)
				batch.Queue("COMMIT")
				return raw.pool.SendBatch(context.Background(), batch).Close()
			})
		})
	}
}

// BenchmarkAppendToManySequences appends one event from 16 callers, each to a sequence
// of its own: no two of them share a transaction. The floor is a COMMIT for each event
// alone.
func BenchmarkAppendToManySequences(b *testing.B) {
	const callers = 16
	s, raw := newLogWith(b, callers), newRawLog(b, callers)
	var n atomic.Int64
	compare(b, callers, func(caller int) error {
		_, err := s.AppendEvents(context.Background(), eventlog.AppendEvents{
			Sequence: eventlog.Sequence{Namespace: benchNamespace, Name: fmt.Sprint("sequence ", caller)},
			Events:   []eventlog.Event{{Type: "noted", Source: fmt.Sprintf("source-%05d", n.Add(1)%5000), Content: benchContent}},
		})
		return err
	}, func(caller int) error {
		i := raw.next.Add(1)
		batch := &pgx.Batch{}
		batch.Queue("BEGIN")
		batch.Queue(rawEvent+`VALUES ($5, $1, $2, 1, 120, 'noted', $3, '', '', '', '', '', '', '', '', $4)`,
			i, time.Now().UnixMicro(), fmt.Sprintf("source-%05d", i%5000), benchContent, caller)
		batch.Queue("COMMIT")
		return raw.pool.SendBatch(context.Background(), batch).Close()
	})
}

// BenchmarkAppendBatch appends 1,000 small events at once. The floor is one INSERT of
// the same rows from arrays, in a transaction of its own.
func BenchmarkAppendBatch(b *testing.B) {
	const size = 1_000
	for _, with := range []struct {
		name, eventType string
		tagged          bool
	}{{"schema=any", "noted", false}, {"schema=object", "judged", false}, {"tagged", "noted", true}} {
		tagged := with.tagged
		b.Run(with.name, func(b *testing.B) {
			s, raw := newLog(b), newRawLog(b, 1)
			var oursTime, floorTime time.Duration
			b.ResetTimer()
			for i := range b.N {
				events := make([]eventlog.Event, size)
				for j := range events {
					events[j] = eventlog.Event{Type: with.eventType, Source: fmt.Sprintf("source-%05d", (i*size+j)%5000), Content: benchContent}
					if tagged {
						events[j].Tags = []eventlog.Tag{{Name: "kind", Value: fmt.Sprint(j % 100)}}
					}
				}
				started := time.Now()
				if _, err := s.AppendEvents(context.Background(), eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: events}); err != nil {
					b.Fatal(err)
				}
				oursTime += time.Since(started)
				b.StopTimer()
				started = time.Now()
				if err := raw.batch(events, int64(i*size), tagged); err != nil {
					b.Fatal(err)
				}
				floorTime += time.Since(started)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N*size)/oursTime.Seconds(), "events/s")
			b.ReportMetric(float64(b.N*size)/floorTime.Seconds(), "floor/s")
			b.ReportMetric(floorTime.Seconds()/oursTime.Seconds(), "x-floor")
		})
	}
}

func (r *rawLog) batch(events []eventlog.Event, at int64, tagged bool) error {
	numbers, sources, contents := make([]int64, len(events)), make([]string, len(events)), make([][]byte, len(events))
	tags := make([][]byte, len(events))
	for i, e := range events {
		numbers[i], sources[i], contents[i] = at+int64(i), e.Source, e.Content
		if tagged {
			tags[i] = []byte(e.Tags[0].Key())
		}
	}
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	batch.Queue(rawEvent+`SELECT 1, n, 0, 1, 120, 'noted', s, '', '', '', '', '', '', '', coalesce(t, ''), c
		FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[]) u(n, s, c, t)`, numbers, sources, contents, tags)
	if tagged {
		batch.Queue(`INSERT INTO countersign.event_tags SELECT 1, t, n FROM unnest($1::bytea[], $2::bigint[]) u(t, n)`, tags, numbers)
	}
	batch.Queue("COMMIT")
	return r.pool.SendBatch(context.Background(), batch).Close()
}

// BenchmarkBehindEvents measures, on a sequence with many events, in turns with one
// that has 50,000, an append that looks a constraint up and makes a claim, one that
// hits its receipt, and one with scopes; and reports the ratio of the rates. What is
// looked up is spread over the whole range.
func BenchmarkBehindEvents(b *testing.B) {
	const size = 1_000_000
	large, small := newFilledLog(b, size), newFilledLog(b, 50_000)
	for name, call := range map[string]func(f *filledLog) error{
		"constraint": (*filledLog).named, "refusal": (*filledLog).taken, "receipt-hit": (*filledLog).hit, "scopes": (*filledLog).scoped, "page": (*filledLog).page, "tail": (*filledLog).tail,
	} {
		b.Run(name, func(b *testing.B) {
			var largeTime, smallTime time.Duration
			b.ResetTimer()
			for left := b.N; left > 0; left -= benchRound {
				n := min(left, benchRound)
				largeTime += timeCalls(b, 1, n, func(int) error { return call(large) })
				b.StopTimer()
				smallTime += timeCalls(b, 1, n, func(int) error { return call(small) })
				b.StartTimer()
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/largeTime.Seconds(), "calls/s")
			b.ReportMetric(smallTime.Seconds()/largeTime.Seconds(), "x-50k")
		})
	}
}

type filledLog struct {
	store *postgres.Store
	size  int
	at    int
}

// newFilledLog is a log with so many events, each of a source of its own, with a
// claim, a tag and a receipt. Its rows are those that appends would have written.
func newFilledLog(b *testing.B, size int) *filledLog {
	b.Helper()
	f := &filledLog{store: newLog(b), size: size}
	const batch = 1_000
	for i := 0; i < 2*batch; i += batch { // also prepares statements while the tables are small
		if err := f.append(i, batch); err != nil {
			b.Fatal(err)
		}
	}
	for i := 2 * batch; i < size; i += batch {
		if err := f.append(i, batch); err != nil {
			b.Fatal(err)
		}
	}
	for _, fill := range []string{
		`INSERT INTO countersign.effect_receipts SELECT 'bench', 'n', md5(i::text), 'effect', 'appended', 'log', i, i, 0, 0, '', '' FROM generate_series(0, $1::bigint - 1) i`,
		`CHECKPOINT`,
	} {
		args := []any{int64(size)}
		if fill == "CHECKPOINT" {
			args = nil
		}
		if _, err := f.store.Pool().Exec(b.Context(), fill, args...); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

func (f *filledLog) append(from, n int) error {
	events := make([]eventlog.Event, n)
	for i := range events {
		events[i] = eventlog.Event{
			Type: "named", Source: spreadName("source", from+i), Content: []byte(`{"name":"` + spreadName("name", from+i) + `"}`),
			Tags: []eventlog.Tag{{Name: "kind", Value: fmt.Sprint((from + i) % 1000)}},
		}
	}
	_, err := f.store.AppendEvents(context.Background(), eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: events})
	return err
}

func spreadName(kind string, i int) string {
	return fmt.Sprintf("%s-%08x", kind, uint32(i)*2654435761)
}

func (f *filledLog) pick() int {
	f.at++
	return f.at * 7919 % f.size
}

func (f *filledLog) named() error {
	f.at++
	return f.append(f.size+f.at, 1)
}

// taken is refused: another source holds the value.
func (f *filledLog) taken() error {
	_, err := f.store.AppendEvents(context.Background(), eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: []eventlog.Event{
		{Type: "named", Source: "another", Content: []byte(`{"name":"` + spreadName("name", f.pick()) + `"}`)},
	}})
	if _, refused := errors.AsType[*eventlog.ViolationsError](err); refused {
		return nil
	}
	return fmt.Errorf("not refused: %w", err)
}

func (f *filledLog) hit() error {
	res, err := f.store.AppendWithReceipt(context.Background(), receipt.AppendWithReceipt{
		AppendEvents: eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Events: []eventlog.Event{{Type: "noted", Source: "s", Content: benchContent}}},
		Occurrence:   fmt.Sprintf("%x", md5Of(f.pick())), Effect: "effect",
	})
	if err == nil && !res.AlreadyRecorded {
		err = fmt.Errorf("no hit")
	}
	return err
}

func (f *filledLog) scoped() error {
	at := f.pick()
	_, err := f.store.AppendEvents(context.Background(), eventlog.AppendEvents{Sequence: eventlog.Log(benchNamespace), Scopes: []eventlog.Scope{
		{Source: spreadName("source", at), Expected: eventlog.Seen(uint64(at))},
		{EventTypes: []string{"noted"}, Expected: eventlog.NoneYet()},
		{StreamID: "none", Expected: eventlog.NoneYet()},
	}})
	return err
}

func (f *filledLog) page() error {
	page, err := f.store.ReadEvents(context.Background(), eventlog.ReadEvents{
		Sequence: eventlog.Log(benchNamespace), Filter: eventlog.Filter{Tags: []eventlog.Tag{{Name: "kind", Value: "77"}}}, From: uint64(f.pick() / 2), Limit: 10,
	})
	if err == nil && len(page.Events) != 10 {
		err = fmt.Errorf("%d events", len(page.Events))
	}
	return err
}

func (f *filledLog) tail() error {
	tail, err := f.store.ReadTail(context.Background(), eventlog.ReadTail{Sequence: eventlog.Log(benchNamespace), Filter: eventlog.Filter{EventTypes: []string{"named", "noted"}}})
	if err == nil && !tail.Found {
		err = fmt.Errorf("no tail")
	}
	return err
}

func md5Of(i int) [md5.Size]byte { return md5.Sum([]byte(fmt.Sprint(i))) } // as the server has filled
