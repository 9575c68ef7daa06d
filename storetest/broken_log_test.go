package storetest

import (
	"context"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// logFault is what a broken store does otherwise than package memory with the event
// log, the observers and the receipts. A nil function is no fault.
type logFault struct {
	registerTypes       func(context.Context, *broken, eventlog.RegisterEventTypes) (eventlog.Registered, error)
	registerConstraints func(context.Context, *broken, eventlog.RegisterConstraints) (eventlog.Registered, error)
	definitions         func(context.Context, *broken, string) (eventlog.Definitions, error)
	append              func(context.Context, *broken, eventlog.AppendEvents) (eventlog.Appended, error)
	readEvents          func(context.Context, *broken, eventlog.ReadEvents) (eventlog.Page, error)
	readTail            func(context.Context, *broken, eventlog.ReadTail) (eventlog.Tail, error)
	drop                func(context.Context, *broken, countersign.Namespace) (eventlog.Dropped, error)
	claim               func(context.Context, *broken, eventlog.ClaimObserver) (eventlog.ObserverState, error)
	save                func(context.Context, *broken, eventlog.SaveObserver) (eventlog.ObserverState, error)
	retry               func(context.Context, *broken, eventlog.RetryPartition) (eventlog.Partition, error)
	replay              func(context.Context, *broken, eventlog.ReplayObserver) (eventlog.ObserverState, error)
	observer            func(context.Context, *broken, eventlog.ObserverKey) (eventlog.ObserverState, error)
	partitions          func(context.Context, *broken, eventlog.ReadPartitions) ([]eventlog.Partition, error)
	appendWith          func(context.Context, *broken, receipt.AppendWithReceipt) (receipt.Result, error)
	recordEffect        func(context.Context, *broken, receipt.RecordEffect) (receipt.Result, error)
	readReceipt         func(context.Context, *broken, receipt.Key) (receipt.Result, error)
	listReceipts        func(context.Context, *broken, receipt.ListReceipts) ([]receipt.Receipt, error)
	await               func(context.Context, *broken, eventlog.AwaitEvents) error
}

func (b *broken) AwaitEvents(ctx context.Context, req eventlog.AwaitEvents) error {
	if b.fault.log.await != nil {
		return b.fault.log.await(ctx, b, req)
	}
	return b.EventStore.AwaitEvents(ctx, req)
}

func (b *broken) RegisterEventTypes(ctx context.Context, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
	if b.fault.log.registerTypes != nil {
		return b.fault.log.registerTypes(ctx, b, req)
	}
	return b.EventStore.RegisterEventTypes(ctx, req)
}

func (b *broken) RegisterConstraints(ctx context.Context, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
	if b.fault.log.registerConstraints != nil {
		return b.fault.log.registerConstraints(ctx, b, req)
	}
	return b.EventStore.RegisterConstraints(ctx, req)
}

func (b *broken) ReadDefinitions(ctx context.Context, req string) (eventlog.Definitions, error) {
	if b.fault.log.definitions != nil {
		return b.fault.log.definitions(ctx, b, req)
	}
	return b.EventStore.ReadDefinitions(ctx, req)
}

func (b *broken) AppendEvents(ctx context.Context, req eventlog.AppendEvents) (eventlog.Appended, error) {
	if b.fault.log.append != nil {
		return b.fault.log.append(ctx, b, req)
	}
	return b.EventStore.AppendEvents(ctx, req)
}

func (b *broken) ReadEvents(ctx context.Context, req eventlog.ReadEvents) (eventlog.Page, error) {
	if b.fault.log.readEvents != nil {
		return b.fault.log.readEvents(ctx, b, req)
	}
	return b.EventStore.ReadEvents(ctx, req)
}

func (b *broken) ReadTail(ctx context.Context, req eventlog.ReadTail) (eventlog.Tail, error) {
	if b.fault.log.readTail != nil {
		return b.fault.log.readTail(ctx, b, req)
	}
	return b.EventStore.ReadTail(ctx, req)
}

func (b *broken) DropNamespace(ctx context.Context, req countersign.Namespace) (eventlog.Dropped, error) {
	if b.fault.log.drop != nil {
		return b.fault.log.drop(ctx, b, req)
	}
	return b.EventStore.DropNamespace(ctx, req)
}

func (b *broken) ClaimObserver(ctx context.Context, req eventlog.ClaimObserver) (eventlog.ObserverState, error) {
	if b.fault.log.claim != nil {
		return b.fault.log.claim(ctx, b, req)
	}
	return b.ObserverStore.ClaimObserver(ctx, req)
}

func (b *broken) SaveObserver(ctx context.Context, req eventlog.SaveObserver) (eventlog.ObserverState, error) {
	if b.fault.log.save != nil {
		return b.fault.log.save(ctx, b, req)
	}
	return b.ObserverStore.SaveObserver(ctx, req)
}

func (b *broken) RetryPartition(ctx context.Context, req eventlog.RetryPartition) (eventlog.Partition, error) {
	if b.fault.log.retry != nil {
		return b.fault.log.retry(ctx, b, req)
	}
	return b.ObserverStore.RetryPartition(ctx, req)
}

func (b *broken) ReplayObserver(ctx context.Context, req eventlog.ReplayObserver) (eventlog.ObserverState, error) {
	if b.fault.log.replay != nil {
		return b.fault.log.replay(ctx, b, req)
	}
	return b.ObserverStore.ReplayObserver(ctx, req)
}

func (b *broken) ReadObserver(ctx context.Context, req eventlog.ObserverKey) (eventlog.ObserverState, error) {
	if b.fault.log.observer != nil {
		return b.fault.log.observer(ctx, b, req)
	}
	return b.ObserverStore.ReadObserver(ctx, req)
}

func (b *broken) ReadPartitions(ctx context.Context, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
	if b.fault.log.partitions != nil {
		return b.fault.log.partitions(ctx, b, req)
	}
	return b.ObserverStore.ReadPartitions(ctx, req)
}

func (b *broken) AppendWithReceipt(ctx context.Context, req receipt.AppendWithReceipt) (receipt.Result, error) {
	if b.fault.log.appendWith != nil {
		return b.fault.log.appendWith(ctx, b, req)
	}
	return b.ReceiptStore.AppendWithReceipt(ctx, req)
}

func (b *broken) RecordEffect(ctx context.Context, req receipt.RecordEffect) (receipt.Result, error) {
	if b.fault.log.recordEffect != nil {
		return b.fault.log.recordEffect(ctx, b, req)
	}
	return b.ReceiptStore.RecordEffect(ctx, req)
}

func (b *broken) ReadReceipt(ctx context.Context, req receipt.Key) (receipt.Result, error) {
	if b.fault.log.readReceipt != nil {
		return b.fault.log.readReceipt(ctx, b, req)
	}
	return b.ReceiptStore.ReadReceipt(ctx, req)
}

func (b *broken) ListReceipts(ctx context.Context, req receipt.ListReceipts) ([]receipt.Receipt, error) {
	if b.fault.log.listReceipts != nil {
		return b.fault.log.listReceipts(ctx, b, req)
	}
	return b.ReceiptStore.ListReceipts(ctx, req)
}

// and returns both faults: of one method, the other's.
func (f logFault) and(other logFault) logFault {
	if other.registerTypes != nil {
		f.registerTypes = other.registerTypes
	}
	if other.registerConstraints != nil {
		f.registerConstraints = other.registerConstraints
	}
	if other.definitions != nil {
		f.definitions = other.definitions
	}
	if other.append != nil {
		f.append = other.append
	}
	if other.readEvents != nil {
		f.readEvents = other.readEvents
	}
	if other.readTail != nil {
		f.readTail = other.readTail
	}
	if other.drop != nil {
		f.drop = other.drop
	}
	if other.claim != nil {
		f.claim = other.claim
	}
	if other.save != nil {
		f.save = other.save
	}
	if other.retry != nil {
		f.retry = other.retry
	}
	if other.replay != nil {
		f.replay = other.replay
	}
	if other.observer != nil {
		f.observer = other.observer
	}
	if other.partitions != nil {
		f.partitions = other.partitions
	}
	if other.appendWith != nil {
		f.appendWith = other.appendWith
	}
	if other.recordEffect != nil {
		f.recordEffect = other.recordEffect
	}
	if other.readReceipt != nil {
		f.readReceipt = other.readReceipt
	}
	if other.listReceipts != nil {
		f.listReceipts = other.listReceipts
	}
	if other.await != nil {
		f.await = other.await
	}
	return f
}

// notTaken is an error that says that nothing was written.
type notTaken struct{ err error }

func (e *notTaken) Error() string        { return "not taken: " + e.err.Error() }
func (e *notTaken) Unwrap() error        { return e.err }
func (e *notTaken) Is(target error) bool { return target == countersign.ErrRetryable }
