package storetest

import (
	"fmt"
	"regexp"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// fixture is a file of fixtures: of the durable owner, of the event log or of the
// receipts.
type fixture struct {
	model       string
	description string
	scenarios   []scenario
	logs        []logScenario // of the event log and the receipts
}

// scenario has steps, or a fingerprint case with or without reconciliations.
type scenario struct {
	id              string
	owner           string
	mode            durable.Mode
	fence           uint64
	steps           []step
	fingerprints    *fingerprintCase
	reconciliations []reconciliation
}

// step is one operation and what must come of it.
type step struct {
	op    string
	req   request // nil for crash_recover
	want  result
	image durable.Image
}

// Operations of a step.
const (
	opCommit  = "commit"
	opCrash   = "crash_before_commit"
	opRecover = "crash_recover"
	opFence   = "advance_fence"
	opReceipt = "record_receipt"
)

// result is the result of a step. Fields that are absent are nil and "".
type result struct {
	outcome string
	through *uint64
	ack     string
}

func (r result) String() string {
	s := fmt.Sprintf(`{"outcome": %q`, r.outcome)
	if r.through != nil {
		s += fmt.Sprintf(`, "through": %d`, *r.through)
	}
	if r.ack != "" {
		s += fmt.Sprintf(`, "ack": %q`, r.ack)
	}
	return s + "}"
}

// fingerprintCase compares the fingerprints of two histories.
type fingerprintCase struct {
	history    [2][]durable.Record // left and right
	projection [2]durable.Payload
	latest     [2]durable.Payload

	sameProjection, sameHistory, sameLatest bool
	historyCapability, latestCapability     durable.Completeness
}

// reconciliation compares an observed projection with a rebuild.
type reconciliation struct {
	id       string
	resume   *durable.Checkpoint
	history  []durable.Step
	expected durable.Checkpoint
	observed durable.Checkpoint

	health    durable.Health
	drift     bool
	lag       uint64
	authority durable.Authority
	effectID  string
}

var fixtureID = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// parseFixture reads a fixture file strictly: what it does not know is an error,
// so that no expectation is passed over.
func parseFixture(data []byte) (fixture, error) {
	root, err := parseJSON(data)
	if err != nil {
		return fixture{}, err
	}
	var r reader
	if kind := kindOfFixture(root); kind == eventLogKind || kind == effectReceiptKind {
		fx := r.logFixture(root)
		return fx, r.err
	}
	f := r.fields(root, []string{"protocol_version", "kind", "model", "description", "scenarios"})
	if r.err != nil {
		return fixture{}, r.err
	}
	if v, ok := r.number(f["protocol_version"]); r.err == nil && (!ok || v != 1) {
		r.fail(f["protocol_version"], "this suite knows version 1")
	}
	r.word(f["kind"], "DurableOwner")
	fx := fixture{
		model:       r.word(f["model"], "AtomicCrashBoundary", "OrderedReplay", "IdentityDeduplication", "ProjectionFingerprint"),
		description: r.text(f["description"]),
	}
	if r.err == nil && fx.description == "" {
		r.fail(f["description"], "is empty")
	}
	ids := map[string]bool{}
	r.each(f["scenarios"], 1, func(n node) {
		s := r.scenario(n)
		if r.err == nil && ids[s.id] {
			r.fail(n, "a second scenario %q", s.id)
		}
		ids[s.id] = true
		fx.scenarios = append(fx.scenarios, s)
	})
	if r.err != nil {
		return fixture{}, r.err
	}
	return fx, nil
}

func (r *reader) id(n node) string {
	id := r.text(n)
	if r.err == nil && !fixtureID.MatchString(id) {
		r.fail(n, "%q is no id: it must match %s", id, fixtureID)
	}
	return id
}

func (r *reader) scenario(n node) scenario {
	f := r.fields(n, []string{"id", "owner_id", "mode", "fence"}, "steps", "fingerprint_case", "reconciliation_cases")
	if r.err != nil {
		return scenario{}
	}
	s := scenario{
		id:    r.id(f["id"]),
		owner: r.text(f["owner_id"]),
		mode:  durable.Mode(r.word(f["mode"], string(durable.EventHistory), string(durable.Snapshot))),
		fence: r.integer(f["fence"], countersign.MaxInteger),
	}
	steps, hasSteps := f["steps"]
	fingerprints, hasFingerprints := f["fingerprint_case"]
	reconciliations, hasReconciliations := f["reconciliation_cases"]
	switch {
	case hasSteps == hasFingerprints:
		r.fail(n, "exactly one of steps and fingerprint_case is needed")
	case hasReconciliations && !hasFingerprints:
		r.fail(n, "reconciliation_cases stand next to a fingerprint_case only")
	}
	if hasSteps {
		r.each(steps, 1, func(n node) { s.steps = append(s.steps, r.step(n, s)) })
	}
	if hasFingerprints {
		s.fingerprints = r.fingerprintCase(fingerprints)
	}
	if hasReconciliations {
		ids := map[string]bool{}
		r.each(reconciliations, 1, func(n node) {
			c := r.reconciliation(n)
			if r.err == nil && ids[c.id] {
				r.fail(n, "a second case %q", c.id)
			}
			ids[c.id] = true
			s.reconciliations = append(s.reconciliations, c)
		})
	}
	return s
}

func (r *reader) step(n node, s scenario) step {
	f := r.fields(n, []string{"op", "expect"})
	if r.err != nil {
		return step{}
	}
	expect := r.fields(f["expect"], []string{"result", "image"})
	var st step
	st.op, st.req = r.op(f["op"], s.owner)
	if r.err != nil {
		return step{}
	}
	st.want = r.result(expect["result"])
	st.image = r.image(expect["image"], s)
	return st
}

func (r *reader) op(n node, owner string) (string, request) {
	all, ok := n.value.(map[string]node)
	if !ok || all["type"].value == nil {
		r.fail(n, "an operation needs a type")
		return "", nil
	}
	switch op := r.text(all["type"]); op {
	case opCommit, opCrash:
		f := r.fields(n, []string{"type", "commit"})
		return op, r.commit(f["commit"])
	case opRecover:
		r.fields(n, []string{"type"})
		return op, nil
	case opFence:
		f := r.fields(n, []string{"type", "fence"})
		return op, durable.AdvanceFence{Owner: owner, Fence: r.operand(f["fence"])}
	case opReceipt:
		f := r.fields(n, []string{"type", "fence", "receipt"})
		return op, durable.RecordReceipt{Owner: owner, Fence: r.operand(f["fence"]), Receipt: r.terminalReceipt(f["receipt"])}
	default:
		r.fail(n, "unknown operation %q", op)
		return "", nil
	}
}

func (r *reader) commit(n node) durable.Commit {
	f := r.fields(n, []string{"owner_id", "expected_position", "fence", "inbox_id", "ingress_fingerprint", "state"}, "effects", "receipts")
	if r.err != nil {
		return durable.Commit{}
	}
	c := durable.Commit{
		Owner:            r.text(f["owner_id"]),
		ExpectedPosition: r.operand(f["expected_position"]),
		Fence:            r.operand(f["fence"]),
		Inbox:            durable.Inbox{ID: r.text(f["inbox_id"]), Fingerprint: []byte(r.text(f["ingress_fingerprint"]))},
		State:            r.state(f["state"]),
	}
	if effects, ok := f["effects"]; ok {
		r.each(effects, 0, func(n node) {
			f := r.fields(n, []string{"id", "payload"})
			c.Effects = append(c.Effects, durable.Intent{ID: r.text(f["id"]), Payload: r.payload(f["payload"])})
		})
	}
	if receipts, ok := f["receipts"]; ok {
		r.each(receipts, 0, func(n node) { c.Receipts = append(c.Receipts, r.terminalReceipt(n)) })
	}
	return c
}

func (r *reader) state(n node) durable.StateChange {
	f := r.fields(n, nil, "append_events", "replace_snapshot")
	events, appends := f["append_events"]
	snapshot, replaces := f["replace_snapshot"]
	if r.err == nil && appends == replaces {
		r.fail(n, "exactly one of append_events and replace_snapshot is needed")
	}
	var s durable.StateChange
	if appends {
		r.each(events, 1, func(n node) { s.AppendEvents = append(s.AppendEvents, r.payload(n)) })
	}
	if replaces {
		s = durable.Replace(r.payload(snapshot))
	}
	return s
}

// payload takes a payload of an operation, which may be malformed on purpose.
func (r *reader) payload(n node) durable.Payload {
	f := r.fields(n, []string{"schema_version", "codec_version", "bytes"})
	if r.err != nil {
		return durable.Payload{}
	}
	return durable.Payload{
		SchemaVersion: r.version(f["schema_version"]),
		CodecVersion:  r.version(f["codec_version"]),
		Bytes:         []byte(r.text(f["bytes"])),
	}
}

func (r *reader) terminalReceipt(n node) durable.TerminalReceipt {
	f := r.fields(n, []string{"id", "effect_id", "outcome", "payload"})
	if r.err != nil {
		return durable.TerminalReceipt{}
	}
	return durable.TerminalReceipt{
		ID: r.text(f["id"]), EffectID: r.text(f["effect_id"]),
		Outcome: durable.Outcome(r.text(f["outcome"])), Payload: r.payload(f["payload"]),
	}
}

func (r *reader) result(n node) result {
	f := r.fields(n, []string{"outcome"}, "through", "ack")
	if r.err != nil {
		return result{}
	}
	res := result{outcome: r.word(f["outcome"], aborted, committed, duplicate, recovered, fenceAdvanced, recorded, recordedBefore,
		positionConflict, staleFence, inboxConflict, effectConflict, receiptConflict, receiptedBefore,
		malformed, unknownOwner, unknownEffect, modeMismatch, fenceStood, overflow)}
	if through, ok := f["through"]; ok {
		v := r.integer(through, countersign.MaxInteger)
		res.through = &v
	}
	if ack, ok := f["ack"]; ok {
		res.ack = r.word(ack, ackSafe, ackWithhold)
	}
	return res
}

// accepted takes a payload of an image, which a store has accepted.
func (r *reader) accepted(n node) durable.Payload {
	f := r.fields(n, []string{"schema_version", "codec_version", "bytes"})
	if r.err != nil {
		return durable.Payload{}
	}
	return durable.Payload{
		SchemaVersion: uint32(r.integer(f["schema_version"], durable.MaxVersion)),
		CodecVersion:  uint32(r.integer(f["codec_version"], durable.MaxVersion)),
		Bytes:         []byte(r.text(f["bytes"])),
	}
}

func (r *reader) record(n node) durable.Record {
	f := r.fields(n, []string{"position", "payload"})
	if r.err != nil {
		return durable.Record{}
	}
	return durable.Record{Position: r.position(f["position"]), Payload: r.accepted(f["payload"])}
}

func (r *reader) records(n node, least int) []durable.Record {
	var all []durable.Record
	r.each(n, least, func(n node) { all = append(all, r.record(n)) })
	return all
}

func (r *reader) position(n node) uint64 { return r.integer(n, countersign.MaxInteger) }

func (r *reader) image(n node, s scenario) durable.Image {
	f := r.fields(n, []string{"position", "fence", "history", "snapshot", "inbox", "outbox", "receipts", "pending_effect_ids"})
	if r.err != nil {
		return durable.Image{}
	}
	img := durable.Image{
		Head:    durable.Head{Owner: s.owner, Mode: s.mode, Position: r.position(f["position"]), Fence: r.position(f["fence"])},
		History: r.records(f["history"], 0),
	}
	if !r.null(f["snapshot"]) {
		snapshot := r.record(f["snapshot"])
		img.Snapshot = &snapshot
	}
	r.each(f["inbox"], 0, func(n node) {
		f := r.fields(n, []string{"id", "ingress_fingerprint", "committed_through"})
		if r.err != nil {
			return
		}
		img.Inbox = append(img.Inbox, durable.InboxRecord{
			ID: r.text(f["id"]), Fingerprint: []byte(r.text(f["ingress_fingerprint"])), CommittedThrough: r.position(f["committed_through"]),
		})
	})
	effects := map[string]durable.Effect{}
	r.each(f["outbox"], 0, func(n node) {
		f := r.fields(n, []string{"id", "accepted_at", "payload"})
		if r.err != nil {
			return
		}
		e := durable.Effect{ID: r.text(f["id"]), AcceptedAt: r.position(f["accepted_at"]), Payload: r.accepted(f["payload"])}
		effects[e.ID] = e
		img.Outbox = append(img.Outbox, e)
	})
	r.each(f["receipts"], 0, func(n node) {
		f := r.fields(n, []string{"id", "effect_id", "outcome", "recorded_at", "fence", "payload"})
		if r.err != nil {
			return
		}
		img.Receipts = append(img.Receipts, durable.Receipt{
			ID: r.text(f["id"]), EffectID: r.text(f["effect_id"]),
			Outcome:    durable.Outcome(r.word(f["outcome"], string(durable.Applied), string(durable.Rejected))),
			RecordedAt: r.position(f["recorded_at"]), Fence: r.position(f["fence"]), Payload: r.accepted(f["payload"]),
		})
	})
	r.each(f["pending_effect_ids"], 0, func(n node) {
		e, ok := effects[r.text(n)]
		if r.err == nil && !ok {
			r.fail(n, "the effect is not in the outbox")
		}
		img.Pending = append(img.Pending, e)
	})
	return img
}

func (r *reader) fingerprintCase(n node) *fingerprintCase {
	f := r.fields(n, []string{"left_history", "right_history", "left_projection", "right_projection", "left_latest", "right_latest", "expect"})
	if r.err != nil {
		return nil
	}
	e := r.fields(f["expect"], []string{"projection_fingerprint_relation", "history_fingerprint_relation", "latest_fingerprint_relation", "history_capability", "latest_capability"})
	if r.err != nil {
		return nil
	}
	equal := func(n node) bool { return r.word(n, "equal", "different") == "equal" }
	return &fingerprintCase{
		history:           [2][]durable.Record{r.records(f["left_history"], 1), r.records(f["right_history"], 1)},
		projection:        [2]durable.Payload{r.accepted(f["left_projection"]), r.accepted(f["right_projection"])},
		latest:            [2]durable.Payload{r.accepted(f["left_latest"]), r.accepted(f["right_latest"])},
		sameProjection:    equal(e["projection_fingerprint_relation"]),
		sameHistory:       equal(e["history_fingerprint_relation"]),
		sameLatest:        equal(e["latest_fingerprint_relation"]),
		historyCapability: durable.Completeness(r.word(e["history_capability"], string(durable.CompleteHistory))),
		latestCapability:  durable.Completeness(r.word(e["latest_capability"], string(durable.LatestStateOnly))),
	}
}

func (r *reader) reconciliation(n node) reconciliation {
	f := r.fields(n, []string{"id", "history", "resume_from", "expected", "observed_projection", "expect"})
	if r.err != nil {
		return reconciliation{}
	}
	e := r.fields(f["expect"], []string{"health", "drift", "lag", "transition_authority", "reconciliation_effect_id"})
	if r.err != nil {
		return reconciliation{}
	}
	c := reconciliation{
		id:        r.id(f["id"]),
		expected:  r.checkpoint(f["expected"]),
		observed:  r.checkpoint(f["observed_projection"]),
		health:    durable.Health(r.word(e["health"], string(durable.Healthy), string(durable.Lagging), string(durable.Drifted))),
		drift:     r.boolean(e["drift"]),
		lag:       r.position(e["lag"]),
		authority: durable.Authority(r.word(e["transition_authority"], string(durable.DurableOwner))),
		effectID:  r.text(e["reconciliation_effect_id"]),
	}
	r.each(f["history"], 0, func(n node) { c.history = append(c.history, r.fact(n)) })
	if !r.null(f["resume_from"]) {
		from := r.checkpoint(f["resume_from"])
		c.resume = &from
	}
	return c
}

func (r *reader) fact(n node) durable.Step {
	f := r.fields(n, []string{"position", "type", "entity_id"}, "value")
	if r.err != nil {
		return durable.Step{}
	}
	fact := durable.Fact{
		Type:     durable.FactType(r.word(f["type"], string(durable.Create), string(durable.Amend), string(durable.Retract))),
		EntityID: r.text(f["entity_id"]),
	}
	value, has := f["value"]
	if has == (fact.Type == durable.Retract) {
		r.fail(n, "a value is required with create and amend, and forbidden with retract")
	}
	if has {
		fact.Value = r.text(value)
	}
	return durable.Step{Position: r.position(f["position"]), Fact: &fact}
}

func (r *reader) checkpoint(n node) durable.Checkpoint {
	f := r.fields(n, []string{"through", "projection_version", "entries"})
	if r.err != nil {
		return durable.Checkpoint{}
	}
	c := durable.Checkpoint{Through: r.position(f["through"]), ProjectionVersion: r.position(f["projection_version"])}
	r.each(f["entries"], 0, func(n node) {
		f := r.fields(n, []string{"entity_id", "value"})
		if r.err == nil {
			c.Entries = append(c.Entries, durable.Entry{EntityID: r.text(f["entity_id"]), Value: r.text(f["value"])})
		}
	})
	return c
}
