package mongo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// receiptAttempts is how often an append begins again because somebody else has
// inserted its receipt, which it then should find.
const receiptAttempts = 5

// queues are the appends of this process that wait, by the place that they lock:
// those that wait for one place are carried out in one transaction.
type queues struct {
	mu  sync.Mutex
	all map[string]*queue
}

type queue struct {
	*group.Queue[*group.Append]
	callers int // guarded by queues.mu
}

func (q *queues) join(id string) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := q.all[id]
	if mine == nil {
		if q.all == nil {
			q.all = map[string]*queue{}
		}
		mine = &queue{Queue: group.NewQueue[*group.Append]()}
		mine.Remote = true
		q.all[id] = mine
	}
	mine.callers++
	return mine
}

func (q *queues) leave(id string, mine *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if mine.callers--; mine.callers == 0 {
		delete(q.all, id)
	}
}

// Append implements [store.EventPort].
func (p port) Append(ctx context.Context, a *store.Append) error {
	at := placeOf(a)
	if p.tx == nil {
		return p.s.append(ctx, at, a)
	}
	err := p.tx.within(ctx, func(ctx context.Context) error {
		_, err := p.s.carryOut(ctx, at, store.NewAppendGroups(a)[0], true)
		return err
	})
	if err != nil {
		a.Fail(err)
		return err
	}
	if s, ok := a.Sequence(); ok && a.Writes() {
		p.tx.appended(s)
	}
	return a.Err()
}

// append queues an append, with the others that wait for its place.
func (s *Store) append(ctx context.Context, at place, a *store.Append) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if ctx.Value(inBody{s}) != nil {
		return store.ErrNestedTransaction
	}
	q := s.queues.join(at.id)
	defer s.queues.leave(at.id, q)
	return q.Do(ctx, &group.Append{Append: a}, s.options.BusyTimeout, func(_ context.Context, mine *group.Append) {
		s.flush(at, q, mine)
	})
}

// flush is [group.Queue.Do]'s: it takes the appends that wait, and settles them. It
// may outlive the caller, but not the store.
func (s *Store) flush(at place, q *queue, mine *group.Append) {
	if !s.enterAgain() {
		q.Reject(mine, store.ErrClosed)
		return
	}
	defer s.leave()
	started := time.Now()
	batch := q.Take()
	defer func() { q.Settle(batch, time.Since(started)) }()
	s.carryOutAll(at, batch)
	for _, a := range batch {
		// Also where the outcome is unknown: whoever waits looks for itself.
		if sequence, ok := a.Sequence(); ok && (a.Writes() || a.Err() != nil) {
			s.Wake(sequence)
			return
		}
	}
}

// carryOutAll carries a group out in one transaction and gives all its verdicts. If
// the server refuses what one of them writes, each is carried out by itself.
func (s *Store) carryOutAll(at place, batch []*group.Append) {
	appends := make([]*store.Append, len(batch))
	for i, a := range batch {
		appends[i] = a.Append
	}
	g := store.NewAppendGroups(appends...)[0]
	lost := 0 // attempts that found a receipt taken, which they had not found
	var found keys
	err := s.run(context.Background(), TransactionOptions(), func(ctx context.Context) (err error) {
		found, err = s.carryOut(ctx, at, g, false)
		var taken *receiptTakenError
		if errors.As(err, &taken) {
			if lost++; lost == receiptAttempts {
				return &receipt.UnsettledError{Key: taken.key, Err: err}
			}
			return &racedError{err: err}
		}
		return err
	})
	var unknown *unknownCommit
	switch {
	case err == nil:
		if found.own != (key{}) {
			s.known.set(at.id, found)
			s.known.set(namespaceID(at.namespace), keys{own: found.life})
		}
	case errors.As(err, &unknown):
		for _, a := range batch {
			if a.Writes() {
				a.Unknown(unknown.err)
			} else {
				a.Fail(&store.UnavailableError{Reason: "what it was decided on may not be of a majority", Err: unknown.err})
			}
		}
	case len(batch) > 1 && alone(err):
		for _, a := range batch {
			s.carryOutAll(at, []*group.Append{a})
		}
	default:
		for _, a := range batch {
			a.Fail(err)
		}
	}
}

// alone reports whether one of a group may be to blame for its error.
func alone(err error) bool {
	var unusable *store.UnusableError
	var unsettled *receipt.UnsettledError
	return errors.As(err, &unusable) || errors.As(err, &unsettled)
}

