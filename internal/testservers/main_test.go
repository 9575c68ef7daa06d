package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// asProgram makes the test binary be the program.
const asProgram = "COUNTERSIGN_TESTSERVERS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// startable returns a kind without the variables of a run around this one. What
// must be downloaded first is left to runs that require it; where there is no
// server at all the test is skipped, or fails in these.
func startable(t *testing.T, name string) kind {
	t.Helper()
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	k := kinds[i]
	t.Setenv(k.variable, "")
	if slices.Contains(strings.Split(os.Getenv("COUNTERSIGN_TEST_REQUIRE"), ","), name) {
		return k
	}
	k.sources = slices.DeleteFunc(slices.Clone(k.sources), func(s source) bool { return s.installs })
	found := map[string]func() bool{
		"postgres": func() bool { _, err := postgresFolder(); return err == nil },
		"mongo":    func() bool { _, err := exec.LookPath("mongod"); return err == nil },
	}
	if !found[name]() {
		t.Skipf("%s: there is none, and COUNTERSIGN_TEST_REQUIRE does not name it", name)
	}
	return k
}

// emptied makes a folder for everything temporary and asserts in the end that
// nothing is left in it.
func emptied(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "testservers-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755)) //nolint:gosec // the servers' account passes through it
	t.Setenv("TMPDIR", folder)
	t.Cleanup(func() {
		left, err := os.ReadDir(folder)
		assert.NoError(t, err)
		assert.Empty(t, left)
		assert.NoError(t, os.RemoveAll(folder))
	})
	return folder
}

// A row is what a test writes into a server before it is killed.
type row interface {
	write(ctx context.Context) error
	read(ctx context.Context) error
}

type postgresRow struct{ dsn string }

func (r postgresRow) exec(ctx context.Context, sql string) error {
	c, err := pgx.Connect(ctx, r.dsn)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql)
	return errors.Join(err, c.Close(ctx))
}

func (r postgresRow) write(ctx context.Context) error {
	return r.exec(ctx, "CREATE TABLE kept AS SELECT 1 AS n")
}

// It divides by zero if the row is not there.
func (r postgresRow) read(ctx context.Context) error {
	return r.exec(ctx, "SELECT 1 / count(*) FROM kept")
}

type mongoRow struct{ uri string }

func (r mongoRow) do(ctx context.Context, body func(*mongo.Collection) error) error {
	c, err := mongo.Connect(options.Client().ApplyURI(r.uri))
	if err != nil {
		return err
	}
	return errors.Join(body(c.Database("kept").Collection("kept")), c.Disconnect(ctx))
}

func (r mongoRow) write(ctx context.Context) error {
	return r.do(ctx, func(c *mongo.Collection) error {
		_, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}})
		return err
	})
}

func (r mongoRow) read(ctx context.Context) error {
	return r.do(ctx, func(c *mongo.Collection) error { return c.FindOne(ctx, bson.D{}).Err() })
}

func post(t *testing.T, url string, status int) (body string) {
	t.Helper()
	answer, err := http.Post(url, "", nil)
	require.NoError(t, err)
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, errors.Join(err, answer.Body.Close()))
	require.Equal(t, status, answer.StatusCode, string(content))
	return string(content)
}

