package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func commitTo(owner string, at uint64) durable.Commit {
	return durable.Commit{
		Owner:            owner,
		ExpectedPosition: at,
		Inbox:            durable.Inbox{ID: fmt.Sprintf("message %d", at+1), Fingerprint: []byte("sum")},
		State:            durable.Append(durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte("event")}),
		Effects:          []durable.Intent{{ID: fmt.Sprintf("effect %d", at+1), Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 1}}},
	}
}

// wired is a store on a fresh database whose connections go through w, and which
// has the owners.
func wired(t *testing.T, w *wire, mode string, opts *postgres.Options, owners ...string) *postgres.Store {
	t.Helper()
	dsn := inMode(migratedDatabase(t, serverDSN(t)), mode)
	s, err := postgres.New(t.Context(), w.pool(t, dsn), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	for _, owner := range owners {
		_, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.EventHistory})
		require.NoError(t, err)
	}
	return s
}

func mustRecover(t *testing.T, s durable.Store, owner string) durable.Image {
	t.Helper()
	img, err := durable.Recover(t.Context(), s, owner)
	require.NoError(t, err)
	return img
}

// A commit that loses its connection at any of its writes, before or after the
// server got it, is told truly, and its repetition learns what happened.
func TestConnectionLostDuringACommit(t *testing.T) {
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		for _, reached := range []bool{false, true} {
			for nth := int64(1); nth <= 3; nth++ {
				for _, assumed := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/reached %v/write %d/assumed %v", mode, reached, nth, assumed), func(t *testing.T) {
						var left atomic.Int64
						lose := func([]byte) bool { return left.Add(-1) == 0 }
						w := &wire{}
						if reached {
							w.after = lose
						} else {
							w.before = lose
						}
						s := wired(t, w, mode, nil, "a")
						at := uint64(0)
						for range 2 { // so that statements are prepared
							_, err := s.CommitOwner(t.Context(), commitTo("a", at))
							require.NoError(t, err)
							at++
						}
						if !assumed { // an effect that is known already: it takes a reading
							known := commitTo("a", at)
							known.Effects = commitTo("a", 0).Effects
							_, err := s.CommitOwner(t.Context(), known)
							require.NoError(t, err)
							at++
						}
						c := commitTo("a", at)
						if !assumed {
							c.Effects = commitTo("a", 0).Effects
						}
						left.Store(nth)
						_, err := s.CommitOwner(t.Context(), c)
						left.Store(0)
						if err != nil {
							require.True(t, errors.Is(err, countersign.ErrUnknownOutcome) != errors.Is(err, countersign.ErrRetryable), "%v", err)
						}
						img := mustRecover(t, s, "a")
						if err == nil {
							require.Equal(t, at+1, img.Position)
						}
						if errors.Is(err, countersign.ErrRetryable) {
							require.Equal(t, at, img.Position)
						}
						res, err := s.CommitOwner(t.Context(), c)
						require.NoError(t, err)
						assert.Equal(t, durable.Committed{Through: at + 1, Duplicate: img.Position == at+1}, res)
						assert.EqualValues(t, at+1, mustRecover(t, s, "a").Position)
					})
				}
			}
		}
	}
}

// A COMMIT whose reply is lost is an unknown outcome, in a commit as in a
// transaction.
func TestLostCommitReplyIsUnknown(t *testing.T) {
	var armed atomic.Bool
	w := &wire{after: func(sent []byte) bool {
		return strings.Contains(string(sent), "COMMIT\x00") && // not of READ COMMITTED
			armed.CompareAndSwap(true, false)
	}}
	s := wired(t, w, "simple_protocol", nil, "a")
	armed.Store(true)
	var inside durable.Committed
	err := s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) (err error) {
		inside, err = tx.CommitOwner(ctx, commitTo("a", 0))
		return err
	})
	var unknown *durable.UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, "transaction", unknown.Op)
	assert.False(t, inside.AckSafe())
	res, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	assert.Equal(t, durable.Committed{Through: 1, Duplicate: true}, res)

	armed.Store(true)
	known := commitTo("a", 1)
	known.Effects = commitTo("a", 0).Effects
	_, err = s.CommitOwner(t.Context(), known)
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, "commit", unknown.Op)
	res, err = s.CommitOwner(t.Context(), known)
	require.NoError(t, err)
	assert.Equal(t, durable.Committed{Through: 2, Duplicate: true}, res)
}

