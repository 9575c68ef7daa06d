package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/storetest/netfault"
)

var logWireCases = []Case{
	// Whatever message of an append is lost, the store's word is true: nothing was
	// written, or it was, or it is not known and says how to find out.
	effectWireCase("each_message_of_an_append_with_receipt_lost", func(w *wired) { w.loseEachOf(lostEffect) }),
	effectWireCase("each_message_of_an_append_lost", func(w *wired) { w.loseEachOf(lostAppend) }),
	// The answers of hundreds of appends are lost at random. Each effect is there
	// once, and every retry gets the first response.
	effectWireCase("effects_with_faults_at_random", effectsWithFaults),
}

// wiredNamespace is where these cases append.
var wiredNamespace = countersign.Namespace{EventStore: "wired", Name: "effects"}

func effectWireCase(name string, body func(w *wired)) Case {
	return Case{Group: "wire", Name: name, Needs: []Need{NeedOwners, NeedEvents, NeedReceipts, NeedWire}, Run: func(t T, h Harness) {
		t.Helper()
		w := newWired(t, h)
		_, err := w.store.events.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{
			EventStore: wiredNamespace.EventStore, Types: []eventlog.EventType{{ID: "happened", Schema: []byte(`true`)}},
		})
		if err != nil {
			t.Fatalf("register: %v", err)
		}
		body(w)
	}}
}

// An attempt is one append of a name, with content that no other attempt has.
type attempt struct {
	name    string
	content string
}

func (a attempt) events() eventlog.AppendEvents {
	return eventlog.AppendEvents{Sequence: eventlog.Log(wiredNamespace), Events: []eventlog.Event{
		{Type: "happened", Source: a.name, Content: []byte(a.content)}, {Type: "happened", Source: a.name, Content: []byte(a.content)},
	}}
}

func (a attempt) effect() receipt.AppendWithReceipt {
	return receipt.AppendWithReceipt{AppendEvents: a.events(), Occurrence: a.name, Effect: "effect", Response: []byte(a.content)}
}

// lost sends one append through the proxy while one of its messages is lost, and
// judges what the store says. It returns nothing if all is well.
type lost func(ctx context.Context, w *wired, name string) (wrong string, err error)

// loseEachOf loses each message in turn that follows the name, until there are no
// more.
func (w *wired) loseEachOf(send lost) {
	w.Helper()
	for _, reached := range []bool{false, true} {
		lose := w.proxy.LoseMessageAfter
		if reached {
			lose = w.proxy.LoseReplyAfter
		}
		const tooMany = 100
		for n := 0; ; n++ {
			w.step++
			name := fmt.Sprintf("lost-%d-%t-message", n, reached)
			what := fmt.Sprintf("message %d lost, reached the server: %t", n, reached)
			fault := lose([]byte(name), n)
			wrong, err := send(w.Context(), w, name)
			struck := !fault.Disarm()
			switch {
			case wrong != "":
				w.failf(what, "%s", wrong)
			case !struck && err != nil:
				w.failf(what, "nothing was lost, and yet: %v", err)
			case !struck && n == 0:
				w.failf(what, "no message has the occurrence and source %q in it", name)
			case n == tooMany:
				w.failf(what, "an append of more than %d messages", tooMany)
			}
			if !struck {
				break
			}
		}
	}
}

// held returns the contents of the events of a source, once nothing of a lost client
// is under way any more, which an append to the sequence has to wait for.
func (w *wired) held(ctx context.Context, name string) ([]eventlog.Recorded, error) {
	after := attempt{name: name + "-after", content: `"after"`}
	if _, err := untilEffect(ctx, w.store, after); err != nil {
		return nil, err
	}
	var all []eventlog.Recorded
	for e, err := range eventlog.Events(ctx, w.store.events, eventlog.ReadEvents{Sequence: eventlog.Log(wiredNamespace), Filter: eventlog.Filter{Source: name}}) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// untilEffect appends with a receipt until it is answered.
func untilEffect(ctx context.Context, hd *handle, a attempt) (receipt.Result, error) {
	const patience, pause = 150 * time.Second, 5 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		res, err := hd.receipts.AppendWithReceipt(ctx, a.effect())
		again := errors.Is(err, countersign.ErrRetryable) || errors.Is(err, countersign.ErrUnknownOutcome)
		if !again || ctx.Err() != nil || time.Now().After(end) {
			return res, err
		}
	}
}

