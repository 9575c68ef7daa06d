package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRepeatedCommandIsAnsweredFromItsReceipt(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Equal(t, `order-1: 200 OK, repeated: false: {"order":"order-1"}
order-1: 200 OK, repeated: true: {"order":"order-1"}
order-2: 409 Conflict, repeated: false: {"refused":"above the limit"}
1 order placed
`, out.String())
}
