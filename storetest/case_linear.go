package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/countersign/countersign/durable"
)

var linearCases = []Case{
	{Group: "concurrency", Name: "is_linearizable", Needs: []Need{NeedOwners}, Run: linearizable},
}

// load is the request of an operation that reads the whole image.
type load struct{}

// linearizable lets four clients create, commit, take the fence, record receipts
// and load at once. Their answers must be those of some order in which the
// operations were done one after the other, each between its call and its
// return.
func linearizable(t T, h Harness) {
	const rounds, clients, each = 15, 4, 8
	db := newDatabase(t, h)
	store := db.pool()
	for round := range rounds {
		o := subject{fmt.Sprintf("owner %d", round), subjects[round%2].mode}
		history := make([][]porcupine.Operation, clients)
		begin := time.Now()
		together(t, clients, func(client int) error {
			r := rand.New(rand.NewPCG(uint64(round), uint64(client)))
			var seen durable.Head // as this client knows it
			for n := range each {
				input := nextOperation(r, o, seen, client, n)
				op := porcupine.Operation{ClientId: client, Input: input, Call: time.Since(begin).Nanoseconds()}
				err := taken(t.Context(), func() error {
					if _, ok := input.(load); ok {
						img, err := store(client).LoadOwner(t.Context(), durable.LoadOwner{Owner: o.id})
						if err == nil {
							seen = img.Head
							op.Output = &img
							return nil
						}
						op.Output = (*durable.Image)(nil)
						return known(err)
					}
					a := ask(t.Context(), store(client), input.(request))
					op.Output = a
					if a.err == nil {
						seen = ahead(seen, a)
					}
					return known(a.err)
				})
				if err != nil {
					return err
				}
				op.Return = time.Since(begin).Nanoseconds()
				history[client] = append(history[client], op)
			}
			return nil
		})
		var all []porcupine.Operation
		for _, ops := range history {
			all = append(all, ops...)
		}
		if res := porcupine.CheckOperationsTimeout(linearModel, all, time.Minute); res != porcupine.Ok {
			t.Fatalf("round %d: no order of the operations explains their answers (%s):\n%s", round, res, showHistory(all))
		}
	}
}

// known returns the errors that are no answer.
func known(err error) error {
	if err != nil && outcomeOf(err) == unexpected {
		return err
	}
	return nil
}

// ahead is what a client knows of the head after an answer.
func ahead(seen durable.Head, a answer) durable.Head {
	if a.head.Owner != "" {
		return a.head
	}
	if a.through > seen.Position {
		seen.Position = a.through
	}
	return seen
}

// nextOperation returns a request, or a load, that has a fair chance.
func nextOperation(r *rand.Rand, o subject, seen durable.Head, client, n int) any {
	switch r.IntN(10) {
	case 0, 1, 2:
		return load{}
	case 3:
		return durable.CreateOwner{Owner: o.id, Mode: o.mode, Fence: uint64(client)}
	case 4:
		return durable.AdvanceFence{Owner: o.id, Fence: seen.Fence + 1}
	case 5:
		effect := fmt.Sprintf("e%d", r.IntN(3))
		return durable.RecordReceipt{Owner: o.id, Fence: seen.Fence, Receipt: terminal(fmt.Sprintf("r%d of %s", client%2, effect), effect)}
	}
	id := fmt.Sprintf("client %d, message %d", client, n)
	if r.IntN(3) == 0 {
		id = fmt.Sprintf("shared message %d", r.IntN(2))
	}
	return durable.Commit{
		Owner: o.id, ExpectedPosition: seen.Position, Fence: seen.Fence, Inbox: durable.Inbox{ID: id},
		State: o.change(id), Effects: intents(fmt.Sprintf("e%d", r.IntN(3))),
	}
}

// linearModel is the durable owner as porcupine wants it: the state is the
// owner's image, nil for none, and the rules are the model's.
var linearModel = porcupine.Model{
	Init: func() any { return (*durable.Image)(nil) },
	Step: func(state, input, output any) (bool, any) {
		img := state.(*durable.Image)
		if _, ok := input.(load); ok {
			got := output.(*durable.Image)
			return (img == nil) == (got == nil) && (img == nil || sameImage(*img, *got)), img
		}
		want, after := decide(img, input.(request))
		return output.(answer).differs(want) == "", after
	},
	Equal: func(a, b any) bool {
		x, y := a.(*durable.Image), b.(*durable.Image)
		return x == y || x != nil && y != nil && sameImage(*x, *y)
	},
}

// showHistory writes the operations of each client in order.
func showHistory(ops []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range ops {
		what, answered := "load", ""
		if req, ok := op.Input.(request); ok {
			what, answered = describe(req), op.Output.(answer).String()
		} else if img := op.Output.(*durable.Image); img != nil {
			answered = fmt.Sprintf("%+v", img.Head)
		}
		fmt.Fprintf(&b, "client %d [%d, %d] %s: %s\n", op.ClientId, op.Call, op.Return, what, answered)
	}
	return b.String()
}
