package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/countersign/countersign/receipt"
)

func (p port) FindReceipts(ctx context.Context, req receipt.ListReceipts, effect string) ([]receipt.Receipt, error) {
	found := []receipt.Receipt{}
	err := p.read(ctx, func(s session) error {
		want := newRows(p.texts().log.receiptsOf, len(req.Occurrences))
		if effect != "" {
			want = newRows(p.texts().log.receipts, len(req.Occurrences))
		}
		for _, id := range slices.Compact(slices.Sorted(slices.Values(req.Occurrences))) {
			if want.add(req.Namespace.EventStore, req.Namespace.Name, id); effect != "" {
				want.add(effect)
			}
		}
		return want.query(ctx, s, func(v []driver.Value) error {
			r, err := effectReceiptOf(v)
			found = append(found, r)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, compareReceipts)
	return found, nil
}

func compareReceipts(a, b receipt.Receipt) int {
	if c := strings.Compare(a.Key.Occurrence, b.Key.Occurrence); c != 0 {
		return c
	}
	return strings.Compare(a.Key.Effect, b.Key.Effect)
}
