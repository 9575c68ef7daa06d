package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

var shop = countersign.Namespace{EventStore: "shop", Name: "europe"}

// register registers what the handler appends.
func register(ctx context.Context, db store.Backend) error {
	_, err := db.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: shop.EventStore, Types: []eventlog.EventType{{
		ID:     "order-placed",
		Schema: []byte(`{"type":"object","properties":{"item":{"type":"string"},"price":{"type":"integer","minimum":0}},"required":["item","price"]}`),
	}}})
	return err
}

// orders handles commands that place an order. The client chooses a key for each
// command, and keeps it when it sends the command again.
type orders struct{ store receipt.Store }

func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the command can't be read", http.StatusBadRequest)
		return
	}
	effect := receipt.Effect{Key: receipt.Key{Namespace: shop, Occurrence: key, Effect: "order-placed"}}
	out, err := receipt.Once(r.Context(), o.store, effect, func(context.Context) (receipt.Proposal, error) {
		return place(key, body)
	})
	switch {
	case err == nil:
	case errors.Is(err, countersign.ErrRefused): // a key that is none, a body that breaks the schema
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	default: // busy, unavailable, unknown: the client sends the same command again
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	if out.AlreadyRecorded {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if out.Receipt.Outcome == receipt.Refused {
		w.WriteHeader(http.StatusConflict)
	}
	_, _ = w.Write(out.Receipt.Response)
}

// place decides about a command. It runs only if its key has no receipt yet.
func place(key string, body []byte) (receipt.Proposal, error) {
	var command struct{ Price int64 }
	if err := json.Unmarshal(body, &command); err != nil {
		return receipt.Proposal{}, &countersign.MalformedError{Field: "command", Reason: "is not JSON"}
	}
	const limit = 10_000
	if command.Price > limit {
		return receipt.Proposal{Refused: []string{"above the limit"}, Response: []byte(`{"refused":"above the limit"}`)}, nil
	}
	return receipt.Proposal{
		Events:   []eventlog.Event{{Type: "order-placed", Source: key, Content: body}},
		Response: fmt.Appendf(nil, `{"order":%q}`, key),
	}, nil
}

// count prints how many orders there are.
func count(ctx context.Context, out io.Writer, db eventlog.Store) error {
	tail, err := db.ReadTail(ctx, eventlog.ReadTail{Sequence: eventlog.Log(shop)})
	fmt.Fprintf(out, "%d order placed\n", tail.Next)
	return err
}
