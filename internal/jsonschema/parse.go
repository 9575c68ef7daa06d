package jsonschema

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/jsonvalue"
)

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
	if len(n.names) > manyNames {
		n.slots = make(map[string]int32, len(n.names))
		for i, name := range n.names {
			n.slots[name] = int32(i)
		}
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

func (p *parser) parseKeyword(n *node, schema, place int32, name string) error {
	t := p.tree
	kind, raw := t.Nodes[place].Kind, t.Raw(place)
	switch name {
	case "$schema":
		text, ok := p.text(place)
		if d, known := draftOf(text); schema != 0 && ok && (!known || d != p.draft) {
			return p.errorAt(place, "a subschema is of another draft")
		}
	case "$id", "id":
		// A fragment names a place and moves no base.
		text, ok := p.text(place)
		if name == p.draft.idKeyword() && schema != 0 && ok && !strings.HasPrefix(text, "#") {
			return p.errorAt(place, "a subschema has an "+name+" that moves the base of references")
		}
	case "type":
		n.types = p.parseTypes(place)
	case "minimum":
		n.minimum = p.bound(place)
	case "maximum":
		n.maximum = p.bound(place)
	case "exclusiveMinimum":
		n.exclusiveMinimum = p.bound(place)
	case "exclusiveMaximum":
		n.exclusiveMaximum = p.bound(place)
	case "multipleOf":
		n.multipleOf = p.bound(place)
	case "minLength":
		n.minLength = p.count(place)
	case "maxLength":
		n.maxLength = p.count(place)
	case "minItems":
		n.minItems = p.count(place)
	case "maxItems":
		n.maxItems = p.count(place)
	case "minProperties":
		n.minProperties = p.count(place)
	case "maxProperties":
		n.maxProperties = p.count(place)
	case "uniqueItems":
		n.unique = string(raw) == "true"
	case "format":
		n.format, _ = p.text(place)
	case "pattern":
		if text, ok := p.text(place); ok {
			compiled, err := p.pattern(place, text)
			if err != nil {
				return err
			}
			n.pattern = compiled
		}
	case "properties":
		p.parseProperties(n, place)
	case "patternProperties":
		if kind != jsonvalue.Object {
			return nil
		}
		for c := range p.children(place) {
			compiled, err := p.pattern(c, string(t.Name(c, nil)))
			if err != nil {
				return err
			}
			n.patterns = append(n.patterns, patternProperty{compiled, p.schema(c)})
		}
	case "additionalProperties":
		n.additional = p.subschema(place)
	case "required":
		if kind != jsonvalue.Array {
			return nil
		}
		for c := range p.children(place) {
			if text, ok := p.text(c); ok {
				n.required = append(n.required, n.addName(text))
			}
		}
	case "dependencies":
		p.parseDependencies(n, place)
	case "items":
		if kind == jsonvalue.Array {
			n.tuple = p.list(place)
		} else {
			n.items = p.subschema(place)
		}
	case "additionalItems":
		n.additionalItems = p.subschema(place)
	case "enum":
		return p.parseEnum(n, place)
	case "allOf":
		n.allOf = p.list(place)
	case "anyOf":
		n.anyOf = p.list(place)
	case "oneOf":
		n.oneOf = p.list(place)
	case "not":
		n.not = p.subschema(place)
	}
	if p.draft >= draft6 {
		switch name {
		case "const":
			n.constant = t.AppendIdentity(nil, place, false)
			n.constantText = p.showable(place)
		case "contains":
			n.contains = p.subschema(place)
		case "propertyNames":
			n.propertyNames = p.subschema(place)
		}
	}
	if p.draft >= draft7 {
		switch name {
		case "if":
			n.condition = p.subschema(place)
		case "then":
			n.then = p.subschema(place)
		case "else":
			n.otherwise = p.subschema(place)
		}
	}
	return nil
}

func (p *parser) subschema(place int32) int32 {
	if !p.isSchema(place) {
		return none
	}
	return p.schema(place)
}

func (p *parser) list(place int32) []int32 {
	if p.tree.Nodes[place].Kind != jsonvalue.Array {
		return nil
	}
	var all []int32
	for c := range p.children(place) {
		if p.isSchema(c) {
			all = append(all, p.schema(c))
		}
	}
	return all
}

func (p *parser) parseTypes(place int32) kinds {
	if text, ok := p.text(place); ok {
		return kindNamed(text)
	}
	var all kinds
	for c := range p.children(place) {
		if text, ok := p.text(c); ok {
			all |= kindNamed(text)
		}
	}
	return all
}

func (p *parser) bound(place int32) *bound {
	if p.tree.Nodes[place].Kind != jsonvalue.Number {
		return nil
	}
	raw := p.tree.Raw(place)
	return &bound{number: parseNumber(raw), text: string(raw)}
}

func (p *parser) count(place int32) int {
	if p.tree.Nodes[place].Kind == jsonvalue.Number {
		if n, ok := parseCount(p.tree.Raw(place)); ok {
			return n
		}
	}
	return -1
}

func (p *parser) pattern(place int32, source string) (*pattern, error) {
	compiled, reason := compilePattern(source)
	if reason != "" {
		return nil, p.errorAt(place, reason)
	}
	if p.programs += compiled.size; p.programs > 10*MaxPatternSize {
		return nil, p.errorAt(place, "the patterns are too large together")
	}
	return &compiled, nil
}

func (p *parser) parseProperties(n *node, place int32) {
	if p.tree.Nodes[place].Kind != jsonvalue.Object {
		return
	}
	// Properties come first among the names, whatever the order in the schema.
	names := n.names
	n.names = nil
	for c := range p.children(place) {
		if p.isSchema(c) {
			n.names = append(n.names, string(p.tree.Name(c, nil)))
			n.properties = append(n.properties, p.schema(c))
		}
	}
	for i := range n.required {
		n.required[i] = n.addName(names[n.required[i]])
	}
}

// addName returns the index of a name, which it adds if it is new.
func (n *node) addName(name string) int32 {
	if i := n.slot([]byte(name)); i != none {
		return i
	}
	n.names = append(n.names, name)
	return int32(len(n.names) - 1)
}

func (p *parser) parseDependencies(n *node, place int32) {
	if p.tree.Nodes[place].Kind != jsonvalue.Object {
		return
	}
	for c := range p.children(place) {
		d := dependency{name: string(p.tree.Name(c, nil)), schema: p.subschema(c)}
		if d.schema == none {
			for r := range p.children(c) {
				if text, ok := p.text(r); ok {
					d.required = append(d.required, text)
				}
			}
		}
		n.dependencies = append(n.dependencies, d)
	}
}

func (p *parser) parseEnum(n *node, place int32) error {
	if p.tree.Nodes[place].Kind != jsonvalue.Array {
		return nil
	}
	n.enum = map[string]struct{}{}
	var texts []string
	for c := range p.children(place) {
		identity := string(p.tree.AppendIdentity(nil, c, false))
		if _, twice := n.enum[identity]; twice {
			return p.errorAt(c, "a value is repeated in an enum")
		}
		n.enum[identity] = struct{}{}
		texts = append(texts, p.showable(c))
	}
	n.enumText = strings.Join(texts, ", ")
	return nil
}

// showable returns the text of a scalar. An array or object of a schema is as
// its author wrote it, over many lines perhaps.
func (p *parser) showable(place int32) string {
	switch p.tree.Nodes[place].Kind {
	case jsonvalue.Array:
		return "an array"
	case jsonvalue.Object:
		return "an object"
	default:
		return string(p.tree.Raw(place))
	}
}

// exclusiveOfDraft4 makes the bounds exclusive that draft 4 marks so.
func (n *node) exclusiveOfDraft4(t *jsonvalue.Tree, place int32) {
	marked := func(name string) bool {
		c, ok := t.Member(place, name)
		return ok && string(t.Raw(c)) == "true"
	}
	n.exclusiveMinimum, n.exclusiveMaximum = nil, nil
	if marked("exclusiveMinimum") {
		n.minimum, n.exclusiveMinimum = nil, n.minimum
	}
	if marked("exclusiveMaximum") {
		n.maximum, n.exclusiveMaximum = nil, n.maximum
	}
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
