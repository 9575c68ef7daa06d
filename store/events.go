package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// Events implements [eventlog.Store], [eventlog.Observers] and [receipt.Store] on
// what an adapter implements of them, its [EventPort]. An adapter embeds it in its
// store and, by [Events.In], in its transactions. A nil Events is a closed store's;
// one on a nil port, [NewEvents](nil), is that of an adapter which does not have
// these interfaces: every call is an [*UnsupportedError].
type Events struct {
	port   EventPort
	shared *shared
}

// shared is what a store and its transactions have in common.
type shared struct {
	signals signals

	mu         sync.Mutex
	catalogues map[string]*eventlog.Catalog // by event store
}

var (
	_ eventlog.Store     = (*Events)(nil)
	_ eventlog.Observers = (*Events)(nil)
	_ receipt.Store      = (*Events)(nil)
)

// NewEvents returns the interfaces on a port.
func NewEvents(port EventPort) *Events {
	return &Events{port: port, shared: &shared{catalogues: map[string]*eventlog.Catalog{}}}
}

// In returns the same interfaces on the port of a transaction. Compiled schemas are
// shared.
func (e *Events) In(port EventPort) *Events {
	if e == nil {
		return nil
	}
	return &Events{port: port, shared: e.shared}
}

// supported is asked by [CapabilitiesOf].
func (e *Events) supported() bool { return e == nil || e.port != nil }

// Wake wakes those who wait for events of the sequence. An adapter calls it after a
// commit, and when it hears of one.
func (e *Events) Wake(s eventlog.Sequence) {
	if e != nil && e.shared != nil {
		e.shared.signals.wake(s.Named())
	}
}

// WakeAll wakes all who wait, as after a connection was lost.
func (e *Events) WakeAll() {
	if e != nil && e.shared != nil {
		e.shared.signals.wakeAll()
	}
}

// check is what every method asks first.
func (e *Events) check(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	if e == nil {
		return ErrClosed
	}
	if e.port == nil {
		return &UnsupportedError{Capability: "the event log, observers and receipts"}
	}
	if ctx == nil {
		return CheckContext(ctx)
	}
	return nil
}

// RegisterEventTypes implements [eventlog.Store].
func (e *Events) RegisterEventTypes(ctx context.Context, req eventlog.RegisterEventTypes) (eventlog.Registered, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.Registered{}, err
	}
	return e.register(ctx, eventlog.OpRegisterEventTypes, req.EventStore, req.Decide)
}

// RegisterConstraints implements [eventlog.Store].
func (e *Events) RegisterConstraints(ctx context.Context, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.Registered{}, err
	}
	return e.register(ctx, eventlog.OpRegisterConstraints, req.EventStore, req.Decide)
}

func (e *Events) register(ctx context.Context, op, eventStore string, decide func(eventlog.Definitions) (eventlog.DefinitionPlan, error)) (eventlog.Registered, error) {
	var plan eventlog.DefinitionPlan
	err := e.port.Define(ctx, op, eventStore, func(d eventlog.Definitions) (eventlog.DefinitionPlan, error) {
		var err error
		plan, err = decide(d)
		return plan, err
	})
	if err != nil {
		return eventlog.Registered{}, err
	}
	return eventlog.Registered{Revision: plan.Revision, Changed: plan.Writes, Settlement: e.port.Settlement()}, nil
}

// ReadDefinitions implements [eventlog.Store].
func (e *Events) ReadDefinitions(ctx context.Context, eventStore string) (eventlog.Definitions, error) {
	if err := e.check(ctx, countersign.CheckIdentity("event store", eventStore)); err != nil {
		return eventlog.Definitions{}, err
	}
	return e.port.LoadDefinitions(ctx, eventStore)
}

// AppendEvents implements [eventlog.Store].
func (e *Events) AppendEvents(ctx context.Context, req eventlog.AppendEvents) (eventlog.Appended, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.Appended{}, err
	}
	a, err := e.append(ctx, req, func(p *eventlog.Prepared) *Append { return &Append{prepared: p} })
	if err != nil {
		return eventlog.Appended{}, err
	}
	appended := a.plan.Log.Appended
	appended.Settlement = e.port.Settlement()
	return appended, nil
}

