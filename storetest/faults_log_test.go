package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// logMutant is a mutant of the event log.
func logMutant(name string, f logFault, cases ...string) mutant {
	return mutant{name: name, cases: cases, fault: fault{log: f}}
}

// appending is what a fault does with an append: next is the good store's.
type appending func(ctx context.Context, b *broken, req eventlog.AppendEvents, next func(eventlog.AppendEvents) (eventlog.Appended, error)) (eventlog.Appended, error)

// onAppend is a fault of both appends.
func onAppend(f appending) logFault {
	return logFault{
		append: func(ctx context.Context, b *broken, req eventlog.AppendEvents) (eventlog.Appended, error) {
			return f(ctx, b, req, func(r eventlog.AppendEvents) (eventlog.Appended, error) { return b.EventStore.AppendEvents(ctx, r) })
		},
		appendWith: func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
			var res receipt.Result
			_, err := f(ctx, b, req.AppendEvents, func(r eventlog.AppendEvents) (eventlog.Appended, error) {
				with := req
				with.AppendEvents = r
				var err error
				res, err = b.ReceiptStore.AppendWithReceipt(ctx, with)
				a := eventlog.Appended{Sequence: res.Receipt.Sequence, First: res.Receipt.First, Last: res.Receipt.Last}
				if res.Receipt.Outcome == receipt.Appended && !res.AlreadyRecorded {
					a.Count = len(r.Events)
				}
				return a, err
			})
			if err != nil {
				res = receipt.Result{}
			}
			return res, err
		},
	}
}

// changesEvents stores other events than those that were sent, judges by these, and
// shows those that were sent.
func changesEvents(change func(e *eventlog.Event)) logFault {
	f := onAppend(func(_ context.Context, b *broken, req eventlog.AppendEvents, next func(eventlog.AppendEvents) (eventlog.Appended, error)) (eventlog.Appended, error) {
		changed := copyAppend(req)
		if req.Check() == nil {
			for i := range changed.Events {
				change(&changed.Events[i])
			}
		}
		a, err := next(changed)
		if err == nil {
			keepSent(b, req, a)
		}
		return a, err
	})
	f.readEvents = restored
	return f
}

// keepSent notes what was sent under the numbers of an append.
func keepSent(b *broken, req eventlog.AppendEvents, a eventlog.Appended) {
	for i := range a.Count {
		b.shared.put(fmt.Sprintf("event %v %d", req.Sequence.Named(), a.First+uint64(i)), req.Events[i].Clone())
	}
}

// restored reads a page and shows the events as they were sent.
func restored(ctx context.Context, b *broken, req eventlog.ReadEvents) (eventlog.Page, error) {
	page, err := b.EventStore.ReadEvents(ctx, req)
	for i := range page.Events {
		e := &page.Events[i].Event
		if sent, ok := b.shared.get(fmt.Sprintf("event %v %d", req.Sequence.Named(), page.Events[i].Number)).(eventlog.Event); ok {
			e.Type, e.Generation, e.Source, e.SourceType, e.StreamType, e.StreamID, e.Content = sent.Type, max(sent.Generation, 1), sent.Source, sent.SourceType, sent.StreamType, sent.StreamID, sent.Clone().Content
		}
	}
	return page, err
}

// changesContent is changesEvents for contents of renamed events.
func changesContent(change func(v any) any) logFault {
	return changesEvents(func(e *eventlog.Event) {
		var v any
		if e.Type == renamed && json.Unmarshal(e.Content, &v) == nil {
			e.Content, _ = json.Marshal(change(v))
		}
	})
}

// accepts lets through what the good store refuses: as events that nothing judges.
func accepts(when func(req eventlog.AppendEvents, all []eventlog.Violation) bool) logFault {
	f := onAppend(func(_ context.Context, b *broken, req eventlog.AppendEvents, next func(eventlog.AppendEvents) (eventlog.Appended, error)) (eventlog.Appended, error) {
		a, err := next(req)
		if e, ok := errors.AsType[*eventlog.ViolationsError](err); ok && when(req, e.Violations) {
			free := copyAppend(req)
			for i := range free.Events {
				free.Events[i].Type, free.Events[i].Generation = noted, 1
			}
			if a, err = next(free); err == nil {
				keepSent(b, req, a)
			}
		}
		return a, err
	})
	f.readEvents = restored
	return f
}

