package mongo_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/internal/serverenv"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/mongo"
	"github.com/countersign/countersign/storetest"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// patience is the busy timeout of tests with many writers on a slow machine.
const patience = time.Minute

// server returns the connection string of the server to test on. It is this
// package's own where one can be started: tests let all its commands fail, and end
// all its sessions. A child process uses its parent's.
func server(t testing.TB) string {
	t.Helper()
	otherwise := serverenv.Mongo.Address(t)
	ownServer.Do(func() {
		ownServer.uri, ownServer.err = os.Getenv(mine), nil
		if ownServer.uri != "" {
			return
		}
		ownServer.uri, _, ownServer.stop, ownServer.err = serverenv.Mongo.Start(otherwise)
		if ownServer.err == nil {
			ownServer.err = os.Setenv(mine, ownServer.uri)
		}
	})
	if ownServer.err != nil {
		t.Fatalf("start a server: %v", ownServer.err)
	}
	return ownServer.uri
}

// mine is how a child process learns its parent's server.
const mine = "COUNTERSIGN_TEST_MONGO_MINE"

var ownServer struct {
	sync.Once
	uri  string
	stop func() error
	err  error
}

// TestMain draws fewer random histories than usual, unless the command line says
// how many: the server that tests start by themselves takes a second for each. In
// the end it stops this package's server.
func TestMain(m *testing.M) {
	flag.Parse()
	const checks = "rapid.checks"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == checks })
	if !given {
		if err := flag.Set(checks, "25"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if ownServer.stop != nil {
		if err := ownServer.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// cleaner is what a fresh database needs of a test.
type cleaner interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// freshDatabase returns a name that nobody else has. The database is dropped at
// the end.
func freshDatabase(t cleaner, uri string) string {
	t.Helper()
	name := fmt.Sprintf("countersign_test_%d_%016x", os.Getpid(), rand.Uint64())
	within := patience
	if _, large := t.(*testing.B); large {
		within *= 10
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		client, err := driver.Connect(options.Client().ApplyURI(uri))
		if err != nil {
			t.Errorf("connect: %v", err)
			return
		}
		defer func() { _ = client.Disconnect(ctx) }()
		if uri != os.Getenv("COUNTERSIGN_TEST_MONGO_URI") { // it is of this process, and nobody else uses it
			// SecantusDB waits for ever for a transaction that a lost client has left
			// open in a database that is dropped. Not every server has the command.
			_ = client.Database("admin").RunCommand(ctx, bson.D{{Key: "killAllSessions", Value: bson.A{}}}).Err()
		}
		if err := client.Database(name).Drop(ctx); err != nil {
			t.Errorf("drop: %v", err)
		}
	})
	return name
}

// callersClient is a client as a caller would make it. It is disconnected with
// the test.
func callersClient(t cleaner, uri string, opts ...func(*options.ClientOptions)) *driver.Client {
	t.Helper()
	o := options.Client().ApplyURI(uri)
	for _, opt := range opts {
		opt(o)
	}
	client, err := driver.Connect(o)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	return client
}

// TestConformance runs on a server of its own, which it kills.
func TestConformance(t *testing.T) {
	uri, kill := serverenv.Mongo.Own(t)
	h := storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			name := freshDatabase(t, uri)
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				opts := &mongo.Options{Database: name, Clock: o.Clock, BusyTimeout: patience}
				if o.Dial != nil {
					return openThrough(ctx, uri, opts, o.Dial)
				}
				return mongo.Open(ctx, uri, opts)
			}
		},
		Plant: func(ctx context.Context, b storetest.Backend, img durable.Image) error {
			return plant(ctx, b.(*mongo.Store), img)
		},
		Wire: true,
	}
	if kill != nil {
		h.Kill = func(ctx context.Context, _ storetest.Backend) error { return kill(ctx) }
	}
	storetest.Run(t, h)
}

// runMode runs the groups that together use everything that the store sends, or the
// whole suite with COUNTERSIGN_TEST_THOROUGH=1.
func runMode(t *testing.T, h storetest.Harness) {
	t.Helper()
	if os.Getenv("COUNTERSIGN_TEST_THOROUGH") == "1" {
		storetest.Run(t, h)
		return
	}
	storetest.RunGroups(t, h, "create", "commit", "position", "fence", "receipt", "page", "integer", "atomically")
}

// owningStore disconnects the client, which was given to the store, with it.
type owningStore struct {
	*mongo.Store
	client *driver.Client
}

