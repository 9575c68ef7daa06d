// Package eventlog is an append-only log of events under schemas, unique
// constraints and concurrency scopes, with observers that see every event at least
// once, in order for each event source.
//
// The contract is part II, section 5, of docs/contract.md, and docs/events.md is
// the guide. The rules are pure functions: [Catalog.Prepare] judges events
// by their schemas, [Decide] by the constraints and scopes, in the transaction that
// writes them.
//
// Users append and read through a backend's [Store]; [Events] and [Follow] read a
// sequence as a Go iterator; [Observer] keeps a durable cursor. Work that may be
// tried again appends with a receipt: package receipt.
package eventlog