// receiptTakenError says that another transaction has inserted a receipt that this
// one does not see.
type receiptTakenError struct {
	key receipt.Key
	err error
}

func (e *receiptTakenError) Error() string { return e.err.Error() }
func (e *receiptTakenError) Unwrap() error { return e.err }

// carryOut reads what a group touches, lets it decide, and writes what it comes to,
// in the transaction of ctx. It gives every append its verdict, and returns the
// place's keys; its error is about the transaction. What is written is written
// together with the place, so that of two transactions on one place, or of one and
// the dropping of the namespace, only one succeeds. A group that writes nothing
// writes the place only if it must lock it.
func (s *Store) carryOut(ctx context.Context, at place, g *store.AppendGroup, locks bool) (keys, error) {
	b, err := s.readBatch(ctx, at, g)
	if err != nil {
		return keys{}, err
	}
	slice, err := b.slice(ctx)
	if err != nil {
		return keys{}, err
	}
	found, err := b.found()
	if err != nil {
		return keys{}, err
	}
	g.Decide(found, slice, b.now)
	if !g.Writes() && !locks {
		return b.keys, nil
	}
	err = b.write(ctx)
	return b.keys, err
}

// A batch is a group of appends on its way through a transaction.
type batch struct {
	*view
	at   place
	g    *store.AppendGroup
	head *logDocument // of the place, or nil
	keys keys         // of the place; without a head only the life, or nothing

	claimed map[eventlog.ClaimOwner]eventlog.Claim // the claims that were read
}

// readBatch reads the place and everything that the group touches, but for scopes:
// in one query if the place's keys are known.
func (s *Store) readBatch(ctx context.Context, at place, g *store.AppendGroup) (*batch, error) {
	b := &batch{view: s.newView(), at: at, g: g}
	ids := []any{at.id}
	if g.Touch != nil {
		ids = append(ids, definitionsID(at.namespace.EventStore))
	}
	guess, guessed := s.known.of(at.id)
	if guessed {
		ids = append(ids, b.touched(guess, true)...)
	} else {
		ids = append(ids, namespaceID(at.namespace))
	}
	if err := b.read(ctx, ids...); err != nil {
		return nil, err
	}
	b.head = b.view.head(at.id)
	switch {
	case b.head != nil && guessed && b.head.keys() == guess:
		b.keys = guess
		return b, nil
	case b.head != nil:
		b.keys = b.head.keys()
		return b, b.readMore(ctx, b.touched(b.keys, true))
	case guessed:
		if err := b.read(ctx, namespaceID(at.namespace)); err != nil {
			return nil, err
		}
	}
	if ns := b.namespace(); ns != nil {
		b.keys.life = ns.ownKey()
		return b, b.readMore(ctx, b.touched(b.keys, false))
	}
	return b, nil
}

func (b *batch) readMore(ctx context.Context, ids []any) error {
	if len(ids) == 0 {
		return nil
	}
	return b.read(ctx, ids...)
}

func (b *batch) namespace() *logDocument { return b.view.head(namespaceID(b.at.namespace)) }

// touched are the _ids of the receipts and, in a sequence that exists, the claims.
func (b *batch) touched(k keys, exists bool) []any {
	var ids []any
	for _, key := range b.g.Keys {
		ids = append(ids, receiptID(k.life, key))
	}
	if t := b.g.Touch; t != nil && exists {
		for _, o := range t.Owners {
			ids = append(ids, claimID(k.own, o))
		}
		for _, v := range t.Values {
			ids = append(ids, holderID(k.own, v))
		}
	}
	return ids
}

// found are the receipts.
func (b *batch) found() (receipt.Found, error) {
	found := receipt.Found{}
	for _, k := range b.g.Keys {
		if d := b.row(receiptID(b.keys.life, k)); d != nil {
			r, err := d.receipt(k)
			if err != nil {
				return nil, err
			}
			found[k] = r
		}
	}
	return found, nil
}

