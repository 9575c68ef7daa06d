package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	faultyShop = countersign.Namespace{EventStore: "shop", Name: "eu"}
	orders     = eventlog.Sequence{Namespace: faultyShop, Name: "orders"}
	invoices   = eventlog.Sequence{Namespace: faultyShop, Name: "invoices"}
)

// faultyLog is a faultyStore in which the event type "noted" is registered, and each
// sequence has one event.
func faultyLog(t *testing.T, f *faults, opts *sqlite.Options) *sqlite.Store {
	t.Helper()
	s := faultyStore(t, f, opts, "a")
	_, err := s.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "noted", Schema: []byte("true")}}})
	require.NoError(t, err)
	for _, q := range []eventlog.Sequence{orders, invoices} {
		_, err = s.AppendEvents(t.Context(), noted(q, "first"))
		require.NoError(t, err)
	}
	return s
}

func noted(q eventlog.Sequence, texts ...string) eventlog.AppendEvents {
	req := eventlog.AppendEvents{Sequence: q}
	for _, text := range texts {
		req.Events = append(req.Events, eventlog.Event{Type: "noted", Source: "source", Tags: []eventlog.Tag{{Value: "tag"}}, Content: fmt.Appendf(nil, "%q", text)})
	}
	return req
}

func withReceipt(occurrence string, req eventlog.AppendEvents) receipt.AppendWithReceipt {
	return receipt.AppendWithReceipt{AppendEvents: req, Occurrence: occurrence, Effect: "effect", Epoch: 1, Response: []byte(" {} ")}
}

// contents are those of a sequence's events, which have no gaps.
func contents(t *testing.T, r eventlog.Reader, q eventlog.Sequence) (all []string) {
	t.Helper()
	page, err := r.ReadEvents(t.Context(), eventlog.ReadEvents{Sequence: q})
	require.NoError(t, err)
	for i, e := range page.Events {
		require.EqualValues(t, i, e.Number)
		all = append(all, strings.Trim(string(e.Content), `"`))
	}
	return all
}

// An append whose COMMIT reply is lost is unknown. Its error says where to look; one
// with a receipt is repeated.
func TestLostCommitReplyOfAnAppend(t *testing.T) {
	for _, carriedOut := range []bool{false, true} {
		t.Run(fmt.Sprintf("carried out %v", carriedOut), func(t *testing.T) {
			l, f := &losing{}, &faults{}
			if carriedOut {
				f.after = l.lose
			} else {
				f.before = l.lose
			}
			s := faultyLog(t, f, nil)
			l.arm(1)
			_, err := s.AppendEvents(t.Context(), noted(orders, "second"))
			require.ErrorIs(t, err, errLost)
			var unknown *eventlog.UnknownOutcomeError
			require.ErrorAs(t, err, &unknown)
			assert.Equal(t, eventlog.UnknownOutcomeError{Op: eventlog.OpAppend, Sequence: orders, From: 1, Err: unknown.Err}, *unknown)
			want := []string{"first"}
			if carriedOut {
				want = append(want, "second")
			}
			assert.Equal(t, want, contents(t, s, orders))

			l.arm(1)
			_, err = s.AppendWithReceipt(t.Context(), withReceipt("o", noted(orders, "third")))
			var unsure *receipt.UnknownOutcomeError
			require.ErrorAs(t, err, &unsure)
			require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
			res, err := s.AppendWithReceipt(t.Context(), withReceipt("o", noted(orders, "third, once more")))
			require.NoError(t, err)
			assert.Equal(t, carriedOut, res.AlreadyRecorded)
			third := "third, once more"
			if carriedOut {
				third = "third"
			}
			assert.Equal(t, append(want, third), contents(t, s, orders))
		})
	}
}

