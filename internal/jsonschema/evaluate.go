package jsonschema

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// Validate returns how a document does not match the schema, sorted by pointer,
// keyword and message, and the same for the same document always; nothing if it
// matches. After [MaxProblems] it stops looking. Of the members with the same
// name the last one counts.
//
// The error is about a document that is not judged: a [*jsonvalue.SyntaxError],
// [*jsonvalue.DepthError] or [*jsonvalue.ValuesError], a [*NumberError], a
// [*WorkError], or a [*PanicError].
func (s *Schema) Validate(doc []byte) (problems []Problem, err error) {
	e := evaluators.Get().(*evaluator)
	defer func() {
		if r := recover(); r != nil {
			problems, err = nil, &PanicError{Value: r}
			return // an evaluator that panicked may be in any state
		}
		e.release()
	}()
	if err := e.tree.Parse(doc, jsonvalue.Limits{Depth: MaxDepth, Values: MaxValues}); err != nil {
		return nil, err
	}
	if err := checkNumbers(&e.tree); err != nil {
		return nil, err
	}
	e.nodes, e.steps = s.nodes, MaxSteps
	var found findings
	e.evaluate(0, instance{}, &found)
	if e.steps < 0 {
		return nil, &WorkError{}
	}
	return sortProblems(found.problems), nil
}

// An evaluator evaluates one document.
type evaluator struct {
	nodes   []node
	tree    jsonvalue.Tree
	steps   int // left
	scratch []byte
	other   []byte
}

var evaluators = sync.Pool{New: func() any { return new(evaluator) }}

// keptNodes is the size up to which an evaluator's tree waits for the next
// document.
const keptNodes = 1 << 14

func (e *evaluator) release() {
	if cap(e.tree.Nodes) > keptNodes || cap(e.scratch) > keptNodes || cap(e.other) > keptNodes {
		return
	}
	e.nodes, e.tree.Doc = nil, nil
	evaluators.Put(e)
}

// An instance is what a schema is evaluated against: a value, or the name of a
// member.
type instance struct {
	node int32
	name bool
}

func (e *evaluator) kind(x instance) jsonvalue.Kind {
	if x.name {
		return jsonvalue.String
	}
	return e.tree.Nodes[x.node].Kind
}

func (e *evaluator) raw(x instance) []byte {
	n := &e.tree.Nodes[x.node]
	if x.name {
		return e.tree.Doc[n.NameStart:n.NameEnd]
	}
	return e.tree.Doc[n.Start:n.End]
}

// text returns a string as patterns, lengths and formats see it: a surrogate
// without its partner is one character, U+FFFD.
func (e *evaluator) text(x instance) []byte {
	var text []byte
	n := &e.tree.Nodes[x.node]
	escaped := n.Escaped
	if x.name {
		escaped = n.NameEscaped
		text = e.tree.Name(x.node, e.scratch)
	} else {
		text = e.tree.Text(x.node, e.scratch)
	}
	if escaped {
		e.scratch = text
		replaceSurrogates(text)
	}
	return text
}

// replaceSurrogates works in place: U+FFFD takes three bytes, and so does a
// surrogate.
func replaceSurrogates(text []byte) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 && i+3 <= len(text) {
			n = copy(text[i:], "\uFFFD")
		}
		i += n
	}
}

// findings collects problems. A nil one collects nothing, so that the first
// problem ends the evaluation.
type findings struct {
	problems []Problem
	bytes    int // of the pointers, which repeat the document's names
}

const maxFindingBytes = 1 << 20

func (f *findings) full() bool {
	return len(f.problems) >= MaxProblems || f.bytes > maxFindingBytes
}

// An outcome gathers the verdict of one schema about one instance.
type outcome struct {
	e     *evaluator
	x     instance
	found *findings
	ok    bool
}

// fail records a problem and reports whether the evaluation is over.
func (o *outcome) fail(keyword, format string, args ...any) bool {
	return o.failAt(o.x, keyword, format, args...)
}

func (o *outcome) failAt(x instance, keyword, format string, args ...any) bool {
	o.ok = false
	if o.found == nil || o.found.full() {
		return true
	}
	pointer := pointerTo(&o.e.tree, x.node)
	o.found.bytes += len(pointer)
	o.found.problems = append(o.found.problems, Problem{
		Pointer: pointer, Keyword: keyword, Message: fmt.Sprintf(format, args...),
	})
	return false
}

