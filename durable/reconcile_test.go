package durable_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
	"pgregory.net/rapid"
)

func TestReconcile(t *testing.T) {
	entry := func(id, value string) durable.Entry { return durable.Entry{EntityID: id, Value: value} }
	// Through 1: a=1. Through 2: the same, since 2 says nothing. Through 3:
	// a=1 b=2. Through 4: b=2.
	all := steps(1, create("a", "1"), nil, create("b", "2"), retract("a"))
	atTwo := checkpoint(2, 1, entry("a", "1"))
	for _, c := range []struct {
		name     string
		base     durable.Checkpoint
		suffix   []durable.Step
		observed durable.Checkpoint
		lag      uint64
		drift    bool
		health   durable.Health
		at       durable.AtOwnThrough
	}{
		{"equal", durable.Checkpoint{}, all, checkpoint(4, 3, entry("b", "2")), 0, false, durable.Healthy, durable.AtOwnMatches},
		{"equal, from a base", atTwo, all[2:], checkpoint(4, 3, entry("b", "2")), 0, false, durable.Healthy, durable.AtOwnMatches},
		{"another value", durable.Checkpoint{}, all, checkpoint(4, 3, entry("b", "3")), 0, true, durable.Drifted, durable.AtOwnDiffers},
		{"another version", durable.Checkpoint{}, all, checkpoint(4, 4, entry("b", "2")), 0, true, durable.Drifted, durable.AtOwnDiffers},
		{"an entity too many", durable.Checkpoint{}, all, checkpoint(4, 3, entry("a", "1"), entry("b", "2")), 0, true, durable.Drifted, durable.AtOwnDiffers},
		{"more entities than facts", durable.Checkpoint{}, all, checkpoint(4, 0, entry("a", "1")), 0, true, durable.Drifted, durable.AtOwnDiffers},
		{"missing", durable.Checkpoint{}, all, checkpoint(4, 3), 0, true, durable.Drifted, durable.AtOwnDiffers},
		{"behind", durable.Checkpoint{}, all, checkpoint(3, 2, entry("a", "1"), entry("b", "2")), 1, true, durable.Lagging, durable.AtOwnMatches},
		{"behind and different", durable.Checkpoint{}, all, checkpoint(3, 2, entry("a", "1")), 1, true, durable.Lagging, durable.AtOwnDiffers},
		{"behind by a position without a fact", durable.Checkpoint{}, all[:2], checkpoint(1, 1, entry("a", "1")), 1, false, durable.Lagging, durable.AtOwnMatches},
		{"behind, and as it should be only later", durable.Checkpoint{}, all, checkpoint(3, 3, entry("b", "2")), 1, false, durable.Lagging, durable.AtOwnDiffers},
		{"at the base", atTwo, all[2:], atTwo, 2, true, durable.Lagging, durable.AtOwnMatches},
		{"before the base", atTwo, all[2:], checkpoint(1, 1, entry("a", "1")), 3, true, durable.Lagging, durable.AtOwnUnknown},
		{"never begun", durable.Checkpoint{}, all, durable.Checkpoint{}, 4, true, durable.Lagging, durable.AtOwnMatches},
		{"past the frontier", durable.Checkpoint{}, all, checkpoint(5, 3, entry("b", "2")), 0, true, durable.Drifted, durable.AtOwnUnknown},
		{"past the frontier of an empty history", durable.Checkpoint{}, nil, checkpoint(1, 0), 0, true, durable.Drifted, durable.AtOwnUnknown},
		{"an empty history", durable.Checkpoint{}, nil, durable.Checkpoint{}, 0, false, durable.Healthy, durable.AtOwnMatches},
		{"retracted to an empty list", durable.Checkpoint{}, steps(1, create("a", "1"), retract("a")), checkpoint(2, 2), 0, false, durable.Healthy, durable.AtOwnMatches},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := durable.Reconcile("order-42", c.base, c.suffix, c.observed)
			if err != nil {
				t.Fatal(err)
			}
			rebuilt, err := durable.Project(c.base, c.suffix)
			if err != nil {
				t.Fatal(err)
			}
			want := durable.Report{
				Owner: "order-42", Frontier: rebuilt.Through, Lag: c.lag, Drift: c.drift, Health: c.health, AtOwnThrough: c.at,
				TransitionAuthority: "durable_owner",
				RepairEffectID:      fmt.Sprintf("reconcile/order-42/%d", rebuilt.Through),
				Rebuilt:             rebuilt,
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got      %+v\nexpected %+v", got, want)
			}
		})
	}
}

