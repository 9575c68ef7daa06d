package storetest

import (
	"fmt"

	"github.com/countersign/countersign/durable"
)

// subject is an owner that a case works on.
type subject struct {
	id   string
	mode durable.Mode
}

// The two subjects of a case that runs in both modes.
var subjects = []subject{{"orders", durable.EventHistory}, {"basket", durable.Snapshot}}

// firstFence is the fence that subjects are created under, so that there is a
// smaller one and a greater one.
const firstFence = 7

// ownerCase is a case on a session. At its end the store is opened again and
// must still hold the same.
func ownerCase(group, name string, body func(s *session)) Case {
	return Case{Group: group, Name: name, Needs: []Need{NeedOwners}, Run: func(t T, h Harness) {
		t.Helper()
		s := newSession(t, h)
		body(s)
		s.reopen()
	}}
}

// bothModes is an ownerCase that runs once on an owner of each mode, created
// under firstFence.
func bothModes(group, name string, body func(s *session, o subject)) Case {
	return ownerCase(group, name, func(s *session) {
		s.Helper()
		for _, o := range subjects {
			s.create(created, o, firstFence)
			body(s, o)
		}
	})
}

// next returns a commit that the owner accepts as it stands: one event or a
// snapshot with the given text, or several events.
func (s *session) next(o subject, inbox string, texts ...string) durable.Commit {
	c := durable.Commit{
		Owner: o.id,
		Inbox: durable.Inbox{ID: inbox, Fingerprint: []byte("fingerprint of " + inbox)},
		State: o.change(append([]string{}, texts...)...),
	}
	if img := s.model[o.id]; img != nil {
		c.ExpectedPosition, c.Fence = img.Position, img.Fence
	}
	return c
}

// change returns a state change that fits the subject's mode. A snapshot takes
// the last text.
func (o subject) change(texts ...string) durable.StateChange {
	if len(texts) == 0 {
		texts = []string{"state"}
	}
	if o.mode == durable.Snapshot {
		return durable.Replace(text(texts[len(texts)-1]))
	}
	var events []durable.Payload
	for _, t := range texts {
		events = append(events, text(t))
	}
	return durable.Append(events...)
}

// other returns a state change that does not fit the subject's mode.
func (o subject) other() durable.StateChange {
	if o.mode == durable.Snapshot {
		return durable.Append(text("an event"))
	}
	return durable.Replace(text("a snapshot"))
}

// text returns a payload of versions that differ, so that swapping them shows.
func text(s string) durable.Payload {
	return durable.Payload{SchemaVersion: 3, CodecVersion: 2, Bytes: []byte(s)}
}

// intents returns one intent for each id.
func intents(ids ...string) []durable.Intent {
	var all []durable.Intent
	for _, id := range ids {
		all = append(all, durable.Intent{ID: id, Payload: text("do " + id)})
	}
	return all
}

// terminal returns a receipt that says that the effect was applied.
func terminal(id, effect string) durable.TerminalReceipt {
	return durable.TerminalReceipt{ID: id, EffectID: effect, Outcome: durable.Applied, Payload: text("done " + effect)}
}

// numbered returns n ids with a prefix, in byte order.
func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%06d", prefix, i)
	}
	return ids
}
