package storetest

import "slices"

// A Need is something that a case can't do without.
type Need string

const (
	NeedOwners       Need = "durable.Store of the backend"
	NeedEvents       Need = "eventlog.Store of the backend"
	NeedObservers    Need = "eventlog.Observers of the backend"
	NeedReceipts     Need = "receipt.Store of the backend"
	NeedTransactions Need = "store.Transactor of the backend"
	NeedPlant        Need = "Plant of the harness"
	NeedKill         Need = "Kill of the harness"
	NeedWire         Need = "Wire of the harness"
)

// needs are all needs, in the order in which what lacks them is listed.
var needs = []Need{NeedOwners, NeedEvents, NeedObservers, NeedReceipts, NeedTransactions, NeedPlant, NeedKill, NeedWire}

// A Case is one promise of the contract, as a value. Group and Name are stable:
// they are how a failure is cited, and how a single case is run.
type Case struct {
	Group string // what the promise is about, as in "commit"
	Name  string // the promise, as in "duplicate_keeps_the_first_position"
	Needs []Need

	// Run checks the promise on a fresh database of the harness. It reports on t.
	Run func(t T, h Harness)
}

// String returns group/name.
func (c Case) String() string { return c.Group + "/" + c.Name }

// Cases returns every case of the suite that is written in Go, in a fixed order.
// The fixtures are replayed by [Replay].
func Cases() []Case {
	return slices.Concat(
		createCases, commitCases, fenceCases, effectCases, receiptCases,
		identityCases, payloadCases, limitCases, integerCases, aliasCases,
		pageCases, contextCases, handleCases, recoverCases, outboxCases,
		concurrencyCases, linearCases, waitCases, transactionCases, randomCases, wireCases, logWireCases, killCases,
		appendCases, schemaCases, constraintCases, scopeCases, eventsCases, effectReceiptCases, observerCases, namespaceCases,
		logContextCases, logAliasCases, logTransactionCases, joinCases, logConcurrencyCases, logRandomCases,
	)
}
