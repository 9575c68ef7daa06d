package durable_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"pgregory.net/rapid"
)

func create(id, value string) *durable.Fact {
	return &durable.Fact{Type: durable.Create, EntityID: id, Value: value}
}

func amend(id, value string) *durable.Fact {
	return &durable.Fact{Type: durable.Amend, EntityID: id, Value: value}
}

func retract(id string) *durable.Fact {
	return &durable.Fact{Type: durable.Retract, EntityID: id}
}

// steps puts facts at the positions from first; nil is a position without one.
func steps(first uint64, facts ...*durable.Fact) []durable.Step {
	steps := make([]durable.Step, len(facts))
	for i, f := range facts {
		steps[i] = durable.Step{Position: first + uint64(i), Fact: f}
	}
	return steps
}

func checkpoint(through, version uint64, entries ...durable.Entry) durable.Checkpoint {
	return durable.Checkpoint{Through: through, ProjectionVersion: version, Entries: entries}
}

func TestProject(t *testing.T) {
	a, b := durable.Entry{EntityID: "a", Value: "1"}, durable.Entry{EntityID: "b", Value: "2"}
	for _, c := range []struct {
		name   string
		from   durable.Checkpoint
		suffix []durable.Step
		want   durable.Checkpoint
	}{
		{"nothing", durable.Checkpoint{}, nil, checkpoint(0, 0)},
		{"entries are sorted", durable.Checkpoint{}, steps(1, create("b", "2"), create("a", "1")), checkpoint(2, 2, a, b)},
		{"amend replaces the value", durable.Checkpoint{}, steps(1, create("a", "0"), amend("a", "1")), checkpoint(2, 2, a)},
		{"retract leaves the others", durable.Checkpoint{}, steps(1, create("a", "1"), create("b", "2"), retract("b")), checkpoint(3, 3, a)},
		{"retract of the last one", durable.Checkpoint{}, steps(1, create("a", "1"), retract("a")), checkpoint(2, 2)},
		{"create after retract", durable.Checkpoint{}, steps(1, create("a", "0"), retract("a"), create("a", "1")), checkpoint(3, 3, a)},
		{"a position without a fact", durable.Checkpoint{}, steps(1, nil, create("a", "1"), nil), checkpoint(3, 1, a)},
		{"an empty value", durable.Checkpoint{}, steps(1, create("a", "")), checkpoint(1, 1, durable.Entry{EntityID: "a"})},
		{"resumed", checkpoint(7, 3, a), steps(8, create("b", "2")), checkpoint(8, 4, a, b)},
		{"resumed without a suffix", checkpoint(7, 3, a), nil, checkpoint(7, 3, a)},
		{"up to the last position", checkpoint(countersign.MaxInteger-1, 1, a), steps(countersign.MaxInteger, nil), checkpoint(countersign.MaxInteger, 1, a)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := durable.Project(c.from, c.suffix)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(c.want) {
				t.Errorf("got %+v, expected %+v", got, c.want)
			}
			if got.Entries == nil {
				t.Error("an empty projection has no list")
			}
		})
	}
}

func TestProjectRefuses(t *testing.T) {
	from := checkpoint(3, 2, durable.Entry{EntityID: "a", Value: "1"})
	for _, c := range []struct {
		name     string
		from     durable.Checkpoint
		suffix   []durable.Step
		position uint64
		reason   durable.ProjectionReason
	}{
		{"a gap", from, steps(5, nil), 5, durable.StepGap},
		{"a gap later on", from, append(steps(4, nil), steps(6, nil)...), 6, durable.StepGap},
		{"a repeat", from, steps(3, nil), 3, durable.StepRepeat},
		{"a repeat later on", from, append(steps(4, nil), steps(4, nil)...), 4, durable.StepRepeat},
		{"out of order", from, append(steps(5, nil), steps(4, nil)...), 5, durable.StepGap},
		{"position 0", durable.Checkpoint{}, steps(0, nil), 0, durable.StepRepeat},
		{"past the last position", checkpoint(countersign.MaxInteger, 0), steps(countersign.MaxInteger+1, nil), countersign.MaxInteger + 1, durable.StepInteger},
		{"the greatest number", durable.Checkpoint{}, steps(1<<64-1, nil), 1<<64 - 1, durable.StepInteger},
		{"create of what exists", from, steps(4, create("a", "2")), 4, durable.EntityExists},
		{"amend of what is missing", from, steps(4, amend("b", "2")), 4, durable.EntityMissing},
		{"retract of what is missing", from, steps(4, retract("b")), 4, durable.EntityMissing},
		{"retract twice", from, steps(4, retract("a"), retract("a")), 5, durable.EntityMissing},
		{"an entity without a name", from, steps(4, create("", "2")), 4, durable.FactMalformed},
		{"a retract with a value", from, steps(4, &durable.Fact{Type: durable.Retract, EntityID: "a", Value: "1"}), 4, durable.FactMalformed},
		{"an unknown type", from, steps(4, &durable.Fact{Type: "replace", EntityID: "a"}), 4, durable.FactMalformed},
		{"no type", from, steps(4, &durable.Fact{EntityID: "a"}), 4, durable.FactMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := durable.Project(c.from, c.suffix)
			var e *durable.ProjectionError
			if !errors.As(err, &e) || e.Position != c.position || e.Reason != c.reason || !errors.Is(err, countersign.ErrRefused) {
				t.Errorf("got %v, expected %s at %d", err, c.reason, c.position)
			}
			if !reflect.DeepEqual(got, durable.Checkpoint{}) {
				t.Errorf("something was projected: %+v", got)
			}
		})
	}
}

