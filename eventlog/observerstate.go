package eventlog

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/countersign/countersign"
)

// Limits and defaults of observers.
const (
	DefaultLease     = time.Minute      // of a claim of 0
	MaxLease         = 10 * time.Minute // a longer one is cut to it
	FirstRetry       = time.Second      // after a partition's first failure
	LongestRetry     = 10 * time.Minute // the delay doubles up to it
	MaxRetries       = 10               // of a partition; when the last one fails it is quarantined
	MaxErrorBytes    = 4 << 10          // of a failure's text; a longer one is cut
	MaxPartitionSave = 10_000           // partitions of one SaveObserver
)

// An ObserverKey identifies an observer: a name on a sequence.
type ObserverKey struct {
	Sequence Sequence
	Name     string
}

// Check reports the first rule that the key breaks.
func (k ObserverKey) Check() error {
	if err := k.Sequence.Check(); err != nil {
		return err
	}
	return countersign.CheckIdentity("observer", k.Name)
}

// Named returns the key with the sequence's name filled in.
func (k ObserverKey) Named() ObserverKey {
	k.Sequence = k.Sequence.Named()
	return k
}

// An ObserverState is an observer's row.
type ObserverState struct {
	Key ObserverKey

	// Next is the cursor: every event below it was handled, or belongs to a partition
	// that was set aside.
	Next uint64
	// ReplayBefore marks a replay: what is below it and delivered, is delivered again.
	ReplayBefore uint64

	// The claim: Fence grows with each holder, and with a replay. A save under
	// another fence is refused. It begins with the store's time in microseconds.
	Fence      uint64
	Holder     string // "" if nobody holds it
	LeaseUntil time.Time

	Now time.Time // the time of the store when it was read
}

// A Partition is the row of an event source that was set aside: it failed, or it is
// replayed. It goes on by itself, from From up to the observer's cursor.
type Partition struct {
	Source       string
	From         uint64 // the lowest number of the source that is not handled
	ReplayBefore uint64 // what is below it, is delivered again

	Attempts    int // failed ones since the last success or retry by an operator
	Quarantined bool
	RetryAt     time.Time // not before; of a quarantined one it means nothing
	LastError   string

	Operator   string // who has retried it last, if somebody has
	OperatorAt time.Time
}

// Observers keeps the state of observers. An adapter gets it from
// [github.com/countersign/countersign/store.Events]. [Observer] works on it.
//
// Methods that write are [OpClaimObserver] and its siblings in an
// [*UnknownOutcomeError]; all of them may be repeated.
type Observers interface {
	// ClaimObserver takes or prolongs the claim of an observer, and creates it at
	// number StartAt if it is new. While somebody else holds it: an
	// [*ObserverHeldError].
	ClaimObserver(ctx context.Context, req ClaimObserver) (ObserverState, error)

	// SaveObserver stores what the holder has done, and prolongs its lease. Under
	// another fence than the one in force: a [*StaleObserverError].
	SaveObserver(ctx context.Context, req SaveObserver) (ObserverState, error)

	// RetryPartition lets a quarantined partition go on, by an operator's order. One
	// that is not quarantined, and is tried by itself or not set aside at all: a
	// [*NotQuarantinedError].
	RetryPartition(ctx context.Context, req RetryPartition) (Partition, error)

	// ReplayObserver delivers events again: all, or those of one source. Whoever
	// holds the observer loses it, and claims it again: a runner that is idle notices
	// within a second. What it delivers until then may come again.
	ReplayObserver(ctx context.Context, req ReplayObserver) (ObserverState, error)

	// ReadObserver returns an observer's row, or an [*UnknownObserverError].
	ReadObserver(ctx context.Context, key ObserverKey) (ObserverState, error)

	// ReadPartitions returns partitions that were set aside, ordered by their source
	// in byte order. An observer that nobody has claimed has none.
	ReadPartitions(ctx context.Context, req ReadPartitions) ([]Partition, error)
}

// ClaimObserver is the request of [Observers.ClaimObserver].
type ClaimObserver struct {
	Key     ObserverKey
	Holder  string        // who claims: unique among processes, and among runners of a process
	Lease   time.Duration // 0 is DefaultLease; above MaxLease it is cut
	StartAt uint64        // of a new observer: the first number to handle
}

// Check reports the first rule that the request breaks.
func (r ClaimObserver) Check() error {
	if err := r.Key.Check(); err != nil {
		return err
	}
	if err := countersign.CheckIdentity("observer's holder", r.Holder); err != nil {
		return err
	}
	if err := checkLease(r.Lease); err != nil {
		return err
	}
	return countersign.CheckInteger("start", r.StartAt)
}

