package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
)

func (p port) Index(ctx context.Context, x *store.Indexing) (more bool, err error) {
	unknown := unknownLog(eventlog.OpIndex, x.Sequence)
	err = p.change(ctx, unknown, func(ctx context.Context, s session) (pages int, err error) {
		i := &indexStore{s: s, stmts: p.texts().log, name: x.Sequence}
		more, err = x.Step(ctx, i)
		return i.pages, err
	})
	if err != nil {
		return false, err
	}
	return more, nil
}

// indexStore is the [store.IndexStore] of a sequence in a transaction.
type indexStore struct {
	s     session
	stmts *logStatements
	name  eventlog.Sequence
	key   int64
	pages int // written, about
}

func (i *indexStore) ReadIndexState(ctx context.Context) (state eventlog.IndexState, constraints uint64, ok bool, err error) {
	q, err := readSequence(ctx, i.s, i.stmts, i.name)
	if err != nil || !q.exists {
		return eventlog.IndexState{}, 0, false, err
	}
	i.key = q.key
	return q.state, q.constraints, true, nil
}

func (i *indexStore) WriteIndexState(ctx context.Context, state eventlog.IndexState) error {
	i.pages += pagesOf(0)
	return i.s.exec(ctx, i.stmts.moveIndex, []driver.Value{int64(state.Indexed), int64(state.Building), int64(state.Through), i.key}) // by its bits
}

func (i *indexStore) DeleteClaims(ctx context.Context, limit int) (int, error) {
	n := 0
	err := i.s.query(ctx, i.stmts.clearClaims, []driver.Value{i.key, int64(limit)}, func([]driver.Value) error {
		n++
		return nil
	})
	i.pages += pagesOf(n * rowSize)
	return n, err
}

func (i *indexStore) ReadIndexEvents(ctx context.Context, from uint64, limit int) ([]eventlog.Recorded, error) {
	return readEvents(ctx, i.s, i.stmts, search{key: i.key, from: from, to: maxNumber}, limit)
}

func (i *indexStore) ReadClaims(ctx context.Context, t eventlog.Touch, slice *eventlog.Slice) error {
	owners, values := newRows(i.stmts.claimsByOwner, len(t.Owners)), newRows(i.stmts.claimsByValue, len(t.Values))
	wantClaims(i.key, t, owners, values)
	for _, want := range []*rows{owners, values} {
		if err := want.query(ctx, i.s, func(v []driver.Value) error {
			slice.AddClaim(claimOf(v[1:]))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (i *indexStore) WriteClaims(ctx context.Context, freed []eventlog.ClaimOwner, made []eventlog.Claim) error {
	gone, claims := newRows(i.stmts.deleteClaims, len(freed)), newRows(i.stmts.insertClaims, len(made))
	addClaims(i.key, freed, made, gone, claims)
	i.pages += pagesOf((len(freed) + len(made)) * rowSize)
	if err := gone.exec(ctx, i.s); err != nil {
		return err
	}
	return claims.exec(ctx, i.s)
}