// What else writes says its operation, and can be repeated.
func TestLostCommitReplyOfOtherWrites(t *testing.T) {
	l := &losing{}
	s := faultyLog(t, &faults{after: l.lose}, nil)
	ctx := t.Context()
	key := eventlog.ObserverKey{Sequence: orders, Name: "observer"}
	for op, call := range map[string]func() error{
		eventlog.OpRegisterEventTypes: func() error {
			_, err := s.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "other", Schema: []byte("true")}}})
			return err
		},
		eventlog.OpClaimObserver: func() error {
			_, err := s.ClaimObserver(ctx, eventlog.ClaimObserver{Key: key, Holder: "h"})
			return err
		},
		eventlog.OpDropNamespace: func() error {
			_, err := s.DropNamespace(ctx, faultyShop)
			return err
		},
	} {
		l.arm(1)
		err := call()
		var unknown *eventlog.UnknownOutcomeError
		require.ErrorAs(t, err, &unknown, op)
		assert.Equal(t, op, unknown.Op)
		require.NoError(t, call(), op)
	}
	l.arm(1)
	_, err := s.RecordEffect(ctx, receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: faultyShop, Occurrence: "o", Effect: "e"}}})
	var unknown *receipt.UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
}

// A hit, a refusal and a violated scope that were decided beside a neighbour's append
// are not told when the COMMIT fails.
func TestAppendVerdictsWaitForTheCommit(t *testing.T) {
	l := &losing{}
	s := faultyLog(t, &faults{before: l.lose}, nil)
	release := hold(t, s)
	var errs [4]error
	scoped := noted(orders, "scoped")
	scoped.Scopes = []eventlog.Scope{{Source: "source", Expected: eventlog.Seen(0)}}
	call := func(i int, occurrence string, req eventlog.AppendEvents) func() {
		return func() { _, errs[i] = s.AppendWithReceipt(context.Background(), withReceipt(occurrence, req)) }
	}
	wait := queued(t, s, call(0, "o", noted(orders, "second")), call(1, "o", noted(orders, "again")), call(2, "other", scoped),
		call(3, "o", noted(invoices, "another sequence")))
	l.arm(2) // the first COMMIT is of the transaction that holds the store
	release()
	wait()
	assert.ErrorIs(t, errs[0], countersign.ErrUnknownOutcome, "the append itself")
	for i := 1; i < 4; i++ {
		assert.ErrorIs(t, errs[i], countersign.ErrRetryable)
		assert.NotErrorIs(t, errs[i], countersign.ErrConflict)
	}
	assert.Equal(t, []string{"first"}, contents(t, s, orders))
}

// Appends to several sequences, records, refusals and hits share one transaction, in
// the order of their arrival.
func TestAppendsShareOneTransaction(t *testing.T) {
	var commits atomic.Int64
	s := faultyLog(t, &faults{after: func(query string) error {
		if query == "COMMIT" {
			commits.Add(1)
		}
		return nil
	}}, nil)
	release := hold(t, s)
	var results [5]receipt.Result
	var errs [6]error
	call := func(i int, occurrence string, req eventlog.AppendEvents) func() {
		return func() {
			results[i], errs[i] = s.AppendWithReceipt(context.Background(), withReceipt(occurrence, req))
		}
	}
	unknownType := noted(orders, "refused")
	unknownType.Events[0].Type = "nobody knows it"
	wait := queued(t, s,
		call(0, "a", noted(orders, "second", "third")), call(1, "b", noted(invoices, "second")), call(2, "c", unknownType),
		call(3, "a", noted(invoices, "no more")), call(4, "d", noted(orders, "fourth")),
		func() {
			_, errs[5] = s.RecordEffect(context.Background(), receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: faultyShop, Occurrence: "e", Effect: "effect"}}, Reasons: []string{"no"}})
		})
	commits.Store(0)
	release()
	wait()
	assert.EqualValues(t, 2, commits.Load(), "one for the transaction that held the store, one for the group")
	for _, i := range []int{0, 1, 3, 4, 5} {
		require.NoError(t, errs[i])
	}
	var violations *eventlog.ViolationsError
	require.ErrorAs(t, errs[2], &violations)
	assert.True(t, results[3].AlreadyRecorded)
	assert.Equal(t, "orders", results[3].Receipt.Sequence)
	assert.EqualValues(t, 3, results[4].Receipt.First)
	assert.Equal(t, []string{"first", "second", "third", "fourth"}, contents(t, s, orders))
	assert.Equal(t, []string{"first", "second"}, contents(t, s, invoices))
}

