package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/postgres"
	"github.com/countersign/countersign/storetest/netfault"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var shop = countersign.Namespace{EventStore: "shop", Name: "eu"}

// register registers the event types and the constraint of these tests.
func register(t testing.TB, s store.EventStore) {
	t.Helper()
	_, err := s.RegisterEventTypes(context.Background(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{
		{ID: "noted", Schema: []byte(`true`)}, {ID: "named", Schema: []byte(`true`)},
	}})
	require.NoError(t, err)
	_, err = s.RegisterConstraints(context.Background(), eventlog.RegisterConstraints{EventStore: "shop", Constraints: []eventlog.Constraint{
		{Name: "name", Kind: eventlog.UniqueValue, Covers: []eventlog.Covered{{Type: "named", Properties: []string{"name"}}}},
	}})
	require.NoError(t, err)
}

func noted(sequence string, sources ...string) eventlog.AppendEvents {
	req := eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: shop, Name: sequence}}
	for _, source := range sources {
		req.Events = append(req.Events, eventlog.Event{Type: "noted", Source: source, Content: []byte(`{}`)})
	}
	return req
}

func withReceipt(sequence, occurrence string, sources ...string) receipt.AppendWithReceipt {
	return receipt.AppendWithReceipt{AppendEvents: noted(sequence, sources...), Occurrence: occurrence, Effect: "effect"}
}

func allEvents(t testing.TB, s store.EventStore, sequence string) []eventlog.Recorded {
	t.Helper()
	var all []eventlog.Recorded
	for e, err := range eventlog.Events(context.Background(), s, eventlog.ReadEvents{Sequence: eventlog.Sequence{Namespace: shop, Name: sequence}}) {
		require.NoError(t, err)
		require.EqualValues(t, len(all), e.Number, "no gaps")
		all = append(all, e)
	}
	return all
}

// An append that loses its connection at any of its writes, before or after the
// server got it, is told truly, and its repetition learns what happened.
func TestConnectionLostDuringAnAppend(t *testing.T) {
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		for _, reached := range []bool{false, true} {
			for nth := int64(1); nth <= 3; nth++ {
				t.Run(fmt.Sprintf("%s/reached %v/write %d", mode, reached, nth), func(t *testing.T) {
					var left atomic.Int64
					lose := func([]byte) bool { return left.Add(-1) == 0 }
					w := &wire{}
					if reached {
						w.after = lose
					} else {
						w.before = lose
					}
					s := wired(t, w, mode, nil)
					register(t, s)
					for i := range 2 { // so that statements are prepared
						_, err := s.AppendWithReceipt(t.Context(), withReceipt("log", fmt.Sprint("before ", i), "a"))
						require.NoError(t, err)
					}
					req := withReceipt("log", "o", "a", "b")
					left.Store(nth)
					_, err := s.AppendWithReceipt(t.Context(), req)
					left.Store(0)
					n := len(allEvents(t, s, "log"))
					switch {
					case err == nil:
						require.Equal(t, 4, n)
					case errors.Is(err, countersign.ErrRetryable):
						require.Equal(t, 2, n)
					default:
						var unknown *receipt.UnknownOutcomeError
						require.ErrorAs(t, err, &unknown)
						require.Equal(t, req.Key(), unknown.Key)
					}
					res, err := s.AppendWithReceipt(t.Context(), req)
					require.NoError(t, err)
					assert.Equal(t, n == 4, res.AlreadyRecorded)
					assert.EqualValues(t, 2, res.Receipt.First)
					assert.Len(t, allEvents(t, s, "log"), 4)
				})
			}
		}
	}
}

// Backends that are terminated in the middle of groups: no event is lost or there
// twice, and no answer is wrong.
func TestBackendsTerminatedUnderGroups(t *testing.T) {
	const callers, each = 8, 40
	s := wired(t, &wire{}, "cache_statement", &postgres.Options{BusyTimeout: patience})
	register(t, s)
	done := make(chan struct{})
	var killer, wg sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(15 * time.Millisecond):
				assert.NoError(t, adminExec(serverDSN(t), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+s.Pool().Config().ConnConfig.Database+"'"))
			}
		}
	})
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				req := withReceipt(fmt.Sprint("log ", caller%2), fmt.Sprint(caller, " ", i), fmt.Sprint(caller))
				for sure := true; ; {
					res, err := s.AppendWithReceipt(context.Background(), req)
					if err == nil {
						assert.False(t, sure && res.AlreadyRecorded, "a retryable error left something behind")
						break
					}
					if errors.Is(err, countersign.ErrUnknownOutcome) {
						sure = false
					} else if !assert.ErrorIs(t, err, countersign.ErrRetryable) {
						return
					}
				}
			}
		})
	}
	wg.Wait()
	close(done)
	killer.Wait()
	for i := range 2 {
		assert.Len(t, allEvents(t, s, fmt.Sprint("log ", i)), callers/2*each)
	}
}

