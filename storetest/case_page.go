package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

var pageCases = []Case{
	bothModes("page", "history_of_every_size", func(s *session, o subject) {
		for i := range 5 {
			s.commit(committed, s.next(o, fmt.Sprintf("m%d", i), "a", "b"))
		}
		for after := range uint64(13) {
			for _, limit := range []int{0, 1, 2, 3, 9, 10, 11, durable.MaxPageLimit} {
				s.historyPage(o, after, limit)
			}
		}
		s.historyPage(o, countersign.MaxInteger, 1)
	}),
	bothModes("page", "zero_limit_is_a_hundred", func(s *session, o subject) {
		ids := numbered("e", 130)
		c := s.next(o, "m1", ids...)
		c.Effects = intents(ids...)
		s.commit(committed, c)
		s.historyPage(o, 0, 0)
		s.historyPage(o, 29, 0)
		s.historyPage(o, 30, 0)
		s.historyPage(o, 31, 0)
		s.pendingPage(o, durable.ReadPending{})
		s.pendingPage(o, durable.ReadPending{AfterAccepted: s.model[o.id].Position, AfterID: ids[29]})
		s.part(o, durable.Parts{State: true, Pending: true})
		s.part(o, durable.Parts{State: true, StateAfter: 3, Pending: true})
	}),
	bothModes("page", "greatest_limit_is_ten_thousand", func(s *session, o subject) {
		c := s.next(o, "m1")
		c.Effects = intents("e1")
		s.commit(committed, c)
		s.historyPage(o, 0, durable.MaxPageLimit)
		s.pendingPage(o, durable.ReadPending{Limit: durable.MaxPageLimit})
		s.part(o, durable.Parts{State: true, HistoryLimit: durable.MaxPageLimit, Pending: true, PendingLimit: durable.MaxPageLimit})
	}),
	bothModes("page", "limits_outside_their_range_are_malformed", func(s *session, o subject) {
		for _, limit := range []int{-1, -1 << 31, durable.MaxPageLimit + 1, 1 << 31} {
			s.step++
			for what, read := range map[string]func() error{
				"ReadHistory": func() error {
					_, err := s.store.ReadHistory(s.Context(), durable.ReadHistory{Owner: o.id, Limit: limit})
					return err
				},
				"ReadPending": func() error {
					_, err := s.store.ReadPending(s.Context(), durable.ReadPending{Owner: o.id, Limit: limit})
					return err
				},
				"the history of LoadOwner": func() error {
					_, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{State: true, HistoryLimit: limit}})
					return err
				},
				"pending effects of LoadOwner": func() error {
					_, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{Pending: true, PendingLimit: limit}})
					return err
				},
			} {
				if err := read(); !errors.Is(err, countersign.ErrMalformed) || !errors.Is(err, countersign.ErrRefused) {
					s.failf(what, "limit %d must be malformed, got %v", limit, err)
				}
			}
		}
	}),
	ownerCase("page", "of_an_unknown_owner_is_refused", func(s *session) {
		s.create(created, subjects[0], 0)
		_, err := s.store.ReadHistory(s.Context(), durable.ReadHistory{Owner: "nobody"})
		s.unknown("ReadHistory", err)
		_, err = s.store.ReadPending(s.Context(), durable.ReadPending{Owner: "nobody"})
		s.unknown("ReadPending", err)
		_, err = s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: "nobody"})
		s.unknown("LoadOwner", err)
		_, err = s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: "nobody", Parts: &durable.Parts{}})
		s.unknown("LoadOwner in parts", err)
	}),
	// The cursor is a pair. Effects of one commit were accepted at one position,
	// and ids of later commits may sort before earlier ones.
	bothModes("page", "pending_from_every_cursor", func(s *session, o subject) {
		for i, ids := range [][]string{{"k", "c", "x"}, {"b", "y"}, {"m"}, {"a", "l", "z", "\u00e9"}} {
			c := s.next(o, fmt.Sprintf("m%d", i))
			c.Effects = intents(ids...)
			s.commit(committed, c)
		}
		pages := func() {
			for _, id := range []string{"", "a", "b", "c", "d", "k", "l", "m", "x", "y", "z", "zz", "\u00e9", "\U0010ffff"} {
				for accepted := range uint64(6) {
					for _, limit := range []int{0, 1, 2, 3, 100} {
						s.pendingPage(o, durable.ReadPending{AfterAccepted: accepted, AfterID: id, Limit: limit})
					}
				}
			}
		}
		pages()
		// A receipt takes the effect out, also when it is the cursor.
		for i, id := range []string{"x", "b", "a", "m"} {
			s.record(recorded, o, firstFence, terminal(fmt.Sprintf("r%d", i), id))
		}
		pages()
	}),
	bothModes("page", "head_alone", func(s *session, o subject) {
		s.part(o, durable.Parts{})
		fill(s, o)
		s.part(o, durable.Parts{})
		s.advance(fenceAdvanced, o, firstFence+1)
		s.part(o, durable.Parts{})
	}),
	bothModes("page", "named_inbox_records", func(s *session, o subject) {
		fill(s, o)
		for _, ids := range [][]string{{"m2"}, {"m3", "m1"}, {"m1", "nothing", "m3"}, {"nothing"}, {"m1", "m1"}, {"M1"}, {"m3", "m2", "m1"}} {
			s.part(o, durable.Parts{Inbox: ids})
		}
		many := numbered("nothing ", durable.MaxCommitItems-1)
		s.part(o, durable.Parts{Inbox: append(many, "m2")})
		_, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{Inbox: append(many, "m1", "m2")}})
		if !errors.Is(err, countersign.ErrMalformed) {
			s.failf("load", "%d inbox ids must be malformed, got %v", len(many)+2, err)
		}
	}),
	bothModes("page", "state_after_a_position", func(s *session, o subject) {
		for after := range uint64(3) {
			s.part(o, durable.Parts{State: true, StateAfter: after})
		}
		fill(s, o)
		for after := range uint64(9) {
			for _, limit := range []int{0, 1, 2, 5, 6, 7} {
				s.part(o, durable.Parts{State: true, StateAfter: after, HistoryLimit: limit})
			}
		}
		s.part(o, durable.Parts{State: true, StateAfter: countersign.MaxInteger})
	}),
	bothModes("page", "first_pending_effects", func(s *session, o subject) {
		s.part(o, durable.Parts{Pending: true})
		fill(s, o)
		for _, limit := range []int{0, 1, 2, 3, 4} {
			s.part(o, durable.Parts{Pending: true, PendingLimit: limit})
		}
	}),
	// A part is there when it is asked for, and only then.
	bothModes("page", "parts_in_every_combination", func(s *session, o subject) {
		fill(s, o)
		for i := range 8 {
			p := durable.Parts{State: i&1 != 0, Pending: i&2 != 0}
			if i&4 != 0 {
				p.Inbox = []string{"m1", "m3"}
			}
			s.part(o, p)
			p.StateAfter, p.HistoryLimit, p.PendingLimit = 1, 1, 1
			s.part(o, p)
		}
	}),
}

