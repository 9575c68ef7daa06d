package memory

import "github.com/countersign/countersign/durable"

// Plant puts an image in place of an owner, as it is and without a check. It is
// for tests of what reads an image: corrupt ones, and ones at the limits. Of two
// records with the same id the last one stays.
func (m *Medium) Plant(img durable.Image) {
	o := newOwner()
	o.apply(durable.Plan{Head: img.Head, Events: img.History, Snapshot: img.Snapshot, Effects: img.Outbox, Receipts: img.Receipts})
	for _, r := range img.Inbox {
		o.inbox[r.ID] = r.Clone()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners[img.Owner] = o
}
