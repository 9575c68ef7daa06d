package conformance_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xeipuuv/gojsonschema"

	"github.com/countersign/countersign/conformance"
)

// models maps each fixture file to the model that it states.
var models = map[string]string{
	"atomic_crash_boundary.json":      "AtomicCrashBoundary",
	"ordered_replay.json":             "OrderedReplay",
	"inbox_outbox_deduplication.json": "IdentityDeduplication",
	"projection_fingerprint.json":     "ProjectionFingerprint",
}

// The parts of the format that these tests look into.
type (
	file struct {
		Model     string
		Scenarios []scenario
	}
	scenario struct {
		ID                  string
		OwnerID             string `json:"owner_id"`
		Mode                string
		Fence               uint64
		Steps               []step
		ReconciliationCases []struct{ ID string } `json:"reconciliation_cases"`
	}
	step struct {
		Op     struct{ Type string }
		Expect struct {
			Result struct{ Outcome string }
			Image  image
		}
	}
	image struct {
		Position uint64
		Fence    uint64
		History  []record
		Snapshot *record
		Inbox    []struct {
			ID               string
			Fingerprint      string `json:"ingress_fingerprint"`
			CommittedThrough uint64 `json:"committed_through"`
		}
		Outbox []struct {
			ID         string
			AcceptedAt uint64 `json:"accepted_at"`
			Payload    payload
		}
		Receipts []struct {
			ID         string
			EffectID   string `json:"effect_id"`
			Outcome    string
			RecordedAt uint64 `json:"recorded_at"`
			Fence      uint64
			Payload    payload
		}
		Pending []string `json:"pending_effect_ids"`
	}
	record struct {
		Position uint64
		Payload  payload
	}
	payload struct {
		SchemaVersion uint32 `json:"schema_version"`
		CodecVersion  uint32 `json:"codec_version"`
		Bytes         string
	}
)

func TestDurableOwnerHasTheFourFiles(t *testing.T) {
	entries, err := fs.ReadDir(conformance.DurableOwner(), ".")
	require.NoError(t, err)
	require.Len(t, entries, len(models))
	for name, model := range models {
		var f file
		require.NoError(t, json.Unmarshal(read(t, conformance.DurableOwner(), name), &f), name)
		assert.Equal(t, model, f.Model, name)
	}
}

func TestFilesAreUTF8WithUnixLineEnds(t *testing.T) {
	for _, fsys := range []fs.FS{conformance.DurableOwner(), conformance.Golden(), conformance.Schemas()} {
		names, err := fs.Glob(fsys, "*.json")
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			data := read(t, fsys, name)
			assert.True(t, utf8.Valid(data), "%s is not UTF-8", name)
			assert.NotContains(t, string(data), "\r", name)
			assert.True(t, bytes.HasSuffix(data, []byte("}\n")), "%s does not end with one newline", name)
			assert.NotContains(t, string(data), "\ufffd", "%s has a replacement character", name)
		}
	}
}

func TestFilesMatchTheSchema(t *testing.T) {
	s, err := durableOwnerSchema()
	require.NoError(t, err)
	for name := range models {
		t.Run(name, func(t *testing.T) {
			result, err := s.Validate(gojsonschema.NewBytesLoader(read(t, conformance.DurableOwner(), name)))
			require.NoError(t, err)
			assert.Empty(t, result.Errors())
		})
	}
}

func TestScenarioIDsAreUnique(t *testing.T) {
	seen := map[string]string{}
	owners := map[string]string{}
	for name, f := range files(t) {
		for _, s := range f.Scenarios {
			assert.Empty(t, seen[s.ID], "scenario %s stands in two places", s.ID)
			seen[s.ID] = name
			assert.Empty(t, owners[s.OwnerID], "scenarios share the owner %s", s.OwnerID)
			owners[s.OwnerID] = s.ID

			cases := map[string]bool{}
			for _, c := range s.ReconciliationCases {
				assert.False(t, cases[c.ID], "scenario %s has two cases %s", s.ID, c.ID)
				cases[c.ID] = true
			}
		}
	}
	assert.GreaterOrEqual(t, len(seen), 60)
}