// A thousand commits over connections that are cut at random: none is lost, none
// is done twice, and no answer is wrong.
func TestConnectionsCutAtRandom(t *testing.T) {
	const callers, each = 8, 125
	var armed atomic.Bool
	cut := func([]byte) bool { return armed.Load() && rand.IntN(40) == 0 }
	owners := make([]string, callers)
	for i := range owners {
		owners[i] = fmt.Sprint("owner ", i)
	}
	s := wired(t, &wire{before: cut, after: cut}, "cache_statement", &postgres.Options{BusyTimeout: patience}, owners...)
	armed.Store(true)
	var unknowns, retries atomic.Int64
	var wg sync.WaitGroup
	for _, owner := range owners {
		wg.Go(func() {
			for at := range uint64(each) {
				sure := true // that no earlier sending was carried out
				for {
					res, err := s.CommitOwner(context.Background(), commitTo(owner, at))
					if err == nil {
						assert.Equal(t, at+1, res.Through)
						assert.True(t, res.AckSafe())
						assert.False(t, sure && res.Duplicate, "a retryable error left something behind")
						break
					}
					if errors.Is(err, countersign.ErrUnknownOutcome) {
						unknowns.Add(1)
						sure = false
					} else if retries.Add(1); !assert.ErrorIs(t, err, countersign.ErrRetryable) {
						return
					}
				}
			}
		})
	}
	wg.Wait()
	armed.Store(false)
	t.Logf("%d unknown outcomes, %d retryable errors", unknowns.Load(), retries.Load())
	assert.NotZero(t, unknowns.Load())
	for _, owner := range owners {
		img := mustRecover(t, s, owner)
		assert.EqualValues(t, each, img.Position)
		assert.Len(t, img.Inbox, each)
		assert.Len(t, img.Outbox, each)
	}
}

// Backends that are terminated under a store are no more than a retry.
func TestTerminatedBackends(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", nil, "a")
	for at := range uint64(5) {
		var dsn string
		require.NoError(t, s.Pool().QueryRow(t.Context(), "SELECT current_database()").Scan(&dsn))
		require.NoError(t, adminExec(serverDSN(t), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+dsn+"'"))
		for {
			_, err := s.CommitOwner(t.Context(), commitTo("a", at))
			if err == nil {
				break
			}
			require.True(t, errors.Is(err, countersign.ErrRetryable) || errors.Is(err, countersign.ErrUnknownOutcome), "%v", err)
		}
	}
	assert.EqualValues(t, 5, mustRecover(t, s, "a").Position)
}

// A connection that the server has ended since nobody used it is no more than a
// retry inside.
func TestSessionThatTheServerEndedForIdleness(t *testing.T) {
	dsn := setting(setting(migratedDatabase(t, serverDSN(t)), "idle_session_timeout", "100ms"), "idle_in_transaction_session_timeout", "100ms")
	s, err := open(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.EventHistory})
	require.NoError(t, err)
	ended := func() { // waits until the server has none of the store's sessions
		for n := 1; n > 0; {
			require.NoError(t, adminQuery(serverDSN(t), &n, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1", s.Pool().Config().ConnConfig.Database))
		}
	}
	for at := range uint64(3) {
		ended()
		_, err = s.CommitOwner(t.Context(), commitTo("a", at))
		require.NoError(t, err)
	}
	ended()
	assert.EqualValues(t, 3, mustRecover(t, s, "a").Position)
	err = s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		_, err := tx.CommitOwner(ctx, commitTo("a", 3))
		ended()
		return err
	})
	require.ErrorIs(t, err, countersign.ErrRetryable, "nothing is written")
	assert.EqualValues(t, 3, mustRecover(t, s, "a").Position)
}

