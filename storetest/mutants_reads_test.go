package storetest

import (
	"context"
	"errors"
	"slices"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// cached returns what was loaded before, if the good store still holds the same.
func cached[V any](b *broken, key string, fresh V, same func(a, b V) bool) V {
	if old, ok := b.shared.get(key).(V); ok && same(b.shared.get(key+" as it was").(V), fresh) {
		return old
	}
	b.shared.put(key, fresh)
	return fresh
}

// kept remembers a value and an image of it that nobody else can change.
func kept(b *broken, key string, img durable.Image) durable.Image {
	got := cached(b, key, img, sameImage)
	if len(got.History) == len(img.History) && got.Head == img.Head {
		b.shared.put(key+" as it was", copyImage(img))
	}
	return got
}

var aliasMutants = []mutant{
	{"keeps the payloads that it was given", []string{"alias/commit_keeps_nothing_of_the_callers"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if err == nil && !res.Duplicate {
				for _, e := range c.Effects {
					b.shared.put(c.Owner+" effect "+e.ID, e.Payload.Bytes)
				}
			}
			return res, err
		},
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			for i, e := range img.Outbox {
				if p, ok := b.shared.get(req.Owner + " effect " + e.ID).([]byte); ok {
					img.Outbox[i].Payload.Bytes = p
				}
			}
			return img, err
		},
	}},
	{"keeps the fingerprint that it was given", []string{"alias/commit_keeps_nothing_of_the_callers"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if err == nil && !res.Duplicate {
				b.shared.put(c.Owner+" inbox "+c.Inbox.ID, c.Inbox.Fingerprint)
			}
			return res, err
		},
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			for i, r := range img.Inbox {
				if sum, ok := b.shared.get(req.Owner + " inbox " + r.ID).([]byte); ok {
					img.Inbox[i].Fingerprint = sum
				}
			}
			return img, err
		},
	}},
	{"sorts the effects that it was given", []string{"alias/commit_only_reads_what_it_is_given"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			slices.Reverse(c.Effects)
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"keeps the receipt that it was given", []string{"alias/receipt_keeps_nothing_of_the_callers"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if err == nil && !res.Duplicate {
				b.shared.put(req.Owner+" receipt "+req.Receipt.ID, req.Receipt.Payload.Bytes)
			}
			return res, err
		},
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			for i, r := range img.Receipts {
				if p, ok := b.shared.get(req.Owner + " receipt " + r.ID).([]byte); ok {
					img.Receipts[i].Payload.Bytes = p
				}
			}
			return img, err
		},
	}},
	{"hands out images from a cache", []string{"alias/image_is_the_callers", "alias/two_loads_do_not_touch"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if err == nil && req.Parts == nil {
				return kept(b, "image of "+req.Owner, img), nil
			}
			return img, err
		},
	}},
	{"hands out parts from a cache", []string{"alias/parts_are_the_callers"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if err == nil && req.Parts != nil && len(req.Parts.Inbox) == 3 {
				img.Inbox = kept(b, "inbox of "+req.Owner, durable.Image{Head: img.Head, Inbox: img.Inbox}).Inbox
			}
			return img, err
		},
	}},
	{"sorts the ids that it was given", []string{"alias/parts_are_the_callers"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			if req.Parts != nil {
				slices.Reverse(req.Parts.Inbox)
			}
			return b.Store.LoadOwner(ctx, req)
		},
	}},
	{"hands out pages from a cache", []string{"alias/pages_are_the_callers"}, fault{
		pending: func(ctx context.Context, b *broken, req durable.ReadPending) ([]durable.Effect, error) {
			page, err := b.Store.ReadPending(ctx, req)
			if err != nil || req.AfterAccepted > 0 {
				return page, err
			}
			head := b.head(req.Owner)
			for i, e := range page {
				one := durable.Image{Head: head, Pending: []durable.Effect{e}}
				page[i].Payload = kept(b, "pending "+e.ID+" of "+req.Owner, one).Pending[0].Payload
			}
			return page, nil
		},
	}},
	{"cuts payloads from one piece of memory", []string{"alias/slices_of_an_image_do_not_touch"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			var all []byte
			for _, e := range img.Outbox {
				all = append(all, e.Payload.Bytes...)
			}
			for i := range img.Outbox {
				n := len(img.Outbox[i].Payload.Bytes)
				img.Outbox[i].Payload.Bytes, all = all[:n], all[n:]
			}
			return img, err
		},
	}},
}

