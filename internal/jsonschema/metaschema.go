package jsonschema

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/xeipuuv/gojsonschema"

	"github.com/countersign/countersign/internal/jsonvalue"
)

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
	// An error in a subschema is one of all that contain it, too, and of anyOf
	// where it stands. The deepest is the one to mend.
	var worst *SchemaError
	deepest := -1
	for _, e := range result.Errors() {
		pointer := contextPointer(e.Context())
		depth := 2 * strings.Count(pointer, "/")
		if !strings.HasPrefix(e.Type(), "number_") || !strings.HasSuffix(e.Type(), "_of") {
			depth++
		}
		found := &SchemaError{
			Pointer: pointerTo(p.tree, place) + pointer,
			Reason:  "not a schema of draft " + string(rune('0'+p.draft)) + ": " + e.Description(),
		}
		if depth > deepest || depth == deepest && found.Error() < worst.Error() {
			worst, deepest = found, depth
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

// decode makes of a place what the metaschema is evaluated against. Keywords
// beside a $ref are left out. So are the values in const, default and enum, which
// may be any as long as those in enum differ: gojsonschema would compare numbers
// there as float64.
func (p *parser) decode(place int32) any {
	t := p.tree
	switch t.Nodes[place].Kind {
	case jsonvalue.Object:
		m := make(map[string]any, t.Nodes[place].Size)
		for c := range p.children(place) {
			name := string(t.Name(c, nil))
			_, isSchema := p.at[place]
			switch {
			case p.bare[place] && name != "$ref" && name != "definitions":
			case isSchema && (name == "const" || name == "default"):
				m[name] = nil
			case isSchema && name == "enum" && t.Nodes[c].Kind == jsonvalue.Array:
				different := make([]any, t.Nodes[c].Size)
				for i := range different {
					different[i] = json.Number(strconv.Itoa(i))
				}
				m[name] = different
			default:
				m[name] = p.decode(c)
			}
		}
		return m
	case jsonvalue.Array:
		all := make([]any, 0, t.Nodes[place].Size)
		for c := range p.children(place) {
			all = append(all, p.decode(c))
		}
		return all
	case jsonvalue.String:
		return string(t.Text(place, nil))
	case jsonvalue.Number:
		return json.Number(t.Raw(place))
	case jsonvalue.Bool:
		return t.Doc[t.Nodes[place].Start] == 't'
	default:
		return nil
	}
}