func TestEveryOutcomeOccurs(t *testing.T) {
	// position_overflow is missing: no fixture reaches position 2^63-1.
	want := []string{
		"aborted", "committed", "duplicate", "recovered", "fence_advanced", "receipt_recorded", "receipt_duplicate",
		"position_conflict", "stale_fence", "inbox_identity_conflict", "effect_identity_conflict",
		"receipt_identity_conflict", "effect_already_receipted", "malformed", "unknown_owner", "unknown_effect",
		"state_mode_mismatch", "fence_did_not_advance",
	}
	got := map[string]bool{}
	modes := map[string]bool{}
	for _, f := range files(t) {
		for _, s := range f.Scenarios {
			modes[s.Mode] = true
			for _, st := range s.Steps {
				got[st.Expect.Result.Outcome] = true
			}
		}
	}
	var names []string
	for outcome := range got {
		names = append(names, outcome)
	}
	assert.ElementsMatch(t, want, names)
	assert.Equal(t, map[string]bool{"event_history": true, "snapshot": true}, modes)
}

// What an image must satisfy whatever led to it, so that a slip in editing a
// fixture by hand is not taken for the contract.
func TestImagesAreConsistent(t *testing.T) {
	changes := []string{"committed", "fence_advanced", "receipt_recorded"}
	for _, f := range files(t) {
		for _, s := range f.Scenarios {
			before := image{Fence: s.Fence, History: []record{}, Pending: []string{}}
			for i, st := range s.Steps {
				at, img := fmt.Sprintf("%s, step %d", s.ID, i+1), st.Expect.Image
				checkImage(t, at, s.Mode, img)
				switch {
				case slices.Contains(changes, st.Expect.Result.Outcome):
					assert.NotEqual(t, before, img, "%s changes nothing", at)
				case i == 0:
					assert.Zero(t, img.Position, at)
					assert.Equal(t, s.Fence, img.Fence, at)
					assert.Empty(t, img.Inbox, at)
				default:
					assert.Equal(t, before, img, "%s changes the image", at)
				}
				before = img
			}
		}
	}
}

func checkImage(t *testing.T, at, mode string, img image) {
	t.Helper()
	var positions []uint64
	for _, r := range img.History {
		positions = append(positions, r.Position)
	}
	var want []uint64
	if mode == "event_history" {
		for p := uint64(1); p <= img.Position; p++ {
			want = append(want, p)
		}
		assert.Nil(t, img.Snapshot, at)
	} else if img.Position > 0 {
		require.NotNil(t, img.Snapshot, at)
		assert.Equal(t, img.Position, img.Snapshot.Position, at)
	}
	assert.Equal(t, want, positions, at)

	var inbox, outbox, receipts []string
	for _, r := range img.Inbox {
		inbox = append(inbox, r.ID)
		assert.LessOrEqual(t, r.CommittedThrough, img.Position, at)
	}
	accepted, done := map[string]uint64{}, map[string]bool{}
	for _, r := range img.Outbox {
		outbox = append(outbox, r.ID)
		accepted[r.ID] = r.AcceptedAt
		assert.LessOrEqual(t, r.AcceptedAt, img.Position, at)
	}
	for _, r := range img.Receipts {
		receipts = append(receipts, r.ID)
		assert.LessOrEqual(t, r.RecordedAt, img.Position, at)
		assert.LessOrEqual(t, accepted[r.EffectID], r.RecordedAt, at)
		assert.Contains(t, accepted, r.EffectID, at)
		assert.False(t, done[r.EffectID], "%s: effect %s has two receipts", at, r.EffectID)
		done[r.EffectID] = true
	}
	// Go compares strings byte by byte, as the contract asks.
	for _, ids := range [][]string{inbox, outbox, receipts} {
		assert.True(t, slices.IsSorted(ids), "%s: %q", at, ids)
		assert.Len(t, slices.Compact(slices.Clone(ids)), len(ids), at)
	}
	pending := []string{}
	for _, id := range outbox {
		if !done[id] {
			pending = append(pending, id)
		}
	}
	slices.SortStableFunc(pending, func(a, b string) int { return cmp.Compare(accepted[a], accepted[b]) })
	assert.Equal(t, pending, img.Pending, at)
}

