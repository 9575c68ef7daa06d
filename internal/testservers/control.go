package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// A control lets tests do to a server what would need an operator, by requests to
// its url:
//
//	POST /restart   kills the server and starts it again on the same data and
//	                port; 204 when it can be used
//	POST /another   starts another server of the same kind, for a test that
//	                kills without being in the way of others; 201, and the lines
//	                of the answer are its address and its control
//	POST /stop      ends a server that was started so, when its test is over; 204
type control struct {
	url    string
	server *server
	start  func(context.Context) (*server, error)
	http   *http.Server
	done   chan struct{}

	mu     sync.Mutex
	others []*control
}

// serveControl takes the server over: close stops it.
func serveControl(s *server, start func(context.Context) (*server, error)) (*control, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	// Not the requests' contexts: a test that does not wait leaves a server that runs.
	ctx, cancel := context.WithCancel(context.Background())
	c := &control{url: "http://" + l.Addr().String(), server: s, start: start, done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.restart(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.stop(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /another", func(w http.ResponseWriter, _ *http.Request) {
		other, err := c.another(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s\n%s\n", other.server.address, other.url)
	})
	c.http = &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	c.http.RegisterOnShutdown(cancel)
	go func() {
		defer close(c.done)
		_ = c.http.Serve(l) // until close
	}()
	return c, nil
}

func (c *control) another(ctx context.Context) (*control, error) {
	s, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	other, err := serveControl(s, c.start)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others = append(c.others, other)
	return other, nil
}

// close ends it, its server and all others. Requests under way are given up.
func (c *control) close() error {
	// They end soon: their context does. What they have started must be known.
	err := c.http.Shutdown(context.Background())
	<-c.done
	for _, other := range c.others {
		err = errors.Join(err, other.close())
	}
	return errors.Join(err, c.server.stop())
}
