package storetest

import (
	"math"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// logFixture takes a file of the event log or the receipts.
func (r *reader) logFixture(root node) fixture {
	f := r.fields(root, []string{"protocol_version", "kind", "model", "description", "scenarios"})
	if r.err != nil {
		return fixture{}
	}
	if v, ok := r.number(f["protocol_version"]); r.err == nil && (!ok || v != 1) {
		r.fail(f["protocol_version"], "this suite knows version 1")
	}
	fx := fixture{
		model:       r.word(f["model"], "Sequence", "SchemaAndConstraint", "ConcurrencyScope", "FirstWriterWins", "EffectWithoutEvents"),
		description: r.text(f["description"]),
	}
	if r.err == nil && fx.description == "" {
		r.fail(f["description"], "is empty")
	}
	ids := map[string]bool{}
	r.each(f["scenarios"], 1, func(n node) {
		s := r.logScenario(n)
		if r.err == nil && ids[s.id] {
			r.fail(n, "a second scenario %q", s.id)
		}
		ids[s.id] = true
		fx.logs = append(fx.logs, s)
	})
	return fx
}

func (r *reader) logScenario(n node) logScenario {
	f := r.fields(n, []string{"id", "event_store", "namespace", "steps"})
	if r.err != nil {
		return logScenario{}
	}
	s := logScenario{id: r.id(f["id"]), ns: countersign.Namespace{EventStore: r.text(f["event_store"]), Name: r.text(f["namespace"])}}
	r.each(f["steps"], 1, func(n node) {
		f := r.fields(n, []string{"op", "expect"})
		if r.err != nil {
			return
		}
		expect := r.fields(f["expect"], []string{"result", "image"})
		var st logStep
		st.op, st.req = r.logOp(f["op"], s.ns)
		if r.err != nil {
			return
		}
		st.want = r.logResult(expect["result"], s.ns)
		st.image = r.logImage(expect["image"], s.ns)
		s.steps = append(s.steps, st)
	})
	return s
}

func (r *reader) logOp(n node, ns countersign.Namespace) (string, any) {
	all, ok := n.value.(map[string]node)
	if !ok || all["type"].value == nil {
		r.fail(n, "an operation needs a type")
		return "", nil
	}
	switch op := r.text(all["type"]); op {
	case opTypes:
		f := r.fields(n, []string{"type", "event_types"})
		req := eventlog.RegisterEventTypes{EventStore: ns.EventStore}
		r.each(f["event_types"], 0, func(n node) {
			f := r.fields(n, []string{"id", "schema"}, "generation")
			if r.err == nil {
				req.Types = append(req.Types, eventlog.EventType{ID: r.text(f["id"]), Generation: r.optionalVersion(f, "generation"), Schema: []byte(r.text(f["schema"]))})
			}
		})
		return op, req
	case opConstraints:
		f := r.fields(n, []string{"type"}, "constraints", "remove")
		req := eventlog.RegisterConstraints{EventStore: ns.EventStore, Remove: r.optionalTexts(f, "remove")}
		if all, ok := f["constraints"]; ok {
			r.each(all, 0, func(n node) { req.Constraints = append(req.Constraints, r.constraint(n)) })
		}
		return op, req
	case opAppend, opCrash:
		f := r.fields(n, []string{"type", "events"}, "sequence", "scopes", "receipt")
		return op, r.appendOp(f, ns)
	case opRecord:
		f := r.fields(n, []string{"type", "occurrence", "effect", "epoch"}, "reasons", "response")
		if r.err != nil {
			return "", nil
		}
		key := receipt.Key{Namespace: ns, Occurrence: r.text(f["occurrence"]), Effect: r.text(f["effect"])}
		return op, receipt.RecordEffect{Effect: receipt.Effect{Key: key, Epoch: r.operand(f["epoch"])}, Reasons: r.optionalTexts(f, "reasons"), Response: r.optionalBytes(f, "response")}
	case opDrop:
		r.fields(n, []string{"type"})
		return op, ns
	case opRecover:
		r.fields(n, []string{"type"})
		return op, nil
	default:
		r.fail(n, "unknown operation %q", op)
		return "", nil
	}
}

func (r *reader) appendOp(f map[string]node, ns countersign.Namespace) any {
	if r.err != nil {
		return nil
	}
	req := eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: ns, Name: r.optionalText(f, "sequence")}}
	r.each(f["events"], 0, func(n node) { req.Events = append(req.Events, r.event(n)) })
	if scopes, ok := f["scopes"]; ok {
		r.each(scopes, 0, func(n node) { req.Scopes = append(req.Scopes, r.scope(n)) })
	}
	intent, ok := f["receipt"]
	if !ok {
		return req
	}
	f = r.fields(intent, []string{"occurrence", "effect", "epoch"}, "response")
	if r.err != nil {
		return nil
	}
	return receipt.AppendWithReceipt{AppendEvents: req, Occurrence: r.text(f["occurrence"]), Effect: r.text(f["effect"]), Epoch: r.operand(f["epoch"]), Response: r.optionalBytes(f, "response")}
}

