package storetest

import (
	"github.com/countersign/countersign/durable"
)

var aliasCases = []Case{
	bothModes("alias", "commit_keeps_nothing_of_the_callers", func(s *session, o subject) {
		for _, inbox := range []string{"m1", "m2"} {
			c := fullCommit(s, o, inbox)
			s.commit(committed, c)
			scribbleCommit(c)
			s.same("after the caller changed the commit that it had sent", o.id)
		}
	}),
	bothModes("alias", "commit_only_reads_what_it_is_given", func(s *session, o subject) {
		c, twin := fullCommit(s, o, "m1"), fullCommit(s, o, "m1")
		for _, outcome := range []string{committed, duplicate} {
			s.commit(outcome, c)
			if !sameCommit(c, twin) {
				s.failf("commit", "the store changed the commit that it was given:\n%s", diffLines(describe(twin), describe(c)))
			}
		}
	}),
	bothModes("alias", "receipt_keeps_nothing_of_the_callers", func(s *session, o subject) {
		withEffects(s, o, "e1")
		r := terminal("r1", "e1")
		s.record(recorded, o, firstFence, r)
		scribble(r.Payload.Bytes)
		s.same("after the caller changed the receipt that it had sent", o.id)
		s.record(recordedBefore, o, firstFence, terminal("r1", "e1"))
	}),
	bothModes("alias", "image_is_the_callers", func(s *session, o subject) {
		fill(s, o)
		got, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id})
		if err != nil {
			s.failf("load", "%v", err)
		}
		scribbleImage(&got)
		s.same("after the caller changed an image that it had loaded", o.id)
	}),
	bothModes("alias", "parts_are_the_callers", func(s *session, o subject) {
		fill(s, o)
		ids := []string{"m1", "m2", "m3"}
		got, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{Inbox: ids, State: true, Pending: true}})
		if err != nil {
			s.failf("load in parts", "%v", err)
		}
		if ids[0] != "m1" || ids[1] != "m2" || ids[2] != "m3" {
			s.failf("load in parts", "the store changed the ids that it was given: %q", ids)
		}
		scribbleImage(&got)
		s.same("after the caller changed the parts that it had loaded", o.id)
	}),
	bothModes("alias", "pages_are_the_callers", func(s *session, o subject) {
		fill(s, o)
		history, err := s.store.ReadHistory(s.Context(), durable.ReadHistory{Owner: o.id})
		if err != nil {
			s.failf("read the history", "%v", err)
		}
		pending, err := s.store.ReadPending(s.Context(), durable.ReadPending{Owner: o.id})
		if err != nil {
			s.failf("read pending effects", "%v", err)
		}
		scribbleImage(&durable.Image{History: history, Pending: pending})
		s.same("after the caller changed the pages that it had read", o.id)
	}),
	// Slices cut from one piece of memory are the caller's too: appending to one
	// of them must not write into its neighbour.
	bothModes("alias", "slices_of_an_image_do_not_touch", func(s *session, o subject) {
		fill(s, o)
		got, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id})
		if err != nil {
			s.failf("load", "%v", err)
		}
		want := copyImage(got)
		eachBytes(&got, func(b []byte) { _ = append(b, "spilled over"...) })
		if !sameImage(want, got) {
			s.failf("load", "appending to one slice changed another:\n%s", diffImages(want, got))
		}
	}),
	bothModes("alias", "two_loads_do_not_touch", func(s *session, o subject) {
		fill(s, o)
		first, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id})
		if err != nil {
			s.failf("load", "%v", err)
		}
		want := copyImage(first)
		second, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id})
		if err != nil {
			s.failf("load", "%v", err)
		}
		scribbleImage(&second)
		s.commit(committed, s.next(o, "m9"))
		if !sameImage(want, first) {
			s.failf("load", "a later call changed an image that was loaded before:\n%s", diffImages(want, first))
		}
	}),
}

// fullCommit returns a commit that has something of everything.
func fullCommit(s *session, o subject, inbox string) durable.Commit {
	c := s.next(o, inbox, "a of "+inbox, "b of "+inbox)
	c.Effects = intents("effect of "+inbox, "pending of "+inbox)
	c.Receipts = []durable.TerminalReceipt{terminal("receipt of "+inbox, "effect of "+inbox)}
	return c
}

