package storetest

import "slices"

// A Need is something that a case can't do without.
type Need string

const (
	NeedOwners       Need = "durable.Store of the backend"
	NeedTransactions Need = "store.Transactor of the backend"
	NeedPlant        Need = "Plant of the harness"
	NeedKill         Need = "Kill of the harness"
	NeedWire         Need = "Wire of the harness"
)

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
		concurrencyCases, linearCases, waitCases, transactionCases, randomCases, wireCases, killCases,
	)
}
