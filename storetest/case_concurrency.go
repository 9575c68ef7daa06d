package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

var concurrencyCases = []Case{
	{Group: "concurrency", Name: "one_owner_gives_each_position_once", Needs: []Need{NeedOwners}, Run: func(t T, h Harness) {
		for _, o := range subjects {
			crowd(t, h, o)
		}
	}},
	{Group: "concurrency", Name: "many_owners_do_not_hinder_each_other", Needs: []Need{NeedOwners}, Run: manyOwners},
	{Group: "concurrency", Name: "same_inbox_other_fingerprints_one_commits", Needs: []Need{NeedOwners}, Run: sameInboxOtherFingerprints},
	{Group: "concurrency", Name: "same_delivery_commits_once", Needs: []Need{NeedOwners}, Run: sameDelivery},
	{Group: "concurrency", Name: "same_receipt_is_recorded_once", Needs: []Need{NeedOwners}, Run: oneReceipt},
	{Group: "concurrency", Name: "one_token_has_one_holder", Needs: []Need{NeedOwners}, Run: oneHolder},
	{Group: "concurrency", Name: "fence_hand_off_stops_the_old_holder", Needs: []Need{NeedOwners}, Run: handOff},
	{Group: "concurrency", Name: "snapshot_never_goes_back", Needs: []Need{NeedOwners}, Run: snapshotRace},
	{Group: "concurrency", Name: "reader_sees_every_event_once_in_order", Needs: []Need{NeedOwners}, Run: tailHistory},
	{Group: "concurrency", Name: "loads_are_one_consistent_read", Needs: []Need{NeedOwners}, Run: consistentLoads},
}

// newOwner creates an owner under firstFence.
func newOwner(t T, s durable.Store, o subject) {
	t.Helper()
	if _, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: o.id, Mode: o.mode, Fence: firstFence}); err != nil {
		t.Fatalf("create %s: %v", o.id, err)
	}
}

// commitTo commits one unit at the owner's current position, loading again for
// as long as somebody else is first.
func commitTo(t T, s durable.Store, o subject, inbox string, effects ...string) (durable.Committed, error) {
	const attempts = 10_000
	for range attempts {
		var img durable.Image
		err := taken(t.Context(), func() (err error) {
			img, err = s.LoadOwner(t.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{}})
			return err
		})
		if err != nil {
			return durable.Committed{}, err
		}
		var res durable.Committed
		err = taken(t.Context(), func() (err error) {
			res, err = s.CommitOwner(t.Context(), durable.Commit{
				Owner: o.id, ExpectedPosition: img.Position, Fence: img.Fence,
				Inbox: durable.Inbox{ID: inbox}, State: o.change("text of " + inbox), Effects: intents(effects...),
			})
			return err
		})
		if err == nil && res.Through != img.Position+1 {
			return res, fmt.Errorf("%q was committed at %d, and gives %d", inbox, img.Position, res.Through)
		}
		if !errors.Is(err, countersign.ErrConflict) {
			return res, err
		}
	}
	return durable.Committed{}, fmt.Errorf("%q met a conflict %d times", inbox, attempts)
}

// recoverOwner loads the owner's image through a handle opened anew and
// validates it.
func recoverOwner(t T, db *database, owner string) durable.Image {
	t.Helper()
	db.close()
	img, err := durable.Recover(t.Context(), db.handle(), owner)
	if err != nil {
		t.Fatalf("recover %s: %v", owner, err)
	}
	return img
}

// crowd lets many goroutines in two processes commit to one owner. Each position
// is won once, and everything that was won is there.
func crowd(t T, h Harness, o subject) {
	const writers, each = 8, 12
	db := newDatabase(t, h)
	store := db.pool()
	newOwner(t, store(0), o)
	var mu sync.Mutex
	wonBy := map[uint64]string{}
	together(t, writers, func(w int) error {
		for i := range each {
			inbox := fmt.Sprintf("writer %d, message %d", w, i)
			res, err := commitTo(t, store(w), o, inbox, "effect of "+inbox)
			if err != nil {
				return err
			}
			if res.Duplicate || !res.AckSafe() {
				return fmt.Errorf("%s: %+v", inbox, res)
			}
			mu.Lock()
			other, twice := wonBy[res.Through]
			wonBy[res.Through] = inbox
			mu.Unlock()
			if twice {
				return fmt.Errorf("position %d was given to %q and to %q", res.Through, other, inbox)
			}
		}
		return nil
	})
	img := recoverOwner(t, db, o.id)
	if img.Position != writers*each || len(img.Inbox) != writers*each || len(img.Pending) != writers*each {
		t.Fatalf("%s: %d commits were acknowledged, the owner is at %d with %d inbox records and %d pending effects",
			o.id, writers*each, img.Position, len(img.Inbox), len(img.Pending))
	}
	for _, r := range img.Inbox {
		if wonBy[r.CommittedThrough] != r.ID {
			t.Errorf("%s: %q is recorded at %d, which was given to %q", o.id, r.ID, r.CommittedThrough, wonBy[r.CommittedThrough])
		}
	}
	for _, r := range img.History {
		if want := "text of " + wonBy[r.Position]; string(r.Payload.Bytes) != want {
			t.Errorf("%s: the event at %d is %q, want %q", o.id, r.Position, r.Payload.Bytes, want)
		}
	}
	for _, e := range img.Outbox {
		if want := "effect of " + wonBy[e.AcceptedAt]; e.ID != want {
			t.Errorf("%s: %q was accepted at %d, where %q belongs", o.id, e.ID, e.AcceptedAt, want)
		}
	}
}

