// Package sqlite keeps a backend in a SQLite file, through modernc.org/sqlite:
// the embedded default. Several stores, handles and processes may use one file
// at once.
//
// # Durability
//
// The file is in WAL mode, and every commit is synced (synchronous=FULL), so
// what was acknowledged survives the loss of the process and of power. Requests
// that arrive while another is being written share its transaction and its sync:
// each keeps its own result, and a request that fails is written apart from its
// neighbours.
//
// # What is stored
//
// The durable owners are in tables of their own, each record in a row. An event is a
// row with its content as it was given, in one table for all sequences, with an index
// by its number and one by each of: type, event source, source type, stream type,
// stream id, tag. So a page, a tail and a concurrency scope cost what they find, not
// the size of the log. Of a filter that narrows by several of them, one index is
// walked: the source's, else the stream id's, the tags', the types', and so on. What
// is optional and absent costs nothing. The constraint index holds hashes only.
//
// Appends to all sequences, with and without receipts, wait in one line and share
// transactions as the owners' requests do. Those who wait for events are woken at once
// by commits of the same [Store]; for those of other stores and processes they look
// ten times a second. Dropping a namespace is one transaction, during which other
// writers wait, so that of a large one is better done when there are few.
//
// Times are the host's.
//
// # Contexts
//
// A request waits until the writers before it are done, at most
// [Options.BusyTimeout]. While it waits its context may end: there is no trace
// of it then. Once it was taken into a transaction that goes on without the
// context. A caller who writes the group, as one who is alone always does, stays
// until it is committed, and gets its result; one whose request another caller is
// writing learns an unknown outcome ([countersign.ErrUnknownOutcome]).
//
// # Handles
//
// [Open] creates and migrates a file and has a pool of its own. [New] works on a
// *sql.DB of the caller's, which it neither migrates nor closes: it takes one
// connection for itself until [Store.Close], with its own pragmas, and borrows
// others for reading. [Store.Tx] joins a transaction of the caller's.
package sqlite
