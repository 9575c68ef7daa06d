package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

var killCases = []Case{
	{Group: "kill", Name: "acknowledged_work_survives_the_server", Needs: []Need{NeedOwners, NeedKill}, Run: func(t T, h Harness) {
		s := newSession(t, h)
		for _, o := range subjects {
			s.create(created, o, firstFence)
			for i := range 3 {
				c := fullCommit(s, o, fmt.Sprintf("m%d", i))
				s.commit(committed, c)
				s.kill()
				s.commit(duplicate, c)
				s.record(recorded, o, firstFence+uint64(i), terminal(fmt.Sprintf("r%d", i), fmt.Sprintf("pending of m%d", i)))
				s.kill()
				s.advance(fenceAdvanced, o, firstFence+uint64(i)+1)
				s.kill()
			}
		}
	}},
	// The handle outlives the server: it says so, or connects again. A request
	// that was on its way is answered truly.
	{Group: "kill", Name: "old_handle_gives_no_wrong_result", Needs: []Need{NeedOwners, NeedKill}, Run: func(t T, h Harness) {
		s := newSession(t, h)
		o := subjects[0]
		s.create(created, o, firstFence)
		s.commit(committed, fullCommit(s, o, "m0"))
		for i := range 3 {
			if err := s.db.h.Kill(t.Context(), s.store.backend); err != nil {
				t.Fatalf("Harness.Kill: %v", err)
			}
			c := fullCommit(s, o, fmt.Sprintf("after %d", i))
			var got durable.Committed
			err := taken(t.Context(), func() (err error) {
				got, err = s.store.CommitOwner(t.Context(), c)
				return err
			})
			if err != nil {
				if _, wrong := kindOf(err); wrong != nil {
					s.failf(describe(c), "on a handle whose server was killed: %v", wrong)
				}
				s.db.close()
				s.store = s.db.handle()
				if got, err = s.store.CommitOwner(t.Context(), c); err != nil {
					s.failf(describe(c), "repeated on another handle: %v", err)
				}
			}
			s.model.ask(c)
			if got.Through != s.model[o.id].Position || !got.AckSafe() {
				s.failf(describe(c), "the store answered %+v", got)
			}
			s.same(describe(c), o.id)
		}
	}},
	{Group: "kill", Name: "callers_under_load_learn_the_truth", Needs: []Need{NeedOwners, NeedKill}, Run: killedUnderLoad},
}

// killedUnderLoad kills the server three times while callers commit. Each has a
// handle of its own, and opens another after an error.
func killedUnderLoad(t T, h Harness) {
	t.Helper()
	s := newSession(t, h)
	const callers, kills, between = 8, 3, 40 // commits between kills
	workers := s.hire(callers)
	var sent atomic.Int64
	var over atomic.Bool
	due := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			var mine *handle
			reopen := func() *handle {
				if mine != nil {
					_ = mine.backend.Close()
				}
				mine = w.openPatiently()
				return mine
			}
			w.work(t.Context(), func(int) bool { return !over.Load() }, reopen, func(durable.Commit) {
				if sent.Add(1)%between == 0 {
					select {
					case due <- struct{}{}:
					default:
					}
				}
			})
			if mine != nil {
				_ = mine.backend.Close()
			}
		})
	}
	gone := make(chan struct{})
	go func() { wg.Wait(); close(gone) }()
	for range kills {
		select {
		case <-due:
		case <-gone: // they have failed, and said so
		}
		if err := h.Kill(t.Context(), s.store.backend); err != nil {
			t.Errorf("Harness.Kill: %v", err)
			break
		}
	}
	over.Store(true)
	<-gone
	s.db.drop()
	s.store = s.db.handle()
	s.dismiss(fmt.Sprintf("%d kills of the server under load", kills), workers)
}

// openPatiently opens a handle on a server that may just be starting. It reports
// why it can't, and returns nil then.
func (w *worker) openPatiently() *handle {
	const patience, pause = time.Minute, 5 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		hd, err := w.db.openHandle(w.Context(), OpenOptions{})
		if err == nil {
			return hd
		}
		if !errors.Is(err, countersign.ErrRetryable) || time.Now().After(end) {
			w.Errorf("open while the server was killed: %v", err)
			return nil
		}
	}
}

// kill ends the server's process and goes on with a handle opened anew.
func (s *session) kill() {
	s.Helper()
	s.step++
	if err := s.db.h.Kill(s.Context(), s.store.backend); err != nil {
		s.failf("kill", "Harness.Kill: %v", err)
	}
	// A handle whose server is gone may say so when it is closed.
	s.db.drop()
	s.store = s.db.handle()
	s.sameAll("after the server was killed")
}
