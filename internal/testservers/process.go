package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A process is a host: a program with a folder of its own.
type process struct {
	folder  string // its data and its output; removed with it
	command []string
	account *account
	stop    syscall.Signal // ends it cleanly

	cmd    *exec.Cmd
	exited chan struct{}
}

// newFolder returns a new temporary folder that the account can use.
func newFolder(name string, a *account) (string, error) {
	folder, err := os.MkdirTemp("", "countersign-"+name+"-")
	if err != nil {
		return "", err
	}
	if a != nil {
		if err := os.Chown(folder, a.uid, a.gid); err != nil {
			return "", errors.Join(err, os.RemoveAll(folder))
		}
	}
	return folder, nil
}

func (p *process) start(context.Context) error {
	// A file, not a pipe: nothing waits for those who have inherited it, and the
	// server never waits for a reader.
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	// No context: whoever started it ends it, in its own way.
	cmd := exec.Command(p.command[0], p.command[1:]...) //nolint:gosec // a server that was found
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.folder, log, log
	cmd.SysProcAttr = p.account.apply(inGroup(p.stop))
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	p.cmd, p.exited = cmd, exited
	return nil
}

func (p *process) log() string { return filepath.Join(p.folder, "output") }

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return p.cmd != nil
	}
}

func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}
	// Processes of Postgres leave the group of their parent.
	children := childrenOf(p.cmd.Process.Pid)
	err := signalGroup(p.cmd.Process, syscall.SIGKILL)
	for _, child := range children {
		_ = child.Kill()
	}
	if err != nil && p.alive() {
		return err
	}
	<-p.exited
	return nil
}

func (p *process) remove() error {
	if p.cmd != nil && p.alive() && signalGroup(p.cmd.Process, p.stop) == nil {
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-p.exited:
		case <-late.C:
		}
	}
	return errors.Join(p.kill(), os.RemoveAll(p.folder))
}

// longestOutput is how much of a server's output is worth printing.
const longestOutput = 16 << 10

func (p *process) output() string {
	out, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	return tail(out)
}

func tail(out []byte) string {
	return string(out[max(0, len(out)-longestOutput):])
}

// complete runs a program to its end and returns its output. What it complained of
// is in the error.
func complete(ctx context.Context, a *account, command ...string) (string, error) {
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // programs that were found
	cmd.Dir = os.TempDir()                                      // a folder that the account can be in
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.SysProcAttr = a.apply(inGroup(syscall.SIGTERM))
	cmd.Cancel = func() error { return signalGroup(cmd.Process, syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Run(); err != nil {
		if cmd.Process != nil {
			_ = signalGroup(cmd.Process, syscall.SIGKILL)
		}
		return "", fmt.Errorf("%s: %w:\n%s%s", filepath.Base(command[0]), err, tail(out.Bytes()), tail(complaints.Bytes()))
	}
	return out.String(), nil
}
