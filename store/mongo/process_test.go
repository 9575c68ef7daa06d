package mongo_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/countersign/countersign/store/mongo"
	"github.com/countersign/countersign/storetest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestCrashLadder kills a child process before each command that it sends and
// before each reply that it reads, in turn.
func TestCrashLadder(t *testing.T) { storetest.CrashLadder(t, ladder(t)) }

// TestCrashAppends kills child processes there at random.
func TestCrashAppends(t *testing.T) { storetest.CrashAppends(t, ladder(t)) }

// ladder reaches a fresh database, and steps around what passes the network.
func ladder(t *testing.T) storetest.Ladder {
	uri := server(t)
	effects := 400 // as the server that tests start does in some seconds
	if os.Getenv("COUNTERSIGN_TEST_THOROUGH") == "1" {
		effects = 0
	}
	return storetest.Ladder{
		Effects: effects,
		New: func(t storetest.T) string {
			name := freshDatabase(t, uri)
			t.Cleanup(func() { _ = os.Remove(sessionsOf(name)) })
			return name
		},
		Open: func(ctx context.Context, location string, step func()) (storetest.Backend, error) {
			opts := &mongo.Options{Database: location, BusyTimeout: patience}
			admin := callersClient(t, uri).Database("admin")
			if err := endSessionsOf(location, func(id bson.Raw) error {
				return admin.RunCommand(ctx, bson.D{{Key: "killSessions", Value: bson.A{id}}}).Err()
			}); err != nil {
				return nil, err
			}
			if err := mongo.Migrate(ctx, admin.Client(), opts); err != nil {
				return nil, err
			}
			send := func(command []byte) error {
				step()
				return remember(location, command)
			}
			reply := func([]byte) error { step(); return nil }
			return mongo.New(ctx, callersClient(t, uri, (&wire{send: send, reply: reply}).dial), opts)
		},
	}
}

// A server ends the transaction of a client that is gone after a minute, which
// would be a minute for each step. So a child notes the sessions that it uses,
// and whoever opens the database after it ends them.
func sessionsOf(database string) string {
	return filepath.Join(os.TempDir(), database+".sessions")
}

// remember notes the session of a command that begins a transaction.
func remember(database string, command []byte) error {
	const header = 21 // of a message with one section
	doc := bson.Raw(command[header:])
	if _, err := doc.LookupErr("startTransaction"); err != nil {
		return nil
	}
	f, err := os.OpenFile(sessionsOf(database), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = fmt.Fprintln(f, hex.EncodeToString(doc.Lookup("lsid").Document()))
	return err
}

func endSessionsOf(database string, end func(bson.Raw) error) error {
	noted, err := os.ReadFile(sessionsOf(database))
	if err != nil {
		return nil // nobody was here before
	}
	for line := range strings.Lines(string(noted)) {
		id, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		if err := end(id); err != nil {
			return err
		}
	}
	return nil
}
