package storetest

import (
	"fmt"
	"sync"

	"github.com/countersign/countersign/durable"
)

var outboxCases = []Case{
	{Group: "outbox", Name: "two_relays_mark_each_effect_once", Needs: []Need{NeedOwners}, Run: twoRelays},
	bothModes("outbox", "effect_stays_pending_until_its_receipt", func(s *session, o subject) {
		withEffects(s, o, "e1", "e2", "e3")
		s.reopen()
		s.record(staleFence, o, firstFence+1, terminal("r2", "e2"))
		s.record(recorded, o, firstFence, terminal("r2", "e2"))
		s.reopen()
		s.pendingPage(o, durable.ReadPending{})
		rejected := terminal("r1", "e1")
		rejected.Outcome = durable.Rejected
		s.record(recorded, o, firstFence, rejected)
		s.pendingPage(o, durable.ReadPending{})
	}),
	// B65: an effect that nobody's page shows would never be published.
	bothModes("outbox", "no_effect_is_out_of_reach", func(s *session, o subject) {
		ids := numbered("e", 40)
		for i := 0; i < len(ids); i += 5 {
			c := s.next(o, fmt.Sprintf("m%d", i))
			for k := range 5 { // in an order that is not that of the ids
				c.Effects = append(c.Effects, intents(ids[(i+k*3+7)%len(ids)])...)
			}
			s.commit(committed, c)
		}
		s.samePages(s.store, "all pending effects", *s.model[o.id])
		for len(s.model[o.id].Pending) > 0 {
			page, err := s.store.ReadPending(s.Context(), durable.ReadPending{Owner: o.id, Limit: 3})
			if err != nil || len(page) == 0 {
				s.failf("read pending effects", "%d, %v, with %d pending", len(page), err, len(s.model[o.id].Pending))
			}
			for _, e := range page {
				s.record(recorded, o, firstFence, terminal("receipt of "+e.ID, e.ID))
			}
		}
	}),
}

// twoRelays drain a thousand effects from two processes (B65). Each relay loses
// a part of its marks after it has published, begins again, and publishes the
// same effect under the same id. In the end each effect has been published under
// one id, and has one receipt.
func twoRelays(t T, h Harness) {
	const commits, each = 4, 250
	db := newDatabase(t, h)
	store := db.pool()
	o := subjects[0]
	newOwner(t, store(0), o)
	for n := range commits {
		if _, err := commitTo(t, store(0), o, fmt.Sprintf("m%d", n), numbered(fmt.Sprintf("commit %d, effect ", n), each)...); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	var mu sync.Mutex
	published := map[string]int{} // the consumer, which keeps the ids that it has seen
	marked := 0
	var met sync.WaitGroup // both have read the same page before either marks
	met.Add(2)
	together(t, 2, func(i int) error {
		var once sync.Once
		meet := func() { once.Do(met.Done) }
		defer meet()
		lost := map[string]bool{}
		for range commits * each { // far more rounds than are needed
			var cursor durable.Effect
			drained := true
			for {
				var page []durable.Effect
				err := taken(t.Context(), func() (err error) {
					page, err = store(i).ReadPending(t.Context(), durable.ReadPending{Owner: o.id, AfterAccepted: cursor.AcceptedAt, AfterID: cursor.ID, Limit: 64})
					return err
				})
				if err != nil {
					return err
				}
				if len(page) == 0 {
					break
				}
				drained = false
				meet()
				met.Wait()
				for n, e := range page {
					cursor = e
					mu.Lock()
					published[e.ID]++
					mu.Unlock()
					if n%16 == i && !lost[e.ID] {
						lost[e.ID] = true // published, and the relay dies before it marks
						continue
					}
					var res durable.ReceiptRecorded
					err := taken(t.Context(), func() (err error) {
						res, err = store(i).RecordReceipt(t.Context(), durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal("published "+e.ID, e.ID)})
						return err
					})
					if err != nil {
						return err
					}
					if !res.Duplicate {
						mu.Lock()
						marked++
						mu.Unlock()
					}
				}
			}
			if drained {
				return nil
			}
		}
		return fmt.Errorf("relay %d never came to an end", i)
	})
	img := recoverOwner(t, db, o.id)
	if len(img.Pending) != 0 || len(img.Receipts) != commits*each || marked != commits*each || len(published) != commits*each {
		t.Fatalf("of %d effects %d are pending, %d have a receipt, %d were marked by a relay that was told so, %d ids were published",
			commits*each, len(img.Pending), len(img.Receipts), marked, len(published))
	}
	for _, r := range img.Receipts {
		if r.ID != "published "+r.EffectID {
			t.Errorf("effect %q has receipt %q", r.EffectID, r.ID)
		}
	}
}
