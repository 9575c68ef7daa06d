package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
	lib "modernc.org/sqlite/lib"
)

// migrate brings the file into WAL mode and runs the steps that are missing, in
// one immediate transaction, so that many processes may do it at once.
func (s *Store) migrate(ctx context.Context) error {
	if err := s.queue.Enter(ctx, s.options.BusyTimeout); err != nil {
		return err
	}
	defer s.queue.Leave()
	if err := s.becomeWAL(ctx); err != nil {
		return err
	}
	steps, err := MigrationsWithPrefix(s.options.Prefix)
	if err != nil {
		return err
	}
	if err := s.writer.begin(ctx); err != nil {
		return err
	}
	err = s.writer.raw(func() error {
		found, err := s.schemaVersion(ctx, s.writer.s)
		if err != nil {
			return err
		}
		for _, step := range steps {
			if step.Version <= found.Found {
				continue
			}
			if err := execScript(ctx, s.writer.s.conn, step.SQL); err != nil {
				return fmt.Errorf("migration %d: %w", step.Version, err)
			}
			at := s.options.Clock.Now().UnixMicro()
			if err := s.writer.s.exec(ctx, withPrefix(`UPDATE {p}schema SET applied_at = ? WHERE version = ?`, s.options.Prefix),
				[]driver.Value{at, int64(step.Version)}); err != nil {
				return err
			}
		}
		// On a file that can't be written to, an immediate transaction is only a
		// read transaction: find out now, not at the first commit.
		if err := s.writer.s.exec(ctx, s.stmts.lock, nil); err != nil {
			return err
		}
		return s.writer.s.exec(ctx, "COMMIT", nil)
	})
	if err != nil {
		s.writer.rollback()
		return openError(err)
	}
	return nil
}

// becomeWAL sets the journal mode, which stays with the file. Another process
// that does the same at once makes it busy, past the busy timeout's reach.
func (s *Store) becomeWAL(ctx context.Context) error {
	deadline := time.Now().Add(s.options.BusyTimeout)
	for {
		mode, err := s.setWAL(ctx)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return &store.UnusableError{Reason: fmt.Sprintf("the file can't be in WAL mode, its journal mode is %q", mode)}
		case code(err) != lib.SQLITE_BUSY || time.Now().After(deadline):
			return wrap(err, s.options.BusyTimeout)
		}
		select {
		case <-ctx.Done():
			return &store.NotTakenError{Err: countersign.ContextError(ctx)}
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Store) setWAL(ctx context.Context) (mode string, err error) {
	sess, err := s.writer.session(ctx)
	if err != nil {
		return "", err
	}
	err = s.writer.raw(func() error {
		mode, err = pragma(ctx, sess, "journal_mode")
		if err != nil || mode == "wal" {
			return err
		}
		mode, err = pragma(ctx, sess, "journal_mode = WAL")
		return err
	})
	return mode, err
}

// verify reports why the database can't be used as it is.
func (s *Store) verify(ctx context.Context) error {
	r, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer s.release(r)
	err = r.raw(func() error {
		encoding, err := pragma(ctx, r.s, "encoding")
		if err != nil {
			return err
		}
		if encoding != "UTF-8" {
			return &store.UnusableError{Reason: fmt.Sprintf("the database's encoding is %s; ids are compared byte by byte, so it must be UTF-8", encoding)}
		}
		mode, err := pragma(ctx, r.s, "journal_mode")
		if err != nil {
			return err
		}
		if mode != "wal" {
			return &store.UnusableError{Reason: fmt.Sprintf("the journal mode is %q; run PRAGMA journal_mode = WAL once, on a database in a file", mode)}
		}
		for _, p := range []struct{ name, bad, why string }{
			{"read_uncommitted", "1", "reads would show what is not committed"},
			{"synchronous", "0", "a checkpoint on this pool would not sync what was acknowledged"},
		} {
			if v, err := pragma(ctx, r.s, p.name); err != nil {
				return err
			} else if v == p.bad {
				return &store.UnusableError{Reason: fmt.Sprintf("the pool's connections have %s = %s: %s", p.name, v, p.why)}
			}
		}
		found, err := s.schemaVersion(ctx, r.s)
		if err != nil {
			return err
		}
		if found.Found < found.Known {
			return found
		}
		return nil
	})
	return openError(err)
}

// schemaVersion reads the version of the schema. A schema that needs a newer
// library is an error.
func (s *Store) schemaVersion(ctx context.Context, sess session) (*store.SchemaVersionError, error) {
	found := &store.SchemaVersionError{Known: len(oldestLibrary)}
	exists := false
	if err := sess.query(ctx, `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?`,
		[]driver.Value{s.options.Prefix + "schema"}, func([]driver.Value) error { exists = true; return nil }); err != nil {
		return nil, err
	}
	if !exists {
		return found, nil
	}
	if err := sess.query(ctx, withPrefix(`SELECT version, oldest_library FROM {p}schema ORDER BY version DESC LIMIT 1`, s.options.Prefix),
		nil, func(v []driver.Value) error {
			version, ok1 := v[0].(int64)
			oldest, ok2 := v[1].(int64)
			if !ok1 || !ok2 {
				return &store.UnusableError{Reason: "the table of schema versions is not this library's"}
			}
			found.Found, found.Oldest = int(version), int(oldest)
			return nil
		}); err != nil {
		return nil, err
	}
	if found.Found > found.Known && found.Oldest > found.Known {
		return nil, found
	}
	return found, nil
}

// openError wraps errors of the driver and leaves those of this module.
func openError(err error) error {
	var schema *store.SchemaVersionError
	var unusable *store.UnusableError
	if err == nil || errors.As(err, &schema) || errors.As(err, &unusable) {
		return err
	}
	return wrap(err, 0)
}

func pragma(ctx context.Context, sess session, name string) (value string, err error) {
	err = sess.query(ctx, "PRAGMA "+name, nil, func(v []driver.Value) error {
		value = fmt.Sprint(v[0])
		return nil
	})
	return value, err
}

// execScript runs several statements.
func execScript(ctx context.Context, conn driver.Conn, script string) error {
	if c, ok := conn.(driver.ExecerContext); ok {
		_, err := c.ExecContext(ctx, script, nil)
		return err
	}
	return errors.New("the driver can't run a script")
}
