package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const replicaSet = "rs0"

// mongodOptions make a replica set of one, which tests can tell to fail.
// transactionLifetime is how many seconds the transaction of a client that is gone
// holds its records. A minute, as servers have it, would be long for tests that cut
// connections.
const transactionLifetime = 10

func mongodOptions(port int) []string {
	return []string{
		"--replSet", replicaSet, "--port", strconv.Itoa(port), "--setParameter", "enableTestCommands=1",
		"--setParameter", "transactionLifetimeLimitSeconds=" + strconv.Itoa(transactionLifetime),
	}
}

func mongoServer(h host, port int, set string) *server {
	return &server{
		address: fmt.Sprintf("mongodb://%s/?replicaSet=%s", local(port), set),
		ready:   func(ctx context.Context) error { return greetMongo(ctx, port) },
		host:    h,
	}
}

func startMongod(ctx context.Context) (*server, error) {
	mongod, err := exec.LookPath("mongod")
	if err != nil {
		return nil, fmt.Errorf("mongod: %w", errAbsent)
	}
	return retryPorts(func(port int) (*server, error) {
		return startMongoProcess(ctx, port, replicaSet, func(data string) []string {
			return append([]string{mongod, "--bind_ip", "127.0.0.1", "--dbpath", data}, mongodOptions(port)...)
		})
	})
}

// startMongoProcess starts a program that speaks MongoDB's protocol, on a folder
// of its own.
func startMongoProcess(ctx context.Context, port int, set string, command func(data string) []string) (*server, error) {
	folder, err := newFolder("mongo", nil)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	p := &process{folder: folder, stop: syscall.SIGTERM, command: command(data)}
	return begin(ctx, mongoServer(p, port, set))
}

// greetMongo asks the server whether it takes writes. One that is not yet part of
// a replica set is told to be one.
func greetMongo(ctx context.Context, port int) (err error) {
	if err := open(ctx, port); err != nil {
		return err // the driver would wait before it looks again
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + local(port) + "/?directConnection=true"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	admin := client.Database("admin")
	var hello struct {
		Primary bool   `bson:"isWritablePrimary"`
		Set     string `bson:"setName"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		return err
	}
	if hello.Primary {
		return nil
	}
	if hello.Set == "" {
		member := bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: local(port)}}
		config := bson.D{{Key: "_id", Value: replicaSet}, {Key: "members", Value: bson.A{member}}}
		// An error is that of a server which is one already and does not know it yet.
		_ = admin.RunCommand(ctx, bson.D{{Key: "replSetInitiate", Value: config}}).Err()
	}
	return errors.New("mongo: not yet the primary")
}