// A server that never answers keeps no caller for ever, whatever its context.
func TestServerThatNeverAnswers(t *testing.T) {
	w := &wire{}
	s := wired(t, w, "cache_statement", &postgres.Options{BusyTimeout: 50 * time.Millisecond}, "a")
	defer postgres.AnswerIn(100 * time.Millisecond)()
	ctx := context.Background()
	silent := func() { w.deaf.Store(true) }
	for name, call := range map[string]func() error{
		"create": func() error {
			silent()
			_, err := s.CreateOwner(ctx, durable.CreateOwner{Owner: "b", Mode: durable.EventHistory})
			return err
		},
		"read": func() error {
			silent()
			_, err := s.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
			return err
		},
		"body": func() error {
			silent()
			return s.Atomically(ctx, func(context.Context, store.Backend) error { return nil })
		},
		"in a body": func() error {
			return s.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
				silent()
				_, err := tx.CommitOwner(ctx, commitTo("a", 0))
				return err
			})
		},
		"read in a body": func() error {
			return s.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
				silent()
				_, err := tx.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
				return err
			})
		},
	} {
		require.ErrorIs(t, call(), countersign.ErrRetryable, name)
		w.deaf.Store(false)
		s.Pool().Reset()
		assert.Zero(t, mustRecover(t, s, "a").Position)
	}
}

// One owner's row that another process holds does not keep the others waiting,
// and its own requests give up after the busy timeout.
func TestHeldRowKeepsOnlyThoseWaitingWhoNeedIt(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", &postgres.Options{BusyTimeout: 300 * time.Millisecond}, "held", "free")
	tx, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM countersign.owners WHERE owner_id = 'held' FOR UPDATE")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := s.AdvanceFence(context.Background(), durable.AdvanceFence{Owner: "held", Fence: uint64(i + 1)})
			var busy *store.BusyError
			assert.ErrorAs(t, err, &busy)
		})
	}
	for at := range uint64(50) {
		_, err := s.CommitOwner(t.Context(), commitTo("free", at))
		require.NoError(t, err)
	}
	wg.Wait()
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = s.CommitOwner(t.Context(), commitTo("held", 0))
	require.NoError(t, err)
}

// Creations that wait, for a row that is held or for another creation, leave
// connections for the others.
func TestWaitingCreationsLeaveConnections(t *testing.T) {
	for _, creating := range []bool{false, true} {
		t.Run(fmt.Sprintf("being created %v", creating), func(t *testing.T) {
			dsn := setting(migratedDatabase(t, serverDSN(t)), "pool_max_conns", "4")
			s, err := open(t.Context(), dsn)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			held := durable.CreateOwner{Owner: "held", Mode: durable.EventHistory}
			if !creating {
				_, err := s.CreateOwner(t.Context(), held)
				require.NoError(t, err)
			}
			tx, err := callersPool(t, dsn).Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.Background()) }()
			_, err = s.Tx(tx).CreateOwner(t.Context(), held)
			require.NoError(t, err)
			const creations = 8
			ended := make(chan struct{}, creations)
			for range creations {
				go func() {
					defer func() { ended <- struct{}{} }()
					_, err := s.CreateOwner(context.Background(), held)
					assert.NoError(t, err)
				}()
			}
			for waiting := 0; waiting < 2; { // half of the pool
				require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
				_, err = tx.Exec(t.Context(), "SELECT pg_stat_clear_snapshot()")
				require.NoError(t, err)
			}
			for i := range 20 {
				_, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: fmt.Sprint("free ", i), Mode: durable.EventHistory})
				require.NoError(t, err)
			}
			assert.Empty(t, ended)
			require.NoError(t, tx.Rollback(t.Context()))
			for range creations {
				<-ended
			}
		})
	}
}

// Close waits for the calls under way, also on a caller's pool, but not for ever.
func TestCloseWaitsForTheCallsUnderWay(t *testing.T) {
	for _, ends := range []bool{true, false} {
		t.Run(fmt.Sprintf("the call ends %v", ends), func(t *testing.T) {
			busy := patience
			if !ends {
				busy = 100 * time.Millisecond
			}
			s := wired(t, &wire{}, "cache_statement", &postgres.Options{BusyTimeout: busy})
			inside, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- s.Atomically(context.Background(), func(context.Context, store.Backend) error {
					close(inside)
					<-end
					return nil
				})
			}()
			<-inside
			closed := make(chan error, 1)
			go func() { closed <- s.Close() }()
			if ends {
				for { // until it is closed
					if _, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"}); errors.Is(err, store.ErrClosed) {
						break
					}
				}
				assert.Empty(t, closed)
				close(end)
				require.NoError(t, <-closed)
				require.NoError(t, <-ended)
				return
			}
			var busyError *store.BusyError
			require.ErrorAs(t, <-closed, &busyError)
			close(end)
			require.NoError(t, <-ended)
		})
	}
}

