package jsonschema

import "github.com/countersign/countersign/internal/jsonvalue"

// A parser makes nodes of a schema. It goes by position: what stands under
// properties is named by the user, whatever the name, and what stands in const,
// enum, default or examples is no schema. It takes malformed keywords for absent
// ones, since the metaschema is what refuses them.
type parser struct {
	tree  *jsonvalue.Tree
	draft draft
	nodes []node

	at    map[int32]int32 // node of a place
	queue []int32         // places to parse, in a list because schemas refer to each other
	refs  []reference

	bare     map[int32]bool // places with a $ref, of which the other keywords do not count
	detached []int32        // places of schemas that the metaschema does not reach from the root
	programs int            // the size of all patterns
}

// schema returns the node of a place, which is parsed later if it is new.
func (p *parser) schema(place int32) int32 {
	if n, ok := p.at[place]; ok {
		return n
	}
	n := int32(len(p.nodes))
	p.at[place] = n
	p.nodes = append(p.nodes, newNode(place))
	p.queue = append(p.queue, place)
	return n
}

// parse makes nodes of all schemas of the document, also of those that nothing
// refers to.
func (p *parser) parse() error {
	p.schema(0)
	for {
		for len(p.queue) > 0 {
			place := p.queue[0]
			p.queue = p.queue[1:]
			if err := p.parseSchema(place); err != nil {
				return err
			}
		}
		if len(p.refs) == 0 {
			return nil
		}
		if err := p.resolve(); err != nil { // may find more schemas
			return err
		}
	}
}

func (p *parser) errorAt(place int32, reason string) *SchemaError {
	return &SchemaError{Pointer: pointerTo(p.tree, place), Reason: reason}
}

func (p *parser) parseSchema(place int32) error {
	t, self := p.tree, p.at[place]
	switch t.Nodes[place].Kind {
	case jsonvalue.Bool:
		p.nodes[self].never = t.Doc[t.Nodes[place].Start] == 'f'
		return nil
	case jsonvalue.Object:
	default:
		return p.errorAt(place, "a schema is neither an object nor a boolean")
	}
	ref, isRef := t.Member(place, "$ref")
	if isRef {
		if t.Nodes[ref].Kind != jsonvalue.String {
			return p.errorAt(ref, "a $ref is not a string")
		}
		p.bare[place] = true
		p.refs = append(p.refs, reference{from: self, place: ref})
	}
	n := newNode(place)
	for c := range p.children(place) {
		name := string(t.Name(c, nil))
		switch {
		case name == "definitions":
			for s := range p.children(c) {
				p.schema(s)
			}
		case name == "$defs":
			p.parseDefs(c)
		case isRef:
		default:
			if err := p.parseKeyword(&n, place, c, name); err != nil {
				return err
			}
		}
	}
	if p.draft == draft4 {
		n.exclusiveOfDraft4(t, place)
	}
	p.nodes[self] = n
	return nil
}

// children goes over the members or elements of a place.
func (p *parser) children(place int32) func(func(int32) bool) {
	return func(yield func(int32) bool) {
		nodes := p.tree.Nodes
		if nodes[place].Kind != jsonvalue.Object && nodes[place].Kind != jsonvalue.Array {
			return
		}
		for c := place + 1; c < nodes[place].Next; c = nodes[c].Next {
			if !yield(c) {
				return
			}
		}
	}
}

// parseDefs reads what later drafts call definitions. These drafts know no such
// keyword, but schemas use it all the same.
func (p *parser) parseDefs(place int32) {
	if p.tree.Nodes[place].Kind != jsonvalue.Object {
		return
	}
	for c := range p.children(place) {
		if p.isSchema(c) {
			p.detach(c)
		}
	}
}

// detach returns the node of a place that is no schema in the metaschema's eyes.
func (p *parser) detach(place int32) int32 {
	if _, known := p.at[place]; !known {
		p.detached = append(p.detached, place)
	}
	return p.schema(place)
}

func (p *parser) isSchema(place int32) bool {
	kind := p.tree.Nodes[place].Kind
	return kind == jsonvalue.Object || kind == jsonvalue.Bool
}

func (p *parser) text(place int32) (string, bool) {
	if p.tree.Nodes[place].Kind != jsonvalue.String {
		return "", false
	}
	return string(p.tree.Text(place, nil)), true
}
