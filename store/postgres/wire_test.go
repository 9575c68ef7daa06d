package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

var errLost = errors.New("the wire is cut")

// A wire is what happens to connections on their way to the server. Its
// functions are called around every write of a connection.
type wire struct {
	before func(sent []byte) bool // true: the connection is lost, and nothing is sent
	after  func(sent []byte) bool // true: the server carries out what was sent, and the connection is lost
	step   func()                 // called before and after each read and write
	deaf   atomic.Bool            // nothing reaches the server, and nobody is told
}

// pool returns a pool whose connections go through the wire.
func (w *wire) pool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	config, err := w.config(dsn)
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func (w *wire) config(dsn string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wiredConn{Conn: conn, wire: w}, nil
	}
	return config, nil
}

type wiredConn struct {
	net.Conn
	wire *wire
	lost atomic.Bool
}

func (c *wiredConn) Write(b []byte) (int, error) {
	w := c.wire
	if w.step != nil {
		w.step()
		defer w.step()
	}
	if w.deaf.Load() {
		return len(b), nil
	}
	if w.before != nil && w.before(b) {
		_ = c.Close()
		return 0, errLost
	}
	n, err := c.Conn.Write(b)
	if err == nil && w.after != nil && w.after(b) {
		c.swallow()
	}
	return n, err
}

// swallow waits until the server has answered, and cuts the connection.
func (c *wiredConn) swallow() {
	c.lost.Store(true)
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Conn.Read(buf)
		// The last message is ReadyForQuery: Z, its length 5, and the state.
		if err != nil || n >= 6 && bytes.Equal(buf[n-6:n-1], []byte{'Z', 0, 0, 0, 5}) {
			break
		}
	}
	_ = c.Close()
}

func (c *wiredConn) Read(b []byte) (int, error) {
	if c.wire.step != nil {
		c.wire.step()
		defer c.wire.step()
	}
	if c.lost.Load() {
		return 0, errLost
	}
	return c.Conn.Read(b)
}
