package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// faultyStore is a store on a fresh file whose statements go through f, with
// owners a, b, c … created before f is looked at.
func faultyStore(t *testing.T, f *faults, opts *sqlite.Options, owners ...string) *sqlite.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "faulty.db")
	made, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	for _, owner := range owners {
		_, err := made.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.EventHistory})
		require.NoError(t, err)
	}
	require.NoError(t, made.Close())
	s, err := sqlite.New(t.Context(), faultyDB(t, path, f), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func commitTo(owner string, at uint64) durable.Commit {
	return durable.Commit{
		Owner:            owner,
		ExpectedPosition: at,
		Inbox:            durable.Inbox{ID: fmt.Sprintf("message %d", at+1), Fingerprint: []byte("sum")},
		State:            durable.Append(durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte("event")}),
		Effects:          []durable.Intent{{ID: fmt.Sprintf("effect %d", at+1), Payload: durable.Payload{SchemaVersion: 1, CodecVersion: 1}}},
	}
}

// hold runs a transaction that keeps every other writer waiting until the
// returned function is called.
func hold(t *testing.T, s *sqlite.Store) (release func()) {
	t.Helper()
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- s.Atomically(context.Background(), func(context.Context, store.Backend) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	return func() {
		close(leave)
		require.NoError(t, <-left)
	}
}

// waitQueued waits until n requests wait for the next group.
func waitQueued(t *testing.T, s *sqlite.Store, n int) {
	t.Helper()
	for s.Waiting() < n {
		require.NoError(t, t.Context().Err())
		runtime.Gosched()
	}
}

// queued starts the calls one after another, in a store that is held, so that
// one group takes them all in this order. The returned function waits for them.
func queued(t *testing.T, s *sqlite.Store, calls ...func()) (wait func()) {
	t.Helper()
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(call)
		waitQueued(t, s, i+1)
	}
	return wg.Wait
}

var errLost = errors.New("the reply is lost")

// losing loses the reply of the n-th COMMIT after arm(n).
type losing struct{ left atomic.Int64 }

func (l *losing) arm(n int64) { l.left.Store(n) }

func (l *losing) lose(query string) error {
	if query == "COMMIT" && l.left.Add(-1) == 0 {
		return errLost
	}
	return nil
}

// A commit whose COMMIT reply is lost is unknown, whether or not it was carried
// out, and its repetition learns which.
func TestLostCommitReplyIsUnknownAndRepeatable(t *testing.T) {
	for _, carriedOut := range []bool{false, true} {
		t.Run(fmt.Sprintf("carried out %v", carriedOut), func(t *testing.T) {
			l, f := &losing{}, &faults{}
			if carriedOut {
				f.after = l.lose
			} else {
				f.before = l.lose
			}
			s := faultyStore(t, f, nil, "a")
			l.arm(1)
			_, err := s.CommitOwner(t.Context(), commitTo("a", 0))
			require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
			require.ErrorIs(t, err, errLost)
			var unknown *durable.UnknownOutcomeError
			require.ErrorAs(t, err, &unknown)
			assert.Equal(t, "commit", unknown.Op)

			res, err := s.CommitOwner(t.Context(), commitTo("a", 0))
			require.NoError(t, err)
			assert.Equal(t, durable.Committed{Through: 1, Duplicate: carriedOut}, res)
			img, err := durable.Recover(t.Context(), s, "a")
			require.NoError(t, err)
			assert.Len(t, img.Outbox, 1)
		})
	}
}

// A duplicate and a refusal that were decided beside a neighbour's write are not
// told when the COMMIT fails: they may rest on what never became durable.
func TestVerdictsWaitForTheCommitThatTheyRestOn(t *testing.T) {
	l := &losing{}
	s := faultyStore(t, &faults{before: l.lose}, nil, "a")
	release := hold(t, s)
	other := commitTo("a", 0)
	other.Inbox.Fingerprint = []byte("another")
	var results [3]durable.Committed
	var errs [3]error
	call := func(i int, c durable.Commit) func() {
		return func() { results[i], errs[i] = s.CommitOwner(t.Context(), c) }
	}
	wait := queued(t, s, call(0, commitTo("a", 0)), call(1, commitTo("a", 0)), call(2, other))
	l.arm(2) // the first COMMIT is of the transaction that holds the store
	release()
	wait()

	assert.ErrorIs(t, errs[0], countersign.ErrUnknownOutcome, "the commit itself")
	assert.ErrorIs(t, errs[1], countersign.ErrRetryable, "its duplicate")
	assert.ErrorIs(t, errs[2], countersign.ErrRetryable, "the conflict with it")
	for i := range results {
		assert.False(t, results[i].AckSafe())
		assert.NotErrorIs(t, errs[i], countersign.ErrRefused)
	}
}

