package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/countersign/countersign/conformance"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// verdictOf returns what f reports.
func verdictOf(t *testing.T, f func(t T)) Verdict {
	t.Helper()
	return Case{Group: "test", Name: "case", Run: func(t T, _ Harness) { f(t) }}.Try(t.Context(), Harness{})
}

func TestGoodStorePassesEveryCase(t *testing.T) {
	v := verdictOf(t, func(t T) { runAll(t, goodHarness(), Cases()) })
	if v.Failed() {
		t.Fatal(strings.Join(v.Failures, "\n"))
	}
}

func TestCaseNamesAreStableAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.String()] {
			t.Errorf("%s stands there twice", c)
		}
		seen[c.String()] = true
		if !fixtureID.MatchString(c.Group) || !fixtureID.MatchString(c.Name) {
			t.Errorf("%s is not lower-case with underscores", c)
		}
		if c.Run == nil || len(c.Needs) == 0 || c.Needs[0] != NeedOwners && c.Needs[0] != NeedEvents {
			t.Errorf("%s is not complete", c)
		}
	}
}

// ownersOnly hides the transactions of a store.
type ownersOnly struct {
	durable.Store
	close func() error
}

func (o ownersOnly) Close() error { return o.close() }

func withoutTransactions(h Harness) Harness {
	open := h.New
	return Harness{New: func(t T) Opener {
		o := open(t)
		return func(ctx context.Context, options OpenOptions) (Backend, error) {
			b, err := o(ctx, options)
			if err != nil {
				return nil, err
			}
			return ownersOnly{b.(durable.Store), b.Close}, nil
		}
	}}
}

// closer implements nothing.
type closer struct{}

func (closer) Close() error { return nil }

func TestWhatIsMissingIsListed(t *testing.T) {
	nothing := Harness{New: func(T) Opener {
		return func(context.Context, OpenOptions) (Backend, error) { return closer{}, nil }
	}}
	for _, tt := range []struct {
		name    string
		h       Harness
		missing []string
		fails   bool
	}{
		{"no transactions, no Plant, no Kill", withoutTransactions(goodHarness()), []string{
			"without eventlog.Store of the backend: " + strings.Join(named(logWireCases, Cases()), ", ") + ", append, schema, constraint, scope, events, effect_receipt, observer, namespace, log_context, log_alias, log_atomically, join, log_concurrency, log_random",
			"without store.Transactor of the backend: atomically, random/transactions_follow_the_rules",
			"without Plant of the harness: integer/positions_come_back, integer/last_position_is_given_out, integer/position_never_wraps, recover/planted_image_comes_back, recover/corrupt_image_is_refused_with_its_reason",
			"without Kill of the harness: kill", "without Wire of the harness: " + strings.Join(named(wireCases, Cases()), ", "),
			"everything again as transactions/…: without store.Transactor of the backend",
		}, false},
		{"nothing", nothing, []string{
			"without durable.Store of the backend: create, commit, position, inbox, fence, effect, receipt, identity, payload, limit, integer, alias, page, context, handle, recover, outbox, concurrency, atomically, random, wire, kill",
			"without eventlog.Store of the backend: append, schema, constraint, scope, events, effect_receipt, observer, namespace, log_context, log_alias, log_atomically, join, log_concurrency, log_random",
			"everything again as transactions/…: without store.Transactor of the backend",
		}, true},
		{"everything", goodHarness(), nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cases := Cases()
			for i := range cases {
				cases[i].Run = func(T, Harness) {} // what they find is not the question here
			}
			v := verdictOf(t, func(t T) { runAll(t, tt.h, cases) })
			if v.Failed() != tt.fails {
				t.Fatal(strings.Join(v.Failures, "\n"))
			}
			var listed []string
			for _, line := range v.Log {
				for _, report := range []string{"suite/not_implemented: ", "suite/not_repeated: "} {
					if rest, ok := strings.CutPrefix(line, report); ok {
						listed = append(listed, rest)
					}
				}
			}
			if !slices.Equal(listed, tt.missing) {
				t.Errorf("want\n%s\ngot\n%s", strings.Join(tt.missing, "\n"), strings.Join(listed, "\n"))
			}
		})
	}
}

