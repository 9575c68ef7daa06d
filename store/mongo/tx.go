package mongo

import (
	"context"
	"errors"
	"sync"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// inBody marks the context of a transaction's body on a store.
type inBody struct{ store *Store }

// A Tx is a backend bound to one transaction. Its results are provisional: they
// carry a settlement that is not settled until the transaction has committed. A
// refusal leaves the transaction usable. After any other error the server has
// ended the transaction, or may have, so the Tx refuses everything that follows,
// with that error; abort it. It is safe for concurrent use.
type Tx struct {
	*store.Events
	s       *Store
	session *mongo.Session
	settled *countersign.Settlement

	mu     sync.Mutex
	done   bool
	broken error // what the callers learn
	cause  error // the driver's error behind it

	sequences map[eventlog.Sequence]bool // that were appended to
}

var _ store.Backend = (*Tx)(nil)

// Tx returns the backend bound to the transaction of the caller's session in ctx
// (see [mongo.NewSessionContext]), on the client that the store works with:
// requests and the caller's own writes commit together, or not at all. Start the
// transaction with [TransactionOptions].
//
// Each request that decides something locks its owner: it writes the owner's head
// first. If another transaction has written the owner since this one began, it is
// a [*store.BusyError], and the transaction must be repeated as a whole.
//
// Call [Tx.Committed] after the session's CommitTransaction has returned nil, if
// the results' AckSafe is asked. Errors: a context without a session, or whose
// session has no transaction under way, and a closed store are refused at the
// first request; after the transaction has ended every request is refused with
// [store.ErrTxDone]. The session's next transaction needs a Tx of its own. The
// session is the driver's, whose package has this one's name too: import one of
// them under another.
func (s *Store) Tx(ctx context.Context) *Tx {
	t := &Tx{s: s, settled: &countersign.Settlement{}}
	if s != nil {
		t.Events = s.In(port{s: s, tx: t})
	}
	if s == nil || s.client == nil || s.isClosed() {
		t.broken = store.ErrClosed
		return t
	}
	if ctx != nil {
		t.session = mongo.SessionFromContext(ctx)
	}
	switch {
	case t.session == nil:
		t.broken = &countersign.MalformedError{Field: "context", Reason: "has no session"}
	case !running(t.session):
		t.broken = &countersign.MalformedError{Field: "session", Reason: "has no transaction under way"}
	}
	return t
}

// running reports whether the session has a transaction that was started and not
// ended, whether or not anything was sent in it yet. An ended session, which takes
// no cluster time, has none, whatever became of its last one.
func running(session *mongo.Session) bool {
	return session.TransactionRunning() && session.AdvanceClusterTime(session.ClusterTime()) == nil
}

// Committed says that the transaction's commit has returned nil: its results are
// settled now. The Tx can't be used any more.
func (t *Tx) Committed() {
	t.end()
	t.settled.Commit()
	t.mu.Lock()
	defer t.mu.Unlock()
	for sequence := range t.sequences {
		t.Wake(sequence)
	}
}

// appended notes a sequence whose readers are to be woken when the transaction has
// committed.
func (t *Tx) appended(sequence eventlog.Sequence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sequences == nil {
		t.sequences = map[eventlog.Sequence]bool{}
	}
	t.sequences[sequence] = true
}

func (t *Tx) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
}

