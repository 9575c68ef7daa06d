package durable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"pgregory.net/rapid"
)

// contract is an owner as the text of the contract describes it: a whole image,
// searched from its beginning, and nothing of the rules' own code. The rules
// are compared with it over random histories.
type contract struct {
	exists bool
	img    durable.Image
}

// create is section 3, Create.
func (o *contract) create(r durable.CreateOwner) string {
	if !ownerFits(r.Owner) || (r.Mode != "event_history" && r.Mode != "snapshot") || r.Fence >= 1<<63 {
		return "malformed"
	}
	if o.exists {
		if o.img.Mode != r.Mode {
			return "identity_conflict owner " + r.Owner
		}
		return "exists"
	}
	o.exists = true
	o.img = durable.Image{Head: durable.Head{Owner: r.Owner, Mode: r.Mode, Fence: r.Fence}}
	return "created"
}

// advance is section 3, Advance fence.
func (o *contract) advance(r durable.AdvanceFence) string {
	switch {
	case !ownerFits(r.Owner) || r.Fence >= 1<<63:
		return "malformed"
	case !o.exists:
		return "unknown_owner"
	case r.Fence <= o.img.Fence:
		return fmt.Sprintf("fence_did_not_advance %d %d", r.Fence, o.img.Fence)
	}
	o.img.Fence = r.Fence
	return "fence_advanced"
}

// commit is section 2.
func (o *contract) commit(c durable.Commit) string {
	// 1. Well formed, and an existing owner.
	if !commitFits(c) {
		return "malformed"
	}
	if !o.exists {
		return "unknown_owner"
	}
	// 2. The completed inbox.
	for _, r := range o.img.Inbox {
		if r.ID != c.Inbox.ID {
			continue
		}
		if string(r.Fingerprint) != string(c.Inbox.Fingerprint) {
			return "identity_conflict inbox " + c.Inbox.ID
		}
		return fmt.Sprintf("duplicate %d", r.CommittedThrough)
	}
	// 3. The fence. 4. The position.
	if c.Fence != o.img.Fence {
		return fmt.Sprintf("stale_fence %d %d", c.Fence, o.img.Fence)
	}
	if c.ExpectedPosition != o.img.Position {
		return fmt.Sprintf("position_conflict %d %d", c.ExpectedPosition, o.img.Position)
	}
	next := durable.Image{
		Head:     o.img.Head,
		History:  append([]durable.Record(nil), o.img.History...),
		Snapshot: o.img.Snapshot,
		Inbox:    append([]durable.InboxRecord(nil), o.img.Inbox...),
		Outbox:   append([]durable.Effect(nil), o.img.Outbox...),
		Receipts: append([]durable.Receipt(nil), o.img.Receipts...),
	}
	through := o.img.Position + uint64(len(c.State.AppendEvents))
	if c.State.ReplaceSnapshot != nil {
		through = o.img.Position + 1
	}
	// 5. The effects, in order.
effects:
	for _, e := range c.Effects {
		for _, known := range next.Outbox {
			if known.ID == e.ID {
				if !samePayload(known.Payload, e.Payload) {
					return "identity_conflict effect " + e.ID
				}
				continue effects
			}
		}
		next.Outbox = append(next.Outbox, durable.Effect{ID: e.ID, AcceptedAt: through, Payload: e.Payload})
	}
	// 6. The receipts, in order.
	for _, r := range c.Receipts {
		known, refusal := receiptFits(next, r)
		if refusal != "" {
			return refusal
		}
		if known == nil {
			next.Receipts = append(next.Receipts, durable.Receipt{
				ID: r.ID, EffectID: r.EffectID, Outcome: r.Outcome, RecordedAt: through, Fence: o.img.Fence, Payload: r.Payload,
			})
		}
	}
	// 7. The mode.
	if (o.img.Mode == "snapshot") != (c.State.ReplaceSnapshot != nil) {
		return "state_mode_mismatch " + string(o.img.Mode)
	}
	// 8. The positions.
	if through >= 1<<63 {
		return fmt.Sprintf("position_overflow %d", o.img.Position)
	}
	next.Position = through
	for i, e := range c.State.AppendEvents {
		next.History = append(next.History, durable.Record{Position: o.img.Position + 1 + uint64(i), Payload: e})
	}
	if c.State.ReplaceSnapshot != nil {
		next.Snapshot = &durable.Record{Position: through, Payload: *c.State.ReplaceSnapshot}
	}
	next.Inbox = append(next.Inbox, durable.InboxRecord{ID: c.Inbox.ID, Fingerprint: c.Inbox.Fingerprint, CommittedThrough: through})
	o.img = arranged(next)
	return fmt.Sprintf("committed %d", through)
}