// only reports whether all violations are such.
func only(such func(v eventlog.Violation) bool) func(eventlog.AppendEvents, []eventlog.Violation) bool {
	return func(_ eventlog.AppendEvents, all []eventlog.Violation) bool {
		return !slices.ContainsFunc(all, func(v eventlog.Violation) bool { return !such(v) })
	}
}

// tells says other violations than the good store.
func tells(change func(req eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation) logFault {
	return onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next func(eventlog.AppendEvents) (eventlog.Appended, error)) (eventlog.Appended, error) {
		a, err := next(req)
		if e, ok := errors.AsType[*eventlog.ViolationsError](err); ok {
			err = &eventlog.ViolationsError{Violations: change(req, slices.Clone(e.Violations))}
		}
		return a, err
	})
}

// refuses refuses what the good store takes.
func refuses(when func(b *broken, req eventlog.AppendEvents) bool) logFault {
	return onAppend(func(_ context.Context, b *broken, req eventlog.AppendEvents, next func(eventlog.AppendEvents) (eventlog.Appended, error)) (eventlog.Appended, error) {
		if req.Check() == nil && when(b, req) {
			return eventlog.Appended{}, &eventlog.ViolationsError{Violations: []eventlog.Violation{{Kind: eventlog.UniqueValueViolation, Message: "a fault"}}}
		}
		return next(req)
	})
}

// judges judges by other scopes than those that were sent.
func judges(change func(b *broken, req eventlog.AppendEvents) []eventlog.Scope) logFault {
	return onAppend(func(_ context.Context, b *broken, req eventlog.AppendEvents, next func(eventlog.AppendEvents) (eventlog.Appended, error)) (eventlog.Appended, error) {
		req.Scopes = change(b, copyAppend(req))
		return next(req)
	})
}

// eachScope is judges for each scope that is well formed.
func eachScope(change func(s *eventlog.Scope)) logFault {
	return judges(func(_ *broken, req eventlog.AppendEvents) []eventlog.Scope {
		for i := range req.Scopes {
			if req.Scopes[i].Check() == nil {
				change(&req.Scopes[i])
			}
		}
		return req.Scopes
	})
}

// constrains registers other constraints than those that were sent, and shows those
// that were sent.
func constrains(change func(c *eventlog.Constraint)) logFault {
	return logFault{
		registerConstraints: func(ctx context.Context, b *broken, req eventlog.RegisterConstraints) (eventlog.Registered, error) {
			if req.Check() != nil {
				return b.EventStore.RegisterConstraints(ctx, req)
			}
			all := slices.Clone(req.Constraints)
			for i := range all {
				sent, _ := json.Marshal(all[i])
				b.shared.put("constraint "+all[i].Name, sent)
				all[i] = copyConstraint(all[i])
				change(&all[i])
			}
			req.Constraints = all
			return b.EventStore.RegisterConstraints(ctx, req)
		},
		definitions: func(ctx context.Context, b *broken, name string) (eventlog.Definitions, error) {
			d, err := b.EventStore.ReadDefinitions(ctx, name)
			for i, one := range d.All {
				if sent, ok := b.shared.get("constraint " + one.Name).([]byte); ok && one.Kind == eventlog.ConstraintDefinition && len(one.Body) > 0 {
					d.All[i].Body = sent
				}
			}
			return d, err
		},
	}
}

// registers is a fault of registrations of event types.
func registers(f func(ctx context.Context, b *broken, req eventlog.RegisterEventTypes) (eventlog.Registered, error)) logFault {
	return logFault{registerTypes: f}
}

// pages shows other pages than the good store.
func pages(change func(b *broken, req eventlog.ReadEvents, page *eventlog.Page)) logFault {
	return logFault{readEvents: func(ctx context.Context, b *broken, req eventlog.ReadEvents) (eventlog.Page, error) {
		page, err := b.EventStore.ReadEvents(ctx, req)
		if err == nil {
			change(b, req, &page)
		}
		return page, err
	}}
}

// shows shows other events than the good store.
func shows(change func(e *eventlog.Event)) logFault {
	return pages(func(_ *broken, _ eventlog.ReadEvents, page *eventlog.Page) {
		for i := range page.Events {
			change(&page.Events[i].Event)
		}
	})
}

// asks reads by another request than the one that was sent.
func asks(change func(req *eventlog.ReadEvents)) logFault {
	return logFault{readEvents: func(ctx context.Context, b *broken, req eventlog.ReadEvents) (eventlog.Page, error) {
		if req.Check() == nil {
			change(&req)
		}
		return b.EventStore.ReadEvents(ctx, req)
	}}
}

