package eventlog

import (
	"context"
	"iter"

	"github.com/countersign/countersign"
)

// Limits of a page: a request with limit 0 gets [DefaultPageLimit]. A page also
// ends once its events come to [MaxPageBytes], but has at least one event.
const (
	DefaultPageLimit = 1_000
	MaxPageLimit     = 10_000
	MaxPageBytes     = 16 << 20
)

// ReadEvents is the request of [Store.ReadEvents]: a page of a sequence's events in
// the order of their numbers.
type ReadEvents struct {
	Sequence Sequence
	Filter   Filter
	From     uint64 // the lowest number
	Before   uint64 // the lowest number that is too great; 0 is no bound
	Limit    int    // of a page, in events, not of an iteration; 0 is DefaultPageLimit, at most MaxPageLimit
}

// Check reports the first rule that the request breaks.
func (r ReadEvents) Check() error {
	if err := r.Sequence.Check(); err != nil {
		return err
	}
	if err := r.Filter.Check(); err != nil {
		return err
	}
	if err := countersign.CheckInteger("from", r.From); err != nil {
		return err
	}
	if err := countersign.CheckInteger("before", r.Before); err != nil {
		return err
	}
	_, err := PageLimit(r.Limit)
	return err
}

// PageLimit returns the limit that a request's limit means, or a
// [*countersign.MalformedError] or [*countersign.LimitError].
func PageLimit(limit int) (int, error) {
	switch {
	case limit < 0:
		return 0, &countersign.MalformedError{Field: "page limit", Reason: "is negative"}
	case limit > MaxPageLimit:
		return 0, &countersign.LimitError{Field: "page", Unit: "items", Limit: MaxPageLimit, Actual: int64(limit)}
	case limit == 0:
		return DefaultPageLimit, nil
	}
	return limit, nil
}

// A Page is what [Store.ReadEvents] returns.
type Page struct {
	Events []Recorded
	// Next is where the next page begins: what is below has been read. At the end it
	// is the lowest number that there is no event under yet, or Before.
	Next uint64
	// End says that there was nothing more to read. More events may have come since.
	End bool
}

// NewPage makes a page of what an adapter found: the events that match, one more
// than the limit where there are so many, read in one snapshot with the sequence's
// next number. It cuts the events off at the limits. Without the one more, it takes
// the page for the end.
func NewPage(r ReadEvents, found []Recorded, next uint64) Page {
	limit, _ := PageLimit(r.Limit)
	if r.Before > 0 {
		next = min(next, r.Before)
	}
	size := 0
	for i := range found {
		size += found[i].Size()
		if i == limit || i > 0 && size > MaxPageBytes {
			return Page{Events: found[:i:i], Next: found[i-1].Number + 1}
		}
	}
	return Page{Events: found, Next: max(next, r.From), End: true}
}

// A Tail is the end of a sequence, as [Store.ReadTail] returns it.
type Tail struct {
	Next  uint64 // the number that the next event gets
	Last  uint64 // the highest number that matches the request's filter
	Found bool   // whether there is one
}

// Expected is what a [Scope] with the same filter expects that nothing has been
// appended since.
func (t Tail) Expected() Expected {
	if t.Found {
		return Seen(t.Last)
	}
	return NoneYet()
}

// ReadTail is the request of [Store.ReadTail].
type ReadTail struct {
	Sequence Sequence
	Filter   Filter
}

// Check reports the first rule that the request breaks.
func (r ReadTail) Check() error {
	if err := r.Sequence.Check(); err != nil {
		return err
	}
	return r.Filter.Check()
}

// Reader reads pages: a [Store], or one that is bound to a transaction.
type Reader interface {
	ReadEvents(ctx context.Context, req ReadEvents) (Page, error)
}

// Events reads a sequence from a number to its end as it then stands, page by page:
// no transaction is open while the loop's body runs. An error ends it. The number
// of events that are held in memory is that of a page.
func Events(ctx context.Context, r Reader, req ReadEvents) iter.Seq2[Recorded, error] {
	return func(yield func(Recorded, error) bool) {
		if r == nil {
			yield(Recorded{}, &countersign.MalformedError{Field: "store", Reason: "is nil"})
			return
		}
		for {
			page, err := r.ReadEvents(ctx, req)
			if err != nil {
				yield(Recorded{}, err)
				return
			}
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
			}
			if page.End {
				return
			}
			req.From = page.Next
		}
	}
}

// Follow is [Events] that does not end: at the end of the sequence it waits for
// more, until ctx ends. It then yields an error that matches the context's, by
// [errors.Is]; ask for that before the four kinds, since it is retryable too.
// To begin at the end, take From from [Store.ReadTail]. After the namespace was
// dropped it waits for its number in the sequence's new life.
func Follow(ctx context.Context, s Follower, req ReadEvents) iter.Seq2[Recorded, error] {
	return func(yield func(Recorded, error) bool) {
		if s == nil {
			yield(Recorded{}, &countersign.MalformedError{Field: "store", Reason: "is nil"})
			return
		}
		for {
			page, err := s.ReadEvents(ctx, req)
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
			}
			if err == nil {
				req.From = page.Next
				if !page.End {
					continue
				}
				if req.Before > 0 && req.From >= req.Before {
					return
				}
				err = s.AwaitEvents(ctx, AwaitEvents{Sequence: req.Sequence, From: req.From})
			}
			if err != nil {
				yield(Recorded{}, err)
				return
			}
		}
	}
}

// Follower reads, and waits for more.
type Follower interface {
	Reader
	AwaitEvents(ctx context.Context, req AwaitEvents) error
}

// AwaitEvents is the request of [Store.AwaitEvents].
type AwaitEvents struct {
	Sequence Sequence
	From     uint64
}

// Check reports the first rule that the request breaks.
func (r AwaitEvents) Check() error {
	if err := r.Sequence.Check(); err != nil {
		return err
	}
	return countersign.CheckInteger("from", r.From)
}
