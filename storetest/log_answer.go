package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// Outcomes of requests to the event log, by the names that the fixtures use. Those
// that the durable owner has too are in answer.go.
const (
	appended        = "appended"
	alreadyRecorded = "already_recorded"
	recordedEffect  = "recorded"
	registered      = "registered"
	unchanged       = "unchanged"
	dropped         = "dropped"
	claimed         = "claimed"
	saved           = "saved"
	retried         = "retried"
	replayed        = "replayed"

	violations      = "violations"
	scopesViolated  = "scopes_violated"
	schemaChanged   = "schema_changed"
	schemaError     = "schema_error"
	unknownReceipt  = "unknown_receipt"
	unknownObserver = "unknown_observer"
	observerHeld    = "observer_held"
	staleObserver   = "stale_observer"
	notQuarantined  = "not_quarantined"
)

// logAnswer is what a request to the event log was answered with.
type logAnswer struct {
	value      any // the result, without its settlement
	settlement *countersign.Settlement
	err        error
}

// askLog sends a request to a store.
func askLog(ctx context.Context, hd *handle, req any) logAnswer {
	switch r := req.(type) {
	case eventlog.RegisterEventTypes:
		v, err := hd.events.RegisterEventTypes(ctx, r)
		return answerOfRegistration(v, err)
	case eventlog.RegisterConstraints:
		v, err := hd.events.RegisterConstraints(ctx, r)
		return answerOfRegistration(v, err)
	case eventlog.AppendEvents:
		v, err := hd.events.AppendEvents(ctx, r)
		a := logAnswer{settlement: v.Settlement, err: err}
		v.Settlement = nil
		return a.with(v)
	case countersign.Namespace:
		v, err := hd.events.DropNamespace(ctx, r)
		a := logAnswer{settlement: v.Settlement, err: err}
		v.Settlement = nil
		return a.with(v)
	case receipt.AppendWithReceipt:
		v, err := hd.receipts.AppendWithReceipt(ctx, r)
		return answerOfEffect(v, err)
	case receipt.RecordEffect:
		v, err := hd.receipts.RecordEffect(ctx, r)
		return answerOfEffect(v, err)
	case eventlog.ClaimObserver:
		v, err := hd.observers.ClaimObserver(ctx, r)
		return logAnswer{err: err}.with(v)
	case eventlog.SaveObserver:
		v, err := hd.observers.SaveObserver(ctx, r)
		return logAnswer{err: err}.with(v)
	case eventlog.RetryPartition:
		v, err := hd.observers.RetryPartition(ctx, r)
		return logAnswer{err: err}.with(v)
	case eventlog.ReplayObserver:
		v, err := hd.observers.ReplayObserver(ctx, r)
		return logAnswer{err: err}.with(v)
	}
	panic(fmt.Sprintf("storetest: a request of type %T", req))
}

// with sets the value. Of a refusal it must be the zero one.
func (a logAnswer) with(v any) logAnswer {
	a.value = v
	if a.err != nil && reflect.ValueOf(v).IsZero() {
		a.value = nil
	}
	return a
}

func answerOfRegistration(v eventlog.Registered, err error) logAnswer {
	a := logAnswer{settlement: v.Settlement, err: err}
	v.Settlement = nil
	return a.with(v)
}

func answerOfEffect(v receipt.Result, err error) logAnswer {
	a := logAnswer{settlement: v.Settlement, err: err}
	v.Settlement = nil
	return a.with(v)
}

// outcome names what the answer is.
func (a logAnswer) outcome(req any) string {
	if a.err != nil {
		return logOutcomeOf(a.err)
	}
	switch v := a.value.(type) {
	case eventlog.Registered:
		if !v.Changed {
			return unchanged
		}
		return registered
	case receipt.Result:
		switch {
		case v.AlreadyRecorded:
			return alreadyRecorded
		case v.Receipt.Outcome == receipt.Appended:
			return appended
		}
		return recordedEffect
	case eventlog.Appended:
		return appended
	case eventlog.Dropped:
		return dropped
	}
	switch req.(type) {
	case eventlog.ClaimObserver:
		return claimed
	case eventlog.SaveObserver:
		return saved
	case eventlog.RetryPartition:
		return retried
	}
	return replayed
}

