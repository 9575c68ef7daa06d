package storetest

import (
	"context"
	"sync/atomic"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/memory"
)

const (
	lostStays = "wire/each_message_lost_while_the_network_stays"
	lostInTx  = "wire/each_message_of_a_transaction_lost"
	lostDown  = "wire/each_message_lost_and_the_network_with_it"
	atRandom  = "wire/thousand_commits_with_faults_at_random"
	impatient = "wire/delayed_messages_and_callers_who_give_up"
	goesOn    = "wire/each_message_lost_under_a_body_that_goes_on"
	silence   = "wire/silent_network_ends_with_the_context"

	lostEffects = "wire/each_message_of_an_append_with_receipt_lost"
	lostAppends = "wire/each_message_of_an_append_lost"
	someEffects = "wire/effects_with_faults_at_random"
)

var wireMutants = []mutant{
	{"takes a lost reply for a failure", []string{lostStays, lostDown, atRandom, lostEffects, lostAppends}, fault{wire: wireFault{surelyNot: true}}},
	{"takes a lost reply to a transaction's commit for a failure", []string{lostInTx, lostDown}, fault{wire: wireFault{surelyNot: true, inTx: true}}},
	{"takes a commit for sent that is not", []string{lostStays, lostInTx, lostDown, atRandom, lostEffects, lostAppends, someEffects}, fault{wire: wireFault{surely: true}}},
	{"has a kind of its own for a lost reply", []string{lostStays, lostInTx, lostDown, atRandom}, fault{wire: wireFault{mute: true}}},
	{"forgets a request that was lost inside a transaction", []string{goesOn}, fault{wire: wireFault{forgets: true}}},
	{"settles what it does not know", []string{lostInTx, lostDown}, fault{wire: wireFault{settles: true}}},
	{"tells of an unknown outcome of another owner", []string{lostStays, lostInTx, lostDown, lostEffects, lostAppends}, fault{wire: wireFault{elsewhere: true}}},
	{"takes the end of a context for the end of the commit", []string{impatient}, fault{wire: wireFault{contextNot: true}}},
	{"waits for the server whatever the context says", []string{silence}, fault{wire: wireFault{blind: true}}},
	{"says that nothing was written while its server is killed", []string{"kill/callers_under_load_learn_the_truth"}, func() fault {
		var kills atomic.Int64
		return fault{
			killed: func(*memory.Medium, *shared) { kills.Add(1) },
			commit: func(ctx context.Context, b *broken, c durable.Commit) (durable.Committed, error) {
				before := kills.Load()
				res, err := b.Store.CommitOwner(ctx, c)
				pause()
				if err == nil && kills.Load() != before {
					return durable.Committed{}, &store.UnavailableError{Reason: "the server is gone"}
				}
				return res, err
			},
		}
	}()},
}
