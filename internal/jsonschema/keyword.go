package jsonschema

import (
	"strings"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// parseKeyword reads one member of a schema into its node.
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
	n.names, n.slots = nil, nil
	for c := range p.children(place) {
		if p.isSchema(c) {
			n.addName(string(p.tree.Name(c, nil)))
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
	i := int32(len(n.names))
	if n.names = append(n.names, name); n.slots != nil {
		n.slots[name] = i
	} else if len(n.names) > manyNames {
		n.slots = make(map[string]int32, 2*len(n.names))
		for i, name := range n.names {
			n.slots[name] = int32(i)
		}
	}
	return i
}

func (p *parser) parseDependencies(n *node, place int32) {
	if p.tree.Nodes[place].Kind != jsonvalue.Object {
		return
	}
	for c := range p.children(place) {
		name := string(p.tree.Name(c, nil))
		d := dependency{name: name, schema: p.subschema(c), cost: 2 + len(name)/2}
		if d.schema == none {
			for r := range p.children(c) {
				if text, ok := p.text(r); ok {
					d.required = append(d.required, text)
					d.cost += 2 + len(text)/2
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