// check evaluates a schema as a part of this one and reports whether the
// evaluation is over.
func (o *outcome) check(schema int32, x instance) bool {
	if o.e.evaluate(schema, x, o.found) {
		return false
	}
	o.ok = false
	return o.found == nil || o.found.full() || o.e.steps < 0
}

// evaluate reports whether an instance matches a schema. When the steps have run
// out it says anything.
func (e *evaluator) evaluate(schema int32, x instance, found *findings) bool {
	n := &e.nodes[schema]
	if e.steps -= 8; e.steps < 0 {
		return false
	}
	if n.ref != none {
		return e.evaluate(n.ref, x, found)
	}
	o := outcome{e: e, x: x, found: found, ok: true}
	if n.never {
		o.fail("false", "nothing is allowed here")
		return false
	}
	kind := e.kind(x)
	if n.types != 0 && !n.types.allows(kind, e.raw(x)) {
		o.fail("type", "must be %s", n.types)
		return false
	}
	over := false
	switch kind {
	case jsonvalue.String:
		over = o.string(n)
	case jsonvalue.Number:
		over = o.number(n)
	case jsonvalue.Array:
		over = o.array(n)
	case jsonvalue.Object:
		over = o.object(n)
	}
	if !over {
		_ = o.equality(n) || o.combination(n)
	}
	return o.ok
}

// equality checks const and enum. The functions of the keywords return whether
// the evaluation is over.
func (o *outcome) equality(n *node) bool {
	if n.constant == nil && n.enum == nil {
		return false
	}
	raw := o.e.raw(o.x)
	o.e.steps -= 2 * len(raw)
	identity := jsonvalue.Identity(o.e.other[:0], raw, false)
	o.e.other = identity
	if n.constant != nil && !bytes.Equal(identity, n.constant) {
		if o.fail("const", "must be %s", detail(n.constantText)) {
			return true
		}
	}
	if n.enum != nil {
		if _, ok := n.enum[string(identity)]; !ok {
			return o.fail("enum", "must be one of %s", detail(n.enumText))
		}
	}
	return false
}

func (o *outcome) string(n *node) bool {
	if n.minLength < 0 && n.maxLength < 0 && n.pattern == nil && n.format == "" {
		return false
	}
	text := o.e.text(o.x)
	if n.minLength >= 0 || n.maxLength >= 0 {
		o.e.steps -= len(text) / 2
		length := utf8.RuneCount(text)
		if length < n.minLength && o.fail("minLength", "must have at least %s", count(n.minLength, "character", "characters")) {
			return true
		}
		if n.maxLength >= 0 && length > n.maxLength && o.fail("maxLength", "must have at most %s", count(n.maxLength, "character", "characters")) {
			return true
		}
	}
	if n.pattern != nil {
		if o.e.steps -= n.pattern.cost(text); o.e.steps < 0 {
			return true
		}
		if !n.pattern.regexp.Match(text) && o.fail("pattern", "must match the pattern %s", detail(n.pattern.source)) {
			return true
		}
	}
	if n.format != "" {
		if o.e.steps -= formatCost(n.format, text); o.e.steps < 0 {
			return true
		}
		if !gojsonschema.FormatCheckers.IsFormat(n.format, string(text)) {
			return o.fail("format", "must have the format %s", detail(n.format))
		}
	}
	return false
}

// formatCost returns the steps for checking a format. To check a regular
// expression is to compile one.
func formatCost(format string, text []byte) int {
	if format == "regex" {
		return 100_000 + 200*len(text)
	}
	return 50 + 20*len(text)
}

func (o *outcome) number(n *node) bool {
	if n.minimum == nil && n.maximum == nil && n.exclusiveMinimum == nil && n.exclusiveMaximum == nil && n.multipleOf == nil {
		return false
	}
	raw := o.e.raw(o.x)
	o.e.steps -= len(raw)
	v := parseNumber(raw)
	if v.rat != nil {
		o.e.steps -= 500 // at most MaxNumberLength digits and MaxExponent zeros
	}
	return n.minimum != nil && v.compare(n.minimum.number) < 0 &&
		o.fail("minimum", "must be at least %s", detail(n.minimum.text)) ||
		n.maximum != nil && v.compare(n.maximum.number) > 0 &&
			o.fail("maximum", "must be at most %s", detail(n.maximum.text)) ||
		n.exclusiveMinimum != nil && v.compare(n.exclusiveMinimum.number) <= 0 &&
			o.fail("exclusiveMinimum", "must be greater than %s", detail(n.exclusiveMinimum.text)) ||
		n.exclusiveMaximum != nil && v.compare(n.exclusiveMaximum.number) >= 0 &&
			o.fail("exclusiveMaximum", "must be less than %s", detail(n.exclusiveMaximum.text)) ||
		n.multipleOf != nil && !v.multipleOf(n.multipleOf.number) &&
			o.fail("multipleOf", "must be a multiple of %s", detail(n.multipleOf.text))
}