// struck waits until a fault has struck.
func struck(t *testing.T, f *netfault.Fault) {
	t.Helper()
	select {
	case <-f.Struck():
	case <-time.After(10 * time.Second):
		require.Fail(t, "nothing was sent that the fault waits for")
	}
}

// A COMMIT whose answer is lost is an unknown outcome: without a receipt with the
// number to look from, with one with its key.
func TestLostAnswerToTheCommitOfAnAppend(t *testing.T) {
	proxy, err := netfault.Listen("")
	require.NoError(t, err)
	defer func() { require.NoError(t, proxy.Close()) }()
	config, err := pgxpool.ParseConfig(inMode(migratedDatabase(t, serverDSN(t)), "simple_protocol"))
	require.NoError(t, err)
	config.ConnConfig.DialFunc = proxy.DialContext
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	s, err := postgres.New(t.Context(), pool, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	register(t, s)
	_, err = s.AppendEvents(t.Context(), noted("log", "a"))
	require.NoError(t, err)

	commit := []byte("COMMIT\n;") // not of READ COMMITTED: what tells of the append comes behind it
	lost := proxy.LoseReply(commit)
	_, err = s.AppendEvents(t.Context(), noted("log", "b"))
	struck(t, lost)
	var unknown *eventlog.UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, eventlog.OpAppend, unknown.Op)
	assert.EqualValues(t, 1, unknown.From)
	assert.Len(t, allEvents(t, s, "log"), 2)

	lost = proxy.LoseReply(commit)
	req := withReceipt("log", "o", "c")
	_, err = s.AppendWithReceipt(t.Context(), req)
	struck(t, lost)
	var unknownReceipt *receipt.UnknownOutcomeError
	require.ErrorAs(t, err, &unknownReceipt)
	res, err := s.AppendWithReceipt(t.Context(), req)
	require.NoError(t, err)
	assert.True(t, res.AlreadyRecorded)
	assert.Len(t, allEvents(t, s, "log"), 3)

	for op, call := range map[string]func() error{
		eventlog.OpRegisterEventTypes: func() error {
			_, err := s.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "new", Schema: []byte(`true`)}}})
			return err
		},
		eventlog.OpClaimObserver: func() error {
			_, err := s.ClaimObserver(t.Context(), eventlog.ClaimObserver{Key: eventlog.ObserverKey{Sequence: eventlog.Log(shop), Name: "o"}, Holder: "h"})
			return err
		},
		eventlog.OpDropNamespace: func() error {
			_, err := s.DropNamespace(t.Context(), countersign.Namespace{EventStore: "shop", Name: "none"})
			return err
		},
	} {
		lost = proxy.LoseReply([]byte("COMMIT\x00"))
		err := call()
		struck(t, lost)
		require.ErrorAs(t, err, &unknown, op)
		assert.Equal(t, op, unknown.Op)
		require.NoError(t, call(), "it is repeated")
	}
}