// AppendWithReceipt implements [receipt.Store].
func (e *Events) AppendWithReceipt(ctx context.Context, req receipt.AppendWithReceipt) (receipt.Result, error) {
	if err := e.check(ctx, req.Key().Check()); err != nil {
		return receipt.Result{}, err
	}
	if err := req.Check(); err != nil {
		return e.recorded(ctx, req.Key(), err)
	}
	req.Sequence = req.Sequence.Named()
	a, err := e.append(ctx, req.AppendEvents, func(p *eventlog.Prepared) *Append { return &Append{prepared: p, with: &req} })
	switch {
	case err == nil:
		return e.result(ctx, a.plan, a.behind), nil
	case errors.Is(err, countersign.ErrMalformed): // a document that can't be judged
		return e.recorded(ctx, req.Key(), err)
	}
	return receipt.Result{}, err
}

// recorded answers a malformed request: by the receipt if there is one, or else by
// the refusal.
func (e *Events) recorded(ctx context.Context, key receipt.Key, refusal error) (receipt.Result, error) {
	found, err := e.ReadReceipt(ctx, key)
	if _, none := errors.AsType[*receipt.UnknownReceiptError](err); none {
		return receipt.Result{}, refusal
	}
	if err != nil {
		return receipt.Result{}, err
	}
	return e.result(ctx, receipt.Plan{Receipt: found.Receipt, AlreadyRecorded: true}, true), nil
}

// RecordEffect implements [receipt.Store].
func (e *Events) RecordEffect(ctx context.Context, req receipt.RecordEffect) (receipt.Result, error) {
	if err := e.check(ctx, req.Key.Check()); err != nil {
		return receipt.Result{}, err
	}
	if err := req.Check(); err != nil {
		return e.recorded(ctx, req.Key, err)
	}
	a, err := e.carryOut(ctx, &Append{record: &req})
	if err != nil {
		return receipt.Result{}, err
	}
	return e.result(ctx, a.plan, false), nil
}

// result is what the caller learns. After a hit it wakes those who wait for the
// events, and completes the constraint index of the sequence where that is behind:
// the process that would have done so may have been lost together with the first
// answer. What fails there does not turn a hit into an error, since the next append
// completes the index too.
func (e *Events) result(ctx context.Context, p receipt.Plan, behind bool) receipt.Result {
	if r := p.Receipt; p.AlreadyRecorded && r.Outcome == receipt.Appended {
		sequence := eventlog.Sequence{Namespace: r.Key.Namespace, Name: r.Sequence}
		if behind {
			_ = e.completeIndex(ctx, sequence)
		}
		e.Wake(sequence)
	}
	return receipt.Result{Receipt: p.Receipt.Clone(), AlreadyRecorded: p.AlreadyRecorded, Settlement: e.port.Settlement()}
}

// definitionAttempts is how often an append is prepared anew when the definitions
// change under it.
const definitionAttempts = 10

// append prepares a well-formed append and carries it out.
func (e *Events) append(ctx context.Context, req eventlog.AppendEvents, bind func(*eventlog.Prepared) *Append) (*Append, error) {
	eventStore := req.Sequence.Namespace.EventStore
	for n := 1; ; n++ {
		catalog, err := e.catalog(ctx, eventStore)
		if err != nil {
			return nil, err
		}
		prepared, err := catalog.Prepare(req)
		if err != nil {
			return nil, err
		}
		a, err := e.carryOut(ctx, bind(prepared))
		switch {
		case err == nil:
			return a, nil
		case !again(err): // nothing of a is looked at: a group may still work on it
			return nil, err
		case n == definitionAttempts:
			return nil, &UnavailableError{Reason: "the definitions keep changing", Err: err}
		case errors.Is(err, eventlog.ErrIndexIncomplete):
			if err := e.completeIndex(ctx, req.Sequence.Named()); err != nil {
				return nil, err
			}
		default:
			e.forget(eventStore)
		}
	}
}

// carryOut lets the port carry an append out, and returns it with its verdict. With a
// context that may end, it works on a copy: the caller may be gone while a group is
// written.
func (e *Events) carryOut(ctx context.Context, a *Append) (*Append, error) {
	if ctx.Done() != nil {
		a = a.Clone()
	}
	return a, e.port.Append(ctx, a)
}

// completeIndex builds a sequence's constraint index, a step at a time.
func (e *Events) completeIndex(ctx context.Context, s eventlog.Sequence) error {
	x := &Indexing{Sequence: s}
	for {
		catalog, err := e.catalog(ctx, s.Namespace.EventStore)
		if err != nil {
			return err
		}
		x.catalog, x.before = catalog, x.begun
		more, err := e.port.Index(ctx, x)
		switch {
		case err != nil:
			return err
		case x.stale: // registered since
			e.forget(s.Namespace.EventStore)
		case !more:
			return nil
		}
	}
}