var readMutants = []mutant{
	{"a history page begins at its cursor", []string{"page/history_of_every_size"}, fault{
		history: func(ctx context.Context, b *broken, req durable.ReadHistory) ([]durable.Record, error) {
			req.After = max(req.After, 1) - 1
			return b.Store.ReadHistory(ctx, req)
		},
	}},
	{"a snapshot owner has no pages", []string{"page/history_of_every_size"}, fault{
		history: func(ctx context.Context, b *broken, req durable.ReadHistory) ([]durable.Record, error) {
			if b.head(req.Owner).Mode == durable.Snapshot {
				return nil, &durable.StateModeMismatchError{Owner: req.Owner, Mode: durable.Snapshot}
			}
			return b.Store.ReadHistory(ctx, req)
		},
	}},
	{"no limit is no limit", []string{"page/zero_limit_is_a_hundred"}, fault{
		pending: func(ctx context.Context, b *broken, req durable.ReadPending) ([]durable.Effect, error) {
			if req.Limit == 0 {
				req.Limit = durable.MaxPageLimit
			}
			return b.Store.ReadPending(ctx, req)
		},
	}},
	{"a page has less than ten thousand", []string{"page/greatest_limit_is_ten_thousand"}, fault{
		pending: func(ctx context.Context, b *broken, req durable.ReadPending) ([]durable.Effect, error) {
			if req.Limit >= durable.MaxPageLimit {
				return nil, &countersign.LimitError{Field: "page", Unit: "items", Limit: durable.MaxPageLimit, Actual: int64(req.Limit)}
			}
			return b.Store.ReadPending(ctx, req)
		},
	}},
	{"clamps limits", []string{"page/limits_outside_their_range_are_malformed"}, fault{
		history: func(ctx context.Context, b *broken, req durable.ReadHistory) ([]durable.Record, error) {
			req.Limit = min(max(req.Limit, 0), durable.MaxPageLimit)
			return b.Store.ReadHistory(ctx, req)
		},
	}},
	{"nobody has an empty history", []string{"page/of_an_unknown_owner_is_refused"}, fault{
		history: func(ctx context.Context, b *broken, req durable.ReadHistory) ([]durable.Record, error) {
			page, err := b.Store.ReadHistory(ctx, req)
			if as[*durable.UnknownOwnerError](err) {
				return nil, nil
			}
			return page, err
		},
	}},
	{"nobody has an empty image", []string{"recover/of_an_unknown_owner_is_refused", "page/of_an_unknown_owner_is_refused"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if as[*durable.UnknownOwnerError](err) {
				return durable.Image{Head: durable.Head{Owner: req.Owner, Mode: durable.EventHistory}}, nil
			}
			return img, err
		},
	}},
	{"a cursor is a position", []string{"page/pending_from_every_cursor", "outbox/no_effect_is_out_of_reach"}, fault{
		pending: func(ctx context.Context, b *broken, req durable.ReadPending) ([]durable.Effect, error) {
			if req.AfterID != "" {
				req.AfterID = "\U0010ffff"
			}
			return b.Store.ReadPending(ctx, req)
		},
	}},
	{"a cursor's id stands alone", []string{"page/pending_from_every_cursor"}, fault{
		pending: func(ctx context.Context, b *broken, req durable.ReadPending) ([]durable.Effect, error) {
			page, err := b.Store.ReadPending(ctx, req)
			return slices.DeleteFunc(page, func(e durable.Effect) bool { return e.ID <= req.AfterID }), err
		},
	}},
	{"a part is not called partial", []string{"page/head_alone"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			img.Partial = false
			return img, err
		},
	}},
	{"no inbox ids are all", []string{"page/named_inbox_records"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if req.Parts != nil && len(req.Parts.Inbox) > 0 && len(img.Inbox) == 0 {
				img.Inbox = b.image(req.Owner).Inbox
			}
			return img, err
		},
	}},
	{"an inbox record comes as often as it is named", []string{"page/named_inbox_records"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if req.Parts != nil && len(req.Parts.Inbox) == 2 && req.Parts.Inbox[0] == req.Parts.Inbox[1] && len(img.Inbox) == 1 {
				img.Inbox = append(img.Inbox, img.Inbox[0])
			}
			return img, err
		},
	}},
	{"the snapshot comes whatever is asked", []string{"page/state_after_a_position"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if req.Parts != nil && req.Parts.State && img.Snapshot == nil && err == nil {
				img.Snapshot = b.image(req.Owner).Snapshot
			}
			return img, err
		},
	}},
	{"a limit asks for its part", []string{"page/parts_in_every_combination"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			if req.Parts != nil && req.Parts.PendingLimit > 0 {
				parts := *req.Parts
				parts.Pending = true
				req.Parts = &parts
			}
			return b.Store.LoadOwner(ctx, req)
		},
	}},
	{"one pending effect more than asked", []string{"page/first_pending_effects"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			if req.Parts != nil && req.Parts.PendingLimit > 0 {
				parts := *req.Parts
				parts.PendingLimit++
				req.Parts = &parts
			}
			return b.Store.LoadOwner(ctx, req)
		},
	}},
	{"mends what it reads", []string{"recover/corrupt_image_is_refused_with_its_reason"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			img.Receipts = slices.DeleteFunc(img.Receipts, func(r durable.Receipt) bool {
				return !slices.ContainsFunc(img.Outbox, func(e durable.Effect) bool { return e.ID == r.EffectID })
			})
			return img, err
		},
	}},
	{"loses the receipts' outcome", []string{"recover/planted_image_comes_back"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			for i := range img.Receipts {
				img.Receipts[i].Outcome = durable.Applied
			}
			return img, err
		},
	}},
	{"a load without parts is partial", []string{"recover/returns_the_valid_image"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			img.Partial = true
			return img, err
		},
	}},
}

