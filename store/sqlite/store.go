package sqlite

import (
	"context"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
)

// write queues the request for the next group and waits for its verdict.
func (s *Store) write(ctx context.Context, r *group.Request) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	return s.owners.do(ctx, r)
}

// writable is what every call asks first that writes.
func (s *Store) writable(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.readOnly {
		return &store.ReadOnlyError{}
	}
	if ctx.Value(inBody{s}) != nil {
		return store.ErrNestedTransaction
	}
	return nil
}

// ownerGroup decides and writes a group of requests to owners in the open
// transaction.
func (s *Store) ownerGroup(ctx context.Context, sess session, requests []*group.Request) error {
	b := newBatch(sess, s.stmts)
	if err := b.decide(ctx, requests); err != nil {
		return err
	}
	return b.write(ctx, requests)
}

func (s *Store) texts() *statements { return s.stmts }

// CreateOwner implements [durable.Store].
func (s *Store) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return group.CreateOwner(ctx, s.write, req)
}

// LoadOwner implements [durable.Store].
func (s *Store) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return load(ctx, s, req)
}

// CommitOwner implements [durable.Store].
func (s *Store) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return group.CommitOwner(ctx, s.write, nil, c)
}

// AdvanceFence implements [durable.Store].
func (s *Store) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return group.AdvanceFence(ctx, s.write, req)
}

// RecordReceipt implements [durable.Store].
func (s *Store) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return group.RecordReceipt(ctx, s.write, nil, req)
}

// ReadHistory implements [durable.Store].
func (s *Store) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return readHistory(ctx, s, req)
}

// ReadPending implements [durable.Store].
func (s *Store) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return readPending(ctx, s, req)
}
