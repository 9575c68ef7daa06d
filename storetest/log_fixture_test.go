package storetest

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/countersign/countersign/conformance"
)

const logFixtureJSON = `{"protocol_version": 1, "kind": "EffectReceipt", "model": "FirstWriterWins", "description": "d", "scenarios": [
	{"id": "one", "event_store": "s", "namespace": "n", "steps": [
		{"op": {"type": "register_event_types", "event_types": [{"id": "t", "schema": "{\"type\":\"integer\"}"}]}, "expect": {"result": {"outcome": "registered", "revision": 1}, "image": {"sequences": [], "receipts": []}}},
		{"op": {"type": "register_constraints", "constraints": [{"name": "c", "kind": "unique_value", "covers": [{"type": "t", "properties": ["/"]}], "removed_by": ["r"], "ignore_case": true, "within": ["stream_id"]}], "remove": ["d"]},
			"expect": {"result": {"outcome": "registered", "revision": 2}, "image": {"sequences": [], "receipts": []}}},
		{"op": {"type": "append", "sequence": "q", "events": [{"type": "t", "generation": 1, "source": "a", "content": "1", "occurred": "2026-01-02T03:04:05Z", "tags": [{"value": "v"}]}],
			"scopes": [{"source": "a", "none_yet": true}], "receipt": {"occurrence": "o", "effect": "e", "epoch": 3, "response": "null"}},
			"expect": {"result": {"outcome": "appended", "receipt": {"occurrence": "o", "effect": "e", "outcome": "appended", "sequence": "q", "first": 0, "last": 0, "epoch": 3, "response": "null"}},
			"image": {"sequences": [{"name": "q", "events": [{"number": 0, "type": "t", "generation": 1, "source": "a", "content": "1", "occurred": "2026-01-02T03:04:05Z", "tags": [{"value": "v"}]}]}],
				"receipts": [{"occurrence": "o", "effect": "e", "outcome": "appended", "sequence": "q", "first": 0, "last": 0, "epoch": 3, "response": "null"}]}}},
		{"op": {"type": "append", "sequence": "q", "events": [{"type": "t", "source": "a", "content": "\"x\"", "occurred": "2026-01-02T03:04:05Z"}]},
			"expect": {"result": {"outcome": "violations", "violations": [{"event": 0, "kind": "schema", "pointer": "", "keyword": "type"}]},
			"image": {"sequences": [{"name": "q", "events": [{"number": 0, "type": "t", "generation": 1, "source": "a", "content": "1", "occurred": "2026-01-02T03:04:05Z", "tags": [{"value": "v"}]}]}],
				"receipts": [{"occurrence": "o", "effect": "e", "outcome": "appended", "sequence": "q", "first": 0, "last": 0, "epoch": 3, "response": "null"}]}}}
	]}]}`

func replayLog(t *testing.T, text string) Verdict {
	t.Helper()
	return verdictOf(t, func(t T) { Replay(t, goodHarness(), fstest.MapFS{"f.json": {Data: []byte(text)}}) })
}