// logOutcomeOf names the outcome that an error stands for.
func logOutcomeOf(err error) string {
	switch {
	case as[*eventlog.SchemaError](err):
		return schemaError
	case errors.Is(err, countersign.ErrMalformed):
		return malformed
	case as[*eventlog.ViolationsError](err):
		return violations
	case as[*eventlog.ScopesViolatedError](err):
		return scopesViolated
	case as[*eventlog.SchemaChangedError](err):
		return schemaChanged
	case as[*receipt.UnknownReceiptError](err):
		return unknownReceipt
	case as[*eventlog.UnknownObserverError](err):
		return unknownObserver
	case as[*eventlog.ObserverHeldError](err):
		return observerHeld
	case as[*eventlog.StaleObserverError](err):
		return staleObserver
	case as[*eventlog.NotQuarantinedError](err):
		return notQuarantined
	}
	return unexpected
}

// logDetails returns what an error says, so that two can be compared field by
// field. Messages are not part of the contract.
func logDetails(err error) any {
	if e, ok := errors.AsType[*eventlog.ViolationsError](err); ok {
		all := slices.Clone(e.Violations)
		for i := range all {
			all[i].Message = ""
		}
		return all
	}
	if e, ok := errors.AsType[*eventlog.ScopesViolatedError](err); ok {
		all := slices.Clone(e.Violations)
		for i := range all {
			if len(all[i].Scope.EventTypes) == 0 {
				all[i].Scope.EventTypes = nil
			}
		}
		return all
	}
	if e, ok := errors.AsType[*eventlog.SchemaChangedError](err); ok {
		return *e
	}
	if e, ok := errors.AsType[*receipt.UnknownReceiptError](err); ok {
		return *e
	}
	if e, ok := errors.AsType[*eventlog.UnknownObserverError](err); ok {
		return *e
	}
	if e, ok := errors.AsType[*eventlog.ObserverHeldError](err); ok {
		held := *e
		held.Until = held.Until.UTC()
		return held
	}
	if e, ok := errors.AsType[*eventlog.StaleObserverError](err); ok {
		return *e
	}
	if e, ok := errors.AsType[*eventlog.NotQuarantinedError](err); ok {
		return *e
	}
	return nil
}

// differs says how an answer differs from the one wanted, or nothing.
func (a logAnswer) differs(req any, want logAnswer) string {
	if got, wanted := a.outcome(req), want.outcome(req); got != wanted {
		return fmt.Sprintf("want %s, got %s", want.show(req), a.show(req))
	}
	if a.err != nil {
		if _, wrong := kindOf(a.err); wrong != nil {
			return wrong.Error()
		}
		if a.value != nil {
			return fmt.Sprintf("a refusal came with a result: %s", a.show(req))
		}
		if got, wanted := logDetails(a.err), logDetails(want.err); !reflect.DeepEqual(got, wanted) {
			return fmt.Sprintf("the error says other things:\n%s", diffLines(showDetails(wanted), showDetails(got)))
		}
		if e, ok := errors.AsType[*eventlog.ViolationsError](a.err); ok && slices.ContainsFunc(e.Violations, func(v eventlog.Violation) bool { return v.Message == "" }) {
			return "a violation has no message"
		}
		return ""
	}
	if got, wanted := showValue(a.value), showValue(want.value); got != wanted {
		return fmt.Sprintf("the result is another one:\n%s", diffLines(wanted, got))
	}
	if !a.settlement.Settled() {
		return fmt.Sprintf("the result is not settled: %s", a.show(req))
	}
	return ""
}

func (a logAnswer) show(req any) string {
	if a.err != nil {
		return fmt.Sprintf("%s (%v)", a.outcome(req), a.err)
	}
	return fmt.Sprintf("%s: %s", a.outcome(req), showValue(a.value))
}
