package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// migrate runs the steps that are missing, in one transaction under a lock, so
// that many processes may do it at once.
func (s *Store) migrate(ctx context.Context) error {
	steps, err := MigrationsInSchema(s.options.Schema)
	if err != nil {
		return err
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	found, err := s.schemaVersion(ctx, conn)
	if err != nil || found.Found >= found.Known {
		return s.migrateError(ctx, err)
	}
	err = s.runSteps(ctx, conn, steps)
	if err != nil {
		rollback(conn)
	}
	return s.migrateError(ctx, err)
}

func (s *Store) runSteps(ctx context.Context, conn *pgxpool.Conn, steps []Migration) error {
	begin := fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = %d; ", lockMilliseconds(s.options.BusyTimeout)) +
		migrationLock(s.options.Schema)
	if err := script(ctx, conn, begin); err != nil {
		return err
	}
	found, err := s.schemaVersion(ctx, conn) // what those before us have left
	if err != nil {
		return err
	}
	for _, step := range steps[min(found.Found, len(steps)):] {
		if err := script(ctx, conn, step.SQL); err != nil {
			return fmt.Errorf("migration %d: %w", step.Version, err)
		}
	}
	return script(ctx, conn, "COMMIT")
}

// script runs several statements.
func script(ctx context.Context, conn *pgxpool.Conn, sql string) error {
	results, err := conn.Conn().PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return err
	}
	if last := results[len(results)-1].CommandTag.String(); sql == "COMMIT" && last != "COMMIT" {
		return errRolledBack
	}
	return nil
}

// verify reports why the database can't be used as it is.
func (s *Store) verify(ctx context.Context) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	found, err := s.schemaVersion(ctx, conn)
	if err == nil && found.Found < found.Known {
		return found
	}
	return s.migrateError(ctx, err)
}

// schemaVersion reads the version of the schema. A schema that needs a newer
// library is an error, and so is a database whose ids could not be told apart.
func (s *Store) schemaVersion(ctx context.Context, conn *pgxpool.Conn) (*store.SchemaVersionError, error) {
	found := &store.SchemaVersionError{Known: len(oldestLibrary)}
	var encoding string
	var exists bool
	// Not by to_regclass: behind the lock it may still go by what this session knew
	// of the catalogue before.
	if err := conn.QueryRow(ctx, `SELECT pg_catalog.current_setting('server_encoding'), EXISTS (
		SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = 'schema_versions')`, s.options.Schema).Scan(&encoding, &exists); err != nil {
		return nil, err
	}
	if encoding != "UTF8" {
		return nil, &store.UnusableError{Reason: fmt.Sprintf("the database's encoding is %s; ids are compared byte by byte, so it must be UTF8", encoding)}
	}
	if !exists {
		return found, nil
	}
	err := conn.QueryRow(ctx, inSchema(`SELECT version, oldest_library FROM {s}.schema_versions ORDER BY version DESC LIMIT 1`,
		s.options.Schema)).Scan(&found.Found, &found.Oldest)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	if found.Found > found.Known && found.Oldest > found.Known {
		return nil, found
	}
	return found, nil
}

func (s *Store) migrateError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && answer(err) == nil {
		return &store.NotTakenError{Err: countersign.ContextError(ctx)}
	}
	return wrap(err, s.options.BusyTimeout)
}
