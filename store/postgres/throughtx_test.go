package postgres_test

import (
	"context"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store/postgres"
)

// The event log, the receipts and the observers of a txStore.

func (s *txStore) RegisterEventTypes(ctx context.Context, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.Registered, error) { return tx.RegisterEventTypes(ctx, req) })
}

func (s *txStore) RegisterConstraints(ctx context.Context, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.Registered, error) { return tx.RegisterConstraints(ctx, req) })
}

func (s *txStore) ReadDefinitions(ctx context.Context, eventStore string) (eventlog.Definitions, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.Definitions, error) { return tx.ReadDefinitions(ctx, eventStore) })
}

func (s *txStore) AppendEvents(ctx context.Context, req eventlog.AppendEvents) (eventlog.Appended, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.Appended, error) { return tx.AppendEvents(ctx, req) })
}

func (s *txStore) ReadEvents(ctx context.Context, req eventlog.ReadEvents) (eventlog.Page, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.Page, error) { return tx.ReadEvents(ctx, req) })
}

func (s *txStore) ReadTail(ctx context.Context, req eventlog.ReadTail) (eventlog.Tail, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.Tail, error) { return tx.ReadTail(ctx, req) })
}

// AwaitEvents is the store's: in a transaction nobody waits.
func (s *txStore) AwaitEvents(ctx context.Context, req eventlog.AwaitEvents) error {
	return s.store.AwaitEvents(ctx, req)
}

func (s *txStore) DropNamespace(ctx context.Context, ns countersign.Namespace) (eventlog.Dropped, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.Dropped, error) { return tx.DropNamespace(ctx, ns) })
}

func (s *txStore) AppendWithReceipt(ctx context.Context, req receipt.AppendWithReceipt) (receipt.Result, error) {
	return through(s, func(tx *postgres.Tx) (receipt.Result, error) { return tx.AppendWithReceipt(ctx, req) })
}

func (s *txStore) RecordEffect(ctx context.Context, req receipt.RecordEffect) (receipt.Result, error) {
	return through(s, func(tx *postgres.Tx) (receipt.Result, error) { return tx.RecordEffect(ctx, req) })
}

func (s *txStore) ReadReceipt(ctx context.Context, key receipt.Key) (receipt.Result, error) {
	return through(s, func(tx *postgres.Tx) (receipt.Result, error) { return tx.ReadReceipt(ctx, key) })
}

func (s *txStore) ListReceipts(ctx context.Context, req receipt.ListReceipts) ([]receipt.Receipt, error) {
	return through(s, func(tx *postgres.Tx) ([]receipt.Receipt, error) { return tx.ListReceipts(ctx, req) })
}

func (s *txStore) ClaimObserver(ctx context.Context, req eventlog.ClaimObserver) (eventlog.ObserverState, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.ObserverState, error) { return tx.ClaimObserver(ctx, req) })
}

func (s *txStore) SaveObserver(ctx context.Context, req eventlog.SaveObserver) (eventlog.ObserverState, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.ObserverState, error) { return tx.SaveObserver(ctx, req) })
}

func (s *txStore) RetryPartition(ctx context.Context, req eventlog.RetryPartition) (eventlog.Partition, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.Partition, error) { return tx.RetryPartition(ctx, req) })
}

func (s *txStore) ReplayObserver(ctx context.Context, req eventlog.ReplayObserver) (eventlog.ObserverState, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.ObserverState, error) { return tx.ReplayObserver(ctx, req) })
}

func (s *txStore) ReadObserver(ctx context.Context, key eventlog.ObserverKey) (eventlog.ObserverState, error) {
	return through(s, func(tx *postgres.Tx) (eventlog.ObserverState, error) { return tx.ReadObserver(ctx, key) })
}

func (s *txStore) ReadPartitions(ctx context.Context, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
	return through(s, func(tx *postgres.Tx) ([]eventlog.Partition, error) { return tx.ReadPartitions(ctx, req) })
}
