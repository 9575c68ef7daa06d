package durable_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

// validHistory is an image of an owner in history mode with something in every part.
func validHistory() durable.Image {
	sent := durable.Effect{ID: "sent", AcceptedAt: 3, Payload: v1("send")}
	late := durable.Effect{ID: "late", AcceptedAt: 3, Payload: v1("")}
	open := durable.Effect{ID: "open", AcceptedAt: 1, Payload: v1("send")}
	return durable.Image{
		Head:    durable.Head{Owner: "order-42", Mode: durable.EventHistory, Position: 3, Fence: 5},
		History: history(v1("1"), v1("2"), v1("3")),
		Inbox: []durable.InboxRecord{
			{ID: "a", Fingerprint: []byte("sum"), CommittedThrough: 1}, {ID: "b", CommittedThrough: 3},
		},
		Outbox:   []durable.Effect{late, open, sent},
		Receipts: []durable.Receipt{{ID: "r", EffectID: "sent", Outcome: durable.Applied, RecordedAt: 3, Fence: 5, Payload: v1("ok")}},
		Pending:  []durable.Effect{open, late},
	}
}

// validSnapshot is an image of an owner in snapshot mode.
func validSnapshot() durable.Image {
	return durable.Image{
		Head:     durable.Head{Owner: "order-42", Mode: durable.Snapshot, Position: 3, Fence: 5},
		Snapshot: &durable.Record{Position: 3, Payload: v1("state")},
		Inbox:    []durable.InboxRecord{{ID: "a", CommittedThrough: 3}},
	}
}

