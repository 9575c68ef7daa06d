package mongo

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Codes of the server that this package tells apart.
const (
	codeUnauthorized         = 13
	codeAuthenticationFailed = 18
	codeIllegalOperation     = 20
	codeNamespaceExists      = 48
	codeMaxTimeMSExpired     = 50
	codeWriteConflict        = 112
	codeLockTimeout          = 24
	codeSnapshotTooOld       = 239
	codeSnapshotUnavailable  = 246
	codeNoSuchTransaction    = 251
	codeNotInTransaction     = 263
	codeDuplicateKey         = 11000
	codeOutOfDiskSpace       = 14031
)

// passingCodes are those of a server that is about to have another primary, is
// shutting down, or can't reach one that it needs: another attempt finds the new
// one.
var passingCodes = []int{
	6,     // HostUnreachable
	7,     // HostNotFound
	89,    // NetworkTimeout
	91,    // ShutdownInProgress
	134,   // ReadConcernMajorityNotAvailableYet
	189,   // PrimarySteppedDown
	262,   // ExceededTimeLimit
	9001,  // SocketException
	10107, // NotWritablePrimary
	11600, // InterruptedAtShutdown
	11602, // InterruptedDueToReplStateChange
	13435, // NotPrimaryNoSecondaryOk
	13436, // NotPrimaryOrSecondary
}

// Labels of the transaction protocol, and of errors that pass.
const (
	labelTransient      = "TransientTransactionError"
	labelUnknownCommit  = "UnknownTransactionCommitResult"
	labelRetryable      = "RetryableError"
	labelRetryableWrite = "RetryableWriteError"
	labelOverloaded     = "SystemOverloadedError"
)

func hasLabel(err error, label string) bool {
	var l mongo.LabeledError
	return errors.As(err, &l) && l.HasErrorLabel(label)
}

// hasCode reports whether the server gave one of the codes, for the command or
// for a write in it.
func hasCode(err error, codes ...int) bool {
	var given []int
	var bulk mongo.ClientBulkWriteException
	var server mongo.ServerError
	switch {
	case errors.As(err, &bulk):
		given = bulk.ErrorCodes()
	case errors.As(err, &server):
		given = server.ErrorCodes()
	}
	for _, g := range given {
		for _, c := range codes {
			if g == c {
				return true
			}
		}
	}
	return false
}

// transient reports whether a transaction that failed with err, before its
// commit or with a commit that was surely not carried out, can succeed when it
// is run again from the beginning.
func transient(err error) bool {
	var raced *racedError
	return errors.As(err, &raced) || hasLabel(err, labelTransient) ||
		hasCode(err, codeWriteConflict, codeLockTimeout, codeSnapshotTooOld, codeSnapshotUnavailable, codeNoSuchTransaction)
}

// passing reports whether the server could not carry out a command for a reason
// that lies in the server and passes.
func passing(err error) bool {
	return mongo.IsNetworkError(err) || hasCode(err, passingCodes...) ||
		hasLabel(err, labelRetryable) || hasLabel(err, labelRetryableWrite) || hasLabel(err, labelOverloaded)
}

// repeatable reports whether what failed with err, before a commit, is worth
// another attempt. An error that a body returns is so only if it is the driver's
// own, of a command in the session: in any other, such as one of another store,
// what lies underneath says nothing of this transaction.
func repeatable(err error) bool {
	var own *bodyError
	if errors.As(err, &own) {
		return !isOurs(own.err) && hasLabel(own.err, labelTransient)
	}
	return transient(err) || passing(err)
}

// racedError says that another transaction created the owner since this one
// began: the next attempt sees it.
type racedError struct{ err error }

func (e *racedError) Error() string { return e.err.Error() }
func (e *racedError) Unwrap() error { return e.err }

// unknownCommit is the error of a commit of which nobody knows whether it was
// carried out.
type unknownCommit struct{ err error }

func (e *unknownCommit) Error() string { return e.err.Error() }
func (e *unknownCommit) Unwrap() error { return e.err }

// wrap turns an error of the driver into one that users can act on. It is only
// for errors after which nothing was written. The driver's error stays
// reachable underneath; errors of this module are left as they are.
func wrap(ctx context.Context, err error, waited time.Duration) error {
	var own *bodyError
	switch {
	case err == nil || isOurs(err) || errors.As(err, &own):
		return err
	case errors.Is(err, mongo.ErrWrongClient):
		return &countersign.MalformedError{Field: "session", Reason: "is of another client"}
	case ctx.Err() != nil:
		return &store.NotTakenError{Err: countersign.ContextError(ctx)}
	case errors.Is(err, mongo.ErrClientDisconnected):
		return store.ErrClosed
	case hasCode(err, codeUnauthorized, codeAuthenticationFailed):
		return &store.UnusableError{Reason: "the user may not do this", Err: err}
	case hasCode(err, codeIllegalOperation, codeNotInTransaction):
		return &store.UnusableError{Reason: needsReplicaSet, Err: err}
	case hasCode(err, codeOutOfDiskSpace):
		return &store.UnavailableError{Reason: "disk full", Err: err}
	case mongo.IsNetworkError(err):
		return &store.UnavailableError{Reason: "the connection was lost", Err: err}
	case mongo.IsTimeout(err) || hasCode(err, codeMaxTimeMSExpired):
		return &store.UnavailableError{Reason: "the server did not answer in time", Err: err}
	case passing(err):
		return &store.UnavailableError{Reason: "the server is failing over", Err: err}
	case transient(err):
		return &store.BusyError{Waited: waited, Err: err}
	case hasCode(err, codeDuplicateKey):
		// The rules saw every record that the request touches, in the same
		// transaction. A key that is taken all the same means that the records
		// contradict each other: it is never taken for a duplicate.
		return &store.UnusableError{Reason: "the records break the schema", Err: err}
	}
	var server mongo.ServerError
	if errors.As(err, &server) {
		return &store.UnusableError{Reason: "database error", Err: err}
	}
	return &store.UnavailableError{Reason: "the server can't be reached", Err: err}
}

// isOurs reports whether the error has one of the kinds that users act on.
func isOurs(err error) bool {
	return errors.Is(err, countersign.ErrRefused) || errors.Is(err, countersign.ErrConflict) ||
		errors.Is(err, countersign.ErrRetryable) || errors.Is(err, countersign.ErrUnknownOutcome)
}
