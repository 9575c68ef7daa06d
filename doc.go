// Package countersign is the vocabulary that every part of the library shares:
// the rules for identities and 64-bit integers, the four kinds of error, the
// clock, and the settlement of a transaction. It imports nothing else of the
// module.
//
// The library keeps durable effect evidence: a service commits an effect, its
// receipt and its follow-up work in one transaction, recovers the first
// committed outcome on every retry, and acknowledges only what can be proved.
//
// Start with package durable for the durable owner, with eventlog for the event log
// and its observers, with receipt for effects that are retried, and with
// store/sqlite, store/postgres, store/mongo, store/memory or an adapter of your own
// for the backend. An adapter is proved with package storetest.
package countersign
