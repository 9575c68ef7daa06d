package store

import (
	"context"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

type (
	// Store is the durable owner's interface.
	Store = durable.Store
	// EventStore is the event log's interface.
	EventStore = eventlog.Store
	// ObserverStore is the observers' interface.
	ObserverStore = eventlog.Observers
	// ReceiptStore is the effect receipts' interface.
	ReceiptStore = receipt.Store
)

// Backend is all narrow interfaces together. An adapter that lacks some gives an
// [*UnsupportedError] at their calls: see [Events].
type Backend interface {
	Store
	EventStore
	ObserverStore
	ReceiptStore
}

// Transactor is a backend that can run a body in one transaction of its own.
type Transactor interface {
	// Atomically runs body in one transaction and commits it if body returns
	// nil. The body may run again, from the beginning, after a failure that
	// wrote nothing. Its error, or a panic, rolls everything back; the error is
	// returned as it is, so it may match none of the four kinds. Assign results
	// inside, and ask them after it has returned. What the body does besides must be
	// safe to do again.
	//
	// Results inside are provisional: they become settled when Atomically
	// returns nil. A refusal inside leaves the transaction usable. The tx must
	// not be used after body returned; then it gives [ErrTxDone]. A call on the
	// backend itself with the body's context is refused with
	// [ErrNestedTransaction] where it would wait for its own transaction.
	//
	// An unknown result of COMMIT is a [*durable.UnknownOutcomeError].
	Atomically(ctx context.Context, body func(ctx context.Context, tx Backend) error) error
}

// Atomically runs body in one transaction of b, as [Transactor] says. A backend
// without transactions gives an [*UnsupportedError].
func Atomically(ctx context.Context, b Backend, body func(ctx context.Context, tx Backend) error) error {
	t, ok := b.(Transactor)
	if !ok {
		return &UnsupportedError{Capability: "Atomically (a transaction's own tx can't begin another one)"}
	}
	if body == nil {
		return &countersign.MalformedError{Field: "body", Reason: "is nil"}
	}
	return t.Atomically(ctx, body)
}

// Capabilities says which interfaces a backend implements.
type Capabilities struct {
	Owners       bool // [durable.Store]
	Transactions bool // [Transactor]
	Events       bool // [eventlog.Store]
	Observers    bool // [eventlog.Observers]
	Receipts     bool // [receipt.Store]
}

// CapabilitiesOf returns the interfaces that b implements.
func CapabilitiesOf(b any) Capabilities {
	_, owners := b.(durable.Store)
	if _, none := b.(interface{ noOwners() }); none {
		owners = false
	}
	_, transactions := b.(Transactor)
	c := Capabilities{Owners: owners, Transactions: transactions}
	if e, ok := b.(interface{ supported() bool }); !ok || e.supported() {
		_, c.Events = b.(eventlog.Store)
		_, c.Observers = b.(eventlog.Observers)
		_, c.Receipts = b.(receipt.Store)
	}
	return c
}

// CheckContext is the first thing an adapter asks after the request's own Check:
// a nil context is a [*countersign.MalformedError], one that has ended a
// [*NotTakenError].
func CheckContext(ctx context.Context) error {
	if ctx == nil {
		return &countersign.MalformedError{Field: "context", Reason: "is nil"}
	}
	if err := ctx.Err(); err != nil {
		return &NotTakenError{Err: countersign.ContextError(ctx)}
	}
	return nil
}