// Small edits of real scenarios, each of which must be refused, and for the one
// reason intended.
func TestSchemaRefuses(t *testing.T) {
	const (
		crash     = "crash_before_commit_exposes_nothing_event_history" // 0 crash_before_commit, 1 crash_recover
		receipted = "crash_after_publication_before_receipt_snapshot"   // 0 commit, 2 duplicate, 4 receipt_recorded
		fences    = "fence_zero_is_a_fence_event_history"               // 0 refused commit, 2 refused advance, 3 stale receipt, 5 advance
		prints    = "equal_projections_from_unequal_histories"          // reconciliation case 3 retracts at position 4
		resumed   = "equal_in_everything"                               // reconciliation case 1 resumes
		commit    = "scenarios.0.steps.0.op.commit"
		result    = "scenarios.0.steps.0.expect.result"
		img       = "scenarios.0.steps.0.expect.image"
		print     = "scenarios.0.fingerprint_case"
		recon     = "scenarios.0.reconciliation_cases.3"
	)
	set := func(path string, v any) func(any) { return func(doc any) { edit(doc, path, v) } }
	del := func(path string) func(any) { return func(doc any) { edit(doc, path, nil) } }
	copyTo := func(to, from string) func(any) {
		return func(doc any) { edit(doc, to, at(doc, strings.Split(from, ".")...)) }
	}
	null := json.RawMessage("null")
	one := map[string]any{"schema_version": 1, "codec_version": 1, "bytes": "paid"}

	for _, c := range []struct {
		name     string
		scenario string
		edit     func(doc any)
		want     string // type of the error, where, and the property if it names one
	}{
		// the file
		{"unknown field in the file", crash, set("comment", "x"), "additional_property_not_allowed (root) comment"},
		{"missing protocol version", crash, del("protocol_version"), "required (root) protocol_version"},
		{"other protocol version", crash, set("protocol_version", 2), "const (root).protocol_version"},
		{"protocol version as text", crash, set("protocol_version", "1"), "const (root).protocol_version"},
		{"other kind", crash, set("kind", "Occurrence"), "const (root).kind"},
		{"unknown model", crash, set("model", "CrashBoundary"), "enum (root).model"},
		{"empty description", crash, set("description", ""), "string_gte (root).description"},
		{"missing description", crash, del("description"), "required (root) description"},
		{"no scenarios", crash, set("scenarios", []any{}), "array_min_items (root).scenarios"},

		// the scenario
		{"unknown field in a scenario", crash, set("scenarios.0.title", "x"), "additional_property_not_allowed (root).scenarios.0 title"},
		{"scenario id with a capital", crash, set("scenarios.0.id", "Crash"), "pattern (root).scenarios.0.id"},
		{"scenario id with a hyphen", crash, set("scenarios.0.id", "crash-before"), "pattern (root).scenarios.0.id"},
		{"scenario id with a leading digit", crash, set("scenarios.0.id", "1_crash"), "pattern (root).scenarios.0.id"},
		{"empty scenario id", crash, set("scenarios.0.id", ""), "pattern (root).scenarios.0.id"},
		{"missing owner", crash, del("scenarios.0.owner_id"), "required (root).scenarios.0 owner_id"},
		{"missing mode", crash, del("scenarios.0.mode"), "required (root).scenarios.0 mode"},
		{"unknown mode", crash, set("scenarios.0.mode", "latest"), "enum (root).scenarios.0.mode"},
		{"missing initial fence", crash, del("scenarios.0.fence"), "required (root).scenarios.0 fence"},
		{"initial fence past 63 bits", crash, set("scenarios.0.fence", json.Number("9223372036854775808")), "number_lte (root).scenarios.0.fence"},
		{"no steps", crash, set("scenarios.0.steps", []any{}), "array_min_items (root).scenarios.0.steps"},
		{"neither steps nor fingerprint case", crash, del("scenarios.0.steps"), "number_one_of (root).scenarios.0; required (root).scenarios.0 steps"},
		{"reconciliation cases beside steps", crash, func(doc any) {
			edit(doc, "scenarios.0.reconciliation_cases", at(scenarioDoc(t, prints), "scenarios", "0", "reconciliation_cases"))
		}, "missing_dependency (root).scenarios.0"},
		{"reconciliation cases alone", prints, del(print), "missing_dependency (root).scenarios.0; number_one_of (root).scenarios.0; required (root).scenarios.0 steps"},
		{"both steps and fingerprint case", prints, func(doc any) {
			edit(doc, "scenarios.0.steps", at(scenarioDoc(t, crash), "scenarios", "0", "steps"))
		}, "number_one_of (root).scenarios.0"},

		// steps and operations
		{"unknown field in a step", crash, set("scenarios.0.steps.0.comment", "x"), "additional_property_not_allowed (root).scenarios.0.steps.0 comment"},
		{"step without op", crash, del("scenarios.0.steps.0.op"), "required (root).scenarios.0.steps.0 op"},
		{"step without expectation", crash, del("scenarios.0.steps.0.expect"), "required (root).scenarios.0.steps.0 expect"},
		{"expectation without image", crash, del(img), "required (root).scenarios.0.steps.0.expect image"},
		{"expectation without result", crash, del(result), "required (root).scenarios.0.steps.0.expect result"},
		{"unknown field in an expectation", crash, set("scenarios.0.steps.0.expect.rows", 1), "additional_property_not_allowed (root).scenarios.0.steps.0.expect rows"},
		{"unknown op", crash, set("scenarios.0.steps.1.op.type", "restart"), "enum (root).scenarios.0.steps.1.op.type"},
		{"op without type", crash, del("scenarios.0.steps.1.op.type"), "required (root).scenarios.0.steps.1.op type"},
		{"unknown field in an op", crash, set("scenarios.0.steps.0.op.comment", "x"), "additional_property_not_allowed (root).scenarios.0.steps.0.op comment"},
		{"crash without commit", crash, del(commit), "required (root).scenarios.0.steps.0.op commit"},
		{"commit op without commit", receipted, del(commit), "required (root).scenarios.0.steps.0.op commit"},
		{"commit op with a fence of its own", receipted, set("scenarios.0.steps.0.op.fence", 1), "false (root).scenarios.0.steps.0.op.fence"},
		{"recovery with a fence", crash, set("scenarios.0.steps.1.op.fence", 1), "false (root).scenarios.0.steps.1.op.fence"},
		{"recovery with a commit", crash, copyTo("scenarios.0.steps.1.op.commit", commit), "false (root).scenarios.0.steps.1.op.commit"},
		{"recovery with a receipt", receipted, copyTo("scenarios.0.steps.1.op.receipt", "scenarios.0.steps.4.op.receipt"), "false (root).scenarios.0.steps.1.op.receipt"},
		{"commit op with a receipt of its own", receipted, copyTo("scenarios.0.steps.0.op.receipt", "scenarios.0.steps.4.op.receipt"), "false (root).scenarios.0.steps.0.op.receipt"},
		{"fence advance with a commit", fences, copyTo("scenarios.0.steps.5.op.commit", commit), "false (root).scenarios.0.steps.5.op.commit"},
		{"fence advance with a receipt", fences, copyTo("scenarios.0.steps.5.op.receipt", "scenarios.0.steps.3.op.receipt"), "false (root).scenarios.0.steps.5.op.receipt"},
		{"receipt op with a commit", receipted, copyTo("scenarios.0.steps.4.op.commit", commit), "false (root).scenarios.0.steps.4.op.commit"},
		{"negative new fence", fences, set("scenarios.0.steps.5.op.fence", -1), "number_gte (root).scenarios.0.steps.5.op.fence"},
		{"fence advance without fence", fences, del("scenarios.0.steps.5.op.fence"), "required (root).scenarios.0.steps.5.op fence"},
		{"receipt op without receipt", receipted, del("scenarios.0.steps.4.op.receipt"), "required (root).scenarios.0.steps.4.op receipt"},
		{"receipt op without fence", receipted, del("scenarios.0.steps.4.op.fence"), "required (root).scenarios.0.steps.4.op fence"},

		// commits
		{"unknown field in a commit", crash, set(commit+".tenant", "x"), "additional_property_not_allowed (root)." + commit + " tenant"},
		{"commit without inbox id", crash, del(commit + ".inbox_id"), "required (root)." + commit + " inbox_id"},
		{"commit without fingerprint", crash, del(commit + ".ingress_fingerprint"), "required (root)." + commit + " ingress_fingerprint"},
		{"commit without state", crash, del(commit + ".state"), "required (root)." + commit + " state"},
		{"negative position", crash, set(commit+".expected_position", -1), "number_gte (root)." + commit + ".expected_position"},
		{"fractional fence", crash, set(commit+".fence", json.Number("1.5")), "invalid_type (root)." + commit + ".fence"},
		{"fence as text", crash, set(commit+".fence", "1"), "invalid_type (root)." + commit + ".fence"},
		{"empty batch of events", crash, set(commit+".state.append_events", []any{}), "array_min_items (root)." + commit + ".state.append_events"},
		{"events and snapshot", crash, set(commit+".state.replace_snapshot", one), "number_one_of (root)." + commit + ".state"},
		{"neither events nor snapshot", crash, del(commit + ".state.append_events"), "number_one_of (root)." + commit + ".state; required (root)." + commit + ".state append_events"},
		{"unknown field in a payload", crash, set(commit+".state.append_events.0.encoding", "utf-8"), "additional_property_not_allowed (root)." + commit + ".state.append_events.0 encoding"},
		{"payload without codec version", crash, del(commit + ".state.append_events.0.codec_version"), "required (root)." + commit + ".state.append_events.0 codec_version"},
		{"payload bytes as an object", crash, set(commit+".state.append_events.0.bytes", map[string]any{}), "invalid_type (root)." + commit + ".state.append_events.0.bytes"},
		{"unknown field in an effect", crash, set(commit+".effects.0.accepted_at", 1), "additional_property_not_allowed (root)." + commit + ".effects.0 accepted_at"},
		{"effect without payload", crash, del(commit + ".effects.0.payload"), "required (root)." + commit + ".effects.0 payload"},
		{"receipt without effect", crash, del(commit + ".receipts.0.effect_id"), "required (root)." + commit + ".receipts.0 effect_id"},
		{"unknown field in a receipt", crash, set(commit+".receipts.0.fence", 1), "additional_property_not_allowed (root)." + commit + ".receipts.0 fence"},
		{"effects null", crash, set(commit+".effects", null), "invalid_type (root)." + commit + ".effects"},

		// results
		{"unknown outcome", crash, set(result+".outcome", "lost"), "const (root)." + result + ".outcome; enum (root)." + result + ".outcome"},
		{"unknown field in a result", crash, set(result+".reason", "x"), "additional_property_not_allowed (root)." + result + " reason"},
		{"crash that commits", crash, set(result+".outcome", "committed"), "const (root)." + result + ".outcome"},
		{"crash without ack", crash, del(result + ".ack"), "required (root)." + result + " ack"},
		{"crash with ack safe", crash, set(result+".ack", "safe"), "const (root)." + result + ".ack"},
		{"crash with through", crash, set(result+".through", 1), "false (root)." + result + ".through"},
		{"unknown ack", crash, set(result+".ack", "later"), "const (root)." + result + ".ack; enum (root)." + result + ".ack"},
		{"result without outcome", crash, del("scenarios.0.steps.1.expect.result.outcome"), "required (root).scenarios.0.steps.1.expect.result outcome"},
		{"committed without ack", receipted, del(result + ".ack"), "required (root)." + result + " ack"},
		{"committed with ack withheld", receipted, set(result+".ack", "withhold"), "const (root)." + result + ".ack"},
		{"committed without through", receipted, del(result + ".through"), "required (root)." + result + " through"},
		{"committed through zero", receipted, set(result+".through", 0), "number_gte (root)." + result + ".through"},
		{"duplicate without through", receipted, del("scenarios.0.steps.2.expect.result.through"), "required (root).scenarios.0.steps.2.expect.result through"},
		{"refusal with through", fences, set(result+".through", 1), "false (root)." + result + ".through"},
		{"refusal with ack safe", fences, set(result+".ack", "safe"), "const (root)." + result + ".ack"},
		{"refusal without ack", fences, del(result + ".ack"), "required (root)." + result + " ack"},
		{"commit that advances a fence", fences, set(result+".outcome", "fence_advanced"), "enum (root)." + result + ".outcome"},
		{"recovery with ack", crash, set("scenarios.0.steps.1.expect.result.ack", "withhold"), "false (root).scenarios.0.steps.1.expect.result.ack"},
		{"recovery with through", crash, set("scenarios.0.steps.1.expect.result.through", 1), "false (root).scenarios.0.steps.1.expect.result.through"},
		{"recovery that is aborted", crash, set("scenarios.0.steps.1.expect.result.outcome", "aborted"), "const (root).scenarios.0.steps.1.expect.result.outcome"},
		{"fence advance that recovers", fences, set("scenarios.0.steps.5.expect.result.outcome", "recovered"), "enum (root).scenarios.0.steps.5.expect.result.outcome"},
		{"fence advance with through", fences, set("scenarios.0.steps.5.expect.result.through", 1), "false (root).scenarios.0.steps.5.expect.result.through"},
		{"fence advance with ack", fences, set("scenarios.0.steps.5.expect.result.ack", "safe"), "false (root).scenarios.0.steps.5.expect.result.ack"},
		{"refused fence advance with ack", fences, set("scenarios.0.steps.2.expect.result.ack", "withhold"), "false (root).scenarios.0.steps.2.expect.result.ack"},
		{"receipt with ack", receipted, set("scenarios.0.steps.4.expect.result.ack", "safe"), "false (root).scenarios.0.steps.4.expect.result.ack"},
		{"receipt with through", receipted, set("scenarios.0.steps.4.expect.result.through", 1), "false (root).scenarios.0.steps.4.expect.result.through"},
		{"stale receipt without ack", fences, del("scenarios.0.steps.3.expect.result.ack"), "required (root).scenarios.0.steps.3.expect.result ack"},
		{"stale receipt with ack safe", fences, set("scenarios.0.steps.3.expect.result.ack", "safe"), "const (root).scenarios.0.steps.3.expect.result.ack"},
		{"receipt that commits", receipted, set("scenarios.0.steps.4.expect.result.outcome", "committed"), "enum (root).scenarios.0.steps.4.expect.result.outcome"},

		// images
		{"unknown field in an image", crash, set(img+".mode", "snapshot"), "additional_property_not_allowed (root)." + img + " mode"},
		{"image without snapshot", crash, del(img + ".snapshot"), "required (root)." + img + " snapshot"},
		{"image without pending effects", crash, del(img + ".pending_effect_ids"), "required (root)." + img + " pending_effect_ids"},
		{"outbox null", crash, set(img+".outbox", null), "invalid_type (root)." + img + ".outbox"},
		{"snapshot without position", receipted, del(img + ".snapshot.position"), "number_any_of (root)." + img + ".snapshot; required (root)." + img + ".snapshot position"},
		{"stored effect without accepted_at", receipted, del(img + ".outbox.0.accepted_at"), "required (root)." + img + ".outbox.0 accepted_at"},
		{"stored version zero", receipted, set(img+".outbox.0.payload.codec_version", 0), "number_gte (root)." + img + ".outbox.0.payload.codec_version"},
		{"stored version past 31 bits", receipted, set(img+".outbox.0.payload.schema_version", json.Number("2147483648")), "number_lte (root)." + img + ".outbox.0.payload.schema_version"},
		{"stored effect accepted at zero", receipted, set(img+".outbox.0.accepted_at", 0), "number_gte (root)." + img + ".outbox.0.accepted_at"},
		{"stored effect accepted past 63 bits", receipted, set(img+".outbox.0.accepted_at", json.Number("9223372036854775808")), "number_lte (root)." + img + ".outbox.0.accepted_at"},
		{"stored inbox record without a name", receipted, set(img+".inbox.0.id", ""), "string_gte (root)." + img + ".inbox.0.id"},
		{"unknown field in an inbox record", receipted, set(img+".inbox.0.payload", "x"), "additional_property_not_allowed (root)." + img + ".inbox.0 payload"},
		{"stored receipt without fence", receipted, del("scenarios.0.steps.4.expect.image.receipts.0.fence"), "required (root).scenarios.0.steps.4.expect.image.receipts.0 fence"},
		{"stored receipt with an unknown outcome", receipted, set("scenarios.0.steps.4.expect.image.receipts.0.outcome", "done"), "enum (root).scenarios.0.steps.4.expect.image.receipts.0.outcome"},

		// fingerprints
		{"unknown field in a fingerprint case", prints, set(print+".left_source", "x"), "additional_property_not_allowed (root)." + print + " left_source"},
		{"empty left history", prints, set(print+".left_history", []any{}), "array_min_items (root)." + print + ".left_history"},
		{"empty right history", prints, set(print+".right_history", []any{}), "array_min_items (root)." + print + ".right_history"},
		{"missing projection", prints, del(print + ".right_projection"), "required (root)." + print + " right_projection"},
		{"history at position zero", prints, set(print+".left_history.0.position", 0), "number_gte (root)." + print + ".left_history.0.position"},
		{"unknown relation", prints, set(print+".expect.history_fingerprint_relation", "unequal"), "enum (root)." + print + ".expect.history_fingerprint_relation"},
		{"missing relation", prints, del(print + ".expect.latest_fingerprint_relation"), "required (root)." + print + ".expect latest_fingerprint_relation"},
		{"latest state as complete history", prints, set(print+".expect.latest_capability", "complete_history"), "const (root)." + print + ".expect.latest_capability"},
		{"history as latest state", prints, set(print+".expect.history_capability", "latest_state_only"), "const (root)." + print + ".expect.history_capability"},

		// reconciliation
		{"no reconciliation cases", prints, set("scenarios.0.reconciliation_cases", []any{}), "array_min_items (root).scenarios.0.reconciliation_cases"},
		{"unknown field in a reconciliation case", prints, set(recon+".frontier", 4), "additional_property_not_allowed (root)." + recon + " frontier"},
		{"bad case id", prints, set(recon+".id", "retract of one"), "pattern (root)." + recon + ".id"},
		{"missing resume_from", prints, del(recon + ".resume_from"), "required (root)." + recon + " resume_from"},
		{"value with retract", prints, set(recon+".history.3.value", "x"), "false (root)." + recon + ".history.3.value"},
		{"create without value", prints, del(recon + ".history.0.value"), "required (root)." + recon + ".history.0 value"},
		{"amend without value", prints, del(recon + ".history.2.value"), "required (root)." + recon + ".history.2 value"},
		{"value null", prints, set(recon+".history.0.value", null), "invalid_type (root)." + recon + ".history.0.value"},
		{"unknown kind of fact", prints, set(recon+".history.0.type", "upsert"), "enum (root)." + recon + ".history.0.type"},
		{"fact without entity", prints, del(recon + ".history.0.entity_id"), "required (root)." + recon + ".history.0 entity_id"},
		{"unknown field in a checkpoint", prints, set(recon+".expected.owner", "x"), "additional_property_not_allowed (root)." + recon + ".expected owner"},
		{"checkpoint without version", prints, del(recon + ".observed_projection.projection_version"), "required (root)." + recon + ".observed_projection projection_version"},
		{"resumed checkpoint without entries", resumed, del("scenarios.0.reconciliation_cases.1.resume_from.entries"),
			"number_any_of (root).scenarios.0.reconciliation_cases.1.resume_from; required (root).scenarios.0.reconciliation_cases.1.resume_from entries"},
		{"entry without value", prints, del(recon + ".expected.entries.0.value"), "required (root)." + recon + ".expected.entries.0 value"},
		{"unknown health", prints, set(recon+".expect.health", "stale"), "enum (root)." + recon + ".expect.health"},
		{"drift as text", prints, set(recon+".expect.drift", "false"), "invalid_type (root)." + recon + ".expect.drift"},
		{"negative lag", prints, set(recon+".expect.lag", -1), "number_gte (root)." + recon + ".expect.lag"},
		{"authority other than the owner", prints, set(recon+".expect.transition_authority", "projection"), "const (root)." + recon + ".expect.transition_authority"},
		{"repair id of another form", prints, set(recon+".expect.reconciliation_effect_id", "repair/1"), "pattern (root)." + recon + ".expect.reconciliation_effect_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := scenarioDoc(t, c.scenario)
			require.Empty(t, reasons(t, doc), "the scenario itself is refused")
			c.edit(doc)
			assert.Equal(t, c.want, reasons(t, doc))
		})
	}
}

