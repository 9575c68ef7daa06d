package jsonschema

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// A reference is a $ref that is not resolved yet.
type reference struct {
	from  int32 // the node
	place int32 // of the string
}

// resolve finds what each $ref refers to, within the document and nowhere else.
func (p *parser) resolve() error {
	refs := p.refs
	p.refs = nil
	for _, r := range refs {
		text, _ := p.text(r.place)
		if !strings.HasPrefix(text, "#") {
			return p.errorAt(r.place, "a $ref leaves the document")
		}
		fragment, err := url.PathUnescape(text[1:])
		if err != nil {
			return p.errorAt(r.place, "a $ref is malformed")
		}
		path, err := jsonvalue.ParsePointer(fragment)
		if err != nil {
			return p.errorAt(r.place, "a $ref is not a JSON pointer")
		}
		target, ok := p.find(path)
		if !ok {
			return p.errorAt(r.place, "a $ref refers to nothing")
		}
		if !p.isSchema(target) {
			return p.errorAt(r.place, "a $ref refers to what is not a schema")
		}
		p.nodes[r.from].ref = p.detach(target)
	}
	return nil
}

func (p *parser) find(path []string) (place int32, ok bool) {
	t := p.tree
	for _, token := range path {
		switch t.Nodes[place].Kind {
		case jsonvalue.Object:
			if place, ok = t.Member(place, token); !ok {
				return 0, false
			}
		case jsonvalue.Array:
			index, err := strconv.ParseUint(token, 10, 31)
			if err != nil || strconv.FormatUint(index, 10) != token || int32(index) >= t.Nodes[place].Size {
				return 0, false
			}
			place++
			for range index {
				place = t.Nodes[place].Next
			}
		default:
			return 0, false
		}
	}
	return place, true
}
