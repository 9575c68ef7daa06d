package eventlog

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// table is what an adapter stores of one sequence.
type table struct {
	state  IndexState
	exists bool
	events []Recorded
	claims map[ClaimOwner]Claim
}

// read is what an adapter reads in a transaction.
func (t *table) read(c *Catalog, touch Touch) *Slice {
	s := &Slice{Revision: c.Revision, Constraints: c.Constraints, Exists: t.exists, Next: t.state.Next, Indexed: t.state.Indexed, Now: time.UnixMicro(1)}
	known := map[ClaimOwner]bool{}
	for _, o := range touch.Owners {
		if claim, ok := t.claims[o]; ok {
			known[o] = true
			s.AddClaim(claim)
		}
	}
	for _, v := range touch.Values {
		for o, claim := range t.claims {
			if o.Index == v.Index && claim.Value == v.Value && !known[o] {
				known[o] = true
				s.AddClaim(claim)
			}
		}
	}
	for _, scope := range touch.Scopes {
		for i := len(t.events) - 1; i >= 0; i-- {
			if e := t.events[i]; e.Number >= scope.Expected.From() && scope.Filter().Matches(&e.Event) {
				s.SetHighest(scope, e.Number)
				break
			}
		}
	}
	return s
}

// write is what an adapter writes. It holds the database's unique keys.
func (t *table) write(tb require.TestingT, c Changes) {
	if c.Creates {
		require.False(tb, t.exists)
		t.exists, t.state.Indexed = true, c.Indexed
	}
	t.state.Next = c.Next
	t.events = append(t.events, c.Events...)
	t.writeClaims(tb, c.Freed, c.Claims)
}

func (t *table) writeClaims(tb require.TestingT, freed []ClaimOwner, made []Claim) {
	for _, o := range freed {
		require.Contains(tb, t.claims, o, "a claim is freed that is not there")
		delete(t.claims, o)
	}
	for _, one := range made {
		o := ClaimOwner{one.Index, one.Source}
		require.NotContains(tb, t.claims, o, "the primary key")
		for other, claim := range t.claims {
			require.False(tb, other.Index == one.Index && claim.Value == one.Value, "the unique value")
		}
		t.claims[o] = one
	}
}

func testCatalog(t require.TestingT, constraints uint64) *Catalog {
	register := RegisterEventTypes{EventStore: "shop"}
	for _, id := range []string{"named", "renamed", "gone", "opened", "closed"} {
		register.Types = append(register.Types, EventType{ID: id, Schema: []byte(`{"type":"object"}`)})
	}
	require.NoError(t, register.Check())
	plan, err := register.Decide(Definitions{})
	require.NoError(t, err)
	all := Definitions{}.Apply(plan)
	rules := RegisterConstraints{EventStore: "shop", Constraints: []Constraint{
		{Name: "name", Kind: UniqueValue, Covers: []Covered{{Type: "named", Properties: []string{"name"}}, {Type: "renamed", Properties: []string{"to"}}}, RemovedBy: []string{"gone"}, IgnoreCase: true},
		{Name: "mail", Kind: UniqueValue, Covers: []Covered{{Type: "named", Properties: []string{"mail", "name"}}}, Within: Within{StreamID: true}},
		{Name: "open", Kind: UniqueEventType, Covers: []Covered{{Type: "opened"}}, RemovedBy: []string{"closed"}},
	}}
	require.NoError(t, rules.Check())
	plan, err = rules.Decide(all)
	require.NoError(t, err)
	all = all.Apply(plan)
	all.Constraints = constraints
	c, err := Compile(all)
	require.NoError(t, err)
	return c
}

func drawEvent(t *rapid.T) Event {
	name := rapid.SampledFrom([]string{"a", "A", "b", "c"}).Draw(t, "name")
	e := Event{
		Type:     rapid.SampledFrom([]string{"named", "named", "renamed", "gone", "opened", "closed", "unknown"}).Draw(t, "type"),
		Source:   rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "source"),
		StreamID: rapid.SampledFrom([]string{"", "x"}).Draw(t, "stream"),
		Content:  []byte(fmt.Sprintf(`{"name":%q,"mail":%q}`, name, rapid.SampledFrom([]string{"m", "n"}).Draw(t, "mail"))),
	}
	switch rapid.IntRange(0, 9).Draw(t, "content") {
	case 0:
		e.Content = []byte(`[]`)
	case 1:
		e.Content = []byte(`{"name":null}`)
	}
	if e.Type == "renamed" {
		e.Content = []byte(fmt.Sprintf(`{"to":%q}`, name))
	}
	return e
}

func drawAppend(t *rapid.T) AppendEvents {
	a := AppendEvents{Sequence: Log(countersign.Namespace{EventStore: "shop", Name: "eu"})}
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		a.Events = append(a.Events, drawEvent(t))
	}
	if rapid.IntRange(0, 3).Draw(t, "scoped") == 0 {
		s := Scope{Source: rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "scope source"), Expected: NoneYet()}
		if n := rapid.IntRange(-1, 20).Draw(t, "seen"); n >= 0 {
			s.Expected = Seen(uint64(n))
		}
		a.Scopes = append(a.Scopes, s)
	}
	return a
}

