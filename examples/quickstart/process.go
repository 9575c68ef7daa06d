package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
)

// A process is a running service, as its broker sees it.
type process struct {
	in   io.WriteCloser
	out  *bufio.Scanner
	kill func() // as kill -9 does
	wait func() error
}

// start starts the service as a process of its own.
func start(ctx context.Context, p place) (*process, error) {
	if p.inMemory() {
		return startHere(ctx, p), nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-serve", p.run, "-store", p.where) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, err
	}
	return &process{in: in, out: bufio.NewScanner(out), kill: func() { _ = cmd.Process.Kill() }, wait: cmd.Wait}, nil
}

// startHere runs the service in this process, where the memory is. It can't be
// killed: nothing would be left to look at.
func startHere(ctx context.Context, p place) *process {
	deliveries, in := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := service(ctx, p, deliveries, answers)
		_, _ = deliveries.Close(), answers.Close()
		done <- err
	}()
	return &process{in: in, out: bufio.NewScanner(out), kill: func() {}, wait: func() error { return <-done }}
}
