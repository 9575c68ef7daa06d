package storetest

import (
	"context"
	"errors"
	"slices"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
)

// remember notes which owners a database has.
func remember(sh *shared, owner string) {
	owners, _ := sh.get("owners").([]string)
	if !slices.Contains(owners, owner) {
		sh.put("owners", append(slices.Clone(owners), owner))
	}
}

// forgets returns a store that loses something of every owner when a handle is
// opened.
func forgets(lose func(img *durable.Image)) fault {
	loseAll := func(m *memory.Medium, sh *shared) {
		owners, _ := sh.get("owners").([]string)
		for _, owner := range owners {
			img, err := memory.Open(m).LoadOwner(context.Background(), durable.LoadOwner{Owner: owner})
			if err == nil {
				lose(&img)
				m.Plant(img)
			}
		}
	}
	return fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			remember(b.shared, req.Owner)
			return b.Store.CreateOwner(ctx, req)
		},
		opened: loseAll,
	}
}

var handleMutants = []mutant{
	{"keeps receipts in memory", []string{"handle/opened_again_holds_everything"}, forgets(func(img *durable.Image) {
		if n := len(img.Receipts); n > 0 {
			img.Receipts = img.Receipts[:n-1]
		}
	})},
	{"keeps the fence in memory", []string{"handle/opened_again_holds_everything"}, forgets(func(img *durable.Image) { img.Fence = min(img.Fence, firstFence) })},
	{"keeps the inbox in memory", []string{"handle/redelivery_to_another_process_is_a_duplicate"}, forgets(func(img *durable.Image) { img.Inbox = nil })},
	{"loses the last commit with the server", []string{"kill/acknowledged_work_survives_the_server", "kill/old_handle_gives_no_wrong_result"}, func() fault {
		f := forgets(func(img *durable.Image) {
			if n := len(img.History); n > 0 {
				img.History, img.Position = img.History[:n-1], img.Position-1
			}
		})
		f.killed, f.opened = f.opened, nil
		return f
	}()},
	{"caches heads in a handle", []string{"handle/two_see_each_other"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if err != nil || b.inTx {
				return img, err
			}
			if seen, ok := b.local.Load().(durable.Image); ok && seen.Owner == img.Owner && req.Parts == nil {
				return copyImage(seen), nil
			}
			if req.Parts == nil {
				b.local.Store(copyImage(img))
			}
			return img, err
		},
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			b.local.Store(durable.Image{})
			return b.Store.CommitOwner(ctx, c)
		},
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			b.local.Store(durable.Image{})
			return b.Store.RecordReceipt(ctx, req)
		},
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			b.local.Store(durable.Image{})
			return b.Store.AdvanceFence(ctx, req)
		},
	}},
	{"a closed handle goes on", []string{"handle/closed_refuses_every_call", "atomically/closed_handle_refuses"}, fault{
		closes: func(*broken) error { return nil },
	}},
	{"a closed handle gives the driver's error", []string{"handle/closed_refuses_every_call"}, fault{
		history: func(ctx context.Context, b *broken, req durable.ReadHistory) ([]durable.Record, error) {
			page, err := b.Store.ReadHistory(ctx, req)
			if errors.Is(err, store.ErrClosed) {
				err = errDriver
			}
			return page, err
		},
	}},
	{"closes once", []string{"handle/closes_twice"}, fault{
		closes: func(b *broken) error {
			if b.local.Swap(true) != nil {
				return errDriver
			}
			return b.handle.Close()
		},
	}},
	{"says closed after it has committed", []string{"handle/closed_during_calls_gives_no_wrong_result"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			pause()
			if err == nil && errors.Is(b.handle.Atomically(ctx, func(context.Context, store.Backend) error { return nil }), store.ErrClosed) {
				return durable.Committed{}, store.ErrClosed
			}
			return res, err
		},
	}},
}

