package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
)

// A session runs statements one after another on one connection. Values are
// those of package driver: int64, string, []byte, nil.
type session interface {
	// exec runs a statement.
	exec(ctx context.Context, query string, args []driver.Value) error
	// query calls row for each row. The values are valid during the call,
	// except that byte slices and strings may be kept.
	query(ctx context.Context, query string, args []driver.Value, row func([]driver.Value) error) error
}

// connSession is a session on a connection that this package took for itself.
// It prepares each statement once.
type connSession struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt
	named []driver.NamedValue
}

// maxPrepared bounds the statements that a connection keeps. Far fewer occur as a
// rule; searches, of which there are many forms, could add up.
const maxPrepared = 1000

func newConnSession(conn driver.Conn) *connSession {
	return &connSession{conn: conn, stmts: map[string]driver.Stmt{}}
}

func (s *connSession) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	if stmt, ok := s.stmts[query]; ok {
		return stmt, nil
	}
	var stmt driver.Stmt
	var err error
	if c, ok := s.conn.(driver.ConnPrepareContext); ok {
		stmt, err = c.PrepareContext(ctx, query)
	} else {
		stmt, err = s.conn.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	if len(s.stmts) >= maxPrepared {
		s.close()
		s.stmts = map[string]driver.Stmt{}
	}
	s.stmts[query] = stmt
	return stmt, nil
}

// bind returns args with their ordinals. The slice is used again by the next call.
func (s *connSession) bind(args []driver.Value) []driver.NamedValue {
	s.named = s.named[:0]
	for i, v := range args {
		s.named = append(s.named, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s.named
}

func (s *connSession) exec(ctx context.Context, query string, args []driver.Value) error {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return err
	}
	if st, ok := stmt.(driver.StmtExecContext); ok {
		_, err = st.ExecContext(ctx, s.bind(args))
	} else {
		_, err = stmt.Exec(args) //nolint:staticcheck // the only way for drivers without contexts
	}
	return err
}

func (s *connSession) query(ctx context.Context, query string, args []driver.Value, row func([]driver.Value) error) (err error) {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return err
	}
	var rows driver.Rows
	if st, ok := stmt.(driver.StmtQueryContext); ok {
		rows, err = st.QueryContext(ctx, s.bind(args))
	} else {
		rows, err = stmt.Query(args) //nolint:staticcheck // the only way for drivers without contexts
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
}

// close closes the prepared statements, not the connection.
func (s *connSession) close() {
	for _, stmt := range s.stmts {
		_ = stmt.Close() // nothing depends on it any more
	}
	s.stmts = nil
}

// txSession is a session on a transaction of the caller's.
type txSession struct{ tx *sql.Tx }

func (s txSession) exec(ctx context.Context, query string, args []driver.Value) error {
	_, err := s.tx.ExecContext(ctx, query, anys(args)...)
	return err
}

func (s txSession) query(ctx context.Context, query string, args []driver.Value, row func([]driver.Value) error) (err error) {
	rows, err := s.tx.QueryContext(ctx, query, anys(args)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]driver.Value, len(columns))
	scanned := make([]any, len(columns))
	targets := make([]any, len(columns))
	for i := range scanned {
		targets[i] = &scanned[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		for i, v := range scanned {
			values[i] = v
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

func anys(args []driver.Value) []any {
	converted := make([]any, len(args))
	for i, v := range args {
		converted[i] = v
	}
	return converted
}