func TestReconcileRefuses(t *testing.T) {
	var corrupt *durable.CorruptCheckpointError
	var projection *durable.ProjectionError
	bad := checkpoint(1, 2)
	unsorted := checkpoint(2, 2, durable.Entry{EntityID: "b"}, durable.Entry{EntityID: "a"})
	for _, c := range []struct {
		name     string
		owner    string
		base     durable.Checkpoint
		suffix   []durable.Step
		observed durable.Checkpoint
		is       func(error) bool
	}{
		{"no owner", "", durable.Checkpoint{}, nil, durable.Checkpoint{}, func(err error) bool { return errors.Is(err, countersign.ErrMalformed) }},
		{"a base with more facts than positions", "o", bad, nil, durable.Checkpoint{}, func(err error) bool { return errors.As(err, &corrupt) }},
		{"a base out of order", "o", unsorted, nil, durable.Checkpoint{}, func(err error) bool { return errors.As(err, &corrupt) }},
		{"an observed one with more facts than positions", "o", durable.Checkpoint{}, nil, bad, func(err error) bool { return errors.As(err, &corrupt) }},
		{"an observed one past the last position", "o", durable.Checkpoint{}, nil, checkpoint(1<<63, 0), func(err error) bool { return errors.As(err, &corrupt) }},
		{"a gap", "o", durable.Checkpoint{}, steps(2, nil), durable.Checkpoint{}, func(err error) bool { return errors.As(err, &projection) && projection.Position == 2 }},
		{"a fact that does not fit", "o", durable.Checkpoint{}, steps(1, nil, amend("a", "1")), durable.Checkpoint{}, func(err error) bool { return errors.As(err, &projection) && projection.Position == 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := durable.Reconcile(c.owner, c.base, c.suffix, c.observed)
			if err == nil || !c.is(err) || !errors.Is(err, countersign.ErrRefused) {
				t.Errorf("got %v", err)
			}
			if !reflect.DeepEqual(got, durable.Report{}) {
				t.Errorf("there is a report: %+v", got)
			}
		})
	}
}

func TestReconcileFromAnyBaseReportsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawSteps.Draw(t, "steps")
		seen := rapid.IntRange(0, len(all)).Draw(t, "observed through")
		observed, err := durable.Project(durable.Checkpoint{}, all[:seen])
		if err != nil {
			t.Fatal(err)
		}
		differs := len(observed.Entries) > 0 && rapid.Bool().Draw(t, "differs")
		if differs {
			observed.Entries[0].Value += "x"
		}
		whole, err := durable.Reconcile("o", durable.Checkpoint{}, all, observed)
		if err != nil {
			t.Fatal(err)
		}
		if whole.Lag != uint64(len(all)-seen) || (whole.Health == durable.Lagging) != (seen < len(all)) ||
			(whole.AtOwnThrough == durable.AtOwnDiffers) != differs {
			t.Fatalf("observed through %d, differs %v: %+v", seen, differs, whole)
		}
		cut := rapid.IntRange(0, len(all)).Draw(t, "base")
		base, err := durable.Project(durable.Checkpoint{}, all[:cut])
		if err != nil {
			t.Fatal(err)
		}
		resumed, err := durable.Reconcile("o", base, all[cut:], observed)
		if err != nil {
			t.Fatal(err)
		}
		if cut > seen {
			whole.AtOwnThrough = durable.AtOwnUnknown
		}
		if !reflect.DeepEqual(resumed, whole) {
			t.Fatalf("from %d: got %+v, expected %+v", cut, resumed, whole)
		}
	})
}

// readFact reads events as "create a 1", "amend a 2", "retract a" or "".
func readFact(r durable.Record) (*durable.Fact, error) {
	words := strings.Fields(string(r.Payload.Bytes))
	switch len(words) {
	case 0:
		return nil, nil
	case 2:
		return &durable.Fact{Type: durable.FactType(words[0]), EntityID: words[1]}, nil
	case 3:
		return &durable.Fact{Type: durable.FactType(words[0]), EntityID: words[1], Value: words[2]}, nil
	}
	return nil, fmt.Errorf("%d words", len(words))
}

// observe returns a fixed observed projection.
func observe(c durable.Checkpoint) func(context.Context) (durable.Checkpoint, error) {
	return func(context.Context) (durable.Checkpoint, error) { return c, nil }
}

// written is a store that holds one owner in history mode with the events.
func written(t *testing.T, owner string, events ...string) *memory.Store {
	t.Helper()
	s := memory.New()
	if _, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.EventHistory}); err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		appendEvent(t, s, owner, uint64(i), e)
	}
	return s
}

