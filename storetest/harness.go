package storetest

import (
	"context"
	"net"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

// Backend is an open handle of the store under test. What it implements beyond
// Close is found out as [github.com/countersign/countersign/store.CapabilitiesOf] says:
// [durable.Store], the interfaces of
// [github.com/countersign/countersign/store.Events], and
// [github.com/countersign/countersign/store.Transactor].
type Backend interface {
	Close() error
}

// OpenOptions are what a case may ask of a handle. The zero value is the
// adapter's default.
type OpenOptions struct {
	// Clock replaces the store's time, on every handle of a case. Nil is the store's
	// own. The cases of observers move it, so a store that has observers takes it,
	// also where its time is the server's otherwise. It is read when a request is
	// decided on, and cut to microseconds.
	Clock countersign.Clock

	// Dial, if it is set, is how the handle connects to its server: every
	// connection that its requests use. Only a harness with Wire meets it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// An Opener opens one more handle on a database. Each call stands for another
// process: handles share nothing but the database. A store that only one process
// can open lets its handles share what that process would hold, until the last of
// them is closed.
type Opener func(ctx context.Context, o OpenOptions) (Backend, error)

// A Harness is how the suite reaches a store.
type Harness struct {
	// New returns the opener of a fresh, empty, isolated database, which lives
	// until the test ends. What it needs it takes from t: TempDir, Cleanup.
	New func(t T) Opener

	// Plant, optional, puts an image in place of an owner as it is, past every
	// rule: corrupt, or at the limits of the integers. It may write Head, History,
	// Snapshot, Inbox, Outbox and Receipts; Pending follows from them. The
	// backend is a handle that the opener of New returned, so the harness finds
	// the database through it.
	//
	// An image that the database itself can't hold (a constraint of the schema
	// forbids it) gives an error that matches [errors.ErrUnsupported].
	Plant func(ctx context.Context, b Backend, img durable.Image) error

	// Kill, optional, ends the server's process as kill -9 does, starts it again on
	// the same data, and returns when it answers at the same address. The backend is
	// a handle on a database of that server. The suite can't see that Kill really
	// kills: the log of kill/callers_under_load_learn_the_truth tells how many calls
	// noticed. Without a server of its own an adapter leaves Kill nil and proves
	// the same with [CrashLadder].
	Kill func(ctx context.Context, b Backend) error

	// Wire, optional, says that handles reach a server over TCP, and that the
	// openers of New let them connect by [OpenOptions.Dial] where that is set: the
	// suite puts a proxy in between that loses messages and cuts connections. The
	// proxy looks for the ids of owners in what passes, letters, digits and hyphens:
	// the connections must carry them as they are, not encrypted, compressed or
	// encoded. A handle must connect again by itself.
	Wire bool

	// Abort, optional, runs a commit up to its commit point and loses the
	// process there, so that nothing of it may stay. Only an adapter without
	// [github.com/countersign/countersign/store.Transactor] needs it: the others
	// abort a transaction of their own.
	//
	// It really carries the commit out and rolls it back, whatever the store says
	// to it: a refusal is no error of Abort's. It returns an error only if it could
	// not do so.
	Abort func(ctx context.Context, b Backend, c durable.Commit) error

	// Requires lists what this adapter is meant to have: a need that is not met is
	// a failure, where it would only be listed otherwise.
	Requires []Need
}
