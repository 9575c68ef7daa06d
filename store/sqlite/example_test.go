package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/sqlite"
)

// A file is created and migrated when it is opened.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "countersign-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	db, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	head, err := db.CreateOwner(ctx, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(head.Owner, "at position", head.Position)
	// Output:
	// order-42 at position 0
}

// A transaction of the caller's holds rows of its own and a commit of the
// owner's, together.
func ExampleStore_Tx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "countersign-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.CreateOwner(ctx, durable.CreateOwner{Owner: "order-42", Mode: durable.EventHistory}); err != nil {
		log.Fatal(err)
	}
	if _, err := db.DB().ExecContext(ctx, "CREATE TABLE accounts (id TEXT PRIMARY KEY, cents INTEGER)"); err != nil {
		log.Fatal(err)
	}

	tx, err := db.DB().BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing, once it has committed
	if _, err := tx.ExecContext(ctx, "INSERT INTO accounts VALUES ('alice', 100)"); err != nil {
		log.Fatal(err)
	}
	bound := db.Tx(tx)
	res, err := bound.CommitOwner(ctx, durable.Commit{
		Owner: "order-42",
		Inbox: durable.Inbox{ID: "message-1", Fingerprint: []byte("sum")},
		State: durable.Append(durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte("placed")}),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("before the commit:", res.AckSafe())
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	bound.Committed()
	fmt.Println("after it:", res.AckSafe())
	// Output:
	// before the commit: false
	// after it: true
}
