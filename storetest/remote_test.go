package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

// A server is what commits for clients. It is so small that a client's memory store
// does the work, and only two things pass the network: that there is a request, with
// the owner's id, and that it is to be committed.
type server struct {
	mu       sync.Mutex
	listener net.Listener
	commits  []*commitPoint
}

// commitPoint is a commit that a client has asked for, or is going to.
type commitPoint struct {
	mu      sync.Mutex
	reached bool // the server has it
	void    bool // the connection ended before
}

func (s *server) start(t T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.listener = l
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return nil
}

func (s *server) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "commit "); ok {
			s.reach(n)
		}
		if _, err := fmt.Fprintln(c, "done"); err != nil {
			return
		}
	}
}

func (s *server) reach(number string) {
	n, err := strconv.Atoi(number)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || n >= len(s.commits) {
		return // a message that was cut
	}
	p := s.commits[n]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = !p.void
}

// point returns a commit that can be asked for by its number.
func (s *server) point() (*commitPoint, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &commitPoint{}
	s.commits = append(s.commits, p)
	return p, len(s.commits) - 1
}

// give reports whether the server has the commit. If not, it never will.
func (p *commitPoint) give() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.void = !p.reached
	return p.reached
}

// A wireFault is how a client is wrong about its network.
type wireFault struct {
	surelyNot  bool // the reply to a commit is lost: "nothing was written"
	inTx       bool // and that in transactions alone
	surely     bool // the commit can't be sent: "committed"
	blind      bool // it does not look at the context while it waits
	contextNot bool // the context ends during the commit: "nothing was written"
	mute       bool // after a lost reply it says what it can't know: a conflict
	forgets    bool // a request inside a transaction was lost, and its body goes on: "committed"
	settles    bool // the results of a transaction are settled before its outcome is known
	elsewhere  bool // an unknown outcome is of another request
}

// client is a store whose commits are made by a server.
type client struct {
	*broken
	server *server
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	fault  wireFault
}

var (
	_ Backend          = (*client)(nil)
	_ store.Transactor = (*client)(nil)
)

// errNotSent is what a request is told that the server can't have carried out.
var errNotSent = &store.UnavailableError{Reason: "the connection was lost"}

// conversation is a connection for one transaction.
type conversation struct {
	net.Conn
	replies *bufio.Scanner
	lost    bool // a request
}

func (c *client) connect(ctx context.Context) (*conversation, error) {
	conn, err := c.dial(ctx, "tcp", c.server.listener.Addr().String())
	if err != nil {
		return nil, errNotSent
	}
	return &conversation{Conn: conn, replies: bufio.NewScanner(conn)}, nil
}

func (c *conversation) say(format string, args ...any) error {
	if _, err := fmt.Fprintf(c, format+"\n", args...); err != nil {
		return errNotSent
	}
	if !c.replies.Scan() {
		return errNotSent
	}
	return nil
}

// Atomically implements [store.Transactor].
func (c *client) Atomically(ctx context.Context, body func(context.Context, store.Backend) error) error {
	settled := &countersign.Settlement{}
	if c.fault.settles {
		settled.Commit()
	}
	err := c.transact(ctx, durable.OpTransaction, "", func(ctx context.Context, tx store.Backend, conv *conversation) error {
		return body(ctx, &telling{tx, conv, settled})
	})
	if err == nil {
		settled.Commit()
	}
	return err
}

func (c *client) transact(ctx context.Context, op, owner string, body func(context.Context, store.Backend, *conversation) error) error {
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	conv, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conv.Close() }()
	if !c.fault.blind {
		defer context.AfterFunc(ctx, func() { _ = conv.SetDeadline(time.Unix(1, 0)) })()
	}
	var word error
	err = c.handle.Atomically(context.WithoutCancel(ctx), func(inside context.Context, tx store.Backend) error {
		if err := body(inside, tx, conv); err != nil {
			return err
		}
		if conv.lost { // its body went on all the same
			word = errNotSent
			if c.fault.forgets {
				word = errForgotten
			}
			return errRollback
		}
		point, n := c.server.point()
		if conv.say("commit %d", n) != nil {
			word = c.lostCommit(ctx, op, owner)
			if !point.give() {
				return errors.Join(word, errRollback)
			}
		}
		return nil
	})
	switch {
	case errors.Is(word, errForgotten):
		return nil
	case word != nil:
		return word
	case c.fault.surely && errors.Is(err, errRollback):
		return nil
	case errors.Is(err, errNotSent) && ctx.Err() != nil:
		return &store.NotTakenError{Err: countersign.ContextError(ctx)}
	}
	return err
}

