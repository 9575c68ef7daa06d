package mongo

import (
	"context"
	"errors"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/internal/group"
)

// write carries a request out in a transaction of its own: first on the slice
// that it assumes, if it assumes one, and where that is not what the server has,
// on the slice as it is read.
//
// A verdict that writes nothing, a duplicate or a refusal, is given after a
// transaction too: it was true in the snapshot that its records were read from,
// and the commit proves that a majority has that snapshot. It need not lock the
// owner, since what it rests on is never changed (a completed inbox id, an
// identity's first content), or was true in the course of the call (a position, a
// fence). Whatever writes does lock the owner, by writing the head.
func (s *Store) write(ctx context.Context, r *group.Request, assumed func() durable.Slice) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if ctx.Value(inBody{s}) != nil {
		return store.ErrNestedTransaction
	}
	giveBack, err := s.turns.take(ctx, r.Touch.Owner, s.options.BusyTimeout)
	if err != nil {
		return err
	}
	defer giveBack()
	if assumed != nil {
		err := s.run(ctx, writingOptions(), func(ctx context.Context) error {
			slice := assumed()
			before := slice.Head
			if r.Decide(&slice); !r.Writes() {
				return &unconfirmedError{} // let the records decide
			}
			return s.writePlan(ctx, before, r.Plan)
		})
		var unconfirmed *unconfirmedError
		if !errors.As(err, &unconfirmed) {
			return verdict(r, err)
		}
	}
	return verdict(r, s.run(ctx, TransactionOptions(), func(ctx context.Context) error {
		slice, err := s.readSlice(ctx, r.Touch, nil)
		if err != nil {
			return err
		}
		before := slice.Head
		if r.Decide(&slice); !r.Writes() {
			return nil
		}
		return contradiction(s.writePlan(ctx, before, r.Plan))
	}))
}

// verdict is what the caller learns: what the rule said, or what became of the
// transaction.
func verdict(r *group.Request, err error) error {
	var unknown *unknownCommit
	switch {
	case err == nil:
	case !errors.As(err, &unknown):
		r.Fail(err)
	case r.Writes():
		r.Unknown(unknown.err)
	default:
		r.Fail(&store.UnavailableError{Reason: "the records that it was decided on may not be those of a majority", Err: unknown.err})
	}
	return r.Err
}

// CreateOwner implements [durable.Store].
func (s *Store) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return group.CreateOwner(ctx, s.writeAsRead, req)
}

// LoadOwner implements [durable.Store].
func (s *Store) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	return s.load(ctx, s, req)
}

// CommitOwner implements [durable.Store].
func (s *Store) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return group.CommitOwner(ctx, func(ctx context.Context, r *group.Request) error {
		return s.write(ctx, r, func() durable.Slice { return assume(c) })
	}, nil, c)
}

// AdvanceFence implements [durable.Store].
func (s *Store) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return group.AdvanceFence(ctx, s.writeAsRead, req)
}

// RecordReceipt implements [durable.Store].
func (s *Store) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return group.RecordReceipt(ctx, s.writeAsRead, nil, req)
}

// writeAsRead is write for requests that say too little to assume anything.
func (s *Store) writeAsRead(ctx context.Context, r *group.Request) error {
	return s.write(ctx, r, nil)
}

// ReadHistory implements [durable.Store].
func (s *Store) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	return s.readHistory(ctx, s, req)
}

// ReadPending implements [durable.Store].
func (s *Store) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	return s.readPending(ctx, s, req)
}