// Every object of these scenarios, which together have every kind of object,
// with one field too many.
func TestSchemaRefusesUnknownFields(t *testing.T) {
	for _, id := range everyKindOfObject {
		for _, path := range objects(scenarioDoc(t, id), nil) {
			doc := scenarioDoc(t, id)
			at(doc, path...).(map[string]any)["comment"] = "x"
			where := strings.Join(append([]string{"(root)"}, path...), ".")
			assert.Contains(t, strings.Split(reasons(t, doc), "; "), "additional_property_not_allowed "+where+" comment", id)
		}
	}
}

// The same objects with each field missing in turn.
func TestSchemaRefusesMissingFields(t *testing.T) {
	for _, id := range everyKindOfObject {
		for _, path := range objects(scenarioDoc(t, id), nil) {
			for field := range at(scenarioDoc(t, id), path...).(map[string]any) {
				switch {
				case field == "reconciliation_cases",
					slices.Contains(path, "commit") && len(path) == 6 && (field == "effects" || field == "receipts"):
					continue // optional
				case field == "fingerprint_case", field == "replace_snapshot":
					continue // one of two; TestSchemaRefuses has the cases without either
				}
				doc := scenarioDoc(t, id)
				delete(at(doc, path...).(map[string]any), field)
				where := strings.Join(append([]string{"(root)"}, path...), ".")
				assert.Contains(t, strings.Split(reasons(t, doc), "; "), "required "+where+" "+field, id)
			}
		}
	}
}

