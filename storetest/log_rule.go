package storetest

import (
	"fmt"
	"slices"

	"github.com/countersign/countersign/eventlog"
)

// rule is a constraint as the model judges by it: it goes over the whole history
// from the beginning, each time.
type rule struct{ eventlog.Constraint }

// hold is what an event source holds by a constraint.
type hold struct {
	part    string // of the sequence, within which the constraint holds
	source  string
	value   string
	number  uint64
	inBatch bool
}

// does says what an event means to the constraint: it frees, it claims a value, or
// nothing.
func (r rule) does(e eventlog.Event) (frees, claims bool, value string) {
	if slices.Contains(r.RemovedBy, e.Type) {
		return true, false, ""
	}
	i := slices.IndexFunc(r.Covers, func(c eventlog.Covered) bool { return c.Type == e.Type })
	if i < 0 {
		return false, false, ""
	}
	if r.Kind == eventlog.UniqueEventType {
		return false, true, ""
	}
	content := readJSON(e.Content)
	for place, name := range r.Covers[i].Properties {
		if v, ok := content.property(name); ok && v.kind != 'n' {
			one := v.identity(r.IgnoreCase)
			value += fmt.Sprintf("%d:%d:%s;", place, len(one), one)
		}
	}
	return false, value != "", value
}

// part names the part of the sequence that the event belongs to.
func (r rule) part(e eventlog.Event) string {
	name := ""
	for _, one := range []struct {
		within bool
		id     string
	}{{r.Within.SourceType, e.SourceType}, {r.Within.StreamType, e.StreamType}, {r.Within.StreamID, e.StreamID}} {
		if one.within {
			name += fmt.Sprintf("%d:%s;", len(one.id), one.id)
		}
	}
	return name
}

// refusedBy returns what is held already, if that refuses the event.
func (r rule) refusedBy(held []hold, e eventlog.Event) (hold, bool) {
	_, claims, value := r.does(e)
	if !claims {
		return hold{}, false
	}
	part := r.part(e)
	for _, h := range held {
		if h.part != part {
			continue
		}
		if r.Kind == eventlog.UniqueEventType && h.source == e.Source || r.Kind == eventlog.UniqueValue && h.value == value && h.source != e.Source {
			return h, true
		}
	}
	return hold{}, false
}

// after returns what is held after an event: one that is stored, or that the
// constraint does not refuse.
func (r rule) after(held []hold, e eventlog.Event, number uint64, inBatch bool) []hold {
	frees, claims, value := r.does(e)
	if !frees && !claims {
		return held
	}
	part := r.part(e)
	own := func(h hold) bool { return h.part == part && h.source == e.Source }
	if frees {
		return slices.DeleteFunc(held, own)
	}
	if _, refused := r.refusedBy(held, e); refused {
		// It was stored before there was such a constraint: the first holder keeps it,
		// and the source holds nothing.
		if r.Kind == eventlog.UniqueValue {
			held = slices.DeleteFunc(held, own)
		}
		return held
	}
	if i := slices.IndexFunc(held, own); i >= 0 && held[i].value == value {
		return held // by its earlier event
	}
	return append(slices.DeleteFunc(held, own), hold{part, e.Source, value, number, inBatch})
}
