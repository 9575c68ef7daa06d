package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/countersign/countersign/durable"
)

// replay commits both histories event by event to two fresh owners and compares
// the fingerprints of what the store returns.
func (c *fingerprintCase) replay(t T, h Harness) {
	t.Helper()
	hd := newDatabase(t, h).handle()
	var history [2]durable.HistoryFingerprint
	var latest [2]durable.LatestFingerprint
	for side, owner := range []string{"left", "right"} {
		returned, err := commitHistory(t.Context(), hd, owner, c.history[side])
		if err != nil {
			t.Fatalf("%s history: %v", owner, err)
		}
		if history[side], err = durable.FingerprintHistory(owner, returned, c.projection[side]); err != nil {
			t.Fatalf("fingerprint of the %s history: %v", owner, err)
		}
		if latest[side], err = durable.FingerprintLatest(owner, uint64(len(returned)), c.latest[side]); err != nil {
			t.Fatalf("fingerprint of the %s latest state: %v", owner, err)
		}
		if got := history[side].Completeness(); got != c.historyCapability {
			t.Errorf("the %s history is %s, want %s", owner, got, c.historyCapability)
		}
		if got := latest[side].Completeness(); got != c.latestCapability {
			t.Errorf("the %s latest state is %s, want %s", owner, got, c.latestCapability)
		}
	}
	for _, relation := range []struct {
		what        string
		want        bool
		left, right durable.Digest
	}{
		{"projection", c.sameProjection, history[0].ProjectionDigest(), history[1].ProjectionDigest()},
		{"history", c.sameHistory, history[0].SourceDigest(), history[1].SourceDigest()},
		{"latest", c.sameLatest, latest[0].SourceDigest(), latest[1].SourceDigest()},
	} {
		if (relation.left == relation.right) != relation.want {
			t.Errorf("the %s digests: equal must be %v\n  left %s\n right %s", relation.what, relation.want, relation.left, relation.right)
		}
	}
	if durable.SameHistory(history[0], history[1]) != c.sameHistory {
		t.Errorf("SameHistory must be %v", c.sameHistory)
	}
}

// commitHistory commits each record's payload to a fresh owner and returns the
// history as the store returns it, which must be the same records.
func commitHistory(ctx context.Context, s durable.Store, owner string, history []durable.Record) ([]durable.Record, error) {
	if _, err := s.CreateOwner(ctx, durable.CreateOwner{Owner: owner, Mode: durable.EventHistory}); err != nil {
		return nil, err
	}
	for i, r := range history {
		res, err := s.CommitOwner(ctx, durable.Commit{
			Owner: owner, ExpectedPosition: uint64(i), Inbox: durable.Inbox{ID: fmt.Sprintf("event %d", i+1)}, State: durable.Append(r.Payload),
		})
		if err != nil {
			return nil, err
		}
		if res.Through != r.Position {
			return nil, fmt.Errorf("record %d went to position %d, it is %d in the fixture", i+1, res.Through, r.Position)
		}
	}
	returned, err := readHistory(ctx, s, owner, 3)
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(history, returned, sameRecord) {
		return nil, fmt.Errorf("the store returned another history:\n%s", diffImages(durable.Image{History: history}, durable.Image{History: returned}))
	}
	return returned, nil
}

// replay projects the facts, reconciles the observed projection with the
// result, and does the same once more with the facts as events in the store.
func (c reconciliation) replay(t T, h Harness, owner string) {
	t.Helper()
	var base durable.Checkpoint
	if c.resume != nil {
		base = *c.resume
	}
	got, err := durable.Project(base, c.history)
	if err != nil {
		t.Errorf("case %s: project: %v", c.id, err)
		return
	}
	if !got.Equal(c.expected) {
		t.Errorf("case %s: the projection is not the one expected:\n%s", c.id, diffLines(showCheckpoint(c.expected), showCheckpoint(got)))
	}
	report, err := durable.Reconcile(owner, base, c.history, c.observed)
	if err != nil {
		t.Errorf("case %s: reconcile: %v", c.id, err)
		return
	}
	c.compare(t, "reconcile", report)
	if c.resume != nil {
		return // the store has no history from before the checkpoint
	}
	report, err = c.throughStore(t, h, owner)
	if err != nil {
		t.Errorf("case %s: reconcile the owner: %v", c.id, err)
		return
	}
	c.compare(t, "reconcile the owner", report)
}

func (c reconciliation) compare(t T, what string, got durable.Report) {
	t.Helper()
	if got.Health != c.health || got.Drift != c.drift || got.Lag != c.lag || got.TransitionAuthority != c.authority ||
		got.RepairEffectID != c.effectID || !got.Rebuilt.Equal(c.expected) || got.Frontier != c.expected.Through {
		t.Errorf("case %s: %s:\n want health %s, drift %v, lag %d, authority %s, effect %s, frontier %d\n  got %+v",
			c.id, what, c.health, c.drift, c.lag, c.authority, c.effectID, c.expected.Through, got)
	}
}

// throughStore commits the facts as events and reconciles from the store.
func (c reconciliation) throughStore(t T, h Harness, owner string) (durable.Report, error) {
	t.Helper()
	ctx := t.Context()
	hd := newDatabase(t, h).handle()
	var history []durable.Record
	for _, s := range c.history {
		event, err := json.Marshal(s.Fact)
		if err != nil {
			return durable.Report{}, err
		}
		history = append(history, durable.Record{Position: s.Position, Payload: text(string(event))})
	}
	if _, err := commitHistory(ctx, hd, owner, history); err != nil {
		return durable.Report{}, err
	}
	facts := func(r durable.Record) (*durable.Fact, error) {
		var f durable.Fact
		return &f, json.Unmarshal(r.Payload.Bytes, &f)
	}
	observed := func(context.Context) (durable.Checkpoint, error) { return c.observed, nil }
	return durable.ReconcileOwner(ctx, hd, owner, facts, observed)
}

func showCheckpoint(c durable.Checkpoint) string {
	s := fmt.Sprintf("through %d\nversion %d\n", c.Through, c.ProjectionVersion)
	for _, e := range c.Entries {
		s += fmt.Sprintf("%s = %s\n", shorten(e.EntityID), shorten(e.Value))
	}
	return s
}