// showsReceipts shows other receipts than the good store.
func showsReceipts(change func(r *receipt.Receipt)) logFault {
	return logFault{
		listReceipts: func(ctx context.Context, b *broken, req receipt.ListReceipts) ([]receipt.Receipt, error) {
			all, err := b.ReceiptStore.ListReceipts(ctx, req)
			for i := range all {
				change(&all[i])
			}
			return all, err
		},
		readReceipt: func(ctx context.Context, b *broken, key receipt.Key) (receipt.Result, error) {
			r, err := b.ReceiptStore.ReadReceipt(ctx, key)
			if err == nil {
				change(&r.Receipt)
			}
			return r, err
		},
	}
}

// keysOf stores receipts under other keys than those that were sent, and shows those
// that were sent.
func changesKeys(change func(k receipt.Key) receipt.Key) logFault {
	back := func(b *broken, r *receipt.Receipt) {
		if sent, ok := b.shared.get(fmt.Sprintf("key %q", r.Key)).(receipt.Key); ok {
			r.Key = sent
		}
	}
	to := func(b *broken, k receipt.Key) receipt.Key {
		if k.Check() != nil {
			return k
		}
		changed := change(k)
		b.shared.put(fmt.Sprintf("key %q", changed), k)
		return changed
	}
	return logFault{
		appendWith: func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
			key := to(b, req.Key())
			req.Occurrence, req.Effect = key.Occurrence, key.Effect
			r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
			back(b, &r.Receipt)
			return r, err
		},
		recordEffect: func(ctx context.Context, b *broken, req receipt.RecordEffect) (receipt.Result, error) {
			req.Key = to(b, req.Key)
			r, err := b.ReceiptStore.RecordEffect(ctx, req)
			back(b, &r.Receipt)
			return r, err
		},
	}
}

// recording is a fault of both ways to write a receipt.
func recording(change func(r *receipt.Result)) logFault {
	return logFault{
		appendWith: func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
			r, err := b.ReceiptStore.AppendWithReceipt(ctx, req)
			if err == nil {
				change(&r)
			}
			return r, err
		},
		recordEffect: func(ctx context.Context, b *broken, req receipt.RecordEffect) (receipt.Result, error) {
			r, err := b.ReceiptStore.RecordEffect(ctx, req)
			if err == nil {
				change(&r)
			}
			return r, err
		},
	}
}

// showsObservers shows other observers and partitions than the good store.
func showsObservers(state func(s *eventlog.ObserverState), partition func(p *eventlog.Partition)) logFault {
	return logFault{
		observer: func(ctx context.Context, b *broken, key eventlog.ObserverKey) (eventlog.ObserverState, error) {
			s, err := b.ObserverStore.ReadObserver(ctx, key)
			if err == nil && state != nil {
				state(&s)
			}
			return s, err
		},
		partitions: func(ctx context.Context, b *broken, req eventlog.ReadPartitions) ([]eventlog.Partition, error) {
			all, err := b.ObserverStore.ReadPartitions(ctx, req)
			for i := range all {
				if partition != nil {
					partition(&all[i])
				}
			}
			return all, err
		},
	}
}

// slowly carries appends out in two steps, between which others get in.
func slowly(check func(ctx context.Context, b *broken, req eventlog.AppendEvents) (eventlog.AppendEvents, error)) logFault {
	return onAppend(func(ctx context.Context, b *broken, req eventlog.AppendEvents, next func(eventlog.AppendEvents) (eventlog.Appended, error)) (eventlog.Appended, error) {
		req, err := check(ctx, b, req)
		if err != nil {
			return eventlog.Appended{}, err
		}
		pause()
		return next(req)
	})
}

// dry finds out what an append would come to.
func dry(ctx context.Context, b *broken, req eventlog.AppendEvents) (err error) {
	if b.inTx {
		return nil
	}
	undo := errors.New("undo")
	_ = b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
		_, err = tx.AppendEvents(ctx, req)
		return undo
	})
	return err
}

// once runs f once for each database.
func onceFor(b *broken, key string, f func()) {
	b.shared.Lock()
	o, _ := b.shared.kept[key].(*sync.Once)
	if o == nil {
		o = &sync.Once{}
		b.shared.kept[key] = o
	}
	b.shared.Unlock()
	o.Do(f)
}
