package netfault

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A link is one client's connection and that to the server.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	ctx    context.Context // until it is over
	cancel context.CancelFunc
	// swallowing: replies are read and thrown away; see [Proxy.LoseReply].
	swallowing atomic.Bool

	mu     sync.Mutex
	server *net.TCPConn // nil until it is reached
	over   bool
}

// run serves the link until both directions have ended.
func (l *link) run() {
	defer l.proxy.forget(l)
	defer l.reset()
	if !l.connect() {
		return
	}
	var toServer sync.WaitGroup
	toServer.Go(func() { l.pump(ToServer, l.client, l.server) })
	l.pump(ToClient, l.server, l.client)
	toServer.Wait()
}

// connect reaches the server, and reports whether the link is still wanted.
func (l *link) connect() bool {
	target := l.proxy.target
	if target == "" {
		select {
		case target = <-l.proxy.targetOf(l.client.RemoteAddr()):
		case <-l.ctx.Done():
			return false
		}
	}
	var d net.Dialer
	c, err := d.DialContext(l.ctx, "tcp", target)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = c.(*net.TCPConn)
	if l.over {
		abort(l.server)
	}
	return !l.over
}

// reset ends both connections without a farewell: what is on its way is lost.
func (l *link) reset() { l.end(abort) }

// part ends both connections in good order: what was sent to them arrives.
func (l *link) part() { l.end(func(c *net.TCPConn) { _ = c.Close() }) }

func (l *link) end(closing func(*net.TCPConn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	l.cancel()
	closing(l.client)
	if l.server != nil {
		closing(l.server)
	}
}

// abort resets a connection. It may be gone already.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// pump forwards one direction until it ends.
func (l *link) pump(d Direction, from, to *net.TCPConn) {
	buffer := make([]byte, 32<<10)
	var before []byte // the end of what has passed, for patterns that come in pieces
	for {
		n, err := from.Read(buffer)
		if !l.wait() {
			return
		}
		chunk := buffer[:n]
		if n > 0 {
			if d == ToClient && l.swallowing.Load() {
				l.drain()
				return
			}
			hit := l.proxy.judge(l, d, before, chunk)
			if hit.fault != nil && hit.then == loseReply {
				l.swallowing.Store(true) // before the server can answer
			}
			if _, failed := to.Write(chunk[:hit.passes]); failed != nil {
				l.reset()
			}
			if hit.fault != nil {
				l.carryOut(hit)
				return
			}
			before = append(before, chunk...)
			before = append(before[:0], before[max(0, len(before)-LongestPattern):]...)
		}
		if err != nil {
			l.ended(d, to)
			return
		}
	}
}

// carryOut does what a fault asks for after its bytes have passed. It is the end
// of their direction.
func (l *link) carryOut(hit strike) {
	switch hit.then {
	case loseReply:
		// The pump of the other direction goes on when the server answers.
	case loseMessage:
		l.swallowing.Store(true)
		_ = l.server.CloseWrite()
	case cut:
		l.part()
	}
	close(hit.fault.struck)
}

// drain reads what the server still has to say, until it has ended the session,
// and only then cuts the client: when the client learns of it, the server is done
// with everything that it was sent.
func (l *link) drain() {
	_ = l.server.CloseWrite()
	buffer := make([]byte, 32<<10)
	for {
		if _, err := l.server.Read(buffer); err != nil {
			l.reset()
			return
		}
	}
}

// ended passes the end of one side on. While replies are swallowed the client
// does not learn of it in good order.
func (l *link) ended(d Direction, to *net.TCPConn) {
	if d == ToClient && l.swallowing.Load() {
		l.reset()
		return
	}
	if to.CloseWrite() != nil {
		l.reset()
	}
}

// wait holds data back as long as the proxy is told to. It reports whether the
// link is still there.
func (l *link) wait() bool {
	l.proxy.mu.Lock()
	delay := l.proxy.delay
	l.proxy.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.ctx.Done():
			return false
		}
	}
	for {
		l.proxy.mu.Lock()
		silence := l.proxy.silence
		l.proxy.mu.Unlock()
		if silence == nil {
			return true
		}
		select {
		case <-silence:
		case <-l.ctx.Done():
			return false
		}
	}
}
