package jsonschema

// checkInPlace refuses a schema that would be evaluated for ever, because it
// leads back to itself at the same place of the document, or that nests too
// deeply there.
func (p *parser) checkInPlace() error {
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(p.nodes))
	height := make([]int, len(p.nodes))
	type frame struct {
		node int32
		next []int32
	}
	for root := range p.nodes {
		if state[root] != unseen {
			continue
		}
		stack := []frame{{int32(root), p.inPlace(int32(root))}}
		state[root] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.next) > 0 {
				s := top.next[0]
				top.next = top.next[1:]
				switch state[s] {
				case open:
					return p.errorAt(p.nodes[s].place, "the schema refers to itself without a step into the document")
				case unseen:
					state[s] = open
					stack = append(stack, frame{s, p.inPlace(s)})
				}
				continue
			}
			n := top.node
			stack = stack[:len(stack)-1]
			state[n] = done
			for _, s := range p.inPlace(n) {
				height[n] = max(height[n], height[s]+1)
			}
			if height[n] > MaxInPlaceDepth {
				return p.errorAt(p.nodes[n].place, "too many schemas in each other at the same place of the document")
			}
		}
	}
	return nil
}

func (p *parser) inPlace(n int32) []int32 {
	var all []int32
	p.nodes[n].inPlace(func(s int32) { all = append(all, s) })
	return all
}
