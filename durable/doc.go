// Package durable is the durable owner: a host whose accepted transitions
// survive the loss of its process.
//
// One commit holds the completed inbox identity, the appended events or the
// replaced snapshot, the outbox intents and the terminal receipts of an owner,
// under an expected position and a fence. All of it becomes visible together,
// or none of it. A redelivery of a committed message finds the first committed
// position again, whatever happened since.
//
// The package has three floors. The rules ([Decide], [DecideCreate],
// [DecideFence], [DecideReceipt], [Image.Validate]) are pure functions. [Store]
// is what an adapter implements; it reads the [Slice] that a request touches,
// asks the rule and writes the [Plan]. [Host] runs a user's state machine over
// any store.
//
// What leaves an owner is described by fingerprints ([HistoryFingerprint],
// [SnapshotFingerprint], [LatestFingerprint]) and by projections ([Project],
// [Reconcile]). Both are advisory: no function of this package takes a
// position, a fence or a state from them to decide a transition.
package durable