// A waiting caller's context ends its wait, and leaves nothing behind.
func TestContextEndsTheWaitForARow(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", &postgres.Options{BusyTimeout: patience}, "a")
	tx, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = s.Tx(tx).AdvanceFence(t.Context(), durable.AdvanceFence{Owner: "a", Fence: 1})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = s.CommitOwner(ctx, commitTo("a", 0))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, tx.Rollback(t.Context()))
	res, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	assert.EqualValues(t, 1, res.Through)
}

// A request that the database refuses fails alone, in the words of the rule whose
// constraint fired, and leaves no trace (B61).
func TestFailingRequestFailsAloneAndSaysWhichRuleFired(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", nil, "bad", "good")
	key := "(SELECT owner_key FROM countersign.owners WHERE owner_id = 'bad')"
	for rule, planted := range map[string]string{
		"a second event at one position": "INSERT INTO countersign.history VALUES (" + key + ", 1, 1, 1, '')",
		"a second receipt of one effect": "INSERT INTO countersign.receipts VALUES (" + key + ", 'other', 'effect 1', 'applied', 1, 0, 1, 1, '')",
	} {
		_, err := s.Pool().Exec(t.Context(), planted)
		require.NoError(t, err)
		c := commitTo("bad", 0)
		if strings.Contains(rule, "receipt") {
			// The rule would see it by the effect's id, were it not for a new trigger.
			c.Effects[0].ID = "another"
			c.Receipts = []durable.TerminalReceipt{{ID: "r", EffectID: "another", Outcome: durable.Applied, Payload: c.Effects[0].Payload}}
			_, err = s.Pool().Exec(t.Context(), `CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.effect_id := ''effect 1''; RETURN NEW; END';
				CREATE TRIGGER spoil BEFORE INSERT ON countersign.receipts FOR EACH ROW EXECUTE FUNCTION spoil()`)
			require.NoError(t, err)
		}
		_, err = s.CommitOwner(t.Context(), c)
		var unusable *store.UnusableError
		require.ErrorAs(t, err, &unusable, "never taken for a duplicate")
		assert.Contains(t, unusable.Reason, rule)
		var driver *pgconn.PgError
		require.ErrorAs(t, err, &driver)
		img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "bad"})
		require.NoError(t, err)
		assert.Zero(t, img.Position)
		assert.Empty(t, img.Inbox)
		_, err = s.Pool().Exec(t.Context(), "DELETE FROM countersign.history; DELETE FROM countersign.receipts")
		require.NoError(t, err)
	}
	_, err := s.CommitOwner(t.Context(), commitTo("good", 0))
	require.NoError(t, err)
}

// An error inside that is swallowed makes the server answer COMMIT by ROLLBACK:
// nothing of it is told as committed (B25).
func TestSwallowedErrorFailsTheTransaction(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := wired(t, &wire{}, mode, nil, "a")
			tx, err := s.Pool().Begin(t.Context())
			require.NoError(t, err)
			res, err := s.Tx(tx).CommitOwner(t.Context(), commitTo("a", 0))
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "SELECT 1/0")
			require.Error(t, err)
			require.ErrorIs(t, tx.Commit(t.Context()), pgx.ErrTxCommitRollback)
			assert.False(t, res.AckSafe())

			// A statement of ours that fails in a body, and a body that does not care.
			_, err = s.Pool().Exec(t.Context(), "INSERT INTO countersign.history SELECT owner_key, 1, 1, 1, '' FROM countersign.owners")
			require.NoError(t, err)
			err = s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
				_, _ = tx.CommitOwner(ctx, commitTo("a", 0))
				return nil
			})
			var unusable *store.UnusableError
			require.ErrorAs(t, err, &unusable)
			_, err = s.Pool().Exec(t.Context(), "DELETE FROM countersign.history")
			require.NoError(t, err)
			for range 10 {
				assert.Zero(t, mustRecover(t, s, "a").Position)
			}
		})
	}
}

