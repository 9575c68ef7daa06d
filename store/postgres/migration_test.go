package postgres_test

import (
	"context"
	"testing"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A database of version 1, with owners in it and a process at work that knows no
// other, is migrated without waiting for that process, which goes on.
func TestMigrationFromVersion1(t *testing.T) {
	dsn := emptyDatabase(t, serverDSN(t))
	old, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, old.Close(context.Background())) }()
	first := postgres.Migrations()[0]
	require.NoError(t, pgx.BeginFunc(t.Context(), old, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), first.SQL)
		return err
	}))
	_, err = old.Exec(t.Context(), "INSERT INTO countersign.owners (owner_id, mode, position, fence) VALUES ('a', 1, 0, 0)")
	require.NoError(t, err)
	const move, record = "UPDATE countersign.owners SET fence = fence + 1 WHERE owner_id = $1", "INSERT INTO countersign.inbox SELECT owner_key, $1, '', 0 FROM countersign.owners"
	tx, err := old.Begin(t.Context()) // a transaction of the old process is open all the while
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), move, "a")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), record, "1")
	require.NoError(t, err)

	_, err = postgres.New(t.Context(), callersPool(t, dsn), nil)
	var version *store.SchemaVersionError
	require.ErrorAs(t, err, &version, "New never migrates")
	assert.Equal(t, store.SchemaVersionError{Found: 1, Oldest: 1, Known: 2}, *version)
	s, err := postgres.Open(t.Context(), dsn, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	register(t, s)
	_, err = s.AppendEvents(t.Context(), noted("log", "a"))
	require.NoError(t, err)

	require.NoError(t, tx.Commit(t.Context()))
	for i := range 8 { // with statements that it had prepared before
		_, err = old.Exec(t.Context(), move, "a")
		require.NoError(t, err)
		_, err = old.Exec(t.Context(), record, string(rune('a'+i)))
		require.NoError(t, err)
	}
	img, err := s.LoadOwner(t.Context(), durable.LoadOwner{Owner: "a"})
	require.NoError(t, err)
	assert.EqualValues(t, 9, img.Fence)
	assert.Len(t, img.Inbox, 9)
	// What a process asks that opens now and knows version 1 only.
	var found, oldest int
	require.NoError(t, old.QueryRow(t.Context(), "SELECT version, oldest_library FROM countersign.schema_versions ORDER BY version DESC LIMIT 1").Scan(&found, &oldest))
	assert.Equal(t, 2, found)
	assert.Equal(t, 1, oldest)
}
