package storetest

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/internal/jsonschema"
	"github.com/countersign/countersign/receipt"
)

// logModel is what the store under test must hold of the event log, the receipts and
// the observers: plain lists of everything that was ever accepted. It judges a
// request by going over all of it, and asks no rule of package eventlog.
type logModel struct {
	stores    map[string]*eventStoreModel
	events    map[eventlog.Sequence][]eventlog.Recorded
	receipts  map[receipt.Key]receipt.Receipt
	observers map[eventlog.ObserverKey]*observerModel

	now func() time.Time // the zero time where the store's own is to be learnt
}

// eventStoreModel is the definitions of an event store.
type eventStoreModel struct {
	revision    uint64
	constraints uint64
	types       []eventlog.EventType
	rules       []rule
	removed     []string // names of constraints that were removed
}

func newLogModel(now func() time.Time) *logModel {
	return &logModel{
		stores:    map[string]*eventStoreModel{},
		events:    map[eventlog.Sequence][]eventlog.Recorded{},
		receipts:  map[receipt.Key]receipt.Receipt{},
		observers: map[eventlog.ObserverKey]*observerModel{},
		now:       now,
	}
}

func (m *logModel) store(name string) *eventStoreModel {
	if m.stores[name] == nil {
		m.stores[name] = &eventStoreModel{}
	}
	return m.stores[name]
}

// ask answers a request as the contract says, and changes the model accordingly.
func (m *logModel) ask(req any) logAnswer {
	if checked, ok := req.(interface{ Check() error }); ok {
		if err := checked.Check(); err != nil {
			return m.malformed(req, err)
		}
	}
	switch r := req.(type) {
	case eventlog.RegisterEventTypes:
		return m.registerTypes(r)
	case eventlog.RegisterConstraints:
		return m.registerConstraints(r)
	case eventlog.AppendEvents:
		appended, err := m.append(copyAppend(r))
		return logAnswer{value: appended, err: err}
	case receipt.AppendWithReceipt:
		r.AppendEvents = copyAppend(r.AppendEvents)
		return m.appendWith(r)
	case receipt.RecordEffect:
		return m.record(r)
	case countersign.Namespace:
		return m.drop(r)
	}
	return m.askObserver(req)
}

// malformed is the answer to a request that breaks a rule of form: the receipt, if
// the effect has one.
func (m *logModel) malformed(req any, err error) logAnswer {
	var key receipt.Key
	switch r := req.(type) {
	case receipt.AppendWithReceipt:
		key = r.Key()
	case receipt.RecordEffect:
		key = r.Key
	}
	if r, ok := m.receipts[key]; ok {
		return logAnswer{value: receipt.Result{Receipt: r, AlreadyRecorded: true}}
	}
	return logAnswer{err: err}
}

func (m *logModel) registerTypes(r eventlog.RegisterEventTypes) logAnswer {
	s := m.store(r.EventStore)
	types := slices.Clone(s.types)
	for _, t := range r.Types {
		t.Generation = max(t.Generation, 1)
		t.Schema = bytes.Clone(t.Schema)
		i := slices.IndexFunc(types, func(o eventlog.EventType) bool { return o.ID == t.ID && o.Generation == t.Generation })
		if i < 0 {
			types = append(types, t)
		} else if readJSON(types[i].Schema).identity(false) != readJSON(t.Schema).identity(false) {
			return logAnswer{err: &eventlog.SchemaChangedError{Type: t.ID, Generation: t.Generation}}
		}
	}
	changed := len(types) > len(s.types)
	if changed {
		s.types = types
		s.revision++
	}
	return logAnswer{value: eventlog.Registered{Revision: s.revision, Changed: changed}}
}

func (m *logModel) registerConstraints(r eventlog.RegisterConstraints) logAnswer {
	s := m.store(r.EventStore)
	changed := false
	for _, c := range r.Constraints {
		c = copyConstraint(c)
		i := slices.IndexFunc(s.rules, func(o rule) bool { return o.Name == c.Name })
		switch {
		case i < 0:
			s.rules = append(s.rules, rule{c})
			changed = true
		case showConstraint(s.rules[i].Constraint) != showConstraint(c):
			s.rules[i] = rule{c}
			changed = true
		}
		s.removed = slices.DeleteFunc(s.removed, func(name string) bool { return name == c.Name })
	}
	for _, name := range r.Remove {
		n := len(s.rules)
		s.rules = slices.DeleteFunc(s.rules, func(o rule) bool { return o.Name == name })
		if len(s.rules) < n {
			s.removed = append(s.removed, name)
			changed = true
		}
	}
	slices.SortFunc(s.rules, func(a, b rule) int { return strings.Compare(a.Name, b.Name) })
	if changed {
		s.revision++
		s.constraints = s.revision
	}
	return logAnswer{value: eventlog.Registered{Revision: s.revision, Changed: changed}}
}

