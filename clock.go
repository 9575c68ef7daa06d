package countersign

import "time"

// A Clock tells the time. Adapters take one for tests only: in production, time
// belongs to the store. Implementations must be safe for concurrent use.
type Clock interface {
	Now() time.Time
}

// SystemClock is the [Clock] of the operating system.
type SystemClock struct{}

// Now returns the current time.
func (SystemClock) Now() time.Time { return time.Now() }
