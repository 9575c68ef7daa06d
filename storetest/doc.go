// Package storetest is the conformance suite of a store. It is all that the
// author of an adapter needs to prove that the adapter keeps the contract.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			New: func(t storetest.T) storetest.Opener { // a fresh, empty database
//				dir := t.TempDir()
//				return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
//					return mystore.Open(ctx, dir, o.Clock) // each call is another process
//				}
//			},
//		})
//	}
//
// [Run] runs every [Case] as the subtest group/name, replays the embedded
// fixtures, and does everything again with each request in a transaction of its
// own. [Replay] replays fixtures from elsewhere. [CrashLadder] kills the store at
// every step of its work in turn. [Differ] compares several stores on random
// histories. A single case is a value: [Case.Try] runs it against any store and
// returns what it found.
//
// # A store with a server
//
//	storetest.Harness{
//		New: func(t storetest.T) storetest.Opener {
//			name := freshDatabase(t) // dropped by t.Cleanup
//			return func(ctx context.Context, o storetest.OpenOptions) (storetest.Backend, error) {
//				config := mystore.Config{Server: server, Database: name}
//				if o.Dial != nil {
//					config.Dial = o.Dial // through the suite's proxy
//				}
//				return mystore.Open(ctx, config)
//			}
//		},
//		Wire: true,
//		Kill: func(ctx context.Context, _ storetest.Backend) error {
//			return restart(ctx) // kill -9, and back when it answers at the same address
//		},
//	}
//
// A crash ladder's steps are those of a connection: Open connects by
// [github.com/countersign/countersign/storetest/netfault.Dialer] with Step. New of
// the [Ladder] is called in the test's process, once for each kill, for a database
// that nothing has used; only the client is killed. Run makes some ten thousand
// requests, so the server should be near; go test's -timeout of ten minutes may be
// too short for it.
//
// # The contract
//
// The doc comments of [durable.Store] and of package store say what an adapter
// promises, and the pure rules of package durable say what each request comes
// to. The suite asks the rules what the store must answer and hold, and compares
// after every step: the answer with its typed error, and the whole image, loaded
// whole and, on most steps, read in pages and parts.
//
// # The event log, the receipts and the observers
//
// An adapter does not write these interfaces by itself. It implements
// [github.com/countersign/countersign/store.EventPort], which reads and writes rows:
// definitions, a sequence's row with its next number, events with their tags, the
// claims of constraints, receipts, and observers with their partitions. A
// [github.com/countersign/countersign/store.Events], made of the port by NewEvents,
// is [eventlog.Store], [eventlog.Observers] and [receipt.Store]: it checks requests,
// compiles schemas, prepares appends, repeats what was prepared with old definitions,
// completes constraint indexes and wakes those who wait. The store embeds it, and so
// does each transaction, by Events.In, with a port of its own. An adapter without
// them embeds NewEvents(nil), and [Run] lists what was not proved.
//
// What a port decides on is read and written in one transaction, under the lock of
// the sequence's row: the slice that an [github.com/countersign/countersign/store.AppendGroup]
// names, then Decide, then Changes and Receipts. store/memory is the port to read
// first: it has a lock and maps, and nothing else.
//
// Here the suite asks no rule of package eventlog but those of form, the requests'
// Check. It keeps a list of everything that was accepted, goes over all of it for each
// request, and compares the answer, all events, receipts and observers with every
// field.
//
// # A checklist
//
//   - Give the harness [Harness.Plant]: without it nothing is proved at the ends
//     of the integers, and not that a corrupt image is recognised.
//   - Run [CrashLadder], with the steps around each of the adapter's I/O
//     operations. A server of its own gets [Harness.Kill] too.
//   - A store that is reached over a network sets [Harness.Wire] and connects by
//     [OpenOptions.Dial]: the wire cases lose each message of a request in turn,
//     cut connections, delay them and let them fall silent. Package
//     [github.com/countersign/countersign/storetest/netfault] is what they use.
//   - Where there are several ways to one store (a pool or a driver of the
//     caller's, a mode of the driver), [Run] one and [RunGroups] the others.
//   - Read the subtest suite/not_implemented: it lists what was not proved.
//   - Run under the race detector, and with one processor
//     (GOMAXPROCS=1), which orders goroutines otherwise.
//   - Replay the fixtures that others wrote for the contract.
//   - With an event log, take [OpenOptions.Clock], and run the suite a second time
//     with each member of a group of appends alone, if there is such a switch: what
//     is combined must not differ from what is not.
//
// # Common mistakes
//
//   - Checking position or fence before the inbox. A redelivery after later
//     commits, or after a hand-off, is a duplicate all the same.
//   - Taking a greater fence for a better one. Only [durable.Store.AdvanceFence]
//     moves it.
//   - Pointing the records of a batch to its events. Effects, receipts and the
//     inbox record point to the position after the whole commit.
//   - Reading the owner's row without a lock in a request that does not move it. A
//     receipt then passes a hand-off.
//   - Columns with a collation, or of too few bytes; documents or text for payload
//     bytes; floating point, or 32 bits, for integers.
//   - A cursor that is a position alone. Effects of one commit share theirs.
//   - Slices that the driver reuses, or cuts from one piece of memory without a
//     limit to their capacity.
//   - Answering before the COMMIT on which the answer rests; calling a lost answer
//     a failure; swallowing an error that has turned a COMMIT into a ROLLBACK.
//   - Repeating a request inside after its reply was lost, and telling the caller
//     "duplicate" of its own first delivery; or giving up and telling it that nothing
//     was written. What is not known is an unknown outcome.
//   - Waiting for a server longer than the caller's context.
//   - Settling the results of a transaction before it has committed, or after it
//     was rolled back.
//   - Numbers from a sequence of the database, or taken before the lock: readers then
//     see a number, and later a lower one. A new sequence has no row to lock yet.
//   - Reading claims or the highest number of a scope outside of the transaction that
//     appends, or without the sequence's lock.
//   - Deleting freed claims after inserting new ones: a value that changes hands in
//     one batch then meets its old holder.
//   - Joining the parts of a key by a separator. Tags, sources and effects may contain
//     any; [eventlog.Tag.Key] is a form that does not collide.
//   - An event for each tag that matches, instead of one event; a page's Next taken
//     from the last event that matched, at the end of the sequence.
//   - Indexes that can't take 512 bytes which no compression shortens, in every
//     column together.
//   - Contents, responses and schemas as JSON or text columns. They hold escaped NUL
//     and half surrogate pairs, and come back byte for byte.
//   - Two appends with one receipt that both look it up, find none and write. One must
//     begin again, and find the other's. It may be of another sequence, whose lock
//     does not help.
//   - Compiled definitions of a transaction that was rolled back.
//   - A drop that takes receipts or observers later than events, beside an append.
//   - Retry times by the host's clock where the store's is the server's.
package storetest
