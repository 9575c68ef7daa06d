package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// dropping is a fault of drops.
func dropping(f func(ctx context.Context, b *broken, ns countersign.Namespace) (eventlog.Dropped, error)) logFault {
	return logFault{drop: f}
}

var namespaceMutants = []mutant{
	logMutant("a drop leaves receipts", dropping(func(ctx context.Context, b *broken, ns countersign.Namespace) (eventlog.Dropped, error) {
		key := receipt.Key{Namespace: ns, Occurrence: "p", Effect: "effect"}
		left, lost := b.ReceiptStore.ReadReceipt(ctx, key)
		d, err := b.EventStore.DropNamespace(ctx, ns)
		if err == nil && lost == nil {
			r := left.Receipt
			_, _ = b.ReceiptStore.RecordEffect(ctx, receipt.RecordEffect{Effect: receipt.Effect{Key: key, Epoch: r.Epoch}, Reasons: r.Reasons, Response: r.Response})
		}
		return d, err
	}), "namespace/drop_takes_everything_of_it_and_nothing_else", "namespace/new_life_begins_at_zero", "namespace/drop_again_finds_nothing"),
	logMutant("a drop takes what is called alike", dropping(func(ctx context.Context, b *broken, ns countersign.Namespace) (eventlog.Dropped, error) {
		d, err := b.EventStore.DropNamespace(ctx, ns)
		ns.Name = strings.ToUpper(ns.Name)
		if ns.Check() == nil {
			_, _ = b.EventStore.DropNamespace(ctx, ns)
		}
		return d, err
	}), "namespace/drop_takes_everything_of_it_and_nothing_else"),
	logMutant("a drop counts no events", dropping(func(ctx context.Context, b *broken, ns countersign.Namespace) (eventlog.Dropped, error) {
		d, err := b.EventStore.DropNamespace(ctx, ns)
		d.Events = 0
		return d, err
	}), "namespace/drop_takes_everything_of_it_and_nothing_else"),
	logMutant("numbers go on after a drop", dropping(func(ctx context.Context, b *broken, ns countersign.Namespace) (eventlog.Dropped, error) {
		d, err := b.EventStore.DropNamespace(ctx, ns)
		if d.Events > 0 {
			_, _ = b.EventStore.AppendEvents(ctx, eventlog.AppendEvents{Sequence: eventlog.Sequence{Namespace: ns, Name: "orders"}, Events: []eventlog.Event{note("tombstone", `1`)}})
		}
		return d, err
	}), "namespace/new_life_begins_at_zero", "log_atomically/drop_inside_begins_a_new_life"),
	logMutant("a drop takes the constraints too", dropping(func(ctx context.Context, b *broken, ns countersign.Namespace) (eventlog.Dropped, error) {
		d, err := b.EventStore.DropNamespace(ctx, ns)
		if err == nil {
			_, _ = b.EventStore.RegisterConstraints(ctx, eventlog.RegisterConstraints{EventStore: ns.EventStore, Remove: []string{"name"}})
		}
		return d, err
	}), "namespace/definitions_outlive_a_drop"),
	logMutant("drops what has no name", dropping(func(ctx context.Context, b *broken, ns countersign.Namespace) (eventlog.Dropped, error) {
		if ns.Check() != nil {
			return eventlog.Dropped{}, nil
		}
		return b.EventStore.DropNamespace(ctx, ns)
	}), "namespace/malformed_name_is_refused"),
	logMutant("writes events and receipt one after the other", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		if _, err := b.EventStore.AppendEvents(ctx, req.AppendEvents); err != nil {
			return receipt.Result{}, err
		}
		pause()
		req.Events = nil
		return b.ReceiptStore.AppendWithReceipt(ctx, req)
	}), "namespace/append_beside_a_drop_is_before_or_after_it", "log_concurrency/one_receipt_has_one_winner"),
}

// commitsAnyway commits what the body of a transaction gave up.
func commitsAnyway(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
	var failed error
	return errors.Join(b.handle.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
		failed = body(ctx, b.within(tx))
		return nil
	}), failed)
}

