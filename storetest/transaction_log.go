package storetest

import (
	"context"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

var (
	_ eventlog.Store     = (*transacting)(nil)
	_ eventlog.Observers = (*transacting)(nil)
	_ receipt.Store      = (*transacting)(nil)
)

// AwaitEvents goes to the backend itself: nobody can wait inside a transaction for
// what others append.
func (b *transacting) AwaitEvents(ctx context.Context, req eventlog.AwaitEvents) error {
	return b.backend.(eventlog.Store).AwaitEvents(ctx, req)
}

func (b *transacting) RegisterEventTypes(ctx context.Context, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.Registered, error) {
		return tx.RegisterEventTypes(ctx, req)
	})
}

func (b *transacting) RegisterConstraints(ctx context.Context, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.Registered, error) {
		return tx.RegisterConstraints(ctx, req)
	})
}

func (b *transacting) ReadDefinitions(ctx context.Context, req string) (eventlog.Definitions, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.Definitions, error) {
		return tx.ReadDefinitions(ctx, req)
	})
}

func (b *transacting) AppendEvents(ctx context.Context, req eventlog.AppendEvents) (eventlog.Appended, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.Appended, error) {
		return tx.AppendEvents(ctx, req)
	})
}

func (b *transacting) ReadEvents(ctx context.Context, req eventlog.ReadEvents) (eventlog.Page, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.Page, error) { return tx.ReadEvents(ctx, req) })
}

func (b *transacting) ReadTail(ctx context.Context, req eventlog.ReadTail) (eventlog.Tail, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.Tail, error) { return tx.ReadTail(ctx, req) })
}

func (b *transacting) DropNamespace(ctx context.Context, req countersign.Namespace) (eventlog.Dropped, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.Dropped, error) {
		return tx.DropNamespace(ctx, req)
	})
}

func (b *transacting) ClaimObserver(ctx context.Context, req eventlog.ClaimObserver) (eventlog.ObserverState, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.ObserverState, error) {
		return tx.ClaimObserver(ctx, req)
	})
}

func (b *transacting) SaveObserver(ctx context.Context, req eventlog.SaveObserver) (eventlog.ObserverState, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.ObserverState, error) {
		return tx.SaveObserver(ctx, req)
	})
}

func (b *transacting) RetryPartition(ctx context.Context, req eventlog.RetryPartition) (eventlog.Partition, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.Partition, error) {
		return tx.RetryPartition(ctx, req)
	})
}

func (b *transacting) ReplayObserver(ctx context.Context, req eventlog.ReplayObserver) (eventlog.ObserverState, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.ObserverState, error) {
		return tx.ReplayObserver(ctx, req)
	})
}

func (b *transacting) ReadObserver(ctx context.Context, req eventlog.ObserverKey) (eventlog.ObserverState, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (eventlog.ObserverState, error) {
		return tx.ReadObserver(ctx, req)
	})
}

func (b *transacting) ReadPartitions(ctx context.Context, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) ([]eventlog.Partition, error) {
		return tx.ReadPartitions(ctx, req)
	})
}

func (b *transacting) AppendWithReceipt(ctx context.Context, req receipt.AppendWithReceipt) (receipt.Result, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (receipt.Result, error) {
		return tx.AppendWithReceipt(ctx, req)
	})
}

func (b *transacting) RecordEffect(ctx context.Context, req receipt.RecordEffect) (receipt.Result, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (receipt.Result, error) { return tx.RecordEffect(ctx, req) })
}

func (b *transacting) ReadReceipt(ctx context.Context, req receipt.Key) (receipt.Result, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (receipt.Result, error) { return tx.ReadReceipt(ctx, req) })
}

func (b *transacting) ListReceipts(ctx context.Context, req receipt.ListReceipts) ([]receipt.Receipt, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) ([]receipt.Receipt, error) {
		return tx.ListReceipts(ctx, req)
	})
}
