package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

var createMutants = []mutant{
	{"creates at position one", []string{"create/starts_empty_at_position_zero"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			head, err := b.Store.CreateOwner(ctx, req)
			head.Position++
			return head, err
		},
	}},
	{"takes fence zero for none", []string{"create/takes_fence_zero"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			req.Fence = max(req.Fence, 1)
			return b.Store.CreateOwner(ctx, req)
		},
	}},
	{"create resets the owner", []string{"create/again_changes_nothing"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			head, err := b.Store.CreateOwner(ctx, req)
			if err == nil && head.Position > 0 {
				b.edit(req.Owner, func(img *durable.Image) {
					*img = durable.Image{Head: durable.Head{Owner: img.Owner, Mode: img.Mode, Fence: img.Fence}}
				})
			}
			return head, err
		},
	}},
	{"create resets the fence", []string{"create/again_keeps_the_fence"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			head, err := b.Store.CreateOwner(ctx, req)
			if err == nil && head.Fence != req.Fence {
				b.edit(req.Owner, func(img *durable.Image) { img.Fence = req.Fence })
				head.Fence = req.Fence
			}
			return head, err
		},
	}},
	{"create says its own fence", []string{"create/again_keeps_the_fence"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			head, err := b.Store.CreateOwner(ctx, req)
			if err == nil {
				head.Fence = req.Fence
			}
			return head, err
		},
	}},
	{"create accepts another mode", []string{"create/again_in_another_mode_is_refused"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			if head := b.head(req.Owner); head.Owner != "" && req.Check() == nil {
				return head, nil
			}
			return b.Store.CreateOwner(ctx, req)
		},
	}},
	{"takes an empty mode for a history", []string{"create/unknown_mode_is_malformed"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			if req.Mode == "" {
				req.Mode = durable.EventHistory
			}
			return b.Store.CreateOwner(ctx, req)
		},
	}},
	{"effects of all owners in one table by id", []string{"create/owners_are_apart"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			for _, e := range c.Effects {
				first, _ := b.shared.get("effect " + e.ID).(durable.Payload)
				if first.SchemaVersion != 0 && !first.Equal(e.Payload) {
					return durable.Committed{}, &durable.IdentityConflictError{Kind: durable.EffectIdentity, Owner: c.Owner, ID: e.ID}
				}
			}
			res, err := b.Store.CommitOwner(ctx, c)
			if err == nil {
				for _, e := range c.Effects {
					b.shared.put("effect "+e.ID, e.Payload.Clone())
				}
			}
			return res, err
		},
	}},
	{"all databases are one", []string{"create/databases_are_apart"}, fault{
		medium: func() func() *memory.Medium {
			one := memory.NewMedium()
			return func() *memory.Medium { return one }
		}(),
	}},
}

// decidedEarly reports whether a commit is decided before its fence and its
// position are looked at.
func decidedEarly(b *broken, c durable.Commit) bool {
	return c.Check() != nil || b.head(c.Owner).Owner == "" || b.knows(c.Owner, c.Inbox.ID) != nil
}

