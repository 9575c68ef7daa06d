package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
)

// secantus speaks MongoDB's protocol. Its licence is the GPL's second version: it
// stays a process of its own, which only tests start.
const secantus = "SecantusDB==0.7.0b3"

// runSecantus is what its own script does, with the transactions of a lost client
// kept for as long as mongod is told to.
var runSecantus = fmt.Sprintf(`import sys
from secantus import cli, server
server.SecantusDBServer.__init__.__kwdefaults__["transaction_lifetime_seconds"] = %d.0
sys.exit(cli.main())`, transactionLifetime)

// pythons are the names under which one that is new enough may be found.
var pythons = []string{"python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"}

func startSecantus(ctx context.Context) (*server, error) {
	bin, err := secantusFolder(ctx)
	if err != nil {
		return nil, err
	}
	return retryPorts(func(port int) (*server, error) {
		return startMongoProcess(ctx, port, "secantus", func(data string) []string {
			return []string{
				filepath.Join(bin, "python"), "-c", runSecantus,
				"--port", strconv.Itoa(port), "--storage-path", data, "--enable-test-commands", "--log-level", "WARNING",
				"--sync-on-commit", // as MongoDB does for majority writes: what is acknowledged survives a kill
			}
		})
	})
}

// secantusFolder returns the programs of a virtual environment in the user's
// cache, which it makes if there is none.
func secantusFolder(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "countersign")
	home := filepath.Join(cache, secantus)
	bin := programs(home)
	if usable(ctx, bin) {
		return bin, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	failed := fmt.Errorf("python 3.11 or newer: %w", errAbsent)
	for _, name := range pythons {
		python, err := exec.LookPath(name)
		if err != nil || !recent(ctx, python) {
			continue
		}
		if err = installSecantus(ctx, python, cache, home); err == nil || ctx.Err() != nil {
			return bin, err
		}
		failed = err
	}
	return "", failed
}

// programs returns where an environment has its programs.
func programs(environment string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(environment, "Scripts")
	}
	return filepath.Join(environment, "bin")
}

// usable reports whether an environment is there and its Python still is.
func usable(ctx context.Context, bin string) bool {
	_, err := complete(ctx, nil, filepath.Join(bin, "python"), "-c", "import sys, importlib.util; sys.exit(importlib.util.find_spec('secantus') is None)")
	return err == nil
}

func recent(ctx context.Context, python string) bool {
	_, err := complete(ctx, nil, python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))")
	return err == nil
}

// installSecantus makes the environment beside its home and moves it there when
// it is complete: two runs, or one that is interrupted, do no harm.
func installSecantus(ctx context.Context, python, cache, home string) (err error) {
	draft, err := os.MkdirTemp(cache, "draft-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	if _, err := complete(ctx, nil, python, "-m", "venv", draft); err != nil {
		return err
	}
	pip := filepath.Join(programs(draft), "python")
	if _, err := complete(ctx, nil, pip, "-m", "pip", "install", "--quiet", "--only-binary", "SecantusDB", secantus); err != nil {
		return err
	}
	if err := os.Rename(draft, home); err == nil || usable(ctx, programs(home)) {
		return nil // or another run was faster
	}
	// What is there has lost its Python.
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	return os.Rename(draft, home)
}
