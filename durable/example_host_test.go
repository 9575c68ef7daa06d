package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

// An order is the state of the example's machine, and a command its input.
type (
	order   struct{ Items []string }
	command struct{ Add string }
	added   struct{ Item string }
)

var orderV1 = durable.Version{Schema: 1, Codec: 1}

func orderPayload(v any) durable.Payload {
	bytes, err := json.Marshal(v)
	if err != nil {
		log.Fatal(err)
	}
	return durable.Payload{SchemaVersion: orderV1.Schema, CodecVersion: orderV1.Codec, Bytes: bytes}
}

// orderMachine takes up to two items into an order.
var orderMachine = durable.Machine[order, command]{
	Mode:    durable.EventHistory,
	Reads:   []durable.Version{orderV1},
	Writes:  []durable.Version{orderV1},
	Initial: func() order { return order{} },
	Fold: func(o order, p durable.Payload) (order, error) {
		var event added
		if err := json.Unmarshal(p.Bytes, &event); err != nil {
			return o, err
		}
		o.Items = append(o.Items, event.Item)
		return o, nil
	},
	Decide: func(o order, c command) (durable.Decision, error) {
		if len(o.Items) == 2 {
			return durable.Decision{}, errors.New("the order is full")
		}
		return durable.Decision{
			Events:  []durable.Payload{orderPayload(added{Item: c.Add})},
			Effects: []durable.Intent{{ID: "reserve-" + c.Add, Payload: orderPayload(c)}},
		}, nil
	},
}

// Five lines to a durable owner: a store, a host, the authority over an owner,
// and a delivery that is acknowledged only when it is committed.
func ExampleHost() {
	ctx := context.Background()
	msg := struct {
		ID      string
		Sum     []byte
		Command command
		Ack     func()
	}{ID: "msg-1", Sum: []byte("sum"), Command: command{Add: "book"}, Ack: func() { fmt.Println("acknowledged") }}

	db := memory.New()
	orders := durable.NewHost(db, orderMachine, nil)
	auth, err := orders.Acquire(ctx, "order-42")
	if err != nil {
		log.Fatal(err)
	}
	res, err := orders.Handle(ctx, auth, durable.Inbox{ID: msg.ID, Fingerprint: msg.Sum}, msg.Command)
	if err != nil {
		log.Fatal(err)
	}
	if res.AckSafe() {
		msg.Ack()
	}
	fmt.Println("position", res.Through)
	// Output:
	// acknowledged
	// position 1
}

// A redelivery finds the first position again, whatever happened since. A
// refusal writes nothing. Whoever acquires the owner next ends the authority of
// the one before.
func ExampleHost_Handle() {
	ctx := context.Background()
	orders := durable.NewHost(memory.New(), orderMachine, nil)
	auth, err := orders.Acquire(ctx, "order-42")
	if err != nil {
		log.Fatal(err)
	}
	handle := func(id, item string) {
		res, err := orders.Handle(ctx, auth, durable.Inbox{ID: id}, command{Add: item})
		if stale, ok := errors.AsType[*durable.StaleFenceError](err); ok {
			fmt.Println(id, "stale: fence", stale.Fence, "is not", stale.Current)
		} else if refusal, ok := errors.AsType[*durable.RefusalError](err); ok {
			fmt.Println(id, "refused:", refusal.Err, errors.Is(err, countersign.ErrRefused))
		} else if err != nil {
			log.Fatal(err)
		} else {
			fmt.Println(id, "at", res.Through, "duplicate:", res.Duplicate)
		}
	}
	handle("msg-1", "book")
	handle("msg-2", "pen")
	handle("msg-1", "book") // redelivered: the order is full, but this is done
	handle("msg-3", "lamp")
	if _, err := orders.Acquire(ctx, "order-42"); err != nil {
		log.Fatal(err)
	}
	handle("msg-4", "lamp")
	// Output:
	// msg-1 at 1 duplicate: false
	// msg-2 at 2 duplicate: false
	// msg-1 at 1 duplicate: true
	// msg-3 refused: the order is full true
	// msg-4 stale: fence 1 is not 2
}

// In Snapshot mode Decide gives the whole new state, and Fold takes it.
func ExampleMachine_snapshot() {
	ctx := context.Background()
	counters := durable.NewHost(memory.New(), durable.Machine[int, int]{
		Mode:    durable.Snapshot,
		Reads:   []durable.Version{orderV1},
		Writes:  []durable.Version{orderV1},
		Initial: func() int { return 0 },
		Fold: func(n int, p durable.Payload) (int, error) {
			err := json.Unmarshal(p.Bytes, &n)
			return n, err
		},
		Decide: func(n, add int) (durable.Decision, error) {
			snapshot := orderPayload(n + add)
			fmt.Println("now", n+add)
			return durable.Decision{Snapshot: &snapshot}, nil
		},
	}, nil)
	auth, err := counters.Acquire(ctx, "visits")
	if err != nil {
		log.Fatal(err)
	}
	for i, id := range []string{"a", "b", "b", "c"} {
		if _, err := counters.Handle(ctx, auth, durable.Inbox{ID: id}, i); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// now 0
	// now 1
	// now 4
}
