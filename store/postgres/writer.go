package postgres

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	"github.com/jackc/pgx/v5/pgxpool"
)

// attempts is how often a transaction is carried out that the server did not take
// for a passing reason: a deadlock, a snapshot that is too old, a lost connection.
const attempts = 5

// briefly is how long a creation waits for another of the same owner before it
// counts as one that waits.
const briefly = 10 * time.Millisecond

// errRolledBack says that the server answered COMMIT by ROLLBACK.
var errRolledBack = &store.UnavailableError{Reason: "not committed", Err: errors.New("postgres: the server answered COMMIT by ROLLBACK")}

func begin() *statement { return &statement{text: "BEGIN ISOLATION LEVEL READ COMMITTED"} }

// lockMilliseconds is a timeout as the setting takes it.
func lockMilliseconds(d time.Duration) int64 { return min(max(d.Milliseconds(), 1), math.MaxInt32) }

// lockTimeout bounds the waits of this transaction.
func lockTimeout(d time.Duration) *statement {
	return &statement{
		text: "SELECT pg_catalog.set_config('lock_timeout', $1::text, true)",
		args: []any{strconv.FormatInt(lockMilliseconds(d), 10)},
	}
}

// repeat calls f until it fails for another reason than a passing one.
func (s *Store) repeat(ctx context.Context, f func(started time.Time) error) error {
	started := time.Now()
	for n := 1; ; n++ {
		err := f(started)
		if isUnknown(err) || !lost(err) && !again(err) || n == attempts || ctx.Err() != nil || s.closed.Load() {
			return err
		}
		time.Sleep(rand.N(time.Duration(n) * 2 * time.Millisecond))
	}
}

// flush is [group.Queue.Do]'s: it takes a connection, then the requests that wait
// by then, and settles them. r is the caller's own.
func (s *Store) flush(ctx context.Context, r *group.Request) {
	err := error(store.ErrClosed)
	var conn *pgxpool.Conn
	if !s.closed.Load() {
		conn, err = s.acquire(ctx)
	}
	if err != nil {
		s.queue.Reject(r, err)
		return
	}
	defer func() {
		if conn != nil {
			conn.Release()
		}
	}()
	started := time.Now()
	requests := s.queue.Take()
	defer func() { s.queue.Settle(requests, time.Since(started)) }()
	// A group never runs under a caller's context.
	background := context.Background()
	err = s.repeat(background, func(time.Time) (err error) {
		if conn != nil && conn.Conn().IsClosed() {
			conn.Release()
			conn = nil
		}
		if conn == nil {
			if conn, err = s.acquire(background); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(background, answerTimeout)
		defer cancel()
		if done, err := s.tryAssumed(ctx, conn, requests); done || err != nil {
			return err
		}
		return s.transact(ctx, conn, newBatch(s.stmts, requests...), false, nil)
	})
	for _, r := range requests {
		switch {
		case err == nil:
		case isUnknown(err) && r.Writes():
			r.Unknown(err)
		case isUnknown(err):
			// It writes nothing, but its verdict may rest on a neighbour's write.
			r.Fail(&store.UnavailableError{Reason: "the transaction that it was decided in may not have been committed", Err: err})
		case answer(err) != nil:
			r.Fail(errApart) // one of the requests may be to blame: it is to fail alone
		default:
			r.Fail(wrap(err, time.Since(started)))
		}
	}
}

// apart carries out one request in a transaction of its own, in which it waits
// for the owner's row. Only so many do that at once that connections are left for
// the others.
func (s *Store) apart(ctx context.Context, r *group.Request, create *durable.CreateOwner) error {
	if err := s.enterApart(ctx); err != nil {
		return err
	}
	defer func() { <-s.waiters }()
	return s.single(ctx, r, true, create)
}

// create carries out a creation. Most owners are new, so it waits only if it must.
func (s *Store) create(ctx context.Context, r *group.Request, create *durable.CreateOwner) error {
	err := s.single(ctx, r, false, create)
	if e := answer(err); errors.Is(err, errApart) || e != nil && e.Code == lockNotAvailable {
		return s.apart(ctx, r, create)
	}
	return err
}

// single carries out one request in a transaction of its own.
func (s *Store) single(ctx context.Context, r *group.Request, wait bool, create *durable.CreateOwner) error {
	err := s.repeat(ctx, func(started time.Time) error {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		run, cancel := s.bounded(ctx)
		defer cancel()
		err = s.transact(run, conn, newBatch(s.stmts, r), wait, create)
		if isUnknown(err) {
			return err
		}
		return s.readError(ctx, err, started)
	})
	switch {
	case isUnknown(err):
		r.Unknown(err)
	case err != nil:
		r.Fail(err)
	}
	return r.Err
}

// enterApart waits until few enough wait for rows.
func (s *Store) enterApart(ctx context.Context) error {
	timer := time.NewTimer(s.options.BusyTimeout)
	defer timer.Stop()
	select {
	case s.waiters <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &store.NotTakenError{Err: countersign.ContextError(ctx)}
	case <-timer.C:
		return &store.BusyError{Waited: s.options.BusyTimeout}
	}
}

// transact carries out a batch in a transaction, in two round trips: one locks
// and reads, one writes and commits. Until the second the context may end it. If
// it returns an error, nothing was written, or [isUnknown] says so; else the
// requests have their verdicts.
func (s *Store) transact(ctx context.Context, conn *pgxpool.Conn, b *batch, wait bool, create *durable.CreateOwner) error {
	statements := []*statement{begin()}
	switch {
	case wait:
		statements = append(statements, lockTimeout(s.options.BusyTimeout))
	case create != nil:
		// Another transaction may be creating the owner: no index skips that.
		statements = append(statements, lockTimeout(briefly))
	}
	first, err := b.first(create, wait)
	if err != nil {
		return err
	}
	if err := (pgxSession{conn}).run(ctx, append(statements, first...)...); err != nil {
		rollback(conn)
		return lostConnection(err)
	}
	b.decide()
	if slices.ContainsFunc(b.requests, (*group.Request).Writes) {
		if err := commit(ctx, conn, b.writes(), nil); err != nil {
			return err
		}
	} else {
		rollback(conn) // and nothing rests on it
	}
	s.heads.keep(b)
	return nil
}

// patient returns a context that ends a while after ctx, and at answerTimeout at
// the latest: what was sent is usually answered by then, and the caller learns what
// became of it.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	const while = time.Second
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(while)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}

// commit runs the statements and COMMIT, in one round trip, and lets the server
// answer for a while after the caller's context has ended. What comes after the
// COMMIT is no part of the transaction, and nothing depends on it.
func commit(ctx context.Context, conn *pgxpool.Conn, statements, after []*statement) error {
	ctx, cancel := patient(ctx)
	defer cancel()
	end := &statement{text: "COMMIT"}
	err := pgxSession{conn}.run(ctx, slices.Concat(statements, []*statement{end}, after)...)
	switch {
	case end.tag == "COMMIT":
		return nil // whatever became of the connection after that
	case end.tag != "":
		return errRolledBack
	case surelyNotCommitted(err):
		rollback(conn)
		return lostConnection(err)
	}
	return &unknownError{err}
}

// unknownError says that COMMIT was sent, and that its result was not seen.
type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

func isUnknown(err error) bool {
	_, ok := errors.AsType[*unknownError](err)
	return ok
}

// rollback ends the transaction. A connection on which that fails does not go
// back to the pool: Release looks at its state.
func rollback(conn *pgxpool.Conn) {
	if c := conn.Conn(); c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}
