package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/durable"
)

// sameImage reports whether two images hold the same. No part and an empty part
// are the same.
func sameImage(a, b durable.Image) bool {
	return a.Head == b.Head && a.Partial == b.Partial &&
		slices.EqualFunc(a.History, b.History, sameRecord) &&
		(a.Snapshot == nil) == (b.Snapshot == nil) &&
		(a.Snapshot == nil || sameRecord(*a.Snapshot, *b.Snapshot)) &&
		slices.EqualFunc(a.Inbox, b.Inbox, sameInbox) &&
		slices.EqualFunc(a.Outbox, b.Outbox, sameEffect) &&
		slices.EqualFunc(a.Receipts, b.Receipts, sameReceipt) &&
		slices.EqualFunc(a.Pending, b.Pending, sameEffect)
}

func sameRecord(a, b durable.Record) bool {
	return a.Position == b.Position && a.Payload.Equal(b.Payload)
}

func sameInbox(a, b durable.InboxRecord) bool {
	return a.ID == b.ID && a.CommittedThrough == b.CommittedThrough && bytes.Equal(a.Fingerprint, b.Fingerprint)
}

func sameEffect(a, b durable.Effect) bool {
	return a.ID == b.ID && a.AcceptedAt == b.AcceptedAt && a.Payload.Equal(b.Payload)
}

func sameReceipt(a, b durable.Receipt) bool {
	return a.ID == b.ID && a.EffectID == b.EffectID && a.Outcome == b.Outcome &&
		a.RecordedAt == b.RecordedAt && a.Fence == b.Fence && a.Payload.Equal(b.Payload)
}

// copyImage returns an image that shares no memory with img.
func copyImage(img durable.Image) durable.Image {
	img.History = added(nil, img.History)
	img.Inbox = added(nil, img.Inbox)
	img.Outbox = added(nil, img.Outbox)
	img.Receipts = added(nil, img.Receipts)
	img.Pending = added(nil, img.Pending)
	if img.Snapshot != nil {
		snapshot := img.Snapshot.Clone()
		img.Snapshot = &snapshot
	}
	return img
}

// The image as the fixtures write it, with the owner's mode.
type (
	shownImage struct {
		Owner    string         `json:"owner_id"`
		Mode     durable.Mode   `json:"mode"`
		Partial  bool           `json:"partial,omitempty"`
		Position uint64         `json:"position"`
		Fence    uint64         `json:"fence"`
		History  []shownRecord  `json:"history"`
		Snapshot *shownRecord   `json:"snapshot"`
		Inbox    []shownInbox   `json:"inbox"`
		Outbox   []shownEffect  `json:"outbox"`
		Receipts []shownReceipt `json:"receipts"`
		Pending  []string       `json:"pending_effect_ids"`
	}
	shownRecord struct {
		Position uint64 `json:"position"`
		Payload  string `json:"payload"`
	}
	shownInbox struct {
		ID          string `json:"id"`
		Fingerprint string `json:"ingress_fingerprint"`
		Through     uint64 `json:"committed_through"`
	}
	shownEffect struct {
		ID         string `json:"id"`
		AcceptedAt uint64 `json:"accepted_at"`
		Payload    string `json:"payload"`
	}
	shownReceipt struct {
		ID         string          `json:"id"`
		EffectID   string          `json:"effect_id"`
		Outcome    durable.Outcome `json:"outcome"`
		RecordedAt uint64          `json:"recorded_at"`
		Fence      uint64          `json:"fence"`
		Payload    string          `json:"payload"`
	}
)

// show writes an image for a reader, one field a line. Long bytes are shortened
// to their length, their beginning and their digest.
func show(img durable.Image) string {
	s := shownImage{
		Owner: shorten(img.Owner), Mode: img.Mode, Partial: img.Partial, Position: img.Position, Fence: img.Fence,
		History: []shownRecord{}, Inbox: []shownInbox{}, Outbox: []shownEffect{}, Receipts: []shownReceipt{}, Pending: []string{},
	}
	for _, r := range img.History {
		s.History = append(s.History, shownRecord{r.Position, showPayload(r.Payload)})
	}
	if img.Snapshot != nil {
		s.Snapshot = &shownRecord{img.Snapshot.Position, showPayload(img.Snapshot.Payload)}
	}
	for _, r := range img.Inbox {
		s.Inbox = append(s.Inbox, shownInbox{shorten(r.ID), shorten(string(r.Fingerprint)), r.CommittedThrough})
	}
	for _, e := range img.Outbox {
		s.Outbox = append(s.Outbox, shownEffect{shorten(e.ID), e.AcceptedAt, showPayload(e.Payload)})
	}
	for _, r := range img.Receipts {
		s.Receipts = append(s.Receipts, shownReceipt{shorten(r.ID), shorten(r.EffectID), r.Outcome, r.RecordedAt, r.Fence, showPayload(r.Payload)})
	}
	for _, e := range img.Pending {
		s.Pending = append(s.Pending, shorten(e.ID))
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return fmt.Sprintf("%+v", img)
	}
	return b.String()
}

func showPayload(p durable.Payload) string {
	return fmt.Sprintf("schema %d codec %d: %s", p.SchemaVersion, p.CodecVersion, shorten(string(p.Bytes)))
}

// shorten returns a string that can be printed and is not long.
func shorten(s string) string {
	const longest = 120
	if len(s) > longest {
		return fmt.Sprintf("%q… (%d bytes, sha256 %.8x)", s[:24], len(s), sha256.Sum256([]byte(s)))
	}
	if !utf8.ValidString(s) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// diffImages returns the difference of two images, line by line.
func diffImages(want, got durable.Image) string { return diffLines(show(want), show(got)) }
