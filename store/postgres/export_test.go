package postgres

import "time"

// Waiting returns how many requests wait for the next group.
func (s *Store) Waiting() int { return s.queue.Waiting() }

// AnswerIn makes servers answer in a shorter time, until restore is called.
func AnswerIn(d time.Duration) (restore func()) {
	before := answerTimeout
	answerTimeout = d
	return func() { answerTimeout = before }
}

// Hearing reports whether the store hears of other processes' appends.
func (s *Store) Hearing() bool { return s.listener.hearing.Load() }
