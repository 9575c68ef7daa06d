package eventlog

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/countersign/countersign"
)

// ObserverOptions of an [Observer].
type ObserverOptions struct {
	Name     string // of the observer: its cursor is kept under it
	Sequence Sequence
	Filter   Filter // what it sees; the cursor passes the rest

	// StartAt is where a new observer begins. It means nothing later.
	StartAt uint64

	// Holder names this runner among those that share the observer, in this process
	// and in others: one of them works at a time. "" is a random name.
	Holder string
	// Lease is how long the others wait for a runner that says nothing. 0 is
	// DefaultLease, more than MaxLease is cut to it.
	Lease time.Duration

	// PageSize is how many events are read, handled and then saved together; after a
	// crash up to so many are delivered again. 0 is DefaultPageLimit, at most
	// MaxPageLimit.
	PageSize int
	// Concurrency is how many partitions are handled at the same time. 0 and 1: one
	// event after another, in the order of the sequence.
	Concurrency int

	// Logger is told of failures that are tried again. Nil discards.
	Logger *slog.Logger
}

// A Delivery is an event on its way to a handler.
type Delivery struct {
	Recorded
	// Replay says that the event was handled before, and comes again for a replay.
	Replay bool
	// Attempt counts the deliveries of the event to a partition that fails: 1 at
	// first, and again after a retry by an operator or a replay of the partition.
	Attempt int
}

// A Handler handles an event. An error, or a panic, sets the event's partition
// aside, until it is tried again. Events come at least once: the same one may come
// again after a crash, so what a handler does must be safe to do twice. It may key
// it by observer, sequence and number.
//
// ctx ends with the runner's, and when another runner has taken over.
type Handler func(ctx context.Context, d Delivery) error

// ObserverLog is what an [Observer] works on.
type ObserverLog interface {
	Observers
	Follower
}

// An Observer delivers the events of a sequence to a handler: each at least once,
// those of one event source in their order. Its cursor is durable. A partition, the
// events of one source, that fails is set aside and stops alone: it is tried again
// after [RetryDelay], MaxRetries times, and then quarantined until an operator
// retries it ([Observers.RetryPartition]).
//
// Nothing must be sent to it: it compares its cursor with the sequence whenever it
// is woken, and from time to time.
type Observer struct {
	store   ObserverLog
	handler Handler
	o       ObserverOptions
}

