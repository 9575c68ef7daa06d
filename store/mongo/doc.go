// Package mongo keeps a backend in MongoDB 8.0 or newer, through mongo-driver v2,
// on a replica set, which may be of one node, or on a sharded cluster. A
// standalone server has no transactions and is refused.
//
// # Durability
//
// Every request is a transaction that commits to a majority of the nodes
// (write concern majority) before its caller learns a verdict. What is read is a
// snapshot that a majority has (read concern snapshot), from the primary. Nothing
// that a connection string or a client says weakens that. A reply that is lost
// while a transaction commits makes the store repeat the commit, never the work,
// and if that does not help either, it is a [*durable.UnknownOutcomeError]. The
// store then goes on repeating that commit by itself, for a minute at most or until
// [Store.Close], so that the owner does not stay locked: repeat the request.
//
// # Concurrency
//
// Each request that writes anything of an owner writes the owner's head, so of two
// transactions on one owner one fails, and is run again for as long as
// [Options.BusyTimeout]. In one process the requests of an owner take turns, so
// that this is rare; owners do not hinder each other. A usual commit takes two
// round trips: its writes carry what they demand of the records, and what the
// rules say is read and decided only if that is not so.
//
// A process that is lost in the middle of a transaction leaves the owner locked
// until the server ends the transaction, after transactionLifetimeLimitSeconds (a
// minute, if nobody has changed it). Until then requests on that owner are
// retryable.
//
// # Contexts
//
// A request runs under its caller's context. One that ends before the commit was
// sent leaves no trace. A command that is under way when the context ends is waited
// for, a second at most: cutting it off could leave the owner locked. If that
// command is the commit and its reply does not come, the outcome is unknown.
//
// # Events, receipts and observers
//
// Each transaction that appends to a sequence writes the sequence's document, its
// head: of two at once one fails, and is run again. So numbers have no gaps and
// become visible in order. Within one process the appends that wait for a sequence
// are carried out in one transaction. A usual append, with its receipt, is three
// round trips: one query reads the head, the definitions' revision, the receipts
// and the claims of constraints, all by their _ids; one bulk write; and the commit.
// A receipt that is found costs two. A scope that expects more than the tail, or is
// not narrowed, costs no more; another one a query by an index. Two sequences, or
// two processes, that race for one receipt meet at its _id, and the loser begins
// again and finds the winner's.
//
// In a caller's transaction, what writes nothing writes the head all the same: what
// the caller writes may rest on it.
//
// Times are the server's, as the transaction's first query reads them ($$NOW, in
// milliseconds), unless [Options.Clock] says otherwise.
//
// Those who wait for events are woken by a change stream, one for each store, from
// the first waiting on until [Store.Close]. Where there is none they look, five times
// a second.
//
// [eventlog.Store.DropNamespace] deletes the heads in its first transaction, and
// notes their keys. Everything else is stored under the key of a head, which is never
// used again: from then on nothing of it is seen, and a new life of the namespace is
// apart from it. The rest is deleted a page at a time. If that is interrupted, the
// call gives an [*eventlog.UnknownOutcomeError], and the next call for the namespace,
// of whichever process, goes on. In a caller's transaction everything is deleted in
// it.
//
// # Records
//
// All records of owners are in one collection, owners, a small document each, whose
// _id is owner, kind and id with NUL bytes between them, which no identity contains.
// Payloads are binary; positions and fences are 64-bit integers.
//
// The collection log has the heads (definitions, namespaces, sequences, observers),
// under readable _ids, and what is stored under their keys: receipts, claims by
// their source and by their value, and partitions that were set aside. Their _ids
// are hashes of what must be unique; the field of has the head's key. The collection
// events has the events, under the sequence's key and their number; it is indexed by
// source, type and tag, and by source type, stream type and stream id where an event
// has them, each in the order of the numbers. Content and responses are binary. A
// collection schema keeps the schema's versions.
//
// # Sharding
//
// The shard key of owners is the field owner: sh.shardCollection("app.countersign_owners",
// {owner: 1}), or hashed, before the first record. Every record has it, and every
// query and write of the store names it. So all that a transaction touches is on
// one shard, and its commit needs no agreement between shards; owners spread over
// the shards, and since an _id begins with its owner, it is unique over all of
// them. Only a transaction over several owners ([Store.Atomically], [Store.Tx])
// may span shards.
//
// The shard key of events is {sequence: 1, number: 1}, or {sequence: "hashed"}, and
// that of log can only be _id. An append may span shards.
//
// # Handles
//
// [Open] connects, creates what is missing, and has a client of its own. [New]
// works on a client of the caller's, which it neither disconnects nor creates
// anything with: [Migrate] does that. [Store.Tx] joins a transaction of the
// caller's.
//
// # Tested servers
//
// The suite has run against SecantusDB 0.7.0b3, a server that speaks the protocol
// as a replica set of one node. It has not run against mongod, against several
// nodes, an election, or a sharded cluster: there the package is right by
// construction only.
package mongo
