package jsonvalue

import (
	"bytes"
	"unicode/utf8"
)

// MaxDepth is the depth that [Limits] allows by default. A scalar has depth 0,
// an array of scalars depth 1.
const MaxDepth = 512

// Limits says how large a document may be.
type Limits struct {
	Depth  int // of nested arrays and objects; 0 is [MaxDepth]
	Values int // scalars, arrays and objects at any depth; 0 is no limit
}

func (l Limits) depth() int {
	if l.Depth == 0 {
		return MaxDepth
	}
	return l.Depth
}

// Check reports whether a document is exactly one JSON value, is UTF-8
// throughout, and stays within the limits. An escaped surrogate without its
// partner, as in "\ud800", is JSON. A byte order mark is not.
//
// The error is a [*SyntaxError], a [*DepthError] or a [*ValuesError]. It says
// what was found first, except that a text that is not UTF-8 is refused for that
// before anything else.
func Check(doc []byte, limits Limits) error { return scan(doc, limits, nil) }

// What may stand at the current offset.
const (
	wantValue      = iota
	wantFirstValue // a value, or the end of the array
	wantFirstName  // a name, or the end of the object
	wantName
	wantSeparator // behind a value
)

// scan checks a document and, if there is a tree, records its nodes. It keeps
// the open brackets on a stack of its own: a recursion would take memory in
// proportion to what an attacker sends.
func scan(doc []byte, limits Limits, tree *Tree) error {
	if !utf8.Valid(doc) {
		return &SyntaxError{Offset: validPrefix(doc), Reason: "not UTF-8"}
	}
	var (
		room   [64]byte
		open   = room[:0]
		want   = wantValue
		depth  = limits.depth()
		values = 0
	)
	for i := 0; ; {
		for i < len(doc) && space(doc[i]) {
			i++
		}
		if i == len(doc) {
			if want == wantSeparator && len(open) == 0 {
				return nil
			}
			return &SyntaxError{Offset: i, Reason: "unfinished document"}
		}
		b := doc[i]
		if want == wantSeparator {
			if len(open) == 0 {
				return &SyntaxError{Offset: i, Reason: "text behind the value"}
			}
			bracket := open[len(open)-1]
			switch {
			case b == ',' && bracket == '{':
				want = wantName
			case b == ',':
				want = wantValue
			case b == bracket+2: // the closing bracket
				open = open[:len(open)-1]
				if tree != nil {
					tree.close(i + 1)
				}
			default:
				return &SyntaxError{Offset: i, Reason: "no comma and no closing bracket behind a value"}
			}
			i++
			continue
		}
		if want == wantFirstName || want == wantName {
			if b == '}' && want == wantFirstName {
				want = wantSeparator
				continue
			}
			if b != '"' {
				return &SyntaxError{Offset: i, Reason: "no member name"}
			}
			end, escaped, reason := scanString(doc, i)
			if reason != "" {
				return &SyntaxError{Offset: end, Reason: reason}
			}
			if tree != nil {
				tree.name(i, end, escaped)
			}
			if i = skipSpace(doc, end); i == len(doc) || doc[i] != ':' {
				return &SyntaxError{Offset: i, Reason: "no colon behind a member name"}
			}
			i++
			want = wantValue
			continue
		}
		if b == ']' && want == wantFirstValue {
			want = wantSeparator
			continue
		}
		if values++; limits.Values > 0 && values > limits.Values {
			return &ValuesError{Offset: i, Limit: limits.Values}
		}
		start, kind, escaped := i, Null, false
		switch b {
		case '{', '[':
			if len(open) >= depth {
				return &DepthError{Offset: i, Limit: depth}
			}
			open = append(open, b)
			i++
			if b == '{' {
				kind, want = Object, wantFirstName
			} else {
				kind, want = Array, wantFirstValue
			}
			if tree != nil {
				tree.open(start, kind)
			}
			continue
		case '"':
			end, esc, reason := scanString(doc, i)
			if reason != "" {
				return &SyntaxError{Offset: end, Reason: reason}
			}
			i, kind, escaped = end, String, esc
		case 't', 'f', 'n':
			var literal string
			switch b {
			case 't':
				kind, literal = Bool, "true"
			case 'f':
				kind, literal = Bool, "false"
			default:
				literal = "null"
			}
			if !bytes.HasPrefix(doc[i:], []byte(literal)) {
				return &SyntaxError{Offset: i, Reason: "no value"}
			}
			i += len(literal)
		default:
			if b != '-' && !digit(b) {
				return &SyntaxError{Offset: i, Reason: "no value"}
			}
			end, reason := scanNumber(doc, i)
			if reason != "" {
				return &SyntaxError{Offset: end, Reason: reason}
			}
			i, kind = end, Number
		}
		if tree != nil {
			tree.scalar(start, i, kind, escaped)
		}
		want = wantSeparator
	}
}

// validPrefix returns the length of the longest prefix that is UTF-8.
func validPrefix(doc []byte) int {
	for i := 0; i < len(doc); {
		r, n := utf8.DecodeRune(doc[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(doc)
}
