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
// # Contexts
//
// A request waits until the writers before it are done, at most
// [Options.BusyTimeout]. While it waits its context may end: there is no trace
// of it then. Once it was taken into a transaction that goes on without the
// context, and a caller whose context ends learns a
// [*durable.UnknownOutcomeError].
//
// # Handles
//
// [Open] creates and migrates a file and has a pool of its own. [New] works on a
// *sql.DB of the caller's, which it neither migrates nor closes: it takes one
// connection for itself until [Store.Close], with its own pragmas, and borrows
// others for reading. [Store.Tx] joins a transaction of the caller's.
package sqlite
