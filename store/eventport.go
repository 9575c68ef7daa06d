package store

import (
	"context"
	"fmt"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// An EventPort is what an adapter implements of the event log, the receipts and the
// observers: it reads and writes rows, and asks the rules in between. [NewEvents]
// makes the users' interfaces of it, for a store and, bound to it, for each of its
// transactions.
//
// Every request that reaches a port is well formed, and its sequence is named; a
// limit may be 0: ask [eventlog.PageLimit]. A port asks [CheckContext], then whether
// the handle is closed ([ErrClosed]), or in a transaction has ended ([ErrTxDone]),
// and gives the errors that the package's page tells about. Except for Append, an
// unknown outcome is an [*eventlog.UnknownOutcomeError] with the operation; of a
// transaction it is the transaction's. A store's port needs the Events for Wake:
// make the port, then the Events, then tell the port.
type EventPort interface {
	// LoadDefinitions reads the definitions of an event store from one snapshot,
	// ordered as [eventlog.CompareDefinitions] does. Nothing is there at first: the
	// zero Definitions.
	LoadDefinitions(ctx context.Context, eventStore string) (eventlog.Definitions, error)

	// Define locks the event store's definitions, reads them, calls rule, and writes
	// its plan, in one transaction. The rule may be called again, with others.
	Define(ctx context.Context, op, eventStore string, rule func(eventlog.Definitions) (eventlog.DefinitionPlan, error)) error

	// Append carries an append out, alone or with others:
	//
	//	for _, g := range NewAppendGroups(a) {
	//		// lock the sequence's row and read what g.Touch names into a slice (nil if
	//		// g.Touch is), and what g.Keys name into found
	//		g.Decide(found, slice, now)
	//		// if g.Changes().Writes(), write them; insert g.Receipts()
	//	}
	//	// commit, unless nothing was written
	//
	// It returns a.Err(). If nothing was decided, it calls a.Fail with the error of the
	// package's page before; after a commit whose outcome is not known, a.Unknown. What
	// it keeps shares no memory with the request: Recorded.Clone, Receipt.Clone. After
	// the commit it calls [Events.Wake] for a.Sequence(). It locks the
	// sequence's row until the end of the transaction, so that numbers become visible
	// in their order. Two transactions that would insert one receipt must not both
	// succeed: the second one begins again and finds the first one's receipt. If it
	// finds none, it is a [*receipt.UnsettledError].
	Append(ctx context.Context, a *Append) error

	// Index takes one step of building a sequence's constraint index, in one
	// transaction: see [Indexing.Step]. It reports whether there is more to do.
	Index(ctx context.Context, x *Indexing) (more bool, err error)

	// LoadEvents reads a page from one snapshot: see [eventlog.NewPage]. Of a sequence
	// that is not there it is NewPage(req, nil, 0), and its tail the zero Tail.
	LoadEvents(ctx context.Context, req eventlog.ReadEvents) (eventlog.Page, error)
	// LoadTail reads the tail from one snapshot.
	LoadTail(ctx context.Context, req eventlog.ReadTail) (eventlog.Tail, error)

	// Drop is [eventlog.Store.DropNamespace]. The settlement is filled in by Events.
	Drop(ctx context.Context, ns countersign.Namespace) (eventlog.Dropped, error)

	// FindReceipts returns the receipts of occurrences, or with an effect only those
	// of that effect, ordered by occurrence and effect in byte order.
	FindReceipts(ctx context.Context, req receipt.ListReceipts, effect string) ([]receipt.Receipt, error)

	// Observe locks an observer's row, reads it and the partitions of the sources,
	// calls rule, and writes its plan, in one transaction. The rule may be called
	// again.
	Observe(ctx context.Context, op string, key eventlog.ObserverKey, sources []string, rule func(eventlog.ObserverSlice) (eventlog.ObserverPlan, error)) error
	// LoadObserver reads an observer's row, with the store's time, or returns nil.
	LoadObserver(ctx context.Context, key eventlog.ObserverKey) (*eventlog.ObserverState, error)
	// LoadPartitions reads partitions ordered by source in byte order. Due are those
	// that are not quarantined and whose RetryAt is not after the store's time. Of an
	// observer that is not there: none.
	LoadPartitions(ctx context.Context, req eventlog.ReadPartitions) ([]eventlog.Partition, error)

	// Watch is called while somebody waits for events. The adapter may begin to listen
	// for those of other processes (and calls [Events.Wake] for them). It returns how
	// often to look in any case. In a transaction it is [ErrNestedTransaction].
	Watch(ctx context.Context) (time.Duration, error)

	// Settlement is that of the results: nil, or a transaction's.
	Settlement() *countersign.Settlement
}

// An Indexing builds a sequence's constraint index for the constraints in force.
type Indexing struct {
	Sequence eventlog.Sequence
	catalog  *eventlog.Catalog
	stale    bool // the catalogue is not that of the definitions in force

	begun  *eventlog.IndexState // the row that this step is to change, as it was
	before *eventlog.IndexState // and that of the last step, which was committed
}

// An IndexStore is what a step of an [Indexing] needs of the transaction.
type IndexStore interface {
	// ReadIndexState locks and reads the sequence's row, and reads the
	// Definitions.Constraints of its event store. It is false if there is no such
	// sequence.
	ReadIndexState(ctx context.Context) (state eventlog.IndexState, constraints uint64, ok bool, err error)
	// WriteIndexState keeps all fields.
	WriteIndexState(ctx context.Context, state eventlog.IndexState) error
	// DeleteClaims deletes claims of the sequence, whichever, at most so many, and
	// returns how many it has deleted. Fewer than the limit means that none are left.
	DeleteClaims(ctx context.Context, limit int) (int, error)
	// ReadIndexEvents reads events from a number on, at most so many. Only what a
	// constraint looks at must be filled in: Number, Type, Generation, Source,
	// SourceType, StreamType, StreamID, Content.
	ReadIndexEvents(ctx context.Context, from uint64, limit int) ([]eventlog.Recorded, error)
	// ReadClaims adds to s the sequence's claims that t.Owners or t.Values name, also
	// those of earlier steps.
	ReadClaims(ctx context.Context, t eventlog.Touch, s *eventlog.Slice) error
	// WriteClaims deletes the freed claims, and then inserts the others.
	WriteClaims(ctx context.Context, freed []eventlog.ClaimOwner, made []eventlog.Claim) error
}

// Step carries out one step inside a transaction, and reports whether there is more
// to do. A port begins a transaction, calls Step with an IndexStore on it, and
// commits if the error is nil.
func (x *Indexing) Step(ctx context.Context, s IndexStore) (more bool, err error) {
	state, constraints, ok, err := s.ReadIndexState(ctx)
	if err != nil || !ok {
		return false, err
	}
	if x.stale = constraints != x.catalog.Constraints; x.stale {
		return false, nil
	}
	if x.before != nil && *x.before == state {
		return false, &UnusableError{Reason: fmt.Sprintf("the constraint index does not advance: the sequence's row is still %+v after a step", state)}
	}
	x.begun = nil
	step := eventlog.NextReindexStep(state, constraints)
	switch {
	case step.Done:
		return false, nil
	case step.Clears:
		n, err := s.DeleteClaims(ctx, eventlog.ReindexPage)
		if err != nil {
			return false, err
		}
		if n < eventlog.ReindexPage {
			begun := state
			x.begun = &begun
		}
		return true, s.WriteIndexState(ctx, state.Cleared(constraints, n))
	}
	events, err := s.ReadIndexEvents(ctx, state.Through, x.catalog.IndexPage())
	if err != nil {
		return false, err
	}
	slice := &eventlog.Slice{Exists: true}
	if err := s.ReadClaims(ctx, x.catalog.IndexTouch(x.Sequence, events), slice); err != nil {
		return false, err
	}
	begun := state
	x.begun = &begun
	state = x.catalog.Index(slice, state, events)
	changes := slice.Changes()
	if err := s.WriteClaims(ctx, changes.Freed, changes.Claims); err != nil {
		return false, err
	}
	return state.Indexed != constraints, s.WriteIndexState(ctx, state)
}