func (r *reader) event(n node, more ...string) eventlog.Event {
	f := r.fields(n, append([]string{"type", "source", "content", "occurred"}, more...),
		"generation", "source_type", "stream_type", "stream_id", "subject", "tags", "correlation_id", "causation_id", "caused_by")
	if r.err != nil {
		return eventlog.Event{}
	}
	e := eventlog.Event{
		Type: r.text(f["type"]), Generation: r.optionalVersion(f, "generation"), Source: r.text(f["source"]),
		SourceType: r.optionalText(f, "source_type"), StreamType: r.optionalText(f, "stream_type"), StreamID: r.optionalText(f, "stream_id"), Subject: r.optionalText(f, "subject"),
		Content: []byte(r.text(f["content"])), CorrelationID: r.optionalText(f, "correlation_id"), CausationID: r.optionalText(f, "causation_id"), CausedBy: r.optionalText(f, "caused_by"),
	}
	at, err := time.Parse(time.RFC3339Nano, r.text(f["occurred"]))
	if err != nil {
		r.fail(f["occurred"], "is no time of RFC 3339: %v", err)
	}
	e.Occurred = at
	if tags, ok := f["tags"]; ok {
		r.each(tags, 0, func(n node) {
			f := r.fields(n, []string{"value"}, "name")
			if r.err == nil {
				e.Tags = append(e.Tags, eventlog.Tag{Name: r.optionalText(f, "name"), Value: r.text(f["value"])})
			}
		})
	}
	return e
}

func (r *reader) scope(n node) eventlog.Scope {
	f := r.fields(n, nil, "label", "source", "source_type", "stream_type", "stream_id", "event_types", "seen", "none_yet")
	if r.err != nil {
		return eventlog.Scope{}
	}
	s := eventlog.Scope{
		Label: r.optionalText(f, "label"), Source: r.optionalText(f, "source"), SourceType: r.optionalText(f, "source_type"),
		StreamType: r.optionalText(f, "stream_type"), StreamID: r.optionalText(f, "stream_id"), EventTypes: r.optionalTexts(f, "event_types"),
	}
	seen, hasSeen := f["seen"]
	none, hasNone := f["none_yet"]
	switch {
	case hasSeen && hasNone:
		r.fail(n, "at most one of seen and none_yet may be there")
	case hasSeen:
		s.Expected = eventlog.Seen(r.operand(seen))
	case hasNone && r.boolean(none):
		s.Expected = eventlog.NoneYet()
	}
	return s
}

func (r *reader) constraint(n node) eventlog.Constraint {
	f := r.fields(n, []string{"name", "kind", "covers"}, "removed_by", "ignore_case", "within")
	if r.err != nil {
		return eventlog.Constraint{}
	}
	c := eventlog.Constraint{Name: r.text(f["name"]), Kind: eventlog.ConstraintKind(r.text(f["kind"])), RemovedBy: r.optionalTexts(f, "removed_by")}
	r.each(f["covers"], 0, func(n node) {
		f := r.fields(n, []string{"type"}, "properties")
		if r.err == nil {
			c.Covers = append(c.Covers, eventlog.Covered{Type: r.text(f["type"]), Properties: r.optionalTexts(f, "properties")})
		}
	})
	if fold, ok := f["ignore_case"]; ok {
		c.IgnoreCase = r.boolean(fold)
	}
	if within, ok := f["within"]; ok {
		r.each(within, 1, func(n node) {
			switch r.word(n, "source_type", "stream_type", "stream_id") {
			case "source_type":
				c.Within.SourceType = true
			case "stream_type":
				c.Within.StreamType = true
			case "stream_id":
				c.Within.StreamID = true
			}
		})
	}
	return c
}

