package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// A logBatch is a group of appends in a transaction.
type logBatch struct {
	group *store.AppendGroup

	key    int64 // the sequence's
	state  eventlog.IndexState
	locked bool
	there  bool // as it was seen without a lock

	now   time.Time
	found receipt.Found
	slice *eventlog.Slice
}

// appends carries out appends: it decides them, and queues what they write. A row that
// another transaction holds is waited for, or errApart.
func (w *work) appends(ctx context.Context, wait bool, appends ...*store.Append) error {
	found := receipt.Found{}
	for _, g := range store.NewAppendGroups(appends...) {
		b := &logBatch{group: g, found: found}
		if err := b.read(ctx, w, wait); err != nil {
			return err
		}
		if g.Touch != nil && b.state.Next != 0 {
			b.slice.Exists, b.slice.Next, b.slice.Indexed = true, b.state.Next, b.state.Indexed
		}
		g.Decide(b.found, b.slice, b.now)
		if writes := b.writes(w.t); len(writes) > 0 {
			w.write(writes...)
		}
		if len(g.Changes().Events) > 0 {
			w.appended = append(w.appended, g.Touch.Sequence)
		}
	}
	return nil
}

// read locks the sequence's row, which it inserts if there is none, and reads what
// the group touches.
func (b *logBatch) read(ctx context.Context, w *work, wait bool) error {
	if b.group.Touch == nil {
		return w.run(ctx, b.reads(w))
	}
	sequence := b.group.Touch.Sequence
	lock := &lockFreeSequence
	if wait {
		lock = &lockSequence
	}
	if err := w.run(ctx, b.lock(w, lock), b.reads(w)); err != nil || b.locked {
		return err
	}
	if b.there {
		if wait {
			return errDropped // and made anew
		}
		return errApart
	}
	if err := w.run(ctx, w.t.one(&lockNamespace, namespaceLock(w.t.schema, sequence.Namespace)), w.t.one(&insertSequence, names(sequence)...),
		b.lock(w, &lockSequence), b.reads(w)); err != nil || b.locked {
		return err
	}
	return errDropped
}

func names(s eventlog.Sequence) []any { return []any{s.Namespace.EventStore, s.Namespace.Name, s.Name} }

func (b *logBatch) lock(w *work, text *string) *statement {
	return w.t.one(text, names(b.group.Touch.Sequence)...).rows(func(r *logRow) error {
		b.locked, b.key, b.state = true, r.a, r.indexState()
		return nil
	})
}

// indexState is that of a locked sequence.
func (r *logRow) indexState() eventlog.IndexState {
	return eventlog.IndexState{Next: uint64(r.b), Indexed: uint64(r.c), Building: uint64(r.d), Through: uint64(r.e)}
}

// reads is the query for what the group touches, in one snapshot.
func (b *logBatch) reads(w *work) *statement {
	parts := []part{{sql: &timePart}}
	var scopes []eventlog.Scope
	if t := b.group.Touch; t != nil {
		scopes = t.Scopes
		parts[0] = part{&statePart, names(t.Sequence)}
		parts = append(parts, claimParts(*t)...)
		parts = append(parts, looksFor(scopes).parts(&highestBy)...)
	}
	if keys := b.group.Keys; len(keys) > 0 {
		parts = append(parts, b.receiptsPart(keys))
	}
	slice := &eventlog.Slice{}
	if b.group.Touch != nil {
		b.slice = slice
	}
	highest := map[int64]uint64{}
	return w.t.make(union, parts...).rows(func(r *logRow) error {
		switch r.kind {
		case stateRow:
			b.now, slice.Revision, slice.Constraints, b.there = w.now(r.a), uint64(r.b), uint64(r.c), r.d != 0
		case claimRow:
			return addClaim(slice, r)
		case scopeRow:
			if n, ok := highest[r.a]; !ok || uint64(r.b) > n {
				highest[r.a] = uint64(r.b)
				slice.SetHighest(scopes[r.a], uint64(r.b))
			}
		case effectRow:
			found, err := r.effectReceipt(b.group.Keys[0].Namespace)
			if err != nil {
				return err
			}
			b.found[found.Key] = found
		}
		return nil
	})
}

