package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store/sqlite"
)

// BenchmarkObserverDrain lets an observer catch up with 50,000 and with 500,000
// events of a SQLite file, and reports the ratio of the rates.
func BenchmarkObserverDrain(b *testing.B) {
	db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "drain.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.RegisterEventTypes(b.Context(), eventlog.RegisterEventTypes{EventStore: "bench", Types: []eventlog.EventType{{ID: "placed", Schema: schema}}}); err != nil {
		b.Fatal(err)
	}
	few, many := fill(b, db, "few", 50_000), fill(b, db, "many", 500_000)
	n := 0
	drain := func(q eventlog.Sequence, events int) float64 {
		n++
		seen := 0
		o, err := eventlog.NewObserver(db, func(context.Context, eventlog.Delivery) error { seen++; return nil },
			eventlog.ObserverOptions{Name: fmt.Sprint("observer-", n), Sequence: q})
		if err != nil {
			b.Fatal(err)
		}
		started := time.Now()
		if err := o.CatchUp(b.Context()); err != nil {
			b.Fatal(err)
		}
		if seen != events {
			b.Fatalf("%d events of %d", seen, events)
		}
		return float64(events) / time.Since(started).Seconds()
	}
	var fewRate, manyRate float64
	for b.Loop() {
		for range 3 {
			fewRate += drain(few, 50_000) / 3
		}
		manyRate += drain(many, 500_000)
	}
	b.ReportMetric(manyRate/float64(b.N), "events/s")
	b.ReportMetric(manyRate/fewRate, "x-rate-of-50000")
}

func fill(b *testing.B, db eventlog.Store, name string, events int) eventlog.Sequence {
	b.Helper()
	q := eventlog.Sequence{Namespace: countersign.Namespace{EventStore: "bench", Name: "drain"}, Name: name}
	batch := make([]eventlog.Event, eventlog.MaxEvents)
	for n := 0; n < events; n += len(batch) {
		for i := range batch {
			batch[i] = eventlog.Event{Type: "placed", Source: fmt.Sprint("order-", (n+i)%1000), Content: content}
		}
		if _, err := db.AppendEvents(b.Context(), eventlog.AppendEvents{Sequence: q, Events: batch}); err != nil {
			b.Fatal(err)
		}
	}
	return q
}
