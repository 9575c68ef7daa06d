package postgres_test

import (
	"context"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/stretchr/testify/require"
)

// TestEventLogInEveryMode uses definitions, constraints, appends, receipts and a drop in
// each of pgx's modes, beyond the groups that runMode runs.
func TestEventLogInEveryMode(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			db, err := open(t.Context(), inMode(migratedDatabase(t, serverDSN(t)), mode))
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			useEventLog(t, db)
		})
	}
}

func useEventLog(t *testing.T, db store.Backend) {
	ctx := t.Context()
	ns := countersign.Namespace{EventStore: "shop", Name: "eu"}
	_, err := db.RegisterEventTypes(ctx, eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "registered", Schema: []byte(`{"type":"object","required":["name"]}`)}, {ID: "gone", Schema: []byte(`true`)}}})
	require.NoError(t, err)
	_, err = db.RegisterConstraints(ctx, eventlog.RegisterConstraints{EventStore: "shop", Constraints: []eventlog.Constraint{{Name: "name", Kind: eventlog.UniqueValue, Covers: []eventlog.Covered{{Type: "registered", Properties: []string{"name"}}}, RemovedBy: []string{"gone"}, IgnoreCase: true}}})
	require.NoError(t, err)
	log := eventlog.Log(ns)
	app := func(source, typ, content string) error {
		_, err := db.AppendEvents(ctx, eventlog.AppendEvents{Sequence: log, Events: []eventlog.Event{{Type: typ, Source: source, Content: []byte(content)}}})
		return err
	}
	require.NoError(t, app("a", "registered", `{"name":"Bob"}`))
	err = app("b", "registered", `{"name":"bob"}`)
	require.ErrorContains(t, err, "another event source")
	require.ErrorContains(t, app("b", "registered", `{}`), "must have")
	require.ErrorContains(t, app("b", "nope", `{}`), "not registered")
	require.NoError(t, app("a", "gone", `{}`))
	require.NoError(t, app("b", "registered", `{"name":"bob"}`))
	_, err = db.AppendEvents(ctx, eventlog.AppendEvents{Sequence: log, Scopes: []eventlog.Scope{{Source: "b", Expected: eventlog.NoneYet()}}})
	require.ErrorIs(t, err, countersign.ErrConflict)
	page, err := db.ReadEvents(ctx, eventlog.ReadEvents{Sequence: log})
	require.NoError(t, err)
	require.Len(t, page.Events, 3)
	_, err = db.RegisterConstraints(ctx, eventlog.RegisterConstraints{EventStore: "shop", Constraints: []eventlog.Constraint{{Name: "once", Kind: eventlog.UniqueEventType, Covers: []eventlog.Covered{{Type: "registered"}}}}})
	require.NoError(t, err)
	require.ErrorContains(t, app("b", "registered", `{"name":"bob"}`), "has such an event already")
	run := 0
	for range 2 {
		res, err := receipt.Once(ctx, db, receipt.Effect{Key: receipt.Key{Namespace: ns, Occurrence: "o", Effect: "e"}, Epoch: 3}, func(context.Context) (receipt.Proposal, error) {
			run++
			return receipt.Proposal{Events: []eventlog.Event{{Type: "registered", Source: "z", Content: []byte(`{"name":"zoe"}`)}}, Response: []byte(` {"a": 1} `)}, nil
		})
		require.NoError(t, err)
		require.Equal(t, ` {"a": 1} `, string(res.Receipt.Response))
	}
	require.Equal(t, 1, run)
	err = store.Atomically(ctx, db, func(ctx context.Context, tx store.Backend) error {
		_, err := tx.DropNamespace(ctx, ns)
		require.NoError(t, err)
		_, err = tx.AppendEvents(ctx, eventlog.AppendEvents{Sequence: log, Events: []eventlog.Event{{Type: "registered", Source: "q", Content: []byte(`{"name":"bob"}`)}}})
		return err
	})
	require.NoError(t, err)
	page, err = db.ReadEvents(ctx, eventlog.ReadEvents{Sequence: log})
	require.NoError(t, err)
	require.Len(t, page.Events, 1)
	dropped, err := db.DropNamespace(ctx, ns)
	require.NoError(t, err)
	require.EqualValues(t, 1, dropped.Events)
}
