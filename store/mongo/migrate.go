package mongo

import (
	"context"
	"fmt"

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
		v := version{Version: int64(found.Found + i + 1), OldestLibrary: int64(step.oldestLibrary), AppliedAt: s.options.Clock.Now().UnixMicro()}
		if err := step.run(ctx, s); err != nil {
			return wrap(ctx, fmt.Errorf("migration %d: %w", v.Version, err), 0)
		}
		if _, err := s.schema.InsertOne(ctx, v); err != nil && !hasCode(err, codeDuplicateKey) {
			return wrap(ctx, fmt.Errorf("migration %d: %w", v.Version, err), 0)
		}
	}
	return wrap(ctx, s.checkCollection(ctx), 0)
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

// checkCollection refuses a collection that somebody else has made in another
// way: ids are compared byte by byte, which a collation does not do.
func (s *Store) checkCollection(ctx context.Context) error {
	all, err := s.records.Database().ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: s.records.Name()}})
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Type != "" && c.Type != "collection" {
			return &store.UnusableError{Reason: fmt.Sprintf("%q is a %s, not a collection", c.Name, c.Type)}
		}
		if _, err := c.Options.LookupErr("collation"); err == nil {
			return &store.UnusableError{Reason: fmt.Sprintf("the collection %q has a collation, and ids are compared byte by byte", c.Name)}
		}
	}
	if len(all) == 0 {
		return &store.UnusableError{Reason: fmt.Sprintf("the collection %q is missing", s.records.Name())}
	}
	return nil
}
