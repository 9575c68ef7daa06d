package store_test

import (
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What an adapter lacks is an error at the call, and its capabilities say so.
func TestWhatIsMissingIsSaid(t *testing.T) {
	type backend struct {
		store.NoOwners
		*store.Events
	}
	var lacking store.Backend = backend{Events: store.NewEvents(nil)}
	assert.Equal(t, store.Capabilities{}, store.CapabilitiesOf(lacking))
	_, err := lacking.CommitOwner(t.Context(), durable.Commit{})
	var unsupported *store.UnsupportedError
	require.ErrorAs(t, err, &unsupported)
	_, err = lacking.ReadDefinitions(t.Context(), "shop")
	require.ErrorAs(t, err, &unsupported)
	_, err = lacking.DropNamespace(t.Context(), countersign.Namespace{EventStore: "shop", Name: "eu"})
	require.ErrorAs(t, err, &unsupported)

	all := store.Capabilities{Owners: true, Transactions: true, Events: true, Observers: true, Receipts: true}
	assert.Equal(t, all, store.CapabilitiesOf(memory.New()))
}