// historyPage compares a page of the history.
func (s *session) historyPage(o subject, after uint64, limit int) {
	s.Helper()
	s.step++
	what := fmt.Sprintf("read the history of %s after %d, limit %d", o.id, after, limit)
	got, err := s.store.ReadHistory(s.Context(), durable.ReadHistory{Owner: o.id, After: after, Limit: limit})
	if err != nil {
		s.failf(what, "%v", err)
	}
	if want := historyPage(*s.model[o.id], after, limit); !slices.EqualFunc(want, got, sameRecord) {
		s.failf(what, "\n%s", diffImages(durable.Image{History: want}, durable.Image{History: got}))
	}
}

// pendingPage compares a page of the pending effects.
func (s *session) pendingPage(o subject, req durable.ReadPending) {
	s.Helper()
	s.step++
	req.Owner = o.id
	what := fmt.Sprintf("read pending effects of %s after (%d, %q), limit %d", o.id, req.AfterAccepted, req.AfterID, req.Limit)
	got, err := s.store.ReadPending(s.Context(), req)
	if err != nil {
		s.failf(what, "%v", err)
	}
	if want := pendingPage(*s.model[o.id], req); !slices.EqualFunc(want, got, sameEffect) {
		s.failf(what, "\n%s", diffImages(durable.Image{Outbox: want}, durable.Image{Outbox: got}))
	}
}

// part compares a partial load.
func (s *session) part(o subject, p durable.Parts) {
	s.Helper()
	s.step++
	what := fmt.Sprintf("load of %s, state %v after %d limit %d, pending %v limit %d, %d inbox ids",
		o.id, p.State, p.StateAfter, p.HistoryLimit, p.Pending, p.PendingLimit, len(p.Inbox))
	got, err := s.store.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id, Parts: &p})
	if err != nil {
		s.failf(what, "%v", err)
	}
	if want := partOf(*s.model[o.id], p); !sameImage(want, got) {
		s.failf(what, "\n%s", diffImages(want, got))
	}
}

// unknown demands that a read says that the owner does not exist.
func (s *session) unknown(what string, err error) {
	s.Helper()
	var e *durable.UnknownOwnerError
	if !errors.As(err, &e) || e.Owner != "nobody" || !errors.Is(err, countersign.ErrRefused) {
		s.failf(what, "want an *UnknownOwnerError of %q, got %v", "nobody", err)
	}
}
