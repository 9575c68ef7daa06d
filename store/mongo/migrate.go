package mongo

import (
	"context"
	"fmt"
	"time"

	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A step is one numbered step of the schema. Steps go forward only, and each can
// be run by many processes at once, and again.
type step struct {
	// oldestLibrary is the oldest schema version that a library may know and
	// still use a database after this step, so that old and new processes can run
	// side by side while a new release is rolled out.
	oldestLibrary int
	run           func(ctx context.Context, s *Store) error
}

var steps = []step{
	{oldestLibrary: 1, run: createOwners},
	{oldestLibrary: 1, run: createLog},
}

// createOwners makes the collection of the records explicitly, since not every
// server can do so inside a transaction, and the index of the pending effects,
// which only they are in.
func createOwners(ctx context.Context, s *Store) error {
	if err := s.records.Database().CreateCollection(ctx, s.records.Name()); err != nil && !hasCode(err, codeNamespaceExists) {
		return err
	}
	_, err := s.records.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "pending", Value: 1}},
		Options: options.Index().SetName("pending").SetSparse(true),
	})
	return err
}

// createLog makes the collections of the event log, the receipts and the observers,
// and the document that the server's time is read with.
func createLog(ctx context.Context, s *Store) error {
	for _, c := range []*mongo.Collection{s.log, s.events} {
		if err := c.Database().CreateCollection(ctx, c.Name()); err != nil && !hasCode(err, codeNamespaceExists) {
			return err
		}
	}
	_, err := s.log.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "of", Value: 1}, {Key: "name", Value: 1}},
		Options: options.Index().SetName("of").SetSparse(true),
	})
	if err != nil {
		return err
	}
	var indexes []mongo.IndexModel
	for _, field := range []struct {
		name     string
		optional bool
	}{{"source", false}, {"type", false}, {"tags", true}, {"source_type", true}, {"stream_type", true}, {"stream_id", true}} {
		o := options.Index().SetName(field.name)
		if field.optional { // an event without it has no entry
			o.SetPartialFilterExpression(bson.D{{Key: field.name, Value: bson.D{{Key: "$gt", Value: ""}}}})
		}
		indexes = append(indexes, mongo.IndexModel{
			Keys:    bson.D{{Key: "sequence", Value: 1}, {Key: field.name, Value: 1}, {Key: "number", Value: 1}},
			Options: o,
		})
	}
	if _, err := s.events.Indexes().CreateMany(ctx, indexes); err != nil {
		return err
	}
	_, err = s.log.InsertOne(ctx, bson.D{{Key: "_id", Value: clockID}, {Key: "kind", Value: clockKind}})
	if hasCode(err, codeDuplicateKey) {
		return nil
	}
	return err
}

// A version is a document of the collection of schema versions, one for each
// step that was run.
type version struct {
	Version       int64 `bson:"_id"`
	OldestLibrary int64 `bson:"oldest_library"`
	AppliedAt     int64 `bson:"applied_at"` // microseconds since 1970, UTC
}

// migrate runs the steps that are missing. A step's version is written after the
// step, so who sees the version has everything of it.
func (s *Store) migrate(ctx context.Context) error {
	found, err := s.schemaVersion(ctx)
	if err != nil {
		return wrap(ctx, err, 0)
	}
	for i, step := range steps[min(found.Found, len(steps)):] {
		v := version{Version: int64(found.Found + i + 1), OldestLibrary: int64(step.oldestLibrary), AppliedAt: s.systemTime().UnixMicro()}
		if err := step.run(ctx, s); err != nil {
			return wrap(ctx, fmt.Errorf("migration %d: %w", v.Version, err), 0)
		}
		if _, err := s.schema.InsertOne(ctx, v); err != nil && !hasCode(err, codeDuplicateKey) {
			return wrap(ctx, fmt.Errorf("migration %d: %w", v.Version, err), 0)
		}
	}
	return wrap(ctx, s.checkCollections(ctx), 0)
}

func (s *Store) systemTime() time.Time {
	if s.options.Clock != nil {
		return s.options.Clock.Now()
	}
	return time.Now()
}

// schemaVersion reads the version of the schema. A schema that needs a newer
// library is an error.
func (s *Store) schemaVersion(ctx context.Context) (*store.SchemaVersionError, error) {
	found := &store.SchemaVersionError{Known: len(steps)}
	cursor, err := s.schema.Find(ctx, bson.D{})
	if err != nil {
		return nil, err
	}
	var versions []version
	if err := cursor.All(ctx, &versions); err != nil {
		return nil, err
	}
	for _, v := range versions {
		if int(v.Version) > found.Found {
			found.Found, found.Oldest = int(v.Version), int(v.OldestLibrary)
		}
	}
	if found.Found > found.Known && found.Oldest > found.Known {
		return nil, found
	}
	return found, nil
}

// checkCollections refuses a collection that somebody else has made in another
// way: ids are compared byte by byte, which a collation does not do.
func (s *Store) checkCollections(ctx context.Context) error {
	names := []string{s.records.Name(), s.log.Name(), s.events.Name()}
	all, err := s.records.Database().ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$in", Value: names}}}})
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, c := range all {
		if c.Type != "" && c.Type != "collection" {
			return &store.UnusableError{Reason: fmt.Sprintf("%q is a %s, not a collection", c.Name, c.Type)}
		}
		if _, err := c.Options.LookupErr("collation"); err == nil {
			return &store.UnusableError{Reason: fmt.Sprintf("the collection %q has a collation, and ids are compared byte by byte", c.Name)}
		}
		found[c.Name] = true
	}
	for _, name := range names {
		if !found[name] {
			return &store.UnusableError{Reason: fmt.Sprintf("the collection %q is missing", name)}
		}
	}
	return nil
}
