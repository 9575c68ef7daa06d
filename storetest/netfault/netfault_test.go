package netfault_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/storetest/netfault"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// An echo is a server that answers each line with the same line, and keeps what
// it got.
type echo struct {
	addr string
	got  chan string // each line; what remains before an end of file, with a "…"
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{addr: l.Addr().String(), got: make(chan string, 10_000)}
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() { e.serve(c) })
		}
	})
	// After the proxy's own cleanup, which ends the sessions.
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
		sessions.Wait()
	})
	return e
}

func (e *echo) serve(c net.Conn) {
	defer c.Close()
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			e.got <- line + "…"
			return
		}
		e.got <- line
		if _, err := io.WriteString(c, line); err != nil {
			e.got <- "…"
			return
		}
	}
}

func newProxy(t *testing.T, target string) *netfault.Proxy {
	t.Helper()
	p, err := netfault.Listen(target)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.Close())
		assert.NoError(t, p.Close(), "again")
	})
	return p
}

// A client says a line and hears the answer.
type client struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, p *netfault.Proxy) *client {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &client{c, bufio.NewReader(c)}
}

// knock asks on a connection of its own, which may be reset before it is there.
func knock(p *netfault.Proxy, text string) error {
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = (&client{c, bufio.NewReader(c)}).ask(text)
	return err
}

func (c *client) ask(text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	return c.lines.ReadString('\n')
}

func (c *client) works(t *testing.T) {
	t.Helper()
	answer, err := c.ask("hello\n")
	require.NoError(t, err)
	require.Equal(t, "hello\n", answer)
}

func pair(t *testing.T) (*echo, *netfault.Proxy, *client) {
	t.Helper()
	e := newEcho(t)
	p := newProxy(t, e.addr)
	c := dial(t, p)
	c.works(t)
	require.Equal(t, "hello\n", <-e.got)
	return e, p, c
}

func TestEverythingPassesAndSoDoesTheEndOfEachSide(t *testing.T) {
	e, _, c := pair(t)
	long := strings.Repeat("x", 1<<20) + "\n"
	var sent sync.WaitGroup
	sent.Go(func() { _, err := io.WriteString(c, long); assert.NoError(t, err) })
	answer, err := c.lines.ReadString('\n')
	sent.Wait()
	require.NoError(t, err)
	assert.True(t, answer == long)
	assert.True(t, <-e.got == long)
	_, err = io.WriteString(c, "half")
	require.NoError(t, err)
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	assert.Equal(t, "half…", <-e.got)
	_, err = c.lines.ReadByte()
	assert.Equal(t, io.EOF, err)
}

func TestAMessageIsLostBeforeItReachesTheServer(t *testing.T) {
	e, p, c := pair(t)
	other := dial(t, p)
	other.works(t)
	<-e.got
	lost := p.LoseMessage([]byte("commit"))
	_, err := c.ask("insert\n")
	require.NoError(t, err)
	assert.Equal(t, "insert\n", <-e.got)
	_, err = c.ask("Q commit\n")
	assert.Error(t, err)
	<-lost.Struck()
	assert.Equal(t, "Q …", <-e.got, "the server got what stood before it, and the end")
	_, err = other.ask("commit\n")
	assert.NoError(t, err, "a fault strikes once")
}

func TestAReplyIsLostAfterTheServerHasDoneItsWork(t *testing.T) {
	e, p, c := pair(t)
	lost := p.LoseReply([]byte("commit"))
	_, err := c.ask("Q commit\nthen more\n")
	assert.Error(t, err)
	<-lost.Struck()
	// No wait is needed: the client was cut after the server was done.
	assert.Equal(t, []string{"Q commit\n", "then more\n", "…"}, []string{<-e.got, <-e.got, <-e.got})
	again := dial(t, p)
	_, err = again.ask("commit\n")
	assert.NoError(t, err)
}