func TestAServerIsStartedKilledRestartedAndStopped(t *testing.T) {
	for name, rowAt := range map[string]func(string) row{
		"postgres": func(address string) row { return postgresRow{address} },
		"mongo":    func(address string) row { return mongoRow{address} },
	} {
		t.Run(name, func(t *testing.T) {
			k := startable(t, name)
			emptied(t)
			var address string
			var before []*server
			k.sources = slices.Clone(k.sources)
			for i, s := range k.sources {
				k.sources[i].start = func(ctx context.Context) (*server, error) {
					srv, err := s.start(ctx)
					before = append(before, srv)
					return srv, err
				}
			}
			err := session(t.Context(), t.Output(), []kind{k}, func(vars []string) error {
				got := map[string]string{}
				for _, v := range vars {
					name, value, _ := strings.Cut(v, "=")
					got[name] = value
				}
				assert.Equal(t, name, got["COUNTERSIGN_TEST_REQUIRE"])
				address = got[k.variable]
				r := rowAt(address)
				require.NoError(t, r.write(t.Context()))
				for range 3 {
					post(t, got[k.control]+"/restart", http.StatusNoContent)
					require.NoError(t, r.read(t.Context()), "what it had acknowledged is there")
				}
				another := strings.Fields(post(t, got[k.control]+"/another", http.StatusCreated))
				require.Len(t, another, 2)
				require.NoError(t, rowAt(another[0]).write(t.Context()))
				post(t, another[1]+"/restart", http.StatusNoContent)
				require.NoError(t, rowAt(another[0]).read(t.Context()))
				post(t, another[1]+"/stop", http.StatusNoContent)
				require.Error(t, rowAt(another[0]).read(t.Context()))
				post(t, another[1]+"/stop", http.StatusNoContent)
				return nil
			})
			require.NoError(t, err)
			running := slices.DeleteFunc(before, func(s *server) bool { return s == nil })
			require.Len(t, running, 2)
			for _, srv := range running {
				assert.False(t, srv.host.alive())
				assert.Error(t, srv.ready(t.Context()), "nobody listens any more")
			}
		})
	}
}

func TestAVariableThatIsSetWins(t *testing.T) {
	k := kind{name: "none", variable: "COUNTERSIGN_TEST_NONE", sources: []source{{start: func(context.Context) (*server, error) {
		t.Error("it has looked for a server")
		return nil, errAbsent
	}}}}
	t.Setenv(k.variable, "elsewhere")
	require.NoError(t, session(t.Context(), t.Output(), []kind{k}, func(vars []string) error {
		assert.Equal(t, []string{"COUNTERSIGN_TEST_NONE=elsewhere", "COUNTERSIGN_TEST_REQUIRE=none"}, vars)
		return nil
	}))
}

// A sleeper is a process that is no server, so that it never gets ready.
func sleeper(t *testing.T, ready func(context.Context) error, command ...string) (*process, func(context.Context) (*server, error)) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	folder, err := newFolder("sleeper", nil)
	require.NoError(t, err)
	p := &process{folder: folder, stop: syscall.SIGTERM, command: append([]string{"sh", "-c"}, command...)}
	return p, func(ctx context.Context) (*server, error) { return begin(ctx, &server{host: p, ready: ready}) }
}

func TestNothingIsLeftOf(t *testing.T) {
	ready := func(context.Context) error { return nil }
	never := func(context.Context) error { return errors.New("not yet") }
	one := func(start func(context.Context) (*server, error)) []kind {
		return []kind{{name: "none", variable: "COUNTERSIGN_TEST_NONE", sources: []source{{name: "a sleeper", start: start}}}}
	}
	gone := func(t *testing.T, p *process) {
		t.Helper()
		assert.NoFileExists(t, p.folder)
		assert.False(t, p.alive())
	}
	t.Run("a server that ends at once", func(t *testing.T) {
		emptied(t)
		p, start := sleeper(t, never, "echo no such disk; exit 1")
		var out bytes.Buffer
		err := session(t.Context(), &out, one(start), nil)
		assert.ErrorContains(t, err, "one of these would do:\n  the variable COUNTERSIGN_TEST_NONE\n  a sleeper")
		assert.Contains(t, out.String(), "no such disk", "what it said")
		gone(t, p)
	})
	t.Run("a start that panics", func(t *testing.T) {
		emptied(t)
		p, start := sleeper(t, func(context.Context) error { panic("look here") }, "exec sleep 1000")
		assert.ErrorContains(t, session(t.Context(), t.Output(), one(start), nil), "look here")
		gone(t, p)
	})
	t.Run("a start that is interrupted", func(t *testing.T) {
		emptied(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		p, start := sleeper(t, func(context.Context) error { cancel(interrupted); return errors.New("not yet") }, "exec sleep 1000")
		assert.ErrorIs(t, session(ctx, t.Output(), one(start), nil), interrupted)
		gone(t, p)
	})
	t.Run("a body that panics", func(t *testing.T) {
		emptied(t)
		p, start := sleeper(t, ready, "exec sleep 1000")
		assert.PanicsWithValue(t, "look here", func() {
			_ = session(t.Context(), t.Output(), one(start), func([]string) error { panic("look here") })
		})
		gone(t, p)
	})
	t.Run("a body that fails", func(t *testing.T) {
		emptied(t)
		p, start := sleeper(t, ready, "exec sleep 1000")
		failed := errors.New("failed")
		assert.ErrorIs(t, session(t.Context(), t.Output(), one(start), func([]string) error { return failed }), failed)
		gone(t, p)
	})
}

// program is this program, with a server that a test can do without downloads.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("COUNTERSIGN_TEST_MONGO_URI", "mongodb://elsewhere")
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func TestTheCommandsExitCodeIsTheProgramsOwn(t *testing.T) {
	startable(t, "postgres")
	emptied(t)
	out, err := program(t, "sh", "-c", `echo "$COUNTERSIGN_TEST_REQUIRE"; exit 7`).Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 7, exit.ExitCode())
	assert.Equal(t, "postgres,mongo\n", string(out))
}

