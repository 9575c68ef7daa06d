package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The benchmarks report ratios to a floor that is measured in turns with the
// library, in the same run, on a database of its own beside it: each caller has a
// connection, and for each call one pipeline of BEGIN, the same row writes and
// COMMIT, in one round trip, and nothing else: no reads, no rules, no identities
// checked.

var benchPayload = durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(strings.Repeat("x", 100))}

// benchRound is how many commits one side makes before it is the other's turn.
const benchRound = 500

// BenchmarkCommit commits an inbox record, one event and one effect of 100 bytes
// each, from several callers with an owner each.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			ours, floor := newOurs(b, callers), newFloor(b, callers)
			compare(b, callers, ours.commit, floor.commit)
		})
	}
}

// compare runs n commits of each side, in turns, and reports the ratio.
func compare(b *testing.B, callers int, ours, floor func(caller int) error) {
	var oursTime, floorTime time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= benchRound {
		n := min(left, benchRound)
		oursTime += timeCalls(b, callers, n, ours)
		b.StopTimer()
		floorTime += timeCalls(b, callers, n, floor)
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/oursTime.Seconds(), "commits/s")
	b.ReportMetric(float64(b.N)/floorTime.Seconds(), "floor/s")
	b.ReportMetric(floorTime.Seconds()/oursTime.Seconds(), "x-floor")
}

func timeCalls(b *testing.B, callers, n int, call func(caller int) error) time.Duration {
	var next atomic.Int64
	var wg sync.WaitGroup
	started := time.Now()
	for caller := range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := call(caller); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(started)
}

// ours is the library's side: each caller has its own owner and position.
type ours struct {
	store *postgres.Store
	at    []uint64
}

func newOurs(b *testing.B, callers int) *ours {
	b.Helper()
	s, err := postgres.Open(b.Context(), migratedDatabase(b, serverDSN(b)), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	for caller := range callers {
		if _, err := s.CreateOwner(b.Context(), durable.CreateOwner{Owner: benchOwner(caller), Mode: durable.EventHistory}); err != nil {
			b.Fatal(err)
		}
	}
	return &ours{store: s, at: make([]uint64, callers)}
}

func (o *ours) commit(caller int) error {
	at := o.at[caller]
	res, err := o.store.CommitOwner(context.Background(), durable.Commit{
		Owner:            benchOwner(caller),
		ExpectedPosition: at,
		Inbox:            durable.Inbox{ID: fmt.Sprintf("message-%08d", at), Fingerprint: []byte("fingerprint")},
		State:            durable.Append(benchPayload),
		Effects:          []durable.Intent{{ID: fmt.Sprintf("effect-%08d", at), Payload: benchPayload}},
	})
	o.at[caller] = res.Through
	return err
}

func benchOwner(caller int) string { return fmt.Sprintf("owner-%04d", caller) }

// floor is the other side, on the same schema in a database of its own.
type floor struct {
	pool *pgxpool.Pool
	keys []int64
	at   []int64
}

func newFloor(b *testing.B, callers int) *floor {
	b.Helper()
	dsn := migratedDatabase(b, serverDSN(b))
	pool, err := pgxpool.New(b.Context(), setting(dsn, "pool_max_conns", fmt.Sprint(callers)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	f := &floor{pool: pool, keys: make([]int64, callers), at: make([]int64, callers)}
	for caller := range callers {
		if err := pool.QueryRow(b.Context(), "INSERT INTO countersign.owners (owner_id, mode, position, fence) VALUES ($1, 1, 0, 0) RETURNING owner_key",
			benchOwner(caller)).Scan(&f.keys[caller]); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

func (f *floor) commit(caller int) error {
	key, at := f.keys[caller], f.at[caller]
	f.at[caller]++
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	batch.Queue("UPDATE countersign.owners SET position = $1, fence = 0 WHERE owner_key = $2", at+1, key)
	batch.Queue("INSERT INTO countersign.history (owner_key, position, schema_version, codec_version, bytes) VALUES ($1, $2, 1, 1, $3)", key, at+1, benchPayload.Bytes)
	batch.Queue("INSERT INTO countersign.inbox (owner_key, inbox_id, fingerprint, committed_through) VALUES ($1, $2, $3, $4)", key, fmt.Sprintf("message-%08d", at), []byte("fingerprint"), at+1)
	batch.Queue("INSERT INTO countersign.outbox (owner_key, effect_id, accepted_at, schema_version, codec_version, bytes) VALUES ($1, $2, $3, 1, 1, $4)", key, fmt.Sprintf("effect-%08d", at), at+1, benchPayload.Bytes)
	batch.Queue("COMMIT")
	return f.pool.SendBatch(context.Background(), batch).Close()
}

// BenchmarkCommitBehindHistory commits to an owner with many events, inbox
// records and effects behind it, in turns with one that has 50,000, and reports
// the ratio of the rates. Ids are spread over the whole range, so that each
// commit touches other pages.
func BenchmarkCommitBehindHistory(b *testing.B) {
	for _, size := range []int{200_000, 1_000_000} {
		b.Run(fmt.Sprintf("records=%d", size), func(b *testing.B) {
			large, small := newLarge(b, size), newLarge(b, 50_000)
			var largeTime, smallTime time.Duration
			b.ResetTimer()
			for left := b.N; left > 0; left -= benchRound {
				n := min(left, benchRound)
				largeTime += timeCalls(b, 1, n, large.commit)
				b.StopTimer()
				smallTime += timeCalls(b, 1, n, small.commit)
				b.StartTimer()
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/largeTime.Seconds(), "commits/s")
			b.ReportMetric(smallTime.Seconds()/largeTime.Seconds(), "x-50k")
		})
	}
}

// newLarge is a store with one owner that has many records behind it.
func newLarge(b *testing.B, size int) *spread {
	b.Helper()
	o := newOurs(b, 1)
	for _, fill := range []string{
		"INSERT INTO countersign.history SELECT 1, i, 1, 1, decode(repeat('00', 100), 'hex') FROM generate_series(1, $1::bigint) i",
		"INSERT INTO countersign.inbox SELECT 1, lpad(to_hex((i * 2654435761) % 4294967296), 8, '0'), '', i FROM generate_series(1, $1::bigint) i ORDER BY 2",
		"INSERT INTO countersign.outbox SELECT 1, lpad(to_hex((i * 2654435761) % 4294967296), 8, '0'), i, 1, 1, decode(repeat('00', 100), 'hex'), NULL FROM generate_series(1, $1::bigint) i ORDER BY 2",
		"UPDATE countersign.owners SET position = $1",
	} {
		if _, err := o.store.Pool().Exec(b.Context(), fill, size); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := o.store.Pool().Exec(b.Context(), "CHECKPOINT"); err != nil {
		b.Fatal(err)
	}
	o.at[0] = uint64(size)
	return &spread{o}
}

// spread commits under ids that are spread over the whole range.
type spread struct{ *ours }

func (s *spread) commit(int) error {
	at := s.at[0]
	id := fmt.Sprintf("%08x", (at+1)*2654435761%(1<<32))
	res, err := s.store.CommitOwner(context.Background(), durable.Commit{
		Owner:            benchOwner(0),
		ExpectedPosition: at,
		Inbox:            durable.Inbox{ID: id, Fingerprint: []byte("fingerprint")},
		State:            durable.Append(benchPayload),
		Effects:          []durable.Intent{{ID: id, Payload: benchPayload}},
	})
	s.at[0] = res.Through
	return err
}