// NewObserver checks the options: a [*countersign.MalformedError] or a
// [*countersign.LimitError].
func NewObserver(s ObserverLog, handler Handler, o ObserverOptions) (*Observer, error) {
	if s == nil {
		return nil, &countersign.MalformedError{Field: "store", Reason: "is nil"}
	}
	if handler == nil {
		return nil, &countersign.MalformedError{Field: "handler", Reason: "is nil"}
	}
	o.Sequence = o.Sequence.Named()
	if o.Holder == "" {
		o.Holder = rand.Text()
	}
	claim := ClaimObserver{Key: ObserverKey{o.Sequence, o.Name}, Holder: o.Holder, Lease: o.Lease, StartAt: o.StartAt}
	if err := claim.Check(); err != nil {
		return nil, err
	}
	if err := (ReadEvents{Sequence: o.Sequence, Filter: o.Filter, Limit: o.PageSize}).Check(); err != nil {
		return nil, err
	}
	if o.Concurrency < 0 {
		return nil, &countersign.MalformedError{Field: "concurrency", Reason: "is negative"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Observer{store: s, handler: handler, o: o}, nil
}

func (o *Observer) key() ObserverKey { return ObserverKey{o.o.Sequence, o.o.Name} }

// CatchUp delivers what there is, and what of the partitions that were set aside is
// due, and returns. If another runner works, it is an [*ObserverHeldError].
func (o *Observer) CatchUp(ctx context.Context) error {
	return o.hold(ctx, func(ctx context.Context, t *tenure) error {
		for {
			more, err := t.step(ctx)
			if err != nil || !more {
				return err
			}
		}
	})
}

const (
	standby     = 5 * time.Second        // at most, between two attempts to take over
	lookAtDue   = 500 * time.Millisecond // for partitions that may be tried again
	lookAtClaim = time.Second            // of a runner that has nothing to do: an operator may have ordered a replay
	recovery    = 5 * time.Second        // at most, after an error of the store
)

// Run delivers events until ctx ends, and returns its error. While another runner
// works it stands by. Errors of the store that may pass are tried again; one that
// refuses the observer itself is returned. When it returns, no handler runs any
// more and, if the store can be reached, the claim is given back.
func (o *Observer) Run(ctx context.Context) error {
	if ctx == nil {
		return &countersign.MalformedError{Field: "context", Reason: "is nil"}
	}
	pause := time.Duration(0)
	for {
		began := time.Now()
		err := o.hold(ctx, o.follow)
		if time.Since(began) > recovery {
			pause = 0 // it has worked meanwhile
		}
		var held *ObserverHeldError
		var stale *StaleObserverError
		var unknown *UnknownObserverError
		switch {
		case ctx.Err() != nil:
			return countersign.ContextError(ctx)
		case errors.As(err, &held):
			pause = min(standby, lease(o.o.Lease)/3)
		case errors.As(err, &stale), errors.As(err, &unknown):
			pause = 0 // a replay, somebody else, or the namespace was dropped: claim again
		case errors.Is(err, countersign.ErrRefused):
			return err
		default:
			pause = min(recovery, 2*pause+10*time.Millisecond)
			o.o.Logger.WarnContext(ctx, "observer: trying again", "observer", o.o.Name, "error", err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// follow delivers events for as long as the claim is held.
func (o *Observer) follow(ctx context.Context, t *tenure) error {
	for {
		more, err := t.step(ctx)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		pause := lookAtClaim
		if len(t.behind) > 0 {
			pause = lookAtDue
		}
		wait, cancel := context.WithTimeout(ctx, pause)
		err = o.store.AwaitEvents(wait, AwaitEvents{Sequence: o.o.Sequence, From: t.state.Next})
		idle := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil, err != nil && !idle:
			return err
		case idle:
			if err := t.stillHeld(ctx); err != nil {
				return err
			}
		}
	}
}

// hold claims the observer, keeps the claim while f works, and gives it back.
func (o *Observer) hold(ctx context.Context, f func(context.Context, *tenure) error) (err error) {
	if ctx == nil {
		return &countersign.MalformedError{Field: "context", Reason: "is nil"}
	}
	claim := ClaimObserver{Key: o.key(), Holder: o.o.Holder, Lease: o.o.Lease, StartAt: o.o.StartAt}
	state, err := o.store.ClaimObserver(ctx, claim)
	if err != nil {
		return err
	}
	t := &tenure{observer: o, state: state}
	working, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		t.beat(working, claim, state.Fence, lost)
	}()
	defer func() {
		lost(nil)
		<-beating
		t.release(ctx)
	}()
	if err := t.load(working); err != nil {
		return err
	}
	err = f(working, t)
	if cause := context.Cause(working); cause != nil && ctx.Err() == nil {
		return cause // the claim was lost: what failed after that failed for this reason
	}
	return err
}

// beat prolongs the claim until ctx ends, or the claim is lost.
func (t *tenure) beat(ctx context.Context, claim ClaimObserver, fence uint64, lost context.CancelCauseFunc) {
	every := max(lease(claim.Lease)/3, time.Millisecond)
	for sleep(ctx, every) == nil {
		state, err := t.observer.store.ClaimObserver(ctx, claim)
		var held *ObserverHeldError
		switch {
		case err == nil && state.Fence != fence:
			// It was lost, and this has claimed it anew: whoever works is to begin again.
			_, _ = t.observer.store.SaveObserver(ctx, SaveObserver{Key: claim.Key, Fence: state.Fence, Next: state.Next, Release: true})
			lost(&StaleObserverError{Observer: claim.Key, Fence: fence, Current: state.Fence})
			return
		case errors.As(err, &held):
			lost(&StaleObserverError{Observer: claim.Key, Fence: fence})
			return
		case err != nil && ctx.Err() == nil:
			t.observer.o.Logger.WarnContext(ctx, "observer: the claim was not prolonged", "observer", claim.Key.Name, "error", err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return countersign.ContextError(ctx)
	}
}