// An append that the database refuses fails alone, and leaves no trace: whatever
// statement it is.
func TestFailingAppendIsWrittenApartFromItsNeighbours(t *testing.T) {
	for _, table := range []string{"events (", "event_tags", "effect_receipts", "sequences SET"} {
		t.Run(table, func(t *testing.T) {
			var armed atomic.Int64
			broken := errors.New("disk I/O error")
			s := faultyLog(t, &faults{before: func(query string) error {
				if strings.Contains(query, "countersign_"+table) && !strings.Contains(query, "SELECT") && armed.Add(-1) >= 0 {
					return broken
				}
				return nil
			}}, nil)
			release := hold(t, s)
			var errs [3]error
			call := func(i int, text string, q eventlog.Sequence) func() {
				return func() { _, errs[i] = s.AppendWithReceipt(context.Background(), withReceipt(text, noted(q, text))) }
			}
			wait := queued(t, s, call(0, "bad", orders), call(1, "good", orders), call(2, "fine", invoices))
			armed.Store(2) // of the group, and then of the first one by itself
			release()
			wait()
			require.ErrorIs(t, errs[0], broken)
			require.NotErrorIs(t, errs[0], countersign.ErrUnknownOutcome)
			require.NoError(t, errs[1])
			require.NoError(t, errs[2])
			assert.Equal(t, []string{"first", "good"}, contents(t, s, orders))
			_, err := s.ReadReceipt(t.Context(), receipt.Key{Namespace: faultyShop, Occurrence: "bad", Effect: "effect"})
			var none *receipt.UnknownReceiptError
			require.ErrorAs(t, err, &none)
		})
	}
}

// Rows that contradict the sequence's are never taken for an earlier append.
func TestContradictingRowsAreUnusable(t *testing.T) {
	s := faultyLog(t, &faults{}, nil)
	_, err := s.DB().Exec("UPDATE countersign_sequences SET next = 0 WHERE name = 'orders'")
	require.NoError(t, err)
	_, err = s.AppendEvents(t.Context(), noted(orders, "second"))
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
	_, err = s.AppendEvents(t.Context(), noted(invoices, "second"))
	require.NoError(t, err)
}

// An append is withdrawn without a trace while it waits, and is unknown once it was
// taken: its caller's memory is its own again.
func TestContextOfAnAppend(t *testing.T) {
	atCommit, goOn := make(chan struct{}), make(chan struct{})
	l := &losing{}
	s := faultyLog(t, &faults{before: func(query string) error {
		if l.lose(query) != nil {
			close(atCommit)
			<-goOn
		}
		return nil
	}}, nil)
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	wait := queued(t, s, func() { _, err = s.AppendEvents(ctx, noted(orders, "withdrawn")) })
	cancel()
	wait()
	var notTaken *store.NotTakenError
	require.ErrorAs(t, err, &notTaken)
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithCancel(t.Context())
	req := noted(orders, "taken")
	first := make(chan error, 1)
	wait = queued(t, s,
		func() {
			_, e := s.AppendEvents(context.Background(), noted(invoices, "neighbour"))
			first <- e
		},
		func() { _, err = s.AppendEvents(ctx, req) })
	l.arm(2)
	release()
	<-atCommit
	cancel()
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	time.Sleep(10 * time.Millisecond)
	copy(req.Events[0].Content, `"other`)
	close(goOn)
	<-done
	require.NoError(t, <-first)
	if err != nil { // the caller that wrote the group itself saw the result
		var unknown *eventlog.UnknownOutcomeError
		require.ErrorAs(t, err, &unknown)
		assert.LessOrEqual(t, unknown.From, uint64(1))
	}
	assert.Equal(t, []string{"first", "taken"}, contents(t, s, orders))
}

