package sqlite

import "context"

// Waiting returns how many requests wait for the next group.
func (s *Store) Waiting() int { return s.queue.Waiting() + s.appends.queue.Waiting() }

// LogIsLong makes the store believe that its log is due to be restarted.
func (s *Store) LogIsLong() { s.writer.logged = restartAfter }

// Logged returns how much the log may have grown since it was restarted.
func (s *Store) Logged() int {
	s.queue.Enter(context.Background(), s.options.BusyTimeout) //nolint:errcheck // nobody else is there
	defer s.queue.Leave()
	return s.writer.logged
}
