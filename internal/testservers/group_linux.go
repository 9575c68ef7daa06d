package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// inGroup puts a process into a group of its own. It gets the signal if this
// program dies and can't end it any more. The kernel means the thread that
// started it, and Go ends no thread as long as no goroutine is locked to one.
func inGroup(death syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
}

// childrenOf returns the children of a process.
func childrenOf(pid int) (children []*os.Process) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(list)) {
		if id, err := strconv.Atoi(field); err == nil {
			if child, err := os.FindProcess(id); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}