func (o *outcome) array(n *node) bool {
	t := &o.e.tree
	size := int(t.Nodes[o.x.node].Size)
	if size < n.minItems && o.fail("minItems", "must have at least %s", count(n.minItems, "element", "elements")) {
		return true
	}
	if n.maxItems >= 0 && size > n.maxItems && o.fail("maxItems", "must have at most %s", count(n.maxItems, "element", "elements")) {
		return true
	}
	if n.items != none || len(n.tuple) > 0 {
		index := 0
		for c := o.x.node + 1; c < t.Nodes[o.x.node].Next; c = t.Nodes[c].Next {
			schema := n.items
			if schema == none {
				if index < len(n.tuple) {
					schema = n.tuple[index]
				} else {
					schema = n.additionalItems
				}
			}
			index++
			if schema == none {
				break // no later element has a schema either
			}
			if o.element(n, schema, c, index > len(n.tuple)) {
				return true
			}
		}
	}
	if n.unique && size > 1 && !o.unique() && o.fail("uniqueItems", "must not have equal elements") {
		return true
	}
	if n.contains != none && !o.contains(n.contains) {
		return o.fail("contains", "must have an element that matches the schema under contains")
	}
	return false
}

// element checks one element. That no more elements are allowed is a better
// message than that the schema is false.
func (o *outcome) element(n *node, schema, c int32, additional bool) bool {
	if additional && n.items == none && o.e.nodes[schema].never {
		return o.failAt(instance{node: c}, "additionalItems", "must not be there: the schema has %s", count(len(n.tuple), "element", "elements"))
	}
	return o.check(schema, instance{node: c})
}

func (o *outcome) unique() bool {
	t := &o.e.tree
	seen := make(map[string]struct{}, t.Nodes[o.x.node].Size)
	for c := o.x.node + 1; c < t.Nodes[o.x.node].Next; c = t.Nodes[c].Next {
		if o.e.steps -= 20 + 4*int(t.Nodes[c].End-t.Nodes[c].Start); o.e.steps < 0 {
			return true
		}
		o.e.other = t.AppendIdentity(o.e.other[:0], c, false)
		if _, twice := seen[string(o.e.other)]; twice {
			return false
		}
		seen[string(o.e.other)] = struct{}{}
	}
	return true
}

func (o *outcome) contains(schema int32) bool {
	t := &o.e.tree
	for c := o.x.node + 1; c < t.Nodes[o.x.node].Next; c = t.Nodes[c].Next {
		if o.e.evaluate(schema, instance{node: c}, nil) {
			return true
		}
	}
	return false
}

func (o *outcome) object(n *node) bool {
	t := &o.e.tree
	size := int(t.Nodes[o.x.node].Size)
	if size < n.minProperties && o.fail("minProperties", "must have at least %s", count(n.minProperties, "member", "members")) {
		return true
	}
	if n.maxProperties >= 0 && size > n.maxProperties && o.fail("maxProperties", "must have at most %s", count(n.maxProperties, "member", "members")) {
		return true
	}
	if n.looksIntoObjects() || len(n.required) > 0 {
		if o.members(n) {
			return true
		}
	}
	if n.propertyNames != none {
		for c := o.x.node + 1; c < t.Nodes[o.x.node].Next; c = t.Nodes[c].Next {
			if !t.Nodes[c].Shadowed && !o.e.evaluate(n.propertyNames, instance{c, true}, nil) &&
				o.failAt(instance{node: c}, "propertyNames", "must have a name that matches the schema under propertyNames") {
				return true
			}
		}
	}
	for i := range n.dependencies {
		if o.dependency(&n.dependencies[i]) {
			return true
		}
	}
	return false
}