func claimParts(t eventlog.Touch) []part {
	var parts []part
	if len(t.Owners) > 0 {
		indexes, sources := make([][]byte, len(t.Owners)), make([]string, len(t.Owners))
		for i, o := range t.Owners {
			indexes[i], sources[i] = t.Owners[i].Index[:], o.Source
		}
		parts = append(parts, part{&claimsOfSources, []any{indexes, sources}})
	}
	if len(t.Values) > 0 {
		indexes, values := make([][]byte, len(t.Values)), make([][]byte, len(t.Values))
		for i := range t.Values {
			indexes[i], values[i] = t.Values[i].Index[:], t.Values[i].Value[:]
		}
		parts = append(parts, part{&claimsOfValues, []any{indexes, values}})
	}
	return parts
}

func addClaim(s *eventlog.Slice, r *logRow) error {
	c := eventlog.Claim{Source: r.s, Number: uint64(r.a)}
	if copy(c.Index[:], r.x) != len(c.Index) || copy(c.Value[:], r.y) != len(c.Value) {
		return &store.UnusableError{Reason: fmt.Sprintf("a claim of source %q is of the wrong size", r.s)}
	}
	s.AddClaim(c)
	return nil
}

// writes are the statements that write what was decided.
func (b *logBatch) writes(t *statements) []*statement {
	var statements []*statement
	var parts []part
	changes := b.group.Changes()
	if changes.Writes() {
		if len(changes.Freed) > 0 {
			statements = append(statements, freeClaims(t, b.key, changes.Freed))
		}
		parts = append(parts, part{&moveSequence, append(append([]any{b.key}, names(b.group.Touch.Sequence)...),
			int64(changes.Next), int64(changes.Indexed), int64(b.state.Building), int64(b.state.Through))})
		parts = append(parts, eventParts(b.key, changes.Events)...)
		if len(changes.Claims) > 0 {
			parts = append(parts, claimsPart(b.key, changes.Claims))
		}
	}
	if receipts := b.group.Receipts(); len(receipts) > 0 {
		parts = append(parts, insertsReceipts(receipts))
	}
	if len(parts) > 0 {
		statements = append(statements, t.make(all, parts...))
	}
	return statements
}

func freeClaims(t *statements, key int64, freed []eventlog.ClaimOwner) *statement {
	indexes, sources := make([][]byte, len(freed)), make([]string, len(freed))
	for i, o := range freed {
		indexes[i], sources[i] = freed[i].Index[:], o.Source
	}
	return t.one(&deleteClaims, indexes, sources, key)
}

func claimsPart(key int64, made []eventlog.Claim) part {
	n := len(made)
	indexes, sources, values, numbers := make([][]byte, n), make([]string, n), make([][]byte, n), make([]int64, n)
	for i, c := range made {
		indexes[i], sources[i], values[i], numbers[i] = made[i].Index[:], c.Source, made[i].Value[:], int64(c.Number)
	}
	return part{&insertClaims, []any{indexes, sources, values, numbers, key}}
}

func eventParts(key int64, events []eventlog.Recorded) []part {
	n := len(events)
	numbers, occurred, generations, sizes := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	var texts [9][]string
	for i := range texts {
		texts[i] = make([]string, n)
	}
	tags, contents := make([][]byte, n), make([][]byte, n)
	var tag [][]byte
	var tagged []int64
	for i := range events {
		e := &events[i]
		numbers[i], occurred[i], generations[i], sizes[i] = int64(e.Number), e.Occurred.UnixMicro(), int64(e.Generation), int64(e.Size())
		for j, text := range [...]string{e.Type, e.Source, e.SourceType, e.StreamType, e.StreamID, e.Subject, e.CorrelationID, e.CausationID, e.CausedBy} {
			texts[j][i] = text
		}
		tags[i], contents[i] = tagBytes(e.Tags), blob(e.Content)
		for _, t := range e.Tags {
			tag, tagged = append(tag, []byte(t.Key())), append(tagged, int64(e.Number))
		}
	}
	args := []any{numbers, occurred, generations, sizes}
	for _, list := range texts {
		args = append(args, list)
	}
	parts := []part{{&insertEvents, append(args, tags, contents, key)}}
	if len(tag) > 0 {
		parts = append(parts, part{&insertTags, []any{tag, tagged, key}})
	}
	return parts
}

