//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"
)

// An account is who a program runs as. Nil is who this program runs as.
type account struct{ uid, gid int }

// apart returns an account for programs that refuse to run as root, or nil if
// this program does not run as root.
func apart() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var missing error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		return &account{uid: uid, gid: gid}, errors.Join(uidErr, gidErr)
	}
	return nil, missing
}

func (a *account) apply(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)} //nolint:gosec // ids of the system
	}
	return attr
}

// signalGroup sends a signal to the group that p leads.
func signalGroup(p *os.Process, s syscall.Signal) error { return syscall.Kill(-p.Pid, s) }

// orphaned returns when the process that started this one has ended: go run, for
// one, passes no SIGTERM on.
func orphaned(ctx context.Context) {
	parent := os.Getppid()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for os.Getppid() == parent {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
