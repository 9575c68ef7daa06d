package durable

import (
	"context"
	"fmt"

	"github.com/countersign/countersign"
)

// A Health sums up how an observed projection stands.
type Health string

const (
	Healthy Health = "healthy" // at the frontier, and equal to the rebuild
	Lagging Health = "lagging" // behind the frontier; AtOwnThrough says whether it also differs
	Drifted Health = "drifted" // not behind, and different from the rebuild
)

// An AtOwnThrough says how an observed projection compares with the rebuild at
// the position where it claims to stand, so that lag never hides drift.
type AtOwnThrough string

const (
	AtOwnMatches AtOwnThrough = "matches"
	AtOwnDiffers AtOwnThrough = "differs"
	// AtOwnUnknown: the position is past the frontier, or before the checkpoint
	// from which the rebuild began.
	AtOwnUnknown AtOwnThrough = "unknown"
)

// An Authority is what may authorise a transition of an owner.
type Authority string

// DurableOwner is the one authority: the owner's row, read inside the
// transaction that decides.
const DurableOwner Authority = "durable_owner"

// A Report compares an observed projection with a rebuild from the history. It
// is advisory and repairs nothing; [RepairIntent] schedules a repair.
type Report struct {
	Owner    string
	Frontier uint64 // the last position of the history that was rebuilt
	Lag      uint64 // positions from the observed one to the frontier
	// Drift says that entries or version differ from the rebuild at the frontier.
	// They mostly do while the projection lags: AtOwnThrough tells whether it is
	// wrong for the position that it claims.
	Drift  bool
	Health Health

	AtOwnThrough        AtOwnThrough
	TransitionAuthority Authority  // always DurableOwner: a report authorises nothing
	RepairEffectID      string     // see [RepairEffectID]
	Rebuilt             Checkpoint // the projection as it should be at the frontier
}

// Reconcile compares an observed projection with a rebuild from a base and the
// steps after it; the zero Checkpoint is the base of a complete history. The
// frontier is the last step. An observed projection that claims a position past
// it is Drifted, with lag 0 and drift.
//
// A malformed owner id is a [*countersign.MalformedError] or a
// [*countersign.LimitError], a corrupt base a [*CorruptCheckpointError], a step
// that does not follow or does not fit a [*ProjectionError]. An observed
// projection is a [*CorruptCheckpointError] if its version exceeds its position;
// whatever else is wrong with it is drift, and reported as such.
//
// Reconcile is pure. The report shares no memory with the arguments.
func Reconcile(owner string, base Checkpoint, suffix []Step, observed Checkpoint) (Report, error) {
	c, err := newComparison(owner, base, observed)
	if err != nil {
		return Report{}, err
	}
	for _, s := range suffix {
		if err := c.apply(s); err != nil {
			return Report{}, err
		}
	}
	return c.report(), nil
}

// ReconcileOwner is [Reconcile] with the complete history of an [EventHistory]
// owner. It writes nothing. It reads the history in pages, so its memory grows
// with the projected state only.
//
// The facts function says what an event means: one fact, or nil for none. The
// observed function reads the projection that is to be compared. It is called
// first: the history only grows, so an observed projection can't seem to be
// ahead of it, and what is committed meanwhile is lag.
//
// It gives the errors of [Reconcile] and of the store, those of the two
// functions wrapped, a [*NoHistoryError] for an owner in Snapshot mode, and a
// [*CorruptImageError] for a history with a gap.
func ReconcileOwner(ctx context.Context, s Store, owner string,
	facts func(Record) (*Fact, error), observed func(context.Context) (Checkpoint, error)) (Report, error) {
	if err := CheckOwner(owner); err != nil {
		return Report{}, err
	}
	for field, missing := range map[string]bool{"store": s == nil, "facts": facts == nil, "observed": observed == nil, "context": ctx == nil} {
		if missing {
			return Report{}, &countersign.MalformedError{Field: field, Reason: "is nil"}
		}
	}
	seen, err := observed(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("durable: owner %q: the observed projection: %w", owner, err)
	}
	c, err := newComparison(owner, Checkpoint{}, seen)
	if err != nil {
		return Report{}, err
	}
	img, err := s.LoadOwner(ctx, LoadOwner{Owner: owner, Parts: &Parts{}})
	if err != nil {
		return Report{}, err
	}
	if img.Mode != EventHistory {
		return Report{}, &NoHistoryError{Owner: owner, Mode: img.Mode}
	}
	err = eachRecord(ctx, s, img.Head, func(r Record) error {
		fact, err := facts(r)
		if err != nil {
			return fmt.Errorf("durable: owner %q: the event at position %d: %w", owner, r.Position, err)
		}
		return c.apply(Step{Position: r.Position, Fact: fact})
	})
	if err != nil {
		return Report{}, err
	}
	return c.report(), nil
}

