package jsonschema

import (
	"unicode/utf8"

	"github.com/countersign/countersign/internal/jsonvalue"
)

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
