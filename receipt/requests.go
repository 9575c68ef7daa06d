package receipt

import (
	"context"
	"errors"

	"github.com/countersign/countersign"
)

var errNoStore = &countersign.MalformedError{Field: "store", Reason: "is nil"}

// Append appends events with a receipt: see [Store.AppendWithReceipt].
func Append(ctx context.Context, s Store, req AppendWithReceipt) (Result, error) {
	if s == nil {
		return Result{}, errNoStore
	}
	return s.AppendWithReceipt(ctx, req)
}

// Record records an effect that appended nothing: see [Store.RecordEffect].
func Record(ctx context.Context, s Store, req RecordEffect) (Result, error) {
	if s == nil {
		return Result{}, errNoStore
	}
	return s.RecordEffect(ctx, req)
}

// Get returns the receipt under a key, and false if there is none.
func Get(ctx context.Context, s Store, key Key) (Receipt, bool, error) {
	found, there, err := look(ctx, s, key)
	return found.Receipt, there, err
}

func look(ctx context.Context, s Store, key Key) (Result, bool, error) {
	if s == nil {
		return Result{}, false, errNoStore
	}
	found, err := s.ReadReceipt(ctx, key)
	if _, none := errors.AsType[*UnknownReceiptError](err); none {
		return Result{}, false, nil
	}
	return found, err == nil, err
}

// List returns all receipts of many occurrences of a namespace, in one look-up: see
// [Store.ListReceipts].
func List(ctx context.Context, s Store, ns countersign.Namespace, occurrences ...string) ([]Receipt, error) {
	if s == nil {
		return nil, errNoStore
	}
	return s.ListReceipts(ctx, ListReceipts{Namespace: ns, Occurrences: occurrences})
}
