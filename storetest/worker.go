package storetest

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/durable"
)

// A worker commits to an owner of its own, and repeats each commit until it is
// answered. It must be told the truth all the time.
type worker struct {
	*session
	owner    subject
	unknowns int // unknown outcomes
	failures int // retryable errors
}

// hire makes workers on fresh owners.
func (s *session) hire(n int) []*worker {
	s.Helper()
	workers := make([]*worker, n)
	for i := range workers {
		o := subject{fmt.Sprintf("worker %d", i), subjects[i%2].mode}
		s.create(created, o, firstFence)
		workers[i] = &worker{session: &session{T: s.T, db: s.db, model: model{o.id: s.model[o.id]}}, owner: o}
	}
	return workers
}

// work commits as long as there is more. After each error the next handle is asked
// for, nil ends the work. Before each sending, before is called.
func (w *worker) work(ctx context.Context, more func(i int) bool, next func() *handle, before func(c durable.Commit)) {
	hd := next()
	for i := 0; hd != nil && more(i); i++ {
		c := fullCommit(w.session, w.owner, fmt.Sprintf("message %d of %s.", i, w.owner.id))
		want := w.model.ask(c)
		sure := true // that no earlier sending was carried out
		for hd != nil {
			before(c)
			got := ask(ctx, hd, c)
			if got.err == nil {
				switch {
				case got.through != want.through || !got.ackSafe:
					w.Errorf("want %s, got %s, for %s", want, got, describe(c))
					return
				case sure && got.outcome != committed:
					w.Errorf("a first delivery was answered as %s, although no answer to it was unknown: the store repeated it inside, or has said before that nothing was written when it was; for %s", got, describe(c))
					return
				}
				break
			}
			switch word, wrong := kindOf(got.err); {
			case wrong != nil || word != retryable && word != unknownOutcome:
				w.Errorf("%v, for %s", got.err, describe(c))
				return
			case word == unknownOutcome:
				sure = false
				w.unknowns++
			default:
				w.failures++
			}
			hd = next()
		}
	}
}

// dismiss takes over what the workers have done, and compares.
func (s *session) dismiss(what string, workers []*worker) {
	s.Helper()
	unknowns, failures := 0, 0
	for _, w := range workers {
		s.model[w.owner.id] = w.model[w.owner.id]
		unknowns, failures = unknowns+w.unknowns, failures+w.failures
	}
	s.Logf("%s: %d unknown outcomes, %d retryable errors", what, unknowns, failures)
	if !s.Failed() {
		s.sameAll(what)
	}
}
