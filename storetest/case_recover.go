package storetest

import (
	"errors"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

var recoverCases = []Case{
	bothModes("recover", "returns_the_valid_image", func(s *session, o subject) {
		for _, inbox := range []string{"m1", "m2"} {
			got, err := durable.Recover(s.Context(), s.store, o.id)
			if err != nil || !sameImage(*s.model[o.id], got) {
				s.failf("recover", "%v\n%s", err, diffImages(*s.model[o.id], got))
			}
			s.commit(committed, fullCommit(s, o, inbox))
		}
	}),
	ownerCase("recover", "of_an_unknown_owner_is_refused", func(s *session) {
		_, err := durable.Recover(s.Context(), s.store, "nobody")
		s.unknown("recover", err)
	}),
	plantCase("recover", "planted_image_comes_back", func(s *session) {
		for _, o := range subjects {
			img := sound(o)
			s.mustPlant(img)
			s.same("the planted image", o.id)
			got, err := durable.Recover(s.Context(), s.store, o.id)
			if err != nil || !sameImage(*s.model[o.id], got) {
				s.failf("recover", "the planted image is sound: %v", err)
			}
			s.commit(committed, s.next(o, "new"))
		}
	}),
	plantCase("recover", "corrupt_image_is_refused_with_its_reason", corruptImages),
}

// corruption changes a sound image into one that no sequence of commits makes.
type corruption struct {
	name   string
	mode   durable.Mode // empty: both
	reason durable.CorruptReason
	change func(img *durable.Image)
}

var corruptions = []corruption{
	{"a mode that there is none of", "", durable.CorruptIdentity, func(img *durable.Image) { img.Mode = "sideways" }},
	{"a gap in the history", durable.EventHistory, durable.HistoryNotContiguous, func(img *durable.Image) { img.History = append(img.History[:1:1], img.History[2:]...) }},
	{"a history without its beginning", durable.EventHistory, durable.HistoryNotContiguous, func(img *durable.Image) { img.History = img.History[1:] }},
	{"a history without its end", durable.EventHistory, durable.HistoryNotContiguous, func(img *durable.Image) { img.History = img.History[:2] }},
	{"no history", durable.EventHistory, durable.HistoryNotContiguous, func(img *durable.Image) { img.History = nil }},
	{"an event past the position", durable.EventHistory, durable.HistoryNotContiguous, func(img *durable.Image) {
		img.History = append(img.History, durable.Record{Position: 4, Payload: text("past")})
	}},
	{"a snapshot in a history owner", durable.EventHistory, durable.SnapshotInHistoryOwner, func(img *durable.Image) {
		img.Snapshot = &durable.Record{Position: 3, Payload: text("snapshot")}
	}},
	{"history in a snapshot owner", durable.Snapshot, durable.HistoryInSnapshotOwner, func(img *durable.Image) {
		img.History = []durable.Record{{Position: 1, Payload: text("event")}}
	}},
	{"no snapshot", durable.Snapshot, durable.SnapshotPosition, func(img *durable.Image) { img.Snapshot = nil }},
	{"a snapshot behind", durable.Snapshot, durable.SnapshotPosition, func(img *durable.Image) { img.Snapshot.Position = 2 }},
	{"a snapshot ahead", durable.Snapshot, durable.SnapshotPosition, func(img *durable.Image) { img.Snapshot.Position = 4 }},
	{"an inbox record past the position", "", durable.RecordPastPosition, func(img *durable.Image) { img.Inbox[0].CommittedThrough = 4 }},
	{"an effect past the position", "", durable.RecordPastPosition, func(img *durable.Image) { img.Outbox[1].AcceptedAt = 4 }},
	{"a receipt past the position", "", durable.RecordPastPosition, func(img *durable.Image) { img.Receipts[0].RecordedAt = 4 }},
	{"an inbox record at position zero", "", durable.RecordBeforeCommit, func(img *durable.Image) { img.Inbox[0].CommittedThrough = 0 }},
	{"an effect at position zero", "", durable.RecordBeforeCommit, func(img *durable.Image) { img.Outbox[1].AcceptedAt = 0 }},
	{"a receipt before its effect", "", durable.RecordBeforeCommit, func(img *durable.Image) { img.Receipts[0].RecordedAt = 1 }},
	{"a receipt without its effect", "", durable.ReceiptWithoutEffect, func(img *durable.Image) { img.Outbox = img.Outbox[1:] }},
	{"a receipt of a stranger", "", durable.ReceiptWithoutEffect, func(img *durable.Image) { img.Receipts[0].EffectID = "stranger" }},
	{"two receipts of one effect", "", durable.EffectReceiptedTwice, func(img *durable.Image) {
		second := img.Receipts[0]
		second.ID = "second"
		img.Receipts = append(img.Receipts, second)
	}},
	{"a receipt under a fence to come", "", durable.FencePastOwner, func(img *durable.Image) { img.Receipts[0].Fence = img.Fence + 1 }},
	{"an outcome that there is none of", "", durable.CorruptOutcome, func(img *durable.Image) { img.Receipts[0].Outcome = "maybe" }},
	{"an event of schema version zero", durable.EventHistory, durable.CorruptPayload, func(img *durable.Image) { img.History[1].Payload.SchemaVersion = 0 }},
	{"a snapshot of codec version zero", durable.Snapshot, durable.CorruptPayload, func(img *durable.Image) { img.Snapshot.Payload.CodecVersion = 0 }},
	{"an effect of version zero", "", durable.CorruptPayload, func(img *durable.Image) { img.Outbox[1].Payload.SchemaVersion = 0 }},
	{"a receipt of version zero", "", durable.CorruptPayload, func(img *durable.Image) { img.Receipts[0].Payload.CodecVersion = 0 }},
	{"an inbox record without a name", "", durable.CorruptIdentity, func(img *durable.Image) { img.Inbox[0].ID = "" }},
	{"an effect with a NUL in its name", "", durable.CorruptIdentity, func(img *durable.Image) { img.Outbox[1].ID = "e2\x00" }},
}

// sound returns a valid image at position 3, with two effects of which one has
// its receipt.
func sound(o subject) durable.Image {
	img := durable.Image{
		Head:     durable.Head{Owner: o.id, Mode: o.mode, Position: 3, Fence: firstFence},
		Inbox:    []durable.InboxRecord{{ID: "m1", Fingerprint: []byte("one"), CommittedThrough: 2}, {ID: "m2", CommittedThrough: 3}},
		Outbox:   []durable.Effect{{ID: "e1", AcceptedAt: 2, Payload: text("do e1")}, {ID: "e2", AcceptedAt: 3, Payload: text("do e2")}},
		Receipts: []durable.Receipt{{ID: "r1", EffectID: "e1", Outcome: durable.Rejected, RecordedAt: 3, Fence: firstFence - 1, Payload: text("done e1")}},
	}
	if o.mode == durable.Snapshot {
		img.Snapshot = &durable.Record{Position: 3, Payload: text("state")}
		return img
	}
	for position := range uint64(3) {
		img.History = append(img.History, durable.Record{Position: position + 1, Payload: text(fmt.Sprintf("event %d", position+1))})
	}
	return img
}

// corruptImages plants every kind of corruption that the database can hold.
// Recover must name each, and nobody may hide it: not the load, and not a store
// that mends what it reads.
func corruptImages(s *session) {
	planted := 0
	var impossible []string
	for i, c := range corruptions {
		for _, o := range subjects {
			if c.mode != "" && c.mode != o.mode {
				continue
			}
			img := sound(subject{fmt.Sprintf("%s %d", o.id, i), o.mode})
			c.change(&img)
			what := fmt.Sprintf("%s (%s)", c.name, o.mode)
			if !s.plant(img) {
				impossible = append(impossible, what)
				continue
			}
			planted++
			_, err := durable.Recover(s.Context(), s.store, img.Owner)
			var e *durable.CorruptImageError
			if !errors.As(err, &e) || e.Reason != c.reason || e.Owner != img.Owner {
				s.failf("recover", "%s: want a *CorruptImageError with reason %q, got %v", what, c.reason, err)
			}
			if !errors.Is(err, countersign.ErrRefused) {
				s.failf("recover", "%s: want %q, got %v", what, countersign.ErrRefused, err)
			}
			// What a load refuses can't be compared; s.reopen would try.
			delete(s.model, img.Owner)
		}
	}
	s.Logf("planted %d corrupt images; the database can't hold %d more: %q", planted, len(impossible), impossible)
}