// Each unique constraint that fires is told by its name, and never taken for
// something else; nothing is written.
func TestUniqueConstraintsByName(t *testing.T) {
	spoil := func(table, change string) string {
		return `CREATE OR REPLACE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN ` + change + `; RETURN NEW; END';
			CREATE TRIGGER spoil BEFORE INSERT ON countersign.` + table + ` FOR EACH ROW EXECUTE FUNCTION spoil()`
	}
	tagged := noted("log", "a")
	tagged.Events[0].Tags = []eventlog.Tag{{Value: "t"}}
	named := eventlog.AppendEvents{Sequence: eventlog.Log(shop), Events: []eventlog.Event{{Type: "named", Source: "b", Content: []byte(`{"name":"b"}`)}}}
	for constraint, c := range map[string]struct {
		prepare string
		req     eventlog.AppendEvents
		rule    string
	}{
		"events_number": {
			"INSERT INTO countersign.events SELECT sequence_key, next, 0, 1, 1, 'x', 'x', '', '', '', '', '', '', '', '', '' FROM countersign.sequences",
			noted("log", "a"), "a second event under one number",
		},
		"event_tags_key": {
			`INSERT INTO countersign.event_tags SELECT sequence_key, '\x0074', next FROM countersign.sequences`,
			tagged, "a second tag of one event",
		},
		"claims_value":  {spoil("claims", "NEW.value := (SELECT value FROM countersign.claims)"), named, "a second claim of one value"},
		"claims_source": {spoil("claims", "NEW.source := (SELECT source FROM countersign.claims)"), named, "a second claim of one source"},
	} {
		t.Run(constraint, func(t *testing.T) {
			s := wired(t, &wire{}, "cache_statement", nil)
			register(t, s)
			_, err := s.AppendEvents(t.Context(), eventlog.AppendEvents{Sequence: eventlog.Log(shop), Events: []eventlog.Event{{Type: "named", Source: "a", Content: []byte(`{"name":"a"}`)}}})
			require.NoError(t, err)
			_, err = s.Pool().Exec(t.Context(), c.prepare, pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err)
			defer func() {
				_, err := s.Pool().Exec(context.Background(), "DROP FUNCTION IF EXISTS spoil CASCADE")
				require.NoError(t, err)
			}()
			_, err = s.AppendEvents(t.Context(), c.req)
			var unusable *store.UnusableError
			require.ErrorAs(t, err, &unusable)
			assert.Contains(t, unusable.Reason, c.rule)
			var driver *pgconn.PgError
			require.ErrorAs(t, err, &driver)
			assert.Equal(t, constraint, driver.ConstraintName)
			tail, err := s.ReadTail(t.Context(), eventlog.ReadTail{Sequence: eventlog.Log(shop)})
			require.NoError(t, err)
			assert.EqualValues(t, 1, tail.Next)
		})
	}
	t.Run("effect_receipts_key", func(t *testing.T) {
		s := wired(t, &wire{}, "cache_statement", nil)
		register(t, s)
		_, err := s.AppendWithReceipt(t.Context(), withReceipt("log", "o", "a"))
		require.NoError(t, err)
		_, err = s.Pool().Exec(t.Context(), spoil("effect_receipts", "NEW.occurrence_id := ''o''"), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		defer func() {
			_, err := s.Pool().Exec(context.Background(), "DROP FUNCTION IF EXISTS spoil CASCADE")
			require.NoError(t, err)
		}()
		_, err = s.AppendWithReceipt(t.Context(), withReceipt("other", "p", "a"))
		var unsettled *receipt.UnsettledError
		require.ErrorAs(t, err, &unsettled)
		assert.Equal(t, "p", unsettled.Key.Occurrence)
		require.ErrorIs(t, err, countersign.ErrRetryable)
		_, err = s.RecordEffect(t.Context(), receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: shop, Occurrence: "q", Effect: "effect"}}})
		require.ErrorAs(t, err, &unsettled)
		tx, err := s.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = s.Tx(tx).AppendWithReceipt(t.Context(), withReceipt("other", "r", "a"))
		require.ErrorAs(t, err, &unsettled)
		_, err = s.Tx(tx).AppendEvents(t.Context(), noted("other", "a"))
		require.NoError(t, err, "the transaction is usable")
		require.NoError(t, tx.Commit(t.Context()))
		assert.Len(t, allEvents(t, s, "other"), 1)
	})
	t.Run("observers_name", func(t *testing.T) {
		s := wired(t, &wire{}, "cache_statement", nil)
		claim := func(name string) error {
			_, err := s.ClaimObserver(t.Context(), eventlog.ClaimObserver{Key: eventlog.ObserverKey{Sequence: eventlog.Log(shop), Name: name}, Holder: "h"})
			return err
		}
		require.NoError(t, claim("a"))
		_, err := s.Pool().Exec(t.Context(), spoil("observers", "NEW.name := ''a''"), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		defer func() {
			_, err := s.Pool().Exec(context.Background(), "DROP FUNCTION IF EXISTS spoil CASCADE")
			require.NoError(t, err)
		}()
		var busy *store.BusyError
		require.ErrorAs(t, claim("b"), &busy)
	})
}

