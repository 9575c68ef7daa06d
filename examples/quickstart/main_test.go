package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table is the same for every run, however often the service is killed: the
// effects, and the fingerprint of the complete history.
func TestTheTableIsTheSameHoweverOftenTheServiceIsKilled(t *testing.T) {
	program := filepath.Join(t.TempDir(), "quickstart")
	build, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(build))
	var tables []string
	for _, kills := range []string{"0", "1", "6", "12"} {
		var out, diagnostics bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, "-kills", kills)
		cmd.Stdout, cmd.Stderr = &out, &diagnostics
		require.NoError(t, cmd.Run(), diagnostics.String())
		assert.Regexp(t, "service killed +"+kills+" times", out.String())
		tables = append(tables, regexp.MustCompile(`service killed.*\n`).ReplaceAllString(out.String(), ""))
	}
	for _, table := range tables {
		assert.Equal(t, tables[0], table)
	}
	assert.Regexp(t, `committed +17\nduplicates +6\nconflicts +2\nrefused +3\neffects +17\neach effect exists once +true`, tables[0])
}
