package store

import (
	"sync"

	"github.com/countersign/countersign/eventlog"
)

// signals wake those who wait for events of a sequence, within the process.
type signals struct {
	mu      sync.Mutex
	waiting map[eventlog.Sequence]*signal
}

// A signal is what those who wait for one sequence share.
type signal struct {
	woken     chan struct{} // closed by wake
	listeners int
}

// listen returns a channel that the next wake closes, and what the listener calls at
// its end. Listen first, then look.
func (s *signals) listen(q eventlog.Sequence) (woken <-chan struct{}, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[eventlog.Sequence]*signal{}
	}
	one := s.waiting[q]
	if one == nil {
		one = &signal{woken: make(chan struct{})}
		s.waiting[q] = one
	}
	one.listeners++
	return one.woken, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.listeners--; one.listeners == 0 && s.waiting[q] == one {
			delete(s.waiting, q)
		}
	}
}

func (s *signals) wake(q eventlog.Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.waiting[q]; one != nil {
		close(one.woken)
		delete(s.waiting, q)
	}
}

func (s *signals) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q, one := range s.waiting {
		close(one.woken)
		delete(s.waiting, q)
	}
}
