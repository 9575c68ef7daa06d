package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadModelIsBuiltAndReplayed(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Equal(t, `after three events:
  ann 70
  bob 50
after a replay and one more:
  ann 70
  bob 55
`, out.String())
}
