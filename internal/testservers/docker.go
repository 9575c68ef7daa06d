package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	postgresImage = "postgres:18"
	mongoImage    = "mongo:8"
)

// A container is a host: one of a Docker engine.
type container struct {
	arguments []string // of docker run
	id        string
}

func startPostgresContainer(ctx context.Context) (*server, error) {
	if err := engine(ctx); err != nil {
		return nil, err
	}
	return retryPorts(func(port int) (*server, error) {
		c := &container{arguments: append([]string{
			"--publish", local(port) + ":5432", "--env", "POSTGRES_HOST_AUTH_METHOD=trust", postgresImage,
		}, postgresSettings...)}
		return begin(ctx, postgresServer(c, port))
	})
}

func startMongoContainer(ctx context.Context) (*server, error) {
	if err := engine(ctx); err != nil {
		return nil, err
	}
	return retryPorts(func(port int) (*server, error) {
		// The same port within, so that the address by which the replica set knows
		// itself is right on both sides.
		c := &container{arguments: append([]string{
			"--publish", local(port) + ":" + strconv.Itoa(port), mongoImage, "--bind_ip_all",
		}, mongodOptions(port)...)}
		return begin(ctx, mongoServer(c, port, replicaSet))
	})
}

// engine reports whether there is one that answers.
func engine(ctx context.Context) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return fmt.Errorf("docker: %w", errAbsent)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := complete(ctx, nil, "docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		return fmt.Errorf("docker: %w: %w", errAbsent, err)
	}
	return nil
}

func (c *container) start(ctx context.Context) error {
	if c.id != "" {
		_, err := complete(ctx, nil, "docker", "start", c.id)
		return err
	}
	// Made before it is started, so that its id is known whatever happens next.
	id, err := complete(ctx, nil, append([]string{"docker", "create"}, c.arguments...)...)
	if err != nil {
		return err
	}
	c.id = strings.TrimSpace(id)
	return c.start(ctx)
}

func (c *container) alive() bool {
	out, err := complete(context.Background(), nil, "docker", "inspect", "--format", "{{.State.Running}}", c.id)
	return err == nil && strings.TrimSpace(out) == "true"
}

func (c *container) kill() error {
	if !c.alive() {
		return nil
	}
	_, err := complete(context.Background(), nil, "docker", "kill", c.id)
	if err != nil && !c.alive() {
		return nil
	}
	return err
}

func (c *container) remove() error {
	if c.id == "" {
		return nil
	}
	_, err := complete(context.Background(), nil, "docker", "rm", "--force", "--volumes", c.id)
	return err
}

func (c *container) output() string {
	out, err := exec.Command("docker", "logs", "--tail", "200", c.id).CombinedOutput() //nolint:gosec // an id of docker's
	if err != nil {
		return err.Error()
	}
	return tail(out)
}
