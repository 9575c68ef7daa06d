package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/storetest/netfault"
)

// wired is a session with one more handle, far, whose connections go through a
// proxy that misbehaves. The session's own handle has a sound network.
type wired struct {
	*session
	proxy *netfault.Proxy
	far   *handle
}

func newWired(t T, h Harness) *wired {
	t.Helper()
	proxy, err := netfault.Listen("")
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	s := newSession(t, h) // its cleanup, which closes far, comes before the proxy's
	far, err := s.db.openHandle(t.Context(), OpenOptions{Dial: proxy.DialContext})
	if err != nil {
		t.Fatalf("open through the proxy: %v", err)
	}
	s.db.handles = append(s.db.handles, far)
	return &wired{session: s, proxy: proxy, far: far}
}

// wireCase is a case on a wired session. At its end the store is opened again and
// must still hold the same.
func wireCase(name string, body func(w *wired), needs ...Need) Case {
	return Case{Group: "wire", Name: name, Needs: append([]Need{NeedOwners, NeedWire}, needs...), Run: func(t T, h Harness) {
		t.Helper()
		w := newWired(t, h)
		body(w)
		w.reopen()
	}}
}

// A trial is requests that were sent while the network failed: one, or several in
// one transaction.
type trial struct {
	what   string
	reqs   []request
	first  []answer // what they are answered when they are carried out
	repeat []answer // and what the same requests are answered after that
	err    error    // what the store said when the network failed, nil for success
}

// newTrial asks the model, which then holds what the store has to in the end.
func (w *wired) newTrial(what string, reqs []request) trial {
	t := trial{what: what, reqs: reqs}
	for _, answers := range []*[]answer{&t.first, &t.repeat} {
		for _, req := range reqs {
			*answers = append(*answers, w.model.ask(req))
		}
	}
	return t
}

// sendAll sends requests, several of them in one transaction.
func sendAll(ctx context.Context, hd *handle, reqs []request) (answers []answer, err error) {
	if len(reqs) == 1 {
		a := ask(ctx, hd, reqs[0])
		return []answer{a}, a.err
	}
	err = hd.backend.(store.Transactor).Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
		answers = answers[:0] // it may be called again
		for _, req := range reqs {
			a := ask(ctx, tx.(durable.Store), req)
			if a.err != nil {
				return a.err
			}
			answers = append(answers, a)
		}
		return nil
	})
	if err == nil { // what a transaction has settled is settled now
		for i := range answers {
			answers[i].ackSafe = true
		}
	}
	return answers, err
}

// judge reports how the store's word was wrong: the requests are sent again on a
// sound network, and answered.
func (t trial) judge(ctx context.Context, hd *handle) string {
	answers, err := untilAnswered(ctx, hd, t.reqs)
	firstly, again := match(answers, err, t.first), match(answers, err, t.repeat)
	word, wrong := kindOf(t.err)
	switch {
	case wrong != nil:
		return wrong.Error()
	case firstly != "" && again != "":
		return fmt.Sprintf("after %v, repeated: %s", t.err, again)
	case t.err == nil && again != "":
		return "it was said to be done, and is not: " + again
	case word == retryable && firstly != "":
		return fmt.Sprintf("nothing was written, it was said (%v), but something was: %s", t.err, firstly)
	case t.err != nil && word != retryable && word != unknownOutcome:
		return fmt.Sprintf("a network that fails is neither retryable nor an unknown outcome: %v", t.err)
	}
	return ""
}

// match says how answers differ from those wanted, or nothing.
func match(got []answer, err error, want []answer) string {
	for i, w := range want {
		if w.err != nil { // the end of a transaction
			return answer{err: err}.named("").differs(answer{err: w.err}.named(""))
		}
		if err != nil {
			return fmt.Sprintf("want %s, got the error: %v", w, err)
		}
		if diff := got[i].differs(w); diff != "" {
			return diff
		}
	}
	return ""
}

// untilAnswered repeats requests until the store answers them. What a lost client
// held the server may keep for a while.
func untilAnswered(ctx context.Context, hd *handle, reqs []request) (answers []answer, err error) {
	const patience, pause = 3 * time.Minute, 5 * time.Millisecond
	for end := time.Now().Add(patience); ; {
		answers, err = sendAll(ctx, hd, reqs)
		if !errors.Is(err, countersign.ErrRetryable) || time.Now().After(end) || ctx.Err() != nil {
			return answers, err
		}
		time.Sleep(pause)
	}
}

// judgeAll judges trials at the same time, since they may have to wait for the same
// thing, and compares their owners.
func (w *wired) judgeAll(trials []trial) {
	w.Helper()
	verdicts := make([]string, len(trials))
	var wg sync.WaitGroup
	for i, t := range trials {
		wg.Go(func() { verdicts[i] = t.judge(w.Context(), w.store) })
	}
	wg.Wait()
	for i, t := range trials {
		w.step++
		if verdicts[i] != "" {
			w.failf(t.what, "%s", verdicts[i])
		}
		for _, req := range t.reqs {
			w.same(t.what, ownerOf(req))
		}
	}
}
