package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/sqlite"
)

// The benchmarks report ratios to a floor that is measured in turns with the
// library, in the same run, on a file of its own beside it: one connection
// behind a mutex, and for each call one prepared immediate transaction with the
// same row writes and nothing else: no reads, no rules, no identities checked.

var benchPayload = durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(strings.Repeat("x", 100))}

// benchRound is how many commits one side makes before it is the other's turn.
const benchRound = 2000

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
	store *sqlite.Store
	at    []uint64
}

func newOurs(b *testing.B, callers int) *ours {
	b.Helper()
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "ours.db"), nil)
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

// floor is the other side, on the same schema.
type floor struct {
	mu                                     sync.Mutex
	begin, move, event, inbox, effect, end *sql.Stmt
	at                                     []int64
}

func newFloor(b *testing.B, callers int) *floor {
	b.Helper()
	path := filepath.Join(b.TempDir(), "floor.db")
	s, err := sqlite.Open(b.Context(), path, nil)
	if err != nil {
		b.Fatal(err)
	}
	for caller := range callers {
		if _, err := s.CreateOwner(b.Context(), durable.CreateOwner{Owner: benchOwner(caller), Mode: durable.EventHistory}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=wal_autocheckpoint(4000)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	f := &floor{at: make([]int64, callers)}
	for stmt, text := range map[**sql.Stmt]string{
		&f.begin:  "BEGIN IMMEDIATE",
		&f.move:   "UPDATE countersign_owners SET position = ?, fence = 0 WHERE owner_key = ?",
		&f.event:  "INSERT INTO countersign_history (owner_key, position, schema_version, codec_version, bytes) VALUES (?, ?, 1, 1, ?)",
		&f.inbox:  "INSERT INTO countersign_inbox (owner_key, inbox_id, fingerprint, committed_through) VALUES (?, ?, ?, ?)",
		&f.effect: "INSERT INTO countersign_outbox (owner_key, effect_id, accepted_at, schema_version, codec_version, bytes) VALUES (?, ?, ?, 1, 1, ?)",
		&f.end:    "COMMIT",
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

func (f *floor) commit(caller int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, at := int64(caller+1), f.at[caller]
	f.at[caller]++
	for _, step := range []struct {
		stmt *sql.Stmt
		args []any
	}{
		{f.begin, nil},
		{f.move, []any{at + 1, key}},
		{f.event, []any{key, at + 1, benchPayload.Bytes}},
		{f.inbox, []any{key, fmt.Sprintf("message-%08d", at), []byte("fingerprint"), at + 1}},
		{f.effect, []any{key, fmt.Sprintf("effect-%08d", at), at + 1, benchPayload.Bytes}},
		{f.end, nil},
	} {
		if _, err := step.stmt.Exec(step.args...); err != nil {
			return err
		}
	}
	return nil
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

// BenchmarkReadHistory reads a history of 200,000 events in pages of 1,000, in
// turns with a plain scan of the same rows.
func BenchmarkReadHistory(b *testing.B) {
	const events = 200_000
	o := newLarge(b, events)
	var pages, scan time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		started := time.Now()
		read := 0
		for after := uint64(0); ; {
			page, err := o.store.ReadHistory(b.Context(), durable.ReadHistory{Owner: benchOwner(0), After: after, Limit: 1000})
			if err != nil {
				b.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			read += len(page)
			after = page[len(page)-1].Position
		}
		pages += time.Since(started)
		b.StopTimer()
		started = time.Now()
		scanned := scanHistory(b, o.store.DB())
		scan += time.Since(started)
		if read != scanned || read != events {
			b.Fatalf("read %d in pages, %d in a scan", read, scanned)
		}
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(events*float64(b.N)/pages.Seconds(), "events/s")
	b.ReportMetric(scan.Seconds()/pages.Seconds(), "x-scan")
}

func scanHistory(b *testing.B, db *sql.DB) (n int) {
	rows, err := db.Query("SELECT position, schema_version, codec_version, bytes FROM countersign_history WHERE owner_key = 1 ORDER BY position")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var position, schema, codec int64
		var bytes []byte
		if err := rows.Scan(&position, &schema, &codec, &bytes); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return n
}

// newLarge is a store with one owner that has many records behind it.
func newLarge(b *testing.B, size int) *spread {
	b.Helper()
	o := newOurs(b, 1)
	for _, fill := range []string{
		"INSERT INTO countersign_history WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1) SELECT 1, i, 1, 1, zeroblob(100) FROM n",
		"INSERT INTO countersign_inbox WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1) SELECT 1, printf('%08x', (i * 2654435761) % 4294967296), x'00', i FROM n ORDER BY 2",
		"INSERT INTO countersign_outbox WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1) SELECT 1, printf('%08x', (i * 2654435761) % 4294967296), i, 1, 1, zeroblob(100), NULL FROM n ORDER BY 2",
		"UPDATE countersign_owners SET position = ?1",
	} {
		if _, err := o.store.DB().Exec(fill, size); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := o.store.DB().Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
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
