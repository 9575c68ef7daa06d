package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/storetest/netfault"
)

var wireCases = []Case{
	// Whatever message of a request is lost, before the server has it or after it
	// has done what it says: the store's word is true.
	wireCase("each_message_lost_while_the_network_stays", func(w *wired) {
		for _, r := range wireRequests[:5] {
			w.judgeAll(w.loseEach(r, stays))
		}
	}),
	wireCase("each_message_of_a_transaction_lost", func(w *wired) {
		w.judgeAll(w.loseEach(wireRequests[5], stays))
	}, NeedTransactions),
	// A body that goes on after an error, and returns nil, does not make a success
	// of it (B25).
	wireCase("each_message_lost_under_a_body_that_goes_on", func(w *wired) {
		w.judgeAll(w.loseEach(wireRequests[6], stays))
	}, NeedTransactions),
	// The caller gives up, since the network does not come back. Requests in and
	// outside of transactions are judged together: a server may keep what a lost
	// client held for a minute.
	wireCase("each_message_lost_and_the_network_with_it", func(w *wired) {
		which := []int{1, 3} // each takes a client a while, before it gives up
		switch w.far.backend.(type) {
		case *transacting:
			which = []int{1}
		case store.Transactor:
			which = append(which, 5)
		}
		var all []trial
		for _, i := range which {
			all = append(all, w.loseEach(wireRequests[i], goesDown)...)
		}
		w.judgeAll(all)
	}),
	wireCase("thousand_commits_with_faults_at_random", faultsAtRandom),
	wireCase("delayed_messages_and_callers_who_give_up", impatientCallers),
	wireCase("silent_network_ends_with_the_context", silentNetwork),
}

// A wireRequest makes requests on owners whose ids contain a name that no other
// message does. A name has letters, digits and hyphens alone, so that it passes
// the network as it is in most encodings.
type wireRequest struct {
	name     string
	make     func(w *wired, name string) []request
	swallows bool // see trial
}

// prepared returns an owner that far has written to.
func (w *wired) prepared(name string, mode durable.Mode) (subject, durable.Commit) {
	w.Helper()
	o := subject{name, mode}
	w.create(created, o, firstFence)
	c := fullCommit(w.session, o, "m1")
	w.sendFar(c)
	return o, c
}

// sendFar sends a request that is carried out through the proxy, whose connections
// may be lost from the time before.
func (w *wired) sendFar(req request) {
	w.Helper()
	w.step++
	want := w.model.ask(req)
	got := untilAnswered(w.Context(), w.far, []request{req})
	if diff := got.differs([]answer{want}); diff != "" {
		w.failf(describe(req), "on a network that is sound again: %s", diff)
	}
	w.same(describe(req), ownerOf(req))
}

var wireRequests = []wireRequest{
	{name: "create", make: func(_ *wired, name string) []request {
		return []request{durable.CreateOwner{Owner: name, Mode: durable.EventHistory, Fence: firstFence}}
	}},
	{name: "commit", make: func(w *wired, name string) []request {
		o, _ := w.prepared(name, durable.EventHistory)
		return []request{fullCommit(w.session, o, "m2")}
	}},
	{name: "known-effect", make: func(w *wired, name string) []request {
		o, before := w.prepared(name, durable.Snapshot)
		c := w.next(o, "m2")
		c.Effects = before.Effects
		c.Receipts = []durable.TerminalReceipt{terminal("receipt of m2", before.Effects[1].ID)}
		return []request{c}
	}},
	{name: "receipt", make: func(w *wired, name string) []request {
		_, before := w.prepared(name, durable.EventHistory)
		return []request{durable.RecordReceipt{Owner: name, Fence: firstFence, Receipt: terminal("r", before.Effects[1].ID)}}
	}},
	{name: "fence", make: func(w *wired, name string) []request {
		w.prepared(name, durable.Snapshot)
		return []request{durable.AdvanceFence{Owner: name, Fence: firstFence + 1}}
	}},
	{name: "transaction", make: transfer},
	{name: "swallowing", make: transfer, swallows: true},
}

func transfer(w *wired, name string) []request {
	from, _ := w.prepared(name+"-from", durable.EventHistory)
	to, _ := w.prepared(name+"-to", durable.Snapshot)
	return []request{fullCommit(w.session, from, "m2"), fullCommit(w.session, to, "m2")}
}

// network is what becomes of the network when a message is lost.
type network string

const (
	stays    network = "stays" // only that connection is gone
	goesDown network = "down"
)

