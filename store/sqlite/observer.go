package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/countersign/countersign/eventlog"
)

func (p port) Observe(ctx context.Context, op string, key eventlog.ObserverKey, sources []string, rule func(eventlog.ObserverSlice) (eventlog.ObserverPlan, error)) error {
	var refusal error
	err := p.change(ctx, unknownLog(op, key.Sequence), func(ctx context.Context, s session) (int, error) {
		t := p.texts().log
		slice := eventlog.ObserverSlice{Now: p.now(), Partitions: map[string]eventlog.Partition{}}
		row, state, err := readObserver(ctx, s, t, key)
		if err != nil {
			return 0, err
		}
		if state != nil {
			slice.State = state
			want := newRows(t.partitions, len(sources))
			for _, source := range sources {
				want.add(row, source)
			}
			if err := want.query(ctx, s, func(v []driver.Value) error {
				found := partitionOf(v)
				slice.Partitions[found.Source] = found
				return nil
			}); err != nil {
				return 0, err
			}
		}
		var plan eventlog.ObserverPlan
		if plan, refusal = rule(slice); refusal != nil || !plan.Writes {
			return 0, nil
		}
		return pagesOf((len(plan.Put) + len(plan.Delete)) * rowSize), writeObserver(ctx, s, t, key, plan)
	})
	if err != nil {
		return err
	}
	return refusal
}

// readObserver returns an observer's row and its key, or nil.
func readObserver(ctx context.Context, s session, t *logStatements, key eventlog.ObserverKey) (row int64, state *eventlog.ObserverState, err error) {
	err = s.query(ctx, t.observer, observerArgs(key), func(v []driver.Value) error {
		row = v[0].(int64)
		state = &eventlog.ObserverState{
			Key: key, Next: number(v[1]), ReplayBefore: number(v[2]), Fence: number(v[3]), Holder: optionalText(v[4]), LeaseUntil: timeOf(v[5]),
		}
		return nil
	})
	return row, state, err
}

func observerArgs(key eventlog.ObserverKey) []driver.Value {
	return []driver.Value{key.Sequence.Namespace.EventStore, key.Sequence.Namespace.Name, key.Sequence.Name, key.Name}
}

func writeObserver(ctx context.Context, s session, t *logStatements, key eventlog.ObserverKey, plan eventlog.ObserverPlan) error {
	var row int64
	o := plan.State
	args := append(observerArgs(key), int64(o.Next), int64(o.ReplayBefore), int64(o.Fence), optional(o.Holder), o.LeaseUntil.UnixMicro())
	if err := s.query(ctx, t.putObserver, args, func(v []driver.Value) error {
		row = v[0].(int64)
		return nil
	}); err != nil {
		return err
	}
	gone := newRows(t.deletePartitions, len(plan.Delete))
	for _, source := range plan.Delete {
		gone.add(row, source)
	}
	put := newRows(t.putPartitions, len(plan.Put))
	for _, p := range plan.Put {
		addPartition(put, row, p)
	}
	if err := gone.exec(ctx, s); err != nil {
		return err
	}
	return put.exec(ctx, s)
}

func (p port) LoadObserver(ctx context.Context, key eventlog.ObserverKey) (*eventlog.ObserverState, error) {
	var state *eventlog.ObserverState
	err := p.read(ctx, func(s session) (err error) {
		if _, state, err = readObserver(ctx, s, p.texts().log, key); state != nil {
			state.Now = eventlog.Microseconds(p.now())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return state, nil
}

func (p port) LoadPartitions(ctx context.Context, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
	limit, err := eventlog.PageLimit(req.Limit)
	if err != nil {
		return nil, err
	}
	found := []eventlog.Partition{}
	err = p.read(ctx, func(s session) error {
		t := p.texts().log
		row, state, err := readObserver(ctx, s, t, req.Key)
		if err != nil || state == nil {
			return err
		}
		query, args := t.partitionsAfter, []driver.Value{row, req.After, int64(limit)}
		if req.Due {
			query, args = t.duePartitions, []driver.Value{row, req.After, p.now().UnixMicro(), int64(limit)}
		}
		return s.query(ctx, query, args, func(v []driver.Value) error {
			found = append(found, partitionOf(v))
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