// Appends to several sequences that race for one receipt: one is first, and all learn
// of it.
func TestSequencesRaceForOneReceipt(t *testing.T) {
	const callers, rounds = 8, 25
	s := wired(t, &wire{}, "cache_statement", &postgres.Options{BusyTimeout: patience})
	other, err := postgres.New(t.Context(), s.Pool(), &postgres.Options{BusyTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	register(t, s)
	for round := range rounds {
		results := make([]receipt.Result, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				var err error
				switch i % 4 {
				case 0:
					results[i], err = s.AppendWithReceipt(context.Background(), withReceipt(fmt.Sprint(i), fmt.Sprint(round), "a"))
				case 1:
					results[i], err = other.AppendWithReceipt(context.Background(), withReceipt(fmt.Sprint(i%3), fmt.Sprint(round), "a", "b"))
				case 2:
					results[i], err = s.RecordEffect(context.Background(), receipt.RecordEffect{Effect: receipt.Effect{Key: withReceipt("", fmt.Sprint(round)).Key()}})
				default:
					err = other.Atomically(context.Background(), func(ctx context.Context, tx store.Backend) (err error) {
						results[i], err = tx.AppendWithReceipt(ctx, withReceipt(fmt.Sprint(i%3), fmt.Sprint(round), "c"))
						return err
					})
				}
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		first := 0
		for _, r := range results {
			assert.Equal(t, results[0].Receipt, r.Receipt)
			if !r.AlreadyRecorded {
				first++
			}
		}
		assert.Equal(t, 1, first)
	}
	total := 0
	for i := range callers {
		total += len(allEvents(t, s, fmt.Sprint(i)))
	}
	listed, err := s.ListReceipts(t.Context(), receipt.ListReceipts{Namespace: shop, Occurrences: strings.Fields(strings.Trim(fmt.Sprint(countTo(rounds)), "[]"))})
	require.NoError(t, err)
	require.Len(t, listed, rounds)
	for _, r := range listed {
		if r.Outcome == receipt.Appended {
			total -= int(r.Last - r.First + 1)
		}
	}
	assert.Zero(t, total, "every event has its receipt")
}

func countTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Bodies that append to the same sequences, and write to the same owner, in opposite
// orders all succeed.
func TestBodiesAppendInOppositeOrders(t *testing.T) {
	const rounds = 40
	sequences := []string{"a", "b", "c", "d"}
	s := wired(t, &wire{}, "cache_statement", &postgres.Options{BusyTimeout: patience}, "owner")
	register(t, s)
	var wg sync.WaitGroup
	for side := range 2 {
		wg.Go(func() {
			for round := range rounds {
				err := s.Atomically(context.Background(), func(ctx context.Context, tx store.Backend) error {
					for i := range sequences {
						at := i
						if side == 1 {
							at = len(sequences) - 1 - i
						}
						if _, err := tx.AppendEvents(ctx, noted(sequences[at], "s")); err != nil {
							return err
						}
						if at == 1 {
							if _, err := tx.AdvanceFence(ctx, durable.AdvanceFence{Owner: "owner", Fence: uint64(2*round + side + 1)}); err != nil && !errors.Is(err, countersign.ErrRefused) {
								return err
							}
						}
					}
					return nil
				})
				if !assert.NoError(t, err, "side %d, round %d", side, round) {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, sequence := range sequences {
		assert.Len(t, allEvents(t, s, sequence), 2*rounds)
	}
}

// A namespace that is dropped while others append to it: each append is there with
// its receipt, or neither is.
func TestNamespaceDroppedUnderAppends(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", &postgres.Options{BusyTimeout: patience})
	register(t, s)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for caller := range 6 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				req := withReceipt(fmt.Sprint(i%3), fmt.Sprint(caller, " ", i), fmt.Sprint(caller))
				if _, err := s.AppendWithReceipt(context.Background(), req); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	var dropped eventlog.Dropped
	for range 30 {
		one, err := s.DropNamespace(t.Context(), shop)
		require.NoError(t, err)
		assert.Equal(t, one.Events, one.Receipts)
		dropped.Events += one.Events
		time.Sleep(10 * time.Millisecond)
	}
	stop.Store(true)
	wg.Wait()
	assert.NotZero(t, dropped.Events)
	left := 0
	for i := range 3 {
		left += len(allEvents(t, s, fmt.Sprint(i)))
	}
	var rows [4]int
	require.NoError(t, s.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM countersign.events), (SELECT count(*) FROM countersign.effect_receipts),
		(SELECT count(*) FROM countersign.sequences), (SELECT count(*) FROM countersign.effect_receipts r JOIN countersign.sequences q ON q.name = r.sequence
			JOIN countersign.events e ON e.sequence_key = q.sequence_key AND e.number = r.first)`).Scan(&rows[0], &rows[1], &rows[2], &rows[3]))
	assert.Equal(t, [4]int{left, left, rows[2], left}, rows, "nothing is left over, and every receipt has its event")
}

// A caller's transaction that reads from an old snapshot is told so, and not given a
// number, or a verdict on a scope, that is no longer true.
func TestAppendFromAnOldSnapshot(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", nil)
	register(t, s)
	_, err := s.AppendEvents(t.Context(), noted("log", "a"))
	require.NoError(t, err)
	for _, req := range []eventlog.AppendEvents{
		noted("log", "b"),
		{Sequence: eventlog.Log(shop), Scopes: []eventlog.Scope{{Source: "c", Expected: eventlog.NoneYet()}}},
	} {
		tx, err := s.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		require.NoError(t, err)
		bound := s.Tx(tx)
		_, err = bound.ReadTail(t.Context(), eventlog.ReadTail{Sequence: eventlog.Log(shop)})
		require.NoError(t, err)
		_, err = s.AppendEvents(t.Context(), noted("log", "c"))
		require.NoError(t, err)
		_, err = bound.AppendEvents(t.Context(), req)
		var busy *store.BusyError
		require.ErrorAs(t, err, &busy)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	// A receipt that it can't see.
	tx, err := s.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	bound := s.Tx(tx)
	_, err = bound.ReadTail(t.Context(), eventlog.ReadTail{Sequence: eventlog.Log(shop)})
	require.NoError(t, err)
	_, err = s.AppendWithReceipt(t.Context(), withReceipt("other", "o", "a"))
	require.NoError(t, err)
	_, err = bound.AppendWithReceipt(t.Context(), withReceipt("log", "o", "a"))
	require.IsType(t, &receipt.UnsettledError{}, err)
	require.NoError(t, tx.Rollback(t.Context()))
}

// A sequence that a caller's transaction holds keeps nobody else waiting, and its own
// appends give up after the busy timeout.
func TestHeldSequence(t *testing.T) {
	dsn := setting(migratedDatabase(t, serverDSN(t)), "pool_max_conns", "4")
	s, err := postgres.Open(t.Context(), dsn, &postgres.Options{BusyTimeout: 300 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	register(t, s)
	held := []string{"a", "b", "c", "d", "e"} // more than there are connections
	tx, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	for i, sequence := range held {
		if i%2 == 0 { // the others are being created
			_, err := s.AppendEvents(t.Context(), noted(sequence, "a"))
			require.NoError(t, err)
		}
		_, err := s.Tx(tx).AppendWithReceipt(t.Context(), withReceipt(sequence, sequence, "a"))
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	for _, sequence := range held {
		wg.Go(func() {
			_, err := s.AppendEvents(context.Background(), noted(sequence, "a"))
			var busy *store.BusyError
			assert.ErrorAs(t, err, &busy)
		})
		wg.Go(func() {
			_, err := s.RecordEffect(context.Background(), receipt.RecordEffect{Effect: receipt.Effect{Key: withReceipt("", sequence).Key()}})
			var busy *store.BusyError
			assert.ErrorAs(t, err, &busy)
		})
	}
	for i := range 50 {
		_, err := s.AppendWithReceipt(t.Context(), withReceipt("free", fmt.Sprint("free ", i), "a"))
		require.NoError(t, err)
	}
	wg.Wait()
	require.NoError(t, tx.Rollback(t.Context()))
	for _, sequence := range held {
		_, err := s.AppendWithReceipt(t.Context(), withReceipt(sequence, sequence, "a"))
		require.NoError(t, err)
	}
}