// Each is the good fixture with one thing changed.
func TestReplayComparesEverythingOfALog(t *testing.T) {
	if v := replayLog(t, logFixtureJSON); v.Failed() {
		t.Fatal(strings.Join(v.Failures, "\n"))
	}
	for old, replacement := range map[string]string{
		`"revision": 2}`:                        `"revision": 3}`,
		`"outcome": "violations", "violations"`: `"outcome": "scopes_violated", "violations"`,
		`"keyword": "type"`:                     `"keyword": "required"`,
		`"pointer": ""`:                         `"pointer": "/a"`,
		`[{"event": 0, "kind"`:                  `[{"event": 1, "kind"`,
		`"receipt": {"occurrence": "o", "effect": "e", "outcome": "appended", "sequence": "q", "first": 0, "last": 0`: `"receipt": {"occurrence": "o", "effect": "e", "outcome": "appended", "sequence": "q", "first": 0, "last": 1`,
		`"epoch": 3, "response": "null"}},`: `"epoch": 3}},`,
		`"events": [{"number": 0`:           `"events": [{"number": 1`,
		`{"name": "q", "events"`:            `{"name": "p", "events"`,
		`"content": "1", "occurred": "2026-01-02T03:04:05Z", "tags": [{"value": "v"}]}]}],`: `"content": "1 ", "occurred": "2026-01-02T03:04:05Z", "tags": [{"value": "v"}]}]}],`,
		`"receipts": [{"occurrence": "o", "effect": "e"`:                                    `"receipts": [{"occurrence": "o", "effect": "f"`,
	} {
		wrong := strings.Replace(logFixtureJSON, old, replacement, 1)
		if wrong == logFixtureJSON {
			t.Fatalf("%s: nothing is wrong with it", old)
		}
		if v := replayLog(t, wrong); !v.Failed() || strings.Contains(v.Failures[0], "is not a fixture") {
			t.Errorf("%s: %q", replacement, v.Failures)
		}
	}
}

// What it does not know is an error, so that no expectation is passed over.
func TestLogFixtureIsReadStrictly(t *testing.T) {
	for old, replacement := range map[string]string{
		`"protocol_version": 1`:                      `"protocol_version": 2`,
		`"model": "FirstWriterWins"`:                 `"model": "Sequences"`,
		`"description": "d"`:                         `"description": ""`,
		`"id": "one"`:                                `"id": "One"`,
		`"namespace": "n", "steps"`:                  `"namespace": "n", "more": 1, "steps"`,
		`"schema": "{\"type\"`:                       `"schemas": "{\"type\"`,
		`"ignore_case": true`:                        `"ignores_case": true`,
		`"within": ["stream_id"]`:                    `"within": ["stream"]`,
		`"none_yet": true`:                           `"none_yet": true, "seen": 1`,
		`"tags": [{"value": "v"}]}],`:                `"tags": [{"values": "v"}]}],`,
		`"occurred": "2026-01-02T03:04:05Z"`:         `"occurred": "yesterday"`,
		`"type": "append", "sequence"`:               `"type": "appends", "sequence"`,
		`"outcome": "registered"`:                    `"outcome": "fine"`,
		`"image": {"sequences": [], "receipts": []}`: `"image": {"sequences": []}`,
		`"pointer": "", `:                            `"pointers": "", `,
		`"events": [{"number": 0`:                    `"events": [{"numbers": 0`,
		`"epoch": 3, "response": "null"}},`:          `"epoch": 3, "recorded_at": 1, "response": "null"}},`,
	} {
		wrong := strings.Replace(logFixtureJSON, old, replacement, 1)
		if wrong == logFixtureJSON {
			t.Fatalf("%s: nothing is wrong with it", old)
		}
		if v := replayLog(t, wrong); !v.Failed() || !strings.Contains(v.Failures[0], "is not a fixture") {
			t.Errorf("%s: %q", replacement, v.Failures)
		}
	}
}

// The fixtures find faults too.
func TestLogFixturesFindMutants(t *testing.T) {
	var all []Case
	for _, fsys := range []fs.FS{conformance.EventLog(), conformance.EffectReceipt()} {
		found, err := fixtureCases(fsys)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	faulty := slices.Concat(schemaMutants, constraintMutants, scopeMutants, effectReceiptMutants)
	found := 0
	for _, m := range faulty {
		if slices.ContainsFunc(all, func(c Case) bool { return c.Try(t.Context(), m.fault.harness()).Failed() }) {
			found++
		} else {
			t.Logf("no fixture finds: %s", m.name)
		}
	}
	if found < len(faulty)*2/3 {
		t.Errorf("the fixtures find %d of %d", found, len(faulty))
	}
	t.Logf("%d scenarios find %d of %d mutants", len(all), found, len(faulty))
}
