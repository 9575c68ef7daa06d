package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A server is one that this program started.
type server struct {
	address string // for clients
	// ready connects as a client does, and returns nil if the server can be used.
	ready func(ctx context.Context) error
	host  host
	start func(context.Context) (*server, error) // starts another one like it

	stopped bool       // guarded by mu
	mu      sync.Mutex // one restart at a time, and none during the stop
}

// A host is what a server runs in: a process or a container.
type host interface {
	start(ctx context.Context) error // also again after kill, on the same data and port
	alive() bool
	kill() error   // as kill -9 does
	remove() error // stops it and leaves nothing behind
	output() string
}

// Deadlines for a server to get ready, on a slow machine that does much else.
const (
	startTimeout = 2 * time.Minute
	pollInterval = 20 * time.Millisecond
)

// begin starts a server. If that fails nothing is left of it.
func begin(ctx context.Context, s *server) (_ *server, err error) {
	running := false
	defer func() { // after a panic too
		if !running {
			err = errors.Join(err, s.host.remove())
		}
	}()
	if err := s.up(ctx); err != nil {
		return nil, err
	}
	running = true
	return s, nil
}

// up starts the server and waits until it can be used.
func (s *server) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.host.start(ctx); err != nil {
		return err
	}
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		if !s.host.alive() {
			return fmt.Errorf("%w; it said:\n%s", errEnded, s.host.output())
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w: %w; it said:\n%s", context.Cause(ctx), err, s.host.output())
		}
	}
}

var errEnded = errors.New("the server ended while it started")

// restart kills the server and starts it again on the same data and port.
func (s *server) restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.host.kill(); err != nil {
		return err
	}
	// The remains of the one that was killed can be in the way for a moment: a
	// process of Postgres that has not yet noticed still holds shared memory.
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := s.up(ctx)
		if err == nil || !errors.Is(err, errEnded) || time.Now().After(deadline) {
			return err
		}
	}
}

// stop ends the server and removes what it had. Again does nothing.
func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	return s.host.remove()
}

// retryPorts calls start with a free port, and with another one if the server
// ended while it started: somebody else may have taken the port in between.
func retryPorts(start func(port int) (*server, error)) (*server, error) {
	var failed error
	for range 3 {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s, err := start(port)
		if err == nil || !errors.Is(err, errEnded) {
			return s, err
		}
		failed = err
	}
	return nil, failed
}

// open reports whether something listens on the port.
func open(ctx context.Context, port int) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", local(port))
	if err != nil {
		return err
	}
	return c.Close()
}
