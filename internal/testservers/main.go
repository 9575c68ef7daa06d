// Command testservers runs a command with a Postgres and a MongoDB to test
// against. It finds or starts them, and stops and removes what it started when
// the command ends, however it ends.
//
//	go run ./internal/testservers -- go test ./...
//
// Without a command it prints the variables and waits for an interrupt.
// CONTRIBUTING.md says where the servers come from.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

func main() {
	flag.Parse()
	os.Exit(run(flag.Args()))
}

func run(command []string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	go func() { orphaned(ctx); cancel() }()
	code := 0
	err := session(ctx, os.Stderr, kinds, func(vars []string) (err error) {
		if len(command) == 0 {
			for _, v := range vars {
				name, value, _ := strings.Cut(v, "=")
				fmt.Printf("export %s='%s'\n", name, value)
			}
			fmt.Fprintln(os.Stderr, "The servers run until this is interrupted.")
			<-ctx.Done()
			return nil
		}
		code, err = perform(ctx, command, vars)
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "testservers:", err)
		return 1
	}
	return code
}

// session starts what is missing, calls body with the variables, and stops what
// it started: also if a start fails or panics, and if body does.
func session(ctx context.Context, out io.Writer, kinds []kind, body func(vars []string) error) (err error) {
	type found struct {
		server *server
		err    error
	}
	results := make([]chan found, len(kinds))
	for i, k := range kinds {
		results[i] = make(chan found, 1)
		go func() {
			var f found
			defer func() {
				if p := recover(); p != nil {
					f.err = fmt.Errorf("%s: panic: %v\n%s", k.name, p, debug.Stack())
				}
				results[i] <- f
			}()
			if os.Getenv(k.variable) == "" { // a variable that is set wins
				f.server, f.err = provide(ctx, out, k)
			}
		}()
	}
	var names, vars []string
	for i, k := range kinds {
		f := <-results[i]
		names = append(names, k.name)
		err = errors.Join(err, f.err)
		if f.server == nil {
			if f.err == nil {
				vars = append(vars, k.variable+"="+os.Getenv(k.variable))
			}
			continue
		}
		control, controlErr := serveControl(f.server, f.server.start)
		if controlErr != nil {
			err = errors.Join(err, controlErr)
			continue
		}
		defer func() { err = errors.Join(err, control.close()) }()
		vars = append(vars, k.variable+"="+f.server.address, k.control+"="+control.url)
	}
	if err != nil {
		return err
	}
	return body(append(vars, "COUNTERSIGN_TEST_REQUIRE="+strings.Join(names, ",")))
}

// patience is how long the command has to end after a signal.
const patience = 10 * time.Second

// perform runs the command in a process group of its own, so that nothing of it
// is left when it ends, and returns its exit code.
func perform(ctx context.Context, command, vars []string) (code int, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the user's own command
	cmd.Env = append(os.Environ(), vars...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = inGroup(syscall.SIGKILL)
	cmd.Cancel = func() error { return signalGroup(cmd.Process, syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = signalGroup(cmd.Process, syscall.SIGKILL) }()
	err = cmd.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if code = exit.ExitCode(); code < 0 {
			return 0, fmt.Errorf("%s: %w", command[0], exit)
		}
		return code, nil
	}
	return 0, err
}
