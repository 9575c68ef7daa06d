package durable_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// sized is a payload of n bytes.
func sized(n int) durable.Payload {
	return durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: make([]byte, n)}
}

// sizedCommit is a well-formed commit of exactly n bytes, as [durable.Commit.Size] counts.
func sizedCommit(n int) durable.Commit {
	c := newAttempt().commit
	c.Effects = []durable.Intent{{ID: "e", Payload: sized(durable.MaxPayloadBytes)}}
	c.Receipts = []durable.TerminalReceipt{{ID: "r", EffectID: "e", Outcome: durable.Applied, Payload: sized(durable.MaxPayloadBytes)}}
	c.State = durable.Append(v1(""))
	c.State.AppendEvents[0] = sized(n - c.Size())
	return c
}

func TestCommitCheck(t *testing.T) {
	const (
		fits      = ""
		malformed = "malformed"
		limit     = "limit"
	)
	events := func(n int) []durable.Payload {
		payloads := make([]durable.Payload, n)
		for i := range payloads {
			payloads[i] = v1("")
		}
		return payloads
	}
	effect := func(e durable.Intent) func(*durable.Commit) {
		return func(c *durable.Commit) { c.Effects = []durable.Intent{e} }
	}
	receipt := func(change func(*durable.TerminalReceipt)) func(*durable.Commit) {
		return func(c *durable.Commit) {
			c.Receipts = []durable.TerminalReceipt{{ID: "r", EffectID: "e", Outcome: durable.Applied, Payload: v1("")}}
			change(&c.Receipts[0])
		}
	}
	event := func(p durable.Payload) func(*durable.Commit) {
		return func(c *durable.Commit) { c.State = durable.Append(v1(""), p) }
	}
	for _, c := range []struct {
		name  string
		apply func(*durable.Commit)
		want  string
	}{
		{"as it is", func(*durable.Commit) {}, fits},
		{"an owner of 480 bytes", func(c *durable.Commit) { c.Owner = strings.Repeat("ü", 240) }, fits},
		{"an owner of 481 bytes", func(c *durable.Commit) { c.Owner = strings.Repeat("ü", 240) + "o" }, limit},
		{"no owner", func(c *durable.Commit) { c.Owner = "" }, malformed},
		{"an inbox id of 512 bytes", func(c *durable.Commit) { c.Inbox.ID = strings.Repeat("i", 512) }, fits},
		{"an inbox id of 513 bytes", func(c *durable.Commit) { c.Inbox.ID = strings.Repeat("i", 513) }, limit},
		{"no inbox id", func(c *durable.Commit) { c.Inbox.ID = "" }, malformed},
		{"an inbox id of a space", func(c *durable.Commit) { c.Inbox.ID = " " }, fits},
		{"a NUL byte in the inbox id", func(c *durable.Commit) { c.Inbox.ID = "a\x00b" }, malformed},
		{"an inbox id that is not UTF-8", func(c *durable.Commit) { c.Inbox.ID = "a\xff" }, malformed},
		{"half a surrogate pair in the inbox id", func(c *durable.Commit) { c.Inbox.ID = "\xed\xa0\x80" }, malformed},
		{"no fingerprint", func(c *durable.Commit) { c.Inbox.Fingerprint = nil }, fits},
		{"any bytes in the fingerprint", func(c *durable.Commit) { c.Inbox.Fingerprint = []byte{0, 0xff} }, fits},
		{"the last position", func(c *durable.Commit) { c.ExpectedPosition = 1<<63 - 1 }, fits},
		{"a position above the last", func(c *durable.Commit) { c.ExpectedPosition = 1 << 63 }, malformed},
		{"the last fence", func(c *durable.Commit) { c.Fence = 1<<63 - 1 }, fits},
		{"a fence above the last", func(c *durable.Commit) { c.Fence = 1 << 63 }, malformed},
		{"no state change", func(c *durable.Commit) { c.State = durable.StateChange{} }, malformed},
		{"an empty batch", func(c *durable.Commit) { c.State = durable.Append([]durable.Payload{}...) }, malformed},
		{"events and a snapshot", func(c *durable.Commit) {
			c.State = durable.Replace(v1(""))
			c.State.AppendEvents = events(1)
		}, malformed},
		{"an event without a schema version", event(durable.Payload{CodecVersion: 1}), malformed},
		{"an event without a codec version", event(durable.Payload{SchemaVersion: 1}), malformed},
		{"an event with the last versions", event(durable.Payload{SchemaVersion: 1<<31 - 1, CodecVersion: 1<<31 - 1}), fits},
		{"a schema version above the last", event(durable.Payload{SchemaVersion: 1 << 31, CodecVersion: 1}), malformed},
		{"a codec version above the last", event(durable.Payload{SchemaVersion: 1, CodecVersion: 1 << 31}), malformed},
		{"an event of 4 MiB", event(sized(4 << 20)), fits},
		{"an event of 4 MiB and a byte", event(sized(4<<20 + 1)), limit},
		{"a snapshot of 4 MiB", func(c *durable.Commit) { c.State = durable.Replace(sized(4 << 20)) }, fits},
		{"a snapshot of 4 MiB and a byte", func(c *durable.Commit) { c.State = durable.Replace(sized(4<<20 + 1)) }, limit},
		{"a snapshot without versions", func(c *durable.Commit) { c.State = durable.Replace(durable.Payload{}) }, malformed},
		{"an effect of 4 MiB", effect(durable.Intent{ID: "e", Payload: sized(4 << 20)}), fits},
		{"an effect of 4 MiB and a byte", effect(durable.Intent{ID: "e", Payload: sized(4<<20 + 1)}), limit},
		{"an effect without versions", effect(durable.Intent{ID: "e"}), malformed},
		{"an effect id of 512 bytes", effect(durable.Intent{ID: strings.Repeat("e", 512), Payload: v1("")}), fits},
		{"an effect id of 513 bytes", effect(durable.Intent{ID: strings.Repeat("e", 513), Payload: v1("")}), limit},
		{"an effect without an id", effect(durable.Intent{Payload: v1("")}), malformed},
		{"a receipt of 4 MiB", receipt(func(r *durable.TerminalReceipt) { r.Payload = sized(4 << 20) }), fits},
		{"a receipt of 4 MiB and a byte", receipt(func(r *durable.TerminalReceipt) { r.Payload = sized(4<<20 + 1) }), limit},
		{"a receipt without versions", receipt(func(r *durable.TerminalReceipt) { r.Payload = durable.Payload{} }), malformed},
		{"a receipt id of 513 bytes", receipt(func(r *durable.TerminalReceipt) { r.ID = strings.Repeat("r", 513) }), limit},
		{"a receipt without an id", receipt(func(r *durable.TerminalReceipt) { r.ID = "" }), malformed},
		{"a receipt of an effect id of 513 bytes", receipt(func(r *durable.TerminalReceipt) { r.EffectID = strings.Repeat("e", 513) }), limit},
		{"a receipt of no effect", receipt(func(r *durable.TerminalReceipt) { r.EffectID = "" }), malformed},
		{"a receipt without an outcome", receipt(func(r *durable.TerminalReceipt) { r.Outcome = "" }), malformed},
		{"a receipt with an outcome in capitals", receipt(func(r *durable.TerminalReceipt) { r.Outcome = "Applied" }), malformed},
		{"1000 events", func(c *durable.Commit) { c.State = durable.Append(events(1000)...) }, fits},
		{"1001 events", func(c *durable.Commit) { c.State = durable.Append(events(1001)...) }, limit},
		{"1000 items", func(c *durable.Commit) {
			receipt(func(*durable.TerminalReceipt) {})(c)
			c.State = durable.Append(events(998)...)
			c.Effects = []durable.Intent{{ID: "e", Payload: v1("")}}
		}, fits},
		{"1001 items", func(c *durable.Commit) {
			receipt(func(*durable.TerminalReceipt) {})(c)
			c.State = durable.Append(events(999)...)
			c.Effects = []durable.Intent{{ID: "e", Payload: v1("")}}
		}, limit},
		{"a snapshot and 1000 effects", func(c *durable.Commit) {
			c.State = durable.Replace(v1(""))
			for i := range 1000 {
				c.Effects = append(c.Effects, durable.Intent{ID: fmt.Sprint(i), Payload: v1("")})
			}
		}, fits},
		{"12 MiB", func(c *durable.Commit) { *c = sizedCommit(12 << 20) }, fits},
		{"12 MiB and a byte", func(c *durable.Commit) { *c = sizedCommit(12<<20 + 1) }, limit},
		{"a fingerprint over 12 MiB", func(c *durable.Commit) { c.Inbox.Fingerprint = make([]byte, 12<<20) }, limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			commit := newAttempt().commit
			c.apply(&commit)
			err := commit.Check()
			var tooMuch *countersign.LimitError
			var bad *countersign.MalformedError
			switch c.want {
			case fits:
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			case limit:
				if !errors.As(err, &tooMuch) || tooMuch.Actual <= tooMuch.Limit {
					t.Errorf("got %v, expected a limit", err)
				}
			case malformed:
				if !errors.As(err, &bad) {
					t.Errorf("got %v, expected a malformed field", err)
				}
			}
			if !errors.Is(err, countersign.ErrMalformed) || kinds(err) != 1 || !errors.Is(err, countersign.ErrRefused) {
				t.Errorf("%v is of another kind", err)
			}
			if _, decided := durable.Decide(durable.Slice{}, commit); fmt.Sprint(decided) != fmt.Sprint(err) {
				t.Errorf("Decide says %v, Check %v", decided, err)
			}
		})
	}
}

func TestCommitSizeCountsPayloadsIdentitiesAndFingerprint(t *testing.T) {
	c := durable.Commit{
		Owner: "12", Inbox: durable.Inbox{ID: "123", Fingerprint: make([]byte, 4)},
		State:    durable.Append(sized(10), sized(20)),
		Effects:  []durable.Intent{{ID: "e", Payload: sized(100)}},
		Receipts: []durable.TerminalReceipt{{ID: "r", EffectID: "ef", Payload: sized(200)}},
	}
	if got, want := c.Size(), 2+3+4+10+20+1+100+1+2+200; got != want {
		t.Errorf("got %d, expected %d", got, want)
	}
	c.State = durable.Replace(sized(1000))
	if got, want := c.Size(), 2+3+4+1000+1+100+1+2+200; got != want {
		t.Errorf("with a snapshot: got %d, expected %d", got, want)
	}
}