// manyOwners lets each goroutine commit to owners of its own (B39). Nobody else
// moves them, so nobody may be told of a conflict.
func manyOwners(t T, h Harness) {
	const writers, each = 16, 10
	db := newDatabase(t, h)
	store := db.pool()
	together(t, writers, func(w int) error {
		o := subject{fmt.Sprintf("owner %d", w), subjects[w%2].mode}
		err := taken(t.Context(), func() error {
			_, err := store(w).CreateOwner(t.Context(), durable.CreateOwner{Owner: o.id, Mode: o.mode})
			return err
		})
		if err != nil {
			return err
		}
		for i := range each {
			var res durable.Committed
			err := taken(t.Context(), func() (err error) {
				res, err = store(w+i).CommitOwner(t.Context(), durable.Commit{
					Owner: o.id, ExpectedPosition: uint64(i), Inbox: durable.Inbox{ID: fmt.Sprint(i)},
					State: o.change(fmt.Sprint(i)), Effects: intents(fmt.Sprint(i)),
				})
				return err
			})
			if err != nil || res.Through != uint64(i)+1 || res.Duplicate {
				return fmt.Errorf("commit %d to %s: %+v, %w", i, o.id, res, err)
			}
		}
		return nil
	})
	for w := range writers {
		if img := recoverOwner(t, db, fmt.Sprintf("owner %d", w)); img.Position != each || len(img.Outbox) != each {
			t.Errorf("owner %d is at %d with %d effects, want %d", w, img.Position, len(img.Outbox), each)
		}
	}
}

// sameInboxOtherFingerprints sends one inbox id with eight fingerprints at once
// (B59). One is committed; each of the others is told of the other content, and
// none that it should wait, or that it is a duplicate.
func sameInboxOtherFingerprints(t T, h Harness) {
	const senders, rounds = 8, 6
	db := newDatabase(t, h)
	store := db.pool()
	o := subjects[0]
	newOwner(t, store(0), o)
	for round := range rounds {
		answers := make([]answer, senders)
		together(t, senders, func(i int) error {
			c := durable.Commit{
				Owner: o.id, ExpectedPosition: uint64(round), Fence: firstFence,
				Inbox: durable.Inbox{ID: fmt.Sprintf("m%d", round), Fingerprint: []byte{byte(i)}}, State: o.change(fmt.Sprint(i)),
			}
			return taken(t.Context(), func() error {
				answers[i] = ask(t.Context(), store(i), c)
				return answers[i].err
			}, countersign.ErrRefused)
		})
		if got := tally(answers); got[committed] != 1 || got[inboxConflict] != senders-1 {
			t.Fatalf("one inbox id with %d fingerprints: %v, want one committed, the others %s", senders, got, inboxConflict)
		}
		winner := slices.IndexFunc(answers, func(a answer) bool { return a.err == nil })
		img := recoverOwner(t, db, o.id)
		store = db.pool()
		if img.Position != uint64(round)+1 || !slices.Equal(img.Inbox[round].Fingerprint, []byte{byte(winner)}) || string(img.History[round].Payload.Bytes) != fmt.Sprint(winner) {
			t.Fatalf("sender %d was acknowledged, the owner holds:\n%s", winner, show(img))
		}
	}
}

