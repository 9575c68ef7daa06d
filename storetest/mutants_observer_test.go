package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
)

// ofObserver names cases of the group.
func ofObserver(names ...string) []string {
	for i := range names {
		names[i] = "observer/" + names[i]
	}
	return names
}

// claiming changes a claim before the good store gets it.
func claiming(change func(ctx context.Context, b *broken, req *eventlog.ClaimObserver) error) logFault {
	return logFault{claim: func(ctx context.Context, b *broken, req eventlog.ClaimObserver) (eventlog.ObserverState, error) {
		if req.Check() == nil {
			if err := change(ctx, b, &req); err != nil {
				return eventlog.ObserverState{}, err
			}
		}
		return b.ObserverStore.ClaimObserver(ctx, req)
	}}
}

// saving changes a save before the good store gets it.
func saving(change func(ctx context.Context, b *broken, req *eventlog.SaveObserver) error) logFault {
	return logFault{save: func(ctx context.Context, b *broken, req eventlog.SaveObserver) (eventlog.ObserverState, error) {
		if req.Check() == nil {
			req.Partitions = slices.Clone(req.Partitions)
			if err := change(ctx, b, &req); err != nil {
				return eventlog.ObserverState{}, err
			}
		}
		return b.ObserverStore.SaveObserver(ctx, req)
	}}
}

// listing reads partitions by another request than the one that was sent.
func listing(change func(req *eventlog.ReadPartitions)) logFault {
	return logFault{partitions: func(ctx context.Context, b *broken, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
		if req.Check() == nil {
			change(&req)
		}
		return b.ObserverStore.ReadPartitions(ctx, req)
	}}
}