// bodyError is an error that a transaction's body has returned.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// Atomically implements [store.Transactor]. The context of the body carries the
// session, so the body may write documents of its own with it, to the same
// client. The body runs again after a conflict with another transaction, for as
// long as the busy timeout.
func (s *Store) Atomically(ctx context.Context, body func(ctx context.Context, tx store.Backend) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if ctx.Value(inBody{s}) != nil {
		return store.ErrNestedTransaction
	}
	var last *Tx // attempt
	err := s.run(ctx, TransactionOptions(), func(ctx context.Context) error {
		t := &Tx{s: s, session: mongo.SessionFromContext(ctx), settled: &countersign.Settlement{}}
		t.Events = s.In(port{s: s, tx: t})
		last = t
		defer t.end()
		err := body(context.WithValue(ctx, inBody{s}, true), t)
		t.end()
		if err == nil || t.cause != nil && repeatable(t.cause) {
			return t.cause // whatever the body made of it
		}
		return &bodyError{err}
	})
	var own *bodyError
	var unknown *unknownCommit
	switch {
	case err == nil:
		last.Committed()
	case errors.As(err, &own):
		return own.err
	case errors.As(err, &unknown):
		return &durable.UnknownOutcomeError{Op: durable.OpTransaction, Err: unknown.err}
	}
	return err
}

// write decides and writes one request. A write that the server refuses would end
// the transaction, so nothing is assumed here: the head is locked, what the
// request touches is read, and only what the rule allows is written.
func (t *Tx) write(ctx context.Context, r *group.Request) error {
	return t.within(ctx, func(ctx context.Context) error {
		head, err := t.s.lock(ctx, r.Touch.Owner)
		if err != nil {
			return err
		}
		var slice durable.Slice
		if head != nil { // a new owner has no records
			if slice, err = t.s.readSlice(ctx, r.Touch, head); err != nil {
				return err
			}
		}
		if r.Decide(&slice); !r.Writes() {
			return r.Err
		}
		return contradiction(t.s.writePlan(ctx, head, r.Plan))
	})
}

// lock writes the owner's head and returns it as it stands, or nil.
func (s *Store) lock(ctx context.Context, owner string) (*durable.Head, error) {
	ctx, cancel := patient(ctx)
	defer cancel()
	var d document
	err := s.records.FindOneAndUpdate(ctx,
		bson.D{{Key: "_id", Value: recordID(owner, headKind, "")}, {Key: "owner", Value: owner}},
		bson.D{{Key: "$inc", Value: bson.D{{Key: "turn", Value: int64(1)}}}},
		options.FindOneAndUpdate().SetReturnDocument(options.After),
	).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head := d.head()
	return &head, d.check()
}

// within calls f with the transaction's session. An error that is no verdict of
// the rules breaks the transaction.
func (t *Tx) within(ctx context.Context, f func(context.Context) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.broken != nil:
		return t.broken
	case t.done:
		return store.ErrTxDone
	case !running(t.session):
		// Whoever started it has ended it. What the driver sends in such a session
		// is outside any transaction, and would stay.
		t.done = true
		return store.ErrTxDone
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	err := f(mongo.NewSessionContext(ctx, t.session))
	var unusable *store.UnusableError
	if err != nil && (!isOurs(err) || errors.As(err, &unusable)) {
		t.cause, t.broken = err, wrap(ctx, err, 0)
		return t.broken
	}
	return err
}

func (t *Tx) read(ctx context.Context, f func(context.Context) error) error { return t.within(ctx, f) }

func (t *Tx) readTogether(ctx context.Context, f func(context.Context) error) error {
	return t.within(ctx, f)
}

// CreateOwner implements [durable.Store].
func (t *Tx) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return group.CreateOwner(ctx, t.write, req)
}

// LoadOwner implements [durable.Store].
func (t *Tx) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return t.s.load(ctx, t, req)
}

// CommitOwner implements [durable.Store].
func (t *Tx) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return group.CommitOwner(ctx, t.write, t.settled, c)
}

// AdvanceFence implements [durable.Store].
func (t *Tx) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return group.AdvanceFence(ctx, t.write, req)
}

// RecordReceipt implements [durable.Store].
func (t *Tx) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return group.RecordReceipt(ctx, t.write, t.settled, req)
}

// ReadHistory implements [durable.Store].
func (t *Tx) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return t.s.readHistory(ctx, t, req)
}

// ReadPending implements [durable.Store].
func (t *Tx) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return t.s.readPending(ctx, t, req)
}
