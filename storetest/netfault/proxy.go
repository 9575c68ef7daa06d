package netfault

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// A Proxy forwards TCP connections to a server and misbehaves when it is told
// to. It is safe for concurrent use. It understands no protocol and no TLS.
type Proxy struct {
	target   string // empty: each connection has its own
	listener net.Listener
	ctx      context.Context // until Close
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]struct{}
	dialled map[string]chan string // by the client's address, the target; see DialContext
	faults  []*Fault               // armed, in their order
	delay   time.Duration
	refuses bool
	silence chan struct{} // closed when it ends; nil without silence
}

// Listen starts a proxy on a free port of 127.0.0.1 that forwards to a target,
// "host:port". The target is reached for each connection, so it may be down now.
// Without a target the proxy is reached by [Proxy.DialContext] only.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, links: map[*link]struct{}{}, dialled: map[string]chan string{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// DialContext connects to an address through a proxy that has no target of its own,
// so that one proxy stands in front of all servers that a client finds. It fits
// where drivers take a dialer, as [Dialer] does, and is for TCP alone.
func (p *Proxy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if p.target != "" {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("netfault: this proxy has a target of its own: " + p.target)}
	}
	if !strings.HasPrefix(network, "tcp") {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("netfault: a proxy is for TCP alone")}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", p.Addr())
	if err != nil {
		return nil, err
	}
	p.targetOf(c.LocalAddr()) <- address
	return &proxied{c, remote(address)}, nil
}

// proxied is a connection that names its target: a driver may dial there again, to
// cancel what it has sent.
type proxied struct {
	net.Conn
	to remote
}

func (c *proxied) RemoteAddr() net.Addr { return c.to }

type remote string

func (remote) Network() string  { return "tcp" }
func (a remote) String() string { return string(a) }

// targetOf returns where the target of a client is sent once. Client and proxy
// meet there, whoever comes first.
func (p *Proxy) targetOf(client net.Addr) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.dialled[client.String()]
	if c == nil {
		c = make(chan string, 1)
		p.dialled[client.String()] = c
	} else {
		delete(p.dialled, client.String()) // both have it
	}
	return c
}

// Close cuts all connections, ends the proxy and waits for everything that it has
// started. Calling it again does nothing.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.listener.Close()
	p.Cut()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Cut resets all connections that are there now, on both sides. What is on its
// way is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Refuse makes the proxy reset new connections at once, or, with false, take
// them again. Connections that are there stay.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = refuse
}

// Delay holds back each piece of data for d, in both directions. Zero ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Silence makes the connections half open: they stay, and nothing passes, the end
// of one side neither. With false, what was held back passes.
func (p *Proxy) Silence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case silent && p.silence == nil:
		p.silence = make(chan struct{})
	case !silent && p.silence != nil:
		close(p.silence)
		p.silence = nil
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // that client has gone again
		}
		l := &link{proxy: p, client: client.(*net.TCPConn)}
		l.ctx, l.cancel = context.WithCancel(p.ctx)
		p.mu.Lock()
		refused := p.refuses || p.ctx.Err() != nil
		if !refused {
			p.links[l] = struct{}{}
			p.running.Go(l.run)
		}
		p.mu.Unlock()
		if refused {
			if p.target == "" {
				p.targetOf(client.RemoteAddr()) // so that nothing of it is kept
			}
			l.reset()
		}
	}
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
