package eventlog

import (
	"context"

	"github.com/countersign/countersign"
)

// Store is the event log as a backend offers it: definitions of an event store,
// and sequences of its namespaces. An adapter gets it from
// [github.com/countersign/countersign/store.Events].
//
// All methods are safe for concurrent use. Nothing that goes in or comes out
// shares memory with the store. Malformed input ([countersign.ErrMalformed]) is
// refused before anything is read. A context that ends before the request is taken
// leaves no trace and gives an error that matches both the context's error and
// [countersign.ErrRetryable]; one that ends later may give an
// [*UnknownOutcomeError], never a wrong result.
type Store interface {
	// RegisterEventTypes registers event types, all or none. The same schema again
	// changes nothing; another schema for a registered generation is a
	// [*SchemaChangedError]; what is no usable schema a [*SchemaError]. Registrations
	// at the same time are carried out one after another.
	RegisterEventTypes(ctx context.Context, req RegisterEventTypes) (Registered, error)

	// RegisterConstraints adds, replaces and removes constraints, all or none.
	RegisterConstraints(ctx context.Context, req RegisterConstraints) (Registered, error)

	// ReadDefinitions returns what is registered in an event store, ordered by kind,
	// name and generation; removed constraints have an empty body.
	ReadDefinitions(ctx context.Context, eventStore string) (Definitions, error)

	// AppendEvents appends a batch, as [Decide] says: a [*ViolationsError], a
	// [*ScopesViolatedError] or a [*SequenceOverflowError] means that nothing was
	// written.
	//
	// Numbers begin at 0, have no gaps, and become visible in order: a reader that
	// has seen a number never finds a lower one later that it has not seen.
	AppendEvents(ctx context.Context, req AppendEvents) (Appended, error)

	// ReadEvents returns a page of events in the order of their numbers. A sequence
	// without events is an empty page.
	ReadEvents(ctx context.Context, req ReadEvents) (Page, error)

	// ReadTail returns the end of a sequence.
	ReadTail(ctx context.Context, req ReadTail) (Tail, error)

	// AwaitEvents returns nil once the sequence has an event under the number From or
	// above. It is woken by appends where the backend can tell of them, and looks
	// from time to time in any case. When ctx ends it returns an error that matches
	// the context's.
	AwaitEvents(ctx context.Context, req AwaitEvents) error

	// DropNamespace drops everything of a namespace: its sequences, receipts and
	// observers. From the first step on nothing of it is seen any more. It is one
	// transaction, or where a backend needs several, a repetition goes on after
	// what was interrupted. It says what it has deleted itself.
	DropNamespace(ctx context.Context, ns countersign.Namespace) (Dropped, error)
}

// Dropped says what a [Store.DropNamespace] has deleted.
type Dropped struct {
	Sequences int64
	Events    int64
	Receipts  int64
	Observers int64
	// Settlement is that of the transaction that it was part of.
	Settlement *countersign.Settlement
}
