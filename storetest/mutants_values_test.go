package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// renames returns a store that changes identities on their way in.
func renames(owner, inbox, effect func(string) string) fault {
	return fault{
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			asked := req.Owner
			req.Owner = owner(req.Owner)
			head, err := b.Store.CreateOwner(ctx, req)
			if err == nil {
				head.Owner = asked
			}
			return head, err
		},
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			asked := req.Owner
			req.Owner = owner(req.Owner)
			img, err := b.Store.LoadOwner(ctx, req)
			if err == nil {
				img.Owner = asked
			}
			return img, err
		},
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			c.Owner, c.Inbox.ID = owner(c.Owner), inbox(c.Inbox.ID)
			c.Effects, c.Receipts = slices.Clone(c.Effects), slices.Clone(c.Receipts)
			for i := range c.Effects {
				c.Effects[i].ID = effect(c.Effects[i].ID)
			}
			for i := range c.Receipts {
				c.Receipts[i].EffectID = effect(c.Receipts[i].EffectID)
			}
			return b.Store.CommitOwner(ctx, c)
		},
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			req.Owner, req.Receipt.EffectID = owner(req.Owner), effect(req.Receipt.EffectID)
			return b.Store.RecordReceipt(ctx, req)
		},
	}
}

func same(id string) string { return id }

// rewrites returns a store that changes bytes on their way out.
func rewrites(change func([]byte) []byte) fault {
	return fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			for i := range img.Outbox {
				img.Outbox[i].Payload.Bytes = change(img.Outbox[i].Payload.Bytes)
			}
			return img, err
		},
	}
}

// narrows returns a store that changes integers on their way out.
func narrows(change func(uint64) uint64) fault {
	return fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			img.Position, img.Fence = change(img.Position), change(img.Fence)
			return img, err
		},
		advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			head, err := b.Store.AdvanceFence(ctx, req)
			head.Fence = change(head.Fence)
			return head, err
		},
		create: func(ctx context.Context, b *broken, req durable.CreateOwner) (durable.Head, error) {
			head, err := b.Store.CreateOwner(ctx, req)
			head.Fence = change(head.Fence)
			return head, err
		},
	}
}

// tooLarge refuses what check says is too large.
func tooLarge(check func(c durable.Commit) error) fault {
	return fault{commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
		if err := check(c); err != nil {
			return durable.Committed{}, err
		}
		return b.Store.CommitOwner(ctx, c)
	}}
}

