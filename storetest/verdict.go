package storetest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// A Verdict is what a case found, as a value.
type Verdict struct {
	Case     string   // group/name
	Failures []string // empty: the promise is kept
	Log      []string
}

// Failed reports whether the promise is broken.
func (v Verdict) Failed() bool { return len(v.Failures) > 0 }

// Try runs the case and returns what it found instead of failing a test. A panic
// of the store is a failure. So is a case that still runs when ctx ends; its
// goroutine is then left behind.
func (c Case) Try(ctx context.Context, h Harness) Verdict {
	r := &recorder{name: c.String()}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.clean()
		defer cancel() // before the cleanups, as testing does it
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		c.Run(r, h)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		r.Errorf("still running when its time was over: %v", context.Cause(ctx))
	}
	return r.verdict()
}

// recorder is a T that keeps what is reported.
type recorder struct {
	name string
	ctx  context.Context

	mu       sync.Mutex
	failures []string
	log      []string
	cleanups []func()
}

var _ T = (*recorder)(nil)

func (r *recorder) Helper()                  {}
func (r *recorder) Name() string             { return r.name }
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) FailNow() {
	if !r.Failed() {
		r.Errorf("failed")
	}
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "storetest-")
	if err != nil {
		r.Fatalf("no temporary folder: %v", err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// clean runs the cleanups, the last one first.
func (r *recorder) clean() {
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		last()
	}
}

func (r *recorder) verdict() Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Verdict{
		Case:     r.name,
		Failures: append([]string(nil), r.failures...),
		Log:      append([]string(nil), r.log...),
	}
}
