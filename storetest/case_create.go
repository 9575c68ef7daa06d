package storetest

import (
	"fmt"

	"github.com/countersign/countersign/durable"
)

var createCases = []Case{
	ownerCase("create", "starts_empty_at_position_zero", func(s *session) {
		for _, o := range subjects {
			s.create(created, o, firstFence)
		}
	}),
	ownerCase("create", "takes_fence_zero", func(s *session) {
		for _, o := range subjects {
			s.create(created, o, 0)
			s.commit(committed, s.next(o, "m1"))
		}
	}),
	bothModes("create", "again_changes_nothing", func(s *session, o subject) {
		c := s.next(o, "m1", "a", "b")
		c.Effects = intents("e1")
		s.commit(committed, c)
		s.create(created, o, firstFence)
	}),
	// The fence belongs to the authority: whoever creates the owner again must
	// neither take it nor give it back.
	bothModes("create", "again_keeps_the_fence", func(s *session, o subject) {
		s.advance(fenceAdvanced, o, firstFence+5)
		for _, fence := range []uint64{0, firstFence, firstFence + 4, firstFence + 6} {
			if got := s.create(created, o, fence); got.head.Fence != firstFence+5 {
				s.failf("create again", "the fence is %d, want %d", got.head.Fence, firstFence+5)
			}
		}
	}),
	bothModes("create", "again_in_another_mode_is_refused", func(s *session, o subject) {
		other := subject{o.id, durable.Snapshot}
		if o.mode == durable.Snapshot {
			other.mode = durable.EventHistory
		}
		s.create(ownerConflict, other, firstFence)
		s.commit(committed, s.next(o, "m1"))
		s.create(ownerConflict, other, firstFence)
	}),
	ownerCase("create", "unknown_mode_is_malformed", func(s *session) {
		for _, mode := range []durable.Mode{"", "history", "Snapshot", "event_history ", "snapshot\x00"} {
			s.create(malformed, subject{"orders", mode}, 0)
		}
		s.create(created, subject{"orders", durable.EventHistory}, 0)
		s.create(malformed, subject{"orders", "history"}, 0)
	}),
	ownerCase("create", "owners_are_apart", func(s *session) {
		for i, owner := range []string{"a", "b", "c"} {
			o := subject{owner, subjects[i%2].mode}
			s.create(created, o, uint64(i))
		}
		// The same ids in each of them.
		for i, owner := range []string{"a", "b", "c"} {
			o := subject{owner, subjects[i%2].mode}
			c := s.next(o, "m1", "text of "+owner)
			c.Effects = []durable.Intent{{ID: "e1", Payload: text("effect of " + owner)}}
			s.commit(committed, c)
			s.record(recorded, o, uint64(i), durable.TerminalReceipt{ID: "r1", EffectID: "e1", Outcome: durable.Rejected, Payload: text("receipt of " + owner)})
			s.sameAll("after the work of " + owner)
		}
	}),
	{Group: "create", Name: "databases_are_apart", Needs: []Need{NeedOwners}, Run: func(t T, h Harness) {
		one, two := newSession(t, h), newSession(t, h)
		o := subjects[0]
		one.create(created, o, 1)
		one.commit(committed, one.next(o, "m1"))
		two.same("the other database", o.id)
		two.create(created, o, 2)
		two.commit(committed, two.next(o, "m1", "other"))
		one.sameAll("after the other database was written to")
	}},
	{Group: "create", Name: "together_one_wins", Needs: []Need{NeedOwners}, Run: createTogether},
}

// createTogether lets several processes create one owner at once, each with a
// fence of its own. All of them must be given the same owner.
func createTogether(t T, h Harness) {
	const processes = 8
	db := newDatabase(t, h)
	store := db.pool()
	heads := make([]durable.Head, processes)
	together(t, processes, func(i int) error {
		return taken(t.Context(), func() (err error) {
			heads[i], err = store(i).CreateOwner(t.Context(), durable.CreateOwner{Owner: "orders", Mode: durable.EventHistory, Fence: uint64(i) + 1})
			return err
		})
	})
	for i, head := range heads {
		if head != heads[0] {
			t.Errorf("process 0 was given %+v, process %d %+v", heads[0], i, head)
		}
	}
	s := &session{T: t, db: db, store: db.handle(), model: model{}}
	s.model["orders"] = &durable.Image{Head: durable.Head{Owner: "orders", Mode: durable.EventHistory, Fence: heads[0].Fence}}
	s.sameAll(fmt.Sprintf("after %d processes created it", processes))
}
