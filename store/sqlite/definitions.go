package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/countersign/countersign/eventlog"
)

func (p port) LoadDefinitions(ctx context.Context, eventStore string) (eventlog.Definitions, error) {
	var d eventlog.Definitions
	err := p.read(ctx, func(s session) (err error) {
		d, err = readDefinitions(ctx, s, p.texts().log, eventStore)
		return err
	})
	if err != nil {
		return eventlog.Definitions{}, err
	}
	return d, nil
}

func (p port) Define(ctx context.Context, op, eventStore string, rule func(eventlog.Definitions) (eventlog.DefinitionPlan, error)) error {
	var refusal error
	unknown := unknownLog(op, eventlog.Sequence{})
	err := p.change(ctx, unknown, func(ctx context.Context, s session) (int, error) {
		t := p.texts().log
		before, err := readDefinitions(ctx, s, t, eventStore)
		if err != nil {
			return 0, err
		}
		var plan eventlog.DefinitionPlan
		if plan, refusal = rule(before); refusal != nil || !plan.Writes {
			return 0, nil
		}
		if err := s.exec(ctx, t.putEventStore, []driver.Value{eventStore, int64(plan.Revision), int64(plan.Constraints)}); err != nil {
			return 0, err
		}
		size := 0
		put := newRows(t.putDefinitions, len(plan.Put))
		for _, d := range plan.Put {
			put.add(eventStore, d.Kind, d.Name, int64(d.Generation), blob(d.Body))
			size += len(d.Body)
		}
		return pagesOf(size), put.exec(ctx, s)
	})
	if err != nil {
		return err
	}
	return refusal
}

// readDefinitions returns what is registered in an event store, in the order of
// its keys.
func readDefinitions(ctx context.Context, s session, t *logStatements, eventStore string) (eventlog.Definitions, error) {
	var d eventlog.Definitions
	args := []driver.Value{eventStore}
	if err := s.query(ctx, t.eventStore, args, func(v []driver.Value) error {
		d.Revision, d.Constraints = number(v[0]), number(v[1])
		return nil
	}); err != nil {
		return d, err
	}
	var err error
	d.All, err = list(ctx, s, t.definitions, args, definitionOf)
	return d, err
}