var commitMutants = []mutant{
	{"ignores the expected position", []string{"position/behind_and_ahead_conflict"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if c.Check() == nil {
				c.ExpectedPosition = b.head(c.Owner).Position
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"accepts a position ahead", []string{"position/behind_and_ahead_conflict"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if c.Check() == nil {
				c.ExpectedPosition = min(c.ExpectedPosition, b.head(c.Owner).Position)
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a refusal moves the position", []string{"position/is_not_moved_by_a_refusal"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if as[*durable.StaleFenceError](err) {
				b.edit(c.Owner, func(img *durable.Image) { img.Position++ })
			}
			return res, err
		},
	}},
	{"checks the position before the inbox", []string{"inbox/duplicate_comes_before_the_position", "inbox/conflict_comes_before_position_and_fence"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if head := b.head(c.Owner); c.Check() == nil && head.Owner != "" && head.Position != c.ExpectedPosition && head.Fence == c.Fence {
				return durable.Committed{}, &durable.PositionConflictError{Owner: c.Owner, Expected: c.ExpectedPosition, Actual: head.Position}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"checks the fence before the inbox", []string{"inbox/duplicate_comes_before_the_fence", "inbox/conflict_comes_before_position_and_fence"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if head := b.head(c.Owner); c.Check() == nil && head.Owner != "" && head.Fence != c.Fence {
				return durable.Committed{}, &durable.StaleFenceError{Owner: c.Owner, Fence: c.Fence, Current: head.Fence}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"checks the position before the fence", []string{"fence/comes_before_the_position"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if decidedEarly(b, c) {
				return b.Store.CommitOwner(ctx, c)
			}
			if head := b.head(c.Owner); head.Position != c.ExpectedPosition {
				return durable.Committed{}, &durable.PositionConflictError{Owner: c.Owner, Expected: c.ExpectedPosition, Actual: head.Position}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"checks the mode first", []string{"commit/checks_the_rules_in_order"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if decidedEarly(b, c) {
				return b.Store.CommitOwner(ctx, c)
			}
			if head := b.head(c.Owner); (c.State.ReplaceSnapshot != nil) != (head.Mode == durable.Snapshot) {
				return durable.Committed{}, &durable.StateModeMismatchError{Owner: c.Owner, Mode: head.Mode}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"checks receipts before effects", []string{"commit/checks_the_rules_in_order"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			without := c
			without.Effects = nil
			if _, err := decideOn(b, without); as[*durable.IdentityConflictError](err) {
				return durable.Committed{}, err
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a duplicate gives the current position", []string{"inbox/duplicate_keeps_the_first_position"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if res.Duplicate {
				res.Through = b.head(c.Owner).Position
			}
			return res, err
		},
	}},
	{"a duplicate is not safe to acknowledge", []string{"inbox/duplicate_keeps_the_first_position"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if res.Duplicate {
				res.Settlement = &countersign.Settlement{}
			}
			return res, err
		},
	}},
	{"a duplicate adds its effects", []string{"inbox/duplicate_ignores_what_was_decided_again"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if res.Duplicate {
				b.edit(c.Owner, func(img *durable.Image) {
					for _, e := range c.Effects {
						if !slices.ContainsFunc(img.Outbox, func(o durable.Effect) bool { return o.ID == e.ID }) {
							img.Outbox = append(img.Outbox, durable.Effect{ID: e.ID, AcceptedAt: img.Position, Payload: e.Payload})
						}
					}
				})
			}
			return res, err
		},
	}},
	{"a duplicate writes the snapshot again", []string{"concurrency/snapshot_never_goes_back"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if res.Duplicate && c.State.ReplaceSnapshot != nil {
				b.edit(c.Owner, func(img *durable.Image) { img.Snapshot.Payload = *c.State.ReplaceSnapshot })
			}
			return res, err
		},
	}},
	{"ignores the fingerprint", []string{"inbox/other_fingerprint_conflicts", "inbox/conflict_comes_before_position_and_fence"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if known := b.knows(c.Owner, c.Inbox.ID); known != nil && c.Check() == nil {
				c.Inbox.Fingerprint = known.Fingerprint
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"overwrites the fingerprint", []string{"inbox/conflict_keeps_the_first_fingerprint"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if outcomeOf(err) == inboxConflict {
				b.edit(c.Owner, func(img *durable.Image) {
					for i := range img.Inbox {
						if img.Inbox[i].ID == c.Inbox.ID {
							img.Inbox[i].Fingerprint = c.Inbox.Fingerprint
						}
					}
				})
			}
			return res, err
		},
	}},
	{"an empty fingerprint matches all", []string{"inbox/empty_fingerprint_is_a_fingerprint"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if known := b.knows(c.Owner, c.Inbox.ID); known != nil && len(known.Fingerprint) == 0 {
				c.Inbox.Fingerprint = nil
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"keeps the fingerprint as text", []string{"inbox/fingerprint_is_bytes"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			c.Inbox.Fingerprint = bytes.ToValidUTF8(c.Inbox.Fingerprint, []byte("?"))
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a refused commit completes its inbox id", []string{"inbox/refused_commit_completes_nothing"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if as[*durable.UnknownEffectError](err) {
				b.edit(c.Owner, func(img *durable.Image) {
					img.Inbox = append(img.Inbox, durable.InboxRecord{ID: c.Inbox.ID, Fingerprint: c.Inbox.Fingerprint, CommittedThrough: img.Position})
				})
			}
			return res, err
		},
	}},
	{"a refused commit leaves its effects", []string{"commit/is_all_or_nothing"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if as[*durable.UnknownEffectError](err) {
				b.edit(c.Owner, func(img *durable.Image) {
					for _, e := range c.Effects {
						img.Outbox = append(img.Outbox, durable.Effect{ID: e.ID, AcceptedAt: img.Position, Payload: e.Payload})
					}
				})
			}
			return res, err
		},
	}},
	{"drops the last event of a batch", []string{"commit/batch_ends_where_its_records_point"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if n := len(c.State.AppendEvents); n > 1 && c.Check() == nil {
				c.State.AppendEvents = c.State.AppendEvents[:n-1]
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"writes a batch backwards", []string{"commit/batch_ends_where_its_records_point"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			c.State.AppendEvents = slices.Clone(c.State.AppendEvents)
			slices.Reverse(c.State.AppendEvents)
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"records point to the first event of their batch", []string{"commit/batch_ends_where_its_records_point"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if n := uint64(len(c.State.AppendEvents)); err == nil && !res.Duplicate && n > 1 {
				b.edit(c.Owner, func(img *durable.Image) {
					for i := range img.Outbox {
						if img.Outbox[i].AcceptedAt == res.Through {
							img.Outbox[i].AcceptedAt -= n - 1
						}
					}
				})
			}
			return res, err
		},
	}},
	{"a batch is one position", []string{"limit/thousand_items_are_kept", "commit/batch_ends_where_its_records_point"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if n := uint64(len(c.State.AppendEvents)); err == nil && !res.Duplicate && n > 1 {
				res.Through -= n - 1
			}
			return res, err
		},
	}},
	{"drops the last effect", []string{"commit/shows_everything_at_once"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if n := len(c.Effects); n > 1 && len(c.Receipts) == 0 {
				c.Effects = c.Effects[:n-1]
			} else if n > 1 {
				c.Effects = c.Effects[n-1:]
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a snapshot keeps its first position", []string{"commit/follows_commit"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			if img.Snapshot != nil {
				img.Snapshot.Position = 1
			}
			return img, err
		},
	}},
	{"swaps the versions", []string{"commit/keeps_both_versions", "payload/versions_span_their_range"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			for i := range img.Outbox {
				p := &img.Outbox[i].Payload
				p.SchemaVersion, p.CodecVersion = p.CodecVersion, p.SchemaVersion
			}
			return img, err
		},
	}},
	{"a commit creates its owner", []string{"commit/to_an_unknown_owner_is_refused"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if c.Check() == nil && b.head(c.Owner).Owner == "" {
				mode := durable.EventHistory
				if c.State.ReplaceSnapshot != nil {
					mode = durable.Snapshot
				}
				if _, err := b.Store.CreateOwner(ctx, durable.CreateOwner{Owner: c.Owner, Mode: mode, Fence: c.Fence}); err != nil {
					return durable.Committed{}, err
				}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a commit takes the other mode's state and drops it", []string{"commit/of_the_other_mode_is_refused"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if as[*durable.StateModeMismatchError](err) {
				return durable.Committed{Through: c.ExpectedPosition + 1}, nil
			}
			return res, err
		},
	}},
	{"a commit without events is an empty event", []string{"commit/without_a_state_change_is_malformed"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if c.State.ReplaceSnapshot == nil && len(c.State.AppendEvents) == 0 && b.head(c.Owner).Mode == durable.EventHistory {
				c.State = durable.Append(text(""))
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a refusal comes with a result", []string{"position/behind_and_ahead_conflict"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if err != nil {
				res.Through = b.head(c.Owner).Position
			}
			return res, err
		},
	}},
	{"errors have two kinds", []string{"position/behind_and_ahead_conflict"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if as[*durable.PositionConflictError](err) {
				err = fmt.Errorf("%w: %w", countersign.ErrRefused, err)
			}
			return res, err
		},
	}},
	{"errors say the wrong numbers", []string{"position/behind_and_ahead_conflict"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if e := (*durable.PositionConflictError)(nil); errors.As(err, &e) {
				e.Actual, e.Expected = e.Expected, e.Actual
			}
			return res, err
		},
	}},
	{"errors are the driver's", []string{"handle/loser_of_two_gets_a_conflict"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if as[*durable.PositionConflictError](err) {
				err = errors.New("database is locked (517)")
			}
			return res, err
		},
	}},
}