// loseEach sends a kind of request again and again. Each time it loses one of the
// messages from the first that names the owner on, until there are no more.
func (w *wired) loseEach(kind wireRequest, after network) (trials []trial) {
	w.Helper()
	for _, reached := range []bool{false, true} {
		lose, what := w.proxy.LoseMessageAfter, "lost before the server had it"
		if reached {
			lose, what = w.proxy.LoseReplyAfter, "lost with its answer"
		}
		const tooMany = 100
		for n := 0; ; n++ {
			name := fmt.Sprintf("%s-%d-%t-%s-owner", kind.name, n, reached, after)
			trial := w.newTrial(fmt.Sprintf("%s, message %d %s", kind.name, n, what), kind.make(w, name))
			trial.swallows = kind.swallows
			fault := lose([]byte(name), n)
			struck := w.sendDuring(fault, after, &trial)
			trials = append(trials, trial)
			if !struck {
				if trial.word.err != nil {
					w.failf(trial.what, "nothing was lost, and yet: %v; a handle must connect again by itself after a connection was lost", trial.word.err)
				}
				if n == 0 && !w.dialled.Load() {
					w.failf(trial.what, "no connection was made by OpenOptions.Dial")
				}
				if n == 0 {
					w.failf(trial.what, "no message has the owner %q in it: the connection is encrypted, or compressed, or the id is encoded", name)
				}
				break
			}
			if n == tooMany {
				w.failf(trial.what, "a request of more than %d messages", tooMany)
			}
		}
	}
	return trials
}

// sendDuring sends a trial through the proxy, and reports whether the fault struck.
// A network that goes down comes back when the store has answered; the caller gives
// up meanwhile.
func (w *wired) sendDuring(fault *netfault.Fault, after network, trial *trial) (struck bool) {
	ctx, cancel := context.WithCancel(w.Context())
	answered := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-fault.Struck():
			if after == goesDown {
				w.proxy.Refuse(true)
				w.proxy.Cut()
				cancel()
			}
		case <-answered:
		}
	})
	trial.word = sendAll(ctx, w.far, trial.reqs, trial.swallows)
	struck = !fault.Disarm()
	close(answered)
	wg.Wait()
	cancel()
	w.proxy.Refuse(false)
	if trial.word.err == nil && !trial.swallows {
		if diff := trial.word.differs(trial.first); diff != "" {
			w.failf(trial.what, "%s", diff)
		}
	}
	return struck
}

// faultsAtRandom: none of the commits is lost, none is done twice, and no answer is
// wrong.
func faultsAtRandom(w *wired) {
	const callers, each = 8, 125
	workers := w.hire(callers)
	var wg sync.WaitGroup
	for _, worker := range workers {
		wg.Go(func() {
			var armed *netfault.Fault
			worker.work(w.Context(), func(i int) bool { return i < each }, func() *handle { return w.far }, func(c durable.Commit) {
				if armed != nil {
					armed.Disarm()
				}
				id, piece := []byte(c.Inbox.ID), rand.Int64N(2048) //nolint:gosec // as below
				switch n := rand.IntN(3); rand.IntN(80) {          //nolint:gosec // a test's chances
				case 0, 1:
					armed = w.proxy.LoseReplyAfter(id, n)
				case 2, 3:
					armed = w.proxy.LoseMessageAfter(id, n)
				case 4:
					armed = w.proxy.CutAfter(netfault.ToServer, piece)
				case 5:
					armed = w.proxy.CutAfter(netfault.ToClient, piece)
				case 6:
					w.proxy.Cut()
				}
			})
			if armed != nil {
				armed.Disarm()
			}
		})
	}
	wg.Wait()
	w.dismiss("a thousand commits over a network with faults", workers)
}

// impatientCallers: a context that ends while messages are on their way gives no
// wrong answer.
func impatientCallers(w *wired) {
	w.proxy.Delay(2 * time.Millisecond)
	var trials []trial
	for i := range 40 {
		kind := wireRequests[i%5]
		name := fmt.Sprintf("%s-%d-impatient", kind.name, i)
		trial := w.newTrial(kind.name+" of an impatient caller", kind.make(w, name))
		ctx, cancel := context.WithTimeout(w.Context(), time.Duration(i)*time.Millisecond/2)
		trial.word = sendAll(ctx, w.far, trial.reqs, false)
		cancel()
		trials = append(trials, trial)
	}
	w.proxy.Delay(0)
	w.judgeAll(trials)
}

// silentNetwork: a caller on a half-open connection is let go when its context
// ends, and when the network is back the handle works again.
func silentNetwork(w *wired) {
	var trials []trial
	for _, kind := range wireRequests[:5] {
		name := kind.name + "-silence"
		trial := w.newTrial(kind.name+" on a silent network", kind.make(w, name))
		ctx, cancel := context.WithTimeout(w.Context(), 50*time.Millisecond)
		defer cancel()
		w.proxy.Silence(true)
		ended := make(chan sending, 1)
		go func() { ended <- sendAll(ctx, w.far, trial.reqs, false) }()
		const patience = 10 * time.Second
		select {
		case trial.word = <-ended:
		case <-time.After(patience):
			w.proxy.Cut()
			w.failf(trial.what, "the context ended after 50ms, the call is still there after %v", patience)
		}
		if trial.word.err == nil {
			w.failf(trial.what, "on a silent network it was said to be done")
		}
		w.proxy.Silence(false)
		w.proxy.Cut() // the store may have given these connections up
		trials = append(trials, trial)
	}
	w.judgeAll(trials)
	o := subject{"after the silence", durable.Snapshot}
	w.create(created, o, firstFence)
	w.sendFar(fullCommit(w.session, o, "m1"))
}