// members checks properties, patternProperties, additionalProperties and
// required in one pass.
func (o *outcome) members(n *node) bool {
	t := &o.e.tree
	var room [2]uint64
	seen := room[:]
	if len(n.names) > 64*len(room) {
		seen = make([]uint64, (len(n.names)+63)/64)
		o.e.steps -= len(seen)
	}
	for c := o.x.node + 1; c < t.Nodes[o.x.node].Next; c = t.Nodes[c].Next {
		o.e.steps -= 4
		if t.Nodes[c].Shadowed {
			continue
		}
		name := o.e.tree.Name(c, o.e.other)
		if t.Nodes[c].NameEscaped {
			o.e.other = name
		}
		described := false
		if i := n.slot(name); i != none {
			seen[i/64] |= 1 << (i % 64)
			if int(i) < len(n.properties) {
				described = true
				if o.check(n.properties[i], instance{node: c}) {
					return true
				}
			}
		}
		for i := range n.patterns {
			p := &n.patterns[i]
			text := o.e.text(instance{c, true})
			if o.e.steps -= p.pattern.cost(text); o.e.steps < 0 {
				return true
			}
			if p.pattern.regexp.Match(text) {
				described = true
				if o.check(p.schema, instance{node: c}) {
					return true
				}
			}
		}
		if described || n.additional == none {
			continue
		}
		if o.e.nodes[n.additional].never {
			if o.failAt(instance{node: c}, "additionalProperties", "must not be there: the schema has no such member") {
				return true
			}
		} else if o.check(n.additional, instance{node: c}) {
			return true
		}
	}
	o.e.steps -= len(n.required)
	for _, i := range n.required {
		if seen[i/64]&(1<<(i%64)) == 0 && o.fail("required", "must have the member %q", detail(n.names[i])) {
			return true
		}
	}
	return false
}

func (o *outcome) dependency(d *dependency) bool {
	t := &o.e.tree
	o.e.steps -= 2 * int(t.Nodes[o.x.node].Size) * (1 + len(d.required))
	if o.e.steps < 0 {
		return true
	}
	if _, ok := t.Member(o.x.node, d.name); !ok {
		return false
	}
	for _, name := range d.required {
		if _, ok := t.Member(o.x.node, name); !ok &&
			o.fail("dependencies", "must have the member %q because it has %q", detail(name), detail(d.name)) {
			return true
		}
	}
	return d.schema != none && o.check(d.schema, o.x)
}

// combination checks the keywords that combine schemas at the same place.
func (o *outcome) combination(n *node) bool {
	for _, s := range n.allOf {
		if o.check(s, o.x) {
			return true
		}
	}
	if len(n.anyOf) > 0 && !slices.ContainsFunc(n.anyOf, o.matches) {
		if o.fail("anyOf", "must match one of %s", count(len(n.anyOf), "schema", "schemas")) || o.closest(n.anyOf) {
			return true
		}
	}
	if len(n.oneOf) > 0 {
		matched := 0
		for _, s := range n.oneOf {
			if o.matches(s) {
				if matched++; matched > 1 {
					break
				}
			}
		}
		if matched != 1 {
			if o.fail("oneOf", "must match exactly one of %s", count(len(n.oneOf), "schema", "schemas")) ||
				matched == 0 && o.closest(n.oneOf) {
				return true
			}
		}
	}
	if n.not != none && o.matches(n.not) && o.fail("not", "must not match the schema under not") {
		return true
	}
	if n.condition != none && (n.then != none || n.otherwise != none) {
		next := n.otherwise
		if o.matches(n.condition) {
			next = n.then
		}
		return next != none && o.check(next, o.x)
	}
	return false
}

// matches evaluates a schema for its verdict alone.
func (o *outcome) matches(schema int32) bool { return o.e.evaluate(schema, o.x, nil) }

// closest adds the problems of the one alternative that seems to be meant: the
// only one, or the only one of the value's type.
func (o *outcome) closest(alternatives []int32) bool {
	meant := none
	for _, s := range alternatives {
		n := s
		for o.e.nodes[n].ref != none {
			n = o.e.nodes[n].ref
		}
		if types := o.e.nodes[n].types; o.e.nodes[n].never || types != 0 && !types.allows(o.e.kind(o.x), o.e.raw(o.x)) {
			continue
		}
		if meant != none {
			return false
		}
		meant = s
	}
	return meant != none && o.check(meant, o.x)
}