// decideOn is the pure rule on what the good store holds.
func decideOn(b *broken, c durable.Commit) (durable.Plan, error) {
	return durable.Decide(sliceOf(b.image(c.Owner)), c)
}

var fenceMutants = []mutant{
	{"ignores the fence", []string{"fence/smaller_one_is_stale", "fence/greater_one_is_stale"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if c.Check() == nil {
				c.Fence = b.head(c.Owner).Fence
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"accepts a greater fence", []string{"fence/greater_one_is_stale"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if c.Check() == nil {
				c.Fence = min(c.Fence, b.head(c.Owner).Fence)
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a greater fence promotes itself", []string{"fence/greater_one_is_stale"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if head := b.head(c.Owner); c.Check() == nil && head.Owner != "" && c.Fence > head.Fence && b.knows(c.Owner, c.Inbox.ID) == nil {
				if _, err := b.Store.AdvanceFence(ctx, durable.AdvanceFence{Owner: c.Owner, Fence: c.Fence}); err != nil {
					return durable.Committed{}, err
				}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"accepts the fence before", []string{"fence/smaller_one_is_stale"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if head := b.head(c.Owner); c.Fence+1 == head.Fence {
				c.Fence++
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"the fence advances to itself", []string{"fence/equal_token_does_not_advance", "concurrency/one_token_has_one_holder"}, fault{
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			if head := b.head(req.Owner); head.Owner != "" && req.Check() == nil && head.Fence == req.Fence {
				return head, nil
			}
			return b.Store.AdvanceFence(ctx, req)
		},
	}},
	{"the fence goes back", []string{"fence/smaller_token_does_not_advance"}, fault{
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			head, err := b.Store.AdvanceFence(ctx, req)
			if e := (*durable.FenceDidNotAdvanceError)(nil); errors.As(err, &e) && req.Fence < e.Current {
				b.edit(req.Owner, func(img *durable.Image) { img.Fence = req.Fence; head = img.Head })
				return head, nil
			}
			return head, err
		},
	}},
	{"the fence advances by one alone", []string{"fence/advances_to_any_greater_token", "integer/fence_advances_through_all"}, fault{
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			if head := b.head(req.Owner); head.Owner != "" && req.Check() == nil && req.Fence > head.Fence+1 {
				return durable.Head{}, &durable.FenceDidNotAdvanceError{Owner: req.Owner, Fence: req.Fence, Current: head.Fence}
			}
			return b.Store.AdvanceFence(ctx, req)
		},
	}},
	{"the fence advance creates its owner", []string{"fence/of_an_unknown_owner_is_refused"}, fault{
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			head, err := b.Store.AdvanceFence(ctx, req)
			if as[*durable.UnknownOwnerError](err) {
				return b.Store.CreateOwner(ctx, durable.CreateOwner{Owner: req.Owner, Mode: durable.EventHistory, Fence: req.Fence})
			}
			return head, err
		},
	}},
	{"the fence advance moves the position", []string{"fence/moves_nothing_else"}, fault{
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			head, err := b.Store.AdvanceFence(ctx, req)
			if err == nil && head.Position > 0 {
				b.edit(req.Owner, func(img *durable.Image) { img.Position++ })
				head.Position++
			}
			return head, err
		},
	}},
}

// sameEffects makes a commit's known effects equal to those known, where alike
// says so.
func sameEffects(b *broken, c durable.Commit, alike func(stored, sent durable.Payload) bool) durable.Commit {
	c.Effects = slices.Clone(c.Effects)
	img := b.image(c.Owner)
	for i := range c.Effects {
		if img == nil {
			break
		}
		for _, known := range img.Outbox {
			if known.ID == c.Effects[i].ID && alike(known.Payload, c.Effects[i].Payload) {
				c.Effects[i].Payload = known.Payload
			}
		}
	}
	return c
}

func forgives(alike func(stored, sent durable.Payload) bool) fault {
	return fault{commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
		if c.Check() == nil {
			c = sameEffects(b, c, alike)
		}
		return b.Store.CommitOwner(ctx, c)
	}}
}