var logTransactionMutants = []mutant{
	{"commits what the body gave up", []string{"log_atomically/error_of_the_body_rolls_back", "join/both_are_rolled_back_together", "join/concurrent_joins_are_whole", "log_random/transactions_follow_the_contract"}, fault{atomically: commitsAnyway}},
	{"a transaction is none", []string{"log_atomically/readers_outside_see_nothing_until_the_commit", "log_atomically/results_settle_with_the_commit"}, fault{
		atomically: func(ctx context.Context, b *broken, body func(context.Context, store.Backend) error) error {
			return body(ctx, b.within(b.handle))
		},
	}},
	logMutant("a record inside a transaction is not written", recordedWith(func(ctx context.Context, b *broken, req receipt.RecordEffect) (receipt.Result, error) {
		if !b.inTx || req.Check() != nil {
			return b.ReceiptStore.RecordEffect(ctx, req)
		}
		r, err := b.ReceiptStore.RecordEffect(ctx, receipt.RecordEffect{Effect: receipt.Effect{Key: receipt.Key{Namespace: req.Namespace, Occurrence: "nobody's", Effect: req.Key.Effect}, Epoch: req.Epoch}, Reasons: req.Reasons, Response: req.Response})
		r.Receipt.Key = req.Key
		return r, err
	}), "log_atomically/everything_of_it_commits_together", "join/owner_and_append_commit_together"),
	logMutant("reads inside a transaction see nothing of it", logFault{readEvents: func(ctx context.Context, b *broken, req eventlog.ReadEvents) (eventlog.Page, error) {
		if b.inTx {
			return b.handle.ReadEvents(ctx, req)
		}
		return b.EventStore.ReadEvents(ctx, req)
	}}, "log_atomically/reads_inside_see_its_writes", "log_random/transactions_follow_the_contract"),
	logMutant("judges no scopes inside a transaction", judges(func(b *broken, req eventlog.AppendEvents) []eventlog.Scope {
		if b.inTx && req.Check() == nil {
			return nil
		}
		return req.Scopes
	}), "log_atomically/appends_inside_follow_each_other", "log_atomically/refusal_leaves_it_usable"),
	logMutant("waits inside a transaction for nothing", logFault{await: func(ctx context.Context, b *broken, req eventlog.AwaitEvents) error {
		if b.inTx {
			return nil
		}
		return b.EventStore.AwaitEvents(ctx, req)
	}}, "log_atomically/waiting_inside_is_refused_and_not_hung"),
	logMutant("a drop inside a transaction leaves the observers", dropping(func(ctx context.Context, b *broken, ns countersign.Namespace) (eventlog.Dropped, error) {
		d, err := b.EventStore.DropNamespace(ctx, ns)
		if b.inTx && err == nil && ns.Check() == nil {
			_, _ = b.ObserverStore.ClaimObserver(ctx, eventlog.ClaimObserver{Key: eventlog.ObserverKey{Sequence: eventlog.Sequence{Namespace: ns, Name: "orders"}, Name: "mailer"}, Holder: "left"})
		}
		return d, err
	}), "log_atomically/drop_inside_begins_a_new_life"),
	logMutant("keeps no receipt inside a transaction", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		if b.inTx && req.Check() == nil {
			return noReceipt(ctx, b, req)
		}
		return b.ReceiptStore.AppendWithReceipt(ctx, req)
	}), "join/owner_and_append_commit_together", "join/redelivery_finds_both", "join/concurrent_joins_are_whole"),
}

