// Command readmodel builds a read model with an observer: the balance of each
// account, from the events of a log. The observer's cursor is durable, an account
// whose events can't be handled stops alone, and everything can be replayed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store/sqlite"
)

var accounts = eventlog.Log(countersign.Namespace{EventStore: "bank", Name: "main"})

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	folder, err := os.MkdirTemp("", "countersign-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	db, err := sqlite.Open(ctx, filepath.Join(folder, "bank.db"), nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "bank", Types: []eventlog.EventType{{
		ID: "moved", Schema: []byte(`{"type":"object","properties":{"amount":{"type":"integer"}},"required":["amount"]}`),
	}}})
	if err != nil {
		return err
	}
	client := eventlog.NewClient(db, accounts)
	move := func(account string, amount int) error {
		_, err := client.Append(ctx, eventlog.Event{Type: "moved", Source: account, Content: fmt.Appendf(nil, `{"amount":%d}`, amount)})
		return err
	}
	model := &balances{of: map[string]int64{}, through: map[string]uint64{}}
	observer, err := eventlog.NewObserver(db, model.handle, eventlog.ObserverOptions{Name: "balances", Sequence: accounts})
	if err != nil {
		return err
	}
	for _, m := range []struct {
		account string
		amount  int
	}{{"ann", 100}, {"bob", 50}, {"ann", -30}} {
		if err := move(m.account, m.amount); err != nil {
			return err
		}
	}
	// A service calls Run, which goes on until its context ends.
	if err := observer.CatchUp(ctx); err != nil {
		return err
	}
	model.print(out, "after three events")

	// The model was lost: build it anew from the first event.
	clear(model.of)
	clear(model.through)
	if _, err := db.ReplayObserver(ctx, eventlog.ReplayObserver{Key: eventlog.ObserverKey{Sequence: accounts, Name: "balances"}}); err != nil {
		return err
	}
	if err := move("bob", 5); err != nil {
		return err
	}
	if err := observer.CatchUp(ctx); err != nil {
		return err
	}
	model.print(out, "after a replay and one more")
	return nil
}

// balances is a read model. It keeps the number of the last event of each account
// beside the balance, since an event may come twice.
type balances struct {
	of      map[string]int64
	through map[string]uint64
}

func (b *balances) handle(_ context.Context, d eventlog.Delivery) error {
	if last, known := b.through[d.Source]; known && d.Number <= last {
		return nil // again: it is counted already
	}
	var moved struct{ Amount int64 }
	if err := json.Unmarshal(d.Content, &moved); err != nil {
		return err
	}
	b.of[d.Source] += moved.Amount
	b.through[d.Source] = d.Number
	return nil
}

func (b *balances) print(out io.Writer, when string) {
	fmt.Fprintln(out, when+":")
	for _, account := range slices.Sorted(maps.Keys(b.of)) {
		fmt.Fprintf(out, "  %s %d\n", account, b.of[account])
	}
}