// What would wait for its own transaction is refused; reading is possible.
func TestEventCallsInsideABody(t *testing.T) {
	s := faultyLog(t, &faults{}, &sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	key := eventlog.ObserverKey{Sequence: orders, Name: "observer"}
	err := s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		_, err := tx.AppendEvents(ctx, noted(orders, "second"))
		require.NoError(t, err)
		for name, call := range map[string]func(ctx context.Context) error{
			"append": func(ctx context.Context) error { _, err := s.AppendEvents(ctx, noted(orders, "never")); return err },
			"define": func(ctx context.Context) error {
				_, err := s.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "x", Schema: []byte("true")}}})
				return err
			},
			"claim": func(ctx context.Context) error {
				_, err := s.ClaimObserver(ctx, eventlog.ClaimObserver{Key: key, Holder: "h"})
				return err
			},
			"drop": func(ctx context.Context) error { _, err := s.DropNamespace(ctx, faultyShop); return err },
		} {
			assert.ErrorIs(t, call(ctx), store.ErrNestedTransaction, name)
			var busy *store.BusyError
			assert.ErrorAs(t, call(context.Background()), &busy, name)
		}
		assert.ErrorIs(t, s.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders, From: 1}), store.ErrNestedTransaction)
		assert.ErrorIs(t, tx.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders, From: 2}), store.ErrNestedTransaction)
		require.NoError(t, tx.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders, From: 1}), "it is there")
		assert.Equal(t, []string{"first"}, contents(t, s, orders))
		assert.Equal(t, []string{"first", "second"}, contents(t, tx, orders))
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"first", "second"}, contents(t, s, orders))
}

// A caller who commits in spite of an error does not commit half an append, and the
// caller's own statements stand.
func TestFailureInACallersTransactionLeavesNoHalfAppend(t *testing.T) {
	var armed atomic.Bool
	s := faultyLog(t, &faults{before: func(query string) error {
		if strings.Contains(query, "INTO countersign_event_tags") && armed.CompareAndSwap(true, false) {
			return errors.New("out of luck")
		}
		return nil
	}}, nil)
	tx, err := s.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	bound := s.Tx(tx)
	_, err = bound.AppendEvents(t.Context(), noted(orders, "second"))
	require.NoError(t, err)
	armed.Store(true)
	_, err = bound.AppendEvents(t.Context(), noted(orders, "half"))
	require.ErrorContains(t, err, "out of luck")
	_, err = bound.AppendEvents(t.Context(), noted(orders, "after"))
	require.ErrorContains(t, err, "out of luck", "nothing goes on in a transaction that can't be trusted")
	require.NoError(t, tx.Commit())
	assert.Equal(t, []string{"first", "second"}, contents(t, s, orders))
}

// Those who wait are woken by a commit of the same store, by one of a transaction,
// and after a while by one of another store on the file.
func TestWaitersAreWoken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "woken.db")
	open := func() *sqlite.Store {
		s, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s, other := open(), open()
	_, err := s.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "noted", Schema: []byte("true")}}})
	require.NoError(t, err)
	for i, add := range []func() error{
		func() error { _, err := s.AppendEvents(t.Context(), noted(orders, "own")); return err },
		func() error {
			return s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
				_, err := tx.AppendEvents(ctx, noted(orders, "own transaction"))
				return err
			})
		},
		func() error {
			tx, err := s.DB().BeginTx(t.Context(), nil)
			require.NoError(t, err)
			bound := s.Tx(tx)
			_, err = bound.AppendEvents(t.Context(), noted(orders, "caller's transaction"))
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			bound.Committed()
			return nil
		},
		func() error { _, err := other.AppendEvents(t.Context(), noted(orders, "other store")); return err },
	} {
		woken := make(chan error, 1)
		go func() {
			woken <- s.AwaitEvents(t.Context(), eventlog.AwaitEvents{Sequence: orders, From: uint64(i)})
		}()
		select {
		case err := <-woken:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		require.NoError(t, add())
		require.NoError(t, <-woken)
	}
}

