package mongo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// wire sees every message of a client's connections, but for those that look
// after the topology. The driver writes a message at once, and reads a reply in
// two: its length and the rest.
type wire struct {
	// send is called with each command before it is sent. An error loses it.
	send func(command []byte) error
	// reply is called after the reply to a command has come. An error loses it.
	reply func(command []byte) error
}

var errCut = errors.New("the connection is cut")

func (w *wire) dial(o *options.ClientOptions) {
	o.SetDialer(wireDialer{w})
}

type wireDialer struct{ w *wire }

func (d wireDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn, w: d.w}, nil
}

type wireConn struct {
	net.Conn
	w *wire

	mu      sync.Mutex
	command []byte // the one whose reply is awaited
}

// named reports whether a message is a certain command.
func named(message []byte, command string) bool {
	return bytes.Contains(message, append([]byte(command), 0))
}

func (c *wireConn) Write(message []byte) (int, error) {
	if named(message, "hello") || named(message, "isMaster") || named(message, "ismaster") {
		return c.Conn.Write(message)
	}
	c.mu.Lock()
	c.command = bytes.Clone(message)
	c.mu.Unlock()
	if c.w.send != nil {
		if err := c.w.send(message); err != nil {
			_ = c.Close()
			return 0, err
		}
	}
	return c.Conn.Write(message)
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	command := c.command
	c.command = nil
	c.mu.Unlock()
	if err == nil && command != nil && c.w.reply != nil {
		if c.w.reply(command) != nil {
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
	}
	return n, err
}
