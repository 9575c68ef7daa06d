package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

var handleCases = []Case{
	bothModes("handle", "opened_again_holds_everything", func(s *session, o subject) {
		s.reopen()
		fill(s, o)
		s.reopen()
		s.record(recorded, o, firstFence, terminal("r1", "pending of m2"))
		s.reopen()
		s.advance(fenceAdvanced, o, firstFence+1)
		s.reopen()
		s.record(recordedBefore, o, firstFence, terminal("r1", "pending of m2"))
		s.commit(committed, s.next(o, "m9"))
	}),
	bothModes("handle", "redelivery_to_another_process_is_a_duplicate", func(s *session, o subject) {
		c := fullCommit(s, o, "m1")
		s.commit(committed, c)
		s.reopen()
		s.commit(duplicate, c)
		s.advance(fenceAdvanced, o, firstFence+1)
		s.reopen()
		s.commit(duplicate, c)
	}),
	bothModes("handle", "two_see_each_other", func(s *session, o subject) {
		one, two := s.store, s.db.handle()
		for i := range 4 {
			s.store = one
			s.commit(committed, fullCommit(s, o, fmt.Sprintf("m%d", i)))
			s.sameThrough(two, "read through the other handle", o.id)
			s.store = two
			s.record(recorded, o, firstFence+uint64(i), terminal(fmt.Sprintf("r%d", i), fmt.Sprintf("pending of m%d", i)))
			s.advance(fenceAdvanced, o, firstFence+1+uint64(i))
			s.sameThrough(one, "read through the first handle", o.id)
		}
	}),
	// B33: both read, both write. The loser is told so in the store's own words.
	bothModes("handle", "loser_of_two_gets_a_conflict", func(s *session, o subject) {
		one, two := s.store, s.db.handle()
		for i := range 10 {
			for _, hd := range []*handle{one, two} {
				if img, err := hd.LoadOwner(s.Context(), durable.LoadOwner{Owner: o.id}); err != nil || img.Position != s.model[o.id].Position {
					s.failf("load", "at %d: %v", img.Position, err)
				}
			}
			winner, loser := s.next(o, fmt.Sprintf("winner %d", i)), s.next(o, fmt.Sprintf("loser %d", i))
			s.store = one
			s.commit(committed, winner)
			s.store = two
			a := s.commit(positionConflict, loser)
			if !errors.Is(a.err, countersign.ErrConflict) {
				s.failf(describe(loser), "want %q, got %v", countersign.ErrConflict, a.err)
			}
			one, two = two, one
		}
	}),
	bothModes("handle", "closed_refuses_every_call", func(s *session, o subject) {
		withEffects(s, o, "pending")
		hd := s.db.handle()
		if err := hd.backend.Close(); err != nil {
			s.failf("close", "%v", err)
		}
		for _, c := range callsOn(s, o) {
			s.step++
			err := c.send(s.Context(), hd)
			if !errors.Is(err, store.ErrClosed) || !errors.Is(err, countersign.ErrRefused) {
				s.failf(c.name, "a closed handle must give %q, it gave %v", store.ErrClosed, err)
			}
		}
		// The other handle is another process, and goes on.
		s.same("after another handle was closed", o.id)
		s.same("after another handle was closed", "new")
		s.commit(committed, s.next(o, "after"))
	}),
	bothModes("handle", "closes_twice", func(s *session, o subject) {
		hd := s.db.handle()
		for range 3 {
			s.step++
			if err := hd.backend.Close(); err != nil {
				s.failf("close", "%v", err)
			}
		}
		s.commit(committed, s.next(o, "m1"))
	}),
	{Group: "handle", Name: "closed_during_calls_gives_no_wrong_result", Needs: []Need{NeedOwners}, Run: closesDuring},
}

// closesDuring closes a handle while commits are under way. What was said to be
// committed is there; what was refused or not taken is not.
func closesDuring(t T, h Harness) {
	const owners = 4
	db := newDatabase(t, h)
	doomed, keeper := db.handle(), db.handle()
	for i := range owners {
		if _, err := keeper.CreateOwner(t.Context(), durable.CreateOwner{Owner: fmt.Sprint(i), Mode: durable.EventHistory}); err != nil {
			t.Fatalf("create: %v", err)
		}
	}
	var acknowledged [owners]int
	var last [owners]error
	begun := make(chan struct{})
	var closed atomic.Bool // Close has returned
	together(t, owners+1, func(i int) error {
		if i == owners {
			<-begun
			defer closed.Store(true)
			return doomed.backend.Close()
		}
		if i == 0 {
			defer func() {
				if acknowledged[0] == 0 {
					close(begun)
				}
			}()
		}
		// On and on, until the handle is closed under it.
		for n := 0; ; n++ {
			late := closed.Load()
			_, last[i] = doomed.CommitOwner(t.Context(), durable.Commit{
				Owner: fmt.Sprint(i), ExpectedPosition: uint64(n), Inbox: durable.Inbox{ID: fmt.Sprint(n)},
				State: durable.Append(text(fmt.Sprint(n))), Effects: intents(fmt.Sprint(n)),
			})
			if last[i] != nil {
				return nil
			}
			if late {
				return errors.New("a commit was taken by a handle that had been closed")
			}
			acknowledged[i]++
			if i == 0 && n == 0 {
				close(begun)
			}
			runtime.Gosched() // for the one that closes
		}
	})
	for i := range owners {
		img, err := durable.Recover(t.Context(), keeper, fmt.Sprint(i))
		if err != nil {
			t.Fatalf("owner %d: %v", i, err)
		}
		possible := acknowledged[i]
		switch kind, wrong := kindOf(last[i]); {
		case wrong != nil:
			t.Errorf("owner %d: a commit on a handle that is being closed: %v", i, wrong)
		case kind == unknownOutcome:
			possible++
		case kind == refused && !errors.Is(last[i], store.ErrClosed):
			t.Errorf("owner %d: a commit on a handle that is being closed: want %q, got %v", i, store.ErrClosed, last[i])
		}
		if n := len(img.History); n < acknowledged[i] || n > possible || len(img.Outbox) != n {
			t.Errorf("owner %d has %d events and %d effects; the store had acknowledged %d commits, and at last said: %v",
				i, n, len(img.Outbox), acknowledged[i], last[i])
		}
	}
}
