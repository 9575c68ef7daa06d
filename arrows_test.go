package countersign_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// floors are the rooms of ARCHITECTURE.md, from the ground up. A package may
// import those on lower floors only.
var floors = [][]string{
	{"", "internal/jsonvalue"},
	{"internal/jsonschema"},
	{"durable", "eventlog"},
	{"receipt"},
	{"store", "conformance"},
	{"store/internal/group"},
	{"store/memory", "store/sqlite", "store/postgres", "store/mongo", "storetest/netfault", "internal/serverenv"},
	{"storetest"},
	{"examples/quickstart", "examples/idempotency", "examples/readmodel", "internal/benchtable", "internal/differential", "internal/testservers"},
}

func TestArrowsPointDown(t *testing.T) {
	const module = "github.com/countersign/countersign"
	floor := map[string]int{}
	for i, rooms := range floors {
		for _, room := range rooms {
			floor[strings.TrimSuffix(module+"/"+room, "/")] = i
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		packages := strings.Fields(line)
		from, known := floor[packages[0]]
		if !assert.True(t, known, "%s has no floor: add it here and to ARCHITECTURE.md", packages[0]) {
			continue
		}
		for _, imported := range packages[1:] {
			if to, ours := floor[imported]; ours {
				assert.Less(t, to, from, "%s imports %s", packages[0], imported)
			}
		}
	}
}