func TestCheckpointValidate(t *testing.T) {
	a, b := durable.Entry{EntityID: "a", Value: "1"}, durable.Entry{EntityID: "b", Value: "2"}
	for _, c := range []struct {
		name   string
		c      durable.Checkpoint
		reason durable.CheckpointReason
	}{
		{"the beginning", durable.Checkpoint{}, ""},
		{"as many facts as positions", checkpoint(2, 2, a, b), ""},
		{"positions without facts", checkpoint(9, 0), ""},
		{"all retracted", checkpoint(4, 4), ""},
		{"the last position", checkpoint(countersign.MaxInteger, countersign.MaxInteger, a), ""},
		{"past the last position", checkpoint(countersign.MaxInteger+1, 0), durable.CheckpointInteger},
		{"more facts than positions", checkpoint(1, 2, a, b), durable.VersionPastThrough},
		{"facts at position 0", checkpoint(0, 1), durable.VersionPastThrough},
		{"entries at position 0", checkpoint(0, 0, a), durable.EntriesPastVersion},
		{"more entries than facts", checkpoint(3, 1, a, b), durable.EntriesPastVersion},
		{"unsorted", checkpoint(3, 3, b, a), durable.EntryOrder},
		{"an entity twice", checkpoint(3, 3, a, a), durable.EntryOrder},
		{"an entity without a name", checkpoint(3, 3, durable.Entry{Value: "1"}), durable.EntryWithoutName},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.c.Validate()
			_, projectErr := durable.Project(c.c, nil)
			if c.reason == "" {
				if err != nil || projectErr != nil {
					t.Errorf("refused: %v, %v", err, projectErr)
				}
				return
			}
			for _, err := range []error{err, projectErr} {
				var e *durable.CorruptCheckpointError
				if !errors.As(err, &e) || e.Reason != c.reason || e.Through != c.c.Through || !errors.Is(err, countersign.ErrRefused) {
					t.Errorf("got %v, expected %s", err, c.reason)
				}
			}
		})
	}
}

func TestProjectorStaysWhereItWasAfterAnError(t *testing.T) {
	var p durable.Projector // the zero projector is at the beginning
	for _, s := range steps(1, create("a", "1"), create("b", "2")) {
		if err := p.Apply(s); err != nil {
			t.Fatal(err)
		}
	}
	want := p.Checkpoint()
	for _, s := range []durable.Step{{Position: 2}, {Position: 4}, {Position: 3, Fact: create("a", "2")}, {Position: 3, Fact: amend("c", "2")}} {
		if err := p.Apply(s); err == nil {
			t.Fatalf("%+v was accepted", s)
		}
		if got := p.Checkpoint(); !got.Equal(want) {
			t.Errorf("after %+v: got %+v, expected %+v", s, got, want)
		}
	}
	if err := p.Apply(durable.Step{Position: 3, Fact: retract("a")}); err != nil {
		t.Errorf("the next step is refused: %v", err)
	}
}

func TestProjectSharesNoMemory(t *testing.T) {
	from := checkpoint(1, 1, durable.Entry{EntityID: "a", Value: "1"})
	suffix := steps(2, amend("a", "2"))
	p, err := durable.NewProjector(from)
	if err != nil {
		t.Fatal(err)
	}
	from.Entries[0].Value = "changed"
	if got := p.Checkpoint().Entries[0].Value; got != "1" {
		t.Errorf("the projector follows its checkpoint: %q", got)
	}
	before := p.Checkpoint()
	if err := p.Apply(suffix[0]); err != nil {
		t.Fatal(err)
	}
	suffix[0].Fact.Value = "changed"
	after := p.Checkpoint()
	if before.Entries[0].Value != "1" || after.Entries[0].Value != "2" {
		t.Errorf("before %+v, after %+v", before, after)
	}
	after.Entries[0].Value = "changed"
	if got := p.Checkpoint().Entries[0].Value; got != "2" {
		t.Errorf("the projector follows a checkpoint that it gave away: %q", got)
	}
}

