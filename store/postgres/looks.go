package postgres

import (
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/countersign/countersign/eventlog"
)

// looks are what events are looked for, by the way in which they are: the lists of a
// part for each.
type looks [ways]lookLists

type lookLists struct {
	i, low, high                                                []int64
	source, sourceType, streamType, streamID, types, tags, each []string
}

// add looks for events from low to high that the filter matches. The narrowest index
// is used: a source has few events as a rule, a type many.
func (l *looks) add(i int, f eventlog.Filter, low, high int64) {
	types, tags := slices.Compact(slices.Sorted(slices.Values(f.EventTypes))), tagTexts(f.Tags)
	switch {
	case f.Source != "" && len(tags) > 0:
		l[bySourceAndTag].add(i, f, low, high, types, tags, "")
	case f.Source != "":
		l[bySource].add(i, f, low, high, types, nil, "")
	case f.StreamID != "" && len(tags) > 0:
		l[byStreamAndTag].add(i, f, low, high, types, tags, "")
	case f.StreamID != "":
		l[byStream].add(i, f, low, high, types, nil, "")
	case len(tags) > 0:
		for _, tag := range tags {
			l[byTag].add(i, f, low, high, types, nil, tag)
		}
	case len(types) > 0:
		for _, id := range types {
			l[byType].add(i, f, low, high, nil, nil, id)
		}
	default:
		l[byNumber].add(i, f, low, high, nil, nil, "")
	}
}

func (l *lookLists) add(i int, f eventlog.Filter, low, high int64, types, tags []string, each string) {
	l.i, l.low, l.high = append(l.i, int64(i)), append(l.low, low), append(l.high, high)
	l.source, l.sourceType = append(l.source, f.Source), append(l.sourceType, f.SourceType)
	l.streamType, l.streamID = append(l.streamType, f.StreamType), append(l.streamID, f.StreamID)
	l.types, l.tags = append(l.types, arrayText(types)), append(l.tags, arrayText(tags))
	l.each = append(l.each, each)
}

// parts are those of the texts for the ways that there is something to look for by.
func (l *looks) parts(texts *[ways]string, more ...any) []part {
	var parts []part
	for way := range ways {
		if lists := &l[way]; len(lists.i) > 0 {
			args := []any{lists.i, lists.low, lists.high, lists.source, lists.sourceType, lists.streamType, lists.streamID, lists.types, lists.tags, lists.each}
			parts = append(parts, part{&texts[way], append(args, more...)})
		}
	}
	return parts
}

// looksFor looks for the highest numbers of scopes.
func looksFor(scopes []eventlog.Scope) *looks {
	l := &looks{}
	for i, scope := range scopes {
		if from := scope.Expected.From(); from <= math.MaxInt64 { // else there is no such number
			l.add(i, scope.Filter(), int64(from), math.MaxInt64)
		}
	}
	return l
}

// tagTexts are the tags as the server reads bytes in a text, distinct.
func tagTexts(tags []eventlog.Tag) []string {
	texts := make([]string, len(tags))
	for i, t := range tags {
		texts[i] = `\x` + hex.EncodeToString([]byte(t.Key()))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayText is an array as the server reads it in a text.
func arrayText(values []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		_, _ = arrayEscapes.WriteString(&b, v) // never fails
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// tagBytes are the tags of an event as they are stored: the length and the bytes of
// each.
func tagBytes(tags []eventlog.Tag) []byte {
	var b []byte
	for _, t := range tags {
		key := t.Key()
		b = append(b, strconv.Itoa(len(key))...)
		b = append(append(b, ':'), key...)
	}
	return blob(b)
}

// tagsOf reads what tagBytes has written. It is false for anything else.
func tagsOf(b []byte) ([]eventlog.Tag, bool) {
	var tags []eventlog.Tag
	for text := string(b); text != ""; {
		digits, rest, _ := strings.Cut(text, ":")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || n > len(rest) {
			return nil, false
		}
		tags, text = append(tags, eventlog.TagOfKey(rest[:n])), rest[n:]
	}
	return tags, true
}
