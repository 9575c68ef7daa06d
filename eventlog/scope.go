package eventlog

import (
	"encoding/binary"
	"slices"

	"github.com/countersign/countersign"
)

// A Scope is a concurrency scope: the append is refused if an event that matches
// it has been appended since the caller looked. What it narrows by must all match;
// what is empty matches everything, so a scope that narrows by nothing watches the
// whole sequence. Tags play no part.
type Scope struct {
	Label string // optional: comes back in the violation

	Source     string
	SourceType string
	StreamType string
	StreamID   string
	EventTypes []string // any of them, of any generation; at most 100

	// Expected is the highest matching number that the caller has seen. It is an
	// upper bound: the scope is violated when there is a higher one.
	Expected Expected
}

// Expected is a number, or that there is none yet. The zero Expected is neither:
// a scope with it is malformed, never skipped.
type Expected struct {
	number uint64
	kind   uint8
}

const (
	unset = iota
	seen
	noneYet
)

// Seen expects no matching event above the number.
func Seen(number uint64) Expected { return Expected{number: number, kind: seen} }

// NoneYet expects no matching event.
func NoneYet() Expected { return Expected{kind: noneYet} }

// Number returns the number, and false for NoneYet.
func (e Expected) Number() (uint64, bool) { return e.number, e.kind == seen }

// From is the lowest number that violates it.
func (e Expected) From() uint64 {
	if e.kind == seen {
		return e.number + 1
	}
	return 0
}

// Check reports the first rule that the scope breaks.
func (s Scope) Check() error {
	if err := checkText("scope label", s.Label, countersign.MaxIdentityBytes); err != nil {
		return err
	}
	for _, part := range []struct{ field, id string }{
		{"scope event source", s.Source}, {"scope source type", s.SourceType},
		{"scope stream type", s.StreamType}, {"scope stream id", s.StreamID},
	} {
		if part.id == "" {
			continue
		}
		if err := countersign.CheckIdentity(part.field, part.id); err != nil {
			return err
		}
	}
	if err := checkEventTypes("scope event types", s.EventTypes); err != nil {
		return err
	}
	if s.Expected.kind == unset {
		return &countersign.MalformedError{Field: "scope", Reason: "does not say what the caller has seen: set Expected to Seen or NoneYet"}
	}
	return countersign.CheckInteger("scope expected number", s.Expected.number)
}

func checkEventTypes(field string, ids []string) error {
	const most = 100
	if n := len(ids); n > most {
		return &countersign.LimitError{Field: field, Unit: "items", Limit: most, Actual: int64(n)}
	}
	for _, id := range ids {
		if err := countersign.CheckIdentity(field, id); err != nil {
			return err
		}
	}
	return nil
}

// Filter returns the scope as what an adapter looks for: it needs the highest
// number that matches, from Expected.From on.
func (s Scope) Filter() Filter {
	return Filter{Source: s.Source, SourceType: s.SourceType, StreamType: s.StreamType, StreamID: s.StreamID, EventTypes: s.EventTypes}
}

// Key is the scope's identity among others, with what it expects and without its
// label.
func (s Scope) Key() string {
	key := make([]byte, 0, 64)
	key = append(key, s.Expected.kind)
	key = binary.BigEndian.AppendUint64(key, s.Expected.number)
	types := slices.Clone(s.EventTypes)
	slices.Sort(types)
	for _, part := range append([]string{s.Source, s.SourceType, s.StreamType, s.StreamID}, slices.Compact(types)...) {
		key = binary.BigEndian.AppendUint32(key, uint32(len(part))) //nolint:gosec // an identity is short
		key = append(key, part...)
	}
	return string(key)
}

// A ScopeViolation says that somebody has appended inside a scope.
type ScopeViolation struct {
	Scope    Scope
	Expected Expected
	Actual   uint64 // the highest matching number
}
