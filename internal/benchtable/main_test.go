package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRowsAreTheRatiosOfALine(t *testing.T) {
	assert.Equal(t, []string{"| sqlite Commit/callers=16 | 3.20 | floor |"},
		rows("sqlite", "BenchmarkCommit/callers=16-2   8000  71000 ns/op  14000 commits/s  4300 floor/s  3.20 x-floor"))
	assert.Empty(t, rows("sqlite", "ok  \tgithub.com/countersign/countersign\t1.2s"))
	assert.Empty(t, rows("", ""))
}
