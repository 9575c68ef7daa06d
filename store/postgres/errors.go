package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// SQLSTATEs that are looked at by themselves; the others by their class.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	completionUnknown    = "40003"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	readOnlyTransaction  = "25006"
	tooManyConnections   = "53300"
	outOfDisk            = "53100"
	outOfMemory          = "53200"
	queryCanceled        = "57014"
	idleInTransaction    = "25P03"
	idleSession          = "57P05"
)

// rules says which rule of the schema a constraint stands for.
var rules = map[string]string{
	"owners_key":       "a second owner under one key",
	"owners_id":        "a second owner under one id",
	"owners_mode":      "an unknown mode",
	"owners_position":  "a negative position",
	"owners_fence":     "a negative fence",
	"history_position": "a second event at one position",
	"snapshots_owner":  "a second snapshot of one owner",
	"inbox_id":         "a second inbox record under one id",
	"outbox_effect":    "a second effect under one id",
	"receipts_id":      "a second receipt under one id",
	"receipts_effect":  "a second receipt of one effect",

	"event_stores_revision":      "a negative revision",
	"definitions_key":            "a second definition under one name",
	"sequences_key":              "a second sequence under one key",
	"events_number":              "a second event under one number",
	"events_positive":            "a negative number",
	"event_tags_key":             "a second tag of one event",
	"claims_source":              "a second claim of one source",
	"claims_value":               "a second claim of one value",
	"observers_key":              "a second observer under one key",
	"observer_partitions_source": "a second partition of one source",
}

// raced are constraints that two transactions meet at which insert the same row at
// once: the second one begins again, and finds the row.
var raced = map[string]bool{
	"event_stores_id":     true,
	"sequences_name":      true,
	"effect_receipts_key": true,
	"observers_name":      true,
}

// met reports whether another transaction has inserted the same row, or deleted it.
func met(err error) bool {
	if errors.Is(err, errDropped) {
		return true
	}
	e := answer(err)
	return e != nil && e.Code == uniqueViolation && raced[e.ConstraintName]
}

// errDropped says that a row which was there has been deleted since.
var errDropped = errors.New("postgres: the row was dropped meanwhile")