// What a group of appends comes to in one transaction is what the same appends come
// to one after another, and no write breaks a unique key of the database.
func TestGroupIsTheSameAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := testCatalog(t, 2)
		one, all := &table{claims: map[ClaimOwner]Claim{}}, &table{claims: map[ClaimOwner]Claim{}}
		for range rapid.IntRange(1, 6).Draw(t, "groups") {
			var group []*Prepared
			var touches []Touch
			for range rapid.IntRange(1, 5).Draw(t, "size") {
				p, err := c.Prepare(drawAppend(t))
				require.NoError(t, err)
				group = append(group, p)
				touches = append(touches, p.Touch())
			}
			together := all.read(c, Union(touches...))
			for i, p := range group {
				alone := one.read(c, touches[i])
				want, wantErr := Decide(alone, p)
				got, gotErr := Decide(together, p)
				require.Equal(t, wantErr, gotErr)
				require.Equal(t, want.Appended, got.Appended)
				if wantErr == nil {
					alone.Apply(want)
					together.Apply(got)
					if changes := alone.Changes(); changes.Writes() {
						one.write(t, changes)
					}
				}
			}
			if changes := together.Changes(); changes.Writes() {
				all.write(t, changes)
			}
			require.Equal(t, one.events, all.events)
			require.Equal(t, one.claims, all.claims)
			require.Equal(t, one.state, all.state)
		}
		// Built anew from the stored events, the index is the one that the appends
		// have kept: nothing that was stored breaks a constraint.
		built := &table{claims: map[ClaimOwner]Claim{}}
		state := IndexState{Next: one.state.Next, Building: 2}
		for through := 0; through < len(one.events); {
			page := one.events[through:min(through+rapid.IntRange(1, 4).Draw(t, "page"), len(one.events))]
			s := built.read(c, c.IndexTouch(one.events[0].sequence(), page))
			state = c.Index(s, state, page)
			freed, made := s.claims.changes()
			built.writeClaims(t, freed, made)
			through += len(page)
		}
		for o, claim := range built.claims {
			kept, ok := one.claims[o]
			require.True(t, ok)
			require.Equal(t, kept.Value, claim.Value)
		}
		require.Len(t, built.claims, len(one.claims))
	})
}

func (r Recorded) sequence() Sequence { return Sequence{Name: DefaultSequence} }

func TestPlansShareNothingWithARefusedAppend(t *testing.T) {
	c := testCatalog(t, 2)
	tab := &table{claims: map[ClaimOwner]Claim{}}
	named := func(source, name string) Event {
		return Event{Type: "named", Source: source, Content: []byte(fmt.Sprintf(`{"name":%q}`, name))}
	}
	a := AppendEvents{Events: []Event{named("s1", "x"), named("s2", "x"), named("s2", "y")}}
	p, err := c.Prepare(a)
	require.NoError(t, err)
	s := tab.read(c, p.Touch())
	_, err = Decide(s, p)
	var violations *ViolationsError
	require.ErrorAs(t, err, &violations)
	require.Len(t, violations.Violations, 2, "of both constraints")
	assert.True(t, violations.Violations[0].InBatch)
	assert.Zero(t, len(maps.Collect(maps.All(s.claims.byOwner))))
	assert.False(t, s.Changes().Writes())
}

// Two sources exchange what they hold in one batch. Who asks after that, in the same
// transaction, is told of the new holders, in whatever order the exchange is kept.
func TestValuesThatWereExchangedHaveTheirNewHolders(t *testing.T) {
	c := testCatalog(t, 2)
	event := func(kind, source, name string) Event {
		return Event{Type: kind, Source: source, Content: fmt.Appendf(nil, `{"to":%q}`, name)}
	}
	for range 20 {
		tab := &table{claims: map[ClaimOwner]Claim{}}
		var group []*Prepared
		var touches []Touch
		for _, events := range [][]Event{
			{event("renamed", "s1", "x"), event("renamed", "s2", "y")},
			{event("gone", "s2", ""), event("renamed", "s1", "y"), event("renamed", "s2", "x")},
			{event("renamed", "s3", "x")},
			{event("renamed", "s3", "y")},
		} {
			p, err := c.Prepare(AppendEvents{Events: events})
			require.NoError(t, err)
			group, touches = append(group, p), append(touches, p.Touch())
		}
		s := tab.read(c, Union(touches...))
		for i, p := range group {
			plan, err := Decide(s, p)
			if i < 2 {
				require.NoError(t, err)
				s.Apply(plan)
				continue
			}
			var refused *ViolationsError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, []uint64{4, 3}[i-2], refused.Violations[0].Holder)
		}
	}
}
