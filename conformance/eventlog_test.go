package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xeipuuv/gojsonschema"

	"github.com/countersign/countersign/conformance"
)

// logFolders are the fixtures of the event log and of the receipts, with the models
// that their files state.
var logFolders = []struct {
	name   string
	files  fs.FS
	models map[string]string
}{
	{"eventlog", conformance.EventLog(), map[string]string{
		"sequence.json": "Sequence", "schema_and_constraint.json": "SchemaAndConstraint", "concurrency_scope.json": "ConcurrencyScope",
	}},
	{"receipt", conformance.EffectReceipt(), map[string]string{
		"first_writer_wins.json": "FirstWriterWins", "effect_without_events.json": "EffectWithoutEvents",
	}},
}

// logFile is what these tests look into.
type logFile struct {
	Model     string
	Scenarios []struct {
		ID         string
		EventStore string `json:"event_store"`
		Steps      []struct {
			Op     struct{ Type string }
			Expect struct {
				Result struct{ Outcome string }
				Image  struct {
					Sequences []struct {
						Name   string
						Events []struct {
							Number   uint64
							Occurred string
						}
					}
					Receipts []struct {
						Occurrence, Effect, Outcome, Sequence string
						First, Last                           uint64
					}
				}
			}
		}
	}
}

func schemaNamed(t *testing.T, name string) *gojsonschema.Schema {
	t.Helper()
	s, err := gojsonschema.NewSchema(gojsonschema.NewBytesLoader(read(t, conformance.Schemas(), name+".json")))
	require.NoError(t, err)
	return s
}

func TestLogFixturesMatchTheirSchema(t *testing.T) {
	for _, folder := range logFolders {
		names, err := fs.Glob(folder.files, "*")
		require.NoError(t, err)
		assert.Len(t, names, len(folder.models))
		for name, model := range folder.models {
			data := read(t, folder.files, name)
			assert.True(t, utf8.Valid(data) && bytes.HasSuffix(data, []byte("}\n")) && !bytes.Contains(data, []byte("\r")), "%s: not UTF-8 with Unix line ends", name)
			res, err := schemaNamed(t, folder.name).Validate(gojsonschema.NewBytesLoader(data))
			require.NoError(t, err)
			assert.Empty(t, res.Errors(), "%s/%s", folder.name, name)
			var f logFile
			require.NoError(t, json.Unmarshal(data, &f))
			assert.Equal(t, model, f.Model, name)
		}
	}
}

// Each scenario is one by itself, and each outcome of the README occurs.
func TestLogFixturesAreComplete(t *testing.T) {
	ids, stores, outcomes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, folder := range logFolders {
		for name := range folder.models {
			var f logFile
			require.NoError(t, json.Unmarshal(read(t, folder.files, name), &f))
			for _, s := range f.Scenarios {
				assert.False(t, ids[name+s.ID], "%s: a second scenario %s", name, s.ID)
				assert.False(t, stores[s.EventStore], "%s: %s shares its event store", name, s.ID)
				ids[name+s.ID], stores[s.EventStore] = true, true
				for i, st := range s.Steps {
					outcomes[st.Op.Type+" "+st.Expect.Result.Outcome] = true
					at := fmt.Sprintf("%s, %s, step %d", name, s.ID, i+1)
					ends := map[string]uint64{}
					for _, q := range st.Expect.Image.Sequences {
						for n, e := range q.Events {
							assert.EqualValues(t, n, e.Number, "%s: numbers of %q", at, q.Name)
							assert.True(t, strings.HasSuffix(e.Occurred, "Z"), "%s: %s is not UTC", at, e.Occurred)
						}
						ends[q.Name] = uint64(len(q.Events))
					}
					last := ""
					for _, r := range st.Expect.Image.Receipts {
						key := r.Occurrence + "\x00" + r.Effect
						assert.Less(t, last, key, "%s: receipts out of order", at)
						last = key
						if r.Outcome == "appended" {
							assert.True(t, r.First <= r.Last && r.Last < ends[r.Sequence], "%s: the receipt of %q points to events that are not there", at, r.Occurrence)
						}
					}
				}
			}
		}
	}
	for _, want := range []string{
		"append appended", "append violations", "append scopes_violated", "append malformed", "append already_recorded", "append recorded", "record_effect recorded",
		"record_effect already_recorded", "record_effect malformed", "register_event_types registered", "register_event_types unchanged", "register_event_types schema_changed",
		"register_event_types schema_error", "register_event_types malformed", "register_constraints registered", "register_constraints unchanged", "register_constraints malformed",
		"drop_namespace dropped", "crash_before_commit aborted", "crash_recover recovered",
	} {
		assert.True(t, outcomes[want], "no step has %s", want)
	}
}

// An unknown field is refused wherever it stands, so that no expectation is passed
// over.
func TestLogSchemasRefuseUnknownFields(t *testing.T) {
	for _, folder := range logFolders {
		schema := schemaNamed(t, folder.name)
		for name := range folder.models {
			var whole map[string]any
			require.NoError(t, json.Unmarshal(read(t, folder.files, name), &whole))
			scenarios, _ := whole["scenarios"].([]any)
			for _, scenario := range scenarios[:min(4, len(scenarios))] {
				doc := map[string]any{"scenarios": []any{scenario}}
				for _, field := range []string{"protocol_version", "kind", "model", "description"} {
					doc[field] = whole[field]
				}
				for _, path := range sampled(objects(doc, nil), 40) {
					o, ok := at(doc, path...).(map[string]any)
					require.True(t, ok)
					o["unknown"] = 1
					res, err := schema.Validate(gojsonschema.NewGoLoader(doc))
					require.NoError(t, err)
					assert.NotEmpty(t, res.Errors(), "%s: an unknown field at %v", name, path)
					delete(o, "unknown")
				}
			}
		}
	}
}

// sampled returns n of all, evenly.
func sampled[V any](all []V, n int) []V {
	if len(all) <= n {
		return all
	}
	var some []V
	for i := range n {
		some = append(some, all[i*len(all)/n])
	}
	return slices.Clip(some)
}