var observerMutants = []mutant{
	logMutant("a new observer begins at zero", claiming(func(_ context.Context, _ *broken, req *eventlog.ClaimObserver) error {
		req.StartAt = 0
		return nil
	}), ofObserver("first_claim_creates_it")...),
	logMutant("each claim is a new holder", claiming(func(ctx context.Context, b *broken, req *eventlog.ClaimObserver) error {
		if s, err := b.ObserverStore.ReadObserver(ctx, req.Key); err == nil && s.Holder == req.Holder {
			_, _ = b.ObserverStore.SaveObserver(ctx, eventlog.SaveObserver{Key: req.Key, Fence: s.Fence, Next: s.Next, Release: true})
		}
		return nil
	}), ofObserver("holder_prolongs_and_keeps_its_fence")...),
	logMutant("a lease ends after its last moment", claiming(func(ctx context.Context, b *broken, req *eventlog.ClaimObserver) error {
		if s, err := b.ObserverStore.ReadObserver(ctx, req.Key); err == nil && s.Holder != "" && s.Holder != req.Holder && !s.Now.After(s.LeaseUntil) {
			return &eventlog.ObserverHeldError{Observer: s.Key, Holder: s.Holder, Until: s.LeaseUntil}
		}
		return nil
	}), ofObserver("held_until_the_lease_ends")...),
	logMutant("takes the observer from its holder", logFault{claim: func(ctx context.Context, b *broken, req eventlog.ClaimObserver) (eventlog.ObserverState, error) {
		s, err := b.ObserverStore.ClaimObserver(ctx, req)
		if held, ok := errors.AsType[*eventlog.ObserverHeldError](err); ok {
			req.Holder = held.Holder
			return b.ObserverStore.ClaimObserver(ctx, req)
		}
		return s, err
	}}, ofObserver("held_until_the_lease_ends", "concurrent_claims_have_one_holder")...),
	logMutant("a lease has no default", claiming(func(_ context.Context, _ *broken, req *eventlog.ClaimObserver) error {
		req.Lease = max(req.Lease, time.Microsecond)
		return nil
	}), ofObserver("lease_has_a_default_and_a_limit", "save_moves_the_cursor_and_prolongs")...),
	logMutant("a lease is at most a minute", saving(func(_ context.Context, _ *broken, req *eventlog.SaveObserver) error {
		req.Lease = min(req.Lease, time.Minute)
		return nil
	}), ofObserver("lease_has_a_default_and_a_limit")...),
	logMutant("keeps cursors as floats", saving(func(_ context.Context, _ *broken, req *eventlog.SaveObserver) error {
		if req.Next < 1<<62 {
			req.Next = uint64(float64(req.Next))
		}
		return nil
	}), ofObserver("save_moves_the_cursor_and_prolongs")...),
	logMutant("ignores the fence", saving(func(ctx context.Context, b *broken, req *eventlog.SaveObserver) error {
		if s, err := b.ObserverStore.ReadObserver(ctx, req.Key); err == nil {
			req.Fence = s.Fence
		}
		return nil
	}), ofObserver("stale_save_is_refused", "release_gives_it_back", "replay_of_all_begins_again")...),
	logMutant("accepts a greater fence", saving(func(ctx context.Context, b *broken, req *eventlog.SaveObserver) error {
		if s, err := b.ObserverStore.ReadObserver(ctx, req.Key); err == nil {
			req.Fence = min(req.Fence, s.Fence)
		}
		return nil
	}), ofObserver("stale_save_is_refused")...),
	logMutant("refuses a save when the lease is over", saving(func(ctx context.Context, b *broken, req *eventlog.SaveObserver) error {
		if s, err := b.ObserverStore.ReadObserver(ctx, req.Key); err == nil && !s.Now.Before(s.LeaseUntil) {
			return &eventlog.StaleObserverError{Observer: s.Key, Fence: req.Fence, Current: s.Fence}
		}
		return nil
	}), ofObserver("stale_save_is_refused")...),
	logMutant("releases nothing", saving(func(_ context.Context, _ *broken, req *eventlog.SaveObserver) error {
		req.Release = false
		return nil
	}), ofObserver("release_gives_it_back")...),
	logMutant("a save creates an observer", saving(func(ctx context.Context, b *broken, req *eventlog.SaveObserver) error {
		if _, err := b.ObserverStore.ReadObserver(ctx, req.Key); as[*eventlog.UnknownObserverError](err) {
			_, _ = b.ObserverStore.ClaimObserver(ctx, eventlog.ClaimObserver{Key: req.Key, Holder: "nobody"})
		}
		return nil
	}), ofObserver("unknown_one_is_told")...),
	logMutant("waits equally long each time", showsObservers(nil, func(p *eventlog.Partition) {
		if p.Attempts > 3 {
			p.RetryAt = p.RetryAt.Add(-time.Second)
		}
	}), ofObserver("failures_wait_twice_as_long_each_time")...),
	logMutant("quarantines a failure too early", showsObservers(nil, func(p *eventlog.Partition) { p.Quarantined = p.Attempts >= 10 }), ofObserver("failures_wait_twice_as_long_each_time")...),
	logMutant("a partition stays where it failed first", saving(func(ctx context.Context, b *broken, req *eventlog.SaveObserver) error {
		all, _ := b.ObserverStore.ReadPartitions(ctx, eventlog.ReadPartitions{Key: req.Key})
		for i := range req.Partitions {
			for _, p := range all {
				if p.Source == req.Partitions[i].Source {
					req.Partitions[i].From = min(req.Partitions[i].From, p.From)
				}
			}
		}
		return nil
	}), ofObserver("partition_that_comes_further_starts_again")...),
	logMutant("keeps what has caught up", saving(func(_ context.Context, _ *broken, req *eventlog.SaveObserver) error {
		for i := range req.Partitions {
			req.Partitions[i].Done = false
		}
		return nil
	}), ofObserver("partition_that_comes_further_starts_again", "many_partitions_are_saved_at_once")...),
	logMutant("an operator may retry anything", logFault{retry: func(ctx context.Context, b *broken, req eventlog.RetryPartition) (eventlog.Partition, error) {
		p, err := b.ObserverStore.RetryPartition(ctx, req)
		if as[*eventlog.NotQuarantinedError](err) {
			return eventlog.Partition{Source: req.Source, Operator: req.Operator}, nil
		}
		return p, err
	}}, ofObserver("operator_lets_a_quarantined_partition_go_on")...),
	logMutant("an operator needs no name", logFault{retry: func(ctx context.Context, b *broken, req eventlog.RetryPartition) (eventlog.Partition, error) {
		if req.Operator == "" {
			req.Operator = "somebody"
		}
		return b.ObserverStore.RetryPartition(ctx, req)
	}}, ofObserver("operator_lets_a_quarantined_partition_go_on")...),
	logMutant("refuses texts with NUL", saving(func(_ context.Context, _ *broken, req *eventlog.SaveObserver) error {
		for _, p := range req.Partitions {
			if strings.Contains(p.Error, "\x00") {
				return errors.New("invalid byte sequence")
			}
		}
		return nil
	}), ofObserver("error_text_is_made_fit_to_store")...),
	logMutant("cuts texts to a kilobyte", showsObservers(nil, func(p *eventlog.Partition) { p.LastError = p.LastError[:min(1<<10, len(p.LastError))] }), ofObserver("error_text_is_made_fit_to_store")...),
	logMutant("a replay leaves the holder", logFault{replay: func(ctx context.Context, b *broken, req eventlog.ReplayObserver) (eventlog.ObserverState, error) {
		s, err := b.ObserverStore.ReadObserver(ctx, req.Key)
		if err != nil || req.Source != "" || req.Check() != nil || req.From > s.Next {
			return b.ObserverStore.ReplayObserver(ctx, req)
		}
		return b.ObserverStore.SaveObserver(ctx, eventlog.SaveObserver{Key: req.Key, Fence: s.Fence, Next: req.From})
	}}, ofObserver("replay_of_all_begins_again")...),
	logMutant("marks no replay", showsObservers(func(s *eventlog.ObserverState) { s.ReplayBefore = 0 }, nil), ofObserver("replay_of_all_begins_again")...),
	logMutant("a replay of one partition is one of all", logFault{replay: func(ctx context.Context, b *broken, req eventlog.ReplayObserver) (eventlog.ObserverState, error) {
		if req.Check() == nil {
			req.Source = ""
		}
		return b.ObserverStore.ReplayObserver(ctx, req)
	}}, ofObserver("replay_of_one_partition_leaves_the_others")...),
	logMutant("lists partitions by a collation", logFault{partitions: func(ctx context.Context, b *broken, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
		all, err := b.ObserverStore.ReadPartitions(ctx, req)
		slices.SortStableFunc(all, func(x, y eventlog.Partition) int {
			return strings.Compare(strings.ToLower(x.Source), strings.ToLower(y.Source))
		})
		return all, err
	}}, ofObserver("partitions_are_ordered_and_paged")...),
	logMutant("skips a partition between pages", listing(func(req *eventlog.ReadPartitions) {
		if req.After != "" {
			req.After += "\x01"
		}
		if req.After == "a\x01" {
			req.After = "a 1"
		}
	}), ofObserver("partitions_are_ordered_and_paged")...),
	logMutant("lists every partition as due", listing(func(req *eventlog.ReadPartitions) { req.Due = false }), ofObserver("due_is_told_by_the_stores_time")...),
	logMutant("due by the host's time", logFault{partitions: func(ctx context.Context, b *broken, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
		due := req.Due
		req.Due = false
		all, err := b.ObserverStore.ReadPartitions(ctx, req)
		return slices.DeleteFunc(all, func(p eventlog.Partition) bool { return due && (p.Quarantined || p.RetryAt.After(time.Now())) }), err
	}}, ofObserver("due_is_told_by_the_stores_time")...),
	logMutant("folds the names of observers", claiming(func(_ context.Context, _ *broken, req *eventlog.ClaimObserver) error {
		req.Key.Name = strings.TrimSpace(strings.ToLower(req.Key.Name))
		return nil
	}), ofObserver("observers_are_apart")...),
	logMutant("its partitions have 255 bytes", saving(func(_ context.Context, _ *broken, req *eventlog.SaveObserver) error {
		for i, p := range req.Partitions {
			req.Partitions[i].Source = p.Source[:min(255, len(p.Source))]
		}
		req.Partitions = slices.CompactFunc(req.Partitions, func(a, b eventlog.PartitionProgress) bool { return a.Source == b.Source })
		return nil
	}), ofObserver("identities_of_512_bytes_fit")...),
	logMutant("takes malformed claims", logFault{claim: func(ctx context.Context, b *broken, req eventlog.ClaimObserver) (eventlog.ObserverState, error) {
		s, err := b.ObserverStore.ClaimObserver(ctx, req)
		if errors.Is(err, countersign.ErrMalformed) {
			return eventlog.ObserverState{Key: req.Key}, nil
		}
		return s, err
	}}, ofObserver("malformed_requests_are_refused")...),
	logMutant("saves a thousand partitions", saving(func(_ context.Context, _ *broken, req *eventlog.SaveObserver) error {
		req.Partitions = req.Partitions[:min(1_000, len(req.Partitions))]
		return nil
	}), ofObserver("many_partitions_are_saved_at_once")...),
}