// Requests that wait together share one transaction, and each keeps its own
// result: a refusal does not fail its neighbours.
func TestGroupSharesOneTransaction(t *testing.T) {
	var commits atomic.Int64
	s := faultyStore(t, &faults{after: func(query string) error {
		if query == "COMMIT" {
			commits.Add(1)
		}
		return nil
	}}, nil, "a", "b", "c")
	release := hold(t, s)
	var results [5]durable.Committed
	var errs [5]error
	call := func(i int, c durable.Commit) func() {
		return func() { results[i], errs[i] = s.CommitOwner(t.Context(), c) }
	}
	stale := commitTo("b", 0)
	stale.Fence = 9
	wait := queued(t, s, call(0, commitTo("a", 0)), call(1, stale), call(2, commitTo("c", 0)),
		call(3, commitTo("a", 1)), // goes on from the first, in the same group
		call(4, commitTo("a", 0))) // and this one repeats it
	commits.Store(0)
	release()
	wait()

	assert.EqualValues(t, 2, commits.Load(), "one for the transaction that held the store, one for the group")
	for _, i := range []int{0, 2, 3, 4} {
		require.NoError(t, errs[i])
	}
	var staleFence *durable.StaleFenceError
	require.ErrorAs(t, errs[1], &staleFence)
	assert.Equal(t, []uint64{1, 0, 1, 2, 1}, []uint64{results[0].Through, results[1].Through, results[2].Through, results[3].Through, results[4].Through})
	assert.True(t, results[4].Duplicate)
}

// A request that the database refuses fails alone, and leaves no trace.
func TestFailingRequestIsWrittenApartFromItsNeighbours(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	for _, owner := range []string{"good", "bad", "fine"} {
		_, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.EventHistory})
		require.NoError(t, err)
	}
	// A row that contradicts the owner's: the rule can't see it, the primary key can.
	_, err = s.DB().Exec("INSERT INTO countersign_history VALUES (2, 1, 1, 1, x'00')")
	require.NoError(t, err)

	release := hold(t, s)
	var errs [3]error
	call := func(i int, owner string) func() {
		return func() { _, errs[i] = s.CommitOwner(t.Context(), commitTo(owner, 0)) }
	}
	wait := queued(t, s, call(0, "good"), call(1, "bad"), call(2, "fine"))
	release()
	wait()

	assert.NoError(t, errs[0])
	assert.NoError(t, errs[2])
	var unusable *store.UnusableError
	require.ErrorAs(t, errs[1], &unusable, "never taken for a duplicate (B61)")
	img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "bad"})
	require.NoError(t, err)
	assert.Zero(t, img.Position)
	assert.Empty(t, img.Inbox)
	assert.Empty(t, img.Outbox)
}

// A caller whose context ends before its request is taken leaves no trace.
func TestContextEndedBeforeTheRequestIsTaken(t *testing.T) {
	s := faultyStore(t, &faults{}, nil, "a")
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	wait := queued(t, s, func() { _, err = s.CommitOwner(ctx, commitTo("a", 0)) })
	cancel()
	wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, countersign.ErrRetryable)
	release()

	img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.NoError(t, err)
	assert.Zero(t, img.Position)
}

// A caller whose context ends after its request was taken learns an unknown
// outcome at once, and may change its slices: they were copied.
func TestContextEndedAfterTheRequestIsTaken(t *testing.T) {
	atCommit, goOn := make(chan struct{}), make(chan struct{})
	l := &losing{}
	s := faultyStore(t, &faults{before: func(query string) error {
		if l.lose(query) != nil { // not lost here, but held up
			close(atCommit)
			<-goOn
		}
		return nil
	}}, nil, "a", "b")
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	c := commitTo("a", 0)
	first := make(chan error, 1)
	var err error
	wait := queued(t, s,
		func() { _, e := s.CommitOwner(context.Background(), commitTo("b", 0)); first <- e },
		func() { _, err = s.CommitOwner(ctx, c) })
	l.arm(2) // the first COMMIT is of the transaction that holds the store
	release()
	<-atCommit // both are in the group, and one of the two callers writes it
	cancel()
	if s.Waiting() != 0 {
		t.Fatal("the group did not take both requests")
	}
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	c.Effects[0].Payload.Bytes = append(c.Effects[0].Payload.Bytes, "changed"...)
	close(goOn)
	<-done
	require.NoError(t, <-first)
	// The caller that wrote the group itself saw the result; the other could not.
	if err != nil {
		require.ErrorIs(t, err, countersign.ErrUnknownOutcome)
	}
	res, err := s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
	assert.Equal(t, durable.Committed{Through: 1, Duplicate: true}, res)
}

