package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// A kind is a database server that tests need.
type kind struct {
	name     string
	variable string // where tests look for its address
	control  string // where they look for the endpoint that restarts it
	sources  []source
}

// A source is a way to get a server.
type source struct {
	name string // what would do: the end of "install …"
	// installs says that it downloads what it needs, which nobody expects of a
	// plain go test.
	installs bool
	// start returns a server that answers. It has an error that matches
	// errAbsent if what it needs is not there.
	start func(ctx context.Context) (*server, error)
}

var errAbsent = errors.New("not there")

var kinds = []kind{
	{
		name: "postgres", variable: "COUNTERSIGN_TEST_POSTGRES_DSN", control: "COUNTERSIGN_TEST_POSTGRES_CONTROL",
		sources: []source{
			{name: "initdb and postgres in PATH or under " + debianFolder, start: startCluster},
			{name: "a Docker engine that can run " + postgresImage, start: startPostgresContainer, installs: true},
			{name: "Debian and root, to install the package postgresql", start: installCluster, installs: true},
		},
	},
	{
		name: "mongo", variable: "COUNTERSIGN_TEST_MONGO_URI", control: "COUNTERSIGN_TEST_MONGO_CONTROL",
		sources: []source{
			{name: "mongod in PATH", start: startMongod},
			{name: "a Docker engine that can run " + mongoImage, start: startMongoContainer, installs: true},
			{name: "Python 3.11 or newer with venv, to install " + secantus + " from PyPI", start: startSecantus, installs: true},
		},
	},
}

// provide starts a server from the first source that has one. A source that is
// there and fails is reported, and the next one gets its chance.
func provide(ctx context.Context, out io.Writer, k kind) (*server, error) {
	message := fmt.Sprintf("no server for %s; one of these would do:\n  the variable %s", k.name, k.variable)
	for _, s := range k.sources {
		srv, err := s.start(ctx)
		if err == nil {
			srv.start = s.start
			return srv, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.Is(err, errAbsent) {
			fmt.Fprintf(out, "testservers: %s: %s: %v\n", k.name, s.name, err)
		}
		message += "\n  " + s.name
	}
	return nil, errors.New(message)
}