var effectMutants = []mutant{
	{"a repeated effect is accepted anew", []string{"effect/repeated_keeps_its_first_acceptance", "effect/repair_is_scheduled_once"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if err == nil && !res.Duplicate {
				b.edit(c.Owner, func(img *durable.Image) {
					for i, e := range img.Outbox {
						if slices.ContainsFunc(c.Effects, func(sent durable.Intent) bool { return sent.ID == e.ID }) {
							img.Outbox[i].AcceptedAt = res.Through
						}
					}
				})
			}
			return res, err
		},
	}},
	{"a repeated effect is pending again", []string{"effect/repeated_after_its_receipt_stays_done"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if err == nil && !res.Duplicate && len(c.Receipts) == 0 {
				b.edit(c.Owner, func(img *durable.Image) {
					img.Receipts = slices.DeleteFunc(img.Receipts, func(r durable.Receipt) bool {
						return slices.ContainsFunc(c.Effects, func(e durable.Intent) bool { return e.ID == r.EffectID })
					})
				})
			}
			return res, err
		},
	}},
	{"an effect twice in one commit conflicts", []string{"effect/twice_in_one_commit_is_one"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			for i, e := range c.Effects {
				if c.Check() == nil && slices.ContainsFunc(c.Effects[:i], func(before durable.Intent) bool { return before.ID == e.ID }) {
					return durable.Committed{}, &durable.IdentityConflictError{Kind: durable.EffectIdentity, Owner: c.Owner, ID: e.ID}
				}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"an effect twice in one commit is the last one", []string{"effect/conflict_inside_one_commit"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			var last []durable.Intent
			for i, e := range c.Effects {
				if !slices.ContainsFunc(c.Effects[i+1:], func(after durable.Intent) bool { return after.ID == e.ID }) {
					last = append(last, e)
				}
			}
			c.Effects = last
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"effects conflict by their bytes alone", []string{"effect/other_codec_version_conflicts", "effect/other_schema_version_conflicts"},
		forgives(func(stored, sent durable.Payload) bool { return bytes.Equal(stored.Bytes, sent.Bytes) })},
	{"effects conflict without their codec version", []string{"effect/other_codec_version_conflicts"},
		forgives(func(stored, sent durable.Payload) bool {
			return bytes.Equal(stored.Bytes, sent.Bytes) && stored.SchemaVersion == sent.SchemaVersion
		})},
	{"effects conflict by the sum of their versions", []string{"effect/swapped_versions_conflict"},
		forgives(func(stored, sent durable.Payload) bool {
			return bytes.Equal(stored.Bytes, sent.Bytes) && stored.SchemaVersion+stored.CodecVersion == sent.SchemaVersion+sent.CodecVersion
		})},
	{"effects conflict by their versions alone", []string{"effect/other_bytes_conflict"},
		forgives(func(stored, sent durable.Payload) bool { return stored.Version() == sent.Version() })},
	{"effects are compared as JSON", []string{"payload/is_compared_byte_for_byte"},
		forgives(func(stored, sent durable.Payload) bool {
			var a, b any
			return json.Unmarshal(stored.Bytes, &a) == nil && json.Unmarshal(sent.Bytes, &b) == nil && fmt.Sprint(a) == fmt.Sprint(b)
		})},
	{"a nil payload is not an empty one", []string{"payload/nil_is_empty"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			c.Effects = slices.Clone(c.Effects)
			for i := range c.Effects {
				if c.Effects[i].Payload.Bytes == nil {
					c.Effects[i].Payload.Bytes = []byte("null")
				}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"pending effects are ordered by id", []string{"effect/pending_is_ordered_by_acceptance_then_id", "outbox/no_effect_is_out_of_reach"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			slices.SortFunc(img.Pending, func(x, y durable.Effect) int { return strings.Compare(x.ID, y.ID) })
			return img, err
		},
	}},
	{"records are sorted as UTF-16", []string{"effect/records_are_sorted_by_bytes"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			slices.SortFunc(img.Outbox, func(x, y durable.Effect) int {
				return slices.Compare(utf16.Encode([]rune(x.ID)), utf16.Encode([]rune(y.ID)))
			})
			return img, err
		},
	}},
	{"records are sorted without their case", []string{"effect/records_are_sorted_by_bytes"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			slices.SortStableFunc(img.Receipts, func(x, y durable.Receipt) int { return strings.Compare(strings.ToLower(x.ID), strings.ToLower(y.ID)) })
			return img, err
		},
	}},
}

// recordAnyway records a receipt that a rule refuses.
func recordAnyway(b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	var res durable.ReceiptRecorded
	b.edit(req.Owner, func(img *durable.Image) {
		img.Receipts = append(img.Receipts, durable.Receipt{
			ID: req.Receipt.ID, EffectID: req.Receipt.EffectID, Outcome: req.Receipt.Outcome,
			RecordedAt: img.Position, Fence: img.Fence, Payload: req.Receipt.Payload,
		})
		res = durable.ReceiptRecorded{RecordedAt: img.Position, Fence: img.Fence}
	})
	return res, nil
}

// knownReceipt finds a receipt by its id.
func knownReceipt(b *broken, owner, id string) *durable.Receipt {
	if img := b.image(owner); img != nil {
		for _, r := range img.Receipts {
			if r.ID == id {
				return &r
			}
		}
	}
	return nil
}

var receiptMutants = []mutant{
	{"a receipt moves the position", []string{"receipt/records_without_moving_the_position"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if err == nil && !res.Duplicate {
				b.edit(req.Owner, func(img *durable.Image) { img.Position++ })
			}
			return res, err
		},
	}},
	{"a receipt is recorded where its effect was accepted", []string{"receipt/records_without_moving_the_position"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if img := b.image(req.Owner); err == nil && img != nil {
				for _, e := range img.Outbox {
					if e.ID == req.Receipt.EffectID {
						res.RecordedAt = e.AcceptedAt
					}
				}
			}
			return res, err
		},
	}},
	{"a receipt carries the fence that its owner began with", []string{"receipt/carries_the_fence_in_force"}, fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			b.shared.put("fence of "+req.Owner, req.Fence)
			return b.Store.CreateOwner(ctx, req)
		},
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			for i := range img.Receipts {
				img.Receipts[i].Fence, _ = b.shared.get("fence of " + req.Owner).(uint64)
			}
			return img, err
		},
	}},
	{"a repeated receipt is not called a duplicate", []string{"receipt/repeated_is_a_duplicate", "outbox/two_relays_mark_each_effect_once"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			res.Duplicate = false
			return res, err
		},
	}},
	{"a repeated receipt is recorded anew", []string{"receipt/repeated_is_a_duplicate"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if res.Duplicate {
				b.edit(req.Owner, func(img *durable.Image) {
					for i := range img.Receipts {
						if img.Receipts[i].ID == req.Receipt.ID {
							img.Receipts[i].RecordedAt = img.Position
						}
					}
				})
			}
			return res, err
		},
	}},
	{"checks the fence before a known receipt", []string{"receipt/duplicate_comes_before_the_fence", "receipt/conflict_comes_before_the_fence"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			if head := b.head(req.Owner); req.Check() == nil && head.Owner != "" && head.Fence != req.Fence {
				return durable.ReceiptRecorded{}, &durable.StaleFenceError{Owner: req.Owner, Fence: req.Fence, Current: head.Fence}
			}
			return b.Store.RecordReceipt(ctx, req)
		},
	}},
	{"a receipt needs no fence", []string{"receipt/under_another_fence_is_stale"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			if req.Check() == nil {
				req.Fence = b.head(req.Owner).Fence
			}
			return b.Store.RecordReceipt(ctx, req)
		},
	}},
	{"a receipt needs no effect", []string{"receipt/of_an_unknown_effect_is_refused"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if as[*durable.UnknownEffectError](err) && !b.inTx {
				return recordAnyway(b, req)
			}
			return res, err
		},
	}},
	{"a receipt takes another owner's effect", []string{"receipt/of_another_owners_effect_is_refused"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			for _, e := range c.Effects {
				b.shared.put("effect "+e.ID, true)
			}
			return res, err
		},
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if as[*durable.UnknownEffectError](err) && b.shared.get("effect "+req.Receipt.EffectID) != nil {
				return recordAnyway(b, req)
			}
			return res, err
		},
	}},
	{"an effect takes a second receipt", []string{"receipt/second_one_of_an_effect_is_refused", "concurrency/same_receipt_is_recorded_once"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if as[*durable.EffectAlreadyReceiptedError](err) {
				return recordAnyway(b, req)
			}
			return res, err
		},
	}},
	{"a commit's second receipt of an effect is passed over", []string{"receipt/second_one_of_an_effect_is_refused"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			var receipts []durable.TerminalReceipt
			for i, r := range c.Receipts {
				if !slices.ContainsFunc(c.Receipts[:i], func(before durable.TerminalReceipt) bool { return before.EffectID == r.EffectID && before.ID != r.ID }) {
					receipts = append(receipts, r)
				}
			}
			c.Receipts = receipts
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"a receipt conflicts by its payload alone", []string{"receipt/other_content_conflicts", "random/histories_follow_the_rules"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			if known := knownReceipt(b, req.Owner, req.Receipt.ID); known != nil && req.Check() == nil {
				req.Receipt.EffectID, req.Receipt.Outcome = known.EffectID, known.Outcome
			}
			return b.Store.RecordReceipt(ctx, req)
		},
	}},
	{"a receipt conflicts without its versions", []string{"receipt/other_content_conflicts"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			if known := knownReceipt(b, req.Owner, req.Receipt.ID); known != nil && req.Check() == nil {
				req.Receipt.Payload.SchemaVersion, req.Receipt.Payload.CodecVersion = known.Payload.SchemaVersion, known.Payload.CodecVersion
			}
			return b.Store.RecordReceipt(ctx, req)
		},
	}},
	{"a receipt of an unknown owner lacks its effect", []string{"receipt/to_an_unknown_owner_is_refused"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if as[*durable.UnknownOwnerError](err) {
				err = &durable.UnknownEffectError{Owner: req.Owner, ReceiptID: req.Receipt.ID, EffectID: req.Receipt.EffectID}
			}
			return res, err
		},
	}},
	{"looks for the effect before the fence", []string{"receipt/checks_the_rules_in_order"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			res, err := b.Store.RecordReceipt(ctx, req)
			if as[*durable.StaleFenceError](err) {
				req.Fence = b.head(req.Owner).Fence
				if _, other := durable.DecideReceipt(sliceOf(b.image(req.Owner)), req); other != nil {
					return res, other
				}
			}
			return res, err
		},
	}},
	{"a commit's receipt is recorded before the commit", []string{"receipt/in_the_commit_of_its_effect"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if err == nil && !res.Duplicate {
				b.edit(c.Owner, func(img *durable.Image) {
					for i := range img.Receipts {
						if img.Receipts[i].RecordedAt == res.Through {
							img.Receipts[i].RecordedAt = c.ExpectedPosition
						}
					}
				})
			}
			return res, err
		},
	}},
	{"a commit records a known receipt under its own fence", []string{"receipt/repeated_in_commits_keeps_the_first"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if err == nil && !res.Duplicate {
				b.edit(c.Owner, func(img *durable.Image) {
					for i, r := range img.Receipts {
						if slices.ContainsFunc(c.Receipts, func(sent durable.TerminalReceipt) bool { return sent.ID == r.ID }) {
							img.Receipts[i].Fence = c.Fence
						}
					}
				})
			}
			return res, err
		},
	}},
	{"a receipt twice in one commit is the first one", []string{"receipt/conflict_inside_one_commit"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			var first []durable.TerminalReceipt
			for i, r := range c.Receipts {
				if !slices.ContainsFunc(c.Receipts[:i], func(before durable.TerminalReceipt) bool { return before.ID == r.ID }) {
					first = append(first, r)
				}
			}
			c.Receipts = first
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"an outcome is folded and trimmed", []string{"receipt/of_unknown_outcome_is_malformed"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			req.Receipt.Outcome = durable.Outcome(strings.ToLower(strings.TrimSpace(string(req.Receipt.Outcome))))
			return b.Store.RecordReceipt(ctx, req)
		},
	}},
	{"a rejected effect stays pending", []string{"outbox/effect_stays_pending_until_its_receipt"}, fault{
		pending: func(ctx context.Context, b *broken, req durable.ReadPending) ([]durable.Effect, error) {
			page, err := b.Store.ReadPending(ctx, req)
			if img := b.image(req.Owner); err == nil && img != nil && req.AfterAccepted == 0 {
				for _, r := range img.Receipts {
					if e := slices.IndexFunc(img.Outbox, func(e durable.Effect) bool { return e.ID == r.EffectID }); r.Outcome == durable.Rejected && e >= 0 {
						page = append(page, img.Outbox[e])
					}
				}
			}
			return page, err
		},
	}},
}
