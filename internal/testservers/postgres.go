package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const debianFolder = "/usr/lib/postgresql/*/bin"

// postgresSettings leave everything on that durability needs.
var postgresSettings = []string{
	"-c", "max_connections=200",
	"-c", "fsync=on",
	"-c", "synchronous_commit=on",
	"-c", "full_page_writes=on",
}

func postgresServer(h host, port int) *server {
	return &server{
		address: fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", local(port)),
		ready:   func(ctx context.Context) error { return greetPostgres(ctx, port) },
		host:    h,
	}
}

// startCluster starts a throw-away cluster.
func startCluster(ctx context.Context) (*server, error) {
	bin, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	who, err := apart() // Postgres refuses to run as root
	if err != nil {
		return nil, err
	}
	return retryPorts(func(port int) (*server, error) { return startClusterAt(ctx, bin, who, port) })
}

func startClusterAt(ctx context.Context, bin string, who *account, port int) (*server, error) {
	folder, err := newFolder("postgres", who)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	if err := initCluster(ctx, bin, who, data); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return begin(ctx, postgresServer(&process{
		folder:  folder,
		account: who,
		// Immediate shutdown: the data is thrown away, but shared memory is given back.
		stop: syscall.SIGQUIT,
		command: append([]string{
			filepath.Join(bin, "postgres"), "-D", data,
			"-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(port),
			"-c", "unix_socket_directories=",
			"-c", "dynamic_shared_memory_type=mmap", // in the folder, where nothing is left behind after a kill
		}, postgresSettings...),
	}, port))
}

// initCluster makes a cluster that sorts text as people do, which an adapter that
// needs the order of bytes must not notice. Servers without ICU get the order of
// bytes.
func initCluster(ctx context.Context, bin string, who *account, data string) error {
	command := []string{filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"}
	if _, err := complete(ctx, who, append(command, "--locale-provider=icu", "--icu-locale=en-US")...); err == nil || ctx.Err() != nil {
		return err
	}
	_, err := complete(ctx, who, command...)
	return err
}

// postgresFolder returns where initdb and postgres are: in PATH, or of the newest
// version that Debian has installed.
func postgresFolder() (string, error) {
	if found, err := exec.LookPath("initdb"); err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil && hasPostgres(filepath.Dir(found)) {
			return filepath.Dir(found), nil
		}
	}
	folders, err := filepath.Glob(debianFolder)
	if err != nil {
		return "", err
	}
	newest, folder := -1, ""
	for _, f := range folders {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err == nil && version > newest && hasPostgres(f) {
			newest, folder = version, f
		}
	}
	if folder == "" {
		return "", fmt.Errorf("initdb and postgres: %w", errAbsent)
	}
	return folder, nil
}

func hasPostgres(folder string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(folder, program)); err != nil {
			return false
		}
	}
	return true
}

// greetPostgres opens a session as a client does, up to the server's
// ReadyForQuery.
func greetPostgres(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", local(port))
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it was for reading
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	const protocol = 3 << 16
	parameters := "user\x00postgres\x00database\x00postgres\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(parameters)))
	hello = binary.BigEndian.AppendUint32(hello, protocol)
	if _, err := c.Write(append(hello, parameters...)); err != nil {
		return err
	}
	for {
		var head [5]byte // a type, and the length of itself and what follows
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		body := make([]byte, min(max(binary.BigEndian.Uint32(head[1:]), 4)-4, 1<<16))
		if _, err := io.ReadFull(c, body); err != nil {
			return err
		}
		switch head[0] {
		case 'E':
			return fmt.Errorf("postgres: %q", body)
		case 'Z':
			_, err := c.Write([]byte{'X', 0, 0, 0, 4}) // goodbye
			return err
		}
	}
}
