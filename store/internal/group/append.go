package group

import "github.com/countersign/countersign/store"

// An Append is a [store.Append], on its way to a group.
type Append struct {
	Ticket
	*store.Append
}

// Bytes implements [Member].
func (a *Append) Bytes() int { return a.Size() }

// Verdict implements [Member].
func (a *Append) Verdict() error { return a.Err() }
