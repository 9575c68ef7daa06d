package mongo

import (
	"context"
	"errors"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
)

// A port is the [store.EventPort] of a store or, with tx, of a transaction.
type port struct {
	s  *Store
	tx *Tx
}

var _ store.EventPort = port{}

// Settlement implements [store.EventPort].
func (p port) Settlement() *countersign.Settlement {
	if p.tx == nil {
		return nil
	}
	return p.tx.settled
}

// read calls f for queries each of which is of one state: in a transaction all of
// them are of the same. It may call f again from the beginning.
func (p port) read(ctx context.Context, f func(context.Context) error) error {
	if p.tx != nil {
		return p.tx.read(ctx, f)
	}
	return p.s.read(ctx, f)
}

// write calls f in a transaction: f reads, decides and writes. A verdict of the rules
// that f keeps to itself leaves the transaction usable, and is proved by its commit
// like everything else. In a transaction of its own, requests of this process with
// the same turn don't hinder each other. The unknown outcome is that of its commit.
func (p port) write(ctx context.Context, turn string, unknown func(error) error, f func(context.Context) error) error {
	if p.tx != nil {
		return p.tx.within(ctx, f)
	}
	s := p.s
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if ctx.Value(inBody{s}) != nil {
		return store.ErrNestedTransaction
	}
	giveBack, err := s.turns.take(ctx, turn, s.options.BusyTimeout)
	if err != nil {
		return err
	}
	defer giveBack()
	err = s.run(ctx, TransactionOptions(), f)
	var lost *unknownCommit
	if errors.As(err, &lost) {
		return unknown(lost.err)
	}
	return err
}

// unknownOutcome is the error of an operation that can be repeated as it is.
func unknownOutcome(op string, s eventlog.Sequence) func(error) error {
	return func(err error) error { return &eventlog.UnknownOutcomeError{Op: op, Sequence: s, Err: err} }
}

// locks reports whether also what writes nothing locks what it was decided on: a
// caller's transaction goes on, and writes what rests on it.
func (p port) locks() bool { return p.tx != nil }