// append judges a batch and, where nothing refuses it, appends it.
func (m *logModel) append(r eventlog.AppendEvents) (eventlog.Appended, error) {
	q := r.Sequence.Named()
	all := m.events[q]
	violations, err := m.violations(q, r.Events)
	if err != nil {
		return eventlog.Appended{}, err
	}
	if len(violations) > 0 {
		return eventlog.Appended{}, &eventlog.ViolationsError{Violations: violations}
	}
	var violated []eventlog.ScopeViolation
	for _, scope := range r.Scopes {
		if number, ok := highest(all, scope); ok {
			violated = append(violated, eventlog.ScopeViolation{Scope: scope, Expected: scope.Expected, Actual: number})
		}
	}
	if len(violated) > 0 {
		return eventlog.Appended{}, &eventlog.ScopesViolatedError{Violations: violated}
	}
	appended := eventlog.Appended{Sequence: q.Name, Count: len(r.Events)}
	if len(r.Events) == 0 {
		return appended, nil
	}
	appended.First = uint64(len(all))
	for _, e := range r.Events {
		all = append(all, eventlog.Recorded{Number: uint64(len(all)), Event: m.stored(e)})
	}
	appended.Last = uint64(len(all) - 1)
	m.events[q] = all
	return appended, nil
}

// stored is the event as it must come back.
func (m *logModel) stored(e eventlog.Event) eventlog.Event {
	e.Generation = max(e.Generation, 1)
	if e.Occurred.IsZero() {
		e.Occurred = m.now()
	}
	e.Occurred = e.Occurred.UTC().Truncate(time.Microsecond)
	var tags []eventlog.Tag
	for _, t := range e.Tags {
		if !slices.Contains(tags, t) {
			tags = append(tags, t)
		}
	}
	e.Tags = tags
	return e
}