// record is section 3, Record receipt.
func (o *contract) record(r durable.RecordReceipt) string {
	if !ownerFits(r.Owner) || r.Fence >= 1<<63 || !terminalReceiptFits(r.Receipt) {
		return "malformed"
	}
	if !o.exists {
		return "unknown_owner"
	}
	known, refusal := receiptFits(o.img, r.Receipt)
	switch {
	case known != nil:
		return fmt.Sprintf("receipt_duplicate %d %d", known.RecordedAt, known.Fence)
	case strings.HasPrefix(refusal, "identity_conflict"):
		return refusal
	case r.Fence != o.img.Fence:
		return fmt.Sprintf("stale_fence %d %d", r.Fence, o.img.Fence)
	case refusal != "":
		return refusal
	}
	next := o.img
	next.Receipts = append(append([]durable.Receipt(nil), o.img.Receipts...), durable.Receipt{
		ID: r.Receipt.ID, EffectID: r.Receipt.EffectID, Outcome: r.Receipt.Outcome,
		RecordedAt: o.img.Position, Fence: o.img.Fence, Payload: r.Receipt.Payload,
	})
	o.img = arranged(next)
	return fmt.Sprintf("receipt_recorded %d %d", o.img.Position, o.img.Fence)
}

// receiptFits returns the recorded receipt of the same content, or the refusal.
func receiptFits(img durable.Image, r durable.TerminalReceipt) (*durable.Receipt, string) {
	for _, known := range img.Receipts {
		if known.ID == r.ID {
			if known.EffectID != r.EffectID || known.Outcome != r.Outcome || !samePayload(known.Payload, r.Payload) {
				return nil, "identity_conflict receipt " + r.ID
			}
			return &known, ""
		}
	}
	exists := false
	for _, e := range img.Outbox {
		exists = exists || e.ID == r.EffectID
	}
	if !exists {
		return nil, "unknown_effect " + r.ID + " " + r.EffectID
	}
	for _, known := range img.Receipts {
		if known.EffectID == r.EffectID {
			return nil, "effect_already_receipted " + r.EffectID + " " + r.ID + " " + known.ID
		}
	}
	return nil, ""
}

// arranged is the image in the order of section 3, Load, with its pending effects.
func arranged(img durable.Image) durable.Image {
	sort.Slice(img.Inbox, func(i, j int) bool { return img.Inbox[i].ID < img.Inbox[j].ID })
	sort.Slice(img.Outbox, func(i, j int) bool { return img.Outbox[i].ID < img.Outbox[j].ID })
	sort.Slice(img.Receipts, func(i, j int) bool { return img.Receipts[i].ID < img.Receipts[j].ID })
	img.Pending = nil
	for _, e := range img.Outbox {
		done := false
		for _, r := range img.Receipts {
			done = done || r.EffectID == e.ID
		}
		if !done {
			img.Pending = append(img.Pending, e)
		}
	}
	// The outbox is sorted by id, so a stable sort by position is enough.
	sort.SliceStable(img.Pending, func(i, j int) bool { return img.Pending[i].AcceptedAt < img.Pending[j].AcceptedAt })
	return img
}

func samePayload(a, b durable.Payload) bool {
	return a.SchemaVersion == b.SchemaVersion && a.CodecVersion == b.CodecVersion && string(a.Bytes) == string(b.Bytes)
}

func identityFits(id string) bool {
	return len(id) >= 1 && len(id) <= 512 && !strings.Contains(id, "\x00") && utf8.ValidString(id)
}

func ownerFits(id string) bool { return identityFits(id) && len(id) <= 480 }

func payloadFits(p durable.Payload) bool {
	return p.SchemaVersion >= 1 && p.SchemaVersion < 1<<31 && p.CodecVersion >= 1 && p.CodecVersion < 1<<31 && len(p.Bytes) <= 4*1024*1024
}

func terminalReceiptFits(r durable.TerminalReceipt) bool {
	return identityFits(r.ID) && identityFits(r.EffectID) && (r.Outcome == "applied" || r.Outcome == "rejected") && payloadFits(r.Payload)
}