// readEvent reads an event. A row without a number has the sequence's next number in
// its place.
func readEvent(scan scanner) (e eventlog.Recorded, next *uint64, err error) {
	var number, generation, occurred int64
	var tags []byte
	if err := scan(&number, &generation, &occurred, &e.Type, &e.Source, &e.SourceType, &e.StreamType, &e.StreamID,
		&e.Subject, &e.CorrelationID, &e.CausationID, &e.CausedBy, &tags, &e.Content); err != nil {
		return e, nil, err
	}
	if number < 0 {
		n := uint64(generation)
		return e, &n, nil
	}
	e.Number, e.Generation, e.Occurred = uint64(number), uint32(generation), time.UnixMicro(occurred).UTC()
	var ok bool
	if e.Tags, ok = tagsOf(tags); !ok {
		return e, nil, &store.UnusableError{Reason: fmt.Sprintf("the tags of event %d can't be read", number)}
	}
	return e, nil, nil
}

// pageOf is the query for a page of events, and the sequence's next number, in one
// snapshot.
func (t *statements) pageOf(s eventlog.Sequence, f eventlog.Filter, low, high int64, limit int, found *[]eventlog.Recorded, next *uint64) *statement {
	var l looks
	l.add(0, f, low, high)
	parts := append([]part{{&pagePart, names(s)}}, l.parts(&pageBy, int64(limit))...)
	return t.make(union, parts...).scans(func(scan scanner) error {
		e, n, err := readEvent(scan)
		switch {
		case err != nil:
			return err
		case n != nil:
			*next = *n
		default:
			*found = append(*found, e)
		}
		return nil
	})
}

// LoadEvents implements [store.EventPort].
func (p port) LoadEvents(ctx context.Context, req eventlog.ReadEvents) (eventlog.Page, error) {
	limit, err := eventlog.PageLimit(req.Limit)
	if err != nil {
		return eventlog.Page{}, err
	}
	high := int64(math.MaxInt64)
	if req.Before > 0 {
		high = int64(req.Before) - 1
	}
	var found []eventlog.Recorded
	var next uint64
	if err := p.read(ctx, p.t.pageOf(req.Sequence, req.Filter, int64(req.From), high, limit+1, &found, &next)); err != nil {
		return eventlog.Page{}, err
	}
	slices.SortFunc(found, compareNumbers) // a union promises no order of its rows
	return eventlog.NewPage(req, found, next), nil
}

func compareNumbers(a, b eventlog.Recorded) int { return cmp.Compare(a.Number, b.Number) }

// LoadTail implements [store.EventPort].
func (p port) LoadTail(ctx context.Context, req eventlog.ReadTail) (eventlog.Tail, error) {
	var l looks
	l.add(0, req.Filter, 0, math.MaxInt64)
	var tail eventlog.Tail
	parts := append([]part{{&tailPart, names(req.Sequence)}}, l.parts(&highestBy)...)
	err := p.read(ctx, p.t.make(union, parts...).rows(func(r *logRow) error {
		if r.kind == sequenceRow {
			tail.Next = uint64(r.b)
		} else {
			tail.Last, tail.Found = max(tail.Last, uint64(r.b)), true
		}
		return nil
	}))
	if err != nil {
		return eventlog.Tail{}, err
	}
	return tail, nil
}

// Append implements [store.EventPort].
func (p port) Append(ctx context.Context, a *store.Append) error { return p.append(ctx, a) }

// Index implements [store.EventPort].
func (p port) Index(ctx context.Context, x *store.Indexing) (more bool, err error) {
	err = p.carry(ctx, unknownOutcome(eventlog.OpIndex, x.Sequence), func(ctx context.Context, w *work) (err error) {
		more, err = x.Step(ctx, &indexStore{work: w, sequence: x.Sequence})
		return err
	})
	return more && err == nil, err
}

