package store

import (
	"context"

	"github.com/countersign/countersign/eventlog"
)

// ClaimObserver implements [eventlog.Observers].
func (e *Events) ClaimObserver(ctx context.Context, req eventlog.ClaimObserver) (eventlog.ObserverState, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.ObserverState{}, err
	}
	plan, err := e.observe(ctx, eventlog.OpClaimObserver, req.Key, nil, func(s eventlog.ObserverSlice) (eventlog.ObserverPlan, error) {
		return eventlog.DecideClaim(s, req)
	})
	return plan.State, err
}

// SaveObserver implements [eventlog.Observers].
func (e *Events) SaveObserver(ctx context.Context, req eventlog.SaveObserver) (eventlog.ObserverState, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.ObserverState{}, err
	}
	sources := make([]string, len(req.Partitions))
	for i, p := range req.Partitions {
		sources[i] = p.Source
	}
	plan, err := e.observe(ctx, eventlog.OpSaveObserver, req.Key, sources, func(s eventlog.ObserverSlice) (eventlog.ObserverPlan, error) {
		return eventlog.DecideSave(s, req)
	})
	return plan.State, err
}

// RetryPartition implements [eventlog.Observers].
func (e *Events) RetryPartition(ctx context.Context, req eventlog.RetryPartition) (eventlog.Partition, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.Partition{}, err
	}
	plan, err := e.observe(ctx, eventlog.OpRetryPartition, req.Key, []string{req.Source}, func(s eventlog.ObserverSlice) (eventlog.ObserverPlan, error) {
		return eventlog.DecideRetry(s, req)
	})
	if err != nil {
		return eventlog.Partition{}, err
	}
	e.Wake(req.Key.Sequence)
	return plan.Put[0], nil
}

// ReplayObserver implements [eventlog.Observers].
func (e *Events) ReplayObserver(ctx context.Context, req eventlog.ReplayObserver) (eventlog.ObserverState, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.ObserverState{}, err
	}
	var sources []string
	if req.Source != "" {
		sources = []string{req.Source}
	}
	plan, err := e.observe(ctx, eventlog.OpReplayObserver, req.Key, sources, func(s eventlog.ObserverSlice) (eventlog.ObserverPlan, error) {
		return eventlog.DecideReplay(s, req)
	})
	if err == nil {
		e.Wake(req.Key.Sequence)
	}
	return plan.State, err
}

func (e *Events) observe(ctx context.Context, op string, key eventlog.ObserverKey, sources []string, rule func(eventlog.ObserverSlice) (eventlog.ObserverPlan, error)) (eventlog.ObserverPlan, error) {
	var plan eventlog.ObserverPlan
	err := e.port.Observe(ctx, op, key.Named(), sources, func(s eventlog.ObserverSlice) (eventlog.ObserverPlan, error) {
		var err error
		s.Now = eventlog.Microseconds(s.Now)
		plan, err = rule(s)
		return plan, err
	})
	if err != nil {
		return eventlog.ObserverPlan{}, err
	}
	return plan, nil
}

// ReadObserver implements [eventlog.Observers].
func (e *Events) ReadObserver(ctx context.Context, key eventlog.ObserverKey) (eventlog.ObserverState, error) {
	if err := e.check(ctx, key.Check()); err != nil {
		return eventlog.ObserverState{}, err
	}
	key = key.Named()
	state, err := e.port.LoadObserver(ctx, key)
	if err != nil {
		return eventlog.ObserverState{}, err
	}
	if state == nil {
		return eventlog.ObserverState{}, &eventlog.UnknownObserverError{Observer: key}
	}
	return *state, nil
}

// ReadPartitions implements [eventlog.Observers].
func (e *Events) ReadPartitions(ctx context.Context, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return nil, err
	}
	req.Key = req.Key.Named()
	return e.port.LoadPartitions(ctx, req)
}