var logRaceMutants = []mutant{
	logMutant("events become visible out of order", pages(func(b *broken, req eventlog.ReadEvents, page *eventlog.Page) {
		if n := len(page.Events); n > 1 && req.Limit == 0 {
			onceFor(b, fmt.Sprintf("seen %d", page.Events[n-2].Number), func() { page.Events = slices.Delete(page.Events, n-2, n-1) })
		}
	}), "log_concurrency/readers_never_see_a_gap"),
	logMutant("looks for a receipt, and then writes", withReceipt(func(ctx context.Context, b *broken, req receipt.AppendWithReceipt) (receipt.Result, error) {
		found, err := b.ReceiptStore.ReadReceipt(ctx, req.Key())
		if err == nil {
			return found, nil
		}
		pause()
		return noReceipt(ctx, b, req)
	}), "log_concurrency/one_receipt_has_one_winner"),
	logMutant("looks for a value, and then writes", slowly(func(ctx context.Context, b *broken, req eventlog.AppendEvents) (eventlog.AppendEvents, error) {
		if err := dry(ctx, b, req); err != nil {
			return req, err
		}
		req = copyAppend(req)
		for i := range req.Events {
			req.Events[i].Type = noted
		}
		return req, nil
	}), "log_concurrency/unique_value_has_one_holder"),
	logMutant("looks at the scopes, and then writes", slowly(func(ctx context.Context, b *broken, req eventlog.AppendEvents) (eventlog.AppendEvents, error) {
		err := dry(ctx, b, req)
		req.Scopes = nil
		return req, err
	}), "log_concurrency/scope_lets_one_through"),
	logMutant("takes the next number before it writes", onAppend(func(ctx context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		tail, err := b.EventStore.ReadTail(ctx, eventlog.ReadTail{Sequence: req.Sequence})
		pause()
		a, failed := next(req)
		if err == nil && failed == nil && a.Count > 0 {
			a.First, a.Last = tail.Next, tail.Next+uint64(a.Count)-1
		}
		return a, failed
	}), "log_concurrency/new_sequences_begin_at_zero_once", "log_concurrency/readers_never_see_a_gap"),
	logMutant("a handle keeps the constraints that it knows", func() logFault {
		free := accepts(only(isUnique))
		return logFault{
			readEvents: restored,
			append: func(ctx context.Context, b *broken, req eventlog.AppendEvents) (eventlog.Appended, error) {
				known, _ := b.local.Load().(eventlog.Definitions)
				if known.Revision == 0 {
					known, _ = b.EventStore.ReadDefinitions(ctx, req.Sequence.Namespace.EventStore)
					b.local.Store(known)
				}
				if known.Constraints == 0 {
					return free.append(ctx, b, req)
				}
				return b.EventStore.AppendEvents(ctx, req)
			},
		}
	}(), "log_concurrency/constraint_registered_under_load_holds", "schema/registration_by_another_handle_counts_at_once"),
	logMutant("a refusal fails its neighbours", onAppend(func(_ context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		before := b.shared.n.Load()
		a, err := next(req)
		if err != nil && req.Check() == nil {
			b.shared.n.Add(1)
		}
		pause()
		if err == nil && b.shared.n.Load() > before {
			return eventlog.Appended{}, &eventlog.ViolationsError{Violations: []eventlog.Violation{{Kind: eventlog.UnknownEventType, Message: "a neighbour's"}}}
		}
		return a, err
	}), "log_concurrency/refused_neighbours_harm_nobody"),
	logMutant("loses the second append of a transaction", onAppend(func(_ context.Context, b *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		if b.inTx && req.Sequence.Name == "another" {
			return eventlog.Appended{Sequence: "another", Count: 1}, nil
		}
		return next(req)
	}), "log_concurrency/crossing_transactions_are_whole"),
	logMutant("takes the end of a context for success", onAppend(func(_ context.Context, _ *broken, req eventlog.AppendEvents, next next) (eventlog.Appended, error) {
		a, err := next(req)
		if errors.Is(err, context.DeadlineExceeded) {
			return eventlog.Appended{Sequence: "orders"}, nil
		}
		return a, err
	}), "log_atomically/context_ended_while_waiting_gives_no_wrong_result"),
	logMutant("forgets the stream id of a scope", eachScope(func(s *eventlog.Scope) { s.StreamID = "" }), "log_random/histories_follow_the_contract"),
	logMutant("tells the last of an event's violations", tells(func(_ eventlog.AppendEvents, all []eventlog.Violation) []eventlog.Violation { return all[len(all)-1:] }), "log_random/histories_follow_the_contract"),
}
