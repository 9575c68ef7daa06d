package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
)

// A port is the [store.EventPort] of a Store or a Tx.
type port struct {
	logAccess
	t          *statements
	clock      countersign.Clock
	settlement *countersign.Settlement
}

// logAccess is what a Store and a Tx have in common.
type logAccess interface {
	// read runs one query, in a snapshot of its own.
	read(ctx context.Context, q *statement) error
	// carry carries f out in one transaction. An error of f is a refusal. Like all of
	// it, f may be called again.
	carry(ctx context.Context, unknown func(error) error, f func(context.Context, *work) error) error
	append(ctx context.Context, a *store.Append) error
	watch(ctx context.Context) (time.Duration, error)
}

var _ store.EventPort = port{}

// unknownOutcome makes the error of an unknown outcome.
func unknownOutcome(op string, s eventlog.Sequence) func(error) error {
	return func(err error) error { return &eventlog.UnknownOutcomeError{Op: op, Sequence: s, Err: err} }
}

// namespaceLock is the number of the lock that keeps a namespace from being dropped
// while something of it is created. Two that share one only wait for each other.
func namespaceLock(schema string, ns countersign.Namespace) int64 {
	h := sha256.New()
	for _, part := range []string{"countersign/namespace", schema, ns.EventStore, ns.Name} {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) //nolint:gosec // short; and it never fails
		_, _ = h.Write([]byte(part))
	}
	return int64(binary.BigEndian.Uint64(h.Sum(nil))) //nolint:gosec // any bits will do
}

// Watch implements [store.EventPort].
func (p port) Watch(ctx context.Context) (time.Duration, error) { return p.watch(ctx) }

// Settlement implements [store.EventPort].
func (p port) Settlement() *countersign.Settlement { return p.settlement }