// eachRecord calls f with the records from 1 to the head's position. History is
// never changed, so up to a head that was read all pages are one consistent
// state, however many commits follow meanwhile.
func eachRecord(ctx context.Context, s Store, head Head, f func(Record) error) error {
	corrupt := func(format string, args ...any) error {
		return &CorruptImageError{Owner: head.Owner, Reason: HistoryNotContiguous, Detail: fmt.Sprintf(format, args...)}
	}
	for at := uint64(0); at < head.Position; {
		limit := int(min(head.Position-at, DefaultPageLimit))
		page, err := s.ReadHistory(ctx, ReadHistory{Owner: head.Owner, After: at, Limit: limit})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return corrupt("the history ends at %d, the owner is at position %d", at, head.Position)
		}
		for _, r := range page[:min(limit, len(page))] {
			if r.Position != at+1 {
				return corrupt("the record at position %d follows position %d", r.Position, at)
			}
			if err := f(r); err != nil {
				return err
			}
			at = r.Position
		}
	}
	return nil
}

// RepairIntent is the effect that schedules the repair of the reported
// projection, under the report's RepairEffectID. It goes into an ordinary
// commit, of the reported owner or of one that keeps such work. Scheduling a
// report again with the same payload adds nothing. A commit of the reported owner
// moves its frontier, so a report made after it has another id: to keep one
// repair from calling for the next, commit it to another owner, or report only
// when the projection has caught up.
func RepairIntent(r Report, p Payload) Intent {
	return Intent{ID: r.RepairEffectID, Payload: p.Clone()}
}

// A comparison rebuilds a projection step by step and looks at the observed one
// when the rebuild passes by it.
type comparison struct {
	owner    string
	rebuild  *Projector
	observed Checkpoint
	at       AtOwnThrough
}

func newComparison(owner string, base, observed Checkpoint) (*comparison, error) {
	if err := CheckOwner(owner); err != nil {
		return nil, err
	}
	rebuild, err := NewProjector(base)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	if err := observed.checkVersion(); err != nil {
		return nil, fmt.Errorf("observed projection: %w", err)
	}
	c := &comparison{owner: owner, rebuild: rebuild, observed: observed, at: AtOwnUnknown}
	c.look()
	return c, nil
}

func (c *comparison) apply(s Step) error {
	if err := c.rebuild.Apply(s); err != nil {
		return err
	}
	c.look()
	return nil
}

func (c *comparison) look() {
	if c.rebuild.Through() != c.observed.Through {
		return
	}
	c.at = AtOwnDiffers
	if c.rebuild.Checkpoint().sameContent(c.observed) {
		c.at = AtOwnMatches
	}
}

func (c *comparison) report() Report {
	rebuilt := c.rebuild.Checkpoint()
	r := Report{
		Owner:               c.owner,
		Frontier:            rebuilt.Through,
		Drift:               !rebuilt.sameContent(c.observed),
		Health:              Healthy,
		AtOwnThrough:        c.at,
		TransitionAuthority: DurableOwner,
		RepairEffectID:      RepairEffectID(c.owner, rebuilt.Through),
		Rebuilt:             rebuilt,
	}
	switch {
	case c.observed.Through < r.Frontier:
		r.Lag = r.Frontier - c.observed.Through
		r.Health = Lagging
	case c.observed.Through > r.Frontier:
		// A claim that the history doesn't bear out is drift, also where the
		// content happens to be the same.
		r.Drift = true
		r.Health = Drifted
	case r.Drift:
		r.Health = Drifted
	}
	return r
}

// NoHistoryError says that an owner keeps no complete history, so that nothing
// can be rebuilt from it. It matches [countersign.ErrRefused].
type NoHistoryError struct {
	Owner string
	Mode  Mode
}

func (e *NoHistoryError) Error() string {
	return fmt.Sprintf("durable: owner %q: mode %s keeps no complete history", e.Owner, e.Mode)
}

// Is reports whether target is the error's kind.
func (e *NoHistoryError) Is(target error) bool { return target == countersign.ErrRefused }
