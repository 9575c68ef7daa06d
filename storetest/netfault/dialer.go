package netfault

import (
	"context"
	"net"
)

// A Dialer opens connections that call Step before and after each Read and Write:
// as [github.com/countersign/countersign/storetest.Ladder] asks of an adapter.
// Its DialContext fits the DialFunc of pgconn.Config, and the Dialer fits
// SetDialer of MongoDB's options. It is safe for concurrent use if Step is.
type Dialer struct {
	// Step may never return. Nil does nothing.
	Step func()

	// Net reaches the server. The zero value will do.
	Net net.Dialer
}

// DialContext connects as [net.Dialer.DialContext] does.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.Net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return Stepping(c, d.Step), nil
}

// Stepping returns a connection that calls step before and after each Read and
// Write of c. Nil does nothing.
func Stepping(c net.Conn, step func()) net.Conn {
	if step == nil {
		return c
	}
	return &stepping{Conn: c, step: step}
}

type stepping struct {
	net.Conn
	step func()
}

func (s *stepping) Read(b []byte) (int, error) {
	s.step()
	n, err := s.Conn.Read(b)
	s.step()
	return n, err
}

func (s *stepping) Write(b []byte) (int, error) {
	s.step()
	n, err := s.Conn.Write(b)
	s.step()
	return n, err
}
