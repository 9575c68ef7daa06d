package postgres

import (
	"context"
	"slices"

	"github.com/countersign/countersign/eventlog"
)

// definitionsRow takes a row of definitions, or of the event store.
func definitionsRow(d *eventlog.Definitions, r *logRow) {
	if r.kind == stateRow {
		d.Revision, d.Constraints = uint64(r.b), uint64(r.c)
		return
	}
	d.All = append(d.All, eventlog.Definition{Kind: r.s, Name: r.t, Generation: uint32(r.a), Body: absent(r.x)})
}

// LoadDefinitions implements [store.EventPort].
func (p port) LoadDefinitions(ctx context.Context, eventStore string) (eventlog.Definitions, error) {
	var d eventlog.Definitions
	args := []any{eventStore}
	err := p.read(ctx, p.t.make(union, part{&eventStorePart, args}, part{&definitionsPart, args}).rows(func(r *logRow) error {
		definitionsRow(&d, r)
		return nil
	}))
	if err != nil {
		return eventlog.Definitions{}, err
	}
	slices.SortFunc(d.All, eventlog.CompareDefinitions)
	return d, nil
}

// Define implements [store.EventPort].
func (p port) Define(ctx context.Context, op, eventStore string, rule func(eventlog.Definitions) (eventlog.DefinitionPlan, error)) error {
	return p.carry(ctx, unknownOutcome(op, eventlog.Sequence{}), func(ctx context.Context, w *work) error {
		var d eventlog.Definitions
		take := func(r *logRow) error { definitionsRow(&d, r); return nil }
		if err := w.run(ctx, w.t.one(&insertEventStore, eventStore), w.t.one(&lockEventStore, eventStore).rows(take),
			w.t.one(&definitionsPart, eventStore).rows(take)); err != nil {
			return err
		}
		slices.SortFunc(d.All, eventlog.CompareDefinitions)
		plan, err := rule(d)
		if err != nil || !plan.Writes {
			return err
		}
		n := len(plan.Put)
		kinds, named, generations, bodies := make([]string, n), make([]string, n), make([]int64, n), make([][]byte, n)
		for i, put := range plan.Put {
			kinds[i], named[i], generations[i], bodies[i] = put.Kind, put.Name, int64(put.Generation), blob(put.Body)
		}
		w.write(w.t.one(&moveEventStore, eventStore, int64(plan.Revision), int64(plan.Constraints)),
			w.t.one(&putDefinitions, kinds, named, generations, bodies, eventStore))
		return nil
	})
}