// The command leaves a process behind on purpose, which listens to no signal but
// holds the pipe: as long as one is there, there is no end of file.
func TestASignalEndsEverything(t *testing.T) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			startable(t, "postgres")
			emptied(t)
			cmd := program(t, "sh", "-c", `(trap "" TERM INT; while :; do sleep 1; done) & echo "$COUNTERSIGN_TEST_POSTGRES_DSN"; wait`)
			pipe, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var dsn string
			_, err = fmt.Fscanln(pipe, &dsn)
			require.NoError(t, err)
			require.NoError(t, postgresRow{dsn}.exec(t.Context(), "SELECT 1"))
			require.NoError(t, cmd.Process.Signal(s))
			_, err = fmt.Fscanln(pipe, new(string))
			assert.Error(t, err, "end of file: nobody is left that could write")
			assert.Error(t, cmd.Wait(), "an exit code that says so")
			assert.Error(t, postgresRow{dsn}.exec(t.Context(), "SELECT 1"), "the server is gone")
		})
	}
}

func TestTwoRunsAtOnceAreApart(t *testing.T) {
	k := startable(t, "postgres")
	emptied(t)
	var met sync.WaitGroup
	met.Add(2)
	var runs sync.WaitGroup
	for range 2 {
		arrive := sync.OnceFunc(met.Done)
		runs.Go(func() {
			defer arrive() // if it fails before
			assert.NoError(t, session(t.Context(), t.Output(), []kind{k}, func(vars []string) error {
				_, dsn, _ := strings.Cut(vars[0], "=")
				err := postgresRow{dsn}.write(t.Context()) // a table that must not be there
				arrive()
				met.Wait()
				return err
			}))
		})
	}
	runs.Wait()
}

func TestNoPortIsGivenThatIsTaken(t *testing.T) {
	port, err := freePort()
	require.NoError(t, err)
	assert.Error(t, open(t.Context(), port))
	assert.GreaterOrEqual(t, port, lowestPort)
	assert.Less(t, port, highestPort)
}

func TestAPolicyThatIsThereStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, forbidServices(file, func() error {
		return forbidServices(file, func() error {
			content, err := os.ReadFile(file) //nolint:gosec // the test's own
			assert.Equal(t, policyProgram, string(content))
			return err
		})
	}))
	assert.NoFileExists(t, file)
	require.NoError(t, os.WriteFile(file, []byte("the machine's own"), 0o600))
	require.NoError(t, forbidServices(file, func() error { return nil }))
	assert.FileExists(t, file)
}

func TestServersAreStoppedInTime(t *testing.T) {
	emptied(t)
	p, start := sleeper(t, func(context.Context) error { return nil }, "exec sleep 1000")
	srv, err := start(t.Context())
	require.NoError(t, err)
	before := time.Now()
	require.NoError(t, srv.stop())
	assert.Less(t, time.Since(before), patience)
	assert.NoFileExists(t, p.folder)
	require.NoError(t, srv.stop(), "again")
}
