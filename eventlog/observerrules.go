package eventlog

import (
	"fmt"
	"time"

	"github.com/countersign/countersign"
)

// An ObserverSlice is what an adapter reads of an observer, in the transaction that
// writes: its row, and the partitions that the request names.
type ObserverSlice struct {
	State      *ObserverState // nil: there is none
	Partitions map[string]Partition
	Now        time.Time
}

// An ObserverPlan is what a rule decided. An adapter writes the row, deletes the
// partitions of Delete and puts those of Put in place; no source is in both.
type ObserverPlan struct {
	Writes bool
	State  ObserverState
	Put    []Partition
	Delete []string
}

// DecideClaim says what a claim comes to. The holder keeps its fence, and so does
// one who comes back before somebody else has claimed. The first fence of a new
// observer is the store's time in microseconds: where the observer was there before,
// and was dropped with its namespace, a late holder of that one has another fence.
func DecideClaim(s ObserverSlice, req ClaimObserver) (ObserverPlan, error) {
	state := ObserverState{Key: req.Key.Named(), Next: req.StartAt, Fence: uint64(max(s.Now.UnixMicro(), 1)) - 1}
	if s.State != nil {
		state = *s.State
	}
	switch {
	case state.Holder == req.Holder:
	case state.Holder != "" && s.Now.Before(state.LeaseUntil):
		return ObserverPlan{}, &ObserverHeldError{Observer: state.Key, Holder: state.Holder, Until: state.LeaseUntil}
	default:
		if state.Fence == countersign.MaxInteger {
			return ObserverPlan{}, &countersign.MalformedError{Field: "observer's fence", Reason: "has no values left"}
		}
		state.Fence++
	}
	state.Holder, state.LeaseUntil, state.Now = req.Holder, Microseconds(s.Now.Add(lease(req.Lease))), s.Now
	return ObserverPlan{Writes: true, State: state}, nil
}

// DecideSave says what a save comes to.
func DecideSave(s ObserverSlice, req SaveObserver) (ObserverPlan, error) {
	if s.State == nil {
		return ObserverPlan{}, &UnknownObserverError{Observer: req.Key.Named()}
	}
	if s.State.Fence != req.Fence {
		return ObserverPlan{}, &StaleObserverError{Observer: s.State.Key, Fence: req.Fence, Current: s.State.Fence}
	}
	plan := ObserverPlan{Writes: true, State: *s.State}
	plan.State.Next, plan.State.Now = req.Next, s.Now
	if plan.State.LeaseUntil = Microseconds(s.Now.Add(lease(req.Lease))); req.Release {
		plan.State.Holder, plan.State.LeaseUntil = "", Microseconds(s.Now)
	}
	if plan.State.Next >= plan.State.ReplayBefore {
		plan.State.ReplayBefore = 0
	}
	for _, progress := range req.Partitions {
		old, exists := s.Partitions[progress.Source]
		switch {
		case progress.Done && exists:
			plan.Delete = append(plan.Delete, progress.Source)
		case !progress.Done:
			if !exists {
				old = Partition{Source: progress.Source, ReplayBefore: s.State.ReplayBefore}
			}
			plan.Put = append(plan.Put, old.after(progress, s.Now))
		}
	}
	return plan, nil
}

// after is the partition after an attempt.
func (p Partition) after(progress PartitionProgress, now time.Time) Partition {
	if progress.From != p.From {
		p.Attempts = 0 // it is another event that fails
	}
	// In a replay the partition may fail before where it stood: what is between was
	// handled.
	if progress.From < p.From {
		p.ReplayBefore = max(p.ReplayBefore, p.From)
	}
	p.From = progress.From
	if !progress.Failed {
		p.RetryAt, p.LastError, p.Quarantined = Microseconds(now), "", false
		return p
	}
	p.Attempts++
	p.LastError = errorText(progress.Error)
	p.RetryAt = Microseconds(now.Add(RetryDelay(p.Attempts)))
	p.Quarantined = p.Quarantined || p.Attempts > MaxRetries // only an operator ends it
	return p
}

// DecideRetry says what an operator's retry comes to. It is tried at once, with all
// its attempts.
func DecideRetry(s ObserverSlice, req RetryPartition) (ObserverPlan, error) {
	if s.State == nil {
		return ObserverPlan{}, &UnknownObserverError{Observer: req.Key.Named()}
	}
	p, ok := s.Partitions[req.Source]
	if !ok || !p.Quarantined {
		return ObserverPlan{}, &NotQuarantinedError{Observer: s.State.Key, Source: req.Source}
	}
	p.Quarantined, p.Attempts = false, 0
	p.RetryAt, p.Operator, p.OperatorAt = Microseconds(s.Now), req.Operator, Microseconds(s.Now)
	return ObserverPlan{Writes: true, State: *s.State, Put: []Partition{p}}, nil
}

// DecideReplay says what a replay comes to. The fence grows, so that whoever holds
// the observer can't move the cursor back to where it was; it has to claim again.
//
// A replay of all leaves the partitions that were set aside as they are: what they
// have not handled yet is no replay. A replay of one is tried at once, with all its
// attempts; one that is quarantined stays so until [RetryPartition].
func DecideReplay(s ObserverSlice, req ReplayObserver) (ObserverPlan, error) {
	if s.State == nil {
		return ObserverPlan{}, &UnknownObserverError{Observer: req.Key.Named()}
	}
	if req.From > s.State.Next {
		return ObserverPlan{}, &countersign.MalformedError{Field: "replay", Reason: fmt.Sprintf("begins at %d, after the cursor: events would be left out", req.From)}
	}
	if s.State.Fence == countersign.MaxInteger {
		return ObserverPlan{}, &countersign.MalformedError{Field: "observer's fence", Reason: "has no values left"}
	}
	plan := ObserverPlan{Writes: true, State: *s.State}
	plan.State.Fence++
	plan.State.Holder, plan.State.LeaseUntil, plan.State.Now = "", Microseconds(s.Now), s.Now
	if req.Source == "" {
		plan.State.ReplayBefore = max(plan.State.ReplayBefore, plan.State.Next)
		plan.State.Next = req.From
		return plan, nil
	}
	p, ok := s.Partitions[req.Source]
	if !ok {
		p = Partition{Source: req.Source, From: s.State.Next, ReplayBefore: s.State.ReplayBefore}
	}
	p.ReplayBefore = max(p.ReplayBefore, p.From)
	p.From = min(p.From, req.From)
	if !p.Quarantined { // only RetryPartition, with its operator, ends a quarantine
		p.Attempts, p.LastError, p.RetryAt = 0, "", Microseconds(s.Now)
	}
	plan.Put = []Partition{p}
	return plan, nil
}
