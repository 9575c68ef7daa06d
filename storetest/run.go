package storetest

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/countersign/countersign/conformance"
	"github.com/countersign/countersign/store"
)

// Run runs the whole suite against a store: every case as the subtest
// group/name, the fixtures among them, and then everything that needs no
// transactions of its own a second time as transactions/group/name, with each
// request in a transaction of its own.
//
// What the backend or the harness does not have is listed in the subtests
// suite/not_implemented and suite/not_repeated. Nothing is skipped without a word, and a backend that
// implements nothing fails.
func Run(t *testing.T, h Harness) {
	t.Helper()
	cases := Cases()
	for _, fsys := range []fs.FS{conformance.DurableOwner(), conformance.EventLog(), conformance.EffectReceipt()} {
		fixtures, err := fixtureCases(fsys)
		if err != nil {
			t.Fatalf("the embedded fixtures: %v", err)
		}
		cases = append(cases, fixtures...)
	}
	runAll(t, h, cases)
}

// RunGroups runs the cases of some groups, each once: for another way to the same
// store, of which Run has proved everything by one way. The groups are those of
// [Cases]; the fixtures have none, [Replay] replays them. What the harness does not
// have is listed as Run does.
func RunGroups(t *testing.T, h Harness, groups ...string) {
	t.Helper()
	cases, err := casesOf(groups)
	if err != nil {
		t.Fatalf("%v", err)
	}
	runOnce(t, h, means(t, h), cases)
}

// casesOf returns the cases of groups, each of which there must be.
func casesOf(groups []string) ([]Case, error) {
	var known []string
	for _, c := range Cases() {
		if !slices.Contains(known, c.Group) {
			known = append(known, c.Group)
		}
	}
	for _, g := range groups {
		if !slices.Contains(known, g) {
			return nil, fmt.Errorf("there is no group %q; the groups are %s", g, strings.Join(known, ", "))
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("no group was named; the groups are %s", strings.Join(known, ", "))
	}
	return slices.DeleteFunc(Cases(), func(c Case) bool { return !slices.Contains(groups, c.Group) }), nil
}

// runAll runs what the harness has the means for, and lists the rest.
func runAll(t T, h Harness, cases []Case) {
	t.Helper()
	has := means(t, h)
	able := runOnce(t, h, has, cases)
	if !has[NeedTransactions] {
		report := Case{Group: "suite", Name: "not_repeated", Run: func(t T, _ Harness) {
			t.Logf("everything again as transactions/…: without %s", NeedTransactions)
		}}
		runOne(t, "", report, h)
		return
	}
	wrapped := throughTransactions(h)
	for _, c := range able {
		if !slices.Contains(c.Needs, NeedTransactions) {
			runOne(t, "transactions/", c, wrapped)
		}
	}
}

// runOnce runs what the harness has the means for, lists the rest, and returns what
// it ran.
func runOnce(t T, h Harness, has map[Need]bool, cases []Case) (able []Case) {
	t.Helper()
	missing := map[Need][]Case{}
	for _, c := range cases {
		if lack := c.lacks(has); lack != "" {
			missing[lack] = append(missing[lack], c)
			continue
		}
		able = append(able, c)
	}
	if len(able) == 0 && len(cases) > 0 {
		// Nothing was proved, which must not look like success.
		t.Errorf("the backend implements nothing that these cases could be run with")
	}
	for _, need := range h.Requires {
		if !has[need] {
			t.Errorf("the harness requires %s, which is not there", need)
		}
	}
	for _, c := range able {
		runOne(t, "", c, h)
	}
	if len(missing) > 0 {
		report := Case{Group: "suite", Name: "not_implemented", Run: func(t T, _ Harness) {
			for _, need := range needs {
				if lacking := missing[need]; lacking != nil {
					t.Logf("without %s: %s", need, strings.Join(named(lacking, cases), ", "))
				}
			}
		}}
		runOne(t, "", report, h)
	}
	return able
}

// named names cases: by their group if all cases of it are there.
func named(some, all []Case) (names []string) {
	count := func(cases []Case, group string) (n int) {
		for _, c := range cases {
			if c.Group == group {
				n++
			}
		}
		return n
	}
	for _, c := range some {
		name := c.String()
		if count(some, c.Group) == count(all, c.Group) {
			name = c.Group
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// means finds out what there is to run cases with.
func means(t T, h Harness) map[Need]bool {
	t.Helper()
	if h.New == nil {
		t.Fatalf("the harness has no New")
	}
	b, err := h.New(t)(t.Context(), OpenOptions{})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() { _ = b.Close() }()
	has := store.CapabilitiesOf(b)
	return map[Need]bool{
		NeedOwners: has.Owners, NeedEvents: has.Events, NeedObservers: has.Events && has.Observers, NeedReceipts: has.Events && has.Receipts,
		NeedTransactions: has.Transactions,
		NeedPlant:        h.Plant != nil, NeedKill: h.Kill != nil, NeedWire: h.Wire,
	}
}

// lacks returns the first need that is not met, or nothing.
func (c Case) lacks(has map[Need]bool) Need {
	for _, need := range c.Needs {
		if !has[need] {
			return need
		}
	}
	return ""
}

// runOne runs a case as a subtest where t has subtests. Elsewhere it reports
// what the case reports, with the case in front.
func runOne(t T, prefix string, c Case, h Harness) {
	t.Helper()
	name := prefix + c.String()
	if tt, ok := t.(*testing.T); ok {
		tt.Run(name, func(t *testing.T) { c.Run(t, h) })
		return
	}
	v := c.Try(t.Context(), h)
	for _, line := range v.Log {
		t.Logf("%s: %s", name, line)
	}
	for _, failure := range v.Failures {
		t.Errorf("%s: %s", name, failure)
	}
}
