package jsonschema

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
		m := &t.Nodes[c]
		if o.e.steps -= 4 + int(m.NameEnd-m.NameStart)/4; o.e.steps < 0 {
			return true
		}
		if m.Shadowed {
			continue
		}
		name := t.Name(c, o.e.other)
		if m.NameEscaped {
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
			if o.e.steps -= p.pattern.cost(len(text)); o.e.steps < 0 {
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
	if o.e.steps -= d.cost * int(t.Nodes[o.x.node].Size); o.e.steps < 0 {
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
