// Quickstart is an order service on a durable owner in a store of your choice. A
// broker (broker.go) hands it deliveries, some of them twice, one under a used
// id, one of them broken, and kills it with SIGKILL again and again. In the end
// every effect is there exactly once.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -store postgres://localhost/postgres
//
// On MongoDB a kill may cost a minute: so long the server keeps the transaction
// of a client that was lost.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
)

func main() {
	log.SetFlags(0)
	where := flag.String("store", "", "memory, a SQLite file, postgres://… or mongodb://… (default: a temporary SQLite file)")
	serve := flag.String("serve", "", "be the service of the run with this name (the broker starts it)")
	input := flag.String("deliveries", "", "a JSON Lines file, instead of the one that ships with this program")
	kills := flag.Int("kills", 6, "how often the service is killed")
	flag.Parse()
	run := func() error { return broker(context.Background(), *where, *input, *kills) }
	if *serve != "" {
		run = func() error { return service(context.Background(), place{*where, *serve}, os.Stdin, os.Stdout) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// service handles one delivery a line and answers each with one line. It answers
// only what is durable.
func service(ctx context.Context, p place, in io.Reader, out io.Writer) error {
	db, err := open(ctx, p)
	if err != nil {
		return err
	}
	shop := durable.NewHost(db, shopMachine, nil)
	auth, err := shop.Acquire(ctx, "shop") // advances the fence: a predecessor that still lives can't write any more
	var busy *store.BusyError
	for errors.As(err, &busy) { // the transaction of a predecessor is still open
		auth, err = shop.Acquire(ctx, "shop")
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		verdict, err := handle(ctx, shop, auth, lines.Bytes())
		if err != nil {
			return err
		}
		fmt.Fprintln(out, verdict)
	}
	return errors.Join(lines.Err(), db.Close())
}

// handle takes one delivery to the owner. Its verdict acknowledges the delivery:
// it is committed, or no redelivery could change what came of it.
func handle(ctx context.Context, shop *durable.Host[orders, delivery], auth durable.Grant, line []byte) (string, error) {
	var d delivery
	if err := json.Unmarshal(line, &d); err != nil {
		return "refused", nil // poison: nobody will ever be able to read it
	}
	sum := sha256.Sum256(line)
	res, err := shop.Handle(ctx, auth, durable.Inbox{ID: d.ID, Fingerprint: sum[:]}, d)
	var conflict *durable.IdentityConflictError
	var refusal *durable.RefusalError
	switch {
	case errors.As(err, &conflict):
		return "conflict", nil // the id is known with other content: the first one stands
	case errors.As(err, &refusal):
		return "refused", nil // by the machine below
	case err != nil:
		return "", err
	case !res.AckSafe():
		return "", errors.New("not durable")
	case res.Duplicate:
		return "duplicate", nil
	}
	return "committed", nil
}

// A delivery is a message about an order: place it, pay it, ship it.
type delivery struct {
	ID    string `json:"id"`
	Order string `json:"order"`
	Do    string `json:"do"`
	Item  string `json:"item,omitempty"`
	Cents int    `json:"cents,omitempty"`
}

// orders is the state: how far each order is.
type orders map[string]string

var v1 = durable.Version{Schema: 1, Codec: 1}

// shopMachine folds events and decides. Both are pure functions, which know
// nothing of where events are stored.
var shopMachine = durable.Machine[orders, delivery]{
	Mode:    durable.EventHistory,
	Reads:   []durable.Version{v1},
	Writes:  []durable.Version{v1},
	Initial: func() orders { return orders{} },
	Fold: func(o orders, p durable.Payload) (orders, error) {
		var event delivery
		err := json.Unmarshal(p.Bytes, &event)
		o[event.Order] = event.Do
		return o, err
	},
	Decide: func(o orders, d delivery) (durable.Decision, error) {
		after, known := map[string]string{"place": "", "pay": "place", "ship": "pay"}[d.Do]
		if !known || o[d.Order] != after {
			return durable.Decision{}, fmt.Errorf("can't %q an order after %q", d.Do, o[d.Order])
		}
		bytes, err := json.Marshal(d)
		event := durable.Payload{SchemaVersion: v1.Schema, CodecVersion: v1.Codec, Bytes: bytes}
		return durable.Decision{
			Events:  []durable.Payload{event},
			Effects: []durable.Intent{{ID: d.Do + "/" + d.Order, Payload: event}}, // published after the commit
		}, err
	},
}