var everyKindOfObject = []string{
	"receipt_in_the_commit_of_its_effect_event_history",
	"receipt_in_the_commit_of_its_effect_snapshot",
	"fence_zero_is_a_fence_event_history",
	"owner_id_of_480_bytes",
}

// objects returns the paths of all objects in a document.
func objects(doc any, path []string) (paths [][]string) {
	switch v := doc.(type) {
	case map[string]any:
		paths = append(paths, path)
		for key, field := range v {
			paths = append(paths, objects(field, append(slices.Clone(path), key))...)
		}
	case []any:
		for i, item := range v {
			paths = append(paths, objects(item, append(slices.Clone(path), strconv.Itoa(i)))...)
		}
	}
	return paths
}

func TestSchemaLetsEffectsAndReceiptsBeAbsent(t *testing.T) {
	doc := scenarioDoc(t, "crash_before_commit_exposes_nothing_event_history")
	edit(doc, "scenarios.0.steps.0.op.commit.effects", nil)
	edit(doc, "scenarios.0.steps.0.op.commit.receipts", nil)
	assert.Empty(t, reasons(t, doc))
}

func read(t *testing.T, fsys fs.FS, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(fsys, name)
	require.NoError(t, err)
	return data
}

func files(t *testing.T) map[string]file {
	t.Helper()
	all := map[string]file{}
	for name := range models {
		var f file
		require.NoError(t, json.Unmarshal(read(t, conformance.DurableOwner(), name), &f), name)
		all[name] = f
	}
	return all
}