var errForgotten = errors.New("a request inside was lost, and nobody minds")

var errRollback = errors.New("the server has no such commit")

// lostCommit is what the client says of a commit whose reply it did not get.
func (c *client) lostCommit(ctx context.Context, op, owner string) error {
	if c.fault.elsewhere {
		owner += " elsewhere"
	}
	inTx := op == durable.OpTransaction
	switch {
	case c.fault.surely:
		return nil
	case c.fault.surelyNot && inTx == c.fault.inTx, c.fault.contextNot && ctx.Err() != nil:
		return errNotSent
	case c.fault.mute:
		return &durable.PositionConflictError{}
	}
	return &durable.UnknownOutcomeError{Op: op, Owner: owner, Err: errors.New("its reply was lost")}
}

// telling tells the server of each request in a transaction.
type telling struct {
	store.Backend
	conv    *conversation
	settled *countersign.Settlement // of the results inside; nil: as they are
}

func told[V any](ctx context.Context, t *telling, owner string, request func(context.Context) (V, error)) (V, error) {
	if err := t.conv.say("request %q", owner); err != nil {
		t.conv.lost = true
		var none V
		return none, err
	}
	return request(ctx)
}

func (t *telling) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return told(ctx, t, req.Owner, func(ctx context.Context) (durable.Head, error) { return t.Backend.CreateOwner(ctx, req) })
}

func (t *telling) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	return told(ctx, t, c.Owner+" "+c.Inbox.ID, func(ctx context.Context) (durable.Committed, error) {
		res, err := t.Backend.CommitOwner(ctx, c)
		if res.Settlement != nil && t.settled != nil {
			res.Settlement = t.settled // not that of the memory store, which knows more than a client can
		}
		return res, err
	})
}

func (t *telling) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return told(ctx, t, req.Owner, func(ctx context.Context) (durable.Head, error) { return t.Backend.AdvanceFence(ctx, req) })
}

func (t *telling) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return told(ctx, t, req.Owner, func(ctx context.Context) (durable.ReceiptRecorded, error) { return t.Backend.RecordReceipt(ctx, req) })
}

// remotely carries one request out in a transaction of its own.
func remotely[V any](ctx context.Context, c *client, op, owner, name string, request func(context.Context, store.Backend) (V, error)) (value V, err error) {
	err = c.transact(ctx, op, owner, func(ctx context.Context, tx store.Backend, conv *conversation) error {
		var err error
		value, err = told(ctx, &telling{Backend: tx, conv: conv}, name, func(ctx context.Context) (V, error) { return request(ctx, tx) })
		return err
	})
	if err != nil {
		var none V
		return none, err
	}
	return value, nil
}

func (c *client) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	return remotely(ctx, c, durable.OpCreateOwner, req.Owner, req.Owner, func(ctx context.Context, tx store.Backend) (durable.Head, error) { return tx.CreateOwner(ctx, req) })
}

func (c *client) CommitOwner(ctx context.Context, req durable.Commit) (durable.Committed, error) {
	return remotely(ctx, c, durable.OpCommit, req.Owner, req.Owner+" "+req.Inbox.ID, func(ctx context.Context, tx store.Backend) (durable.Committed, error) {
		return tx.CommitOwner(ctx, req)
	})
}

func (c *client) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	return remotely(ctx, c, durable.OpAdvanceFence, req.Owner, req.Owner, func(ctx context.Context, tx store.Backend) (durable.Head, error) { return tx.AdvanceFence(ctx, req) })
}

func (c *client) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return remotely(ctx, c, durable.OpRecordReceipt, req.Owner, req.Owner, func(ctx context.Context, tx store.Backend) (durable.ReceiptRecorded, error) {
		return tx.RecordReceipt(ctx, req)
	})
}