func TestReplayFailsOnWhatIsNoFixture(t *testing.T) {
	good := &fstest.MapFile{Data: []byte(fixtureJSON)}
	for _, tt := range []struct {
		name  string
		files fstest.MapFS
		want  string
	}{
		{"an empty file system", fstest.MapFS{}, "no *.json file"},
		{"no fixture among the files", fstest.MapFS{"README.md": good, "a/b.yaml": good}, "no *.json file"},
		{"a folder with the name of a fixture", fstest.MapFS{"a.json/README.md": good}, "no *.json file"},
		{"one that does not parse", fstest.MapFS{"good.json": good, "deep/er/bad.json": {Data: []byte(`{`)}}, "deep/er/bad.json is not a fixture"},
		{"an empty one", fstest.MapFS{"good.json": good, "empty.json": {}}, "empty.json is not a fixture"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := verdictOf(t, func(t T) { Replay(t, goodHarness(), tt.files) })
			if all := strings.Join(v.Failures, "\n"); !strings.Contains(all, tt.want) {
				t.Fatalf("want a failure with %q, got %q", tt.want, all)
			}
		})
	}
	if v := verdictOf(t, func(t T) { Replay(t, goodHarness(), nil) }); !v.Failed() {
		t.Error("no file system at all is not a failure")
	}
}

func TestReplayFindsFilesAnywhere(t *testing.T) {
	wrong := strings.Replace(fixtureJSON, `"committed_through": 1`, `"committed_through": 2`, 1)
	v := verdictOf(t, func(t T) {
		Replay(t, goodHarness(), fstest.MapFS{"good.json": {Data: []byte(fixtureJSON)}, "a/b/c/wrong.json": {Data: []byte(wrong)}})
	})
	all := strings.Join(v.Failures, "\n")
	if len(v.Failures) != 2 { // alone, and through transactions
		t.Fatalf("want two failures, got %q", all)
	}
	for _, want := range []string{"a/b/c/wrong/steps", "transactions/a/b/c/wrong/steps", "step 1 of 1, commit", `-       "committed_through": 2`, `+       "committed_through": 1`} {
		if !strings.Contains(all, want) {
			t.Errorf("want %q in the failures, got:\n%s", want, all)
		}
	}
}

// Each is the good fixture with one expectation changed.
func TestReplayComparesEverything(t *testing.T) {
	for old, replacement := range map[string]string{
		`"outcome": "committed", "through": 1, "ack": "safe"`:         `"outcome": "committed", "through": 1`,
		`"through": 1, "ack": "safe"`:                                 `"ack": "safe"`,
		`"ack": "safe"`:                                               `"ack": "withhold"`,
		`"outcome": "committed"`:                                      `"outcome": "duplicate"`,
		`{"position": 1, "fence": 0`:                                  `{"position": 1, "fence": 1`,
		`{"position": 1, "fence"`:                                     `{"position": 2, "fence"`,
		`"history": [{"position": 1, "payload": {"schema_version": 1`: `"history": [{"position": 1, "payload": {"schema_version": 2`,
		`"snapshot": null`:                                            `"snapshot": {"position": 1, "payload": ` + payloadJSON + `}`,
		`"inbox": [{"id": "m1", "ingress_fingerprint": ""`:            `"inbox": [{"id": "m1", "ingress_fingerprint": "x"`,
		`"outbox": []`:                                                `"outbox": [{"id": "e", "accepted_at": 1, "payload": ` + payloadJSON + `}]`,
		`"receipts": []`:                                              `"receipts": [{"id": "r", "effect_id": "e", "outcome": "applied", "recorded_at": 1, "fence": 0, "payload": ` + payloadJSON + `}]`,
		`"history_fingerprint_relation": "equal"`:                     `"history_fingerprint_relation": "different"`,
		`"projection_fingerprint_relation": "equal"`:                  `"projection_fingerprint_relation": "different"`,
		`"latest_fingerprint_relation": "equal"`:                      `"latest_fingerprint_relation": "different"`,
		`"health": "lagging"`:                                         `"health": "healthy"`,
		`"drift": true`:                                               `"drift": false`,
		`"lag": 1`:                                                    `"lag": 2`,
		`"reconcile/o/1"`:                                             `"reconcile/o/2"`,
		`"expected": {"through": 1`:                                   `"expected": {"through": 2`,
		`"left_history": [{"position": 1`:                             `"left_history": [{"position": 2`,
	} {
		wrong := strings.Replace(fixtureJSON, old, replacement, 1)
		if wrong == fixtureJSON {
			t.Fatalf("%s: nothing is wrong with it", old)
		}
		v := verdictOf(t, func(t T) { Replay(t, goodHarness(), fstest.MapFS{"f.json": {Data: []byte(wrong)}}) })
		if !v.Failed() || strings.Contains(v.Failures[0], "is not a fixture") {
			t.Errorf("%s: %q", replacement, v.Failures)
		}
	}
}

