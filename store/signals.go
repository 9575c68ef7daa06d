package store

import (
	"sync"

	"github.com/countersign/countersign/eventlog"
)

// signals wake those who wait for events of a sequence, within the process.
type signals struct {
	mu      sync.Mutex
	waiting map[eventlog.Sequence]chan struct{} // closed by wake
}

// listen returns a channel that the next wake closes. Listen first, then look.
func (s *signals) listen(q eventlog.Sequence) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[eventlog.Sequence]chan struct{}{}
	}
	ch := s.waiting[q]
	if ch == nil {
		ch = make(chan struct{})
		s.waiting[q] = ch
	}
	return ch
}

func (s *signals) wake(q eventlog.Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch := s.waiting[q]; ch != nil {
		close(ch)
		delete(s.waiting, q)
	}
}

func (s *signals) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q, ch := range s.waiting {
		close(ch)
		delete(s.waiting, q)
	}
}