// sameDelivery sends one delivery eight times at once: one is committed, the
// others are duplicates with its position.
func sameDelivery(t T, h Harness) {
	const senders, rounds = 8, 6
	db := newDatabase(t, h)
	store := db.pool()
	for _, o := range subjects {
		newOwner(t, store(0), o)
		for round := range rounds {
			answers := make([]answer, senders)
			together(t, senders, func(i int) error {
				c := durable.Commit{
					Owner: o.id, ExpectedPosition: uint64(round), Fence: firstFence,
					Inbox: durable.Inbox{ID: fmt.Sprintf("m%d", round), Fingerprint: []byte("sum")},
					State: o.change("state"), Effects: intents(fmt.Sprintf("e%d", round)),
				}
				return taken(t.Context(), func() error {
					answers[i] = ask(t.Context(), store(i), c)
					return answers[i].err
				})
			})
			if got := tally(answers); got[committed] != 1 || got[duplicate] != senders-1 {
				t.Fatalf("%s: one delivery sent %d times: %v, want one committed and the others %s", o.id, senders, got, duplicate)
			}
			for i, a := range answers {
				if a.through != uint64(round)+1 || !a.ackSafe {
					t.Fatalf("%s: sender %d was answered %s, want position %d", o.id, i, a, round+1)
				}
			}
		}
		if img := recoverOwner(t, db, o.id); img.Position != rounds || len(img.Inbox) != rounds || len(img.Outbox) != rounds {
			t.Fatalf("%d deliveries left:\n%s", rounds, show(img))
		}
		store = db.pool()
	}
}

// oneReceipt records one receipt, and rivals of it, at once.
func oneReceipt(t T, h Harness) {
	const senders, rounds = 8, 6
	db := newDatabase(t, h)
	store := db.pool()
	o := subjects[1]
	newOwner(t, store(0), o)
	if _, err := commitTo(t, store(0), o, "m1", numbered("e", rounds)...); err != nil {
		t.Fatalf("commit: %v", err)
	}
	for round := range rounds {
		answers := make([]answer, senders)
		effect := numbered("e", rounds)[round]
		together(t, senders, func(i int) error {
			// Half of them under one id, half under another.
			req := durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal(fmt.Sprintf("receipt %d of %s", i%2, effect), effect)}
			return taken(t.Context(), func() error {
				answers[i] = ask(t.Context(), store(i/2), req)
				return answers[i].err
			}, countersign.ErrRefused)
		})
		if got := tally(answers); got[recorded] != 1 || got[recordedBefore] != senders/2-1 || got[receiptedBefore] != senders/2 {
			t.Fatalf("two receipts of one effect, each sent %d times: %v", senders/2, got)
		}
	}
	if img := recoverOwner(t, db, o.id); len(img.Receipts) != rounds || len(img.Pending) != 0 {
		t.Fatalf("%d effects were receipted, the owner holds:\n%s", rounds, show(img))
	}
}

// oneHolder lets many take the same token at once. One of them may have it.
func oneHolder(t T, h Harness) {
	const rivals, rounds = 8, 10
	db := newDatabase(t, h)
	store := db.pool()
	o := subjects[0]
	newOwner(t, store(0), o)
	for round := range rounds {
		answers := make([]answer, rivals)
		together(t, rivals, func(i int) error {
			req := durable.AdvanceFence{Owner: o.id, Fence: firstFence + 1 + uint64(round)}
			return taken(t.Context(), func() error {
				answers[i] = ask(t.Context(), store(i), req)
				return answers[i].err
			}, countersign.ErrRefused)
		})
		if got := tally(answers); got[fenceAdvanced] != 1 || got[fenceStood] != rivals-1 {
			t.Fatalf("one token taken by %d at once: %v, want one %s", rivals, got, fenceAdvanced)
		}
	}
}