// Numbers of 64 bits: a sequence is used up to its last number.
func TestLastNumberOfASequence(t *testing.T) {
	s := faultyLog(t, &faults{}, nil)
	_, err := s.DB().Exec("UPDATE countersign_sequences SET next = 9223372036854775806 WHERE name = 'orders'")
	require.NoError(t, err)
	_, err = s.AppendEvents(t.Context(), noted(orders, "one", "two", "three"))
	var overflow *eventlog.SequenceOverflowError
	require.ErrorAs(t, err, &overflow)
	res, err := s.AppendEvents(t.Context(), noted(orders, "one", "two"))
	require.NoError(t, err)
	assert.EqualValues(t, countersign.MaxInteger, res.Last)
	_, err = s.AppendEvents(t.Context(), noted(orders, "three"))
	require.ErrorAs(t, err, &overflow)
	assert.Equal(t, uint64(countersign.MaxInteger)+1, overflow.Next)

	page, err := s.ReadEvents(t.Context(), eventlog.ReadEvents{Sequence: orders, From: countersign.MaxInteger})
	require.NoError(t, err)
	require.Len(t, page.Events, 1)
	assert.Equal(t, uint64(countersign.MaxInteger)+1, page.Next)
	tail, err := s.ReadTail(t.Context(), eventlog.ReadTail{Sequence: orders, Filter: eventlog.Filter{Source: "source"}})
	require.NoError(t, err)
	assert.Equal(t, eventlog.Tail{Next: uint64(countersign.MaxInteger) + 1, Last: countersign.MaxInteger, Found: true}, tail)
	_, err = s.AppendEvents(t.Context(), eventlog.AppendEvents{Sequence: orders, Scopes: []eventlog.Scope{{Expected: eventlog.Seen(countersign.MaxInteger)}}})
	require.NoError(t, err, "nothing is above the last number")
}

// A store for reading reads the event log and writes nothing of it; a closed one
// does neither.
func TestEventsOfReadOnlyAndClosedStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	_, err = s.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "noted", Schema: []byte("true")}}})
	require.NoError(t, err)
	_, err = s.AppendEvents(t.Context(), noted(orders, "first"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = s.AppendEvents(t.Context(), noted(orders, "never"))
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = s.ReadEvents(t.Context(), eventlog.ReadEvents{Sequence: orders})
	require.ErrorIs(t, err, store.ErrClosed)
	var zero sqlite.Store
	_, err = zero.AppendEvents(t.Context(), noted(orders, "never"))
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = zero.Tx(nil).AppendEvents(t.Context(), noted(orders, "never"))
	require.ErrorIs(t, err, store.ErrClosed)

	reading, err := sqlite.OpenReadOnly(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, reading.Close()) }()
	assert.Equal(t, []string{"first"}, contents(t, reading, orders))
	var readOnly *store.ReadOnlyError
	_, err = reading.AppendEvents(t.Context(), noted(orders, "never"))
	require.ErrorAs(t, err, &readOnly)
	_, err = reading.DropNamespace(t.Context(), faultyShop)
	require.ErrorAs(t, err, &readOnly)
}

// Whoever runs version 1 of the schema with data in it keeps the data, and a process
// that knows only version 1 can go on beside the new ones.
func TestMigrationFromVersion1(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	db := callersDB(t, path)
	steps := sqlite.Migrations()
	require.Equal(t, "durable_owner", steps[0].Name)
	_, err := db.Exec(steps[0].SQL)
	require.NoError(t, err)
	for _, row := range []string{
		"INSERT INTO countersign_owners VALUES (1, 'a', 1, 1, 0)",
		"INSERT INTO countersign_history VALUES (1, 1, 1, 1, x'6576656e74')",
		"INSERT INTO countersign_inbox VALUES (1, 'message 1', x'73756d', 1)",
	} {
		_, err = db.Exec(row)
		require.NoError(t, err)
	}
	var version *store.SchemaVersionError
	_, err = sqlite.New(t.Context(), db, nil)
	require.ErrorAs(t, err, &version, "a caller's handle is never migrated")

	for range 2 {
		s, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		img, err := durable.Recover(t.Context(), s, "a")
		require.NoError(t, err)
		assert.Equal(t, "event", string(img.History[0].Payload.Bytes))
		_, err = s.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "noted", Schema: []byte("true")}}})
		require.NoError(t, err)
		_, err = s.AppendEvents(t.Context(), noted(orders, "new"))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	var found, oldest int
	require.NoError(t, db.QueryRow("SELECT version, oldest_library FROM countersign_schema ORDER BY version DESC").Scan(&found, &oldest))
	assert.Equal(t, []int{2, 1}, []int{found, oldest})
}
