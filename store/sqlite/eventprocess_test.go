package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Processes append to one sequence at once: with and without receipts, each effect
// by two of them, and under a scope. Meanwhile another process follows the sequence:
// it sees every number once and in order, and hears of those of others.
func TestManyProcessesAppendToOneSequence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	s, err := sqlite.Open(t.Context(), path, &sqlite.Options{BusyTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	const processes = 4
	var wg sync.WaitGroup
	for i := range processes {
		cmd := child(t.Context(), t, "open and append", path, fmt.Sprint(i/2))
		wg.Go(func() { assert.NoError(t, cmd.Run()) })
	}
	const plain, effects, counted = processes * appendsOfAChild, processes / 2 * appendsOfAChild, processes * appendsOfAChild
	const all = plain + effects + counted
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	numbers, counts, byKind := uint64(0), 0, map[string]int{}
	for e, err := range eventlog.Follow(ctx, s, eventlog.ReadEvents{Sequence: orders}) {
		require.NoError(t, err, "after %d events of %d", numbers, all)
		require.Equal(t, numbers, e.Number)
		numbers++
		byKind[e.Source]++
		if e.Source == "counter" {
			require.Equal(t, fmt.Sprint(counts), string(e.Content), "who counts has seen all before")
			counts++
		}
		if numbers == all {
			break
		}
	}
	wg.Wait()
	assert.Equal(t, map[string]int{"plain": plain, "effect": effects, "counter": counted}, byKind)
	assert.Len(t, contentsFrom(t, s), all)
}

func contentsFrom(t *testing.T, s *sqlite.Store) (all []string) {
	t.Helper()
	for e, err := range eventlog.Events(t.Context(), s, eventlog.ReadEvents{Sequence: orders, Limit: 7}) {
		require.NoError(t, err)
		all = append(all, string(e.Content))
	}
	return all
}

const appendsOfAChild = 40

func openAndAppend(t *testing.T, path, name string) {
	s, err := sqlite.Open(t.Context(), path, &sqlite.Options{BusyTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.RegisterEventTypes(t.Context(), eventlog.RegisterEventTypes{EventStore: "shop", Types: []eventlog.EventType{{ID: "noted", Schema: []byte("true")}}})
	require.NoError(t, err)
	one := func(source, content string, scopes ...eventlog.Scope) eventlog.AppendEvents {
		return eventlog.AppendEvents{Sequence: orders, Scopes: scopes, Events: []eventlog.Event{{Type: "noted", Source: source, Content: []byte(content)}}}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range appendsOfAChild {
			_, err := s.AppendEvents(t.Context(), one("plain", `true`))
			assert.NoError(t, err)
		}
	})
	wg.Go(func() { // another process appends the same effects
		for i := range appendsOfAChild {
			occurrence := fmt.Sprint(name, "/", i)
			res, err := s.AppendWithReceipt(t.Context(), receipt.AppendWithReceipt{AppendEvents: one("effect", fmt.Sprintf("%q", occurrence)), Occurrence: occurrence, Effect: "effect"})
			assert.NoError(t, err)
			assert.EqualValues(t, receipt.Appended, res.Receipt.Outcome)
		}
	})
	wg.Go(func() {
		for done := 0; done < appendsOfAChild; {
			counter := eventlog.Filter{Source: "counter"}
			page, err := s.ReadEvents(t.Context(), eventlog.ReadEvents{Sequence: orders, Filter: counter})
			if !assert.NoError(t, err) {
				return
			}
			seen := eventlog.NoneYet()
			if n := len(page.Events); n > 0 {
				seen = eventlog.Seen(page.Events[n-1].Number)
			}
			_, err = s.AppendEvents(t.Context(), one("counter", fmt.Sprint(len(page.Events)), eventlog.Scope{Source: "counter", Expected: seen}))
			switch {
			case err == nil:
				done++
			case !errors.Is(err, countersign.ErrConflict):
				assert.NoError(t, err)
				return
			}
		}
	})
	wg.Wait()
}