func appendEvent(t *testing.T, s durable.Store, owner string, position uint64, event string) {
	t.Helper()
	_, err := s.CommitOwner(t.Context(), durable.Commit{
		Owner: owner, ExpectedPosition: position, Inbox: durable.Inbox{ID: fmt.Sprint("message-", position)},
		State: durable.Append(v1(event)),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// watched counts what is read, and lets a test act before a page is read.
type watched struct {
	durable.Store
	pages      int
	beforePage func(page int) error
	largest    int
}

func (w *watched) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	w.pages++
	if w.beforePage != nil {
		if err := w.beforePage(w.pages); err != nil {
			return nil, err
		}
	}
	page, err := w.Store.ReadHistory(ctx, req)
	w.largest = max(w.largest, len(page))
	return page, err
}

func TestReconcileOwnerReadsInPages(t *testing.T) {
	const events = 2*durable.DefaultPageLimit + 1
	facts := make([]string, events)
	facts[0] = "create a 1"
	for i := 1; i < events; i++ {
		facts[i] = fmt.Sprintf("amend a %d", i+1)
	}
	w := &watched{Store: written(t, "order-42", facts...)}
	want := checkpoint(events, events, durable.Entry{EntityID: "a", Value: fmt.Sprint(events)})
	got, err := durable.ReconcileOwner(t.Context(), w, "order-42", readFact, observe(want))
	if err != nil {
		t.Fatal(err)
	}
	if got.Health != durable.Healthy || got.Frontier != events || !got.Rebuilt.Equal(want) {
		t.Errorf("got %+v", got)
	}
	if w.pages != 3 || w.largest != durable.DefaultPageLimit {
		t.Errorf("%d pages of up to %d records", w.pages, w.largest)
	}
}

func TestReconcileOwnerSeesOneState(t *testing.T) {
	s := written(t, "order-42", "create a 1", "")
	w := &watched{Store: s}
	// A commit between the head and the history is not part of the report.
	w.beforePage = func(page int) error {
		if page == 1 {
			appendEvent(t, s, "order-42", 3, "retract a")
		}
		return nil
	}
	// A commit after the observed projection was read is lag, not a claim past
	// the frontier.
	observed := func(context.Context) (durable.Checkpoint, error) {
		appendEvent(t, s, "order-42", 2, "amend a 2")
		return checkpoint(2, 1, durable.Entry{EntityID: "a", Value: "1"}), nil
	}
	got, err := durable.ReconcileOwner(t.Context(), w, "order-42", readFact, observed)
	if err != nil {
		t.Fatal(err)
	}
	if got.Frontier != 3 || got.Lag != 1 || got.Health != durable.Lagging || got.AtOwnThrough != durable.AtOwnMatches ||
		!got.Rebuilt.Equal(checkpoint(3, 2, durable.Entry{EntityID: "a", Value: "2"})) {
		t.Errorf("got %+v", got)
	}
}

func TestReconcileOwnerEqualsReconcile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := drawSteps.Draw(rt, "steps")
		events := make([]string, len(all))
		for i, s := range all {
			if s.Fact != nil {
				if s.Fact.Type != durable.Retract {
					s.Fact.Value += "x" // words are not empty
				}
				events[i] = strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Fact.Type, s.Fact.EntityID, s.Fact.Value))
			}
		}
		observed := checkpoint(rapid.Uint64Range(0, 25).Draw(rt, "through"), 0)
		want, err := durable.Reconcile("o", durable.Checkpoint{}, all, observed)
		if err != nil {
			rt.Fatal(err)
		}
		s := written(t, "o", events...)
		before, err := durable.Recover(t.Context(), s, "o")
		if err != nil {
			rt.Fatal(err)
		}
		got, err := durable.ReconcileOwner(t.Context(), s, "o", readFact, observe(observed))
		if err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("got %+v, expected %+v", got, want)
		}
		after, err := durable.Recover(t.Context(), s, "o")
		if err != nil || !reflect.DeepEqual(after, before) {
			rt.Fatalf("the owner was changed: %+v, %v", after, err)
		}
	})
}

