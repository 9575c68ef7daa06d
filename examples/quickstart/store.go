package main

import (
	"context"
	"errors"
	"strings"

	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
	"github.com/countersign/countersign/store/mongo"
	"github.com/countersign/countersign/store/postgres"
	"github.com/countersign/countersign/store/sqlite"
)

type backend interface {
	store.Backend
	Close() error
}

// A place is where the store is.
type place struct {
	where string // what -store takes
	run   string // the name of this run: of its schema or database on a server
}

// medium outlives the handles on it, but not the process.
var medium = memory.NewMedium()

func (p place) inMemory() bool { return p.where == "memory" }

// open is all that a program says of the store that it uses.
func open(ctx context.Context, p place) (backend, error) {
	scheme, _, _ := strings.Cut(p.where, "://")
	switch scheme {
	case "memory":
		return memory.Open(medium), nil
	case "postgres", "postgresql":
		return postgres.Open(ctx, p.where, &postgres.Options{Schema: p.run})
	case "mongodb", "mongodb+srv":
		return mongo.Open(ctx, p.where, &mongo.Options{Database: p.run})
	}
	return sqlite.Open(ctx, p.where, nil)
}

// leave removes what this run has made on a server. A file stays.
func leave(ctx context.Context, p place) error {
	db, err := open(ctx, p)
	if err != nil {
		return err
	}
	switch db := db.(type) {
	case *postgres.Store:
		_, err = db.Pool().Exec(ctx, "DROP SCHEMA "+p.run+" CASCADE")
	case *mongo.Store:
		err = db.Database().Drop(ctx)
	}
	return errors.Join(err, db.Close())
}
