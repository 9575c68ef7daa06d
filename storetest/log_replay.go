package storetest

import (
	"fmt"
	"slices"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// asCase returns the scenario as a case of the group named after its file.
func (s logScenario) asCase(group string) Case {
	return Case{Group: group, Name: s.id, Needs: s.needs(), Run: s.replay}
}

// needs are receipts only where the scenario is about some.
func (s logScenario) needs() []Need {
	all := []Need{NeedEvents}
	for _, st := range s.steps {
		_, with := st.req.(receipt.AppendWithReceipt)
		_, record := st.req.(receipt.RecordEffect)
		if with || record {
			all = append(all, NeedReceipts)
			break
		}
	}
	for _, st := range s.steps {
		if st.op == opCrash {
			return append(all, NeedTransactions)
		}
	}
	return all
}

// replay carries out the steps and compares the result of each, and everything in
// the namespace after it.
func (s logScenario) replay(t T, h Harness) {
	t.Helper()
	session := newLogSession(t, h, false)
	for i, st := range s.steps {
		what := fmt.Sprintf("scenario %s, step %d of %d, %s", s.id, i+1, len(s.steps), st.op)
		if st.req != nil {
			what += ": " + describeLog(st.req)
			session.remember(st.req)
		}
		got, err := session.carryOut(st)
		if got.String() != st.want.String() {
			t.Fatalf("%s:\n want %s\n  got %s, error: %v", what, st.want, got, err)
		}
		img, err := session.image(s)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if want, have := st.image.show(), img.show(); want != have {
			t.Fatalf("%s: the image is not the one expected:\n%s", what, diffLines(want, have))
		}
	}
}

// carryOut does what the step says. A crash leaves another handle behind.
func (s *logSession) carryOut(st logStep) (logResult, error) {
	s.Helper()
	switch st.op {
	case opCrash:
		s.abort(st.req)
		s.store = s.db.handle()
		return logResult{Outcome: aborted}, nil
	case opRecover:
		s.db.close()
		s.store = s.db.handle()
		return logResult{Outcome: recovered}, nil
	}
	a := askLog(s.Context(), s.store, st.req)
	if a.err == nil && !a.settlement.Settled() {
		return logResult{Outcome: "not settled"}, nil
	}
	return resultOf(st.req, a), a.err
}

// image reads everything of the scenario's namespace.
func (s *logSession) image(of logScenario) (logImage, error) {
	img := logImage{sequences: map[string][]eventlog.Recorded{}}
	for _, q := range s.sequences {
		if q.Namespace != of.ns {
			continue
		}
		events, err := readSequence(s.Context(), s.store, q)
		if err != nil {
			return logImage{}, err
		}
		if len(events) > 0 {
			img.sequences[q.Name] = events
		}
	}
	if ids := s.occurrences[of.ns]; len(ids) > 0 {
		all, err := s.store.receipts.ListReceipts(s.Context(), receipt.ListReceipts{Namespace: of.ns, Occurrences: slices.Clone(ids)})
		if err != nil {
			return logImage{}, fmt.Errorf("list the receipts: %w", err)
		}
		img.receipts = all
	}
	return img, nil
}
