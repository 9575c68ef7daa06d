package jsonschema

import "slices"

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
