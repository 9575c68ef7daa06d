package storetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is a store with one fault, and the cases that must find it. The first
// is the one made for it.
type mutant struct {
	name  string
	cases []string
	fault fault
}

// The mutants, by what of the store is wrong.
var mutants = slices.Concat(createMutants, commitMutants, fenceMutants, effectMutants, receiptMutants, valueMutants,
	appendMutants, schemaMutants, scopeMutants, constraintMutants, effectReceiptMutants, eventsMutants, logStoreMutants, observerMutants, namespaceMutants, logTransactionMutants, logRaceMutants,
	aliasMutants, readMutants, contextMutants, handleMutants, raceMutants, transactionMutants, wireMutants)

// caseNamed finds a case by group/name.
func caseNamed(t *testing.T, name string) Case {
	t.Helper()
	for _, c := range Cases() {
		if c.String() == name {
			return c
		}
	}
	t.Fatalf("there is no case %s", name)
	return Case{}
}

const patience = time.Minute

// finds reports whether a case finds a fault. A race may go well, but not twenty
// times.
func finds(ctx context.Context, c Case, f fault) bool {
	for range 20 {
		if c.Try(ctx, f.harness()).Failed() {
			return true
		}
	}
	return false
}

// Each mutant is found by the cases that it names, and the good store passes
// them.
func TestMutantsAreKilled(t *testing.T) {
	sound := map[string]bool{}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			for _, name := range m.cases {
				c := caseNamed(t, name)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if !sound[name] {
					if v := c.Try(ctx, goodHarness()); v.Failed() {
						t.Errorf("%s fails on the good store: %s", name, strings.Join(v.Failures, "\n"))
					}
					sound[name] = true
				}
				if !finds(ctx, c, m.fault) {
					t.Errorf("%s does not find the fault", name)
				}
				cancel()
			}
		})
	}
	t.Logf("%d mutants, killed by %d cases", len(mutants), len(sound))
}

// No case passes by looking at nothing: each has a mutant that it finds.
func TestEveryCaseFindsAMutant(t *testing.T) {
	found := map[string]string{}
	for _, m := range mutants {
		for _, name := range m.cases {
			found[name] = m.name
		}
	}
	for _, c := range Cases() {
		if found[c.String()] == "" {
			t.Errorf("no mutant is made for %s", c)
		}
	}
	t.Logf("%d cases", len(Cases()))
}