func commitFits(c durable.Commit) bool {
	fits := ownerFits(c.Owner) && identityFits(c.Inbox.ID) && c.ExpectedPosition < 1<<63 && c.Fence < 1<<63 &&
		(len(c.State.AppendEvents) > 0) != (c.State.ReplaceSnapshot != nil) &&
		len(c.State.AppendEvents)+len(c.Effects)+len(c.Receipts) <= 1000
	for _, e := range c.State.AppendEvents {
		fits = fits && payloadFits(e)
	}
	if c.State.ReplaceSnapshot != nil {
		fits = fits && payloadFits(*c.State.ReplaceSnapshot)
	}
	for _, e := range c.Effects {
		fits = fits && identityFits(e.ID) && payloadFits(e.Payload)
	}
	for _, r := range c.Receipts {
		fits = fits && terminalReceiptFits(r)
	}
	return fits
}

// outcome puts what a rule decided into the oracle's words.
func outcome(op string, p durable.Plan, err error) string {
	var (
		identity *durable.IdentityConflictError
		unknown  *durable.UnknownOwnerError
		fence    *durable.StaleFenceError
		position *durable.PositionConflictError
		effect   *durable.UnknownEffectError
		already  *durable.EffectAlreadyReceiptedError
		mode     *durable.StateModeMismatchError
		overflow *durable.PositionOverflowError
		advance  *durable.FenceDidNotAdvanceError
	)
	switch {
	case errors.Is(err, countersign.ErrMalformed):
		return "malformed"
	case errors.As(err, &identity):
		return fmt.Sprintf("identity_conflict %s %s", identity.Kind, identity.ID)
	case errors.As(err, &unknown):
		return "unknown_owner"
	case errors.As(err, &fence):
		return fmt.Sprintf("stale_fence %d %d", fence.Fence, fence.Current)
	case errors.As(err, &position):
		return fmt.Sprintf("position_conflict %d %d", position.Expected, position.Actual)
	case errors.As(err, &effect):
		return fmt.Sprintf("unknown_effect %s %s", effect.ReceiptID, effect.EffectID)
	case errors.As(err, &already):
		return fmt.Sprintf("effect_already_receipted %s %s %s", already.EffectID, already.ReceiptID, already.RecordedAs)
	case errors.As(err, &mode):
		return "state_mode_mismatch " + string(mode.Mode)
	case errors.As(err, &overflow):
		return fmt.Sprintf("position_overflow %d", overflow.Position)
	case errors.As(err, &advance):
		return fmt.Sprintf("fence_did_not_advance %d %d", advance.Fence, advance.Current)
	case err != nil:
		return "unexpected: " + err.Error()
	}
	switch {
	case op == "create" && p.Duplicate:
		return "exists"
	case op == "create":
		return "created"
	case op == "advance":
		return "fence_advanced"
	case op == "record" && p.Duplicate:
		return fmt.Sprintf("receipt_duplicate %d %d", p.Through, p.Fence)
	case op == "record":
		return fmt.Sprintf("receipt_recorded %d %d", p.Through, p.Fence)
	case p.Duplicate:
		return fmt.Sprintf("duplicate %d", p.Through)
	}
	return fmt.Sprintf("committed %d", p.Through)
}

// kinds counts the kinds of error that err matches.
func kinds(err error) int {
	n := 0
	for _, kind := range []error{countersign.ErrRefused, countersign.ErrConflict, countersign.ErrRetryable, countersign.ErrUnknownOutcome} {
		if errors.Is(err, kind) {
			n++
		}
	}
	return n
}

// sliceOf returns what an adapter reads for a request. A nil image is an owner
// that does not exist, a nil touch asks for everything.
func sliceOf(img *durable.Image, touch *durable.Touch) durable.Slice {
	var s durable.Slice
	if img == nil {
		return s
	}
	named := func(ids func(durable.Touch) []string, id string) bool {
		if touch == nil {
			return true
		}
		for _, other := range ids(*touch) {
			if other == id {
				return true
			}
		}
		return false
	}
	head := img.Head
	s.Head = &head
	for _, r := range img.Inbox {
		if named(func(t durable.Touch) []string { return t.Inbox }, r.ID) {
			keep(&s.Inbox, r.ID, r)
		}
	}
	for _, e := range img.Outbox {
		if named(func(t durable.Touch) []string { return t.Effects }, e.ID) {
			keep(&s.Effects, e.ID, e)
		}
	}
	for _, r := range img.Receipts {
		if named(func(t durable.Touch) []string { return t.Receipts }, r.ID) {
			keep(&s.Receipts, r.ID, r)
		}
		if named(func(t durable.Touch) []string { return t.Effects }, r.EffectID) {
			keep(&s.ReceiptOf, r.EffectID, r.ID)
		}
	}
	return s
}

func keep[V any](m *map[string]V, id string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[id] = v
}

