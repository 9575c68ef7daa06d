package bench

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store/postgres"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/hallgren/eventsourcing/core"
	hallgren "github.com/hallgren/eventsourcing/eventstore/sql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

const (
	callers = 16
	round   = 2000 // appends of one side before it is the other's turn
)

var content = []byte(`{"item":"book","price":12,"note":"` + fmt.Sprintf("%060d", 7) + `"}`)

var schema = []byte(`{"type":"object","properties":{"item":{"type":"string"},"price":{"type":"integer"},"note":{"type":"string"}},"required":["item","price"]}`)

// BenchmarkSingleAppend appends one event a call, from 16 callers: here with a
// receipt, a response and a schema, there without any of these. Both are on a
// database of the same kind, with the same durability.
func BenchmarkSingleAppend(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "ours.db"), nil)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		theirs, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "theirs.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = theirs.Close() }()
		// The one that lets a single goroutine write at a time: the other one fails
		// with "database is locked" under 16 callers.
		peer, err := hallgren.NewSQLiteSingelWriter(theirs)
		if err != nil {
			b.Fatal(err)
		}
		compare(b, newOurs(b, db), newTheirs(peer.Save))
	})
	b.Run("postgres", func(b *testing.B) {
		dsn := os.Getenv("COUNTERSIGN_TEST_POSTGRES_DSN")
		if dsn == "" {
			b.Skip("COUNTERSIGN_TEST_POSTGRES_DSN names no server")
		}
		theirs, err := sql.Open("pgx", dsn)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = theirs.Close() }()
		theirs.SetMaxOpenConns(callers)
		theirs.SetMaxIdleConns(callers)
		if _, err := theirs.ExecContext(b.Context(), `DROP TABLE IF EXISTS events; DROP SCHEMA IF EXISTS countersign_peer CASCADE`); err != nil {
			b.Fatal(err)
		}
		peer, err := hallgren.NewPostgres(theirs)
		if err != nil {
			b.Fatal(err)
		}
		db, err := postgres.Open(b.Context(), dsn, &postgres.Options{Schema: "countersign_peer"})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		compare(b, newOurs(b, db), newTheirs(peer.Save))
	})
}

type store interface {
	eventlog.Store
	receipt.Store
}

// newOurs returns the call of one of our callers.
func newOurs(b *testing.B, db store) func(caller int) error {
	b.Helper()
	ns := countersign.Namespace{EventStore: "bench", Name: "one"}
	if _, err := db.RegisterEventTypes(b.Context(), eventlog.RegisterEventTypes{EventStore: "bench", Types: []eventlog.EventType{{ID: "placed", Schema: schema}}}); err != nil {
		b.Fatal(err)
	}
	var n [callers]int
	return func(caller int) error {
		n[caller]++
		_, err := db.AppendWithReceipt(context.Background(), receipt.AppendWithReceipt{
			AppendEvents: eventlog.AppendEvents{Sequence: eventlog.Log(ns), Events: []eventlog.Event{{Type: "placed", Source: fmt.Sprint("order-", caller), Content: content}}},
			Occurrence:   fmt.Sprint("command-", caller, "-", n[caller]), Effect: "placed", Response: []byte(`{"ok":true}`),
		})
		return err
	}
}

// newTheirs returns the call of one of the peer's callers: an aggregate each.
func newTheirs(save func([]core.Event) error) func(caller int) error {
	var n [callers]int
	return func(caller int) error {
		n[caller]++
		return save([]core.Event{{
			AggregateID: fmt.Sprint("order-", caller), AggregateType: "order", Version: core.Version(n[caller]),
			Reason: "placed", Timestamp: time.Now(), Data: content, Metadata: []byte(`{}`),
		}})
	}
}

// compare lets both sides append in turns, and reports the ratio.
func compare(b *testing.B, ours, theirs func(caller int) error) {
	var oursTime, theirsTime time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= round {
		n := min(left, round)
		oursTime += timeCalls(b, n, ours)
		b.StopTimer()
		theirsTime += timeCalls(b, n, theirs)
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/oursTime.Seconds(), "appends/s")
	b.ReportMetric(float64(b.N)/theirsTime.Seconds(), "peer/s")
	b.ReportMetric(theirsTime.Seconds()/oursTime.Seconds(), "x-hallgren/eventsourcing")
}

func timeCalls(b *testing.B, n int, call func(caller int) error) time.Duration {
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