func TestOneProxyStandsBeforeAllServers(t *testing.T) {
	one, two, p := newEcho(t), newEcho(t), newProxy(t, "")
	for _, e := range []*echo{one, two} {
		conn, err := p.DialContext(t.Context(), "tcp", e.addr)
		require.NoError(t, err)
		defer conn.Close()
		assert.Equal(t, e.addr, conn.RemoteAddr().String())
		(&client{conn, bufio.NewReader(conn)}).works(t)
		assert.Equal(t, "hello\n", <-e.got)
	}
	p.Refuse(true)
	if conn, err := p.DialContext(t.Context(), "tcp", one.addr); err == nil { // the reset may come later
		_, err = (&client{conn, bufio.NewReader(conn)}).ask("hello\n")
		assert.Error(t, err)
		conn.Close()
	}
	_, err := p.DialContext(t.Context(), "unix", "/nowhere")
	assert.Error(t, err)
	_, err = newProxy(t, one.addr).DialContext(t.Context(), "tcp", two.addr)
	assert.ErrorContains(t, err, one.addr)
}

func TestAMessageAfterThePatternIsLostOnItsConnection(t *testing.T) {
	e, p, c := pair(t)
	other := dial(t, p)
	other.works(t)
	<-e.got
	p.LoseMessageAfter([]byte("insert"), 2)
	for _, line := range []string{"insert\n", "update\n"} {
		_, err := c.ask(line)
		require.NoError(t, err)
		assert.Equal(t, line, <-e.got)
		other.works(t)
		<-e.got
	}
	_, err := c.ask("commit\n")
	assert.Error(t, err)
	assert.Equal(t, "…", <-e.got, "nothing of the message")
	p.LoseReplyAfter([]byte("hello"), 0)
	_, err = other.ask("hello\n")
	assert.Error(t, err)
	assert.Equal(t, "hello\n", <-e.got)
}

func TestAPatternIsFoundAcrossPieces(t *testing.T) {
	e, p, c := pair(t)
	lost := p.LoseMessage([]byte("commit\nand"))
	for _, piece := range []string{"co", "mm", "it"} {
		_, err := io.WriteString(c, piece)
		require.NoError(t, err)
	}
	answer, err := c.ask("\n")
	require.NoError(t, err)
	assert.Equal(t, "commit\n", answer)
	<-e.got
	_, err = c.ask("and more\n")
	assert.Error(t, err)
	<-lost.Struck()
	assert.Equal(t, "…", <-e.got, "the pattern's beginning had passed, and its end did not")
}

func TestAPatternThatHasPassedIsNotFoundAgain(t *testing.T) {
	_, p, c := pair(t)
	_, err := c.ask("commit\n")
	require.NoError(t, err)
	lost := p.LoseMessage([]byte("commit"))
	c.works(t)
	select {
	case <-lost.Struck():
		t.Error("it struck")
	default:
	}
}

func TestAFaultThatIsDisarmedDoesNotStrike(t *testing.T) {
	_, p, c := pair(t)
	for _, f := range []*netfault.Fault{p.LoseMessage(nil), p.LoseReply(nil), p.CutAfter(netfault.ToServer, 0), p.CutAfter(netfault.ToClient, 3)} {
		assert.True(t, f.Disarm())
		assert.False(t, f.Disarm(), "again")
	}
	c.works(t)
	f := p.LoseReply(nil)
	_, err := c.ask("hello\n")
	assert.Error(t, err)
	assert.False(t, f.Disarm(), "it has struck")
}

func TestAConnectionIsCutAfterSomeBytesToTheServer(t *testing.T) {
	e, p, c := pair(t)
	f := p.CutAfter(netfault.ToServer, 9)
	c.works(t)
	<-e.got
	_, err := c.ask("hello\n")
	assert.Error(t, err)
	<-f.Struck()
	assert.Equal(t, "hel…", <-e.got)
}

func TestAConnectionIsCutAfterSomeBytesToTheClient(t *testing.T) {
	e, p, c := pair(t)
	f := p.CutAfter(netfault.ToClient, 3)
	answer, err := c.ask("hello\n")
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, "hel", answer)
	<-f.Struck()
	assert.Equal(t, []string{"hello\n", "…"}, []string{<-e.got, <-e.got})
}

func TestAllConnectionsAreCut(t *testing.T) {
	e, p, c := pair(t)
	other := dial(t, p)
	other.works(t)
	<-e.got
	p.Cut()
	for _, c := range []*client{c, other} {
		_, err := c.lines.ReadByte()
		assert.Error(t, err)
		assert.Equal(t, "…", <-e.got)
	}
	dial(t, p).works(t)
}

