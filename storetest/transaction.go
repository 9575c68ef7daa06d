package storetest

import (
	"context"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// throughTransactions returns a harness of the same store whose handles carry
// each request out in a transaction of its own, through Atomically. Whoever
// holds such a handle must not be able to tell the difference.
func throughTransactions(h Harness) Harness {
	wrapped := h
	wrapped.New = func(t T) Opener {
		open := h.New(t)
		return func(ctx context.Context, o OpenOptions) (Backend, error) {
			b, err := open(ctx, o)
			if err != nil {
				return nil, err
			}
			return &transacting{backend: b}, nil
		}
	}
	if h.Plant != nil {
		wrapped.Plant = func(ctx context.Context, b Backend, img durable.Image) error {
			return h.Plant(ctx, b.(*transacting).backend, img)
		}
	}
	if h.Kill != nil {
		wrapped.Kill = func(ctx context.Context, b Backend) error { return h.Kill(ctx, b.(*transacting).backend) }
	}
	return wrapped
}

// transacting is a handle that carries each request out through Atomically.
type transacting struct{ backend Backend }

var (
	_ Backend          = (*transacting)(nil)
	_ durable.Store    = (*transacting)(nil)
	_ store.Transactor = (*transacting)(nil)
)

// through runs one request in a transaction of its own.
func through[V any](ctx context.Context, b *transacting, request func(context.Context, store.Backend) (V, error)) (V, error) {
	var value V
	err := b.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
		var err error
		value, err = request(ctx, tx)
		return err
	})
	if err != nil {
		var none V
		return none, err
	}
	return value, nil
}

func (b *transacting) Close() error { return b.backend.Close() }

func (b *transacting) Atomically(ctx context.Context, body func(context.Context, store.Backend) error) error {
	return b.backend.(store.Transactor).Atomically(ctx, body)
}

func (b *transacting) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (durable.Head, error) { return tx.CreateOwner(ctx, req) })
}

func (b *transacting) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (durable.Image, error) { return tx.LoadOwner(ctx, req) })
}

func (b *transacting) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (durable.Committed, error) { return tx.CommitOwner(ctx, c) })
}

func (b *transacting) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (durable.Head, error) { return tx.AdvanceFence(ctx, req) })
}

func (b *transacting) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) (durable.ReceiptRecorded, error) {
		return tx.RecordReceipt(ctx, req)
	})
}

func (b *transacting) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) ([]durable.Record, error) { return tx.ReadHistory(ctx, req) })
}

func (b *transacting) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return through(ctx, b, func(ctx context.Context, tx store.Backend) ([]durable.Effect, error) { return tx.ReadPending(ctx, req) })
}
