package eventlog

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// A tenure is the time in which a runner holds an observer.
type tenure struct {
	observer *Observer
	state    ObserverState
	unsure   bool              // what was saved last is not known
	behind   map[string]uint64 // of the sources that were set aside: what is not handled, from this number on
}

// load reads which sources were set aside.
func (t *tenure) load(ctx context.Context) error {
	t.behind = map[string]uint64{}
	for req := (ReadPartitions{Key: t.observer.key(), Limit: MaxPageLimit}); ; {
		page, err := t.observer.store.ReadPartitions(ctx, req)
		if err != nil {
			return err
		}
		for _, p := range page {
			t.behind[p.Source] = p.From
		}
		if len(page) < req.Limit {
			return nil
		}
		req.After = page[len(page)-1].Source
	}
}

// stillHeld asks whether the claim is still this runner's.
func (t *tenure) stillHeld(ctx context.Context) error {
	state, err := t.observer.store.ReadObserver(ctx, t.observer.key())
	if err == nil && state.Fence != t.state.Fence {
		err = &StaleObserverError{Observer: state.Key, Fence: t.state.Fence, Current: state.Fence}
	}
	return err
}

// step works on the partitions that are due, and then on a page of events. It
// reports whether there may be more to do at once.
func (t *tenure) step(ctx context.Context) (more bool, err error) {
	if len(t.behind) > 0 {
		if err := t.retryDue(ctx); err != nil {
			return false, err
		}
	}
	o := t.observer.o
	page, err := t.observer.store.ReadEvents(ctx, ReadEvents{Sequence: o.Sequence, Filter: o.Filter, From: t.state.Next, Limit: o.PageSize})
	if err != nil {
		return false, err
	}
	if page.Next == t.state.Next {
		return false, nil
	}
	next, failed, stopped := t.handle(ctx, page)
	if next != t.state.Next || len(failed) > 0 {
		if err := t.save(ctx, next, failed); err != nil {
			return false, err
		}
	}
	return !page.End, stopped
}

// handle delivers a page. It returns the cursor after it and the partitions that
// failed, and an error if ctx ended in the middle.
func (t *tenure) handle(ctx context.Context, page Page) (next uint64, failed []PartitionProgress, stopped error) {
	var work []Recorded
	for _, e := range page.Events {
		if from, aside := t.behind[e.Source]; !aside || e.Number < from {
			work = append(work, e)
		}
	}
	replay := t.state.ReplayBefore
	if t.observer.o.Concurrency <= 1 {
		undone, failures, stopped := t.deliverAll(ctx, work, replay, nil)
		if stopped != nil {
			return undone, failures, stopped
		}
		return page.Next, failures, nil
	}
	return t.handlePartitions(ctx, page.Next, bySource(work), replay)
}

// handlePartitions delivers partitions at the same time.
func (t *tenure) handlePartitions(ctx context.Context, next uint64, partitions [][]Recorded, replay uint64) (uint64, []PartitionProgress, error) {
	var (
		mu      sync.Mutex
		failed  []PartitionProgress
		stopped error
		wg      sync.WaitGroup
	)
	free := make(chan struct{}, t.observer.o.Concurrency)
	for _, partition := range partitions {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			undone, failures, err := t.deliverAll(ctx, partition, replay, nil)
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, failures...)
			if err != nil {
				next, stopped = min(next, undone), err
			}
		})
	}
	wg.Wait()
	return next, failed, stopped
}

func bySource(events []Recorded) [][]Recorded {
	place := map[string]int{}
	var all [][]Recorded
	for _, e := range events {
		i, ok := place[e.Source]
		if !ok {
			i = len(all)
			place[e.Source] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], e)
	}
	return all
}

// deliverAll delivers events in order. What comes after a failure of the same source
// is left for its retry. If ctx ends, undone is the first number that was not
// handled.
func (t *tenure) deliverAll(ctx context.Context, events []Recorded, replay uint64, p *Partition) (undone uint64, failed []PartitionProgress, stopped error) {
	aside := map[string]bool{}
	for _, e := range events {
		if aside[e.Source] {
			continue
		}
		if ctx.Err() != nil {
			return e.Number, failed, context.Cause(ctx)
		}
		d := Delivery{Recorded: e, Replay: e.Number < replay, Attempt: 1}
		if p != nil && p.From == e.Number {
			d.Attempt += p.Attempts
		}
		err := t.observer.deliver(ctx, d)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return e.Number, failed, context.Cause(ctx) // it failed because it was to stop
		}
		aside[e.Source] = true
		failed = append(failed, PartitionProgress{Source: e.Source, From: e.Number, Failed: true, Error: fmt.Sprint(err)})
		t.observer.o.Logger.WarnContext(ctx, "observer: a partition failed", "observer", t.observer.o.Name, "number", e.Number, "attempt", d.Attempt, "error", fmt.Sprint(err))
	}
	return 0, failed, nil
}

