package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
)

// inBody marks the context of a transaction's body on a store.
type inBody struct{ store *Store }

// enterWriting is enter for calls that write.
func (s *Store) enterWriting(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if ctx.Value(inBody{s}) != nil {
		s.leave()
		return store.ErrNestedTransaction
	}
	return nil
}

// write queues the request for the next group and waits for its verdict.
func (s *Store) write(ctx context.Context, r *group.Request) error {
	if err := s.enterWriting(ctx); err != nil {
		return err
	}
	defer s.leave()
	err := s.queue.Do(ctx, r, s.options.BusyTimeout, s.flush)
	if errors.Is(err, errApart) {
		return s.apart(ctx, r, nil)
	}
	return err
}

// read runs a query on any connection. A connection that was lost while nobody
// used it shows only now, so the query is sent again on others.
func (s *Store) read(ctx context.Context, q *statement) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.repeat(ctx, func(started time.Time) error {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		run, cancel := s.bounded(ctx)
		defer cancel()
		return s.readError(ctx, pgxSession{conn}.run(run, q), started)
	})
}

// readError says what became of a statement that wrote nothing.
func (s *Store) readError(ctx context.Context, err error, started time.Time) error {
	if err != nil && ctx.Err() != nil && !verdict(err) {
		return &store.NotTakenError{Err: countersign.ContextError(ctx)}
	}
	return wrap(err, time.Since(started))
}

// CreateOwner implements [durable.Store].
func (s *Store) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	// Not in a group: it may have to wait for another process that creates the
	// same owner, and the group would wait with it.
	return group.CreateOwner(ctx, func(ctx context.Context, r *group.Request) error {
		if err := s.enterWriting(ctx); err != nil {
			return err
		}
		defer s.leave()
		return s.create(ctx, r, &req)
	}, req)
}

// LoadOwner implements [durable.Store].
func (s *Store) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return load(ctx, s.read, s.texts(), req)
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
	return readHistory(ctx, s.read, s.texts(), req)
}

// ReadPending implements [durable.Store].
func (s *Store) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return readPending(ctx, s.read, s.texts(), req)
}

// texts are the store's statements, also of a zero Store, which refuses to run
// them.
func (s *Store) texts() *statements {
	if s == nil || s.stmts == nil {
		return &statements{}
	}
	return s.stmts
}
