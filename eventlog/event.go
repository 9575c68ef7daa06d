package eventlog

import (
	"bytes"
	"slices"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/internal/jsonvalue"
)

// Limits, the same on every backend.
const (
	MaxEvents     = 1_000    // of one append
	MaxBatchBytes = 12 << 20 // of one append
	MaxEventBytes = 4 << 20  // of one event: its content, names, ids and tags together
	MaxTags       = 100      // of one event
	MaxScopes     = 100      // of one append
	MaxGeneration = 1<<31 - 1
)

// An Event is what a caller appends.
type Event struct {
	Type       string // the id of a registered event type
	Generation uint32 // of the type; 0 is 1

	// Source is what the event is about, as in "order-42": not who has sent it. It is
	// the partition in which an observer sees events in order, and the holder of a
	// unique value.
	Source string

	SourceType string // optional, as in "order"
	StreamType string // optional
	StreamID   string // optional
	Subject    string // optional: whose personal data the content holds

	Tags []Tag // repetitions count once; at most MaxTags

	// Content is one JSON value, stored and returned byte for byte. The schema of
	// its type and generation says what it must be. It may be nested 512 levels deep.
	Content []byte

	// Occurred is when it happened: in UTC, cut to microseconds. The zero time is
	// the store's time of the append. The year is 1 to 9999.
	Occurred time.Time

	CorrelationID string // optional
	CausationID   string // optional
	CausedBy      string // optional: who caused it
}

// Recorded is an event under its number in a sequence. Content returned by a
// store is the caller's own.
type Recorded struct {
	Number uint64
	Event
}

// Clone returns a copy that shares no memory.
func (e Event) Clone() Event {
	e.Tags = slices.Clone(e.Tags)
	e.Content = bytes.Clone(e.Content)
	return e
}

// Clone returns a copy that shares no memory.
func (r Recorded) Clone() Recorded {
	r.Event = r.Event.Clone()
	return r
}

// Size is what counts against [MaxEventBytes].
func (e Event) Size() int {
	n := len(e.Type) + len(e.Source) + len(e.SourceType) + len(e.StreamType) + len(e.StreamID) + len(e.Subject) +
		len(e.Content) + len(e.CorrelationID) + len(e.CausationID) + len(e.CausedBy)
	for _, t := range e.Tags {
		n += len(t.Name) + len(t.Value)
	}
	return n
}

// Check reports the first rule of form that the event breaks. Whether its content
// fits its schema is not asked here.
func (e Event) Check() error {
	if n := e.Size(); n > MaxEventBytes {
		return &countersign.LimitError{Field: "event", Unit: "bytes", Limit: MaxEventBytes, Actual: int64(n)}
	}
	if err := countersign.CheckIdentity("event type", e.Type); err != nil {
		return err
	}
	if e.Generation > MaxGeneration {
		return &countersign.MalformedError{Field: "generation", Reason: "is above 2^31-1"}
	}
	if err := countersign.CheckIdentity("event source", e.Source); err != nil {
		return err
	}
	for _, optional := range []struct{ field, id string }{
		{"source type", e.SourceType}, {"stream type", e.StreamType}, {"stream id", e.StreamID}, {"subject", e.Subject},
		{"correlation id", e.CorrelationID}, {"causation id", e.CausationID}, {"caused by", e.CausedBy},
	} {
		if optional.id == "" {
			continue
		}
		if err := countersign.CheckIdentity(optional.field, optional.id); err != nil {
			return err
		}
	}
	if n := len(e.Tags); n > MaxTags {
		return &countersign.LimitError{Field: "tags", Unit: "items", Limit: MaxTags, Actual: int64(n)}
	}
	for _, t := range e.Tags {
		if err := t.Check(); err != nil {
			return err
		}
	}
	if err := checkTime("occurred", e.Occurred); err != nil {
		return err
	}
	if err := jsonvalue.Check(e.Content, jsonvalue.Limits{}); err != nil {
		if len(e.Content) == 0 {
			return &countersign.MalformedError{Field: "content", Reason: "is empty"}
		}
		return &countersign.MalformedError{Field: "content", Reason: "is not JSON that can be stored: " + err.Error()}
	}
	return nil
}

// normal returns the event as it is stored: with its defaults, and none of the
// caller's memory but the content's.
func (e Event) normal(now time.Time) Event {
	if e.Generation == 0 {
		e.Generation = 1
	}
	if e.Occurred.IsZero() {
		e.Occurred = now
	}
	e.Occurred = Microseconds(e.Occurred)
	e.Tags = distinct(e.Tags)
	return e
}

// Microseconds is the resolution in which every store keeps times, in UTC.
func Microseconds(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

func checkTime(field string, t time.Time) error {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return &countersign.MalformedError{Field: field, Reason: "is not in the years 1 to 9999"}
	}
	return nil
}
