package postgres

import (
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/countersign/countersign"
)

// DefaultSchema is where the tables are.
const DefaultSchema = "countersign"

//go:embed migrations/*.sql
var migrationFiles embed.FS

// A Migration is one numbered step of the schema. Steps go forward only.
type Migration struct {
	Version int
	Name    string // as in "durable_owner"
	// OldestLibrary is the oldest schema version that a library may know and
	// still use a database after this step, so that old and new processes can
	// run side by side while a new release is rolled out.
	OldestLibrary int
	SQL           string // several statements, to be run in one transaction
}

// oldestLibrary says for each version which library may still use it.
var oldestLibrary = map[int]int{1: 1, 2: 1}

// Migrations returns the schema's steps in order, in [DefaultSchema], for those
// who run them themselves: each in one transaction, and each begins with a lock
// that keeps others from migrating until that transaction ends. The database's
// encoding must be UTF8.
func Migrations() []Migration {
	steps, err := MigrationsInSchema(DefaultSchema)
	if err != nil {
		panic(err) // the embedded files are wrong: every test would fail
	}
	return steps
}

// MigrationsInSchema is [Migrations] in another schema. Its name is 1 to 63
// lower-case letters, digits and underscores, not beginning with a digit or
// "pg_"; anything else is a [*countersign.MalformedError].
func MigrationsInSchema(schema string) ([]Migration, error) {
	if err := checkSchema(schema); err != nil {
		return nil, err
	}
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]Migration, 0, len(files))
	for _, file := range files {
		text, err := fs.ReadFile(migrationFiles, file)
		if err != nil {
			return nil, err
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(file, "migrations/"), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(steps)+1 {
			return nil, fmt.Errorf("postgres: migration %s is out of order", file)
		}
		step := Migration{Version: version, Name: name, OldestLibrary: oldestLibrary[version]}
		before := ""
		if version == 1 {
			before = schemaTable
		}
		step.SQL = inSchema(migrationLock(schema)+";\n"+before+string(text)+fmt.Sprintf(schemaRow, version, step.OldestLibrary), schema)
		steps = append(steps, step)
	}
	return steps, nil
}

// schemaTable holds one row for each step that was run.
const schemaTable = `CREATE SCHEMA IF NOT EXISTS {s};
CREATE TABLE {s}.schema_versions (
  version        integer PRIMARY KEY,
  oldest_library integer NOT NULL,
  applied_at     timestamptz NOT NULL DEFAULT pg_catalog.now()
);

`

const schemaRow = `
INSERT INTO {s}.schema_versions (version, oldest_library) VALUES (%d, %d);
`

// migrationLock is held until the end of the migrating transaction. Its number
// is made of the schema's name, so that schemas do not wait for each other.
func migrationLock(schema string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte("countersign/" + schema)) // never fails
	return fmt.Sprintf("SELECT pg_catalog.pg_advisory_xact_lock(%d)", int64(h.Sum64()))
}

// inSchema puts the schema's name in place of {s}. It is quoted, since it may be
// a key word.
func inSchema(sql, schema string) string { return strings.ReplaceAll(sql, "{s}", `"`+schema+`"`) }

var validSchema = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func checkSchema(schema string) error {
	if !validSchema.MatchString(schema) || strings.HasPrefix(schema, "pg_") {
		return &countersign.MalformedError{Field: "schema", Reason: fmt.Sprintf("is %.80q", schema)}
	}
	return nil
}
