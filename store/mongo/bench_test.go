package mongo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store/mongo"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
)

// The benchmarks report ratios to a floor that is measured in turns with the
// library, in the same run, on a database of its own on the same server: for each
// call a transaction of the driver's with the same documents in one bulk write,
// and its commit. It reads nothing, knows no rules, and checks no identities.

var benchPayload = durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(strings.Repeat("x", 100))}

// benchRound is how many commits one side makes before it is the other's turn.
const benchRound = 200

// BenchmarkCommit commits an inbox record, one event and one effect of 100 bytes
// each, from several callers with an owner each.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			ours, floor := newOurs(b, callers), &floor{ours: newOurs(b, callers)}
			compare(b, callers, ours.commit, floor.commit, "floor/s", "x-floor")
		})
	}
}

// BenchmarkCommitBehindHistory commits to an owner with many events, inbox
// records and effects behind it, in turns with a new one, and reports the ratio
// of the rates.
func BenchmarkCommitBehindHistory(b *testing.B) {
	for _, records := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			large, small := newOurs(b, 1), newOurs(b, 1)
			large.fill(b, records)
			compare(b, 1, large.commit, small.commit, "new/s", "x-new")
		})
	}
}

// compare runs n commits of each side, in turns, and reports the ratio.
func compare(b *testing.B, callers int, ours, other func(caller int) error, rate, ratio string) {
	b.Helper()
	var oursTime, otherTime time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= benchRound {
		n := min(left, benchRound)
		oursTime += timeCalls(b, callers, n, ours)
		b.StopTimer()
		otherTime += timeCalls(b, callers, n, other)
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/oursTime.Seconds(), "commits/s")
	b.ReportMetric(float64(b.N)/otherTime.Seconds(), rate)
	b.ReportMetric(otherTime.Seconds()/oursTime.Seconds(), ratio)
}

func timeCalls(b *testing.B, callers, n int, call func(caller int) error) time.Duration {
	b.Helper()
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
	store *mongo.Store
	at    []uint64
}

func newOurs(b *testing.B, callers int) *ours {
	b.Helper()
	uri := server(b)
	s, err := mongo.Open(b.Context(), uri, &mongo.Options{Database: freshDatabase(b, uri)})
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

// fill gives the first owner so many records of each kind.
func (o *ours) fill(b *testing.B, records int) {
	b.Helper()
	const each = 300
	for n := 0; n < records; n += each {
		c := durable.Commit{Owner: benchOwner(0), ExpectedPosition: o.at[0], Inbox: durable.Inbox{ID: fmt.Sprint("filling ", n)}}
		for i := range each {
			c.State.AppendEvents = append(c.State.AppendEvents, benchPayload)
			c.Effects = append(c.Effects, durable.Intent{ID: fmt.Sprint("filling ", n+i), Payload: benchPayload})
		}
		res, err := o.store.CommitOwner(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		o.at[0] = res.Through
	}
}

// floor is the other side, on the same schema.
type floor struct{ *ours }

func (f *floor) commit(caller int) error {
	owner, at := benchOwner(caller), int64(f.at[caller])
	f.at[caller]++
	ctx := context.Background()
	client := f.store.Client()
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	if err := session.StartTransaction(options.Transaction().SetReadConcern(&readconcern.ReadConcern{})); err != nil {
		return err
	}
	var writes []driver.ClientBulkWrite
	add := func(m driver.ClientWriteModel) {
		writes = append(writes, driver.ClientBulkWrite{Database: f.store.Database().Name(), Collection: "countersign_owners", Model: m})
	}
	insert := func(id string, fields ...bson.E) {
		d := append(bson.D{{Key: "_id", Value: owner + "\x00" + id}, {Key: "owner", Value: owner}}, fields...)
		add(driver.NewClientInsertOneModel().SetDocument(d))
	}
	e := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	add(driver.NewClientUpdateOneModel().SetFilter(bson.D{e("_id", owner+"\x00head\x00")}).SetUpdate(bson.D{
		e("$set", bson.D{e("position", at+1), e("fence", int64(0))}), e("$inc", bson.D{e("turn", int64(1))}),
	}))
	versions := []bson.E{e("schema_version", int64(1)), e("codec_version", int64(1)), e("bytes", benchPayload.Bytes)}
	insert(fmt.Sprintf("event\x00%016x", at+1), append(versions, e("position", at+1))...)
	insert(fmt.Sprintf("inbox\x00message-%08d", at), e("fingerprint", []byte("fingerprint")), e("committed_through", at+1))
	insert(fmt.Sprintf("effect\x00effect-%08d", at), append(versions, e("accepted_at", at+1), e("pending", fmt.Sprintf("%s\x00%016xeffect-%08d", owner, at+1, at)))...)
	if _, err := client.BulkWrite(driver.NewSessionContext(ctx, session), writes, options.ClientBulkWrite().SetOrdered(true)); err != nil {
		return err
	}
	return session.CommitTransaction(ctx)
}

// BenchmarkAppendWithReceipt appends one event of 100 bytes with a receipt to one
// sequence, from 16 callers. The floor inserts the same documents, and writes the
// head, one transaction for each append: its callers have a sequence each, as they
// would only fail on one.
func BenchmarkAppendWithReceipt(b *testing.B) {
	const callers = 16
	log, floor := newLog(b), &logFloor{ours: newOurs(b, 0), at: make([]int64, callers)}
	floor.heads(b)
	compare(b, callers, func(int) error { return log.one() }, floor.append, "floor/s", "x-floor")
}

// BenchmarkAppendBatch appends batches of 1,000 events of 100 bytes.
func BenchmarkAppendBatch(b *testing.B) {
	log := newLog(b)
	b.ResetTimer()
	for range b.N {
		if err := log.fill(1_000, false); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(1_000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkBehindEvents measures what must not grow with the log: the hit of a
// receipt, an append that a constraint judges, and the tail of a source.
func BenchmarkBehindEvents(b *testing.B) {
	for _, events := range []int{1_000, 20_000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			log := newLog(b)
			for filled := 0; filled < events; filled += 1_000 {
				if err := log.fill(1_000, true); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := log.store.AppendWithReceipt(b.Context(), withReceipt("hit", placed("a"))); err != nil {
				b.Fatal(err)
			}
			for name, call := range map[string]func() error{
				"hit": func() error {
					res, err := log.store.AppendWithReceipt(context.Background(), withReceipt("hit", placed("a")))
					if err == nil && !res.AlreadyRecorded {
						err = errors.New("no hit")
					}
					return err
				},
				"constraint": func() error {
					_, err := log.store.AppendEvents(context.Background(), appendOf(namedEvent("source 7", "name 8")))
					if refused := (*eventlog.ViolationsError)(nil); errors.As(err, &refused) {
						return nil
					}
					return fmt.Errorf("not refused: %w", err)
				},
				"tail": func() error {
					_, err := log.store.ReadTail(context.Background(), eventlog.ReadTail{Sequence: orders, Filter: eventlog.Filter{Source: "source 7"}})
					return err
				},
			} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						if err := call(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// logSide is the library's side of the benchmarks of the log.
type logSide struct {
	store *mongo.Store
	n     atomic.Int64
}

func newLog(b *testing.B) *logSide {
	b.Helper()
	l := &logSide{store: newOurs(b, 0).store}
	registered(b, l.store)
	return l
}

// one appends an event with a receipt.
func (l *logSide) one() error {
	_, err := l.store.AppendWithReceipt(context.Background(), withReceipt(fmt.Sprint("occurrence ", l.n.Add(1)), benchEvent("placed", "a")))
	return err
}

// fill appends events, with names of their own or without.
func (l *logSide) fill(events int, names bool) error {
	batch := make([]eventlog.Event, events)
	for i := range batch {
		n := l.n.Add(1)
		batch[i] = benchEvent("placed", fmt.Sprint("source ", n))
		if names {
			batch[i] = namedEvent(fmt.Sprint("source ", n), fmt.Sprint("name ", n))
		}
	}
	_, err := l.store.AppendEvents(context.Background(), appendOf(batch...))
	return err
}

func benchEvent(id, source string) eventlog.Event {
	return eventlog.Event{Type: id, Source: source, Content: fmt.Appendf(nil, "%q", strings.Repeat("x", 98))}
}

// logFloor is the other side, on the same collections.
type logFloor struct {
	*ours
	at []int64
}

func (f *logFloor) heads(b *testing.B) {
	b.Helper()
	for caller := range f.at {
		if _, err := f.store.Database().Collection("countersign_log").InsertOne(b.Context(), bson.D{{Key: "_id", Value: fmt.Sprint("head ", caller)}, {Key: "next", Value: int64(0)}}); err != nil {
			b.Fatal(err)
		}
	}
}

func (f *logFloor) append(caller int) error {
	n := f.at[caller]
	f.at[caller]++
	ctx := context.Background()
	client := f.store.Client()
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	if err := session.StartTransaction(options.Transaction().SetReadConcern(&readconcern.ReadConcern{})); err != nil {
		return err
	}
	e := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	write := func(collection string, m driver.ClientWriteModel) driver.ClientBulkWrite {
		return driver.ClientBulkWrite{Database: f.store.Database().Name(), Collection: "countersign_" + collection, Model: m}
	}
	of := make([]byte, 16)
	of[0] = byte(caller)
	writes := []driver.ClientBulkWrite{
		write("log", driver.NewClientUpdateOneModel().SetFilter(bson.D{e("_id", fmt.Sprint("head ", caller))}).SetUpdate(bson.D{e("$set", bson.D{e("next", n+1)})})),
		write("log", driver.NewClientInsertOneModel().SetDocument(bson.D{
			e("_id", fmt.Sprintf("%032d", n*100+int64(caller))), e("kind", "effect_receipt"), e("of", of), e("name", fmt.Sprint("occurrence ", n)), e("effect", "effect"),
			e("outcome", "appended"), e("epoch", int64(0)), e("recorded_at", n), e("sequence", "log"), e("first", n), e("last", n), e("response", []byte(` {"ok" : true} `)),
		})),
		write("events", driver.NewClientInsertOneModel().SetDocument(bson.D{
			e("_id", append(of[:16:16], fmt.Sprintf("%08d", n)...)), e("sequence", of), e("number", n), e("type", "placed"), e("generation", int64(1)), e("source", "a"),
			e("content", benchEvent("placed", "a").Content), e("occurred", n),
		})),
	}
	if _, err := client.BulkWrite(driver.NewSessionContext(ctx, session), writes, options.ClientBulkWrite().SetOrdered(true)); err != nil {
		return err
	}
	return session.CommitTransaction(ctx)
}
