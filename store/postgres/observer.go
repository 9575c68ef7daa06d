package postgres

import (
	"context"
	"time"

	"github.com/countersign/countersign/eventlog"
)

func observerNames(k eventlog.ObserverKey) []any { return append(names(k.Sequence), k.Name) }

func (r *logRow) observer(k eventlog.ObserverKey) *eventlog.ObserverState {
	return &eventlog.ObserverState{
		Key: k, Next: uint64(r.b), ReplayBefore: uint64(r.c), Fence: uint64(r.d), Holder: r.s, LeaseUntil: time.UnixMicro(r.e).UTC(),
	}
}

func (r *logRow) partition() eventlog.Partition {
	return eventlog.Partition{
		Source: r.s, From: uint64(r.a), ReplayBefore: uint64(r.b), Attempts: int(r.c), Quarantined: r.d != 0,
		RetryAt: time.UnixMicro(r.e).UTC(), OperatorAt: time.UnixMicro(r.f).UTC(), LastError: r.t, Operator: r.u,
	}
}

// Observe implements [store.EventPort].
func (p port) Observe(ctx context.Context, op string, key eventlog.ObserverKey, sources []string, rule func(eventlog.ObserverSlice) (eventlog.ObserverPlan, error)) error {
	return p.carry(ctx, unknownOutcome(op, key.Sequence), func(ctx context.Context, w *work) error {
		slice := eventlog.ObserverSlice{Partitions: map[string]eventlog.Partition{}}
		var observer int64
		reads := []*statement{
			w.t.one(&lockObserver, observerNames(key)...).rows(func(r *logRow) error {
				observer, slice.State = r.a, r.observer(key)
				return nil
			}),
			// The time is asked after the lock was granted.
			w.t.one(&timePart).rows(func(r *logRow) error { slice.Now = w.now(r.a); return nil }),
		}
		if len(sources) > 0 {
			reads = append(reads, w.t.one(&partitionsByName, append([]any{sources}, observerNames(key)...)...).rows(func(r *logRow) error {
				slice.Partitions[r.s] = r.partition()
				return nil
			}))
		}
		if err := w.run(ctx, reads...); err != nil {
			return err
		}
		plan, err := rule(slice)
		if err != nil || !plan.Writes {
			return err
		}
		w.write(observerWrites(w, key, observer, plan)...)
		return nil
	})
}

// observerWrites are the statements that write a plan. Without a row it is a new
// observer, which has no partitions.
func observerWrites(w *work, key eventlog.ObserverKey, observer int64, plan eventlog.ObserverPlan) []*statement {
	state := []any{int64(plan.State.Next), int64(plan.State.ReplayBefore), int64(plan.State.Fence), plan.State.LeaseUntil.UnixMicro(), plan.State.Holder}
	if observer == 0 {
		return []*statement{
			w.t.one(&lockNamespace, namespaceLock(w.t.schema, key.Sequence.Namespace)),
			w.t.one(&insertObserver, append(observerNames(key), state...)...),
		}
	}
	statements := []*statement{w.t.one(&moveObserver, append([]any{observer}, state...)...)}
	if len(plan.Delete) > 0 {
		statements = append(statements, w.t.one(&deletePartitions, plan.Delete, observer))
	}
	if n := len(plan.Put); n > 0 {
		sources, lastErrors, operators := make([]string, n), make([]string, n), make([]string, n)
		from, replays, attempts, quarantined := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		retries, operated := make([]int64, n), make([]int64, n)
		for i, p := range plan.Put {
			sources[i], lastErrors[i], operators[i] = p.Source, p.LastError, p.Operator
			from[i], replays[i], attempts[i] = int64(p.From), int64(p.ReplayBefore), int64(p.Attempts)
			if p.Quarantined {
				quarantined[i] = 1
			}
			retries[i], operated[i] = p.RetryAt.UnixMicro(), p.OperatorAt.UnixMicro()
		}
		statements = append(statements, w.t.one(&putPartitions, sources, from, replays, attempts, quarantined, retries, operated, lastErrors, operators, observer))
	}
	return statements
}

// LoadObserver implements [store.EventPort].
func (p port) LoadObserver(ctx context.Context, key eventlog.ObserverKey) (*eventlog.ObserverState, error) {
	var state *eventlog.ObserverState
	err := p.read(ctx, p.t.one(&readObserver, observerNames(key)...).rows(func(r *logRow) error {
		state = r.observer(key)
		state.Now = eventlog.Microseconds(storeTime(p.clock, r.f))
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return state, nil
}

// LoadPartitions implements [store.EventPort].
func (p port) LoadPartitions(ctx context.Context, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
	limit, err := eventlog.PageLimit(req.Limit)
	if err != nil {
		return nil, err
	}
	var due, at int64 // 0 is the server's time
	if req.Due {
		due = 1
	}
	if p.clock != nil {
		at = p.clock.Now().UnixMicro()
	}
	found := []eventlog.Partition{}
	q := p.t.one(&partitionsInOrder, append(observerNames(req.Key), req.After, due, at, int64(limit))...)
	if err := p.read(ctx, q.rows(func(r *logRow) error {
		found = append(found, r.partition())
		return nil
	})); err != nil {
		return nil, err
	}
	return found, nil
}
