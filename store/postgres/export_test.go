package postgres

// Waiting returns how many requests wait for the next group.
func (s *Store) Waiting() int { return s.queue.Waiting() }
