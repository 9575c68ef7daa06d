package postgres

import (
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A notice names its sequence, and fits what the server takes; anything else that is
// sent on the channel names none, and breaks nothing.
func TestNotice(t *testing.T) {
	long := strings.Repeat("ÿ", countersign.MaxIdentityBytes/2)
	s := eventlog.Sequence{Namespace: countersign.Namespace{EventStore: long, Name: long}, Name: long}
	assert.Less(t, len(notice(s)), 8000)
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringN(1, -1, 20)
		s := eventlog.Sequence{Namespace: countersign.Namespace{EventStore: part.Draw(t, "event store"), Name: part.Draw(t, "namespace")}, Name: part.Draw(t, "name")}
		got, ok := noticed(notice(s))
		if !ok || got != s {
			t.Fatalf("%q was read as %v, %v", notice(s), got, ok)
		}
	})
	for _, payload := range []string{"", "1", "1 2", "-1 2 abc", "9 9 abc", "2 2 abc", "a b c", "9223372036854775807 9223372036854775807 x"} {
		_, ok := noticed(payload)
		assert.False(t, ok, payload)
	}
	assert.LessOrEqual(t, len(channel(strings.Repeat("x", 63))), 63)
	assert.NotEqual(t, channel("a"), channel("b"))
}

// The tags of an event are read as they were written, whatever is in them.
func TestTagBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune{':', '0', '9', 'a', 'é', ' '}), 0, 8, -1)
		tags := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) eventlog.Tag {
			return eventlog.Tag{Name: text.Draw(t, "name"), Value: text.Draw(t, "value")}
		}), 0, 5).Draw(t, "tags")
		got, ok := tagsOf(tagBytes(tags))
		if !ok || len(got) != len(tags) {
			t.Fatalf("%v was read as %v, %v", tags, got, ok)
		}
		for i := range got {
			if got[i] != tags[i] {
				t.Fatalf("%v was read as %v", tags, got)
			}
		}
	})
	for _, broken := range []string{"x", "1", "5:abc", "-1:a", "1:ab"} {
		_, ok := tagsOf([]byte(broken))
		assert.False(t, ok, broken)
	}
	require.Equal(t, `{"a\\b","\"{,}","\\x61"}`, arrayText([]string{`a\b`, `"{,}`, `\x61`}))
}
