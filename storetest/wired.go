package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
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
	proxy   *netfault.Proxy
	far     *handle
	dialled *atomic.Bool // by the far handle
}

func newWired(t T, h Harness) *wired {
	t.Helper()
	proxy, err := netfault.Listen("")
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	s := newSession(t, h) // its cleanup, which closes far, comes before the proxy's
	dialled := new(atomic.Bool)
	far, err := s.db.openHandle(t.Context(), OpenOptions{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Store(true)
		return proxy.DialContext(ctx, network, address)
	}})
	if err != nil {
		t.Fatalf("open through the proxy: %v", err)
	}
	s.db.handles = append(s.db.handles, far)
	return &wired{session: s, proxy: proxy, far: far, dialled: dialled}
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
	what     string
	reqs     []request
	swallows bool     // the transaction's body goes on after errors, and returns nil
	first    []answer // what they are answered when they are carried out
	repeat   []answer // and what the same requests are answered after that
	word     sending  // what the store said when the network failed
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

// sending is what a store said to requests.
type sending struct {
	answers []answer // as many as were carried out
	err     error
	op      string // what an unknown outcome is about
	owner   string
	early   string // a result that may be acknowledged although err is not nil
}

// sendAll sends requests, several of them in one transaction.
func sendAll(ctx context.Context, hd *handle, reqs []request, swallows bool) sending {
	_, wrapped := hd.backend.(*transacting)
	if len(reqs) == 1 {
		s := sending{answers: []answer{ask(ctx, hd, reqs[0])}, op: opOf(reqs[0]), owner: ownerOf(reqs[0])}
		s.err = s.answers[0].err
		if wrapped {
			s.op, s.owner = durable.OpTransaction, ""
		}
		return s
	}
	s := sending{op: durable.OpTransaction}
	var results []durable.Committed
	s.err = hd.backend.(store.Transactor).Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
		s.answers, results = nil, nil // it may be called again
		for _, req := range reqs {
			c := req.(durable.Commit)
			res, err := tx.CommitOwner(ctx, c)
			if err != nil && !swallows {
				return err
			}
			if err == nil {
				results = append(results, res)
				s.answers = append(s.answers, answerOfCommit(res, nil))
			}
		}
		return nil
	})
	for i, res := range results {
		if s.answers[i].ackSafe = res.AckSafe(); s.err != nil && res.AckSafe() {
			s.early = fmt.Sprintf("the result of a transaction whose outcome is %q may be acknowledged: %+v", s.err, res)
		}
	}
	return s
}

func opOf(req request) string {
	switch req.(type) {
	case durable.CreateOwner:
		return durable.OpCreateOwner
	case durable.AdvanceFence:
		return durable.OpAdvanceFence
	case durable.RecordReceipt:
		return durable.OpRecordReceipt
	}
	return durable.OpCommit
}

// judge reports how the store's word was wrong: the requests are sent again on a
// sound network, and answered.
func (t trial) judge(ctx context.Context, hd *handle) string {
	now := untilAnswered(ctx, hd, t.reqs)
	firstly, again := now.differs(t.first), now.differs(t.repeat)
	err := t.word.err
	word, wrong := kindOf(err)
	unknown, isUnknown := errors.AsType[*durable.UnknownOutcomeError](err)
	switch {
	case wrong != nil:
		return wrong.Error()
	case t.word.early != "":
		return t.word.early
	case err != nil && word != retryable && word != unknownOutcome:
		return fmt.Sprintf("a network that fails is neither retryable nor an unknown outcome: %v", err)
	case word == unknownOutcome && !isUnknown:
		return fmt.Sprintf("want a *durable.UnknownOutcomeError, got %T: %v", err, err)
	case isUnknown && (unknown.Op != t.word.op || unknown.Owner != t.word.owner):
		return fmt.Sprintf("want an unknown outcome of %q, owner %q, got one of %q, owner %q", t.word.op, t.word.owner, unknown.Op, unknown.Owner)
	case firstly != "" && again != "":
		return fmt.Sprintf("after %v, repeated: %s", err, again)
	case err == nil && again != "":
		return "it was said to be done, and is not: " + again
	case word == retryable && firstly != "":
		return fmt.Sprintf("nothing was written, it was said (%v), but something was: %s", err, firstly)
	}
	return ""
}

// differs says how what a store said differs from the answers wanted, or nothing.
func (s sending) differs(want []answer) string {
	for i, w := range want {
		if w.err != nil { // the end of a transaction
			return answer{err: s.err}.named("").differs(answer{err: w.err}.named(""))
		}
		if s.err != nil || i >= len(s.answers) {
			return fmt.Sprintf("want %s, got the error: %v", w, s.err)
		}
		if diff := s.answers[i].differs(w); diff != "" {
			return diff
		}
	}
	return ""
}

// untilAnswered repeats requests until the store answers them. What a lost client
// held the server may keep for a while.
func untilAnswered(ctx context.Context, hd *handle, reqs []request) sending {
	const patience, pause = 150 * time.Second, 5 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		s := sendAll(ctx, hd, reqs, false)
		if !errors.Is(s.err, countersign.ErrRetryable) || ctx.Err() != nil {
			return s
		}
		if time.Now().After(end) {
			s.err = fmt.Errorf("the network is whole, and for %v every call failed: a handle must connect again by itself (Harness.Wire), and a server end what a lost client left: %w", patience, s.err)
			return s
		}
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