// A failure in a caller's transaction leaves no half request, and the caller's own
// rows.
func TestFailureInACallersTransactionLeavesNoHalfRequest(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", nil, "a", "b")
	for _, statement := range []string{"CREATE TABLE mine (x int)", "INSERT INTO countersign.history SELECT owner_key, 1, 1, 1, '' FROM countersign.owners WHERE owner_id = 'a'"} {
		_, err := s.Pool().Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	tx, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "INSERT INTO mine VALUES (1)")
	require.NoError(t, err)
	bound := s.Tx(tx)
	_, err = bound.CommitOwner(t.Context(), commitTo("a", 0))
	var unusable *store.UnusableError
	require.ErrorAs(t, err, &unusable)
	_, err = bound.CommitOwner(t.Context(), commitTo("b", 0))
	require.NoError(t, err, "the transaction is usable")
	require.NoError(t, tx.Commit(t.Context()))
	var n int
	require.NoError(t, s.Pool().QueryRow(t.Context(), "SELECT (SELECT count(*) FROM mine) + 10 * (SELECT count(*) FROM countersign.inbox)").Scan(&n))
	assert.Equal(t, 11, n)
}

// A caller's transaction that had failed before, and that the caller takes back to
// a savepoint, is as good as new.
func TestCallersTransactionGoesOnFromItsOwnSavepoint(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := wired(t, &wire{}, mode, nil, "a")
			tx, err := s.Pool().Begin(t.Context())
			require.NoError(t, err)
			bound := s.Tx(tx)
			_, err = tx.Exec(t.Context(), "SAVEPOINT mine")
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "SELECT 1/0")
			require.Error(t, err)
			_, err = bound.CommitOwner(t.Context(), commitTo("a", 0))
			var unusable *store.UnusableError
			require.ErrorAs(t, err, &unusable)
			_, err = tx.Exec(t.Context(), "ROLLBACK TO SAVEPOINT mine")
			require.NoError(t, err)
			_, err = bound.CommitOwner(t.Context(), commitTo("a", 0))
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			assert.EqualValues(t, 1, mustRecover(t, s, "a").Position)
		})
	}
}

// A request whose context ends breaks a caller's transaction, and the next caller
// is not told of a context that is not its own.
func TestEndedContextIsToldToItsCallerOnly(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", nil, "a")
	holder, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = s.Tx(holder).AdvanceFence(t.Context(), durable.AdvanceFence{Owner: "a", Fence: 1})
	require.NoError(t, err)
	tx, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	bound := s.Tx(tx)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = bound.CommitOwner(ctx, commitTo("a", 0))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = bound.CommitOwner(t.Context(), commitTo("a", 0))
	require.ErrorIs(t, err, countersign.ErrRetryable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	_ = tx.Rollback(t.Context())
	require.NoError(t, holder.Rollback(t.Context()))
}

// A caller's transaction that reads from an old snapshot is told so, and not given
// a verdict on what is no longer true.
func TestOldSnapshotOfACallersTransaction(t *testing.T) {
	s := wired(t, &wire{}, "cache_statement", nil, "a")
	_, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	tx, err := s.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	bound := s.Tx(tx)
	_, err = bound.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.NoError(t, err)
	// A receipt does not move the position, but it writes the owner's row.
	receipt := durable.TerminalReceipt{ID: "r", EffectID: "effect 1", Outcome: durable.Applied, Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 1}}
	_, err = s.RecordReceipt(t.Context(), durable.RecordReceipt{Owner: "a", Receipt: receipt})
	require.NoError(t, err)
	receipt.ID = "another"
	_, err = bound.RecordReceipt(t.Context(), durable.RecordReceipt{Owner: "a", Receipt: receipt})
	var busy *store.BusyError
	require.ErrorAs(t, err, &busy)
	require.NoError(t, tx.Rollback(t.Context()))
}