const crashJSON = `{"protocol_version": 1, "kind": "DurableOwner", "model": "AtomicCrashBoundary", "description": "d", "scenarios": [
	{"id": "crash", "owner_id": "o", "mode": "event_history", "fence": 0, "steps": [
		{"op": {"type": "crash_before_commit", "commit": ` + commitJSON + `}, "expect": {"result": {"outcome": "aborted", "ack": "withhold"}, "image":
			{"position": 0, "fence": 0, "history": [], "snapshot": null, "inbox": [], "outbox": [], "receipts": [], "pending_effect_ids": []}}}]}]}`

// A process that is lost before a commit must be lost in a real transaction.
func TestCrashNeedsTransactionsOrAbort(t *testing.T) {
	files := fstest.MapFS{"crash.json": {Data: []byte(crashJSON)}}
	replay := func(h Harness) Verdict { return verdictOf(t, func(t T) { Replay(t, h, files) }) }
	if v := replay(goodHarness()); v.Failed() {
		t.Error(v.Failures)
	}
	h := withoutTransactions(goodHarness())
	if v := replay(h); !v.Failed() || !strings.Contains(v.Failures[0], "the harness has no Abort") {
		t.Errorf("without transactions and without Abort: %q", v.Failures)
	}
	h.Abort = func(context.Context, Backend, durable.Commit) error { return nil }
	if v := replay(h); v.Failed() {
		t.Error(v.Failures)
	}
	h.Abort = func(ctx context.Context, b Backend, c durable.Commit) error {
		_, err := b.(durable.Store).CommitOwner(ctx, c) // it gets through
		return err
	}
	if v := replay(h); !v.Failed() || !strings.Contains(v.Failures[0], "the image is not the one expected") {
		t.Errorf("an Abort that commits: %q", v.Failures)
	}
	commits := fault{atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
		var failed error
		return errors.Join(b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
			failed = body(ctx, tx)
			return nil
		}), failed)
	}}
	if v := replay(commits.harness()); !v.Failed() {
		t.Error("a transaction that commits what its body gave up is not found")
	}
}

// The fixtures find faults too.
func TestFixturesFindMutants(t *testing.T) {
	cases, err := fixtureCases(conformance.DurableOwner())
	if err != nil {
		t.Fatal(err)
	}
	faulty := slices.Concat(fenceMutants, effectMutants)
	found := 0
	for _, m := range faulty {
		if slices.ContainsFunc(cases, func(c Case) bool { return c.Try(t.Context(), m.fault.harness()).Failed() }) {
			found++
		} else {
			t.Logf("no fixture finds that %s", m.name)
		}
	}
	if found < len(faulty)*3/4 {
		t.Errorf("the fixtures find %d of %d", found, len(faulty))
	}
}

func TestRunGroupsKnowsItsGroups(t *testing.T) {
	cases, err := casesOf([]string{"wire", "kill"})
	if err != nil || len(cases) != len(wireCases)+len(logWireCases)+len(killCases) {
		t.Errorf("%d cases, %v", len(cases), err)
	}
	for _, groups := range [][]string{nil, {"wires"}, {"transactions/commit"}} {
		if _, err := casesOf(groups); err == nil {
			t.Errorf("%q is a group", groups)
		}
	}
}
