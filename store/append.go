package store

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// An Append is an append to a sequence, with or without a receipt, or the record of
// an effect without events, on its way into a transaction. An adapter carries it
// out with [NewAppendGroups], alone or together with others.
type Append struct {
	prepared *eventlog.Prepared
	with     *receipt.AppendWithReceipt
	record   *receipt.RecordEffect

	plan   receipt.Plan
	err    error
	behind bool   // of a hit: the constraint index of the sequence is not complete
	from   uint64 // the sequence's next number when it was decided; atomic, since a caller may go meanwhile
}

// Sequence returns the sequence that it appends to, and false for a record, which
// touches no sequence.
func (a *Append) Sequence() (eventlog.Sequence, bool) {
	if a.prepared == nil {
		return eventlog.Sequence{}, false
	}
	return a.prepared.Append.Sequence, true
}

// Key returns the receipt that it touches, and false for an append without one.
func (a *Append) Key() (receipt.Key, bool) {
	switch {
	case a.with != nil:
		return a.with.Key(), true
	case a.record != nil:
		return a.record.Key, true
	}
	return receipt.Key{}, false
}

// Size is about what it sends, in bytes.
func (a *Append) Size() int {
	switch {
	case a.with != nil:
		return a.prepared.Append.Size() + len(a.with.Response)
	case a.record != nil:
		return len(a.record.Response)
	}
	return a.prepared.Append.Size()
}

// decide sets the verdict, and carries it over to what was read.
func (a *Append) decide(found receipt.Found, s *eventlog.Slice, now time.Time) {
	if s != nil {
		atomic.StoreUint64(&a.from, s.Next)
	}
	switch {
	case a.record != nil:
		a.plan, a.err = receipt.DecideRecord(found, now, *a.record), nil
	case a.with != nil:
		a.plan, a.err = receipt.Decide(found, s, *a.with, a.prepared)
	default:
		var log eventlog.Plan
		log, a.err = eventlog.Decide(s, a.prepared)
		a.plan = receipt.Plan{Log: log}
	}
	if a.err != nil {
		return
	}
	if a.plan.AlreadyRecorded {
		// It may be a neighbour's, whose caller may be gone before this one looks.
		a.plan.Receipt = a.plan.Receipt.Clone()
	}
	if key, ok := a.Key(); ok {
		found[key] = a.plan.Receipt
	}
	switch {
	case s == nil:
	case a.plan.AlreadyRecorded:
		sequence, _ := a.Sequence()
		a.behind = s.Exists && s.Indexed != s.Constraints && a.plan.Receipt.Sequence == sequence.Name
	default:
		s.Apply(a.plan.Log)
	}
}

// Writes reports whether its verdict is one that writes something.
func (a *Append) Writes() bool {
	if a.err != nil || a.plan.AlreadyRecorded {
		return false
	}
	_, receipts := a.Key()
	return receipts || a.plan.Log.Appended.Count > 0
}

// Err returns the verdict's error.
func (a *Append) Err() error { return a.err }

// Fail makes the error the verdict: what became of the transaction. It must be one
// of those that the package's page tells about.
func (a *Append) Fail(err error) { a.plan, a.err = receipt.Plan{}, err }

// Unknown makes an unknown outcome the verdict.
func (a *Append) Unknown(err error) { a.Fail(a.UnknownOutcome(err)) }

// UnknownOutcome returns the error that says that the outcome is unknown: a
// [*receipt.UnknownOutcomeError], or without a receipt an
// [*eventlog.UnknownOutcomeError].
func (a *Append) UnknownOutcome(err error) error {
	if key, ok := a.Key(); ok {
		return &receipt.UnknownOutcomeError{Key: key, Err: err}
	}
	return &eventlog.UnknownOutcomeError{Op: eventlog.OpAppend, Sequence: a.prepared.Append.Sequence, From: atomic.LoadUint64(&a.from), Err: err}
}

// Clone makes it independent of the caller's memory: a group may still be written
// when the caller has gone.
func (a *Append) Clone() *Append {
	c := *a
	if a.prepared != nil {
		c.prepared = a.prepared.Clone()
	}
	if a.with != nil {
		with := *a.with
		with.AppendEvents = c.prepared.Append
		with.Response = append([]byte(nil), a.with.Response...)
		c.with = &with
	}
	if a.record != nil {
		record := *a.record
		record.Response = append([]byte(nil), a.record.Response...)
		record.Reasons = append([]string(nil), a.record.Reasons...)
		if a.record.Reasons == nil {
			record.Reasons = nil
		}
		c.record = &record
	}
	return &c
}

// An AppendGroup is appends that one transaction carries out: to one sequence, or
// records without a sequence. The adapter reads what Touch and Keys name, calls
// Decide, and writes Changes and Receipts. All groups of a transaction share one
// [receipt.Found].
type AppendGroup struct {
	Appends []*Append
	// Touch names what to read of the sequence. It is nil for records: then there is
	// neither a slice nor changes.
	Touch *eventlog.Touch
	// Keys are the receipts to look up.
	Keys []receipt.Key

	slice *eventlog.Slice
}

// NewAppendGroups divides appends into groups, in the order of their first.
func NewAppendGroups(appends ...*Append) []*AppendGroup {
	type place struct {
		sequence eventlog.Sequence
		records  bool
	}
	groups := map[place]*AppendGroup{}
	var all []*AppendGroup
	touches := map[place][]eventlog.Touch{}
	for _, a := range appends {
		sequence, ok := a.Sequence()
		at := place{sequence, !ok}
		g := groups[at]
		if g == nil {
			g = &AppendGroup{}
			groups[at] = g
			all = append(all, g)
		}
		g.Appends = append(g.Appends, a)
		if ok {
			touches[at] = append(touches[at], a.prepared.Touch())
		}
		if key, ok := a.Key(); ok {
			g.Keys = append(g.Keys, key)
		}
	}
	for at, g := range groups {
		if !at.records {
			touch := eventlog.Union(touches[at]...)
			g.Touch = &touch
		}
	}
	return all
}

// Decide gives every append its verdict. The slice is that of Touch, or nil; found
// has the receipts under the keys, of those that exist.
func (g *AppendGroup) Decide(found receipt.Found, s *eventlog.Slice, now time.Time) {
	if g.slice = s; s != nil {
		s.Now = now
	}
	for _, a := range g.Appends {
		a.decide(found, s, now)
	}
}

// Writes reports whether anything is to be written.
func (g *AppendGroup) Writes() bool {
	for _, a := range g.Appends {
		if a.Writes() {
			return true
		}
	}
	return false
}

// Changes returns what to write of the sequence.
func (g *AppendGroup) Changes() eventlog.Changes {
	if g.slice == nil {
		return eventlog.Changes{}
	}
	return g.slice.Changes()
}

// Receipts returns the receipts to insert. Their keys are distinct.
func (g *AppendGroup) Receipts() []receipt.Receipt {
	var all []receipt.Receipt
	for _, a := range g.Appends {
		if _, ok := a.Key(); ok && a.Writes() {
			all = append(all, a.plan.Receipt)
		}
	}
	return all
}

// again reports whether a verdict is about what the append was prepared with, not
// about the append.
func again(err error) bool {
	return errors.Is(err, eventlog.ErrDefinitionsChanged) || errors.Is(err, eventlog.ErrIndexIncomplete)
}
