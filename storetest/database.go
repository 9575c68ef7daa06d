package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// database is a fresh database of the store under test, and the handles that the
// case has open on it.
type database struct {
	t    T
	h    Harness
	open Opener

	clock   countersign.Clock // of every handle; nil is the store's own time
	handles []*handle
}

// handle is one open handle: what the backend implements of the interfaces, and
// what that was asserted from. What it does not implement is nil: a case that uses
// it needs it.
type handle struct {
	durable.Store
	events    eventlog.Store
	observers eventlog.Observers
	receipts  receipt.Store
	backend   Backend
}

func newDatabase(t T, h Harness) *database {
	t.Helper()
	if h.New == nil {
		t.Fatalf("the harness has no New")
	}
	open := h.New(t)
	if open == nil {
		t.Fatalf("the harness's New returned no Opener")
	}
	d := &database{t: t, h: h, open: open}
	t.Cleanup(d.drop)
	return d
}

// handle opens one more handle, as another process would.
func (d *database) handle() *handle {
	d.t.Helper()
	hd, err := d.openHandle(d.t.Context(), OpenOptions{Clock: d.clock})
	if err != nil {
		d.t.Fatalf("open: %v", err)
	}
	d.handles = append(d.handles, hd)
	return hd
}

// openHandle opens a handle that the caller closes. Any goroutine may call it.
func (d *database) openHandle(ctx context.Context, o OpenOptions) (*handle, error) {
	b, err := d.open(ctx, o)
	if err != nil {
		return nil, err
	}
	hd := &handle{backend: b}
	hd.Store, _ = b.(durable.Store)
	hd.events, _ = b.(eventlog.Store)
	hd.observers, _ = b.(eventlog.Observers)
	hd.receipts, _ = b.(receipt.Store)
	if hd.Store == nil && hd.events == nil {
		_ = b.Close()
		return nil, fmt.Errorf("%T implements neither durable.Store nor eventlog.Store", b)
	}
	return hd, nil
}

// pool opens handles until there are two, so that goroutines are more than one
// process, and returns the one for goroutine i.
func (d *database) pool() func(i int) *handle {
	d.t.Helper()
	for len(d.handles) < 2 {
		d.handle()
	}
	handles := d.handles
	return func(i int) *handle { return handles[i%len(handles)] }
}

// close closes every handle, as the end of their processes would.
func (d *database) close() {
	d.t.Helper()
	for _, hd := range d.handles {
		if err := hd.backend.Close(); err != nil {
			d.t.Errorf("close: %v", err)
		}
	}
	d.handles = nil
}

// drop closes what a case left open.
func (d *database) drop() {
	for _, hd := range d.handles {
		_ = hd.backend.Close()
	}
	d.handles = nil
}

// transactor returns the handle's transactions. A case that calls it needs
// [NeedTransactions].
func (d *database) transactor(hd *handle) store.Transactor {
	d.t.Helper()
	tr, ok := hd.backend.(store.Transactor)
	if !ok {
		d.t.Fatalf("%T does not implement store.Transactor", hd.backend)
	}
	return tr
}

// errProcessLost is what the body of an aborted transaction returns.
var errProcessLost = errors.New("storetest: the process is lost before the commit")

// abort runs the commit up to its commit point and loses the process there: the
// transaction is rolled back and every handle is gone.
func (d *database) abort(hd *handle, c durable.Commit) {
	d.t.Helper()
	ctx := d.t.Context()
	tr, ok := hd.backend.(store.Transactor)
	switch {
	case ok:
		var inside durable.Committed
		err := tr.Atomically(ctx, func(ctx context.Context, tx store.Backend) error {
			var err error
			inside, err = tx.CommitOwner(ctx, c)
			if err != nil && outcomeOf(err) == unexpected {
				d.t.Errorf("a commit that is aborted later failed inside its transaction: %v", err)
			}
			return errProcessLost
		})
		if !errors.Is(err, errProcessLost) {
			d.t.Errorf("an aborted transaction must return its body's error, it returned: %v", err)
		}
		if inside.AckSafe() {
			d.t.Errorf("the result of an aborted transaction is safe to acknowledge: %+v", inside)
		}
	case d.h.Abort != nil:
		if err := d.h.Abort(ctx, hd.backend, c); err != nil {
			d.t.Fatalf("Harness.Abort: %v", err)
		}
	default:
		d.t.Fatalf("%T can't lose a process before a commit: it implements no store.Transactor, and the harness has no Abort", hd.backend)
	}
	d.close()
}

// plant puts an image in place of an owner, past every rule.
func (d *database) plant(hd *handle, img durable.Image) error {
	d.t.Helper()
	if d.h.Plant == nil {
		d.t.Fatalf("the harness has no Plant")
	}
	return d.h.Plant(d.t.Context(), hd.backend, img)
}
