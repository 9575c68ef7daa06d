package storetest

import (
	"context"
	"testing"
)

// T is what a case needs of a test. [*testing.T] satisfies it, and so does the
// recording T of [Case.Try], so that a case can be run against a broken store
// without failing the test around it.
//
// Fatalf and FailNow end the case and must be called from the goroutine that
// runs it.
type T interface {
	Helper()
	Name() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	FailNow()
	Failed() bool
	TempDir() string
	Cleanup(func())
	Context() context.Context
}

var _ T = (*testing.T)(nil)
