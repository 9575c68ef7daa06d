package jsonvalue

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// The tags of the parts of an identity.
const (
	tagNull    = 'z'
	tagFalse   = 'f'
	tagTrue    = 't'
	tagNumber  = 'n'
	tagString  = 's'
	tagArray   = 'a'
	tagObject  = 'o'
	tagInvalid = '!'
)

// Identity appends bytes that are equal for two values exactly if they are the
// same JSON value: numbers as exact decimals, so that 1, 1.0 and 10e-1 are one
// and -0 is 0; strings by their UTF-16 code units; arrays in order; objects
// whatever the order of their members, of which the last one with a name counts.
// White space and the way in which a string is escaped make no difference.
//
// With fold, strings that differ in case alone (Unicode full case folding) are
// the same too. Member names are not folded, nor are strings with a surrogate
// that has no partner.
//
// Each part has a tag and, where it may vary, its length as a big-endian uint32,
// so no identity is the beginning of another one.
//
// The value must have passed [Check] with a depth of at most [MaxDepth]. What
// has not is encoded as it stands, under a tag of its own.
func Identity(dst, raw []byte, fold bool) []byte {
	raw = raw[skipSpace(raw, 0):]
	if len(raw) > 0 && raw[0] != '{' && raw[0] != '[' && Check(raw, Limits{}) == nil {
		end := len(raw)
		for space(raw[end-1]) {
			end--
		}
		return appendScalar(dst, raw[:end], fold)
	}
	tree := trees.Get().(*Tree)
	defer func() {
		tree.Doc = nil
		trees.Put(tree)
	}()
	if tree.Parse(raw, Limits{}) != nil {
		return appendPart(dst, tagInvalid, raw)
	}
	return tree.AppendIdentity(dst, 0, fold)
}

var trees = sync.Pool{New: func() any { return new(Tree) }}

// AppendIdentity appends the [Identity] of a node.
func (t *Tree) AppendIdentity(dst []byte, node int32, fold bool) []byte {
	n := &t.Nodes[node]
	switch n.Kind {
	case Array:
		dst = appendLength(append(dst, tagArray), int(n.Size))
		for c := node + 1; c < n.Next; c = t.Nodes[c].Next {
			dst = t.AppendIdentity(dst, c, fold)
		}
		return dst
	case Object:
		dst = appendLength(append(dst, tagObject), int(n.Size))
		type member struct {
			name []byte
			node int32
		}
		all := make([]member, 0, n.Size)
		for c := node + 1; c < n.Next; c = t.Nodes[c].Next {
			if !t.Nodes[c].Shadowed {
				all = append(all, member{t.Name(c, nil), c})
			}
		}
		slices.SortFunc(all, func(a, b member) int { return bytes.Compare(a.name, b.name) })
		for _, m := range all {
			dst = appendLength(dst, len(m.name))
			dst = append(dst, m.name...)
			dst = t.AppendIdentity(dst, m.node, fold)
		}
		return dst
	default:
		return appendScalar(dst, t.Doc[n.Start:n.End], fold)
	}
}

func appendScalar(dst, raw []byte, fold bool) []byte {
	switch raw[0] {
	case 'n':
		return append(dst, tagNull)
	case 'f':
		return append(dst, tagFalse)
	case 't':
		return append(dst, tagTrue)
	case '"':
		start := len(dst) + 5
		dst = AppendText(append(dst, tagString, 0, 0, 0, 0), raw)
		if text := dst[start:]; fold && utf8.Valid(text) {
			dst = append(dst[:start], cases.Fold().Bytes(text)...)
		}
		binary.BigEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
		return dst
	default:
		start := len(dst) + 5
		dst = AppendNumber(append(dst, tagNumber, 0, 0, 0, 0), raw)
		binary.BigEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
		return dst
	}
}

func appendPart(dst []byte, tag byte, part []byte) []byte {
	return append(appendLength(append(dst, tag), len(part)), part...)
}

func appendLength(dst []byte, n int) []byte { return binary.BigEndian.AppendUint32(dst, uint32(n)) }
