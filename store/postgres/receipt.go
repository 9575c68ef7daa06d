package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

func (b *logBatch) receiptsPart(keys []receipt.Key) part {
	occurrences, effects := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		occurrences[i], effects[i] = k.Occurrence, k.Effect
	}
	return part{&receiptsByKey, []any{occurrences, effects, keys[0].Namespace.EventStore, keys[0].Namespace.Name}}
}

// effectReceipt reads a receipt. The rows of a query belong to one namespace.
func (r *logRow) effectReceipt(ns countersign.Namespace) (receipt.Receipt, error) {
	found := receipt.Receipt{
		Key:     receipt.Key{Namespace: ns, Occurrence: r.s, Effect: r.t},
		Outcome: receipt.Outcome(r.u), Sequence: r.v, First: uint64(r.a), Last: uint64(r.b), Epoch: uint64(r.c),
		RecordedAt: time.UnixMicro(r.d).UTC(), Response: absent(r.y),
	}
	if len(r.x) > 0 {
		if err := json.Unmarshal(r.x, &found.Reasons); err != nil {
			return found, &store.UnusableError{Reason: "the reasons of a receipt can't be read", Err: err}
		}
	}
	return found, nil
}

// insertsReceipts is the part that inserts receipts of one namespace. It does so in
// the order of their keys: two groups that insert the same never wait for each other.
func insertsReceipts(receipts []receipt.Receipt) part {
	slices.SortFunc(receipts, compareReceipts)
	n := len(receipts)
	occurrences, effects, outcomes, sequences := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	first, last, epochs, recorded := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	reasons, responses := make([][]byte, n), make([][]byte, n)
	for i, r := range receipts {
		occurrences[i], effects[i], outcomes[i], sequences[i] = r.Key.Occurrence, r.Key.Effect, string(r.Outcome), r.Sequence
		first[i], last[i], epochs[i], recorded[i] = int64(r.First), int64(r.Last), int64(r.Epoch), r.RecordedAt.UnixMicro()
		reasons[i], responses[i] = []byte{}, blob(r.Response)
		if len(r.Reasons) > 0 {
			reasons[i], _ = json.Marshal(r.Reasons) // texts can always be encoded
		}
	}
	ns := receipts[0].Key.Namespace
	return part{&insertReceipts, []any{occurrences, effects, outcomes, sequences, first, last, epochs, recorded, reasons, responses, ns.EventStore, ns.Name}}
}

func compareReceipts(a, b receipt.Receipt) int {
	return cmp.Or(cmp.Compare(a.Key.Occurrence, b.Key.Occurrence), cmp.Compare(a.Key.Effect, b.Key.Effect))
}

// FindReceipts implements [store.EventPort].
func (p port) FindReceipts(ctx context.Context, req receipt.ListReceipts, effect string) ([]receipt.Receipt, error) {
	found := []receipt.Receipt{}
	occurrences := slices.Compact(slices.Sorted(slices.Values(req.Occurrences)))
	q := p.t.one(&receiptsOfOccurrences, occurrences, req.Namespace.EventStore, req.Namespace.Name, effect).rows(func(r *logRow) error {
		one, err := r.effectReceipt(req.Namespace)
		found = append(found, one)
		return err
	})
	if len(occurrences) == 0 {
		q = p.t.one(&timePart).rows(func(*logRow) error { return nil }) // whether the store answers
	}
	if err := p.read(ctx, q); err != nil {
		return nil, err
	}
	slices.SortFunc(found, compareReceipts)
	return found, nil
}

// unsettled makes a lost race for a receipt, whose winner was not found, what the
// contract calls it.
func unsettled(a *store.Append, err error) error {
	if key, ok := a.Key(); ok && met(err) && !errors.Is(err, errDropped) && answer(err).ConstraintName == "effect_receipts_key" {
		return &receipt.UnsettledError{Key: key, Err: err}
	}
	return err
}
