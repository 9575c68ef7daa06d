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
// An append locks its sequence's row until it has committed: so numbers have no gaps
// and become visible in order. Appends to one sequence share transactions, those to
// different sequences do not wait for each other. Two sequences that race for one
// receipt meet at its unique key; the second one begins again, and returns the first
// one's receipt. An append is
// judged by the definitions that are in force when it has its lock, not when it
// commits: one that is under way while a constraint is registered may still follow
// the old ones, and is indexed for the new one before the next append.
//
// [eventlog.Store.DropNamespace] is one transaction, however much there is to delete:
// only the caller's context bounds it.
//
// Times are the server's, of the moment after the lock was granted.
//
// # Waiting for events
//
// An append tells of itself by NOTIFY, right behind its COMMIT. Inside a caller's
// transaction it does so in the transaction: that can't be PREPAREd then, and the
// server carries out the commits of such transactions one after another. The first
// call that waits for events starts a goroutine which listens on one connection beside the pool, made
// as the pool's are, until Close. Without it, that is behind a pooler, with no
// connection to be had, or while a lost one is made anew, those who wait look four
// times a second, and otherwise every two seconds.
//
// # What reads cost
//
// There is an index of the numbers, and one each of the sources, event types, stream
// ids and tags. A filter or scope uses the first that it has of source, stream id,
// tags and types, and looks at what that finds; source type and stream type alone are
// looked for through the sequence. A page of several types or tags reads up to its
// limit of each.
//
// What a commit makes durable is the server's setting: with synchronous_commit
// off, or without a synchronous standby, a server that is lost takes with it
// what it had acknowledged.
//
// # Contexts
//
// While a request waits its context may end: there is no trace of it then. Once it
// was taken into a transaction that goes on without the context, and a caller
// whose context ends learns a [*durable.UnknownOutcomeError], an
// [*eventlog.UnknownOutcomeError] or a [*receipt.UnknownOutcomeError]. The same error
// follows a connection that is lost after COMMIT was sent. What the server refused for a
// passing reason (SQLSTATE 40001, 40P01) wrote nothing, and is repeated inside, a few
// times.
//
// # Sessions and poolers
//
// Nothing depends on the state of a session, but for the connection that listens: no
// session lock, no setting beyond its transaction, no search_path; only client_encoding must be UTF8, which [Open]
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