func (r *reader) logResult(n node, ns countersign.Namespace) logResult {
	f := r.fields(n, []string{"outcome"}, "revision", "first", "last", "receipt", "violations", "scopes")
	if r.err != nil {
		return logResult{}
	}
	res := logResult{
		Outcome: r.word(f["outcome"], aborted, recovered, appended, alreadyRecorded, recordedEffect, registered, unchanged, dropped,
			violations, scopesViolated, schemaChanged, schemaError, malformed),
		Revision: r.optionalInteger(f, "revision"), First: r.optionalInteger(f, "first"), Last: r.optionalInteger(f, "last"),
	}
	if one, ok := f["receipt"]; ok {
		shown := showReceipt(r.receipt(one, ns))
		res.Receipt = &shown
	}
	if all, ok := f["violations"]; ok {
		r.each(all, 1, func(n node) {
			f := r.fields(n, []string{"event", "kind"}, "pointer", "keyword", "constraint", "holder", "in_batch")
			if r.err != nil {
				return
			}
			v := violationText{
				Event:   r.integer(f["event"], eventlog.MaxEvents),
				Kind:    r.word(f["kind"], string(eventlog.UnknownEventType), string(eventlog.SchemaViolation), string(eventlog.UniqueValueViolation), string(eventlog.UniqueEventTypeViolation)),
				Keyword: r.optionalText(f, "keyword"), Constraint: r.optionalText(f, "constraint"), Holder: r.optionalInteger(f, "holder"),
			}
			if pointer, ok := f["pointer"]; ok {
				text := r.text(pointer)
				v.Pointer = &text
			}
			if within, ok := f["in_batch"]; ok {
				v.InBatch = r.boolean(within)
			}
			res.Violations = append(res.Violations, v)
		})
	}
	if all, ok := f["scopes"]; ok {
		r.each(all, 1, func(n node) {
			f := r.fields(n, []string{"scope", "actual"})
			if r.err == nil {
				res.Scopes = append(res.Scopes, violatedText{r.integer(f["scope"], eventlog.MaxScopes), r.integer(f["actual"], countersign.MaxInteger)})
			}
		})
	}
	return res
}

func (r *reader) receipt(n node, ns countersign.Namespace) receipt.Receipt {
	f := r.fields(n, []string{"occurrence", "effect", "outcome", "epoch"}, "sequence", "first", "last", "reasons", "response")
	if r.err != nil {
		return receipt.Receipt{}
	}
	one := receipt.Receipt{
		Key:      receipt.Key{Namespace: ns, Occurrence: r.text(f["occurrence"]), Effect: r.text(f["effect"])},
		Outcome:  receipt.Outcome(r.word(f["outcome"], string(receipt.Appended), string(receipt.NoEvents), string(receipt.Refused))),
		Sequence: r.optionalText(f, "sequence"), Reasons: r.optionalTexts(f, "reasons"),
		Epoch: r.integer(f["epoch"], countersign.MaxInteger), Response: r.optionalBytes(f, "response"),
	}
	if first := r.optionalInteger(f, "first"); first != nil {
		one.First = *first
	}
	if last := r.optionalInteger(f, "last"); last != nil {
		one.Last = *last
	}
	return one
}

func (r *reader) logImage(n node, ns countersign.Namespace) logImage {
	f := r.fields(n, []string{"sequences", "receipts"})
	img := logImage{sequences: map[string][]eventlog.Recorded{}}
	if r.err != nil {
		return img
	}
	r.each(f["sequences"], 0, func(n node) {
		f := r.fields(n, []string{"name", "events"})
		if r.err != nil {
			return
		}
		name := r.text(f["name"])
		if img.sequences[name] != nil {
			r.fail(n, "a second sequence %q", name)
		}
		r.each(f["events"], 1, func(n node) {
			e := r.event(n, "number", "generation")
			if r.err == nil {
				number := n.value.(map[string]node)["number"]
				img.sequences[name] = append(img.sequences[name], eventlog.Recorded{Number: r.integer(number, countersign.MaxInteger), Event: e})
			}
		})
	})
	r.each(f["receipts"], 0, func(n node) { img.receipts = append(img.receipts, r.receipt(n, ns)) })
	return img
}

func (r *reader) optionalText(f map[string]node, name string) string {
	n, ok := f[name]
	if !ok {
		return ""
	}
	return r.text(n)
}

func (r *reader) optionalTexts(f map[string]node, name string) []string {
	n, ok := f[name]
	if !ok {
		return nil
	}
	all := []string{}
	r.each(n, 0, func(n node) { all = append(all, r.text(n)) })
	return all
}

func (r *reader) optionalBytes(f map[string]node, name string) []byte {
	n, ok := f[name]
	if !ok {
		return nil
	}
	return []byte(r.text(n))
}

func (r *reader) optionalInteger(f map[string]node, name string) *uint64 {
	n, ok := f[name]
	if !ok {
		return nil
	}
	v := r.integer(n, math.MaxUint64)
	return &v
}

func (r *reader) optionalVersion(f map[string]node, name string) uint32 {
	n, ok := f[name]
	if !ok {
		return 0
	}
	return r.version(n)
}
