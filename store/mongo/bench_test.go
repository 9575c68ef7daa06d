package mongo_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/durable"
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