// racy returns a commit that decides on what it read a while ago.
func racy(change func(c *durable.Commit, before, now durable.Head)) fault {
	return fault{commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
		if c.Check() != nil {
			return b.Store.CommitOwner(ctx, c)
		}
		before := b.head(c.Owner)
		pause()
		change(&c, before, b.head(c.Owner))
		return b.Store.CommitOwner(ctx, c)
	}}
}

var raceMutants = []mutant{
	{"creates without a lock", []string{"create/together_one_wins"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			if req.Check() != nil || b.head(req.Owner).Owner != "" || b.inTx {
				return b.Store.CreateOwner(ctx, req)
			}
			pause()
			head := durable.Head{Owner: req.Owner, Mode: req.Mode, Fence: req.Fence}
			b.medium.Plant(durable.Image{Head: head})
			return head, nil
		},
	}},
	{"checks the position without a lock", []string{"concurrency/one_owner_gives_each_position_once", "concurrency/is_linearizable"},
		racy(func(c *durable.Commit, before, now durable.Head) {
			if c.ExpectedPosition == before.Position {
				c.ExpectedPosition = now.Position
			}
		})},
	{"checks the fence without a lock", []string{"concurrency/fence_hand_off_stops_the_old_holder"},
		racy(func(c *durable.Commit, before, now durable.Head) {
			if c.Fence == before.Fence {
				c.Fence = now.Fence
			}
		})},
	{"advances the fence without a lock", []string{"concurrency/one_token_has_one_holder", "concurrency/is_linearizable"}, fault{
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			if head := b.head(req.Owner); head.Owner == "" || req.Check() != nil || req.Fence <= head.Fence || b.inTx {
				return b.Store.AdvanceFence(ctx, req)
			}
			pause()
			var head durable.Head
			b.edit(req.Owner, func(img *durable.Image) { img.Fence = req.Fence; head = img.Head })
			return head, nil
		},
	}},
	{"records receipts without a lock", []string{"concurrency/same_receipt_is_recorded_once"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			img := b.image(req.Owner)
			if plan, err := durable.DecideReceipt(sliceOf(img), req); err != nil || plan.Duplicate || b.inTx {
				return b.Store.RecordReceipt(ctx, req)
			}
			pause()
			return recordAnyway(b, req)
		},
	}},
	{"a delivery under way is a duplicate of any", []string{"concurrency/same_inbox_other_fingerprints_one_commits"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			key := c.Owner + "\x00" + c.Inbox.ID
			b.shared.Lock()
			underWay := b.shared.kept[key] != nil
			b.shared.kept[key] = true
			b.shared.Unlock()
			if underWay {
				return durable.Committed{Through: c.ExpectedPosition + 1, Duplicate: true}, nil
			}
			pause()
			defer b.shared.put(key, nil)
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a delivery under way is a conflict", []string{"concurrency/same_delivery_commits_once"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			unknown := b.knows(c.Owner, c.Inbox.ID) == nil
			pause()
			res, err := b.Store.CommitOwner(ctx, c)
			if res.Duplicate && unknown {
				return durable.Committed{}, &durable.PositionConflictError{Owner: c.Owner, Expected: c.ExpectedPosition, Actual: res.Through}
			}
			return res, err
		},
	}},
	{"one commit at a time, the others conflict", []string{"concurrency/many_owners_do_not_hinder_each_other"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if b.shared.n.Add(1) > 1 {
				defer b.shared.n.Add(-1)
				return durable.Committed{}, &durable.PositionConflictError{Owner: c.Owner, Expected: c.ExpectedPosition, Actual: c.ExpectedPosition}
			}
			defer b.shared.n.Add(-1)
			pause()
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"shows a later event first", []string{"concurrency/reader_sees_every_event_once_in_order"}, fault{
		history: func(ctx context.Context, b *broken, req durable.ReadHistory) ([]durable.Record, error) {
			page, err := b.Store.ReadHistory(ctx, req)
			// The first time that it is not the last one, it is passed over.
			if len(page) > 1 && b.shared.n.Add(1) == 1 {
				page = page[1:]
			}
			return page, err
		},
	}},
	{"reads an image in two", []string{"concurrency/loads_are_one_consistent_read"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if err != nil {
				return img, err
			}
			pause()
			later, err := b.Store.LoadOwner(ctx, req)
			img.Outbox, img.Receipts, img.Pending = later.Outbox, later.Receipts, later.Pending
			return img, err
		},
	}},
	{"a relay marks what another has marked", []string{"outbox/two_relays_mark_each_effect_once"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if err == nil && res.Duplicate && b.shared.n.Add(1) > 3 {
				res.Duplicate = false
			}
			return res, err
		},
	}},
}