// catalog returns the compiled definitions of an event store, as they were known
// last. An append finds out whether they are still in force.
func (e *Events) catalog(ctx context.Context, eventStore string) (*eventlog.Catalog, error) {
	e.shared.mu.Lock()
	known := e.shared.catalogues[eventStore]
	e.shared.mu.Unlock()
	if known != nil {
		return known, nil
	}
	definitions, err := e.port.LoadDefinitions(ctx, eventStore)
	if err != nil {
		return nil, err
	}
	catalog, err := eventlog.Compile(definitions)
	if err != nil {
		return nil, &UnusableError{Reason: "the definitions can't be read", Err: err}
	}
	if e.port.Settlement() != nil {
		return catalog, nil // of a transaction: its definitions may be rolled back
	}
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	if len(e.shared.catalogues) >= maxCatalogues {
		clear(e.shared.catalogues)
	}
	e.shared.catalogues[eventStore] = catalog
	return catalog, nil
}

const maxCatalogues = 1_000

func (e *Events) forget(eventStore string) {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	delete(e.shared.catalogues, eventStore)
}

// ReadEvents implements [eventlog.Store].
func (e *Events) ReadEvents(ctx context.Context, req eventlog.ReadEvents) (eventlog.Page, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.Page{}, err
	}
	req.Sequence = req.Sequence.Named()
	return e.port.LoadEvents(ctx, req)
}

// ReadTail implements [eventlog.Store].
func (e *Events) ReadTail(ctx context.Context, req eventlog.ReadTail) (eventlog.Tail, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return eventlog.Tail{}, err
	}
	req.Sequence = req.Sequence.Named()
	return e.port.LoadTail(ctx, req)
}

// AwaitEvents implements [eventlog.Store].
func (e *Events) AwaitEvents(ctx context.Context, req eventlog.AwaitEvents) error {
	if err := e.check(ctx, req.Check()); err != nil {
		return err
	}
	req.Sequence = req.Sequence.Named()
	for {
		if done, err := e.awaitOnce(ctx, req); done || err != nil {
			return err
		}
	}
}

// awaitOnce looks whether the events are there, and if not waits until it is time to
// look again.
func (e *Events) awaitOnce(ctx context.Context, req eventlog.AwaitEvents) (done bool, err error) {
	woken, leave := e.shared.signals.listen(req.Sequence)
	defer leave()
	tail, err := e.port.LoadTail(ctx, eventlog.ReadTail{Sequence: req.Sequence})
	if err != nil || tail.Next > req.From {
		return true, err
	}
	pause, err := e.port.Watch(ctx)
	if err != nil {
		return false, err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
	return false, CheckContext(ctx)
}

// DropNamespace implements [eventlog.Store].
func (e *Events) DropNamespace(ctx context.Context, ns countersign.Namespace) (eventlog.Dropped, error) {
	if err := e.check(ctx, ns.Check()); err != nil {
		return eventlog.Dropped{}, err
	}
	dropped, err := e.port.Drop(ctx, ns)
	if err != nil {
		return eventlog.Dropped{}, err
	}
	dropped.Settlement = e.port.Settlement()
	return dropped, nil
}

// ReadReceipt implements [receipt.Store].
func (e *Events) ReadReceipt(ctx context.Context, key receipt.Key) (receipt.Result, error) {
	if err := e.check(ctx, key.Check()); err != nil {
		return receipt.Result{}, err
	}
	found, err := e.port.FindReceipts(ctx, receipt.ListReceipts{Namespace: key.Namespace, Occurrences: []string{key.Occurrence}}, key.Effect)
	if err != nil {
		return receipt.Result{}, err
	}
	if len(found) == 0 {
		return receipt.Result{}, &receipt.UnknownReceiptError{Key: key}
	}
	return receipt.Result{Receipt: found[0], AlreadyRecorded: true, Settlement: e.port.Settlement()}, nil
}

// ListReceipts implements [receipt.Store].
func (e *Events) ListReceipts(ctx context.Context, req receipt.ListReceipts) ([]receipt.Receipt, error) {
	if err := e.check(ctx, req.Check()); err != nil {
		return nil, err
	}
	return e.port.FindReceipts(ctx, req, "")
}
