package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/countersign/countersign/durable"
)

// session is how a case talks to the store. It sends every request to the model
// too, and compares after every step: the answer with all its fields, and the
// whole image of the owner, loaded whole and, on most steps, read in pages and
// parts.
type session struct {
	T
	db    *database
	store *handle
	model model
	step  int
}

func newSession(t T, h Harness) *session {
	t.Helper()
	db := newDatabase(t, h)
	return &session{T: t, db: db, store: db.handle(), model: model{}}
}

// failf ends the case with the step in front of the message.
func (s *session) failf(what, format string, args ...any) {
	s.Helper()
	s.Fatalf("step %d, %s: %s", s.step, what, fmt.Sprintf(format, args...))
}

// send sends a request whose outcome the case knows. The model says the rest.
func (s *session) send(want string, req request) answer {
	s.Helper()
	got, expected := s.exchange(req)
	if expected.outcome != want {
		s.failf(describe(req), "the case wants %s, the rules say %s", want, expected)
	}
	if diff := got.differs(expected); diff != "" {
		s.failf(describe(req), "%s", diff)
	}
	// Pages of the same records again and again are most of what a long case does
	// to its server.
	if s.step <= closelyWatched || s.step%closelyWatched == 0 {
		s.same(describe(req), ownerOf(req))
	} else {
		s.sameImageThrough(s.store, describe(req), ownerOf(req))
	}
	return got
}

// closelyWatched is the number of steps of a case after each of which the image is
// also read in pages and parts; from there on that is done once in so many steps.
const closelyWatched = 16

// exchange asks the model and the store.
func (s *session) exchange(req request) (got, expected answer) {
	s.step++
	// The model first: a store that changes its input must not change the model.
	expected = s.model.ask(req)
	return ask(s.Context(), s.store, req), expected
}

func (s *session) create(want string, o subject, fence uint64) answer {
	s.Helper()
	return s.send(want, durable.CreateOwner{Owner: o.id, Mode: o.mode, Fence: fence})
}

func (s *session) commit(want string, c durable.Commit) answer {
	s.Helper()
	return s.send(want, c)
}

func (s *session) advance(want string, o subject, fence uint64) answer {
	s.Helper()
	return s.send(want, durable.AdvanceFence{Owner: o.id, Fence: fence})
}

func (s *session) record(want string, o subject, fence uint64, r durable.TerminalReceipt) answer {
	s.Helper()
	return s.send(want, durable.RecordReceipt{Owner: o.id, Fence: fence, Receipt: r})
}

// same compares the store with the model on one owner.
func (s *session) same(what, owner string) {
	s.Helper()
	s.sameThrough(s.store, what, owner)
}

// sameThrough is same, read through a given handle.
func (s *session) sameThrough(hd *handle, what, owner string) {
	s.Helper()
	s.sameImageThrough(hd, what, owner)
	if want := s.model[owner]; want != nil {
		s.samePages(hd, what, *want)
	}
}

// sameImageThrough compares the image that is loaded whole.
func (s *session) sameImageThrough(hd *handle, what, owner string) {
	s.Helper()
	want := s.model[owner]
	got, err := hd.LoadOwner(s.Context(), durable.LoadOwner{Owner: owner})
	if want == nil {
		// An id that no owner can have is unknown and malformed.
		if outcome := outcomeOf(err); err == nil || outcome != unknownOwner && outcome != malformed {
			s.failf(what, "the owner must not exist, the load gave: %v\n%s", err, show(got))
		}
		return
	}
	if err != nil {
		s.failf(what, "load %q: %v", shorten(owner), err)
	}
	if !sameImage(*want, got) {
		s.failf(what, "the image is not the one expected:\n%s", diffImages(*want, got))
	}
}

// samePages reads the image in pages and parts and compares. The pages are small,
// but not so small that a large owner takes thousands of them.
func (s *session) samePages(hd *handle, what string, want durable.Image) {
	s.Helper()
	limit := max(2, len(want.History)/20, len(want.Pending)/20)
	ids := make([]string, len(want.Inbox))
	for i, r := range want.Inbox {
		ids[i] = r.ID
	}
	got, err := readParts(s.Context(), hd, want.Owner, ids, limit)
	if err != nil {
		s.failf(what, "%v", err)
	}
	if want = withoutOutbox(want); !sameImage(want, got) {
		s.failf(what, "the image read in pages and parts is not the one expected:\n%s", diffImages(want, got))
	}
}

// sameAll compares every owner.
func (s *session) sameAll(what string) {
	s.Helper()
	for _, owner := range slices.Sorted(maps.Keys(s.model)) {
		s.same(what, owner)
	}
}

// reopen closes every handle, opens the store as another process would, and
// compares everything.
func (s *session) reopen() {
	s.Helper()
	s.step++
	s.db.close()
	s.store = s.db.handle()
	s.sameAll("after the store was opened again")
}

// plant puts an image into the store past every rule, and into the model. It
// reports whether the database can hold it.
func (s *session) plant(img durable.Image) bool {
	s.Helper()
	s.step++
	err := s.db.plant(s.store, img)
	if errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	if err != nil {
		s.failf("plant "+shorten(img.Owner), "%v", err)
	}
	s.model[img.Owner] = sorted(copyImage(img))
	return true
}

// describe names a request in a message.
func describe(req request) string {
	switch r := req.(type) {
	case durable.CreateOwner:
		return fmt.Sprintf("create %q as %s under fence %d", shorten(r.Owner), r.Mode, r.Fence)
	case durable.AdvanceFence:
		return fmt.Sprintf("advance the fence of %q to %d", shorten(r.Owner), r.Fence)
	case durable.RecordReceipt:
		return fmt.Sprintf("record on %q under fence %d %s", shorten(r.Owner), r.Fence, describeReceipt(r.Receipt))
	case durable.Commit:
		var b strings.Builder
		fmt.Fprintf(&b, "commit to %q at %d under fence %d, inbox %q (fingerprint %q)", shorten(r.Owner), r.ExpectedPosition, r.Fence, shorten(r.Inbox.ID), shorten(string(r.Inbox.Fingerprint)))
		if r.State.ReplaceSnapshot != nil {
			b.WriteString(", a snapshot")
		}
		if n := len(r.State.AppendEvents); n > 0 {
			fmt.Fprintf(&b, ", %d events", n)
		}
		const most = 8
		for i, e := range r.Effects {
			if i == most {
				fmt.Fprintf(&b, ", … %d effects", len(r.Effects))
				break
			}
			fmt.Fprintf(&b, ", effect %q (%s)", shorten(e.ID), showPayload(e.Payload))
		}
		for i, t := range r.Receipts {
			if i == most {
				fmt.Fprintf(&b, ", … %d receipts", len(r.Receipts))
				break
			}
			b.WriteString(", " + describeReceipt(t))
		}
		return b.String()
	}
	return fmt.Sprintf("%T", req)
}

func describeReceipt(r durable.TerminalReceipt) string {
	return fmt.Sprintf("receipt %q of %q: %s (%s)", shorten(r.ID), shorten(r.EffectID), r.Outcome, showPayload(r.Payload))
}
