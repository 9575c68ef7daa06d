package storetest

import (
	"math"
	"strings"
	"testing"

	"github.com/countersign/countersign/conformance"
	"github.com/countersign/countersign/durable"
)

const payloadJSON = `{"schema_version": 1, "codec_version": 2, "bytes": "a"}`

const imageJSON = `{"position": 1, "fence": 0, "history": [{"position": 1, "payload": ` + payloadJSON + `}], "snapshot": null,
	"inbox": [{"id": "m1", "ingress_fingerprint": "", "committed_through": 1}], "outbox": [], "receipts": [], "pending_effect_ids": []}`

const commitJSON = `{"owner_id": "o", "expected_position": 0, "fence": 0, "inbox_id": "m1", "ingress_fingerprint": "",
	"state": {"append_events": [` + payloadJSON + `]}}`

const stepJSON = `{"op": {"type": "commit", "commit": ` + commitJSON + `}, "expect": {"result": {"outcome": "committed", "through": 1, "ack": "safe"}, "image": ` + imageJSON + `}}`

const checkpointJSON = `{"through": 0, "projection_version": 0, "entries": []}`

const evidenceJSON = `{"left_history": [{"position": 1, "payload": ` + payloadJSON + `}], "right_history": [{"position": 1, "payload": ` + payloadJSON + `}],
	"left_projection": ` + payloadJSON + `, "right_projection": ` + payloadJSON + `, "left_latest": ` + payloadJSON + `, "right_latest": ` + payloadJSON + `,
	"expect": {"projection_fingerprint_relation": "equal", "history_fingerprint_relation": "equal", "latest_fingerprint_relation": "equal",
		"history_capability": "complete_history", "latest_capability": "latest_state_only"}}`

const reconciliationJSON = `{"id": "c", "history": [{"position": 1, "type": "create", "entity_id": "e", "value": "v"}], "resume_from": null,
	"expected": {"through": 1, "projection_version": 1, "entries": [{"entity_id": "e", "value": "v"}]}, "observed_projection": ` + checkpointJSON + `,
	"expect": {"health": "lagging", "drift": true, "lag": 1, "transition_authority": "durable_owner", "reconciliation_effect_id": "reconcile/o/1"}}`

const fixtureJSON = `{"protocol_version": 1, "kind": "DurableOwner", "model": "OrderedReplay", "description": "d", "scenarios": [
	{"id": "steps", "owner_id": "o", "mode": "event_history", "fence": 0, "steps": [` + stepJSON + `]},
	{"id": "evidence", "owner_id": "o", "mode": "event_history", "fence": 0, "fingerprint_case": ` + evidenceJSON + `, "reconciliation_cases": [` + reconciliationJSON + `]}]}`

func TestFixtureParses(t *testing.T) {
	fx, err := parseFixture([]byte(fixtureJSON))
	if err != nil {
		t.Fatal(err)
	}
	c := fx.scenarios[0].steps[0].req.(durable.Commit)
	if len(fx.scenarios) != 2 || c.Inbox.ID != "m1" || c.Effects != nil || c.Receipts != nil || c.State.AppendEvents[0].CodecVersion != 2 {
		t.Fatalf("%+v", fx)
	}
}

func TestEmbeddedFixturesParse(t *testing.T) {
	cases, err := fixtureCases(conformance.DurableOwner())
	if err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
}