// lostEffect is an append with a receipt.
func lostEffect(ctx context.Context, w *wired, name string) (string, error) {
	first, second := attempt{name, `{"attempt": 1}`}, attempt{name, `{"attempt": 2}`}
	res, err := w.far.receipts.AppendWithReceipt(ctx, first.effect())
	if wrong := wordOfEffect(w, err, name); wrong != "" {
		return wrong, err
	}
	switch {
	case err == nil && (res.AlreadyRecorded || !res.AckSafe() || string(res.Receipt.Response) != first.content):
		return fmt.Sprintf("a first append was answered %+v", res), err
	case err != nil && res.Receipt.Outcome != "":
		return fmt.Sprintf("an error came with a result: %+v, %v", res, err), err
	}
	before, readErr := w.held(ctx, name)
	if readErr != nil {
		return readErr.Error(), err
	}
	again, repeatErr := untilEffect(ctx, w.store, second)
	if repeatErr != nil {
		return fmt.Sprintf("repeated on a sound network: %v", repeatErr), err
	}
	switch {
	case again.AlreadyRecorded != (len(before) > 0):
		return fmt.Sprintf("there were %d events, and the repetition was answered %+v", len(before), again), err
	case err == nil && !again.AlreadyRecorded:
		return "it was said to be done, and is not", err
	case errors.Is(err, countersign.ErrRetryable) && again.AlreadyRecorded:
		return fmt.Sprintf("nothing was written, it was said (%v), but something was", err), err
	}
	want := second.content
	if again.AlreadyRecorded {
		want = first.content
	}
	events, readErr := w.held(ctx, name)
	if readErr != nil {
		return readErr.Error(), err
	}
	if string(again.Receipt.Response) != want || len(events) != 2 || string(events[0].Content) != want || again.Receipt.First != events[0].Number || again.Receipt.Last != events[1].Number {
		return fmt.Sprintf("want the receipt and two events of %s, got %+v and %+v", want, again.Receipt, events), err
	}
	return "", err
}

// wordOfEffect says what is wrong with the error of an append with a receipt.
func wordOfEffect(w *wired, err error, name string) string {
	word, wrong := kindOf(err)
	unknown, isUnknown := errors.AsType[*receipt.UnknownOutcomeError](err)
	_, wrapped := w.far.backend.(*transacting)
	switch {
	case wrong != nil:
		return wrong.Error()
	case err != nil && word != retryable && word != unknownOutcome:
		return fmt.Sprintf("a network that fails is neither retryable nor an unknown outcome: %v", err)
	case word != unknownOutcome:
		return ""
	case wrapped:
		return wordOfTransaction(err)
	case !isUnknown || unknown.Key.Occurrence != name || unknown.Key.Namespace != wiredNamespace:
		return fmt.Sprintf("want a *receipt.UnknownOutcomeError of %q, got %T: %v", name, err, err)
	}
	return ""
}

func wordOfTransaction(err error) string {
	if unknown, ok := errors.AsType[*durable.UnknownOutcomeError](err); !ok || unknown.Op != durable.OpTransaction {
		return fmt.Sprintf("want a *durable.UnknownOutcomeError of a transaction, got %T: %v", err, err)
	}
	return ""
}

