package mongo

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const (
	firstPause   = time.Millisecond      // before the second attempt
	longestPause = 50 * time.Millisecond // and at most before a later one

	commitAttempts = 3                     // the driver repeats each of them once
	commitPause    = 20 * time.Millisecond // between them
	lastPatience   = time.Second           // for what is done after the caller's context has ended
	answerTimeout  = 30 * time.Second      // for the reply to what a transaction sends

	settlingTime  = time.Minute      // for a commit of unknown result: by then the server has ended the transaction
	settlingPause = 2 * time.Second  // at most, between its repetitions
	settlingReply = 10 * time.Second // for the reply to one of them
)

// TransactionOptions are those that a transaction of the caller's needs which
// [Store.Tx] joins: snapshot reads from the primary, and a commit that a majority
// of the nodes has.
func TransactionOptions() *options.TransactionOptionsBuilder {
	return options.Transaction().
		SetReadConcern(readconcern.Snapshot()).
		SetWriteConcern(writeconcern.Majority()).
		SetReadPreference(readpref.Primary())
}

// writingOptions are those of a transaction that begins with its writes and reads
// nothing. No read concern is sent, since not every server takes one with a bulk
// write: the writes see one state of the data all the same, and what they match
// is of a majority when the commit is.
func writingOptions() *options.TransactionOptionsBuilder {
	return TransactionOptions().SetReadConcern(&readconcern.ReadConcern{})
}

// run carries body out in a transaction and commits it, as often as repeat says:
// body must set everything anew that it sets. The driver's own loop is not used,
// since it goes on for two minutes, also with a context that has ended (B37).
//
// After an error nothing was written, except after an [*unknownCommit].
func (s *Store) run(ctx context.Context, opts *options.TransactionOptionsBuilder, body func(context.Context) error) error {
	return s.repeat(ctx, func() error { return s.once(ctx, opts, body) })
}

// repeat makes attempts, with pauses, while they fail for a reason that passes,
// for as long as the busy timeout.
func (s *Store) repeat(ctx context.Context, attempt func() error) error {
	started := time.Now()
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := attempt()
		var unknown *unknownCommit
		waited := time.Since(started)
		if errors.As(err, &unknown) || !repeatable(err) {
			return wrapUnlessUnknown(ctx, err, waited)
		}
		if ctx.Err() == nil && waited >= s.options.BusyTimeout {
			return wrap(ctx, err, waited)
		}
		if !pause(ctx, wait) {
			return &store.NotTakenError{Err: countersign.ContextError(ctx)}
		}
	}
}

func wrapUnlessUnknown(ctx context.Context, err error, waited time.Duration) error {
	var unconfirmed *unconfirmedError
	var unknown *unknownCommit
	if errors.As(err, &unknown) || errors.As(err, &unconfirmed) {
		return err
	}
	return wrap(ctx, err, waited)
}

// once is one attempt.
func (s *Store) once(ctx context.Context, opts *options.TransactionOptionsBuilder, body func(context.Context) error) error {
	session, err := s.client.StartSession()
	if err != nil {
		return err
	}
	if err := session.StartTransaction(opts); err != nil {
		session.EndSession(ctx)
		return err
	}
	committing := false
	defer func() {
		if !committing { // the body failed or panicked
			abort(ctx, session)
		}
	}()
	if err := body(mongo.NewSessionContext(ctx, session)); err != nil {
		return err
	}
	if err := store.CheckContext(ctx); err != nil {
		return err // ended before the commit: nothing is written
	}
	if !session.TransactionRunning() && abortedByBody(ctx, session) {
		return store.ErrTxDone
	}
	committing = true
	return s.commit(ctx, session)
}

// abortedByBody reports whether the transaction was surely aborted: then the driver
// sends no commit, and says so with the words of the protocol. Anything else leaves
// the outcome to commit.
func abortedByBody(ctx context.Context, session *mongo.Session) bool {
	err := session.CommitTransaction(ctx)
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "cannot call committransaction after calling aborttransaction")
}

// abort rolls back and gives the session back, also when the caller's context
// has ended: the server would keep the owner's record locked for a minute.
func abort(ctx context.Context, session *mongo.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
	defer cancel()
	session.EndSession(ctx)
}

// patient returns a context for a command of a transaction: it ends a second after
// ctx, and after answerTimeout at the latest. A command that is cut off while it is
// under way may reach the server after the abort that follows it, begin the
// transaction anew there, and leave the owner locked. So the reply is waited for,
// unless the server hangs. It has no deadline: with one, the driver repeats what
// fails until then.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	hangs := time.AfterFunc(answerTimeout, cancel)
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(lastPatience)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done(): // the command is done
		}
	})
	return late, func() {
		hangs.Stop()
		stop()
		cancel()
	}
}

// commit commits. A commit of unknown result is repeated, which is safe: it
// carries the transaction's number.
//
// That the server knows of no such transaction is taken for an unknown result too,
// whatever its labels say: the driver repeats a commit by itself and does not tell,
// and not every server remembers across a restart what it has committed.
func (s *Store) commit(ctx context.Context, session *mongo.Session) error {
	late, cancel := patient(ctx)
	defer cancel()
	var err error
	for n := range commitAttempts {
		if n > 0 {
			pause(late, time.Duration(n)*commitPause)
		}
		err = session.CommitTransaction(late)
		if err == nil || rolledBack(err) && !hasCode(err, codeNoSuchTransaction) {
			session.EndSession(late)
			return err
		}
		if late.Err() != nil || !hasLabel(err, labelUnknownCommit) && !mongo.IsNetworkError(err) && !mongo.IsTimeout(err) {
			break
		}
	}
	s.settleLater(session)
	if ctx.Err() != nil {
		err = errors.Join(countersign.ContextError(ctx), err)
	}
	return &unknownCommit{err: err}
}

// rolledBack reports whether a commit was surely not carried out.
func rolledBack(err error) bool {
	return hasLabel(err, labelTransient) && !hasLabel(err, labelUnknownCommit)
}

// settleLater repeats a commit of unknown result until the server says what became
// of it, or the store is closed. A transaction that is still open there would keep
// its owners locked, also against the repetition of the request, for a minute.
func (s *Store) settleLater(session *mongo.Session) {
	s.mu.Lock()
	s.calls++ // Close waits for it. The call that it comes from is not over.
	s.mu.Unlock()
	go func() {
		defer s.leave()
		ctx, cancel := context.WithTimeout(context.Background(), settlingTime)
		defer cancel()
		go func() {
			select {
			case <-s.closing:
				cancel()
			case <-ctx.Done():
			}
		}()
		for wait := commitPause; pause(ctx, wait); wait = min(2*wait, settlingPause) {
			if settled(ctx, session) {
				session.EndSession(ctx)
				return
			}
		}
		// The session is not ended: that would abort the transaction while its commit
		// may be under way on another router. The server forgets it by itself.
	}()
}

// settled repeats a commit once, and reports whether nothing is open any more.
func settled(ctx context.Context, session *mongo.Session) bool {
	ctx, cancel := context.WithTimeout(ctx, settlingReply)
	defer cancel()
	err := session.CommitTransaction(ctx)
	return err == nil || rolledBack(err) || hasCode(err, codeNoSuchTransaction) || errors.Is(err, mongo.ErrClientDisconnected)
}

// pause waits, and reports whether the context goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d)) //nolint:gosec // jitter
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