// handOff advances the fence while the old holder commits and records receipts
// as fast as it can. Once the hand-off has been answered, nothing of the old
// holder's may be written any more: what the new holder loads is what stays.
func handOff(t T, h Harness) {
	const rounds = 12
	db := newDatabase(t, h)
	store := db.pool()
	o := subjects[0]
	newOwner(t, store(0), o)
	for round := range rounds {
		fence := uint64(firstFence + round)
		effects := numbered(fmt.Sprintf("round %d, effect ", round), 16)
		if _, err := commitTo(t, store(0), o, fmt.Sprintf("round %d, effects", round), effects...); err != nil {
			t.Fatalf("commit: %v", err)
		}
		var after durable.Image
		begun := make(chan struct{}) // the old holder is at work
		var once sync.Once
		handed := make(chan struct{}) // the hand-off has been answered
		together(t, 3, func(i int) error {
			if i == 2 {
				<-begun
				err := taken(t.Context(), func() error {
					_, err := store(1).AdvanceFence(t.Context(), durable.AdvanceFence{Owner: o.id, Fence: fence + 1})
					return err
				})
				close(handed)
				if err != nil {
					return err
				}
				return taken(t.Context(), func() (err error) {
					after, err = store(1).LoadOwner(t.Context(), durable.LoadOwner{Owner: o.id})
					return err
				})
			}
			defer once.Do(func() { close(begun) })
			for n := 0; i == 0 || n < len(effects); n++ {
				var req request
				if i == 0 {
					var img durable.Image
					err := taken(t.Context(), func() (err error) {
						img, err = store(0).LoadOwner(t.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{}})
						return err
					})
					if err != nil {
						return err
					}
					req = durable.Commit{
						Owner: o.id, ExpectedPosition: img.Position, Fence: fence,
						Inbox: durable.Inbox{ID: fmt.Sprintf("round %d, message %d", round, n)}, State: o.change("state"),
					}
				} else {
					req = durable.RecordReceipt{Owner: o.id, Fence: fence, Receipt: terminal("receipt of "+effects[n], effects[n])}
				}
				if i == 1 && n == len(effects)-1 {
					<-handed // one receipt at least comes too late
				}
				late := false
				select {
				case <-handed:
					late = true
				default:
				}
				var a answer
				err := taken(t.Context(), func() error {
					a = ask(t.Context(), store(0), req)
					return a.err
				}, countersign.ErrRefused)
				if err != nil {
					return err
				}
				once.Do(func() { close(begun) })
				switch {
				case a.outcome == staleFence:
					return nil
				case a.err != nil:
					return fmt.Errorf("%s: %w", describe(req), a.err)
				case late:
					return fmt.Errorf("%s: accepted after the fence was handed off", describe(req))
				}
			}
			return nil
		})
		if after.Fence != fence+1 {
			t.Fatalf("the new holder advanced to %d and loads fence %d", fence+1, after.Fence)
		}
		img, err := durable.Recover(t.Context(), store(0), o.id)
		if err != nil {
			t.Fatalf("recover: %v", err)
		}
		if !sameImage(after, img) {
			t.Fatalf("the old holder wrote after the hand-off to fence %d:\n%s", fence+1, diffImages(after, img))
		}
	}
}

// snapshotRace writes two snapshots that follow each other, while the first one
// is delivered again and again by a slower writer (B67). The later one stays,
// and the image is valid after every round.
func snapshotRace(t T, h Harness) {
	const rounds = 25
	db := newDatabase(t, h)
	store := db.pool()
	o := subjects[1]
	newOwner(t, store(0), o)
	for round := range rounds {
		at := uint64(2 * round)
		commit := func(i int, expected uint64, said string, expect ...error) error {
			c := durable.Commit{
				Owner: o.id, ExpectedPosition: expected, Fence: firstFence,
				Inbox: durable.Inbox{ID: fmt.Sprintf("round %d, %s", round, said)}, State: o.change(said),
			}
			return taken(t.Context(), func() error { _, err := store(i).CommitOwner(t.Context(), c); return err }, expect...)
		}
		later := make(chan struct{}) // the later one is there, or never will be
		together(t, 3, func(i int) error {
			switch i {
			case 0:
				return commit(i, at, "earlier")
			case 1:
				defer close(later)
				for {
					err := commit(i, at+1, "later")
					if !errors.Is(err, countersign.ErrConflict) || t.Failed() {
						return err
					}
				}
			}
			for over := false; !over; {
				select {
				case <-later:
					over = true // once more
				default:
				}
				if err := commit(i, at, "earlier"); err != nil {
					return err
				}
			}
			return nil
		})
		img, err := durable.Recover(t.Context(), store(round), o.id)
		if err != nil {
			t.Fatalf("recover: %v", err)
		}
		if img.Position != at+2 || string(img.Snapshot.Payload.Bytes) != "later" {
			t.Fatalf("round %d: want the later snapshot at %d, the owner holds:\n%s", round, at+2, show(img))
		}
	}
}