var contextMutants = []mutant{
	{"it looks at the context once and then waits without it", []string{"atomically/context_ended_while_waiting_gives_no_wrong_result"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if err := store.CheckContext(ctx); err != nil {
				return durable.Committed{}, err
			}
			return b.Store.CommitOwner(context.WithoutCancel(ctx), c)
		},
	}},
	{"a cancelled context commits all the same", []string{"context/cancelled_before_leaves_no_trace", "context/deadline_before_leaves_no_trace"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			return b.Store.CommitOwner(context.WithoutCancel(ctx), c)
		},
	}},
	{"a cancelled context reads all the same", []string{"context/cancelled_before_leaves_no_trace"}, fault{
		pending: func(ctx context.Context, b *broken, req durable.ReadPending) ([]durable.Effect, error) {
			return b.Store.ReadPending(context.WithoutCancel(ctx), req)
		},
	}},
	{"the context's error is bare", []string{"context/cancelled_before_leaves_no_trace", "context/deadline_before_leaves_no_trace"}, fault{
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			if ctx != nil && ctx.Err() != nil {
				return durable.Head{}, ctx.Err()
			}
			return b.Store.AdvanceFence(ctx, req)
		},
	}},
	{"the context's error is hidden", []string{"context/deadline_before_leaves_no_trace"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			if ctx != nil && ctx.Err() != nil {
				return durable.ReceiptRecorded{}, &store.BusyError{}
			}
			return b.Store.RecordReceipt(ctx, req)
		},
	}},
	{"the context's cause stands for its error", []string{"context/cancelled_with_a_cause_leaves_no_trace"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			if ctx != nil && ctx.Err() != nil {
				return durable.Image{}, &store.NotTakenError{Err: context.Cause(ctx)}
			}
			return b.Store.LoadOwner(ctx, req)
		},
	}},
	{"a nil context is the background", []string{"context/nil_is_malformed"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			if ctx == nil {
				ctx = context.Background()
			}
			return b.Store.CreateOwner(ctx, req)
		},
	}},
	{"a nil context panics", []string{"context/nil_is_malformed"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			if err := ctx.Err(); err != nil {
				return durable.Image{}, &store.NotTakenError{Err: err}
			}
			return b.Store.LoadOwner(ctx, req)
		},
	}},
	{"says that a commit was not taken after it was", []string{"context/ended_during_the_call_gives_no_wrong_result"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			pause()
			if ctx != nil && ctx.Err() != nil && err == nil {
				return durable.Committed{}, &store.NotTakenError{Err: ctx.Err()}
			}
			return res, err
		},
	}},
}

var errDriver = errors.New("sql: database is closed")
