package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A work is a transaction, as those see it who read and write the event log in it.
// What is written waits until something is read, or for the end.
type work struct {
	s      session
	t      *statements
	clock  countersign.Clock
	queued []*statement
	writes bool  // whether it writes anything
	failed error // of a statement: the transaction can't go on
	body   *bodyRun

	appended []eventlog.Sequence // that it has appended to
}

// run runs what is queued, and then the statements, in one round trip.
func (w *work) run(ctx context.Context, statements ...*statement) error {
	queued := append(w.queued, statements...) //nolint:gocritic // it is not used again
	w.queued = nil
	if err := w.s.run(ctx, queued...); err != nil {
		w.failed = err
	}
	return w.failed
}

// write queues statements that write.
func (w *work) write(statements ...*statement) {
	w.queued = append(w.queued, statements...)
	w.writes = true
}

// now is the store's time, where the server says that it is so.
func (w *work) now(micros int64) time.Time { return storeTime(w.clock, micros) }

func storeTime(clock countersign.Clock, micros int64) time.Time {
	if clock != nil {
		return clock.Now()
	}
	return time.UnixMicro(micros).UTC()
}

// unbound lets what comes take longer than a request may.
func (w *work) unbound() {
	if b, ok := w.s.(boundSession); ok {
		w.s = b.session
	}
}

// one makes a statement of a text of one part.
func (t *statements) one(sql *string, args ...any) *statement { return t.make(alone, part{sql, args}) }

// carry carries f out in a transaction of its own, which may begin again. The error
// of an unknown outcome is made by unknown.
func (s *Store) carry(ctx context.Context, unknown func(error) error, f func(context.Context, *work) error) error {
	if err := s.enterWriting(ctx); err != nil {
		return err
	}
	defer s.leave()
	var refused error
	err := s.repeat(ctx, func(started time.Time) error {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		refused, err = s.within(ctx, conn, s.options.BusyTimeout, f)
		if isUnknown(err) {
			return err
		}
		return s.readError(ctx, err, started)
	})
	switch {
	case isUnknown(err):
		return unknown(err)
	case err != nil:
		return err
	}
	return refused
}

// within carries f out in a transaction on the connection. It tells the refusal of a
// rule, after which nothing is written, from an error. No row is waited for longer
// than wait.
func (s *Store) within(ctx context.Context, conn *pgxpool.Conn, wait time.Duration, f func(context.Context, *work) error) (refused, err error) {
	w := &work{
		s: boundSession{pgxSession{conn}, s}, t: s.stmts, clock: s.options.Clock,
		queued: []*statement{begin(), lockTimeout(wait)},
	}
	refused = f(ctx, w)
	switch {
	case w.failed != nil:
		rollback(conn)
		return nil, lostConnection(w.failed)
	case met(refused):
		rollback(conn)
		return nil, refused
	case refused != nil || !w.writes:
		rollback(conn)
		return refused, nil
	}
	return nil, commit(ctx, conn, w.queued, s.stmts.notices(w.appended))
}

// carry carries f out in the transaction.
func (t *Tx) carry(ctx context.Context, _ func(error) error, f func(context.Context, *work) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := 1; ; n++ {
		err := t.within(ctx, f)
		if !met(err) || t.body != nil || t.broken != nil || n == attempts {
			return err
		}
	}
}

// within carries f out once. Of a caller's transaction it has a savepoint.
func (t *Tx) within(ctx context.Context, f func(context.Context, *work) error) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	started := time.Now()
	w := &work{s: t.s, t: t.stmts, clock: t.clock, body: t.body}
	if t.body != nil {
		err := f(ctx, w)
		if w.failed == nil && !met(err) && !errors.Is(err, errApart) {
			return t.finish(ctx, w, err, started)
		}
		return t.breaks(ctx, cmp.Or(w.failed, err), started)
	}
	savepoint := &statement{text: "SAVEPOINT countersign_request"}
	w.queued = []*statement{savepoint}
	err := f(ctx, w)
	switch {
	case !savepoint.done && answer(w.failed) != nil:
		// The caller's transaction had failed before, and nothing was done in it. The
		// caller may have a savepoint to go back to.
		return txError(ctx, w.failed, started)
	case w.failed != nil || met(err):
		return t.undo(ctx, cmp.Or(w.failed, err), started)
	}
	return t.finish(ctx, w, err, started, &statement{text: "RELEASE SAVEPOINT countersign_request"})
}

// finish writes what is left to write, unless it was refused.
func (t *Tx) finish(ctx context.Context, w *work, refused error, started time.Time, last ...*statement) error {
	if refused != nil {
		w.queued, w.appended = nil, nil
	}
	if t.body == nil { // the COMMIT is not ours to add something to
		w.queued = append(w.queued, w.t.notices(w.appended)...)
	}
	if len(w.queued)+len(last) == 0 {
		return refused
	}
	// From here on the end of the caller's context must not break the transaction,
	// which is the caller's.
	late, cancel := patient(ctx)
	defer cancel()
	if err := w.run(late, last...); err != nil {
		if t.body != nil {
			return t.breaks(ctx, err, started)
		}
		return t.undo(ctx, err, started)
	}
	t.appended = append(t.appended, w.appended...)
	return refused
}