// tailHistory reads pages after the last position seen while others commit
// (B63): no event is passed over, none comes twice, and they come in order. The
// same holds for pending effects by their cursor.
func tailHistory(t T, h Harness) {
	const writers, each = 3, 25
	db := newDatabase(t, h)
	store := db.pool()
	o := subjects[0]
	newOwner(t, store(0), o)
	const all = writers * each
	read := map[string][]uint64{}
	var mu sync.Mutex
	together(t, writers+2, func(i int) error {
		if i < writers {
			for n := range each {
				if _, err := commitTo(t, store(i), o, fmt.Sprintf("writer %d, message %d", i, n), fmt.Sprintf("writer %d, effect %d", i, n)); err != nil {
					return err
				}
			}
			return nil
		}
		var seen []uint64
		var cursor durable.Effect
		what := "events"
		for len(seen) < all {
			if i == writers {
				var page []durable.Record
				err := taken(t.Context(), func() (err error) {
					page, err = store(i).ReadHistory(t.Context(), durable.ReadHistory{Owner: o.id, After: cursor.AcceptedAt, Limit: 4})
					return err
				})
				if err != nil {
					return err
				}
				for _, r := range page {
					seen = append(seen, r.Position)
					cursor.AcceptedAt = r.Position
				}
			} else {
				what = "pending effects"
				var page []durable.Effect
				err := taken(t.Context(), func() (err error) {
					page, err = store(i).ReadPending(t.Context(), durable.ReadPending{Owner: o.id, AfterAccepted: cursor.AcceptedAt, AfterID: cursor.ID, Limit: 4})
					return err
				})
				if err != nil {
					return err
				}
				for _, e := range page {
					seen = append(seen, e.AcceptedAt)
					cursor = e
				}
			}
			if t.Failed() {
				return nil // a writer gave up, so they will never all come
			}
			for n, position := range seen {
				if position != uint64(n)+1 {
					return fmt.Errorf("%s: after %d came %d", what, n, position)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		read[what] = seen
		return nil
	})
	for what, seen := range read {
		if len(seen) != all {
			t.Errorf("the reader saw %d %s, want %d", len(seen), what, all)
		}
	}
}

// consistentLoads loads images while another writes everything that an image
// has. Each of them is valid, so each was one consistent read.
func consistentLoads(t T, h Harness) {
	const commits, readers = 40, 2
	for _, o := range subjects {
		db := newDatabase(t, h)
		store := db.pool()
		newOwner(t, store(0), o)
		// A ticket for each reader before each write, so that there is a load
		// beside every one of them.
		tickets := make(chan struct{}, readers)
		together(t, readers+1, func(i int) error {
			if i < readers {
				var err error
				for range tickets {
					if err == nil {
						err = consistent(t, store(i), o)
					}
				}
				return err
			}
			defer close(tickets)
			for n := range commits {
				a, b := fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)
				for _, req := range []request{
					durable.Commit{
						Owner: o.id, ExpectedPosition: uint64(n), Fence: firstFence, Inbox: durable.Inbox{ID: fmt.Sprint(n)},
						State: o.change("state"), Effects: intents(a, b), Receipts: []durable.TerminalReceipt{terminal(a, a)},
					},
					durable.RecordReceipt{Owner: o.id, Fence: firstFence, Receipt: terminal(b, b)},
				} {
					for range readers {
						tickets <- struct{}{}
					}
					if err := taken(t.Context(), func() error { return ask(t.Context(), store(i), req).err }); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
}

// consistent loads an owner of consistentLoads, whole and in parts.
func consistent(t T, s durable.Store, o subject) error {
	var img, part durable.Image
	err := taken(t.Context(), func() (err error) {
		img, err = durable.Recover(t.Context(), s, o.id)
		return err
	})
	if err != nil {
		return err
	}
	if n := int(img.Position); len(img.Inbox) != n || len(img.Outbox) != 2*n || len(img.Receipts) < 2*n-1 {
		return fmt.Errorf("%s at %d was loaded with %d inbox records, %d effects and %d receipts", o.id, n, len(img.Inbox), len(img.Outbox), len(img.Receipts))
	}
	err = taken(t.Context(), func() (err error) {
		part, err = s.LoadOwner(t.Context(), durable.LoadOwner{Owner: o.id, Parts: &durable.Parts{State: true, HistoryLimit: durable.MaxPageLimit, Pending: true}})
		return err
	})
	if err != nil {
		return err
	}
	if o.mode == durable.EventHistory && len(part.History) != int(part.Position) ||
		o.mode == durable.Snapshot && part.Position > 0 && (part.Snapshot == nil || part.Snapshot.Position != part.Position) {
		return fmt.Errorf("the parts of %s are not from one read:\n%s", o.id, show(part))
	}
	if len(part.Pending) > 1 || len(part.Pending) == 1 && part.Pending[0].AcceptedAt != part.Position {
		return fmt.Errorf("the pending effects of %s are not from the same read as its head:\n%s", o.id, show(part))
	}
	return nil
}

// tally counts outcomes.
func tally(answers []answer) map[string]int {
	n := map[string]int{}
	for _, a := range answers {
		n[a.outcome]++
	}
	return n
}