// slice is what the rules need of the sequence: nil without one.
func (b *batch) slice(ctx context.Context) (*eventlog.Slice, error) {
	t := b.g.Touch
	if t == nil {
		return nil, nil
	}
	slice := &eventlog.Slice{}
	if d := b.view.head(definitionsID(b.at.namespace.EventStore)); d != nil {
		slice.Revision, slice.Constraints = loaded(d.Revision), loaded(d.Constraints)
	}
	if !b.exists() {
		return slice, nil
	}
	slice.Exists, slice.Next, slice.Indexed = true, loaded(b.head.Next), loaded(b.head.Indexed)
	b.claimed = b.claims(b.keys.own, *t, slice)
	for _, scope := range t.Scopes {
		number, ok, err := b.s.highest(ctx, b.keys.own, scope.Filter(), scope.Expected.From(), slice.Next)
		if err != nil {
			return nil, err
		}
		if ok {
			slice.SetHighest(scope, number)
		}
	}
	return slice, nil
}

// exists reports whether the sequence has events. Its head may be there without any:
// a caller's transaction has locked it.
func (b *batch) exists() bool { return b.head != nil && b.head.Next != 0 }

// claims adds the claims that were read to the slice.
func (v *view) claims(sequence key, t eventlog.Touch, slice *eventlog.Slice) map[eventlog.ClaimOwner]eventlog.Claim {
	known := map[eventlog.ClaimOwner]eventlog.Claim{}
	add := func(d *logDocument) {
		if d == nil {
			return
		}
		c := d.claim()
		if _, twice := known[ownerOf(c)]; !twice {
			known[ownerOf(c)] = c
			slice.AddClaim(c)
		}
	}
	for _, o := range t.Owners {
		add(v.row(claimID(sequence, o)))
	}
	for _, value := range t.Values {
		add(v.row(holderID(sequence, value)))
	}
	return known
}

// write writes what was decided.
func (b *batch) write(ctx context.Context) error {
	w := b.s.newLogWrites()
	changes := b.g.Changes()
	var fields bson.D
	if b.at.kind == sequenceKind {
		fields = bson.D{{Key: "next", Value: stored(changes.Next)}, {Key: "indexed", Value: stored(changes.Indexed)}}
	}
	switch {
	case b.head == nil:
		if b.at.kind == sequenceKind {
			fields = append(fields, bson.E{Key: "building", Value: int64(0)}, bson.E{Key: "through", Value: int64(0)})
		}
		b.keys = w.addHead(b.at.id, b.at.kind, b.at.name, b.at.namespace, b.namespace(), fields)
	case changes.Writes():
		w.lockHead(b.head, fields)
	default:
		w.lockHead(b.head, nil)
	}
	receipts := map[int]receipt.Key{}
	for _, r := range b.g.Receipts() {
		row, err := receiptRow(b.keys.life, r)
		if err != nil {
			return err
		}
		receipts[len(w.all)] = r.Key
		w.insert(row)
	}
	w.moveClaims(b.keys.own, b.claimed, changes.Freed, changes.Claims)
	for _, e := range changes.Events {
		w.event(eventRowOf(b.keys.own, e))
	}
	err := b.s.send(ctx, w.writes, false)
	var unconfirmed *unconfirmedError
	if errors.As(err, &unconfirmed) && unconfirmed.err != nil {
		if taken, ok := receipts[unconfirmed.at]; ok {
			return &receiptTakenError{key: taken, err: err}
		}
	}
	return w.judged(err)
}

// moveClaims deletes the claims that were freed, and then inserts the others.
func (w *logWrites) moveClaims(sequence key, stored map[eventlog.ClaimOwner]eventlog.Claim, freed []eventlog.ClaimOwner, made []eventlog.Claim) {
	var gone []any
	for _, o := range freed {
		gone = append(gone, claimID(sequence, o), holderID(sequence, valueOf(stored[o])))
	}
	w.deleteThose(gone)
	for _, c := range made {
		for _, d := range claimDocuments(sequence, c) {
			w.insert(d)
		}
	}
}

// highest returns the highest number of a sequence's event that matches, from a
// number on and below a bound.
func (s *Store) highest(ctx context.Context, sequence key, f eventlog.Filter, from, bound uint64) (number uint64, ok bool, err error) {
	switch {
	case from >= bound:
		return 0, false, nil // nothing has been appended there
	case f.Empty():
		return bound - 1, true, nil
	}
	filter, order := eventFilter(sequence, f, from, bound)
	err = s.findEvents(ctx, filter, options.Find().SetSort(bson.D{{Key: order, Value: -1}}).SetLimit(1).SetProjection(bson.D{{Key: "number", Value: 1}}),
		func(e *eventRow) bool {
			number, ok = loaded(e.Number), true
			return true
		})
	return number, ok, err
}