// fill commits until the owner has several records of each kind.
func fill(s *session, o subject) {
	s.Helper()
	for _, inbox := range []string{"m1", "m2", "m3"} {
		s.commit(committed, fullCommit(s, o, inbox))
	}
}

func scribble(b []byte) {
	for i := range b {
		b[i] ^= 0x55
	}
}

// scribbleCommit changes everything that the slices of a commit reach.
func scribbleCommit(c durable.Commit) {
	scribble(c.Inbox.Fingerprint)
	if c.State.ReplaceSnapshot != nil {
		scribble(c.State.ReplaceSnapshot.Bytes)
		*c.State.ReplaceSnapshot = durable.Payload{SchemaVersion: 99, CodecVersion: 99}
	}
	for i := range c.State.AppendEvents {
		scribble(c.State.AppendEvents[i].Bytes)
		c.State.AppendEvents[i] = durable.Payload{SchemaVersion: 99, CodecVersion: 99}
	}
	for i := range c.Effects {
		scribble(c.Effects[i].Payload.Bytes)
		c.Effects[i] = durable.Intent{ID: "scribbled", Payload: text("scribbled")}
	}
	for i := range c.Receipts {
		scribble(c.Receipts[i].Payload.Bytes)
		c.Receipts[i] = terminal("scribbled", "scribbled")
	}
}

// scribbleImage changes everything that the slices of an image reach.
func scribbleImage(img *durable.Image) {
	eachBytes(img, scribble)
	for i := range img.History {
		img.History[i].Position = 99
	}
	for i := range img.Inbox {
		img.Inbox[i].ID = "scribbled"
	}
	for i := range img.Outbox {
		img.Outbox[i].ID = "scribbled"
	}
	for i := range img.Receipts {
		img.Receipts[i].ID = "scribbled"
	}
	for i := range img.Pending {
		img.Pending[i].ID = "scribbled"
	}
	if img.Snapshot != nil {
		img.Snapshot.Position = 99
	}
}

// eachBytes calls f with every byte slice of an image. Pending may share the
// bytes of Outbox, so it comes only where there is no Outbox.
func eachBytes(img *durable.Image, f func([]byte)) {
	for _, r := range img.History {
		f(r.Payload.Bytes)
	}
	if img.Snapshot != nil {
		f(img.Snapshot.Payload.Bytes)
	}
	for _, r := range img.Inbox {
		f(r.Fingerprint)
	}
	for _, e := range img.Outbox {
		f(e.Payload.Bytes)
	}
	for _, r := range img.Receipts {
		f(r.Payload.Bytes)
	}
	if len(img.Outbox) == 0 {
		for _, e := range img.Pending {
			f(e.Payload.Bytes)
		}
	}
}

// sameCommit reports whether two commits are the same in everything.
func sameCommit(a, b durable.Commit) bool {
	if a.Owner != b.Owner || a.ExpectedPosition != b.ExpectedPosition || a.Fence != b.Fence || a.Inbox.ID != b.Inbox.ID ||
		string(a.Inbox.Fingerprint) != string(b.Inbox.Fingerprint) || (a.State.ReplaceSnapshot == nil) != (b.State.ReplaceSnapshot == nil) ||
		len(a.State.AppendEvents) != len(b.State.AppendEvents) || len(a.Effects) != len(b.Effects) || len(a.Receipts) != len(b.Receipts) {
		return false
	}
	if a.State.ReplaceSnapshot != nil && !a.State.ReplaceSnapshot.Equal(*b.State.ReplaceSnapshot) {
		return false
	}
	for i := range a.State.AppendEvents {
		if !a.State.AppendEvents[i].Equal(b.State.AppendEvents[i]) {
			return false
		}
	}
	for i := range a.Effects {
		if a.Effects[i].ID != b.Effects[i].ID || !a.Effects[i].Payload.Equal(b.Effects[i].Payload) {
			return false
		}
	}
	for i := range a.Receipts {
		x, y := a.Receipts[i], b.Receipts[i]
		if x.ID != y.ID || x.EffectID != y.EffectID || x.Outcome != y.Outcome || !x.Payload.Equal(y.Payload) {
			return false
		}
	}
	return true
}