func TestValidateAccepts(t *testing.T) {
	for name, img := range map[string]durable.Image{
		"history":        validHistory(),
		"snapshot":       validSnapshot(),
		"empty history":  {Head: durable.Head{Owner: "o", Mode: durable.EventHistory}},
		"empty snapshot": {Head: durable.Head{Owner: "o", Mode: durable.Snapshot, Fence: countersign.MaxInteger}},
		"the last position": {
			Head:     durable.Head{Owner: "o", Mode: durable.Snapshot, Position: countersign.MaxInteger},
			Snapshot: &durable.Record{Position: countersign.MaxInteger, Payload: v1("")},
		},
	} {
		if err := img.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// corruption is one change that makes a valid image corrupt.
type corruption struct {
	name    string
	image   func() durable.Image
	corrupt func(*durable.Image)
	reason  durable.CorruptReason
}

var corruptions = []corruption{
	{"no owner id", validHistory, func(img *durable.Image) { img.Owner = "" }, durable.CorruptIdentity},
	{"an owner id of 481 bytes", validHistory, func(img *durable.Image) { img.Owner = strings.Repeat("o", 481) }, durable.CorruptIdentity},
	{"an unknown mode", validHistory, func(img *durable.Image) { img.Mode = "history" }, durable.CorruptIdentity},
	{"an inbox record without id", validHistory, func(img *durable.Image) { img.Inbox[0].ID = "" }, durable.CorruptIdentity},
	{"an effect id with a NUL byte", validHistory, func(img *durable.Image) { img.Outbox[0].ID = "\x00" }, durable.CorruptIdentity},
	{"a receipt id that is not UTF-8", validHistory, func(img *durable.Image) { img.Receipts[0].ID = "\xff" }, durable.CorruptIdentity},
	{"a position above the last", validHistory, func(img *durable.Image) { img.Position = 1 << 63 }, durable.CorruptInteger},
	{"a fence above the last", validHistory, func(img *durable.Image) { img.Fence = 1 << 63 }, durable.CorruptInteger},
	{"an event without version", validHistory, func(img *durable.Image) { img.History[1].Payload.CodecVersion = 0 }, durable.CorruptPayload},
	{"a snapshot without version", validSnapshot, func(img *durable.Image) { img.Snapshot.Payload.SchemaVersion = 0 }, durable.CorruptPayload},
	{"an effect with a version above the last", validHistory, func(img *durable.Image) { img.Outbox[0].Payload.SchemaVersion = 1 << 31 }, durable.CorruptPayload},
	{"a receipt of 4 MiB and a byte", validHistory, func(img *durable.Image) { img.Receipts[0].Payload = sized(4<<20 + 1) }, durable.CorruptPayload},
	{"an unknown outcome", validHistory, func(img *durable.Image) { img.Receipts[0].Outcome = "pending" }, durable.CorruptOutcome},
	{"an inbox out of order", validHistory, func(img *durable.Image) { img.Inbox[0].ID = "c" }, durable.CorruptOrder},
	{"an inbox id twice", validHistory, func(img *durable.Image) { img.Inbox[0].ID = "b" }, durable.CorruptOrder},
	{"an outbox out of order", validHistory, func(img *durable.Image) { img.Outbox[0].ID = "z" }, durable.CorruptOrder},
	{"an effect id twice", validHistory, func(img *durable.Image) { img.Outbox[0].ID = "open" }, durable.CorruptOrder},
	{"a receipt id twice", validHistory, func(img *durable.Image) { img.Receipts = append(img.Receipts, img.Receipts[0]) }, durable.CorruptOrder},
	{"a gap in the history", validHistory, func(img *durable.Image) { img.History = append(img.History[:1], img.History[2]) }, durable.HistoryNotContiguous},
	{"a history from position 2", validHistory, func(img *durable.Image) { img.History = img.History[1:] }, durable.HistoryNotContiguous},
	{"a history that ends early", validHistory, func(img *durable.Image) { img.History = img.History[:2] }, durable.HistoryNotContiguous},
	{"a history out of order", validHistory, func(img *durable.Image) {
		img.History[0], img.History[1] = img.History[1], img.History[0]
	}, durable.HistoryNotContiguous},
	{"a history past the owner's position", validHistory, func(img *durable.Image) {
		img.History = append(img.History, durable.Record{Position: 4, Payload: v1("")})
	}, durable.HistoryNotContiguous},
	{"no history", validHistory, func(img *durable.Image) { img.History = nil }, durable.HistoryNotContiguous},
	{"a snapshot in a history owner", validHistory, func(img *durable.Image) { img.Snapshot = validSnapshot().Snapshot }, durable.SnapshotInHistoryOwner},
	{"history in a snapshot owner", validSnapshot, func(img *durable.Image) { img.History = history(v1("1")) }, durable.HistoryInSnapshotOwner},
	{"no snapshot", validSnapshot, func(img *durable.Image) { img.Snapshot = nil }, durable.SnapshotPosition},
	{"a snapshot behind the owner", validSnapshot, func(img *durable.Image) { img.Snapshot.Position = 2 }, durable.SnapshotPosition},
	{"a snapshot ahead of the owner", validSnapshot, func(img *durable.Image) { img.Snapshot.Position = 4 }, durable.SnapshotPosition},
	{"a snapshot at position 0", validSnapshot, func(img *durable.Image) { img.Position, img.Snapshot.Position = 0, 0 }, durable.SnapshotPosition},
	{"an inbox record past the owner's position", validHistory, func(img *durable.Image) { img.Inbox[0].CommittedThrough = 4 }, durable.RecordPastPosition},
	{"an effect past the owner's position", validHistory, func(img *durable.Image) { img.Outbox[0].AcceptedAt = 4 }, durable.RecordPastPosition},
	{"a receipt past the owner's position", validHistory, func(img *durable.Image) { img.Receipts[0].RecordedAt = 4 }, durable.RecordPastPosition},
	{"an inbox record at position 0", validHistory, func(img *durable.Image) { img.Inbox[0].CommittedThrough = 0 }, durable.RecordBeforeCommit},
	{"an effect at position 0", validHistory, func(img *durable.Image) { img.Outbox[0].AcceptedAt = 0 }, durable.RecordBeforeCommit},
	{"a receipt at position 0", validHistory, func(img *durable.Image) { img.Receipts[0].RecordedAt = 0 }, durable.RecordBeforeCommit},
	{"a receipt before its effect", validHistory, func(img *durable.Image) { img.Receipts[0].RecordedAt = 2 }, durable.RecordBeforeCommit},
	{"a receipt under a greater fence", validHistory, func(img *durable.Image) { img.Receipts[0].Fence = 6 }, durable.FencePastOwner},
	{"a receipt without its effect", validHistory, func(img *durable.Image) { img.Receipts[0].EffectID = "nowhere" }, durable.ReceiptWithoutEffect},
	{"two receipts of one effect", validHistory, func(img *durable.Image) {
		second := img.Receipts[0]
		second.ID = "s"
		img.Receipts = append(img.Receipts, second)
	}, durable.EffectReceiptedTwice},
	{"a pending effect is missing", validHistory, func(img *durable.Image) { img.Pending = img.Pending[:1] }, durable.PendingMismatch},
	{"pending effects by id only", validHistory, func(img *durable.Image) {
		img.Pending[0], img.Pending[1] = img.Pending[1], img.Pending[0]
	}, durable.PendingMismatch},
	{"a receipted effect is pending", validHistory, func(img *durable.Image) { img.Pending = append(img.Pending, img.Outbox[2]) }, durable.PendingMismatch},
	{"a pending effect with other bytes", validHistory, func(img *durable.Image) { img.Pending[0].Payload = v1("another") }, durable.PendingMismatch},
	{"a pending effect with another position", validHistory, func(img *durable.Image) { img.Pending[0].AcceptedAt = 2 }, durable.PendingMismatch},
}

func TestValidateRefuses(t *testing.T) {
	covered := map[durable.CorruptReason]bool{}
	for _, c := range corruptions {
		covered[c.reason] = true
		t.Run(c.name, func(t *testing.T) {
			img := c.image()
			c.corrupt(&img)
			before := dump(img)
			err := img.Validate()
			var e *durable.CorruptImageError
			if !errors.As(err, &e) || e.Reason != c.reason || e.Owner != img.Owner || e.Detail == "" {
				t.Errorf("got %v, expected %s", err, c.reason)
			}
			if kinds(err) != 1 || !errors.Is(err, countersign.ErrRefused) {
				t.Errorf("%v is of another kind", err)
			}
			if dump(img) != before {
				t.Error("the image was changed")
			}
		})
	}
	for _, reason := range []durable.CorruptReason{
		durable.CorruptIdentity, durable.CorruptInteger, durable.CorruptPayload, durable.CorruptOutcome, durable.CorruptOrder,
		durable.HistoryNotContiguous, durable.SnapshotInHistoryOwner, durable.HistoryInSnapshotOwner, durable.SnapshotPosition,
		durable.RecordPastPosition, durable.RecordBeforeCommit, durable.FencePastOwner, durable.ReceiptWithoutEffect,
		durable.EffectReceiptedTwice, durable.PendingMismatch,
	} {
		if !covered[reason] {
			t.Errorf("no corruption gives %s", reason)
		}
	}
}

func TestValidateRefusesPartialImage(t *testing.T) {
	img := validHistory()
	img.Partial = true
	if err := img.Validate(); !errors.Is(err, countersign.ErrMalformed) {
		t.Errorf("got %v", err)
	}
}

func TestRecover(t *testing.T) {
	medium := memory.NewMedium()
	s := memory.Open(medium)
	medium.Plant(validHistory())
	img, err := durable.Recover(t.Context(), s, "order-42")
	if err != nil || len(img.History) != 3 || len(img.Pending) != 2 {
		t.Errorf("got %+v, %v", img, err)
	}
	bad := validSnapshot()
	bad.Snapshot.Position = 2
	medium.Plant(bad)
	var corrupt *durable.CorruptImageError
	if img, err := durable.Recover(t.Context(), s, "order-42"); !errors.As(err, &corrupt) || !reflect.DeepEqual(img, durable.Image{}) {
		t.Errorf("got %+v, %v", img, err)
	}
	var unknown *durable.UnknownOwnerError
	if _, err := durable.Recover(t.Context(), s, "nobody"); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
}

// reader takes an image out of bytes: each byte is one choice, and after the
// last one every choice is the first. Most choices are between what is right and
// something beside it, so that valid images are within reach.
type reader struct{ rest []byte }

func (r *reader) choose(n int) int {
	if len(r.rest) == 0 {
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return int(b) % n
}

func (r *reader) number() uint64 {
	return []uint64{1, 2, 3, 0, 4, 1<<63 - 1, 1 << 63, 1<<64 - 1}[r.choose(8)]
}

func (r *reader) id() string {
	return []string{"a", "b", "c", "d", "", "\x00", "\xff", "é", strings.Repeat("x", 513)}[r.choose(9)]
}

func (r *reader) payload() durable.Payload {
	return durable.Payload{
		SchemaVersion: []uint32{1, 2, 0, 1 << 31}[r.choose(4)],
		CodecVersion:  []uint32{1, 2, 0, 1 << 31}[r.choose(4)],
		Bytes:         []byte(strings.Repeat("x", r.choose(3))),
	}
}

func (r *reader) effect() durable.Effect {
	return durable.Effect{ID: r.id(), AcceptedAt: r.number(), Payload: r.payload()}
}

func (r *reader) image() durable.Image {
	img := durable.Image{Head: durable.Head{
		Owner: []string{"order-42", ""}[r.choose(2)], Mode: []durable.Mode{"event_history", "snapshot", ""}[r.choose(3)],
		Position: r.number(), Fence: r.number(),
	}}
	for i := range r.choose(5) {
		record := durable.Record{Position: uint64(i) + 1, Payload: r.payload()}
		if r.choose(4) == 3 {
			record.Position = r.number()
		}
		img.History = append(img.History, record)
	}
	if r.choose(2) == 1 {
		img.Snapshot = &durable.Record{Position: r.number(), Payload: r.payload()}
	}
	for range r.choose(4) {
		img.Inbox = append(img.Inbox, durable.InboxRecord{ID: r.id(), CommittedThrough: r.number()})
	}
	for range r.choose(4) {
		img.Outbox = append(img.Outbox, r.effect())
	}
	for range r.choose(4) {
		img.Receipts = append(img.Receipts, durable.Receipt{
			ID: r.id(), EffectID: r.id(), Outcome: []durable.Outcome{"applied", "rejected", ""}[r.choose(3)],
			RecordedAt: r.number(), Fence: r.number(), Payload: r.payload(),
		})
	}
	if r.choose(4) == 3 {
		for range r.choose(4) {
			img.Pending = append(img.Pending, r.effect())
		}
	} else {
		img.Pending = durable.PendingOf(img.Outbox, img.Receipts)
	}
	return img
}

// consistent is what the contract asks of a recovered image, in its own words
// and without the rules' code. It returns what is wrong.
func consistent(img durable.Image) string {
	if len(img.History) > 0 && img.Snapshot != nil {
		return "history and a snapshot"
	}
	if img.Mode == "event_history" && uint64(len(img.History)) != img.Position {
		return "history is not up to the position"
	}
	for i, r := range img.History {
		if img.Mode != "event_history" || r.Position != uint64(i+1) {
			return "history is not a contiguous prefix"
		}
	}
	if img.Snapshot != nil && (img.Mode != "snapshot" || img.Snapshot.Position != img.Position) {
		return "the snapshot is not the owner's"
	}
	for _, r := range img.Inbox {
		if r.CommittedThrough > img.Position {
			return "an inbox record points past the position"
		}
	}
	for _, e := range img.Outbox {
		if e.AcceptedAt > img.Position {
			return "an effect points past the position"
		}
	}
	receipts := map[string]int{}
	for _, r := range img.Receipts {
		receipts[r.EffectID]++
		if r.RecordedAt > img.Position || receipts[r.EffectID] > 1 {
			return "a receipt points past the position, or is the second of its effect"
		}
		found := false
		for _, e := range img.Outbox {
			found = found || e.ID == r.EffectID
		}
		if !found {
			return "a receipt without its effect"
		}
	}
	want := img
	want.Inbox, want.Outbox, want.Receipts = slices.Clone(img.Inbox), slices.Clone(img.Outbox), slices.Clone(img.Receipts)
	if dump(arranged(want)) != dump(img) {
		return "the records are not in order, or others are pending"
	}
	return ""
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte{})
	// One event. A snapshot. Two events, two inbox records and an effect. A
	// snapshot and two effects, one with a receipt. Something of everything.
	f.Add([]byte("\x00\x00\x00\x00\x01"))
	f.Add([]byte("\x00\x01\x00\x00\x00\x01\x00"))
	f.Add([]byte("\x00\x00\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x01\x01\x01\x02"))
	f.Add([]byte("\x00\x01\x01\x01\x00\x01\x01\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x01\x00\x00\x00\x01"))
	f.Add([]byte("\x00\x00\x06\x07\x04\x02\x03\x02\x03\x01\x01\x01\x03\x08\x05\x03\x06\x05\x03\x04\x08\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := reader{data}
		img := r.image()
		before := dump(img)
		err := img.Validate()
		if again := img.Validate(); fmt.Sprint(err) != fmt.Sprint(again) {
			t.Fatalf("first %v, then %v", err, again)
		}
		if dump(img) != before {
			t.Fatal("the image was changed")
		}
		if err != nil {
			var e *durable.CorruptImageError
			if !errors.As(err, &e) || e.Reason == "" {
				t.Fatalf("an untyped error: %v", err)
			}
			return
		}
		if wrong := consistent(img); wrong != "" {
			t.Fatalf("accepted, but %s: %s", wrong, before)
		}
		// What was accepted survives a store, and is accepted again.
		medium := memory.NewMedium()
		medium.Plant(img)
		loaded, err := durable.Recover(t.Context(), memory.Open(medium), img.Owner)
		if err != nil {
			t.Fatalf("accepted, but not after it was stored: %v", err)
		}
		if err := loaded.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
