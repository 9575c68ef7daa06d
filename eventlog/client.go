package eventlog

import (
	"context"
	"iter"

	"github.com/countersign/countersign"
)

// A Client appends to and reads one sequence. It is safe for concurrent use.
type Client struct {
	store    Store
	sequence Sequence
}

// NewClient returns a client of a sequence. The store may be one that is bound to a
// transaction. What is wrong with the sequence is told by the first call.
func NewClient(s Store, sequence Sequence) *Client {
	return &Client{store: s, sequence: sequence.Named()}
}

// In returns the same client on a transaction's store.
func (c *Client) In(tx Store) *Client { return &Client{store: tx, sequence: c.sequence} }

// Append appends one event: see [Store.AppendEvents].
func (c *Client) Append(ctx context.Context, e Event, scopes ...Scope) (Appended, error) {
	return c.AppendMany(ctx, []Event{e}, scopes...)
}

// AppendMany appends a batch, all or nothing: see [Store.AppendEvents].
func (c *Client) AppendMany(ctx context.Context, events []Event, scopes ...Scope) (Appended, error) {
	if c.store == nil {
		return Appended{}, &countersign.MalformedError{Field: "store", Reason: "is nil"}
	}
	return c.store.AppendEvents(ctx, AppendEvents{Sequence: c.sequence, Events: events, Scopes: scopes})
}

// Tail returns the end of the sequence, and the last number that the filter matches.
func (c *Client) Tail(ctx context.Context, f Filter) (Tail, error) {
	if c.store == nil {
		return Tail{}, &countersign.MalformedError{Field: "store", Reason: "is nil"}
	}
	return c.store.ReadTail(ctx, ReadTail{Sequence: c.sequence, Filter: f})
}

// Events reads from a number to the end as it then stands: see [Events].
func (c *Client) Events(ctx context.Context, from uint64, f Filter) iter.Seq2[Recorded, error] {
	return Events(ctx, c.store, ReadEvents{Sequence: c.sequence, Filter: f, From: from})
}

// Follow reads from a number on and waits for more: see [Follow].
func (c *Client) Follow(ctx context.Context, from uint64, f Filter) iter.Seq2[Recorded, error] {
	return Follow(ctx, c.store, ReadEvents{Sequence: c.sequence, Filter: f, From: from})
}
