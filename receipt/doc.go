// Package receipt keeps effect receipts: for an occurrence of retryable work and the
// name of an effect, the first outcome that was committed. A retry gets it back, with
// the response byte for byte, and does not run the effect again.
//
// The contract is part II, section 6, of docs/contract.md. [Once] is what a handler calls; [Append], [Record], [Get] and
// [List] are the steps by themselves.
//
// What a receipt does not guarantee: it does not fence the effect against a lease
// that was lost, it is not atomic with the completion of the work, and it can't
// make a mail or a payment happen once. Give the other side a stable key for that.
package receipt
