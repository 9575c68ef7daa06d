package jsonschema

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