// dialer is a function that connects.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

// openThrough opens the store on a client that connects by dial.
func openThrough(ctx context.Context, uri string, opts *mongo.Options, dial dialer) (*owningStore, error) {
	client, err := driver.Connect(options.Client().ApplyURI(uri).SetDialer(dial))
	if err != nil {
		return nil, err
	}
	s := &owningStore{client: client}
	if err = mongo.Migrate(ctx, client, opts); err == nil {
		s.Store, err = mongo.New(ctx, client, opts)
	}
	if err != nil {
		return nil, errors.Join(err, client.Disconnect(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *owningStore) Close() error {
	err := s.Store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, s.client.Disconnect(ctx))
}

// TestConformanceThroughTx carries each request out in a transaction of the
// caller's, on a client of the caller's, as runMode says: it outlives the store.
func TestConformanceThroughTx(t *testing.T) {
	uri := server(t)
	runMode(t, storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			name := freshDatabase(t, uri)
			client := callersClient(t, uri)
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				opts := &mongo.Options{Database: name, Clock: o.Clock, BusyTimeout: patience}
				if err := mongo.Migrate(ctx, client, opts); err != nil {
					return nil, err
				}
				s, err := mongo.New(ctx, client, opts)
				if err != nil {
					return nil, err
				}
				return &txStore{s}, nil
			}
		},
		Plant: func(ctx context.Context, b storetest.Backend, img durable.Image) error {
			return plant(ctx, b.(*txStore).store, img)
		},
		Abort: func(ctx context.Context, b storetest.Backend, c durable.Commit) error {
			return loseCommit(ctx, b.(*txStore).store, c)
		},
	})
}

// TestConformanceOnCallersClient runs on a client that the store was given, whose
// own concerns are weak, with another prefix: one that looks like the names of
// other collections (B61), as runMode says. Its transactions are those of
// TestConformance.
func TestConformanceOnCallersClient(t *testing.T) {
	uri := server(t)
	const prefix = "inbox_receipts_"
	runMode(t, storetest.Harness{
		New: func(t storetest.T) storetest.Opener {
			opts := mongo.Options{Database: freshDatabase(t, uri), Prefix: prefix, BusyTimeout: patience}
			if err := mongo.Migrate(t.Context(), callersClient(t, uri, weak), &opts); err != nil {
				t.Fatalf("migrate: %v", err)
			}
			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
				opts := opts
				opts.Clock = o.Clock
				s, err := mongo.New(ctx, callersClient(t, uri, weak), &opts)
				if err != nil {
					return nil, err
				}
				return ownersOnly{Store: s, store: s}, nil
			}
		},
		Abort: func(ctx context.Context, b storetest.Backend, c durable.Commit) error {
			return loseCommit(ctx, b.(ownersOnly).store, c)
		},
	})
}

// ownersOnly hides that the store has transactions.
type ownersOnly struct {
	durable.Store
	store *mongo.Store
}

func (s ownersOnly) Close() error { return s.store.Close() }

// loseCommit runs a commit up to its commit point and aborts its transaction.
func loseCommit(ctx context.Context, s *mongo.Store, c durable.Commit) error {
	session, err := s.Client().StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	if err := session.StartTransaction(mongo.TransactionOptions()); err != nil {
		return err
	}
	_, _ = s.Tx(driver.NewSessionContext(ctx, session)).CommitOwner(ctx, c) // whatever it says: it is lost
	return session.AbortTransaction(ctx)
}