// indexStore is the [store.IndexStore] of a sequence, in a transaction.
type indexStore struct {
	work     *work
	sequence eventlog.Sequence
	key      int64
}

func (i *indexStore) ReadIndexState(ctx context.Context) (state eventlog.IndexState, constraints uint64, ok bool, err error) {
	lock := i.work.t.one(&lockSequence, names(i.sequence)...).rows(func(r *logRow) error {
		i.key, state = r.a, r.indexState()
		ok = state.Next != 0
		return nil
	})
	registered := i.work.t.one(&eventStorePart, i.sequence.Namespace.EventStore).rows(func(r *logRow) error {
		constraints = uint64(r.c)
		return nil
	})
	err = i.work.run(ctx, lock, registered)
	return state, constraints, ok, err
}

func (i *indexStore) WriteIndexState(_ context.Context, state eventlog.IndexState) error {
	i.work.write(i.work.t.one(&moveSequence, append(append([]any{i.key}, names(i.sequence)...),
		int64(state.Next), int64(state.Indexed), int64(state.Building), int64(state.Through))...))
	return nil
}

func (i *indexStore) DeleteClaims(ctx context.Context, limit int) (n int, err error) {
	i.work.writes = true
	err = i.work.run(ctx, i.work.t.one(&deleteSomeClaims, i.key, int64(limit)).rows(func(r *logRow) error {
		n = int(r.a)
		return nil
	}))
	return n, err
}

func (i *indexStore) ReadIndexEvents(ctx context.Context, from uint64, limit int) ([]eventlog.Recorded, error) {
	if from > math.MaxInt64 {
		return nil, nil
	}
	var found []eventlog.Recorded
	var next uint64
	err := i.work.run(ctx, i.work.t.pageOf(i.sequence, eventlog.Filter{}, int64(from), math.MaxInt64, limit, &found, &next))
	slices.SortFunc(found, compareNumbers)
	return found, err
}

func (i *indexStore) ReadClaims(ctx context.Context, t eventlog.Touch, s *eventlog.Slice) error {
	parts := claimParts(t)
	if len(parts) == 0 {
		return nil
	}
	return i.work.run(ctx, i.work.t.make(union, append([]part{{&tailPart, names(i.sequence)}}, parts...)...).rows(func(r *logRow) error {
		if r.kind != claimRow {
			return nil
		}
		return addClaim(s, r)
	}))
}

func (i *indexStore) WriteClaims(_ context.Context, freed []eventlog.ClaimOwner, made []eventlog.Claim) error {
	if len(freed) > 0 {
		i.work.write(freeClaims(i.work.t, i.key, freed))
	}
	if len(made) > 0 {
		i.work.write(i.work.t.make(alone, claimsPart(i.key, made)))
	}
	return nil
}

// Drop implements [store.EventPort].
func (p port) Drop(ctx context.Context, ns countersign.Namespace) (eventlog.Dropped, error) {
	var dropped eventlog.Dropped
	unknown := unknownOutcome(eventlog.OpDropNamespace, eventlog.Sequence{Namespace: ns})
	err := p.carry(ctx, unknown, func(ctx context.Context, w *work) error {
		none := func(*logRow) error { return nil }
		if err := w.run(ctx, w.t.one(&lockNamespaceToDrop, namespaceLock(w.t.schema, ns)),
			w.t.one(&lockSequencesToDrop, ns.EventStore, ns.Name).rows(none), w.t.one(&lockObserversToDrop, ns.EventStore, ns.Name).rows(none)); err != nil {
			return err
		}
		w.unbound() // there may be much of it
		w.writes = true
		return w.run(ctx, w.t.one(&dropNamespace, ns.EventStore, ns.Name).rows(func(r *logRow) error {
			dropped = eventlog.Dropped{Sequences: r.a, Events: r.b, Receipts: r.c, Observers: r.d}
			return nil
		}))
	})
	if err != nil {
		return eventlog.Dropped{}, err
	}
	return dropped, nil
}
