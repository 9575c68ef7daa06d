// Package differential compares the stores of this module with each other.
package differential

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/serverenv"
	"github.com/countersign/countersign/store/memory"
	"github.com/countersign/countersign/store/mongo"
	"github.com/countersign/countersign/store/postgres"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/countersign/countersign/storetest"
	"github.com/jackc/pgx/v5"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The embedded stores, and then all four, hold the same after the same histories.
// How many: -rapid.checks.
func TestStoresHoldTheSame(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		storetest.Differ(t, map[string]storetest.Harness{"memory": inMemory(), "sqlite": inFile()})
	})
	t.Run("all", func(t *testing.T) {
		stores := map[string]storetest.Harness{
			"memory": inMemory(), "sqlite": inFile(),
			"postgres": onPostgres(serverenv.Postgres.Address(t)), "mongo": onMongo(serverenv.Mongo.Address(t)),
		}
		inRounds(t, func(t *testing.T) { storetest.Differ(t, stores) })
	})
}

// inRounds divides the histories between databases: the MongoDB that tests start by
// themselves looks at the whole collection for a range of it.
func inRounds(t *testing.T, differ func(t *testing.T)) {
	const each = 25
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { _ = checks.Value.Set(before) }()
	all, err := strconv.Atoi(before)
	if err != nil {
		t.Fatal(err)
	}
	for done := 0; done < all && !t.Failed(); done += each {
		_ = checks.Value.Set(strconv.Itoa(min(each, all-done)))
		t.Run(fmt.Sprintf("after %d", done), differ)
	}
}

func inMemory() storetest.Harness {
	return storetest.Harness{New: func(storetest.T) storetest.Opener {
		medium := memory.NewMedium()
		return func(context.Context, storetest.OpenOptions) (storetest.Backend, error) {
			return memory.Open(medium), nil
		}
	}}
}

func inFile() storetest.Harness {
	return storetest.Harness{New: func(t storetest.T) storetest.Opener {
		file := filepath.Join(t.TempDir(), "db")
		return func(ctx context.Context, _ storetest.OpenOptions) (storetest.Backend, error) {
			return sqlite.Open(ctx, file, nil)
		}
	}}
}

// fresh is a name that no other run uses.
func fresh() string { return fmt.Sprintf("countersign_test_%x", rand.Uint64()) }

func onPostgres(dsn string) storetest.Harness {
	return storetest.Harness{New: func(t storetest.T) storetest.Opener {
		opts := &postgres.Options{Schema: fresh()}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			conn, err := pgx.Connect(ctx, dsn)
			if err == nil {
				_, err = conn.Exec(ctx, "DROP SCHEMA "+opts.Schema+" CASCADE")
				err = errors.Join(err, conn.Close(ctx))
			}
			if err != nil {
				t.Errorf("%v", err)
			}
		})
		return func(ctx context.Context, _ storetest.OpenOptions) (storetest.Backend, error) {
			return postgres.Open(ctx, dsn, opts)
		}
	}}
}

func onMongo(uri string) storetest.Harness {
	return storetest.Harness{New: func(t storetest.T) storetest.Opener {
		opts := &mongo.Options{Database: fresh(), BusyTimeout: time.Minute}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			client, err := driver.Connect(options.Client().ApplyURI(uri))
			if err == nil {
				err = errors.Join(client.Database(opts.Database).Drop(ctx), client.Disconnect(ctx))
			}
			if err != nil {
				t.Errorf("%v", err)
			}
		})
		return func(ctx context.Context, _ storetest.OpenOptions) (storetest.Backend, error) {
			return mongo.Open(ctx, uri, opts)
		}
	}}
}