func TestReconcileOwnerRefuses(t *testing.T) {
	ctx := t.Context()
	lost := errors.New("the projection is lost")
	medium := memory.NewMedium()
	s := memory.Open(medium)
	planted := func(owner string, mode durable.Mode, position uint64, records ...durable.Record) {
		medium.Plant(durable.Image{Head: durable.Head{Owner: owner, Mode: mode, Position: position}, History: records})
	}
	planted("snapshot", durable.Snapshot, 0)
	planted("short", durable.EventHistory, 3, history(v1(""), v1(""))...)
	planted("gap", durable.EventHistory, 3, durable.Record{Position: 1, Payload: v1("")}, durable.Record{Position: 3, Payload: v1("")})
	planted("misfit", durable.EventHistory, 2, history(v1("create a 1"), v1("create a 2"))...)
	planted("unreadable", durable.EventHistory, 1, history(v1("not a fact at all"))...)
	planted("good", durable.EventHistory, 1, history(v1(""))...)

	var noHistory *durable.NoHistoryError
	var corruptImage *durable.CorruptImageError
	var corruptCheckpoint *durable.CorruptCheckpointError
	var projection *durable.ProjectionError
	var unknown *durable.UnknownOwnerError
	refused := func(err error) bool { return errors.Is(err, countersign.ErrRefused) }
	for _, c := range []struct {
		owner    string
		observed func(context.Context) (durable.Checkpoint, error)
		is       func(error) bool
	}{
		{"", observe(durable.Checkpoint{}), func(err error) bool { return errors.Is(err, countersign.ErrMalformed) }},
		{"nobody", observe(durable.Checkpoint{}), func(err error) bool { return errors.As(err, &unknown) }},
		{"snapshot", observe(durable.Checkpoint{}), func(err error) bool {
			return errors.As(err, &noHistory) && noHistory.Mode == durable.Snapshot && refused(err)
		}},
		{"short", observe(durable.Checkpoint{}), func(err error) bool {
			return errors.As(err, &corruptImage) && corruptImage.Reason == durable.HistoryNotContiguous
		}},
		{"gap", observe(durable.Checkpoint{}), func(err error) bool {
			return errors.As(err, &corruptImage) && corruptImage.Reason == durable.HistoryNotContiguous
		}},
		{"misfit", observe(durable.Checkpoint{}), func(err error) bool { return errors.As(err, &projection) && projection.Position == 2 }},
		{"unreadable", observe(durable.Checkpoint{}), func(err error) bool { return strings.HasSuffix(err.Error(), "position 1: 5 words") }},
		{"good", observe(checkpoint(1, 2)), func(err error) bool { return errors.As(err, &corruptCheckpoint) }},
		{"good", func(context.Context) (durable.Checkpoint, error) { return durable.Checkpoint{}, lost }, func(err error) bool { return errors.Is(err, lost) }},
	} {
		got, err := durable.ReconcileOwner(ctx, s, c.owner, readFact, c.observed)
		if err == nil || !c.is(err) {
			t.Errorf("%q: got %v", c.owner, err)
		}
		if !reflect.DeepEqual(got, durable.Report{}) {
			t.Errorf("%q: there is a report: %+v", c.owner, got)
		}
	}

	w := &watched{Store: s, beforePage: func(int) error { return lost }}
	if _, err := durable.ReconcileOwner(ctx, w, "good", readFact, observe(durable.Checkpoint{})); !errors.Is(err, lost) {
		t.Errorf("with a page that can't be read: got %v", err)
	}

	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := durable.ReconcileOwner(ended, s, "good", readFact, observe(durable.Checkpoint{})); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: got %v", err)
	}
}

func TestSchedulingARepairTwiceAddsOneEffect(t *testing.T) {
	s := written(t, "order-42", "create a 1")
	report, err := durable.ReconcileOwner(t.Context(), s, "order-42", readFact, observe(checkpoint(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	payload := v1("rebuild the projection")
	intent := durable.RepairIntent(report, payload)
	payload.Bytes[0] = 'R'
	if intent.ID != "reconcile/order-42/1" || string(intent.Payload.Bytes) != "rebuild the projection" {
		t.Fatalf("got %+v", intent)
	}
	for position := uint64(1); position <= 2; position++ {
		_, err := s.CommitOwner(t.Context(), durable.Commit{
			Owner: "order-42", ExpectedPosition: position, Inbox: durable.Inbox{ID: fmt.Sprint("pass-", position)},
			State: durable.Append(v1("")), Effects: []durable.Intent{intent},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	img, err := durable.Recover(t.Context(), s, "order-42")
	if err != nil {
		t.Fatal(err)
	}
	if len(img.Pending) != 1 || img.Pending[0].ID != intent.ID || img.Pending[0].AcceptedAt != 2 {
		t.Errorf("pending: %+v", img.Pending)
	}
}

func TestZeroReportSchedulesNothing(t *testing.T) {
	c := durable.Commit{
		Owner: "order-42", Inbox: durable.Inbox{ID: "pass-1"}, State: durable.Append(v1("")),
		Effects: []durable.Intent{durable.RepairIntent(durable.Report{}, v1(""))},
	}
	if err := c.Check(); !errors.Is(err, countersign.ErrMalformed) {
		t.Errorf("got %v", err)
	}
}