// A write that waits for its own transaction is refused, with any other context
// it gives up after the busy timeout; reading is possible (B33).
func TestCallsInsideABodyDoNotHang(t *testing.T) {
	s := faultyStore(t, &faults{}, &sqlite.Options{BusyTimeout: 50 * time.Millisecond}, "a")
	err := s.Atomically(t.Context(), func(ctx context.Context, _ store.Backend) error {
		_, err := s.CommitOwner(ctx, commitTo("a", 0))
		assert.ErrorIs(t, err, store.ErrNestedTransaction)
		assert.ErrorIs(t, s.Atomically(ctx, func(context.Context, store.Backend) error { return nil }), store.ErrNestedTransaction)
		_, err = s.CommitOwner(context.Background(), commitTo("a", 0))
		var busy *store.BusyError
		assert.ErrorAs(t, err, &busy)
		img, err := s.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
		assert.NoError(t, err)
		assert.Zero(t, img.Position)
		return nil
	})
	require.NoError(t, err)
}

// A failure that the body swallows fails the transaction all the same (B25).
func TestSwallowedFailureFailsTheTransaction(t *testing.T) {
	broken := errors.New("disk I/O error")
	var armed atomic.Bool
	s := faultyStore(t, &faults{before: func(query string) error {
		if strings.Contains(query, "INTO countersign_outbox") && armed.CompareAndSwap(true, false) {
			return broken
		}
		return nil
	}}, nil, "a")
	armed.Store(true)
	err := s.Atomically(t.Context(), func(ctx context.Context, tx store.Backend) error {
		_, err := tx.CommitOwner(ctx, commitTo("a", 0))
		assert.ErrorIs(t, err, broken)
		_, err = tx.LoadOwner(ctx, durable.LoadOwner{Owner: "a"})
		assert.ErrorIs(t, err, broken, "nothing goes on in a transaction that can't be trusted")
		return nil
	})
	require.ErrorIs(t, err, broken)
	for range 10 { // and the store is usable
		img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
		require.NoError(t, err)
		assert.Zero(t, img.Position)
	}
	_, err = s.CommitOwner(t.Context(), commitTo("a", 0))
	require.NoError(t, err)
}

// A caller who commits in spite of an error does not commit half a request.
func TestFailureInACallersTransactionLeavesNoHalfRequest(t *testing.T) {
	var armed atomic.Bool
	s := faultyStore(t, &faults{before: func(query string) error {
		if strings.Contains(query, "INTO countersign_outbox") && armed.CompareAndSwap(true, false) {
			return errors.New("out of luck")
		}
		return nil
	}}, nil, "a")
	tx, err := s.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE mine (x)")
	require.NoError(t, err)
	armed.Store(true)
	_, err = s.Tx(tx).CommitOwner(t.Context(), commitTo("a", 0))
	require.ErrorContains(t, err, "out of luck")
	require.NoError(t, tx.Commit())
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.Zero(t, img.Position)
	assert.Empty(t, img.Inbox)
	var n int
	require.NoError(t, s.DB().QueryRow("SELECT count(*) FROM mine").Scan(&n), "the caller's own statements stand")
}

// A writer that another handle keeps waiting for longer than the busy timeout
// gives up with a typed error and without a trace; one whose context ends gives
// up then (B33).
func TestBusyFile(t *testing.T) {
	path := made(t)
	s, err := sqlite.Open(t.Context(), path, &sqlite.Options{BusyTimeout: 100 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	rival, err := callersDB(t, path).Conn(t.Context())
	require.NoError(t, err)
	_, err = rival.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := s.CommitOwner(t.Context(), commitTo("a", 1))
			var busy *store.BusyError
			assert.ErrorAs(t, err, &busy)
			assert.ErrorIs(t, err, countersign.ErrRetryable)
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.CommitOwner(ctx, commitTo("a", 1))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, countersign.ErrRetryable)
	img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"}) // reading is possible
	require.NoError(t, err)
	require.EqualValues(t, 1, img.Position)

	_, err = rival.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	_, err = s.CommitOwner(t.Context(), commitTo("a", 1))
	require.NoError(t, err)
}
