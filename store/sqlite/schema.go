package sqlite

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/countersign/countersign"
)

// DefaultPrefix begins the name of every table and index.
const DefaultPrefix = "countersign_"

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

// Migrations returns the schema's steps in order, with [DefaultPrefix], for
// those who run them themselves: each in one transaction, together with the row
// that its last statement adds to the table of versions. The database must be
// UTF-8 and in WAL mode.
func Migrations() []Migration {
	steps, err := MigrationsWithPrefix(DefaultPrefix)
	if err != nil {
		panic(err) // the embedded files are wrong: every test would fail
	}
	return steps
}

// MigrationsWithPrefix is [Migrations] with another prefix of table names. A
// prefix is 0 to 40 lower-case letters, digits and underscores, not beginning
// with a digit or "sqlite_"; anything else is a [*countersign.MalformedError].
func MigrationsWithPrefix(prefix string) ([]Migration, error) {
	if err := checkPrefix(prefix); err != nil {
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
			return nil, fmt.Errorf("sqlite: migration %s is out of order", file)
		}
		step := Migration{Version: version, Name: name, OldestLibrary: oldestLibrary[version]}
		step.SQL = withPrefix(schemaTable+string(text)+fmt.Sprintf(schemaRow, version, step.OldestLibrary), prefix)
		steps = append(steps, step)
	}
	return steps, nil
}

// schemaTable holds one row for each step that was run. Times are microseconds
// since 1970, UTC.
const schemaTable = `CREATE TABLE IF NOT EXISTS {p}schema (
  version        INTEGER PRIMARY KEY,
  oldest_library INTEGER NOT NULL,
  applied_at     INTEGER NOT NULL
) STRICT;
`

const schemaRow = `
INSERT INTO {p}schema (version, oldest_library, applied_at) VALUES (%d, %d, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
`

// withPrefix puts the prefix in place of {p}.
func withPrefix(sql, prefix string) string { return strings.ReplaceAll(sql, "{p}", prefix) }

var validPrefix = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,39})?$`)

func checkPrefix(prefix string) error {
	if !validPrefix.MatchString(prefix) || strings.HasPrefix(prefix, "sqlite_") {
		return &countersign.MalformedError{Field: "table prefix", Reason: fmt.Sprintf("is %.60q: it takes up to 40 of a-z, 0-9 and _, not beginning with a digit or sqlite_", prefix)}
	}
	return nil
}
