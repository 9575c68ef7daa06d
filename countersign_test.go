package countersign_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckIdentity(t *testing.T) {
	for _, id := range []string{"a", " ", "a b", "ä", "\u0041\u0308", "𐀀", "\uFFFD", strings.Repeat("x", 512), strings.Repeat("ä", 256)} {
		assert.NoError(t, countersign.CheckIdentity("id", id), "%q", id)
	}
	for _, id := range []string{"", "\x00", "a\x00b", "\xff", "a\xc3", "\xed\xa0\x80"} {
		var malformed *countersign.MalformedError
		err := countersign.CheckIdentity("id", id)
		require.ErrorAs(t, err, &malformed, "%q", id)
		assert.ErrorIs(t, err, countersign.ErrMalformed)
		assert.ErrorIs(t, err, countersign.ErrRefused)
	}
	for _, id := range []string{strings.Repeat("x", 513), strings.Repeat("ä", 257)} {
		var limit *countersign.LimitError
		err := countersign.CheckIdentity("id", id)
		require.ErrorAs(t, err, &limit)
		assert.Equal(t, countersign.LimitError{Field: "id", Unit: "bytes", Limit: 512, Actual: int64(len(id))}, *limit)
		assert.ErrorIs(t, err, countersign.ErrMalformed)
	}
}

func TestCheckInteger(t *testing.T) {
	for _, v := range []uint64{0, 1, math.MaxInt64} {
		assert.NoError(t, countersign.CheckInteger("fence", v))
	}
	for _, v := range []uint64{1 << 63, math.MaxUint64} {
		assert.ErrorIs(t, countersign.CheckInteger("fence", v), countersign.ErrMalformed)
	}
}

// Each kind is one of its own, so that a switch over them has one right case.
func TestKindsDoNotMatchEachOther(t *testing.T) {
	kinds := []error{countersign.ErrRefused, countersign.ErrConflict, countersign.ErrRetryable, countersign.ErrUnknownOutcome}
	for i, a := range kinds {
		for j, b := range kinds {
			assert.Equal(t, i == j, errors.Is(a, b))
		}
	}
}

func TestContextErrorMatchesTheContextAndItsCause(t *testing.T) {
	assert.NoError(t, countersign.ContextError(t.Context()))
	cause := errors.New("the server stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	err := countersign.ContextError(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, cause)
	plain, stop := context.WithCancel(t.Context())
	stop()
	assert.Equal(t, context.Canceled, countersign.ContextError(plain))
}

func TestSettlement(t *testing.T) {
	var durable *countersign.Settlement
	assert.True(t, durable.Settled(), "nil is a result that is durable already")
	durable.Commit()
	pending := &countersign.Settlement{}
	assert.False(t, pending.Settled())
	pending.Commit()
	assert.True(t, pending.Settled())
}

// The kinds say what to do next.
func ExampleErrRefused() {
	err := error(&countersign.MalformedError{Field: "inbox id", Reason: "is empty"})
	switch {
	case errors.Is(err, countersign.ErrUnknownOutcome):
		fmt.Println("repeat the same request")
	case errors.Is(err, countersign.ErrConflict):
		fmt.Println("load again")
	case errors.Is(err, countersign.ErrRefused):
		fmt.Println("do not repeat:", err)
	case errors.Is(err, countersign.ErrRetryable):
		fmt.Println("try later")
	}
	// Output:
	// do not repeat: countersign: inbox id is empty
}

// A cause is often about something else: a sibling's failure, as with errgroup.
// Its kind must not become that of the request whose context it ended.
func TestContextErrorHasNoKindOfItsCause(t *testing.T) {
	for _, kind := range []error{countersign.ErrRefused, countersign.ErrConflict, countersign.ErrRetryable, countersign.ErrUnknownOutcome} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("a sibling: %w", kind))
		err := countersign.ContextError(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, kind)
	}
}