// plant writes an image as it is. What the collection can't hold (an id twice) is
// unsupported.
func plant(ctx context.Context, s *mongo.Store, img durable.Image) error {
	records := s.Database().Collection("countersign_owners")
	if _, err := records.DeleteMany(ctx, bson.D{{Key: "owner", Value: img.Owner}}); err != nil {
		return err
	}
	id := func(kind, id string) bson.E {
		return bson.E{Key: "_id", Value: img.Owner + "\x00" + kind + "\x00" + id}
	}
	owner := bson.E{Key: "owner", Value: img.Owner}
	e := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	payload := func(p durable.Payload, fields ...bson.E) bson.D {
		return append(fields, owner, e("schema_version", int64(p.SchemaVersion)), e("codec_version", int64(p.CodecVersion)), e("bytes", append([]byte{}, p.Bytes...)))
	}
	all := []any{bson.D{id("head", ""), owner, e("mode", string(img.Mode)), e("position", int64(img.Position)), e("fence", int64(img.Fence)), e("turn", int64(0))}}
	for _, r := range img.History {
		all = append(all, payload(r.Payload, id("event", fmt.Sprintf("%016x", r.Position)), e("position", int64(r.Position))))
	}
	if r := img.Snapshot; r != nil {
		all = append(all, payload(r.Payload, id("snapshot", ""), e("position", int64(r.Position))))
	}
	for _, r := range img.Inbox {
		all = append(all, bson.D{id("inbox", r.ID), owner, e("fingerprint", append([]byte{}, r.Fingerprint...)), e("committed_through", int64(r.CommittedThrough))})
	}
	receiptOf := map[string]string{}
	for _, r := range img.Receipts {
		receiptOf[r.EffectID] = cmp.Or(receiptOf[r.EffectID], r.ID)
		all = append(all, payload(r.Payload, id("receipt", r.ID), e("effect_id", r.EffectID), e("outcome", string(r.Outcome)), e("recorded_at", int64(r.RecordedAt)), e("fence", int64(r.Fence))))
	}
	for _, r := range img.Outbox {
		state := e("pending", img.Owner+"\x00"+fmt.Sprintf("%016x", r.AcceptedAt)+r.ID)
		if receipt := receiptOf[r.ID]; receipt != "" {
			state = e("receipt_id", receipt)
		}
		all = append(all, payload(r.Payload, id("effect", r.ID), e("accepted_at", int64(r.AcceptedAt)), state))
	}
	_, err := records.InsertMany(ctx, all)
	if driver.IsDuplicateKeyError(err) {
		return fmt.Errorf("plant %q: %w: %w", img.Owner, errors.ErrUnsupported, err)
	}
	return err
}

// txStore carries each request out in a transaction of the caller's, which begins
// again as a whole after a conflict.
type txStore struct{ store *mongo.Store }

func (s *txStore) Close() error { return s.store.Close() }

func through[V any](s *txStore, request func(*mongo.Tx) (V, error)) (value V, err error) {
	var none V
	for deadline := time.Now().Add(patience); ; {
		value, err = once(s, request)
		var busy *store.BusyError
		if !errors.As(err, &busy) || time.Now().After(deadline) {
			break
		}
		time.Sleep(rand.N(10 * time.Millisecond))
	}
	if err != nil {
		return none, err
	}
	return value, nil
}

func once[V any](s *txStore, request func(*mongo.Tx) (V, error)) (V, error) {
	var none V
	ctx := context.Background() // what the request makes of its context is its own to say
	session, err := s.store.Client().StartSession()
	if err != nil {
		return request(s.store.Tx(ctx)) // closed
	}
	defer session.EndSession(ctx)
	if err := session.StartTransaction(mongo.TransactionOptions()); err != nil {
		return none, err
	}
	bound := s.store.Tx(driver.NewSessionContext(ctx, session))
	value, err := request(bound)
	var busy *store.BusyError
	if errors.As(err, &busy) {
		return none, err
	}
	if err != nil {
		return none, errors.Join(err, session.CommitTransaction(ctx)) // a refusal leaves it usable
	}
	if err := session.CommitTransaction(ctx); err != nil {
		if l := driver.LabeledError(nil); errors.As(err, &l) && l.HasErrorLabel("TransientTransactionError") {
			return none, &store.BusyError{Err: err}
		}
		return none, err
	}
	bound.Committed()
	return value, nil
}

func (s *txStore) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return through(s, func(tx *mongo.Tx) (durable.Head, error) { return tx.CreateOwner(ctx, req) })
}

func (s *txStore) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return through(s, func(tx *mongo.Tx) (durable.Image, error) { return tx.LoadOwner(ctx, req) })
}

func (s *txStore) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return through(s, func(tx *mongo.Tx) (durable.Committed, error) { return tx.CommitOwner(ctx, c) })
}

func (s *txStore) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return through(s, func(tx *mongo.Tx) (durable.Head, error) { return tx.AdvanceFence(ctx, req) })
}

func (s *txStore) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return through(s, func(tx *mongo.Tx) (durable.ReceiptRecorded, error) { return tx.RecordReceipt(ctx, req) })
}

func (s *txStore) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return through(s, func(tx *mongo.Tx) ([]durable.Record, error) { return tx.ReadHistory(ctx, req) })
}

func (s *txStore) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return through(s, func(tx *mongo.Tx) ([]durable.Effect, error) { return tx.ReadPending(ctx, req) })
}