var transactionMutants = []mutant{
	{"commits although the body failed", []string{"atomically/error_of_the_body_rolls_back", "random/transactions_follow_the_rules"}, fault{
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			var failed error
			err := b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
				failed = body(ctx, tx)
				return nil
			})
			return errors.Join(failed, err)
		},
	}},
	{"commits the fence although the body failed", []string{"atomically/error_of_the_body_rolls_back", "random/transactions_follow_the_rules"}, fault{
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			head, err := b.Store.AdvanceFence(ctx, req)
			if err == nil && b.inTx {
				b.shared.put("fence", req)
			}
			return head, err
		},
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			err := b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error { return body(ctx, b.within(tx)) })
			if req, ok := b.shared.get("fence").(durable.AdvanceFence); err != nil && ok {
				_, _ = b.handle.AdvanceFence(ctx, req)
			}
			return err
		},
	}},
	{"wraps the body's error in text", []string{"atomically/refusal_as_the_bodys_error_comes_back_typed", "atomically/error_of_the_body_rolls_back"}, fault{
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			if err := b.handle.Atomically(ctx, body); err != nil {
				return errors.New("transaction: " + err.Error())
			}
			return nil
		},
	}},
	{"commits although the body panicked", []string{"atomically/panic_of_the_body_rolls_back", "atomically/results_never_settle_after_a_rollback", "log_atomically/panic_of_the_body_rolls_back"}, fault{
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			var panicked any
			err := b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
				defer func() { panicked = recover() }()
				return body(ctx, tx)
			})
			if panicked != nil {
				panic(panicked)
			}
			return err
		},
	}},
	{"swallows the body's panic", []string{"atomically/panic_of_the_body_rolls_back"}, fault{
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) (err error) {
			defer func() {
				if recover() != nil {
					err = errBody
				}
			}()
			return b.handle.Atomically(ctx, body)
		},
	}},
	{"results inside are settled at once", []string{"atomically/results_settle_with_the_commit", "atomically/two_owners_commit_together"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			res.Settlement = nil
			return res, err
		},
	}},
	{"duplicates inside are settled at once", []string{"atomically/results_settle_with_the_commit", "atomically/everything_a_store_does"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if res.Duplicate {
				res.Settlement = nil
			}
			return res, err
		},
	}},
	{"receipts inside never settle", []string{"atomically/results_settle_with_the_commit"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if b.inTx && err == nil {
				res.Settlement = &countersign.Settlement{}
			}
			return res, err
		},
	}},
	{"results settle after a rollback", []string{"atomically/results_never_settle_after_a_rollback"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if b.inTx && err == nil {
				b.shared.put("settlement", res.Settlement)
			}
			return res, err
		},
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			err := b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error { return body(ctx, b.within(tx)) })
			if s, ok := b.shared.get("settlement").(*countersign.Settlement); ok {
				s.Commit()
			}
			return err
		},
	}},
	{"commits the first owner alone", []string{"atomically/two_owners_commit_together"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if b.inTx && c.Owner == subjects[1].id {
				// In a transaction that nobody will commit.
				var res durable.Committed
				plan, err := decideOn(b, c)
				if err == nil {
					res = durable.Committed{Through: plan.Through, Settlement: &countersign.Settlement{}}
				}
				return res, err
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	// COMMIT that really was a ROLLBACK.
	{"a refusal inside turns the commit into a rollback", []string{"atomically/refusal_leaves_it_usable"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if b.inTx && err != nil {
				b.shared.put("poisoned", true)
			}
			return res, err
		},
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			b.shared.put("poisoned", nil)
			err := b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
				if err := body(ctx, b.within(tx)); err != nil {
					return err
				}
				if b.shared.get("poisoned") != nil {
					return errDriver
				}
				return nil
			})
			if errors.Is(err, errDriver) {
				return nil
			}
			return err
		},
	}},
	{"a refusal inside ends the transaction", []string{"atomically/refusal_leaves_it_usable", "atomically/everything_a_store_does"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			if b.inTx && b.shared.get("refused") != nil {
				return durable.ReceiptRecorded{}, errors.New("current transaction is aborted")
			}
			res, err := b.Store.RecordReceipt(ctx, req)
			if b.inTx && err != nil {
				b.shared.put("refused", true)
			}
			return res, err
		},
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			if b.inTx && b.shared.get("refused") != nil {
				return durable.Head{}, errors.New("current transaction is aborted")
			}
			return b.Store.CreateOwner(ctx, req)
		},
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if b.inTx && b.shared.get("refused") != nil {
				return durable.Committed{}, errors.New("current transaction is aborted")
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"reads inside go past the transaction", []string{"atomically/reads_inside_see_its_writes"}, fault{
		pending: func(ctx context.Context, b *broken, req durable.ReadPending) ([]durable.Effect, error) {
			return b.handle.ReadPending(ctx, req)
		},
	}},
	{"writes before the commit", []string{"atomically/readers_outside_see_nothing_until_the_commit", "atomically/verdict_never_rests_on_what_is_rolled_back"}, fault{
		// No transaction at all: what was written is taken back by hand.
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			var before []durable.Image
			for _, owner := range []string{"orders", "basket"} {
				if img := b.image(owner); img != nil {
					before = append(before, *img)
				}
			}
			err := body(ctx, b.within(b.handle))
			if err != nil {
				for _, img := range before {
					b.medium.Plant(img)
				}
			}
			return err
		},
	}},
	{"a tx goes on after its end", []string{"atomically/tx_is_dead_after_its_end"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if errors.Is(err, store.ErrTxDone) {
				return b.handle.LoadOwner(ctx, req)
			}
			return img, err
		},
	}},
	{"a nested call waits for its own transaction", []string{"atomically/nested_call_is_refused_and_not_hung"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if errors.Is(err, store.ErrNestedTransaction) {
				err = &store.BusyError{Waited: memory.BusyTimeout} // as it would after that time
			}
			return res, err
		},
	}},
	{"begins with a context that has ended", []string{"atomically/context_ended_before_runs_no_body"}, fault{
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			if ctx == nil {
				ctx = context.Background()
			}
			return b.handle.Atomically(context.WithoutCancel(ctx), body)
		},
	}},
	{"says that a transaction was not taken after it was", []string{"atomically/context_ended_inside_gives_no_wrong_result"}, fault{
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			err := b.handle.Atomically(context.WithoutCancel(ctx), body)
			if err == nil && ctx.Err() != nil {
				return &store.NotTakenError{Err: ctx.Err()}
			}
			return err
		},
	}},
	{"transactions overwrite each other", []string{"atomically/transfers_in_both_directions_all_succeed"}, fault{
		// Each works on copies, and the last one puts its own in place.
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			own := memory.NewMedium()
			owners := []string{"debit", "credit"}
			for _, owner := range owners {
				if img := b.image(owner); img != nil {
					own.Plant(*img)
				}
			}
			pause()
			if err := memory.Open(own).Atomically(ctx, body); err != nil {
				return err
			}
			for _, owner := range owners {
				img, err := memory.Open(own).LoadOwner(ctx, durable.LoadOwner{Owner: owner})
				if err == nil {
					b.medium.Plant(img)
				}
			}
			return nil
		},
	}},
}
