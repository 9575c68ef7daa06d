package durable

import (
	"container/list"
	"sync"
)

// folded is the state of an owner after every record up to a position, as it was
// read under an authority.
type folded[S any] struct {
	auth     Grant
	position uint64
	state    S
}

// through is the position that a state was folded to; of nil it is 0.
func (f *folded[S]) through() uint64 {
	if f == nil {
		return 0
	}
	return f.position
}

// shelf keeps the folded states of the owners that were used last, one for each.
// What is taken is off the shelf until it is put back, so a state that a panic
// left half changed is never found again.
type shelf[S any] struct {
	mu     sync.Mutex
	limit  int
	owners map[string]*list.Element // of a *folded[S]
	recent list.List                // the last used in front
}

// take removes and returns the state that was folded under this authority, or
// nil. A state belongs to its authority: whoever acquires the owner again reads
// it again, also after a backup was restored under this process.
func (s *shelf[S]) take(auth Grant) *folded[S] {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.owners[auth.Owner]
	if !ok || at.Value.(*folded[S]).auth != auth {
		return nil
	}
	return s.remove(at)
}

// put keeps the state, and drops the one that was not used for the longest time
// if there are too many.
func (s *shelf[S]) put(f *folded[S]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.owners[f.auth.Owner]; ok {
		s.remove(at)
	}
	put(&s.owners, f.auth.Owner, s.recent.PushFront(f))
	if s.recent.Len() > s.limit {
		s.remove(s.recent.Back())
	}
}

func (s *shelf[S]) remove(at *list.Element) *folded[S] {
	f := s.recent.Remove(at).(*folded[S])
	delete(s.owners, f.auth.Owner)
	return f
}