// durableOwnerSchema is the compiled schema.
var durableOwnerSchema = sync.OnceValues(func() (*gojsonschema.Schema, error) {
	data, err := fs.ReadFile(conformance.Schemas(), "durable-owner.json")
	if err != nil {
		return nil, err
	}
	return gojsonschema.NewSchema(gojsonschema.NewBytesLoader(data))
})

// scenarioDocs holds, for each scenario, the file that has it with this
// scenario alone.
var scenarioDocs = sync.OnceValues(func() (map[string][]byte, error) {
	docs := map[string][]byte{}
	for name := range models {
		data, err := fs.ReadFile(conformance.DurableOwner(), name)
		if err != nil {
			return nil, err
		}
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(data, &doc); err != nil {
			return nil, err
		}
		var scenarios []json.RawMessage
		if err := json.Unmarshal(doc["scenarios"], &scenarios); err != nil {
			return nil, err
		}
		for _, s := range scenarios {
			var named struct{ ID string }
			if err := json.Unmarshal(s, &named); err != nil {
				return nil, err
			}
			doc["scenarios"] = slices.Concat([]byte("["), s, []byte("]"))
			if docs[named.ID], err = json.Marshal(doc); err != nil {
				return nil, err
			}
		}
	}
	return docs, nil
})

// scenarioDoc returns the document of one scenario, for editing.
func scenarioDoc(t *testing.T, id string) any {
	t.Helper()
	docs, err := scenarioDocs()
	require.NoError(t, err)
	require.Contains(t, docs, id)
	d := json.NewDecoder(bytes.NewReader(docs[id]))
	d.UseNumber()
	var doc any
	require.NoError(t, d.Decode(&doc))
	return doc
}