// lostAppend is an append without a receipt, which nobody may repeat: where its
// outcome is unknown, the error says from where on its events are found.
func lostAppend(ctx context.Context, w *wired, name string) (string, error) {
	a := attempt{name, `{"attempt": 1}`}
	res, err := w.far.events.AppendEvents(ctx, a.events())
	word, wrong := kindOf(err)
	_, wrapped := w.far.backend.(*transacting)
	unknown, isUnknown := errors.AsType[*eventlog.UnknownOutcomeError](err)
	events, readErr := w.held(ctx, name)
	switch {
	case readErr != nil:
		return readErr.Error(), err
	case wrong != nil:
		return wrong.Error(), err
	case err == nil && (len(events) != 2 || res.First != events[0].Number || res.Last != events[1].Number || !res.AckSafe()):
		return fmt.Sprintf("it was answered %+v, and there is %+v", res, events), err
	case word == retryable && len(events) > 0:
		return fmt.Sprintf("nothing was written, it was said (%v), but something was", err), err
	case err != nil && word != retryable && word != unknownOutcome:
		return fmt.Sprintf("a network that fails is neither retryable nor an unknown outcome: %v", err), err
	case word == unknownOutcome && wrapped:
		return wordOfTransaction(err), err
	case word == unknownOutcome && (!isUnknown || unknown.Op != eventlog.OpAppend || unknown.Sequence != eventlog.Log(wiredNamespace)):
		return fmt.Sprintf("want an *eventlog.UnknownOutcomeError of an append to the sequence, got %T: %v", err, err), err
	case isUnknown && len(events) > 0 && unknown.From > events[0].Number:
		return fmt.Sprintf("the error says to look from %d on, and the events are at %d", unknown.From, events[0].Number), err
	case len(events) != 0 && len(events) != 2:
		return fmt.Sprintf("half of the append is there: %+v", events), err
	}
	return "", err
}

// effectsWithFaults sends effects through a network that fails at random.
func effectsWithFaults(w *wired) {
	const callers, each = 8, 25
	together(w.T, callers, func(caller int) error {
		var armed *netfault.Fault
		for i := range each {
			name := fmt.Sprintf("fault-%d-%d-effect", caller, i)
			first := ""
			for try := 1; try <= 100; try++ {
				if armed != nil {
					armed.Disarm()
					armed = nil
				}
				switch n := rand.IntN(3); rand.IntN(8) { //nolint:gosec // a test's chances
				case 0, 1:
					armed = w.proxy.LoseReplyAfter([]byte(name), n)
				case 2:
					armed = w.proxy.LoseMessageAfter([]byte(name), n)
				case 3:
					w.proxy.Cut()
				}
				res, err := w.far.receipts.AppendWithReceipt(w.Context(), attempt{name, fmt.Sprintf(`{"attempt": %d}`, try)}.effect())
				if err == nil {
					if first != "" && string(res.Receipt.Response) != first {
						return fmt.Errorf("effect %s was answered %s, and later %s", name, first, res.Receipt.Response)
					}
					if first != "" || rand.IntN(4) > 0 { //nolint:gosec // some are sent again
						break
					}
					first = string(res.Receipt.Response)
					continue
				}
				if !errors.Is(err, countersign.ErrRetryable) && !errors.Is(err, countersign.ErrUnknownOutcome) {
					return fmt.Errorf("effect %s: %w", name, err)
				}
			}
		}
		if armed != nil {
			armed.Disarm()
		}
		return nil
	})
	w.judgeEffects(callers, each)
}

// judgeEffects compares events and receipts: each effect's are of one attempt, once.
func (w *wired) judgeEffects(callers, each int) {
	w.Helper()
	held := map[string][]eventlog.Recorded{}
	next := uint64(0)
	for e, err := range eventlog.Events(w.Context(), w.store.events, eventlog.ReadEvents{Sequence: eventlog.Log(wiredNamespace)}) {
		if err != nil || e.Number != next {
			w.failf("read", "want event %d, got %d, %v", next, e.Number, err)
		}
		next++
		held[e.Source] = append(held[e.Source], e)
	}
	for caller := range callers {
		for i := range each {
			name := fmt.Sprintf("fault-%d-%d-effect", caller, i)
			r, err := w.store.receipts.ReadReceipt(w.Context(), attempt{name: name}.effect().Key())
			events := held[name]
			if err != nil || len(events) != 2 || string(events[0].Content) != string(r.Receipt.Response) || r.Receipt.First != events[0].Number || r.Receipt.Last != events[1].Number {
				w.failf(name, "its receipt %+v (%v) and its events %+v are not of one attempt, once", r.Receipt, err, events)
			}
		}
	}
}
