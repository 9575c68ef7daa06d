package storetest

import (
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// The names that cases of the event log work with.
var (
	shop   = countersign.Namespace{EventStore: "shop", Name: "eu"}
	shopUS = countersign.Namespace{EventStore: "shop", Name: "us"}
	bank   = countersign.Namespace{EventStore: "bank", Name: "eu"}
	orders = eventlog.Sequence{Namespace: shop, Name: "orders"}
)

// Event types that newLogSession's cases have registered.
const (
	noted   = "noted"   // any JSON
	opened  = "opened"  // an object that must have a name, of at least one letter
	renamed = "renamed" // any JSON
	closedE = "closed"  // any JSON
)

const openedSchema = `{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":1},"age":{"type":"integer","minimum":0}}}`

var standardTypes = []eventlog.EventType{
	{ID: noted, Schema: []byte(`true`)},
	{ID: opened, Schema: []byte(openedSchema)},
	{ID: renamed, Schema: []byte(`true`)},
	{ID: closedE, Schema: []byte(`true`)},
}

// logCase is a case on a session of the event log, in whose event store "shop" the
// standard types are registered. At its end the store is opened again and must still
// hold the same.
func logCase(group, name string, body func(s *logSession)) Case {
	return sessionCase(group, name, false, []Need{NeedEvents}, body)
}

// effectCase is a logCase about receipts.
func effectCase(group, name string, body func(s *logSession)) Case {
	return sessionCase(group, name, false, []Need{NeedEvents, NeedReceipts}, body)
}

// observerCase is a case about observers, with a clock that the case moves.
func observerCase(group, name string, body func(s *logSession)) Case {
	return sessionCase(group, name, true, []Need{NeedEvents, NeedObservers}, body)
}

func sessionCase(group, name string, clocked bool, needs []Need, body func(s *logSession)) Case {
	return Case{Group: group, Name: name, Needs: needs, Run: func(t T, h Harness) {
		t.Helper()
		s := newLogSession(t, h, clocked)
		s.send(registered, eventlog.RegisterEventTypes{EventStore: shop.EventStore, Types: standardTypes})
		body(s)
		s.reopen()
	}}
}

// note returns an event of a source with any content.
func note(source, content string) eventlog.Event {
	return eventlog.Event{Type: noted, Source: source, Content: []byte(content)}
}

// of returns an event of a type.
func of(typ, source, content string) eventlog.Event {
	return eventlog.Event{Type: typ, Source: source, Content: []byte(content)}
}

// notes returns n events.
func notes(n int) []eventlog.Event {
	all := make([]eventlog.Event, n)
	for i := range all {
		all[i] = note(fmt.Sprintf("source-%d", i%7), fmt.Sprintf(`{"n":%d}`, i))
	}
	return all
}

// append sends a batch to the sequence "orders".
func (s *logSession) append(want string, events ...eventlog.Event) logAnswer {
	s.Helper()
	return s.send(want, eventlog.AppendEvents{Sequence: orders, Events: events})
}

// within sends a batch with scopes to the sequence "orders".
func (s *logSession) within(want string, scopes []eventlog.Scope, events ...eventlog.Event) logAnswer {
	s.Helper()
	return s.send(want, eventlog.AppendEvents{Sequence: orders, Events: events, Scopes: scopes})
}

// effect returns an append with a receipt to the sequence "orders".
func effect(occurrence string, events ...eventlog.Event) receipt.AppendWithReceipt {
	return receipt.AppendWithReceipt{
		AppendEvents: eventlog.AppendEvents{Sequence: orders, Events: events},
		Occurrence:   occurrence, Effect: "effect", Epoch: 7, Response: []byte(`{"of": "` + occurrence + `"}`),
	}
}

// outcomeOnly returns a record of an effect without events.
func outcomeOnly(occurrence string, reasons ...string) receipt.RecordEffect {
	return receipt.RecordEffect{
		Effect:  receipt.Effect{Key: receipt.Key{Namespace: shop, Occurrence: occurrence, Effect: "effect"}, Epoch: 3},
		Reasons: reasons, Response: []byte(`"` + occurrence + `"`),
	}
}

// unique returns a constraint on the name of events that are opened or renamed.
func unique(name string) eventlog.Constraint {
	return eventlog.Constraint{
		Name: name, Kind: eventlog.UniqueValue,
		Covers:    []eventlog.Covered{{Type: opened, Properties: []string{"name"}}, {Type: renamed, Properties: []string{"name"}}},
		RemovedBy: []string{closedE},
	}
}

// constrain registers constraints.
func (s *logSession) constrain(all ...eventlog.Constraint) {
	s.Helper()
	s.send(registered, eventlog.RegisterConstraints{EventStore: shop.EventStore, Constraints: all})
}

// named returns the content with a name.
func withName(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }
