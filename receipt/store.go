package receipt

import (
	"context"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
)

// Store keeps receipts. An adapter gets it from
// [github.com/countersign/countersign/store.Events].
//
// All methods are safe for concurrent use, share no memory with the caller, and
// treat contexts as [eventlog.Store] says.
type Store interface {
	// AppendWithReceipt appends events and records the receipt in one transaction,
	// as [Decide] says. If the effect has a receipt, it is returned with
	// AlreadyRecorded, and nothing is written, even if the request is malformed but
	// for its key; whoever waits for the events of that receipt is woken, and the
	// sequence's constraint index is completed. A refusal writes no receipt.
	//
	// After an [*UnknownOutcomeError] it is repeated as it is. An [*UnsettledError]
	// is retryable and no refusal.
	AppendWithReceipt(ctx context.Context, req AppendWithReceipt) (Result, error)

	// RecordEffect records NoEvents or Refused without scopes. If the effect has a
	// receipt, of whatever sequence, it is returned with AlreadyRecorded, even if the
	// request is malformed but for its key.
	RecordEffect(ctx context.Context, req RecordEffect) (Result, error)

	// ReadReceipt returns the receipt under a key, as AlreadyRecorded, or an
	// [*UnknownReceiptError].
	ReadReceipt(ctx context.Context, key Key) (Result, error)

	// ListReceipts returns all receipts of many occurrences in one look-up, ordered
	// by occurrence and then by effect, in byte order.
	ListReceipts(ctx context.Context, req ListReceipts) ([]Receipt, error)
}

// AppendWithReceipt is the request of [Store.AppendWithReceipt]. The receipt belongs
// to the namespace of the sequence. Without events the outcome is NoEvents, after
// the scopes have been judged.
type AppendWithReceipt struct {
	eventlog.AppendEvents
	Occurrence string
	Effect     string
	Epoch      uint64
	Response   []byte // optional: one JSON value, at most MaxResponseBytes
}

// Key is the receipt's identity.
func (r AppendWithReceipt) Key() Key {
	return Key{Namespace: r.Sequence.Namespace, Occurrence: r.Occurrence, Effect: r.Effect}
}

// Check reports the first rule of form that the request breaks, its key first. Only
// a broken key keeps a store from looking the receipt up.
func (r AppendWithReceipt) Check() error {
	if err := r.Key().Check(); err != nil {
		return err
	}
	if err := countersign.CheckInteger("epoch", r.Epoch); err != nil {
		return err
	}
	if err := checkResponse(r.Response); err != nil {
		return err
	}
	return r.AppendEvents.Check()
}

// RecordEffect is the request of [Store.RecordEffect].
type RecordEffect struct {
	Effect
	// Reasons make it a refusal. Without any the outcome is NoEvents.
	Reasons  []string
	Response []byte // optional: one JSON value, at most MaxResponseBytes
}

// Check reports the first rule that the request breaks, its key first.
func (r RecordEffect) Check() error {
	if err := r.Key.Check(); err != nil {
		return err
	}
	if err := countersign.CheckInteger("epoch", r.Epoch); err != nil {
		return err
	}
	if r.Reasons != nil {
		if err := checkReasons(r.Reasons); err != nil {
			return err
		}
	}
	return checkResponse(r.Response)
}

// ListReceipts is the request of [Store.ListReceipts].
type ListReceipts struct {
	Namespace   countersign.Namespace
	Occurrences []string // at most MaxOccurrences; none is an empty list
}

// Check reports the first rule that the request breaks.
func (r ListReceipts) Check() error {
	if err := r.Namespace.Check(); err != nil {
		return err
	}
	if n := len(r.Occurrences); n > MaxOccurrences {
		return &countersign.LimitError{Field: "occurrences", Unit: "items", Limit: MaxOccurrences, Actual: int64(n)}
	}
	for _, id := range r.Occurrences {
		if err := countersign.CheckIdentity("occurrence", id); err != nil {
			return err
		}
	}
	return nil
}

// A Result is a receipt: this request's, or with AlreadyRecorded the one that was
// there.
type Result struct {
	Receipt         Receipt
	AlreadyRecorded bool
	// Settlement is that of the transaction that the request was part of: nil when
	// it is durable.
	Settlement *countersign.Settlement
}

// AckSafe reports whether the receipt is known to be durable. Inside a transaction
// it is false until that has committed.
func (r Result) AckSafe() bool { return r.Settlement.Settled() }