// Each is the good fixture with one thing wrong.
func TestFixtureIsStrict(t *testing.T) {
	before, _, _ := strings.Cut(fixtureJSON, `"scenarios"`)
	for _, tt := range []struct{ name, old, new, want string }{
		{"no file", fixtureJSON, ``, "the file ends here"},
		{"cut short", fixtureJSON, fixtureJSON[:400], "EOF"},
		{"not an object", fixtureJSON, `[]`, "not an object"},
		{"no JSON", fixtureJSON, `{"protocol_version": 1,}`, "invalid character"},
		{"trailing data", fixtureJSON, fixtureJSON + `{}`, "data follows"},
		{"trailing letter", fixtureJSON, fixtureJSON + `x`, "data follows"},
		{"unknown field", `"description"`, `"comment": 1, "description"`, `"comment" is unknown`},
		{"unknown field in an image", `"outbox": []`, `"outbox": [], "row_count": 1`, `"row_count" is unknown`},
		{"field of another case", `"inbox_id"`, `"Inbox_ID"`, "is missing"},
		{"duplicate key", `"fence": 0, "inbox_id"`, `"fence": 0, "fence": 0, "inbox_id"`, "stands there twice"},
		{"escaped duplicate key", `"fence": 0, "inbox_id"`, `"fence": 0, "f\u0065nce": 1, "inbox_id"`, "stands there twice"},
		{"missing field", `"ingress_fingerprint": "",` + "\n", "\n", `"ingress_fingerprint" is missing`},
		{"missing snapshot", `"snapshot": null,`, ``, `"snapshot" is missing`},
		{"missing resume", `"resume_from": null,`, ``, `"resume_from" is missing`},
		{"other version", `"protocol_version": 1`, `"protocol_version": 2`, "knows version 1"},
		{"other kind", `"DurableOwner"`, `"Occurrence"`, "none of"},
		{"other model", `"OrderedReplay"`, `"Replay"`, "none of"},
		{"empty description", `"description": "d"`, `"description": ""`, "is empty"},
		{"no scenarios", `"scenarios": [`, `"scenarios": [], "x": [`, "unknown"},
		{"empty scenarios", fixtureJSON, before + `"scenarios": []}`, "at least 1"},
		{"malformed id", `"id": "steps"`, `"id": "Steps"`, "no id"},
		{"same id twice", `"id": "evidence"`, `"id": "steps"`, "second scenario"},
		{"other mode", `"mode": "event_history"`, `"mode": "history"`, "none of"},
		{"neither steps nor evidence", `"steps": [` + stepJSON + `]`, `"reconciliation_cases": [` + reconciliationJSON + `]`, "exactly one"},
		{"steps and evidence", `"steps": [`, `"fingerprint_case": ` + evidenceJSON + `, "steps": [`, "exactly one"},
		{"reconciliation without evidence", `"steps": [`, `"reconciliation_cases": [` + reconciliationJSON + `], "steps": [`, "next to a fingerprint_case"},
		{"empty steps", stepJSON, ``, "at least 1"},
		{"no events", `"append_events": [` + payloadJSON + `]`, `"append_events": []`, "at least 1"},
		{"no state", `"append_events": [` + payloadJSON + `]`, ``, "exactly one"},
		{"both states", `"state": {`, `"state": {"replace_snapshot": ` + payloadJSON + `, `, "exactly one"},
		{"unknown operation", `"type": "commit"`, `"type": "delete"`, "unknown operation"},
		{"no operation", `"type": "commit",`, ``, "needs a type"},
		{"commit of a crash_recover", `"type": "commit"`, `"type": "crash_recover"`, `"commit" is unknown`},
		{"commit of an advance_fence", `"type": "commit"`, `"type": "advance_fence"`, `"fence" is missing`},
		{"unknown outcome", `"outcome": "committed"`, `"outcome": "ok"`, "none of"},
		{"unknown ack", `"ack": "safe"`, `"ack": "maybe"`, "none of"},
		{"position that does not fit", `"position": 1, "fence"`, `"position": 9223372036854775808, "fence"`, "not an integer"},
		{"position with a fraction", `"position": 1, "fence"`, `"position": 1.5, "fence"`, "not an integer"},
		{"negative position", `"position": 1, "fence"`, `"position": -1, "fence"`, "not an integer"},
		{"position as a string", `"position": 1, "fence"`, `"position": "1", "fence"`, "not a number"},
		{"pending effect that there is none of", `"pending_effect_ids": []`, `"pending_effect_ids": ["e1"]`, "not in the outbox"},
		{"retract with a value", `"type": "create"`, `"type": "retract"`, "value is required"},
		{"create without a value", `, "value": "v"}], "resume_from"`, `}], "resume_from"`, "value is required"},
		{"other fact", `"type": "create"`, `"type": "upsert"`, "none of"},
		{"drift as a word", `"drift": true`, `"drift": "true"`, "neither true nor false"},
		{"empty history", `"left_history": [{"position": 1, "payload": ` + payloadJSON + `}]`, `"left_history": []`, "at least 1"},
		{"null for an object", `"state": {"append_events": [` + payloadJSON + `]}`, `"state": null`, "not an object"},
		{"not UTF-8", `"description": "d"`, "\"description\": \"\xff\"", "not valid UTF-8"},
		{"half a surrogate pair", `"description": "d"`, `"description": "\ud800"`, "half a surrogate pair"},
		{"the other half", `"description": "d"`, `"description": "\udc00"`, "half a surrogate pair"},
		{"two first halves", `"description": "d"`, `"description": "\ud800\ud800"`, "half a surrogate pair"},
		{"too deep", `"description": "d"`, `"description": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100), "deeper than"},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			bad := strings.Replace(fixtureJSON, tt.old, tt.new, 1)
			if bad == fixtureJSON {
				t.Fatal("nothing is wrong with it")
			}
			if _, err := parseFixture([]byte(bad)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("want an error with %q, got %v", tt.want, err)
			}
		})
	}
}

func TestFixtureTakesWholeSurrogatePairsAndEscapes(t *testing.T) {
	fx, err := parseFixture([]byte(strings.Replace(fixtureJSON, `"description": "d"`, `"description": "\ud83d\ude00\\ud800\u0041"`, 1)))
	if want := "\U0001f600\\ud800A"; err != nil || fx.description != want {
		t.Fatalf("want %q, got %q, %v", want, fx.description, err)
	}
}

// What an operation carries must get to the store, and be refused there.
func TestNumbersThatDoNotFitAreMalformedInput(t *testing.T) {
	for number, want := range map[string]uint64{
		"0": 0, "7": 7, "1.0": 1, "1e2": 100, "9223372036854775807": 1<<63 - 1, "18446744073709551615": math.MaxUint64,
		"18446744073709551616": math.MaxUint64, "1e400": math.MaxUint64, "-1": math.MaxUint64, "0.5": math.MaxUint64, "1e20": math.MaxUint64,
	} {
		fx, err := parseFixture([]byte(strings.Replace(fixtureJSON, `"expected_position": 0`, `"expected_position": `+number, 1)))
		if err != nil {
			t.Errorf("%s: %v", number, err)
			continue
		}
		if c := fx.scenarios[0].steps[0].req.(durable.Commit); c.ExpectedPosition != want {
			t.Errorf("%s became %d, want %d", number, c.ExpectedPosition, want)
		}
	}
	for _, number := range []string{"0", "-1", "2147483648", "4294967296", "4294967297", "1.5", "1e99", "99999999999999999999999"} {
		fx, err := parseFixture([]byte(strings.Replace(fixtureJSON, `"schema_version": 1`, `"schema_version": `+number, 1)))
		if err != nil {
			t.Errorf("version %s: %v", number, err)
			continue
		}
		if c := fx.scenarios[0].steps[0].req.(durable.Commit); c.Check() == nil {
			t.Errorf("version %s became the good version %d", number, c.State.AppendEvents[0].SchemaVersion)
		}
	}
}

func TestFixtureOfTooManyBytesIsRefused(t *testing.T) {
	big := strings.Replace(fixtureJSON, `"description": "d"`, `"description": "`+strings.Repeat("d", maxFixtureBytes)+`"`, 1)
	if _, err := parseFixture([]byte(big)); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Fatal(err)
	}
}

// Whatever a file holds, it is a fixture or an error. What is in a fixture can be
// shown, and given to the rules.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(fixtureJSON))
	f.Add([]byte(`{"protocol_version": 1, "kind": "DurableOwner"}`))
	f.Add([]byte(strings.Replace(fixtureJSON, `"expected_position": 0`, `"expected_position": 1e400`, 1)))
	f.Add([]byte(strings.Replace(fixtureJSON, `"type": "commit"`, `"type": "crash_before_commit"`, 1)))
	f.Add([]byte("{\"a\": \"\\ud800\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fx, err := parseFixture(data)
		if err != nil {
			return
		}
		if len(fx.scenarios) == 0 {
			t.Fatal("a fixture without scenarios")
		}
		for _, s := range fx.scenarios {
			for _, st := range s.steps {
				_, _ = show(st.image), st.want.String()
				if st.req != nil {
					_ = describe(st.req)
					decide(&st.image, st.req)
				}
			}
			for _, c := range s.reconciliations {
				_, _ = durable.Reconcile(s.owner, durable.Checkpoint{}, c.history, c.observed)
			}
		}
	})
}
