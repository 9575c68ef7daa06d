package storetest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
)

// goodHarness reaches package memory, which keeps every promise.
func goodHarness() Harness { return fault{}.harness() }

// fault is what a broken store does otherwise than package memory. A nil
// function is no fault.
type fault struct {
	create     func(context.Context, *broken, durable.CreateOwner) (durable.Head, error)
	load       func(context.Context, *broken, durable.LoadOwner) (durable.Image, error)
	commit     func(context.Context, *broken, durable.Commit) (durable.Committed, error)
	advance    func(context.Context, *broken, durable.AdvanceFence) (durable.Head, error)
	record     func(context.Context, *broken, durable.RecordReceipt) (durable.ReceiptRecorded, error)
	history    func(context.Context, *broken, durable.ReadHistory) ([]durable.Record, error)
	pending    func(context.Context, *broken, durable.ReadPending) ([]durable.Effect, error)
	atomically func(context.Context, *broken, func(context.Context, store.Backend) error) error
	closes     func(*broken) error

	log  logFault
	wire wireFault // of a server that is reached over the network; see remote_test.go

	opened func(m *memory.Medium, sh *shared) // each time that a handle is opened
	killed func(m *memory.Medium, sh *shared)
	medium func() *memory.Medium // of a fresh database
}

// shared is what the handles on one database share besides the medium.
type shared struct {
	sync.Mutex
	kept map[string]any
	n    atomic.Int64
}

func (sh *shared) get(key string) any {
	sh.Lock()
	defer sh.Unlock()
	return sh.kept[key]
}

func (sh *shared) put(key string, v any) {
	sh.Lock()
	defer sh.Unlock()
	sh.kept[key] = v
}

func (f fault) harness() Harness {
	return Harness{
		New: func(t T) Opener {
			m := memory.NewMedium()
			if f.medium != nil {
				m = f.medium()
			}
			sh := &shared{kept: map[string]any{}}
			var remote server
			return func(_ context.Context, o OpenOptions) (Backend, error) {
				if f.opened != nil {
					f.opened(m, sh)
				}
				s := memory.OpenWith(m, &memory.Options{Clock: o.Clock})
				b := &broken{Store: s, EventStore: s, ObserverStore: s, ReceiptStore: s, handle: s, medium: m, shared: sh, fault: f}
				if o.Dial == nil {
					return b, nil
				}
				if err := remote.start(t); err != nil {
					return nil, err
				}
				return &client{broken: b, server: &remote, dial: o.Dial, fault: f.wire}, nil
			}
		},
		Wire: true,
		Plant: func(_ context.Context, b Backend, img durable.Image) error {
			b.(*broken).medium.Plant(img)
			return nil
		},
		// A server that keeps what it acknowledged: there is nothing to lose.
		Kill: func(_ context.Context, b Backend) error {
			if f.killed != nil {
				f.killed(b.(*broken).medium, b.(*broken).shared)
			}
			return nil
		},
	}
}

// broken is a memory store with a fault, or a transaction of one.
type broken struct {
	durable.Store // the good one, or its transaction
	store.EventStore
	store.ObserverStore
	store.ReceiptStore
	handle *memory.Store
	inTx   bool
	medium *memory.Medium
	shared *shared
	fault  fault
	local  atomic.Value // of this handle
}

var (
	_ Backend          = (*broken)(nil)
	_ store.Transactor = (*broken)(nil)
)

func (b *broken) Close() error {
	if b.fault.closes != nil {
		return b.fault.closes(b)
	}
	return b.handle.Close()
}

func (b *broken) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	if b.fault.create != nil {
		return b.fault.create(ctx, b, req)
	}
	return b.Store.CreateOwner(ctx, req)
}

func (b *broken) LoadOwner(ctx context.Context, req durable.LoadOwner) (durable.Image, error) {
	if b.fault.load != nil {
		return b.fault.load(ctx, b, req)
	}
	return b.Store.LoadOwner(ctx, req)
}

func (b *broken) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	if b.fault.commit != nil {
		return b.fault.commit(ctx, b, c)
	}
	return b.Store.CommitOwner(ctx, c)
}

func (b *broken) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	if b.fault.advance != nil {
		return b.fault.advance(ctx, b, req)
	}
	return b.Store.AdvanceFence(ctx, req)
}

func (b *broken) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	if b.fault.record != nil {
		return b.fault.record(ctx, b, req)
	}
	return b.Store.RecordReceipt(ctx, req)
}

func (b *broken) ReadHistory(ctx context.Context, req durable.ReadHistory) ([]durable.Record, error) {
	if b.fault.history != nil {
		return b.fault.history(ctx, b, req)
	}
	return b.Store.ReadHistory(ctx, req)
}

func (b *broken) ReadPending(ctx context.Context, req durable.ReadPending) ([]durable.Effect, error) {
	if b.fault.pending != nil {
		return b.fault.pending(ctx, b, req)
	}
	return b.Store.ReadPending(ctx, req)
}

// Atomically gives the body a transaction that has the fault too.
func (b *broken) Atomically(ctx context.Context, body func(context.Context, store.Backend) error) error {
	if b.fault.atomically != nil {
		return b.fault.atomically(ctx, b, body)
	}
	return b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error { return body(ctx, b.within(tx)) })
}

// within returns a good transaction with the fault.
func (b *broken) within(tx store.Backend) *broken {
	return &broken{Store: tx, EventStore: tx, ObserverStore: tx, ReceiptStore: tx, handle: b.handle, inTx: true, medium: b.medium, shared: b.shared, fault: b.fault}
}

// image is what the good store holds, or nil.
func (b *broken) image(owner string) *durable.Image {
	img, err := b.Store.LoadOwner(context.Background(), durable.LoadOwner{Owner: owner})
	if err != nil {
		return nil
	}
	return &img
}

// head is the head that the good store holds, or the zero one.
func (b *broken) head(owner string) durable.Head {
	if img := b.image(owner); img != nil {
		return img.Head
	}
	return durable.Head{}
}

// knows reports whether the inbox id is completed.
func (b *broken) knows(owner, inbox string) *durable.InboxRecord {
	if img := b.image(owner); img != nil {
		for _, r := range img.Inbox {
			if r.ID == inbox {
				return &r
			}
		}
	}
	return nil
}

// edit changes what is stored, past every rule. In a transaction it does
// nothing, since the transaction has its own copy.
func (b *broken) edit(owner string, change func(img *durable.Image)) {
	if img := b.image(owner); img != nil && !b.inTx {
		change(img)
		b.medium.Plant(*img)
	}
}

// pause lets other goroutines run in the middle of something.
func pause() {
	for range 30 {
		runtime.Gosched()
	}
}