func TestNewConnectionsAreRefused(t *testing.T) {
	_, p, c := pair(t)
	p.Refuse(true)
	assert.Error(t, knock(p, "hello\n"))
	c.works(t)
	p.Refuse(false)
	dial(t, p).works(t)
}

func TestAServerThatIsDownIsAConnectionThatEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	p := newProxy(t, l.Addr().String())
	assert.Error(t, knock(p, "hello\n"))
}

func TestDelayHoldsDataBackInBothDirections(t *testing.T) {
	_, p, c := pair(t)
	const delay = 20 * time.Millisecond
	p.Delay(delay)
	before := time.Now()
	c.works(t)
	assert.GreaterOrEqual(t, time.Since(before), 2*delay)
	p.Delay(time.Hour)
	_, err := io.WriteString(c, "never\n")
	require.NoError(t, err)
	p.Cut() // does not wait for it
	_, err = c.lines.ReadByte()
	assert.Error(t, err)
}

func TestSilenceKeepsConnectionsAndDataBack(t *testing.T) {
	e, p, c := pair(t)
	p.Silence(true)
	p.Silence(true)
	_, err := io.WriteString(c, "later\n")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err = c.lines.ReadByte()
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Empty(t, e.got)
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	p.Silence(false)
	answer, err := c.lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "later\n", answer)
	p.Silence(true) // and is closed
}

func TestTheProxyIsSafeForConcurrentUse(t *testing.T) {
	e := newEcho(t)
	p := newProxy(t, e.addr)
	var clients, faults sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	faults.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			p.Delay(time.Duration(i%3) * time.Microsecond)
			p.Silence(i%2 == 0)
			p.Refuse(i%5 == 0)
			f := []*netfault.Fault{p.LoseReply([]byte("a")), p.LoseMessage([]byte("b")), p.CutAfter(netfault.ToClient, int64(i%7))}[i%3]
			if i%4 == 0 {
				f.Disarm()
			}
			if i%50 == 0 {
				p.Cut()
			}
		}
		p.Silence(false)
	})
	for i := range 8 {
		clients.Go(func() {
			for range 30 {
				_ = knock(p, fmt.Sprintf("%c%d\n", 'a'+i%4, i))
			}
		})
	}
	clients.Wait()
	stop()
	faults.Wait()
}

// The dialer fits the two drivers as it is.
var _ options.ContextDialer = (*netfault.Dialer)(nil)
var _ pgconn.DialFunc = (*netfault.Dialer)(nil).DialContext

func TestStepIsCalledAroundEachReadAndWrite(t *testing.T) {
	e := newEcho(t)
	p := newProxy(t, e.addr)
	var steps atomic.Int64
	d := netfault.Dialer{Step: func() { steps.Add(1) }}
	c, err := d.DialContext(t.Context(), "tcp", p.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "hello\n")
	require.NoError(t, err)
	assert.Equal(t, int64(2), steps.Load())
	_, err = c.Read(make([]byte, 100))
	require.NoError(t, err)
	assert.Equal(t, int64(4), steps.Load())
	require.NoError(t, c.Close())
	_, err = c.Read(make([]byte, 1))
	assert.Error(t, err)
	assert.Equal(t, int64(6), steps.Load(), "one that fails too")
	assert.Equal(t, c, netfault.Stepping(c, nil))
	_, err = (&netfault.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:not a port")
	assert.Error(t, err)
}

// A request whose reply is lost: the server has done its work, and the client
// can't know.
func ExampleProxy_LoseReply() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	done := make(chan string, 1)
	go func() {
		c, err := server.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		done <- line
		fmt.Fprintln(c, "committed")
		_ = c.Close()
	}()
	proxy, err := netfault.Listen(server.Addr().String())
	if err != nil {
		panic(err)
	}
	lost := proxy.LoseReply([]byte("commit"))
	c, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(c, "commit")
	_, err = c.Read(make([]byte, 100))
	<-lost.Struck()
	fmt.Println("the client got an answer:", err == nil)
	fmt.Print("the server was asked to ", <-done)
	_, _ = c.Close(), proxy.Close()
	_ = server.Close()
	// Output:
	// the client got an answer: false
	// the server was asked to commit
}
