//go:build !unix

package main

import (
	"context"
	"os"
	"syscall"
)

// Systems without process groups and accounts of this kind: a process is ended
// alone.

type account struct{ uid, gid int }

func apart() (*account, error) { return nil, nil }

func (a *account) apply(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

func inGroup(syscall.Signal) *syscall.SysProcAttr { return nil }

func childrenOf(int) []*os.Process { return nil }

func signalGroup(p *os.Process, _ syscall.Signal) error { return p.Kill() }

func orphaned(ctx context.Context) { <-ctx.Done() }
