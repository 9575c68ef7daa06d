package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Ladder is how [CrashLadder] reaches a store that it kills in the middle of
// its work.
type Ladder struct {
	// New returns the location of a fresh, empty database: a folder, a file
	// name, a connection string. It lives until the test ends. Nil is a temporary
	// folder of the test's.
	New func(t T) (location string)

	// Open opens the store at a location, as another process would. The adapter
	// calls step before and after each of its I/O operations, from any
	// goroutine: a wrapping database/sql driver does so around every call, a
	// wrapping net.Conn around every Read and Write. Step may never return.
	Open func(ctx context.Context, location string, step func()) (Backend, error)

	// Effects is how many effects [CrashAppends] appends, where 2,000 would take too
	// long. 0 is 2,000.
	Effects int
}

// The environment of a child.
const (
	ladderTest     = "COUNTERSIGN_LADDER_TEST"     // the name of the test that it is a child of
	ladderLocation = "COUNTERSIGN_LADDER_LOCATION" // where the store is
	ladderStep     = "COUNTERSIGN_LADDER_STEP"     // the step at which it dies
)

// ladderMark begins the lines in which a child reports.
const ladderMark = "countersign ladder: "

// CrashLadder kills the store at every step of its work in turn. A child process
// (this test binary, running this test alone) opens the store and works through
// a script: owners of both modes are created, commits carry effects and receipts,
// receipts are recorded, fences advanced, and two owners written in one
// transaction where the backend has transactions. At its n-th step the child
// kills itself as kill -9 does; n is 1, 2, 3 and so on, until a child gets
// through unharmed.
//
// After each kill the store is opened again. It must hold what the script comes
// to after the operations that the child had reported as done, or after one
// more: nothing that was acknowledged is lost, and the operation under way is
// there wholly or not at all. Every image must pass [durable.Recover]. Then the
// whole script is delivered again, and must leave the same images as if nothing
// had happened.
//
// A test calls CrashLadder once, and first of all: the child runs what stands
// before it too.
func CrashLadder(t *testing.T, l Ladder) {
	t.Helper()
	switch os.Getenv(ladderTest) {
	case "":
		climb(t, l)
	case t.Name():
		os.Exit(rung(l))
	}
	// Else this is the child of another ladder, on its way there.
}

// climb kills a child at each step in turn, some of them at the same time.
func climb(t T, l Ladder) {
	t.Helper()
	const highest = 100_000
	var next, last atomic.Int64
	last.Store(highest)
	var wg sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for !t.Failed() {
				n := next.Add(1)
				if n > last.Load() {
					return
				}
				unharmed, err := l.fall(t, n)
				if err != nil {
					t.Errorf("killed at step %d: %v", n, err)
				}
				if unharmed && n < last.Load() {
					last.Store(n)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	kills := last.Load() - 1
	if least := int64(len(script(false))); kills < least {
		t.Fatalf("the script was done after %d steps, it has %d operations at least: the store does not call step around each of its I/O operations", kills, least)
	}
	t.Logf("killed at each of %d steps", kills)
}

// fall runs a child that dies at step n and looks at what it left. It reports
// whether the child got through unharmed.
func (l Ladder) fall(t T, n int64) (unharmed bool, err error) {
	place := T.TempDir
	if l.New != nil {
		place = l.New
	}
	location := place(t)
	done, unharmed, err := spawn(t, location, n)
	if err != nil {
		return false, err
	}
	ctx := t.Context()
	b, err := l.Open(ctx, location, func() {})
	if err != nil {
		return unharmed, fmt.Errorf("after %d operations: open again: %w", done, err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	w, err := newWork(b)
	if err != nil {
		return unharmed, err
	}
	if unharmed && done != len(w.script) {
		return unharmed, fmt.Errorf("the child got through after %d of %d operations", done, len(w.script))
	}
	if err := w.check(ctx, done, unharmed); err != nil {
		return unharmed, fmt.Errorf("after %d operations: %w", done, err)
	}
	if err := w.redeliver(ctx); err != nil {
		return unharmed, fmt.Errorf("after %d operations, redelivery: %w", done, err)
	}
	return unharmed, nil
}

// spawn runs a child, and returns how many operations it reported as done and
// whether it got through.
func spawn(t T, location string, n int64) (done int, unharmed bool, err error) {
	const patience = 2 * time.Minute
	unharmed, err = runChild(t, location, strconv.FormatInt(n, 10), "", patience, func(line string) (err error) {
		if done, err = strconv.Atoi(line); err != nil {
			return fmt.Errorf("the child said %q", line)
		}
		return nil
	})
	return done, unharmed, err
}

// rung is the child: it works through the script and dies at its step. It
// returns the exit code of the process, if there is one.
func rung(l Ladder) int {
	report := func(what any) { fmt.Printf("\n%s%v\n", ladderMark, what) }
	deadly, err := strconv.ParseInt(os.Getenv(ladderStep), 10, 64)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var steps atomic.Int64
	step := func() {
		if steps.Add(1) != deadly {
			return
		}
		report("killed")
		die()
	}
	ctx := context.Background()
	b, err := l.Open(ctx, os.Getenv(ladderLocation), step)
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	w, err := newWork(b)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for i, j := range w.script {
		if err := w.do(ctx, j, j.outcome); err != nil {
			fmt.Printf("operation %d: %v\n", i, err)
			return 1
		}
		report(i + 1)
	}
	report("through")
	return 0
}

// die ends the process as kill -9 does: nothing is flushed, nothing deferred.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("storetest: this process can't kill itself: %v", err))
	}
	select {} // the signal is on its way
}
