// Package postgres keeps a backend in a schema of a PostgreSQL database, through
// pgx v5. Any number of stores and processes may use one schema at once. The
// suite has run against PostgreSQL 15.
//
// # Transactions
//
// Every request is one transaction at READ COMMITTED that locks the owner's row
// first. Requests of one store that arrive while another is under way share a
// transaction: each keeps its own result, and one that fails is carried out apart
// from its neighbours. A row that another process holds keeps only those waiting
// who need it.
//
// What a commit makes durable is the server's setting: with synchronous_commit
// off, or without a synchronous standby, a server that is lost takes with it
// what it had acknowledged.
//
// # Contexts
//
// While a request waits its context may end: there is no trace of it then. Once it
// was taken into a transaction that goes on without the context, and a caller
// whose context ends learns a [*durable.UnknownOutcomeError]. The same error
// follows a connection that is lost after COMMIT was sent. What the server refused for a
// passing reason (SQLSTATE 40001, 40P01) wrote nothing, and is repeated inside, a few
// times.
//
// # Sessions and poolers
//
// Nothing depends on the state of a session: no session lock, no setting beyond
// its transaction, no search_path; only client_encoding must be UTF8, which [Open]
// sees to, and which [Store.TxSQL] can't check. So the store works through
// PgBouncer in transaction pooling, and in each of pgx's modes cache_statement, cache_describe,
// exec and simple_protocol. Prepared statements (cache_statement, pgx's default)
// need PgBouncer 1.21 with max_prepared_statements; elsewhere say
// default_query_exec_mode=cache_describe in the connection string.
//
// # Handles
//
// [Open] migrates and has a pool of its own. [New] works on a *pgxpool.Pool of the
// caller's, which it neither migrates nor closes. [Store.Tx] joins a transaction of
// pgx's, [Store.TxSQL] one of database/sql with pgx's driver.
package postgres
