package mongo

import (
	"context"
	"errors"
	"math/rand/v2"
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

	commitAttempts = 3           // the driver repeats each of them once
	lastPatience   = time.Second // for what is done after the caller's context has ended
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
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attempt()
		var unknown *unknownCommit
		waited := time.Since(started)
		if errors.As(err, &unknown) || !transient(err) && !passing(err) {
			return wrapUnlessUnknown(ctx, err, waited)
		}
		if ctx.Err() == nil && waited >= s.options.BusyTimeout {
			return wrap(ctx, err, waited)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause)) //nolint:gosec // jitter
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
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
	committing = true
	return commit(ctx, session)
}

// abort rolls back and gives the session back, also when the caller's context
// has ended: the server would keep the owner's record locked for a minute.
func abort(ctx context.Context, session *mongo.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
	defer cancel()
	session.EndSession(ctx)
}

// patient returns a context for a command of a transaction: it ends a second after
// ctx. A command that is cut off while it is under way may reach the server after
// the abort that follows it, begin the transaction anew there, and leave the owner
// locked. So the reply is waited for, unless the server hangs.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
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
func commit(ctx context.Context, session *mongo.Session) error {
	late, cancel := patient(ctx)
	defer cancel()
	var err error
	for range commitAttempts {
		err = session.CommitTransaction(late)
		if err == nil || hasLabel(err, labelTransient) && !hasLabel(err, labelUnknownCommit) && !hasCode(err, codeNoSuchTransaction) {
			session.EndSession(late)
			return err
		}
		if late.Err() != nil || !hasLabel(err, labelUnknownCommit) && !mongo.IsNetworkError(err) && !mongo.IsTimeout(err) {
			break
		}
	}
	if ctx.Err() != nil {
		err = errors.Join(countersign.ContextError(ctx), err)
	}
	// The session is not ended: that would abort the transaction while its commit
	// may be under way on another router. The server forgets it by itself.
	return &unknownCommit{err: err}
}
