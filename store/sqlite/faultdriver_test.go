package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"testing"
)

// faults are called around every statement that reaches the driver. An error of
// before takes the statement's place; one of after takes its result's place,
// when the statement was carried out.
type faults struct {
	before func(query string) error
	after  func(query string) error
}

func (f *faults) around(query string, call func() error) error {
	if f.before != nil {
		if err := f.before(query); err != nil {
			return err
		}
	}
	if err := call(); err != nil {
		return err
	}
	if f.after != nil {
		return f.after(query)
	}
	return nil
}

// faultyDB is a handle on the file at path whose statements go through f.
func faultyDB(t testing.TB, path string, f *faults, pragmas ...string) *sql.DB {
	t.Helper()
	q := url.Values{"_pragma": append([]string{"busy_timeout(5000)"}, pragmas...)}
	name := (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
	plain, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	db := sql.OpenDB(&faultyConnector{driver: plain.Driver(), name: name, faults: f})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

type faultyConnector struct {
	driver driver.Driver
	name   string
	faults *faults
}

func (c *faultyConnector) Driver() driver.Driver { return c.driver }

func (c *faultyConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.name)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, faults: c.faults}, nil
}

// faultyConn has the interfaces that the store uses of a connection.
type faultyConn struct {
	driver.Conn
	faults *faults
}

func (c *faultyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &faultyStmt{Stmt: stmt, query: query, faults: c.faults}, nil
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	err = c.faults.around(query, func() error {
		res, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.faults.around(query, func() error {
		rows, err = c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
		return err
	})
	return rows, err
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

type faultyStmt struct {
	driver.Stmt
	query  string
	faults *faults
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	err = s.faults.around(s.query, func() error {
		res, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = s.faults.around(s.query, func() error {
		rows, err = s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
		return err
	})
	return rows, err
}
