package jsonschema

import "strings"

// A draft is a version of JSON Schema.
type draft int

const (
	draft4 draft = 4
	draft6 draft = 6
	draft7 draft = 7

	// defaultDraft is that of a schema which names none.
	defaultDraft = draft7
)

// draftOf reads a $schema. The host is not asked: it is part of a name.
func draftOf(name string) (draft, bool) {
	name = strings.TrimSuffix(name, "#")
	if rest, ok := strings.CutPrefix(name, "https:"); ok {
		name = "http:" + rest
	}
	for _, d := range []draft{draft4, draft6, draft7} {
		if name == d.url() {
			return d, true
		}
	}
	return 0, false
}

func (d draft) url() string {
	return "http://json-schema.org/draft-0" + string(rune('0'+d)) + "/schema"
}

// idKeyword is the keyword that sets the base of references.
func (d draft) idKeyword() string {
	if d == draft4 {
		return "id"
	}
	return "$id"
}
