package eventlog

import (
	"slices"

	"github.com/countersign/countersign"
)

// A Filter selects events. What is empty matches everything; all that is set must
// match.
type Filter struct {
	Source     string
	SourceType string
	StreamType string
	StreamID   string
	EventTypes []string // any of them, of any generation; at most 100
	Tags       []Tag    // any of them; at most 100
}

// Check reports the first rule that the filter breaks.
func (f Filter) Check() error {
	for _, part := range []struct{ field, id string }{
		{"event source", f.Source}, {"source type", f.SourceType}, {"stream type", f.StreamType}, {"stream id", f.StreamID},
	} {
		if part.id == "" {
			continue
		}
		if err := countersign.CheckIdentity(part.field, part.id); err != nil {
			return err
		}
	}
	if err := checkEventTypes("event types", f.EventTypes); err != nil {
		return err
	}
	if n := len(f.Tags); n > MaxTags {
		return &countersign.LimitError{Field: "tags", Unit: "items", Limit: MaxTags, Actual: int64(n)}
	}
	for _, t := range f.Tags {
		if err := t.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Empty reports whether the filter matches everything.
func (f Filter) Empty() bool {
	return f.Source == "" && f.SourceType == "" && f.StreamType == "" && f.StreamID == "" && len(f.EventTypes) == 0 && len(f.Tags) == 0
}

// Matches reports whether the filter selects the event.
func (f Filter) Matches(e *Event) bool {
	return (f.Source == "" || f.Source == e.Source) &&
		(f.SourceType == "" || f.SourceType == e.SourceType) &&
		(f.StreamType == "" || f.StreamType == e.StreamType) &&
		(f.StreamID == "" || f.StreamID == e.StreamID) &&
		(len(f.EventTypes) == 0 || slices.Contains(f.EventTypes, e.Type)) &&
		(len(f.Tags) == 0 || slices.ContainsFunc(f.Tags, func(t Tag) bool { return slices.Contains(e.Tags, t) }))
}
