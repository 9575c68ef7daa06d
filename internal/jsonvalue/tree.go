package jsonvalue

import (
	"bytes"
	"hash/maphash"
	"math"
)

// A Kind is what a value is.
type Kind uint8

// The kinds of a value.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// A Node is one value of a [Tree]. Offsets are those in the document.
type Node struct {
	Start, End         int32 // the value's raw text
	NameStart, NameEnd int32 // the member name, with its quotes; 0, 0 where there is none
	Next               int32 // the node behind this one and all that it contains
	Size               int32 // of an array or object: its elements or members, Shadowed ones not counted
	Kind               Kind
	Escaped            bool // whether a string has escapes
	NameEscaped        bool
	Shadowed           bool // whether a later member of the object has the same name
}

// A Tree is the structure of a document. Nodes stand in document order, the root
// first; the children of node i are i+1, Nodes[i+1].Next and so on, up to
// Nodes[i].Next. A tree can be used for one document after another, by one
// goroutine at a time, and then allocates nothing.
type Tree struct {
	Doc   []byte
	Nodes []Node

	stack   []int32 // the open arrays and objects
	pending Node    // carries the member name to the value that follows
	table   []int32 // a hash table of the members of one object
	names   [2][]byte
}

var seed = maphash.MakeSeed()

// Parse checks a document as [Check] does and makes the tree its structure. The
// tree refers to the document until the next Parse.
func (t *Tree) Parse(doc []byte, limits Limits) error {
	t.Doc, t.Nodes, t.stack, t.pending = doc, t.Nodes[:0], t.stack[:0], Node{}
	if len(doc) > math.MaxInt32 {
		return &SyntaxError{Offset: math.MaxInt32, Reason: "document larger than 2 GiB"}
	}
	return scan(doc, limits, t)
}

// Raw returns the text of a node as it stands in the document.
func (t *Tree) Raw(node int32) []byte { return t.Doc[t.Nodes[node].Start:t.Nodes[node].End] }

// Text returns the text of a string, as [AppendText] does. It is part of the
// document if the string has no escapes, and otherwise of scratch, which it
// overwrites.
func (t *Tree) Text(node int32, scratch []byte) []byte {
	n := &t.Nodes[node]
	return text(t.Doc[n.Start:n.End], n.Escaped, scratch)
}

// Name returns the text of a member's name, as Text does.
func (t *Tree) Name(node int32, scratch []byte) []byte {
	n := &t.Nodes[node]
	return text(t.Doc[n.NameStart:n.NameEnd], n.NameEscaped, scratch)
}

// Named reports whether a member has the name.
func (t *Tree) Named(node int32, name string) bool {
	n := &t.Nodes[node]
	return equalText(t.Doc[n.NameStart:n.NameEnd], n.NameEscaped, name)
}

// Member returns the last member of an object with the name.
func (t *Tree) Member(object int32, name string) (node int32, ok bool) {
	if t.Nodes[object].Kind != Object {
		return 0, false
	}
	end := t.Nodes[object].Next
	for c := object + 1; c < end; c = t.Nodes[c].Next {
		if !t.Nodes[c].Shadowed && t.Named(c, name) {
			return c, true
		}
	}
	return 0, false
}

func text(quoted []byte, escaped bool, scratch []byte) []byte {
	if escaped {
		return AppendText(scratch[:0], quoted)
	}
	if len(quoted) < 2 {
		return nil
	}
	return quoted[1 : len(quoted)-1]
}

func (t *Tree) name(start, end int, escaped bool) {
	t.pending.NameStart, t.pending.NameEnd, t.pending.NameEscaped = int32(start), int32(end), escaped
}

func (t *Tree) add(n Node) int32 {
	n.NameStart, n.NameEnd, n.NameEscaped = t.pending.NameStart, t.pending.NameEnd, t.pending.NameEscaped
	t.pending = Node{}
	if len(t.stack) > 0 {
		t.Nodes[t.stack[len(t.stack)-1]].Size++
	}
	t.Nodes = append(t.Nodes, n)
	return int32(len(t.Nodes) - 1)
}

func (t *Tree) scalar(start, end int, kind Kind, escaped bool) {
	t.add(Node{Start: int32(start), End: int32(end), Next: int32(len(t.Nodes) + 1), Kind: kind, Escaped: escaped})
}

func (t *Tree) open(start int, kind Kind) {
	t.stack = append(t.stack, t.add(Node{Start: int32(start), Kind: kind}))
}

func (t *Tree) close(end int) {
	i := t.stack[len(t.stack)-1]
	t.stack = t.stack[:len(t.stack)-1]
	n := &t.Nodes[i]
	n.End, n.Next = int32(end), int32(len(t.Nodes))
	if n.Kind == Object && n.Size > 1 {
		t.shadow(i)
	}
}

// smallObject is the size up to which comparing each name with each other is
// faster than a hash table.
const smallObject = 12

// shadow marks the members of an object that a later one replaces.
func (t *Tree) shadow(object int32) {
	first, end := object+1, t.Nodes[object].Next
	shadowed := int32(0)
	if t.Nodes[object].Size <= smallObject {
		for c := first; c < end; c = t.Nodes[c].Next {
			for d := t.Nodes[c].Next; d < end; d = t.Nodes[d].Next {
				if t.sameName(c, d) {
					t.Nodes[c].Shadowed = true
					shadowed++
					break
				}
			}
		}
		t.Nodes[object].Size -= shadowed
		return
	}
	size := 16
	for size < 2*int(t.Nodes[object].Size) {
		size *= 2
	}
	if cap(t.table) < size {
		t.table = make([]int32, size)
	}
	table := t.table[:size]
	clear(table) // no member is node 0, so 0 is a free place
	for c := first; c < end; c = t.Nodes[c].Next {
		name := t.Name(c, t.names[0])
		if t.Nodes[c].NameEscaped {
			t.names[0] = name // it may have grown
		}
		slot := int(maphash.Bytes(seed, name) & uint64(size-1))
		for table[slot] != 0 && !t.sameName(table[slot], c) {
			slot = (slot + 1) & (size - 1)
		}
		if table[slot] != 0 {
			t.Nodes[table[slot]].Shadowed = true
			shadowed++
		}
		table[slot] = c
	}
	t.Nodes[object].Size -= shadowed
}

func (t *Tree) sameName(a, b int32) bool {
	x, y := &t.Nodes[a], &t.Nodes[b]
	if !x.NameEscaped && !y.NameEscaped {
		return bytes.Equal(t.Doc[x.NameStart:x.NameEnd], t.Doc[y.NameStart:y.NameEnd])
	}
	t.names[0] = AppendText(t.names[0][:0], t.Doc[x.NameStart:x.NameEnd])
	t.names[1] = AppendText(t.names[1][:0], t.Doc[y.NameStart:y.NameEnd])
	return bytes.Equal(t.names[0], t.names[1])
}
