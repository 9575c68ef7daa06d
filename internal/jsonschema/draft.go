package jsonschema

import (
	"strings"
	"sync"

	"github.com/xeipuuv/gojsonschema"

	"github.com/countersign/countersign/internal/jsonvalue"
)

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

// metaschemas holds the three metaschemas, compiled when they are first needed.
// gojsonschema has their texts and takes them from memory.
var metaschemas = map[draft]func() (*gojsonschema.Schema, error){
	draft4: metaschema(draft4),
	draft6: metaschema(draft6),
	draft7: metaschema(draft7),
}

func metaschema(d draft) func() (*gojsonschema.Schema, error) {
	return sync.OnceValues(func() (*gojsonschema.Schema, error) {
		return gojsonschema.NewSchemaLoader().Compile(gojsonschema.NewReferenceLoader(d.url()))
	})
}

// checkMetaschema reports where the schema at a place, which has the pointer,
// is none of the draft.
func (p *parser) checkMetaschema(place int32) error {
	meta, err := metaschemas[p.draft]()
	if err != nil {
		return &SchemaError{Reason: "the metaschema does not compile", Err: err}
	}
	result, err := meta.Validate(gojsonschema.NewRawLoader(p.decode(place)))
	if err != nil {
		return &SchemaError{Pointer: pointerTo(p.tree, place), Reason: "the metaschema cannot be evaluated", Err: err}
	}
	if result.Valid() {
		return nil
	}
	// An error in a subschema is one of all that contain it, too. The deepest is
	// the one to mend.
	var worst *SchemaError
	depth := -1
	for _, e := range result.Errors() {
		pointer := contextPointer(e.Context())
		found := &SchemaError{Pointer: pointerTo(p.tree, place) + pointer, Reason: "not a schema of draft " + string(rune('0'+p.draft)) + ": " + e.Description()}
		d := strings.Count(pointer, "/")
		if d > depth || d == depth && found.Error() < worst.Error() {
			worst, depth = found, d
		}
	}
	return worst
}

// contextPointer makes a JSON pointer of gojsonschema's place. Its own separator
// may be part of a name; a byte that is never part of UTF-8 may not.
func contextPointer(c *gojsonschema.JsonContext) string {
	pointer := ""
	for i, token := range strings.Split(c.String("\xFF"), "\xFF") {
		if i > 0 { // the first is the root
			pointer = jsonvalue.AppendPointer(pointer, token)
		}
	}
	return pointer
}
