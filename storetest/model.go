package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/durable"
)

// model is what the store under test must hold: the images that the pure rules
// give, by owner.
type model map[string]*durable.Image

// ask answers a request as the contract says and changes the model accordingly.
func (m model) ask(req request) answer {
	owner := ownerOf(req)
	a, after := decide(m[owner], req)
	if after != nil {
		m[owner] = after
	}
	return a
}

func ownerOf(req request) string {
	switch r := req.(type) {
	case durable.CreateOwner:
		return r.Owner
	case durable.AdvanceFence:
		return r.Owner
	case durable.Commit:
		return r.Owner
	case durable.RecordReceipt:
		return r.Owner
	}
	panic(fmt.Sprintf("storetest: a request of type %T", req))
}

// decide answers a request on the image of its owner, nil for none, and returns
// the image afterwards. It changes neither.
func decide(img *durable.Image, req request) (answer, *durable.Image) {
	var plan durable.Plan
	var a answer
	switch r := req.(type) {
	case durable.CreateOwner:
		plan, a.err = durable.DecideCreate(sliceOf(img), r)
		a.head = plan.Head
		a = a.named(created)
	case durable.AdvanceFence:
		plan, a.err = durable.DecideFence(sliceOf(img), r)
		a.head = plan.Head
		a = a.named(fenceAdvanced)
	case durable.Commit:
		plan, a.err = durable.Decide(sliceOf(img), r)
		a = answerOfCommit(durable.Committed{Through: plan.Through, Duplicate: plan.Duplicate}, a.err)
	case durable.RecordReceipt:
		plan, a.err = durable.DecideReceipt(sliceOf(img), r)
		if a.err == nil {
			a.recorded = durable.ReceiptRecorded{RecordedAt: plan.Through, Fence: plan.Fence, Duplicate: plan.Duplicate}
			a.ackSafe = true
		}
		a = a.named(recorded)
		if plan.Duplicate {
			a.outcome = recordedBefore
		}
	default:
		panic(fmt.Sprintf("storetest: a request of type %T", req))
	}
	if a.err != nil || !plan.Writes {
		return a, img
	}
	return a, written(img, plan)
}

// sliceOf returns the whole image as a slice.
func sliceOf(img *durable.Image) durable.Slice {
	if img == nil {
		return durable.Slice{}
	}
	head := img.Head
	s := durable.Slice{
		Head:      &head,
		Inbox:     make(map[string]durable.InboxRecord, len(img.Inbox)),
		Effects:   make(map[string]durable.Effect, len(img.Outbox)),
		Receipts:  make(map[string]durable.Receipt, len(img.Receipts)),
		ReceiptOf: make(map[string]string, len(img.Receipts)),
	}
	for _, r := range img.Inbox {
		s.Inbox[r.ID] = r
	}
	for _, e := range img.Outbox {
		s.Effects[e.ID] = e
	}
	for _, r := range img.Receipts {
		s.Receipts[r.ID] = r
		s.ReceiptOf[r.EffectID] = r.ID
	}
	return s
}

// written returns the image with the plan carried out.
func written(img *durable.Image, p durable.Plan) *durable.Image {
	after := durable.Image{}
	if img != nil {
		after = *img
	}
	after.Head = p.Head
	after.History = added(after.History, p.Events)
	if p.Snapshot != nil {
		snapshot := p.Snapshot.Clone()
		after.Snapshot = &snapshot
	}
	if p.Inbox != nil {
		after.Inbox = added(after.Inbox, []durable.InboxRecord{*p.Inbox})
	}
	after.Outbox = added(after.Outbox, p.Effects)
	after.Receipts = added(after.Receipts, p.Receipts)
	return sorted(after)
}

// added returns both, in memory of its own.
func added[V interface{ Clone() V }](to, from []V) []V {
	all := slices.Clone(to)
	for _, v := range from {
		all = append(all, v.Clone())
	}
	return all
}

// sorted brings an image into its order and derives the pending effects.
func sorted(img durable.Image) *durable.Image {
	slices.SortFunc(img.Inbox, func(a, b durable.InboxRecord) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(img.Outbox, func(a, b durable.Effect) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(img.Receipts, func(a, b durable.Receipt) int { return strings.Compare(a.ID, b.ID) })
	img.Pending = durable.PendingOf(img.Outbox, img.Receipts)
	return &img
}