var valueMutants = []mutant{
	{"trims identities", []string{"identity/alike_is_not_the_same"}, renames(same, strings.TrimSpace, strings.TrimSpace)},
	{"folds identities", []string{"identity/alike_is_not_the_same"}, renames(same, same, strings.ToLower)},
	{"composes identities", []string{"identity/alike_is_not_the_same"},
		renames(same, same, func(id string) string { return strings.ReplaceAll(id, "e\u0301", "\u00e9") })},
	{"folds owners", []string{"identity/alike_owners_are_not_the_same"}, renames(strings.ToLower, same, same)},
	{"strips NUL bytes", []string{"identity/malformed_is_refused_in_every_role"},
		renames(same, func(id string) string { return strings.ReplaceAll(id, "\x00", "") }, same)},
	{"replaces what is not UTF-8", []string{"identity/malformed_is_refused_in_every_role"},
		renames(same, same, func(id string) string { return strings.ToValidUTF8(id, "\ufffd") })},
	{"cuts identities at the limit", []string{"identity/above_the_limit_is_refused_in_every_role"},
		renames(same, same, func(id string) string { return id[:min(len(id), countersign.MaxIdentityBytes)] })},
	{"counts runes", []string{"identity/above_the_limit_is_refused_in_every_role"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			if n := len(req.Receipt.ID); n > countersign.MaxIdentityBytes && utf8.RuneCountInString(req.Receipt.ID) <= countersign.MaxIdentityBytes {
				req.Receipt.ID = req.Receipt.ID[:300]
			}
			return b.Store.RecordReceipt(ctx, req)
		},
	}},
	{"keeps 500 bytes of an identity", []string{"identity/at_the_limit_is_kept_in_every_role"},
		renames(same, same, func(id string) string { return id[:min(len(id), 500)] })},
	{"escapes quotes", []string{"identity/is_data_and_not_syntax"}, renames(same, same, func(id string) string { return strings.ReplaceAll(id, "'", "''") })},
	{"takes owner ids for paths", []string{"identity/of_owners_is_data_and_not_syntax"},
		renames(func(id string) string { return strings.NewReplacer("..", "/", "\\", "/").Replace(id) }, same, same)},
	{"joins owner and inbox id", []string{"identity/joined_keys_do_not_collide"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			key := c.Owner + "/" + c.Inbox.ID
			other, _ := b.shared.get(key).(string)
			if other != "" && other != c.Owner {
				return durable.Committed{Through: 1, Duplicate: true}, nil
			}
			res, err := b.Store.CommitOwner(ctx, c)
			if err == nil {
				b.shared.put(key, c.Owner)
			}
			return res, err
		},
	}},

	{"keeps payloads as JSON", []string{"payload/comes_back_byte_for_byte"}, rewrites(func(p []byte) []byte {
		var compact bytes.Buffer
		if json.Compact(&compact, p) != nil {
			return p
		}
		return compact.Bytes()
	})},
	{"keeps payloads as text", []string{"payload/comes_back_byte_for_byte"}, rewrites(func(p []byte) []byte { return bytes.ToValidUTF8(p, []byte("?")) })},
	{"cuts payloads at a NUL", []string{"payload/comes_back_byte_for_byte"}, rewrites(func(p []byte) []byte { before, _, _ := bytes.Cut(p, []byte{0}); return before })},
	{"keeps sixteen bits of a version", []string{"payload/versions_span_their_range"}, fault{
		load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			for i := range img.Outbox {
				img.Outbox[i].Payload.CodecVersion &= 0xffff
			}
			return img, err
		},
	}},
	{"clamps versions", []string{"payload/versions_outside_it_are_malformed"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			c.State.AppendEvents = slices.Clone(c.State.AppendEvents)
			for i := range c.State.AppendEvents {
				p := &c.State.AppendEvents[i]
				p.SchemaVersion = min(max(p.SchemaVersion, 1), durable.MaxVersion)
				p.CodecVersion = min(max(p.CodecVersion, 1), durable.MaxVersion)
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},

	{"refuses a payload at its limit", []string{"limit/payload_of_four_mebibytes_is_kept"}, tooLarge(func(c durable.Commit) error {
		for _, e := range c.Effects {
			if n := len(e.Payload.Bytes); n == durable.MaxPayloadBytes {
				return &countersign.LimitError{Field: "payload", Unit: "bytes", Limit: durable.MaxPayloadBytes - 1, Actual: int64(n)}
			}
		}
		return nil
	})},
	{"refuses a receipt at its limit", []string{"limit/receipt_of_four_mebibytes_is_kept"}, fault{
		record: func(ctx context.Context, b *broken, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
			if len(req.Receipt.Payload.Bytes) >= durable.MaxPayloadBytes {
				return durable.ReceiptRecorded{}, errors.New("row too large")
			}
			return b.Store.RecordReceipt(ctx, req)
		},
	}},
	{"cuts payloads at their limit", []string{"limit/payload_of_one_byte_more_is_refused"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			c.Effects = slices.Clone(c.Effects)
			for i := range c.Effects {
				p := &c.Effects[i].Payload
				p.Bytes = p.Bytes[:min(len(p.Bytes), durable.MaxPayloadBytes)]
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"refuses a commit at its limit", []string{"limit/commit_of_twelve_mebibytes_is_kept"}, tooLarge(func(c durable.Commit) error {
		if n := c.Size(); n >= durable.MaxCommitBytes {
			return &countersign.LimitError{Field: "commit", Unit: "bytes", Limit: durable.MaxCommitBytes, Actual: int64(n)}
		}
		return nil
	})},
	{"counts the payloads of a commit alone", []string{"limit/commit_of_one_byte_more_is_refused"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if c.Size() > durable.MaxCommitBytes {
				c.Inbox.Fingerprint = nil // as if it did not count
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"keeps 999 items", []string{"limit/thousand_items_are_kept"}, tooLarge(func(c durable.Commit) error {
		if n := items(c); n >= durable.MaxCommitItems {
			return &countersign.LimitError{Field: "commit", Unit: "items", Limit: durable.MaxCommitItems, Actual: int64(n)}
		}
		return nil
	})},
	{"does not count receipts", []string{"limit/one_item_more_is_refused"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if len(c.Receipts) > 100 && items(c) > durable.MaxCommitItems {
				c.Receipts = c.Receipts[:100]
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"looks for the owner first", []string{"limit/comes_before_anything_is_read"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if durable.CheckOwner(c.Owner) == nil && b.head(c.Owner).Owner == "" {
				return durable.Committed{}, &durable.UnknownOwnerError{Owner: c.Owner}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},

	{"keeps 32 bits of a fence", []string{"integer/fences_come_back", "integer/fence_advances_through_all"}, narrows(func(v uint64) uint64 { return v & math.MaxUint32 })},
	{"keeps 31 bits and a sign", []string{"integer/fences_come_back"}, narrows(func(v uint64) uint64 {
		if v < math.MaxUint32 {
			return uint64(int64(int32(uint32(v))))
		}
		return v
	})},
	{"goes through floating point", []string{"integer/positions_come_back", "integer/fences_come_back"}, narrows(func(v uint64) uint64 {
		if v > 1<<62 {
			return v
		}
		return uint64(float64(v))
	})},
	{"clamps what is too great", []string{"integer/above_the_range_is_malformed"}, fault{
		history: func(ctx context.Context, b *broken, req durable.ReadHistory) ([]durable.Record, error) {
			req.After = min(req.After, countersign.MaxInteger)
			return b.Store.ReadHistory(ctx, req)
		},
	}},
	{"positions end one too early", []string{"integer/last_position_is_given_out"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			if head := b.head(c.Owner); head.Position >= countersign.MaxInteger-1 && b.knows(c.Owner, c.Inbox.ID) == nil {
				return durable.Committed{}, &durable.PositionOverflowError{Owner: c.Owner, Position: head.Position}
			}
			return b.Store.CommitOwner(ctx, c)
		},
	}},
	{"positions wrap", []string{"integer/position_never_wraps"}, fault{
		commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
			res, err := b.Store.CommitOwner(ctx, c)
			if as[*durable.PositionOverflowError](err) {
				b.edit(c.Owner, func(img *durable.Image) { img.Position = 0 })
				return durable.Committed{}, nil
			}
			return res, err
		},
	}},
}
