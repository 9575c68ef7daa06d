package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/countersign/countersign/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCrashLadder kills a child process at every statement of its work in turn.
func TestCrashLadder(t *testing.T) { storetest.CrashLadder(t, ladder(t)) }

// TestCrashAppends kills child processes at random statements.
func TestCrashAppends(t *testing.T) { storetest.CrashAppends(t, ladder(t)) }

// ladder reaches a file, and steps around each statement.
func ladder(t *testing.T) storetest.Ladder {
	return storetest.Ladder{
		Open: func(ctx context.Context, location string, step func()) (storetest.Backend, error) {
			path := filepath.Join(location, "ladder.db")
			made, err := sqlite.Open(ctx, path, nil)
			if err != nil {
				return nil, err
			}
			if err := made.Close(); err != nil {
				return nil, err
			}
			each := func(string) error { step(); return nil }
			return sqlite.New(ctx, faultyDB(t, path, &faults{before: each, after: each}), nil)
		},
	}
}

// child runs one of this file's roles in another process.
func child(ctx context.Context, t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, self, "-test.run=^TestChildProcess$")
	cmd.Env = append(os.Environ(), "COUNTERSIGN_CHILD="+role, "COUNTERSIGN_CHILD_ARGS="+strings.Join(args, "\n"))
	cmd.Stderr = os.Stderr
	return cmd
}

// TestChildProcess is what other tests run in processes of their own. Without a
// role it proves that a child needs one.
func TestChildProcess(t *testing.T) {
	args := strings.Split(os.Getenv("COUNTERSIGN_CHILD_ARGS"), "\n")
	switch role := os.Getenv("COUNTERSIGN_CHILD"); role {
	case "commit for ever":
		commitForEver(t, args[0])
	case "open and commit":
		openAndCommit(t, args[0], args[1])
	case "open and append":
		openAndAppend(t, args[0], args[1])
	default:
		require.Empty(t, role)
	}
}

// Eight processes open one new file at once, migrate it, and commit (B31, B33).
func TestManyProcessesOpenOneNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	var wg sync.WaitGroup
	for i := range 8 {
		cmd := child(t.Context(), t, "open and commit", path, strconv.Itoa(i))
		wg.Go(func() { assert.NoError(t, cmd.Run()) })
	}
	wg.Wait()
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	img, err := durable.Recover(t.Context(), s, "shared")
	require.NoError(t, err)
	assert.EqualValues(t, 8*commitsOfAChild, img.Position)
	assert.Len(t, img.Inbox, 8*commitsOfAChild)
}

const commitsOfAChild = 25

// openAndCommit commits to an owner that other processes commit to as well.
func openAndCommit(t *testing.T, path, name string) {
	s, err := sqlite.Open(t.Context(), path, &sqlite.Options{BusyTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.CreateOwner(t.Context(), durable.CreateOwner{Owner: "shared", Mode: durable.EventHistory})
	require.NoError(t, err)
	for i := range commitsOfAChild {
		for {
			img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "shared", Parts: &durable.Parts{}})
			require.NoError(t, err)
			c := commitTo("shared", img.Position)
			c.Inbox.ID = fmt.Sprint("message ", name, " ", i)
			c.Effects = nil
			_, err = s.CommitOwner(t.Context(), c)
			if errors.Is(err, countersign.ErrConflict) {
				continue // another process was first
			}
			require.NoError(t, err)
			break
		}
	}
}

// A process under load is killed at a random instant, again and again: whatever
// it acknowledged is there, and every image is whole.
func TestKilledUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "killed.db")
	acknowledged := map[string]uint64{}
	for round := range 12 {
		ctx, kill := context.WithCancel(t.Context())
		cmd := child(ctx, t, "commit for ever", path) // the end of the context is SIGKILL
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 20 + rand.IntN(200); lines.Scan(); n-- {
			if owner, at, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "ack "), " "); ok && strings.HasPrefix(lines.Text(), "ack ") {
				through, err := strconv.ParseUint(at, 10, 64)
				require.NoError(t, err)
				acknowledged[owner] = max(acknowledged[owner], through)
			}
			if n == 0 {
				kill() // and go on reading what was written before it died
			}
		}
		require.Error(t, cmd.Wait(), "the child is killed, it does not end")
		kill()

		s, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err, "round %d", round)
		for owner, through := range acknowledged {
			img, err := durable.Recover(t.Context(), s, owner)
			require.NoError(t, err)
			require.GreaterOrEqual(t, img.Position, through, "an acknowledged commit is lost")
			require.Len(t, img.Inbox, int(img.Position))
			require.Len(t, img.Outbox, int(img.Position), "each effect once")
		}
		require.NoError(t, s.Close())
	}
	require.Len(t, acknowledged, loadOwners)
}

const loadOwners = 8

func commitForEver(t *testing.T, path string) {
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	var print sync.Mutex
	var wg sync.WaitGroup
	for i := range loadOwners {
		owner := fmt.Sprint("owner-", i)
		wg.Go(func() {
			_, err := s.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.EventHistory})
			if !assert.NoError(t, err) {
				return
			}
			img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: owner, Parts: &durable.Parts{}})
			for at := img.Position; err == nil; at++ {
				var res durable.Committed
				if res, err = s.CommitOwner(t.Context(), commitTo(owner, at)); err == nil {
					print.Lock()
					fmt.Printf("ack %s %d\n", owner, res.Through)
					print.Unlock()
				}
			}
			assert.NoError(t, err)
		})
	}
	wg.Wait()
}
