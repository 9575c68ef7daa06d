package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/countersign/countersign/internal/serverenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table is the same for every store and every run, however often the service
// is killed: the effects, and the fingerprint of the complete history.
func TestTheTableIsTheSameOnEveryStoreHoweverOftenTheServiceIsKilled(t *testing.T) {
	program := filepath.Join(t.TempDir(), "quickstart")
	build, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(build))
	table := func(t *testing.T, store, kills string) string {
		t.Helper()
		var out, diagnostics bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, "-store", store, "-kills", kills)
		cmd.Stdout, cmd.Stderr = &out, &diagnostics
		require.NoError(t, cmd.Run(), diagnostics.String())
		row := "service killed +" + kills + " times"
		if store == "memory" {
			row = "service killed +never: "
		}
		assert.Regexp(t, row, out.String())
		return regexp.MustCompile(`service killed.*\n`).ReplaceAllString(out.String(), "")
	}
	first := table(t, "", "0")
	assert.Regexp(t, `committed +17\nduplicates +6\nconflicts +2\nrefused +3\neffects +17\neach effect exists once +true`, first)
	for _, on := range []struct {
		name, store string
		kills       []string
	}{
		{"sqlite", "", []string{"1", "6", "12"}},
		{"a file of the user's", filepath.Join(t.TempDir(), "shop.db"), []string{"6"}},
		{"memory", "memory", []string{"6"}},
	} {
		t.Run(on.name, func(t *testing.T) {
			for _, kills := range on.kills {
				assert.Equal(t, first, table(t, on.store, kills))
			}
		})
	}
	t.Run("postgres", func(t *testing.T) {
		for _, kills := range []string{"0", "6"} {
			assert.Equal(t, first, table(t, serverenv.Postgres.Address(t), kills))
		}
	})
	t.Run("mongo", func(t *testing.T) {
		for _, kills := range []string{"0", "1"} {
			assert.Equal(t, first, table(t, serverenv.Mongo.Address(t), kills))
		}
	})
}