// carryOut returns the image after a plan, as an adapter writes it.
func carryOut(img *durable.Image, p durable.Plan) *durable.Image {
	if !p.Writes {
		return img
	}
	var next durable.Image
	if img != nil {
		next = *img
	}
	next.Head = p.Head
	next.History = append(append([]durable.Record(nil), next.History...), p.Events...)
	if p.Snapshot != nil {
		next.Snapshot = p.Snapshot
	}
	next.Inbox = append([]durable.InboxRecord(nil), next.Inbox...)
	if p.Inbox != nil {
		next.Inbox = append(next.Inbox, *p.Inbox)
	}
	next.Outbox = append(append([]durable.Effect(nil), next.Outbox...), p.Effects...)
	next.Receipts = append(append([]durable.Receipt(nil), next.Receipts...), p.Receipts...)
	next = arranged(next)
	return &next
}

// dump renders everything that v points to, so that two dumps are equal exactly
// when nothing differs.
func dump(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Ids whose byte order is neither alphabetical nor that of any collation.
var (
	inboxIDs   = rapid.SampledFrom([]string{"b", "A", "é", "e\u0301", "1", "10", "9", "a b", "/", "É", "z", "Z"})
	effectIDs  = rapid.SampledFrom([]string{"y", "X", "ü", "u\u0308"})
	receiptIDs = rapid.SampledFrom([]string{"s", "R", "ø", "o"})
)

// seldom is true once in n draws.
func seldom(t *rapid.T, n int, label string) bool { return rapid.IntRange(1, n).Draw(t, label) == n }

// near draws v, or seldom a number beside it.
func near(t *rapid.T, v uint64, label string) uint64 {
	switch rapid.IntRange(0, 19).Draw(t, label) {
	case 18:
		return v + 1
	case 19:
		return v - min(v, 1)
	}
	return v
}

func drawEffect(t *rapid.T) durable.Intent {
	e := durable.Intent{ID: effectIDs.Draw(t, "effect"), Payload: v1("effect")}
	if seldom(t, 6, "other content") {
		e.Payload = drawPayload.Draw(t, "payload")
	}
	return e
}

// drawReceipt draws a receipt, mostly of a pending effect, if there are any.
func drawReceipt(t *rapid.T, pending []string) durable.TerminalReceipt {
	r := durable.TerminalReceipt{ID: receiptIDs.Draw(t, "receipt"), EffectID: effectIDs.Draw(t, "of effect"), Outcome: durable.Applied, Payload: v1("receipt")}
	if len(pending) > 0 && !seldom(t, 4, "of any effect") {
		r.EffectID = rapid.SampledFrom(pending).Draw(t, "of pending effect")
	}
	if seldom(t, 6, "other outcome") {
		r.Outcome = durable.Rejected
	}
	if seldom(t, 6, "other content") {
		r.Payload = drawPayload.Draw(t, "payload")
	}
	return r
}

func pendingIDs(img durable.Image) []string {
	var ids []string
	for _, e := range img.Pending {
		ids = append(ids, e.ID)
	}
	return ids
}

func drawCommit(t *rapid.T, img durable.Image) durable.Commit {
	head := img.Head
	c := durable.Commit{
		Owner:            "order-42",
		ExpectedPosition: near(t, head.Position, "expected position"),
		Fence:            near(t, head.Fence, "fence"),
		Inbox:            durable.Inbox{ID: inboxIDs.Draw(t, "inbox"), Fingerprint: []byte("sum")},
		Effects:          rapid.SliceOfN(rapid.Custom(drawEffect), 0, 3).Draw(t, "effects"),
	}
	pending := pendingIDs(img)
	for _, e := range c.Effects {
		pending = append(pending, e.ID)
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "receipts") {
		c.Receipts = append(c.Receipts, drawReceipt(t, pending))
	}
	if seldom(t, 6, "other fingerprint") {
		c.Inbox.Fingerprint = []byte{}
	}
	if (head.Mode == durable.Snapshot) != seldom(t, 8, "other mode") {
		c.State = durable.Replace(drawPayload.Draw(t, "snapshot"))
	} else {
		c.State = durable.Append(rapid.SliceOfN(drawPayload, 1, 3).Draw(t, "events")...)
	}
	if seldom(t, 12, "malformed") {
		switch rapid.IntRange(0, 7).Draw(t, "how") {
		case 0:
			c.Inbox.ID = ""
		case 1:
			c.State = durable.StateChange{}
		case 2:
			c.State = durable.StateChange{AppendEvents: []durable.Payload{v1("")}, ReplaceSnapshot: &durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte{}}}
		case 3:
			c.Effects = append(c.Effects, durable.Intent{ID: "y", Payload: durable.Payload{SchemaVersion: 1, Bytes: []byte{}}})
		case 4:
			c.Receipts = append(c.Receipts, durable.TerminalReceipt{ID: "r", EffectID: "y", Outcome: "pending", Payload: v1("")})
		case 5:
			c.Fence = 1 << 63
		case 6:
			c.ExpectedPosition = 1 << 63
		case 7:
			c.Effects = append(c.Effects, durable.Intent{ID: "a\x00b", Payload: v1("")})
		}
	}
	return c
}

