//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

// inGroup puts a process into a group of its own.
func inGroup(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// childrenOf returns nothing here: those of a server that was killed notice it,
// and its restart waits for them.
func childrenOf(int) []*os.Process { return nil }
