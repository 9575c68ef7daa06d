package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// policy is the program that Debian asks whether a service may be started by the
// installation of its package; 101 forbids it.
const (
	policyFile    = "/usr/sbin/policy-rc.d"
	policyProgram = "#!/bin/sh\nexit 101\n"
)

// installCluster installs Postgres and starts a cluster. The service of the
// package is not started.
func installCluster(ctx context.Context) (_ *server, err error) {
	if _, statErr := os.Stat("/etc/debian_version"); statErr != nil || os.Geteuid() != 0 {
		return nil, fmt.Errorf("debian and root: %w", errAbsent)
	}
	if _, lookErr := exec.LookPath("apt-get"); lookErr != nil {
		return nil, fmt.Errorf("apt-get: %w", errAbsent)
	}
	if err := forbidServices(policyFile, func() error { return aptInstall(ctx, "postgresql") }); err != nil {
		return nil, err
	}
	return startCluster(ctx)
}

// aptInstall installs a package, with the lists that are there if they will do.
func aptInstall(ctx context.Context, name string) error {
	// Another run may be at it.
	const wait = "DPkg::Lock::Timeout=300"
	install := func() error {
		_, err := complete(ctx, nil, "env", "DEBIAN_FRONTEND=noninteractive",
			"apt-get", "-o", wait, "install", "-y", "--no-install-recommends", name)
		return err
	}
	if err := install(); err == nil || ctx.Err() != nil {
		return err
	}
	if _, err := complete(ctx, nil, "apt-get", "-o", wait, "update"); err != nil {
		return err
	}
	return install()
}

// forbidServices runs body while no installation may start a service. A policy
// that is there stays: it is the machine's own.
func forbidServices(policy string, body func() error) (err error) {
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // Debian runs it
	switch {
	case errors.Is(err, fs.ErrExist):
		return body()
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(policy)) }()
	_, err = file.WriteString(policyProgram)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return body()
}
