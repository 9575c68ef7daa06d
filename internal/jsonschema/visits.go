package jsonschema

import (
	"encoding/binary"
	"slices"
)

// A multiset says how often each node is evaluated at one place of a document.
type multiset map[int32]int

// maxVisitWork bounds the search of checkVisits itself, in steps of a nanosecond
// or a few.
const maxVisitWork = 200_000_000

// checkVisits refuses a schema that may evaluate one place of a document more
// than MaxVisits times.
//
// It follows all documents at once: from what is evaluated at one place it finds
// what is evaluated at the member a, at any other member, at the element 0 and
// so on, each as a multiset of nodes, until no new multiset turns up. A tree
// whose nodes are the same schema has one of them. A recursion that reaches a
// place along two paths doubles the multiset with every level, and a chain of
// definitions that each use the next one twice does so without a recursion.
func (p *parser) checkVisits() error {
	type state struct {
		nodes multiset
		depth int
	}
	work := 0
	seen := map[string]bool{}
	queue := []state{{multiset{0: 1}, 0}}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		here, err := p.expand(s.nodes, &work)
		if err != nil {
			return err
		}
		if s.depth == MaxDepth {
			continue
		}
		for next := range p.steps(here, &work) {
			if work > maxVisitWork {
				return &SchemaError{Reason: "the schema is too involved to bound its evaluation"}
			}
			if key := next.key(); len(next) > 0 && !seen[key] {
				seen[key] = true
				queue = append(queue, state{next, s.depth + 1})
			}
		}
	}
	return nil
}

// expand adds what is evaluated at the same place.
func (p *parser) expand(nodes multiset, work *int) (multiset, error) {
	all := make(multiset, len(nodes))
	total := 0
	type visit struct {
		node  int32
		times int
	}
	var stack []visit
	for n, times := range nodes {
		stack = append(stack, visit{n, times})
	}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		all[v.node] += v.times
		*work += 10
		if total += v.times; total > MaxVisits {
			return nil, &SchemaError{Reason: "the schema may evaluate one place of a document more often than is allowed, along different paths"}
		}
		p.nodes[v.node].inPlace(func(s int32) { stack = append(stack, visit{s, v.times}) })
	}
	return all, nil
}

// steps goes over what is evaluated one level further down. Where a schema may
// or may not apply it is taken to apply.
func (p *parser) steps(here multiset, work *int) func(func(multiset) bool) {
	return func(yield func(multiset) bool) {
		var objects, arrays []int32
		propertyNames := multiset{}
		for n := range here {
			if p.nodes[n].looksIntoObjects() {
				objects = append(objects, n)
			}
			if p.nodes[n].looksIntoArrays() {
				arrays = append(arrays, n)
			}
			if s := p.nodes[n].propertyNames; s != none {
				propertyNames[s] += here[n]
			}
		}
		slices.Sort(objects)
		slices.Sort(arrays)
		if len(propertyNames) > 0 && !yield(propertyNames) {
			return
		}
		names := map[string]bool{}
		for _, n := range objects {
			for _, name := range p.nodes[n].names[:len(p.nodes[n].properties)] {
				*work += 10
				if names[name] {
					continue
				}
				names[name] = true
				if !yield(p.member(here, objects, name, work)) {
					return
				}
			}
		}
		if len(objects) > 0 && !yield(p.otherMember(here, objects, work)) {
			return
		}
		longest := 0
		for _, n := range arrays {
			longest = max(longest, len(p.nodes[n].tuple))
		}
		for i := 0; len(arrays) > 0 && i <= longest; i++ {
			if !yield(p.element(here, arrays, i, work)) {
				return
			}
		}
	}
}

// member returns what is evaluated at a member that a schema names.
func (p *parser) member(here multiset, objects []int32, name string, work *int) multiset {
	next := multiset{}
	for _, n := range objects {
		node := &p.nodes[n]
		*work += 20
		found := false
		if i := node.slot([]byte(name)); i != none && int(i) < len(node.properties) {
			next[node.properties[i]] += here[n]
			found = true
		}
		for i := range node.patterns {
			if *work += node.patterns[i].pattern.cost(len(name)); *work > maxVisitWork {
				return next // which nobody looks at any more
			}
			if node.patterns[i].pattern.regexp.MatchString(name) {
				next[node.patterns[i].schema] += here[n]
				found = true
			}
		}
		if !found && node.additional != none {
			next[node.additional] += here[n]
		}
	}
	return next
}

// otherMember returns what may be evaluated at a member that no schema names.
// It may match all patterns of a schema, or none of them.
func (p *parser) otherMember(here multiset, objects []int32, work *int) multiset {
	next := multiset{}
	for _, n := range objects {
		node := &p.nodes[n]
		*work += 20 + 10*len(node.patterns)
		matched := multiset{}
		for i := range node.patterns {
			matched[node.patterns[i].schema] += here[n]
		}
		if node.additional != none {
			matched[node.additional] = max(matched[node.additional], here[n])
		}
		for s, times := range matched {
			next[s] += times
		}
	}
	return next
}

// element returns what is evaluated at an element.
func (p *parser) element(here multiset, arrays []int32, index int, work *int) multiset {
	next := multiset{}
	for _, n := range arrays {
		*work += 20
		node := &p.nodes[n]
		switch {
		case node.items != none:
			next[node.items] += here[n]
		case index < len(node.tuple):
			next[node.tuple[index]] += here[n]
		case len(node.tuple) > 0 && node.additionalItems != none:
			next[node.additionalItems] += here[n]
		}
		if node.contains != none {
			next[node.contains] += here[n]
		}
	}
	return next
}

func (m multiset) key() string {
	nodes := make([]int32, 0, len(m))
	for n := range m {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	key := make([]byte, 0, 8*len(nodes))
	for _, n := range nodes {
		key = binary.BigEndian.AppendUint32(key, uint32(n))
		key = binary.BigEndian.AppendUint32(key, uint32(m[n]))
	}
	return string(key)
}