// deliver calls the handler, in a goroutine of its own, so that one which ends its
// goroutine fails as one that panics does.
func (o *Observer) deliver(ctx context.Context, d Delivery) error {
	done := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			} else if !returned {
				done <- errors.New("the handler ended its goroutine")
			}
		}()
		err := o.handler(ctx, d)
		returned = true
		done <- err
	}()
	return <-done
}

// retryDue works on the partitions that may be tried now. While everything is
// replayed, a partition waits until the cursor has come to where it stands, so that
// its events stay in order.
func (t *tenure) retryDue(ctx context.Context) error {
	for req := (ReadPartitions{Key: t.observer.key(), Due: true, Limit: 100}); ; {
		due, err := t.observer.store.ReadPartitions(ctx, req)
		if err != nil {
			return err
		}
		for _, p := range due {
			t.behind[p.Source] = p.From
			if p.From > t.state.Next {
				continue
			}
			if err := t.retry(ctx, p); err != nil {
				return err
			}
		}
		if len(due) < req.Limit {
			return nil
		}
		req.After = due[len(due)-1].Source
	}
}

// retry delivers what a partition has missed: up to the cursor, and while everything
// is replayed up to where the cursor was, since the events up to there come to
// everybody else again.
func (t *tenure) retry(ctx context.Context, p Partition) error {
	filter := t.observer.o.Filter
	if filter.Source != "" && filter.Source != p.Source { // it was replayed, and is nothing that this observer sees
		return t.save(ctx, t.state.Next, []PartitionProgress{{Source: p.Source, From: p.From, Done: true}})
	}
	filter.Source = p.Source
	for {
		before := max(t.state.Next, t.state.ReplayBefore)
		if p.From >= before {
			return t.save(ctx, t.state.Next, []PartitionProgress{{Source: p.Source, From: p.From, Done: true}})
		}
		page, err := t.observer.store.ReadEvents(ctx, ReadEvents{
			Sequence: t.observer.o.Sequence, Filter: filter, From: p.From, Before: before, Limit: t.observer.o.PageSize,
		})
		if err != nil {
			return err
		}
		undone, failed, stopped := t.deliverAll(ctx, page.Events, p.ReplayBefore, &p)
		progress := PartitionProgress{Source: p.Source, From: page.Next, Done: page.End}
		switch {
		case len(failed) > 0:
			progress = failed[0]
		case stopped != nil:
			progress.From, progress.Done = undone, false
		}
		if stopped == nil || progress.From > p.From {
			if err := t.save(ctx, t.state.Next, []PartitionProgress{progress}); err != nil {
				return err
			}
		}
		if stopped != nil || len(failed) > 0 || progress.Done {
			return stopped
		}
		p.From, p.Attempts = page.Next, 0
	}
}

// lastPatience is for what is saved after ctx has ended.
const lastPatience = 5 * time.Second

// save stores what was done, also when ctx has just ended: nothing of it should be
// delivered again for that.
func (t *tenure) save(ctx context.Context, next uint64, partitions []PartitionProgress) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
	defer cancel()
	state, err := t.observer.store.SaveObserver(ctx, SaveObserver{
		Key: t.observer.key(), Fence: t.state.Fence, Next: next, Partitions: partitions, Lease: t.observer.o.Lease,
	})
	if err != nil {
		t.unsure = true
		return err
	}
	t.state = state
	for _, p := range partitions {
		if p.Done {
			delete(t.behind, p.Source)
		} else {
			t.behind[p.Source] = p.From
		}
	}
	return nil
}

// release gives the claim back, if it is still held. If that fails it ends by
// itself.
func (t *tenure) release(ctx context.Context) {
	if t.unsure {
		return // the cursor may have moved: this one's would move it back
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
	defer cancel()
	_, _ = t.observer.store.SaveObserver(ctx, SaveObserver{Key: t.observer.key(), Fence: t.state.Fence, Next: t.state.Next, Release: true})
}