// Bodies that write to the same owners in opposite orders all succeed, and no
// deadlock reaches their callers (B27).
func TestBodiesInOppositeOrders(t *testing.T) {
	const rounds = 200
	owners := strings.Split("abcdefgh", "")
	s := wired(t, &wire{}, "cache_statement", &postgres.Options{BusyTimeout: patience}, owners...)
	var wg sync.WaitGroup
	for side := range 2 {
		wg.Go(func() {
			for round := range rounds {
				err := s.Atomically(context.Background(), func(ctx context.Context, tx store.Backend) error {
					for i := range owners {
						owner := owners[i]
						if side == 1 {
							owner = owners[len(owners)-1-i]
						}
						for {
							img, err := tx.LoadOwner(ctx, durable.LoadOwner{Owner: owner, Parts: &durable.Parts{}})
							if err != nil {
								return err
							}
							c := commitTo(owner, img.Position)
							c.Inbox.ID, c.Effects = fmt.Sprint(side, " ", round), nil
							_, err = tx.CommitOwner(ctx, c)
							if errors.Is(err, countersign.ErrConflict) {
								continue // moved between the two: the row is locked now
							}
							if err != nil {
								return err
							}
							break
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
	for _, owner := range owners {
		assert.EqualValues(t, 2*rounds, mustRecover(t, s, owner).Position)
	}
}

// A write that waits for its own transaction is refused; reading is possible, and
// a body in a pool of one connection does not hang for ever.
func TestCallsInsideABodyDoNotHang(t *testing.T) {
	dsn := setting(migratedDatabase(t, serverDSN(t)), "pool_max_conns", "1")
	s, err := postgres.Open(t.Context(), dsn, &postgres.Options{BusyTimeout: 100 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "a", Mode: durable.EventHistory})
	require.NoError(t, err)
	err = s.Atomically(t.Context(), func(ctx context.Context, _ store.Backend) error {
		_, err := s.CommitOwner(ctx, commitTo("a", 0))
		assert.ErrorIs(t, err, store.ErrNestedTransaction)
		_, err = s.CommitOwner(context.Background(), commitTo("a", 0))
		assert.ErrorIs(t, err, countersign.ErrRetryable)
		_, err = s.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
		assert.ErrorIs(t, err, countersign.ErrRetryable)
		return nil
	})
	require.NoError(t, err)
}

// No session lock, and no setting that outlives its transaction (B29).
func TestNoSessionState(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	steps, err := filepath.Glob("migrations/*.sql")
	require.NoError(t, err)
	locks := regexp.MustCompile(`(?i)pg_(try_)?advisory_(un)?lock`)
	settings := regexp.MustCompile("(?i)[\"`; ]SET (SESSION )?[a-z_]+ *(=|TO) ")
	configs := regexp.MustCompile(`set_config\([^)]*\)`)
	for _, file := range append(files, steps...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.False(t, locks.Match(text), file)
		for _, found := range settings.FindAllString(string(text), -1) {
			assert.Regexp(t, `(?i)SET (position|receipt_id|next|revision|body|from_number) `, found, file) // of an UPDATE
		}
		for _, found := range configs.FindAllString(string(text), -1) {
			assert.Contains(t, found, ", true)", file)
		}
	}
}

// A table that gets a column under a warm pool does not disturb the next call (B29).
func TestColumnAddedUnderAWarmPool(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := wired(t, &wire{}, mode, nil, "a")
			for at := range uint64(8) {
				_, err := s.CommitOwner(t.Context(), commitTo("a", at))
				require.NoError(t, err)
				mustRecover(t, s, "a")
			}
			for _, table := range []string{"owners", "history", "snapshots", "inbox", "outbox", "receipts"} {
				_, err := s.Pool().Exec(t.Context(), "ALTER TABLE countersign."+table+" ADD COLUMN later integer DEFAULT 7")
				require.NoError(t, err)
			}
			for at := uint64(8); at < 12; at++ {
				_, err := s.CommitOwner(t.Context(), commitTo("a", at))
				require.NoError(t, err)
				assert.Equal(t, at+1, mustRecover(t, s, "a").Position)
			}
		})
	}
}