// at returns the value at a path.
func at(doc any, path ...string) any {
	for _, key := range path {
		if list, ok := doc.([]any); ok {
			i, _ := strconv.Atoi(key)
			doc = list[i]
		} else {
			doc = doc.(map[string]any)[key]
		}
	}
	return doc
}

// edit sets the field at a dotted path, or removes it if the value is nil.
func edit(doc any, path string, value any) {
	keys := strings.Split(path, ".")
	parent, field := at(doc, keys[:len(keys)-1]...).(map[string]any), keys[len(keys)-1]
	if value == nil {
		delete(parent, field)
	} else {
		parent[field] = value
	}
}

// reasons returns why the schema refuses a document, sorted, or "" if it does
// not. What only repeats that a part failed is left out.
func reasons(t *testing.T, doc any) string {
	t.Helper()
	data, err := json.Marshal(doc)
	require.NoError(t, err)
	s, err := durableOwnerSchema()
	require.NoError(t, err)
	result, err := s.Validate(gojsonschema.NewBytesLoader(data))
	require.NoError(t, err)
	var found []string
	for _, e := range result.Errors() {
		switch e.Type() {
		case "condition_then", "condition_else", "number_all_of":
			continue
		}
		reason := e.Type() + " " + e.Context().String()
		if p, ok := e.Details()["property"]; ok && (e.Type() == "required" || e.Type() == "additional_property_not_allowed") {
			reason += fmt.Sprintf(" %v", p)
		}
		found = append(found, reason)
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), "; ")
}