func TestRulesFollowTheContract(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		var want contract
		var got *durable.Image
		if seldom(t, 10, "near the last position") {
			want = contract{exists: true, img: durable.Image{
				Head:     durable.Head{Owner: "order-42", Mode: durable.Snapshot, Position: countersign.MaxInteger - 1},
				Snapshot: &durable.Record{Position: countersign.MaxInteger - 1, Payload: v1("")},
			}}
			planted := want.img
			got = &planted
		}
		group := sliceOf(got, nil)
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			// An adapter reads what the request touches; a group goes on with the
			// slice that the plans before were applied to.
			var request any
			var op, expected string
			var touch durable.Touch
			var rule func(durable.Slice) (durable.Plan, error)
			switch kind := rapid.IntRange(0, 9).Draw(t, "request"); {
			case kind == 0 || !want.exists && kind < 9:
				r := durable.CreateOwner{Owner: "order-42", Mode: rapid.SampledFrom([]durable.Mode{"event_history", "snapshot"}).Draw(t, "mode"),
					Fence: rapid.Uint64Range(0, 2).Draw(t, "fence")}
				op, request, expected, touch = "create", r, want.create(r), r.Touch()
				rule = func(s durable.Slice) (durable.Plan, error) { return durable.DecideCreate(s, r) }
			case kind == 1:
				r := durable.AdvanceFence{Owner: "order-42", Fence: want.img.Fence + rapid.Uint64Range(0, 2).Draw(t, "ahead")}
				op, request, expected, touch = "advance", r, want.advance(r), r.Touch()
				rule = func(s durable.Slice) (durable.Plan, error) { return durable.DecideFence(s, r) }
			case kind <= 3:
				r := durable.RecordReceipt{Owner: "order-42", Fence: near(t, want.img.Fence, "fence"), Receipt: drawReceipt(t, pendingIDs(want.img))}
				op, request, expected, touch = "record", r, want.record(r), r.Touch()
				rule = func(s durable.Slice) (durable.Plan, error) { return durable.DecideReceipt(s, r) }
			default:
				c := drawCommit(t, want.img)
				op, request, expected, touch = "commit", c, want.commit(c), c.Touch()
				rule = func(s durable.Slice) (durable.Plan, error) { return durable.Decide(s, c) }
			}
			slice := sliceOf(got, &touch)
			before := dump([]any{slice, request})
			plan, err := rule(slice)
			if after := dump([]any{slice, request}); after != before {
				t.Fatalf("%s changed its arguments:\nbefore %s\nafter  %s", op, before, after)
			}
			if o := outcome(op, plan, err); o != expected {
				t.Fatalf("%s: got %q, expected %q", op, o, expected)
			}
			seen[strings.Fields(expected)[0]]++
			if err != nil && (kinds(err) != 1 || dump(plan) != dump(durable.Plan{})) {
				t.Fatalf("%s: %v has %d kinds, and the plan is %s", op, err, kinds(err), dump(plan))
			}
			if err == nil && plan.Head != want.img.Head {
				t.Fatalf("%s: the plan's head is %+v, expected %+v", op, plan.Head, want.img.Head)
			}
			inGroup, errInGroup := rule(group)
			if dump(inGroup) != dump(plan) || fmt.Sprint(errInGroup) != fmt.Sprint(err) {
				t.Fatalf("%s in a group: got %s, %v, expected %s, %v", op, dump(inGroup), errInGroup, dump(plan), err)
			}
			group.Apply(inGroup)
			got = carryOut(got, plan)
			if got == nil {
				if want.exists {
					t.Fatal("the owner was not created")
				}
				continue
			}
			if dump(*got) != dump(want.img) {
				t.Fatalf("%s: %s\ngot      %s\nexpected %s", op, expected, dump(*got), dump(want.img))
			}
			if dump(group) != dump(sliceOf(got, nil)) {
				t.Fatalf("%s: the group has %s, the owner is %s", op, dump(group), dump(*got))
			}
			if err := got.Validate(); err != nil {
				t.Fatalf("%s: %s: %v", op, expected, err)
			}
		}
	})
	t.Log(seen)
}
