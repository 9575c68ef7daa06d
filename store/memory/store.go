package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
)

// BusyTimeout is how long a write waits for a transaction of another caller.
const BusyTimeout = 5 * time.Second

// A Medium is what outlives a handle: the place where a file or a server would
// be. Several stores may be open on one medium at once, as processes are on one
// database.
type Medium struct {
	// writer is held by whoever writes: for one request, or for the body of a
	// transaction. It is a channel so that waiting for it ends with a context.
	writer chan struct{}

	mu     sync.RWMutex
	owners owners
	log    *eventLog

	events *store.Events // of all handles: they wake each other
}

// owners is the whole state, by owner id.
type owners map[string]*owner

// NewMedium returns an empty medium.
func NewMedium() *Medium {
	return &Medium{writer: make(chan struct{}, 1), owners: owners{}, log: newEventLog(nil), events: store.NewEvents(port{})}
}

// Store is a handle on a medium. The zero Store is closed.
type Store struct {
	*store.Events
	medium *Medium
	clock  countersign.Clock
	closed atomic.Bool
}

var (
	_ store.Backend    = (*Store)(nil)
	_ store.Transactor = (*Store)(nil)
)

// New returns a store on a medium of its own.
func New() *Store { return Open(NewMedium()) }

// Options of a store. Nil and the zero Options are the defaults.
type Options struct {
	// Clock is for tests. Nil is the system's.
	Clock countersign.Clock
}

// Open returns another store on the medium.
func Open(m *Medium) *Store { return OpenWith(m, nil) }

// OpenWith is [Open] with options.
func OpenWith(m *Medium, opts *Options) *Store {
	s := &Store{medium: m, clock: countersign.SystemClock{}}
	if opts != nil && opts.Clock != nil {
		s.clock = opts.Clock
	}
	if m != nil && m.events != nil {
		s.Events = m.events.In(port{logAccess: s})
	}
	return s
}

// Close closes the handle. The medium keeps everything that was committed. It
// returns nil, also when called again.
func (s *Store) Close() error {
	if s != nil {
		s.closed.Store(true)
	}
	return nil
}

// ready is what every call asks first, after its request's own check.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.medium == nil || s.closed.Load() {
		return store.ErrClosed
	}
	return store.CheckContext(ctx)
}

// inBody marks the context of a transaction's body on a medium.
type inBody struct{ medium *Medium }

// lock takes the medium for writing and returns what gives it back.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if ctx.Value(inBody{s.medium}) != nil {
		return nil, store.ErrNestedTransaction
	}
	timer := time.NewTimer(BusyTimeout)
	defer timer.Stop()
	select {
	case s.medium.writer <- struct{}{}:
		return func() { <-s.medium.writer }, nil
	case <-ctx.Done():
		return nil, &store.NotTakenError{Err: countersign.ContextError(ctx)}
	case <-timer.C:
		return nil, &store.BusyError{Waited: BusyTimeout}
	}
}

// write asks the rule with the slice that the request touches, and writes the plan.
func (s *Store) write(ctx context.Context, touch durable.Touch, rule func(durable.Slice) (durable.Plan, error)) (durable.Plan, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return durable.Plan{}, err
	}
	defer unlock()
	s.medium.mu.Lock()
	defer s.medium.mu.Unlock()
	return s.medium.owners.write(touch, rule)
}

func (all owners) write(touch durable.Touch, rule func(durable.Slice) (durable.Plan, error)) (durable.Plan, error) {
	plan, err := rule(all[touch.Owner].slice(touch))
	if err != nil || !plan.Writes {
		return plan, err
	}
	if plan.Creates {
		all[touch.Owner] = newOwner()
	}
	all[touch.Owner].apply(plan)
	return plan, nil
}

// read calls f with the owner, or fails when there is none.
func (s *Store) read(ctx context.Context, id string, f func(*owner)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.medium.mu.RLock()
	defer s.medium.mu.RUnlock()
	return s.medium.owners.read(id, f)
}

func (all owners) read(id string, f func(*owner)) error {
	o, ok := all[id]
	if !ok {
		return &durable.UnknownOwnerError{Owner: id}
	}
	f(o)
	return nil
}

// writeLog calls f with the event log, for writing. What f has written before an
// error stays: it writes last.
func (s *Store) writeLog(ctx context.Context, f func(l *eventLog, now time.Time) error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s.medium.mu.Lock()
	defer s.medium.mu.Unlock()
	return f(s.medium.log, eventlog.Microseconds(s.clock.Now()))
}

// readLog calls f with the event log, for reading.
func (s *Store) readLog(ctx context.Context, f func(l *eventLog, now time.Time)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.medium.mu.RLock()
	defer s.medium.mu.RUnlock()
	f(s.medium.log, eventlog.Microseconds(s.clock.Now()))
	return nil
}

func (s *Store) wake(q eventlog.Sequence) { s.Wake(q) }

// lookAgain is how often those who wait for events look, although every append
// wakes them.
const lookAgain = time.Second

func (s *Store) watch(ctx context.Context) (time.Duration, error) {
	if ctx.Value(inBody{s.medium}) != nil {
		return 0, store.ErrNestedTransaction
	}
	return lookAgain, s.ready(ctx)
}
