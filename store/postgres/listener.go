package postgres

import (
	"context"
	"encoding/hex"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// How often those who wait for events look: while the store listens, and while it
// does not.
const (
	lookListening = 2 * time.Second
	lookPolling   = 250 * time.Millisecond
)

// How long the listener waits before it connects again: doubling, with each failure.
const (
	firstReconnect   = 500 * time.Millisecond
	longestReconnect = 30 * time.Second
	connectIn        = 10 * time.Second
)

// channel is where the appends of a schema are told of. A schema's name may be as
// long as a channel's.
func channel(schema string) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte("countersign/events/" + schema)) // never fails
	return "countersign_events_" + hex.EncodeToString(h.Sum(nil))
}

// notice names a sequence to those who listen: the lengths of its names but for the
// last, and the names.
func notice(s eventlog.Sequence) string {
	return strconv.Itoa(len(s.Namespace.EventStore)) + " " + strconv.Itoa(len(s.Namespace.Name)) + " " +
		s.Namespace.EventStore + s.Namespace.Name + s.Name
}

// notices are the statements that tell of appends. They stand behind a COMMIT where
// that can be: the server carries out the commits of transactions that tell of
// something one after another, and would wait for the disk each time.
func (t *statements) notices(appended []eventlog.Sequence) []*statement {
	var told []*statement
	known := map[eventlog.Sequence]bool{}
	for _, s := range appended {
		if !known[s] {
			known[s] = true
			told = append(told, t.one(&notify, channel(t.schema), notice(s)))
		}
	}
	return told
}

// noticed is the sequence of a notice. It is false for what somebody else has sent.
func noticed(payload string) (eventlog.Sequence, bool) {
	first, rest, _ := strings.Cut(payload, " ")
	second, names, _ := strings.Cut(rest, " ")
	n, err1 := strconv.Atoi(first)
	m, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil || n < 0 || m < 0 || n > len(names) || m > len(names)-n {
		return eventlog.Sequence{}, false
	}
	return eventlog.Sequence{Namespace: countersign.Namespace{EventStore: names[:n], Name: names[n : n+m]}, Name: names[n+m:]}, true
}

// A listener hears of the appends of other processes, on a connection of its own
// beside the pool. Nothing depends on it: who waits looks from time to time anyway.
type listener struct {
	mu      sync.Mutex
	cancel  context.CancelFunc // nil: it was not started
	ended   chan struct{}
	hearing atomic.Bool
}

// watch begins to listen. See [store.EventPort].
func (s *Store) watch(ctx context.Context) (time.Duration, error) {
	if err := s.enterWriting(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	s.listener.start(s)
	if s.listener.hearing.Load() {
		return lookListening, nil
	}
	return lookPolling, nil
}

// watch refuses to wait in a transaction, which would not see what it waits for.
func (t *Tx) watch(context.Context) (time.Duration, error) { return 0, store.ErrNestedTransaction }

func (l *listener) start(s *Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.ended = cancel, make(chan struct{})
	go func() {
		defer close(l.ended)
		l.run(ctx, s)
	}()
}

// stop ends the listener, and waits until it has.
func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
		<-l.ended
	}
}

func (l *listener) run(ctx context.Context, s *Store) {
	for delay := firstReconnect; ; delay = min(2*delay, longestReconnect) {
		if l.listen(ctx, s) {
			delay = firstReconnect
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay/2 + rand.N(delay/2)):
		}
	}
}

// listen listens until that fails, and reports whether it has worked before.
func (l *listener) listen(ctx context.Context, s *Store) (worked bool) {
	conn, err := connectBeside(ctx, s.pool)
	if err != nil {
		return false
	}
	defer func() {
		l.hearing.Store(false)
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(late)
	}()
	if !direct(ctx, conn) {
		return false
	}
	if _, err := conn.Exec(ctx, "LISTEN "+channel(s.options.Schema)); err != nil {
		return false
	}
	l.hearing.Store(true)
	s.WakeAll() // nobody has told of what came before
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		if sequence, ok := noticed(n.Payload); ok {
			s.Wake(sequence)
		}
	}
}

// connectBeside opens a connection as the pool does.
func connectBeside(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectIn)
	defer cancel()
	config := pool.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, config.ConnConfig)
}

// direct reports whether the connection leads to one server process. Behind a pooler
// that lends one for each transaction, LISTEN would be lost, and left behind on a
// connection of others.
func direct(ctx context.Context, conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, connectIn)
	defer cancel()
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()").Scan(&pid)
	return err == nil && pid == conn.PgConn().PID()
}
