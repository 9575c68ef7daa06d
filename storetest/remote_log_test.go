package storetest

import (
	"context"
	"errors"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// AppendEvents is carried out by the server, like a commit.
func (c *client) AppendEvents(ctx context.Context, req eventlog.AppendEvents) (eventlog.Appended, error) {
	name := req.Events[0].Source
	res, err := remotely(ctx, c, eventlog.OpAppend, name, name, func(ctx context.Context, tx store.Backend) (eventlog.Appended, error) {
		return tx.AppendEvents(ctx, req)
	})
	if unknown, ok := errors.AsType[*durable.UnknownOutcomeError](err); ok {
		told := &eventlog.UnknownOutcomeError{Op: eventlog.OpAppend, Sequence: req.Sequence.Named(), Err: unknown}
		if c.fault.elsewhere {
			told.From = 1 << 40
		}
		return res, told
	}
	res.Settlement = nil
	return res, err
}

// AppendWithReceipt is carried out by the server, like a commit.
func (c *client) AppendWithReceipt(ctx context.Context, req receipt.AppendWithReceipt) (receipt.Result, error) {
	res, err := remotely(ctx, c, eventlog.OpAppend, req.Occurrence, req.Occurrence, func(ctx context.Context, tx store.Backend) (receipt.Result, error) {
		return tx.AppendWithReceipt(ctx, req)
	})
	if unknown, ok := errors.AsType[*durable.UnknownOutcomeError](err); ok {
		key := req.Key()
		key.Occurrence = unknown.Owner
		return res, &receipt.UnknownOutcomeError{Key: key, Err: unknown.Err}
	}
	res.Settlement = nil
	return res, err
}

func (t *telling) AppendEvents(ctx context.Context, req eventlog.AppendEvents) (eventlog.Appended, error) {
	return told(ctx, t, req.Events[0].Source, func(ctx context.Context) (eventlog.Appended, error) {
		res, err := t.Backend.AppendEvents(ctx, req)
		if t.settled != nil {
			res.Settlement = t.settled
		}
		return res, err
	})
}

func (t *telling) AppendWithReceipt(ctx context.Context, req receipt.AppendWithReceipt) (receipt.Result, error) {
	return told(ctx, t, req.Occurrence, func(ctx context.Context) (receipt.Result, error) {
		res, err := t.Backend.AppendWithReceipt(ctx, req)
		if t.settled != nil {
			res.Settlement = t.settled
		}
		return res, err
	})
}
