// Package store holds together what an adapter implements, and says what an
// adapter promises. Its author reads this page first, then the doc comments of
// [durable.Store] and of [EventPort], and then runs package storetest. What users see
// of the event log, the observers and the receipts, an adapter gets by embedding
// [Events] on its port.
//
// # What an adapter promises
//
//   - The rules are not its own. It reads the [durable.Slice] that a request
//     touches inside one transaction, calls the pure rule ([durable.Decide] and
//     its siblings), and writes the plan in the same transaction. A rule may be
//     folded into a statement, if the suite finds no difference.
//   - Malformed input is refused before anything is read: it calls Check of the
//     request first.
//   - Every decision reads and locks the owner's row in its transaction, also one
//     that writes nothing. An append locks its sequence's row.
//   - A result is given only after the transaction that it may rest on has
//     committed. That includes refusals and duplicates that were decided beside
//     a neighbour's uncommitted write.
//   - A request whose context ended before it was taken leaves no trace and gives
//     a [*NotTakenError]. Once it was taken, a result that was not seen is an unknown
//     outcome ([countersign.ErrUnknownOutcome]; each part has its own error for it):
//     never a success, never a failure.
//   - Bytes come back verbatim, identities are compared byte by byte, and no slice
//     is shared with a caller.
//   - A load is one consistent read. What a page or a commit costs depends on what
//     it touches, never on the size of the owner.
//   - No goroutine of the adapter outlives Close. One may outlive a call, to finish
//     a request whose caller's context has ended, and touches nothing of that
//     caller's.
//   - Inside a caller's transaction, results carry an unsettled
//     [countersign.Settlement], and a refusal leaves the transaction usable.
//
// # Over a network
//
// What to say when a connection is lost, or a context ends, follows from what the
// server may have done:
//
//   - Nothing that writes was sent, or it is sure not to have been carried out: an
//     [*UnavailableError], or a [*NotTakenError] if the context has ended.
//     Both are retryable. The adapter may also repeat the request by itself.
//   - What commits was sent, and its answer was not seen: a
//     [*durable.UnknownOutcomeError] with the operation and the owner. Do not
//     repeat the request inside: it may find its own commit, and call it a duplicate.
//   - A read was sent: retryable. A read has no outcome.
//   - A request inside a transaction was lost: the transaction is dead. Atomically
//     then returns an error, whatever its body makes of it.
//
// A pooled connection that died unnoticed may turn a commit into an unknown outcome.
// The adapter connects again by itself, and lets a caller go soon after its context
// has ended, also when the network is silent. The cause of the error is found by
// [errors.Is]: for a context, [context.Canceled] or what it was cancelled with.
//
// An adapter may implement some of the interfaces. [CapabilitiesOf] says which,
// and what is missing is an [*UnsupportedError] at the call.
package store