func checkLease(d time.Duration) error {
	if d < 0 {
		return &countersign.MalformedError{Field: "lease", Reason: "is negative"}
	}
	return nil
}

// lease is what a request's lease means.
func lease(d time.Duration) time.Duration {
	if d == 0 {
		return DefaultLease
	}
	return max(min(d, MaxLease), time.Microsecond)
}

// SaveObserver is the request of [Observers.SaveObserver].
type SaveObserver struct {
	Key   ObserverKey
	Fence uint64 // of the claim
	Next  uint64 // the cursor afterwards
	// Partitions that were worked on, at most MaxPartitionSave; each source once.
	Partitions []PartitionProgress
	Lease      time.Duration // from now; as in a claim
	Release    bool          // gives the claim back
}

// PartitionProgress is what a holder says of a partition.
type PartitionProgress struct {
	Source string
	From   uint64 // the lowest number of the source that is not handled
	Error  string // why the event at From failed; cut to MaxErrorBytes
	Failed bool
	Done   bool // it has caught up: it is no longer set aside
}

// Check reports the first rule that the request breaks.
func (r SaveObserver) Check() error {
	if err := r.Key.Check(); err != nil {
		return err
	}
	if err := checkLease(r.Lease); err != nil {
		return err
	}
	if err := countersign.CheckInteger("fence", r.Fence); err != nil {
		return err
	}
	if err := countersign.CheckInteger("next", r.Next); err != nil {
		return err
	}
	if n := len(r.Partitions); n > MaxPartitionSave {
		return &countersign.LimitError{Field: "partitions", Unit: "items", Limit: MaxPartitionSave, Actual: int64(n)}
	}
	known := make(map[string]bool, len(r.Partitions))
	for _, p := range r.Partitions {
		if err := countersign.CheckIdentity("partition", p.Source); err != nil {
			return err
		}
		if known[p.Source] {
			return &countersign.MalformedError{Field: "partitions", Reason: "name a source twice"}
		}
		known[p.Source] = true
		if err := countersign.CheckInteger("partition's from", p.From); err != nil {
			return err
		}
		if p.Failed && p.Done {
			return &countersign.MalformedError{Field: "partition", Reason: "is both failed and done"}
		}
	}
	return nil
}

// RetryPartition is the request of [Observers.RetryPartition].
type RetryPartition struct {
	Key      ObserverKey
	Source   string
	Operator string // who orders it, authenticated by the caller; never empty
}

// Check reports the first rule that the request breaks.
func (r RetryPartition) Check() error {
	if err := r.Key.Check(); err != nil {
		return err
	}
	if err := countersign.CheckIdentity("partition", r.Source); err != nil {
		return err
	}
	return countersign.CheckIdentity("operator", r.Operator)
}

// ReplayObserver is the request of [Observers.ReplayObserver].
type ReplayObserver struct {
	Key    ObserverKey
	Source string // of one partition; "" is all
	From   uint64 // the first number to deliver again; at most the cursor
}

// Check reports the first rule that the request breaks.
func (r ReplayObserver) Check() error {
	if err := r.Key.Check(); err != nil {
		return err
	}
	if r.Source != "" {
		if err := countersign.CheckIdentity("partition", r.Source); err != nil {
			return err
		}
	}
	return countersign.CheckInteger("from", r.From)
}

// ReadPartitions is the request of [Observers.ReadPartitions].
type ReadPartitions struct {
	Key   ObserverKey
	After string // a source: those behind it
	Due   bool   // only those that are to be tried now
	Limit int    // 0 is DefaultPageLimit, at most MaxPageLimit
}

// Check reports the first rule that the request breaks.
func (r ReadPartitions) Check() error {
	if err := r.Key.Check(); err != nil {
		return err
	}
	if r.After != "" {
		if err := countersign.CheckIdentity("after", r.After); err != nil {
			return err
		}
	}
	_, err := PageLimit(r.Limit)
	return err
}

// RetryDelay is how long a partition waits after so many failures: a second,
// doubling up to ten minutes.
func RetryDelay(attempts int) time.Duration {
	if attempts < 1 {
		return 0
	}
	delay := FirstRetry
	for range min(attempts-1, math.MaxInt8) {
		if delay *= 2; delay >= LongestRetry {
			return LongestRetry
		}
	}
	return delay
}

// errorText is a failure's text as it is stored: valid UTF-8 without NUL bytes, of
// at most MaxErrorBytes.
func errorText(text string) string {
	if len(text) > MaxErrorBytes {
		text = text[:MaxErrorBytes]
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	for len(text) > MaxErrorBytes { // what was put in place is longer
		text = strings.ToValidUTF8(text[:MaxErrorBytes], "")
	}
	return text
}
