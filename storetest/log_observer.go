package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
)

// observerModel is an observer with the partitions that were set aside.
type observerModel struct {
	state      eventlog.ObserverState
	partitions map[string]eventlog.Partition
}

func (m *logModel) askObserver(req any) logAnswer {
	switch r := req.(type) {
	case eventlog.ClaimObserver:
		return m.claim(r)
	case eventlog.SaveObserver:
		return m.save(r)
	case eventlog.RetryPartition:
		return m.retry(r)
	case eventlog.ReplayObserver:
		return m.replay(r)
	}
	panic(fmt.Sprintf("storetest: a request of type %T", req))
}

// leaseOf is what a requested lease means.
func leaseOf(d time.Duration) time.Duration {
	switch {
	case d == 0:
		return time.Minute
	case d > 10*time.Minute:
		return 10 * time.Minute
	case d < time.Microsecond:
		return time.Microsecond
	}
	return d
}

func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func (m *logModel) claim(r eventlog.ClaimObserver) logAnswer {
	now := m.now()
	key := r.Key.Named()
	o := m.observers[key]
	if o == nil {
		// The first fence is the time, so that it is another one after a drop.
		o = &observerModel{eventlog.ObserverState{Key: key, Next: r.StartAt, Fence: uint64(now.UnixMicro()) - 1}, map[string]eventlog.Partition{}}
	} else if o.state.Holder != "" && o.state.Holder != r.Holder && now.Before(o.state.LeaseUntil) {
		return logAnswer{err: &eventlog.ObserverHeldError{Observer: key, Holder: o.state.Holder, Until: o.state.LeaseUntil}}
	}
	m.observers[key] = o
	if o.state.Holder != r.Holder {
		o.state.Fence++
	}
	o.state.Holder, o.state.LeaseUntil = r.Holder, micro(now.Add(leaseOf(r.Lease)))
	return m.stateOf(o)
}

// stateOf is an observer's row, as it is read now.
func (m *logModel) stateOf(o *observerModel) logAnswer {
	state := o.state
	state.Now = m.now()
	return logAnswer{value: state}
}

// waits are how long a partition waits after its failures.
var waits = []time.Duration{
	1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
	64 * time.Second, 128 * time.Second, 256 * time.Second, 512 * time.Second, 10 * time.Minute,
}

func (m *logModel) save(r eventlog.SaveObserver) logAnswer {
	now, key := m.now(), r.Key.Named()
	o := m.observers[key]
	if o == nil {
		return logAnswer{err: &eventlog.UnknownObserverError{Observer: key}}
	}
	if o.state.Fence != r.Fence {
		return logAnswer{err: &eventlog.StaleObserverError{Observer: key, Fence: r.Fence, Current: o.state.Fence}}
	}
	for _, progress := range r.Partitions {
		p, there := o.partitions[progress.Source]
		if progress.Done {
			delete(o.partitions, progress.Source)
			continue
		}
		if !there {
			p = eventlog.Partition{Source: progress.Source, ReplayBefore: o.state.ReplayBefore}
		}
		if progress.From < p.From {
			p.Attempts, p.ReplayBefore = 0, max(p.ReplayBefore, p.From)
		}
		if progress.From > p.From {
			p.Attempts = 0
		}
		p.From, p.RetryAt, p.LastError = progress.From, micro(now), ""
		if !progress.Failed {
			p.Quarantined = false
		} else {
			p.Attempts++
			p.LastError = progress.Error
			p.RetryAt = micro(now.Add(waits[min(p.Attempts, len(waits))-1]))
			p.Quarantined = p.Quarantined || p.Attempts > 10
		}
		o.partitions[p.Source] = p
	}
	o.state.Next = r.Next
	if r.Next >= o.state.ReplayBefore {
		o.state.ReplayBefore = 0
	}
	o.state.LeaseUntil = micro(now.Add(leaseOf(r.Lease)))
	if r.Release {
		o.state.Holder, o.state.LeaseUntil = "", micro(now)
	}
	return m.stateOf(o)
}

func (m *logModel) retry(r eventlog.RetryPartition) logAnswer {
	key := r.Key.Named()
	o := m.observers[key]
	if o == nil {
		return logAnswer{err: &eventlog.UnknownObserverError{Observer: key}}
	}
	p, there := o.partitions[r.Source]
	if !there || !p.Quarantined {
		return logAnswer{err: &eventlog.NotQuarantinedError{Observer: key, Source: r.Source}}
	}
	p.Quarantined, p.Attempts, p.Operator = false, 0, r.Operator
	p.RetryAt, p.OperatorAt = micro(m.now()), micro(m.now())
	o.partitions[r.Source] = p
	return logAnswer{value: p}
}

func (m *logModel) replay(r eventlog.ReplayObserver) logAnswer {
	key := r.Key.Named()
	o := m.observers[key]
	if o == nil {
		return logAnswer{err: &eventlog.UnknownObserverError{Observer: key}}
	}
	if r.From > o.state.Next {
		return logAnswer{err: &countersign.MalformedError{Field: "replay", Reason: "begins after the cursor"}}
	}
	o.state.Fence++
	o.state.Holder, o.state.LeaseUntil = "", micro(m.now())
	if r.Source == "" {
		o.state.ReplayBefore, o.state.Next = max(o.state.ReplayBefore, o.state.Next), r.From
		return m.stateOf(o)
	}
	p, there := o.partitions[r.Source]
	if !there {
		p = eventlog.Partition{Source: r.Source, From: o.state.Next, ReplayBefore: o.state.ReplayBefore}
	}
	p.ReplayBefore = max(p.ReplayBefore, p.From)
	p.From = min(p.From, r.From)
	if !p.Quarantined {
		p.Attempts, p.LastError, p.RetryAt = 0, "", micro(m.now())
	}
	o.partitions[r.Source] = p
	return m.stateOf(o)
}

// partitionsOf returns the page that must be read of an observer's partitions.
func (m *logModel) partitionsOf(r eventlog.ReadPartitions) []eventlog.Partition {
	var found []eventlog.Partition
	o := m.observers[r.Key.Named()]
	if o == nil {
		return nil
	}
	for source, p := range o.partitions {
		if source > r.After && (!r.Due || !p.Quarantined && !p.RetryAt.After(m.now())) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b eventlog.Partition) int { return strings.Compare(a.Source, b.Source) })
	limit := r.Limit
	if limit == 0 {
		limit = 1_000
	}
	return found[:min(limit, len(found))]
}
