package durable

import (
	"fmt"

	"github.com/countersign/countersign"
)

// An Inbox is the identity of a delivery and the fingerprint of its content.
type Inbox struct {
	ID          string
	Fingerprint []byte // opaque, compared exactly; may be empty
}

// A StateChange is exactly one of two things: one or more events to append, or
// a snapshot to put in place of the last one. Build it with [Append] or [Replace].
type StateChange struct {
	AppendEvents    []Payload
	ReplaceSnapshot *Payload
}

// Append is the state change of an [EventHistory] owner.
func Append(events ...Payload) StateChange { return StateChange{AppendEvents: events} }

// Replace is the state change of a [Snapshot] owner.
func Replace(snapshot Payload) StateChange { return StateChange{ReplaceSnapshot: &snapshot} }

// An Intent asks for an external effect under a stable identity. It is
// published after the commit, from the outbox.
type Intent struct {
	ID      string // names one effect of the owner, for ever
	Payload Payload
}

// An Outcome is how an external effect ended.
type Outcome string

const (
	Applied  Outcome = "applied"
	Rejected Outcome = "rejected"
)

// A TerminalReceipt says, under an identity of its own, how an effect ended.
// Whoever records it may have to do so again, so it must come out the same on
// every retry: no time, no attempt number.
type TerminalReceipt struct {
	ID       string // may equal EffectID, the simplest choice: both are names of their own kind
	EffectID string
	Outcome  Outcome
	Payload  Payload // both versions are needed; the bytes may be empty
}

// A Commit is one atomic unit of work on one owner. The library only reads it,
// and keeps no reference to its slices after the call.
type Commit struct {
	Owner            string
	ExpectedPosition uint64 // where the owner stands before the commit
	Fence            uint64 // the one in force
	Inbox            Inbox
	State            StateChange
	Effects          []Intent
	Receipts         []TerminalReceipt
}

// Check reports the first rule of the contract that the commit breaks by
// itself, whatever the store holds: a [*countersign.MalformedError] or a
// [*countersign.LimitError]. Stores call it before they read anything.
func (c Commit) Check() error {
	if err := CheckOwner(c.Owner); err != nil {
		return err
	}
	if err := countersign.CheckInteger("expected position", c.ExpectedPosition); err != nil {
		return err
	}
	if err := countersign.CheckInteger("fence", c.Fence); err != nil {
		return err
	}
	if err := countersign.CheckIdentity("inbox id", c.Inbox.ID); err != nil {
		return err
	}
	if items := len(c.State.AppendEvents) + len(c.Effects) + len(c.Receipts); items > MaxCommitItems {
		return &countersign.LimitError{Field: "commit", Unit: "items", Limit: MaxCommitItems, Actual: int64(items)}
	}
	if err := c.State.check(); err != nil {
		return err
	}
	for i, e := range c.Effects {
		if err := e.check(); err != nil {
			return fmt.Errorf("effect %d: %w", i, err)
		}
	}
	for i, r := range c.Receipts {
		if err := r.check(); err != nil {
			return fmt.Errorf("receipt %d: %w", i, err)
		}
	}
	if size := c.Size(); size > MaxCommitBytes {
		return &countersign.LimitError{Field: "commit", Unit: "bytes", Limit: MaxCommitBytes, Actual: int64(size)}
	}
	return nil
}

// Size is the number of bytes that [MaxCommitBytes] limits: all payloads, all
// identities and the fingerprint.
func (c Commit) Size() int {
	size := len(c.Owner) + len(c.Inbox.ID) + len(c.Inbox.Fingerprint)
	for _, e := range c.State.AppendEvents {
		size += len(e.Bytes)
	}
	if c.State.ReplaceSnapshot != nil {
		size += len(c.State.ReplaceSnapshot.Bytes)
	}
	for _, e := range c.Effects {
		size += len(e.ID) + len(e.Payload.Bytes)
	}
	for _, r := range c.Receipts {
		size += len(r.ID) + len(r.EffectID) + len(r.Payload.Bytes)
	}
	return size
}

func (s StateChange) check() error {
	if s.ReplaceSnapshot != nil {
		if len(s.AppendEvents) > 0 {
			return &countersign.MalformedError{Field: "state change", Reason: "has both events and a snapshot"}
		}
		return s.ReplaceSnapshot.Check("snapshot")
	}
	if len(s.AppendEvents) == 0 {
		return &countersign.MalformedError{Field: "state change", Reason: "has neither events nor a snapshot"}
	}
	for i, e := range s.AppendEvents {
		if err := e.Check("payload"); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

func (e Intent) check() error {
	if err := countersign.CheckIdentity("effect id", e.ID); err != nil {
		return err
	}
	return e.Payload.Check("payload")
}

func (r TerminalReceipt) check() error {
	if err := countersign.CheckIdentity("receipt id", r.ID); err != nil {
		return err
	}
	if err := countersign.CheckIdentity("effect id", r.EffectID); err != nil {
		return err
	}
	if r.Outcome != Applied && r.Outcome != Rejected {
		return &countersign.MalformedError{Field: "outcome", Reason: "is neither applied nor rejected"}
	}
	return r.Payload.Check("payload")
}

// Clone returns a commit that shares no memory with c. An adapter clones what
// it goes on reading after its call may have returned.
func (c Commit) Clone() Commit {
	c.Inbox.Fingerprint = append([]byte{}, c.Inbox.Fingerprint...)
	events := c.State.AppendEvents
	c.State.AppendEvents = make([]Payload, len(events))
	for i, e := range events {
		c.State.AppendEvents[i] = e.Clone()
	}
	if c.State.ReplaceSnapshot != nil {
		snapshot := c.State.ReplaceSnapshot.Clone()
		c.State.ReplaceSnapshot = &snapshot
	}
	effects := c.Effects
	c.Effects = make([]Intent, len(effects))
	for i, e := range effects {
		c.Effects[i] = Intent{ID: e.ID, Payload: e.Payload.Clone()}
	}
	receipts := c.Receipts
	c.Receipts = make([]TerminalReceipt, len(receipts))
	for i, r := range receipts {
		r.Payload = r.Payload.Clone()
		c.Receipts[i] = r
	}
	return c
}
