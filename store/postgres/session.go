package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// A statement is a text with its arguments, and what comes of it.
type statement struct {
	text string
	args []any
	row  func(scan scanner) error // called for each row; nil: the statement returns none
	tag  string                   // the server's answer to one without rows
	done bool                     // it was answered, and not by an error; only of one without rows
}

// A scanner reads the columns of a row into targets.
type scanner func(targets ...any) error

// each makes a query of a statement, of rows of the durable owner.
func (s *statement) each(f func(*row) error) *statement {
	return s.scans(func(scan scanner) error {
		var r row
		if err := scan(r.columns()...); err != nil {
			return err
		}
		return f(&r)
	})
}

// scans makes a query of a statement, of whatever rows.
func (s *statement) scans(f func(scan scanner) error) *statement {
	s.row = f
	return s
}

// A session runs statements one after another in one transaction. The first that
// fails is the last: its error is returned, and the transaction takes no more
// until it is rolled back.
type session interface {
	run(ctx context.Context, statements ...*statement) error
}

// batcher is what pgx's connections, pools and transactions have in common.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// pgxSession sends its statements together, in one round trip.
type pgxSession struct{ b batcher }

func (s pgxSession) run(ctx context.Context, statements ...*statement) (err error) {
	batch := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(statements))}
	for _, st := range statements {
		batch.Queue(st.text, st.args...)
	}
	results := s.b.SendBatch(ctx, batch)
	defer func() {
		if e := results.Close(); err == nil {
			err = e
		}
	}()
	for _, st := range statements {
		if st.row == nil {
			tag, err := results.Exec()
			if err != nil {
				return err
			}
			st.tag, st.done = tag.String(), true
			continue
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if err := scan(rows, st.row); err != nil {
			return err
		}
	}
	return nil
}

// boundSession gives each run only so much time.
type boundSession struct {
	session
	store *Store
}

func (s boundSession) run(ctx context.Context, statements ...*statement) error {
	ctx, cancel := s.store.bounded(ctx)
	defer cancel()
	return s.session.run(ctx, statements...)
}

func scan(rows pgx.Rows, each func(scanner) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sqlSession is a session on a transaction of database/sql, a statement at a time.
type sqlSession struct{ tx *sql.Tx }

func (s sqlSession) run(ctx context.Context, statements ...*statement) error {
	for _, st := range statements {
		if st.row == nil {
			if _, err := s.tx.ExecContext(ctx, st.text, st.args...); err != nil {
				return err
			}
			st.done = true
			continue
		}
		if err := s.query(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

func (s sqlSession) query(ctx context.Context, st *statement) (err error) {
	rows, err := s.tx.QueryContext(ctx, st.text, st.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := st.row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