// violations judges every event: first all schemas, then all constraints of those
// that passed.
func (m *logModel) violations(q eventlog.Sequence, events []eventlog.Event) ([]eventlog.Violation, error) {
	s := m.store(q.Namespace.EventStore)
	held := make([][]hold, len(s.rules))
	if len(events) > 0 {
		for i, r := range s.rules {
			for _, e := range m.events[q] {
				held[i] = r.after(held[i], e.Event, e.Number, false)
			}
		}
	}
	var all []eventlog.Violation
	for i, e := range events {
		e.Generation = max(e.Generation, 1)
		found, err := s.schemaViolations(i, e)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			for k, r := range s.rules {
				if h, refused := r.refusedBy(held[k], e); refused {
					v := eventlog.Violation{Event: i, Kind: eventlog.UniqueValueViolation, EventType: e.Type, Generation: e.Generation, Constraint: r.Name, Holder: h.number, InBatch: h.inBatch}
					if r.Kind == eventlog.UniqueEventType {
						v.Kind = eventlog.UniqueEventTypeViolation
					}
					found = append(found, v)
				}
			}
			if len(found) == 0 {
				for k, r := range s.rules {
					held[k] = r.after(held[k], e, 0, true)
				}
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

func (s *eventStoreModel) schemaViolations(i int, e eventlog.Event) ([]eventlog.Violation, error) {
	n := slices.IndexFunc(s.types, func(t eventlog.EventType) bool { return t.ID == e.Type && t.Generation == e.Generation })
	if n < 0 {
		return []eventlog.Violation{{Event: i, Kind: eventlog.UnknownEventType, EventType: e.Type, Generation: e.Generation}}, nil
	}
	if string(s.types[n].Schema) == "true" {
		return nil, nil
	}
	schema, err := jsonschema.Compile(s.types[n].Schema)
	if err != nil {
		return nil, err
	}
	problems, err := schema.Validate(e.Content)
	if err != nil {
		return nil, &countersign.MalformedError{Field: "content", Reason: err.Error()}
	}
	var found []eventlog.Violation
	for _, p := range problems {
		found = append(found, eventlog.Violation{Event: i, Kind: eventlog.SchemaViolation, EventType: e.Type, Generation: e.Generation, Pointer: p.Pointer, Keyword: p.Keyword})
	}
	return found, nil
}

// highest returns the highest number that violates the scope.
func highest(all []eventlog.Recorded, s eventlog.Scope) (number uint64, violated bool) {
	last, some := s.Expected.Number()
	for _, e := range all {
		if some && e.Number <= last ||
			s.Source != "" && s.Source != e.Source ||
			s.SourceType != "" && s.SourceType != e.SourceType ||
			s.StreamType != "" && s.StreamType != e.StreamType ||
			s.StreamID != "" && s.StreamID != e.StreamID ||
			len(s.EventTypes) > 0 && !slices.Contains(s.EventTypes, e.Type) {
			continue
		}
		number, violated = e.Number, true
	}
	return number, violated
}

// selected reports whether a filter selects the event.
func selected(f eventlog.Filter, e eventlog.Event) bool {
	if f.Source != "" && f.Source != e.Source || f.SourceType != "" && f.SourceType != e.SourceType ||
		f.StreamType != "" && f.StreamType != e.StreamType || f.StreamID != "" && f.StreamID != e.StreamID ||
		len(f.EventTypes) > 0 && !slices.Contains(f.EventTypes, e.Type) {
		return false
	}
	if len(f.Tags) == 0 {
		return true
	}
	for _, wanted := range f.Tags {
		if slices.Contains(e.Tags, wanted) {
			return true
		}
	}
	return false
}

func (m *logModel) appendWith(r receipt.AppendWithReceipt) logAnswer {
	if old, ok := m.receipts[r.Key()]; ok {
		return logAnswer{value: receipt.Result{Receipt: old, AlreadyRecorded: true}}
	}
	appended, err := m.append(r.AppendEvents)
	if err != nil {
		return logAnswer{err: err}
	}
	one := receipt.Receipt{Key: r.Key(), Outcome: receipt.NoEvents, Epoch: r.Epoch, RecordedAt: m.now(), Response: copyResponse(r.Response)}
	if appended.Count > 0 {
		one.Outcome, one.Sequence, one.First, one.Last = receipt.Appended, appended.Sequence, appended.First, appended.Last
	}
	m.receipts[one.Key] = one
	return logAnswer{value: receipt.Result{Receipt: one}}
}

func (m *logModel) record(r receipt.RecordEffect) logAnswer {
	if old, ok := m.receipts[r.Key]; ok {
		return logAnswer{value: receipt.Result{Receipt: old, AlreadyRecorded: true}}
	}
	one := receipt.Receipt{Key: r.Key, Outcome: receipt.NoEvents, Epoch: r.Epoch, RecordedAt: m.now(), Response: copyResponse(r.Response)}
	if len(r.Reasons) > 0 {
		one.Outcome, one.Reasons = receipt.Refused, slices.Clone(r.Reasons)
	}
	m.receipts[one.Key] = one
	return logAnswer{value: receipt.Result{Receipt: one}}
}

func copyResponse(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

func (m *logModel) drop(ns countersign.Namespace) logAnswer {
	var d eventlog.Dropped
	for q, events := range m.events {
		if q.Namespace == ns && len(events) > 0 {
			d.Sequences++
			d.Events += int64(len(events))
			delete(m.events, q)
		}
	}
	for key := range m.receipts {
		if key.Namespace == ns {
			d.Receipts++
			delete(m.receipts, key)
		}
	}
	for key := range m.observers {
		if key.Sequence.Namespace == ns {
			d.Observers++
			delete(m.observers, key)
		}
	}
	return logAnswer{value: d}
}

// receiptsOf returns the receipts that a list must have.
func (m *logModel) receiptsOf(r receipt.ListReceipts) []receipt.Receipt {
	var found []receipt.Receipt
	for key, one := range m.receipts {
		if key.Namespace == r.Namespace && slices.Contains(r.Occurrences, key.Occurrence) {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b receipt.Receipt) int {
		return cmp.Or(strings.Compare(a.Key.Occurrence, b.Key.Occurrence), strings.Compare(a.Key.Effect, b.Key.Effect))
	})
	return found
}

// copyAppend returns a request in memory of its own.
func copyAppend(r eventlog.AppendEvents) eventlog.AppendEvents {
	r.Events = slices.Clone(r.Events)
	for i := range r.Events {
		r.Events[i].Content = bytes.Clone(r.Events[i].Content)
		r.Events[i].Tags = slices.Clone(r.Events[i].Tags)
	}
	r.Scopes = slices.Clone(r.Scopes)
	for i := range r.Scopes {
		r.Scopes[i].EventTypes = slices.Clone(r.Scopes[i].EventTypes)
	}
	return r
}

func copyConstraint(c eventlog.Constraint) eventlog.Constraint {
	c.Covers = slices.Clone(c.Covers)
	for i := range c.Covers {
		c.Covers[i].Properties = slices.Clone(c.Covers[i].Properties)
	}
	c.RemovedBy = slices.Clone(c.RemovedBy)
	return c
}