// answer returns the server's error in err, or nil: then the connection failed,
// or the request did not get as far as the server.
func answer(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// again reports whether the transaction failed for a reason that may not be there
// when it is repeated as a whole. Nothing of it was written.
func again(err error) bool {
	e := answer(err)
	return e != nil && (e.Code == serializationFailure || e.Code == deadlockDetected) || met(err)
}

// connectionLost is the reason of an error after which the same request may be
// sent on another connection at once.
const connectionLost = "the connection was lost"

// lostConnection wraps an error before anything was committed, if it is the
// connection's.
func lostConnection(err error) error {
	if !idledOut(err) && answer(err) != nil || unreadable(err) || verdict(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &store.UnavailableError{Reason: connectionLost, Err: err}
}

// unreadable reports whether the answer came, and the driver could not read it. It
// would be the same on any connection.
func unreadable(err error) bool {
	_, ok := errors.AsType[pgx.ScanArgError](err)
	return ok
}

// lost reports whether the error says that the connection was lost before anything
// was committed.
func lost(err error) bool {
	e, ok := errors.AsType[*store.UnavailableError](err)
	return ok && e.Reason == connectionLost
}

// idledOut reports whether the server had ended the session before it looked at
// what was sent: these timeouts run only while it waits for a statement, and end
// when it begins one.
func idledOut(err error) bool {
	e := answer(err)
	return e != nil && (e.Code == idleInTransaction || e.Code == idleSession)
}

// surelyNotCommitted reports whether a transaction whose COMMIT was sent, and
// which failed with err, left nothing behind: the server itself says that a
// statement failed, and stays there.
func surelyNotCommitted(err error) bool {
	if pgconn.SafeToRetry(err) || idledOut(err) {
		return true
	}
	e := answer(err)
	return e != nil && e.SeverityUnlocalized == "ERROR" && e.Code[:min(2, len(e.Code))] != "08" && e.Code != completionUnknown
}

// wrap turns an error of the driver into one that users can act on, and leaves
// those of this module as they are. It is only for errors after which nothing was
// written. The driver's error stays reachable underneath.
func wrap(err error, waited time.Duration) error {
	if err == nil || verdict(err) {
		return err
	}
	e := answer(err)
	switch {
	case errors.Is(err, errApart):
		return &store.BusyError{Waited: waited}
	case met(err):
		return &store.BusyError{Waited: waited, Err: err}
	case e != nil:
		return wrapAnswer(e, err, waited)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// Not the caller's context, whose end is looked for before.
		return &store.UnavailableError{Reason: "the server does not answer", Err: err}
	case errors.Is(err, sql.ErrTxDone), errors.Is(err, pgx.ErrTxClosed):
		return store.ErrTxDone
	case unreadable(err):
		return &store.UnusableError{Reason: "the server's answer can't be read; bytea_output must be hex", Err: err}
	case errors.Is(err, puddle.ErrClosedPool):
		return store.ErrClosed
	case errors.As(err, new(*pgconn.ConnectError)):
		return &store.UnavailableError{Reason: "can't connect", Err: err}
	}
	return &store.UnavailableError{Reason: connectionLost, Err: err}
}

func wrapAnswer(e *pgconn.PgError, err error, waited time.Duration) error {
	switch e.Code {
	case lockNotAvailable, serializationFailure, deadlockDetected:
		return &store.BusyError{Waited: waited, Err: err}
	case idleInTransaction:
		return &store.UnavailableError{Reason: connectionLost, Err: err}
	case readOnlyTransaction:
		return &store.ReadOnlyError{Err: err}
	case outOfDisk:
		return &store.UnavailableError{Reason: "disk full", Err: err}
	case outOfMemory:
		return &store.UnavailableError{Reason: "out of memory", Err: err}
	case tooManyConnections:
		return &store.UnavailableError{Reason: "too many connections", Err: err}
	case queryCanceled:
		return &store.UnavailableError{Reason: "the server cancelled the request", Err: err}
	}
	switch class := e.Code[:min(2, len(e.Code))]; class {
	case "08", "57":
		return &store.UnavailableError{Reason: connectionLost, Err: err}
	case "53", "58":
		return &store.UnavailableError{Reason: "the server lacks what it needs", Err: err}
	case "23":
		// The rules saw every record that the request touches, in the same
		// transaction. A constraint that fires all the same means that the rows
		// contradict each other: it is never taken for a duplicate.
		reason := "the records break the schema"
		if rule := rules[e.ConstraintName]; rule != "" {
			reason += ": " + rule
		}
		return &store.UnusableError{Reason: reason, Err: err}
	case "25":
		return &store.UnusableError{Reason: "the transaction has failed before, or allows no writing", Err: err}
	case "26":
		return &store.UnusableError{Reason: "prepared statements do not survive this pooler, use default_query_exec_mode=cache_describe", Err: err}
	case "3D", "28":
		return &store.UnusableError{Reason: "the database can't be opened", Err: err}
	case "42", "3F":
		return &store.UnusableError{Reason: "the schema is not this library's, or may not be used", Err: err}
	case "XX":
		return &store.UnusableError{Reason: "the database is corrupt", Err: err}
	}
	return &store.UnusableError{Reason: "database error", Err: err}
}

// verdict reports whether the error is one of this module already.
func verdict(err error) bool {
	var unknownOwner *durable.UnknownOwnerError
	var unknown *durable.UnknownOutcomeError
	var unusable *store.UnusableError
	var unavailable *store.UnavailableError
	var busy *store.BusyError
	var notTaken *store.NotTakenError
	var schema *store.SchemaVersionError
	var unsettled *receipt.UnsettledError
	return errors.As(err, &unknownOwner) || errors.As(err, &unknown) || errors.As(err, &unusable) || errors.As(err, &unavailable) ||
		errors.As(err, &busy) || errors.As(err, &notTaken) || errors.As(err, &schema) || errors.As(err, &unsettled) || errors.Is(err, store.ErrTxDone) || errors.Is(err, store.ErrClosed)
}
