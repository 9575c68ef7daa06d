package countersign

import "sync/atomic"

// A Settlement tells whether the transaction that produced a result has
// committed. Results that are durable already carry none: a nil *Settlement is
// settled. It is safe for concurrent use.
type Settlement struct {
	committed atomic.Bool
}

// Commit marks the transaction as committed. It is called by the adapter, or by
// the owner of the transaction, and only after COMMIT has returned success.
func (s *Settlement) Commit() {
	if s != nil {
		s.committed.Store(true)
	}
}

// Settled reports whether the transaction is known to have committed. It is
// true for nil.
func (s *Settlement) Settled() bool {
	return s == nil || s.committed.Load()
}