// drawSteps draws steps that follow each other from position 1 and fit.
var drawSteps = rapid.Custom(func(t *rapid.T) []durable.Step {
	exists := map[string]bool{}
	facts := make([]*durable.Fact, rapid.IntRange(0, 20).Draw(t, "length"))
	for i := range facts {
		if rapid.IntRange(0, 4).Draw(t, "none") == 0 {
			continue
		}
		id := rapid.SampledFrom([]string{"a", "b", "c", "é"}).Draw(t, "entity")
		value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value")
		switch {
		case !exists[id]:
			facts[i] = create(id, value)
			exists[id] = true
		case rapid.Bool().Draw(t, "retract"):
			facts[i] = retract(id)
			delete(exists, id)
		default:
			facts[i] = amend(id, value)
		}
	}
	return steps(1, facts...)
})

func TestResumingEqualsReplaying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawSteps.Draw(t, "steps")
		whole, err := durable.Project(durable.Checkpoint{}, all)
		if err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		half, err := durable.Project(durable.Checkpoint{}, all[:cut])
		if err != nil {
			t.Fatal(err)
		}
		if err := half.Validate(); err != nil {
			t.Fatalf("a checkpoint is not valid: %v", err)
		}
		resumed, err := durable.Project(half, all[cut:])
		if err != nil {
			t.Fatal(err)
		}
		if !resumed.Equal(whole) {
			t.Fatalf("resumed at %d: got %+v, expected %+v", cut, resumed, whole)
		}
	})
}

// fold is the contract of a projection in its plainest form: a list that is
// searched from its beginning. It returns false when the step is refused.
func fold(c durable.Checkpoint, s durable.Step) (durable.Checkpoint, bool) {
	if s.Position != c.Through+1 {
		return c, false
	}
	next := durable.Checkpoint{Through: s.Position, ProjectionVersion: c.ProjectionVersion}
	if s.Fact == nil {
		next.Entries = c.Entries
		return next, true
	}
	next.ProjectionVersion++
	found := false
	for _, e := range c.Entries {
		switch {
		case e.EntityID != s.Fact.EntityID:
			next.Entries = append(next.Entries, e)
			continue
		case s.Fact.Type == durable.Create:
			return c, false
		case s.Fact.Type == durable.Amend:
			next.Entries = append(next.Entries, durable.Entry{EntityID: e.EntityID, Value: s.Fact.Value})
		}
		found = true
	}
	if s.Fact.Type != durable.Create {
		if !found {
			return c, false
		}
		return next, true
	}
	added := durable.Entry{EntityID: s.Fact.EntityID, Value: s.Fact.Value}
	for i, e := range next.Entries {
		if e.EntityID > added.EntityID {
			next.Entries = append(next.Entries[:i:i], append([]durable.Entry{added}, next.Entries[i:]...)...)
			return next, true
		}
	}
	next.Entries = append(next.Entries, added)
	return next, true
}

func TestProjectorFollowsThePlainFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := durable.NewProjector(durable.Checkpoint{})
		if err != nil {
			t.Fatal(err)
		}
		var want durable.Checkpoint
		for range rapid.IntRange(0, 30).Draw(t, "length") {
			s := durable.Step{Position: want.Through + uint64(rapid.SampledFrom([]int{1, 1, 1, 1, 1, 0, 2}).Draw(t, "ahead"))}
			if kind := rapid.SampledFrom([]durable.FactType{"", durable.Create, durable.Create, durable.Amend, durable.Retract}).Draw(t, "type"); kind != "" {
				s.Fact = &durable.Fact{Type: kind, EntityID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "entity")}
				if kind != durable.Retract {
					s.Fact.Value = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value")
				}
			}
			var fits bool
			want, fits = fold(want, s)
			if err := p.Apply(s); (err == nil) != fits {
				t.Fatalf("%+v %+v: %v, expected to fit: %v", s, s.Fact, err, fits)
			}
			if got := p.Checkpoint(); !got.Equal(want) || p.Through() != want.Through {
				t.Fatalf("after %+v: got %+v, expected %+v", s, got, want)
			}
			if err := p.Checkpoint().Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
