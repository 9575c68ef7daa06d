package mongo

import (
	"context"
	"slices"

	"github.com/countersign/countersign/eventlog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// LoadDefinitions implements [store.EventPort]: they are found by one query, which is
// of one state.
func (p port) LoadDefinitions(ctx context.Context, eventStore string) (d eventlog.Definitions, err error) {
	err = p.read(ctx, func(ctx context.Context) error {
		d, _, err = p.s.definitions(ctx, eventStore)
		return err
	})
	return d, err
}

func (s *Store) definitions(ctx context.Context, eventStore string) (d eventlog.Definitions, head *logDocument, err error) {
	err = s.findLog(ctx, bson.D{{Key: "of", Value: definitionsKey(eventStore)}}, options.Find(), func(doc *logDocument) error {
		switch doc.Kind {
		case definitionsKind:
			head = doc
			d.Revision, d.Constraints = loaded(doc.Revision), loaded(doc.Constraints)
		case definitionKind:
			d.All = append(d.All, doc.definition())
		}
		return nil
	})
	slices.SortFunc(d.All, eventlog.CompareDefinitions)
	return d, head, err
}

// Define implements [store.EventPort]. Its lock is the head of the definitions.
func (p port) Define(ctx context.Context, op, eventStore string, rule func(eventlog.Definitions) (eventlog.DefinitionPlan, error)) error {
	var verdict error
	err := p.write(ctx, definitionsID(eventStore), unknownOutcome(op, eventlog.Sequence{}), func(ctx context.Context) error {
		before, head, err := p.s.definitions(ctx, eventStore)
		if err != nil {
			return err
		}
		w := p.s.newLogWrites()
		plan, err := rule(before)
		if verdict = err; err == nil && plan.Writes {
			w.define(eventStore, head, plan)
		} else if p.locks() && head != nil {
			w.lockHead(head, nil)
		}
		return w.send(ctx)
	})
	if err != nil {
		return err
	}
	return verdict
}

func (w *logWrites) define(eventStore string, head *logDocument, plan eventlog.DefinitionPlan) {
	revisions := bson.D{{Key: "revision", Value: stored(plan.Revision)}, {Key: "constraints", Value: stored(plan.Constraints)}}
	if head == nil {
		w.insertRacing(append(bson.D{
			{Key: "_id", Value: definitionsID(eventStore)}, {Key: "kind", Value: definitionsKind},
			{Key: "of", Value: definitionsKey(eventStore)}, {Key: "turn", Value: int64(0)},
		}, revisions...))
	} else {
		w.lockHead(head, revisions)
	}
	for _, d := range plan.Put {
		w.replace(definitionDocument(eventStore, d))
	}
}

// replace puts a document in place by its _id.
func (w *logWrites) replace(d bson.D) {
	w.matches++
	w.add(mongo.NewClientReplaceOneModel().SetFilter(d[:1:1]).SetReplacement(d).SetUpsert(true))
}
