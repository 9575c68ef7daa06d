package jsonschema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// A Problem is one way in which a document does not match a schema.
type Problem struct {
	// Pointer is the JSON pointer of the place in the document. A missing member
	// is a problem of the object, a superfluous one a problem of its own place.
	Pointer string
	// Keyword is the keyword of the schema that is not satisfied, as in
	// "required". It is "false" where the schema is false.
	Keyword string
	// Message says what the schema asks for. It is made from the schema alone,
	// so it has nothing of the document in it.
	Message string
}

func compareProblems(a, b Problem) int {
	return cmp.Or(
		strings.Compare(a.Pointer, b.Pointer),
		strings.Compare(a.Keyword, b.Keyword),
		strings.Compare(a.Message, b.Message),
	)
}

func sortProblems(problems []Problem) []Problem {
	slices.SortFunc(problems, compareProblems)
	return slices.Compact(problems)
}

// pointerTo returns the JSON pointer of a node. The tree keeps no parents, since
// only what goes wrong needs them.
func pointerTo(tree *jsonvalue.Tree, node int32) string {
	pointer := ""
	for at := int32(0); at != node; {
		index, c := 0, at+1
		for tree.Nodes[c].Next <= node {
			c = tree.Nodes[c].Next
			index++
		}
		token := strconv.Itoa(index)
		if tree.Nodes[at].Kind == jsonvalue.Object {
			token = strings.ToValidUTF8(string(tree.Name(c, nil)), "\uFFFD")
		}
		pointer = jsonvalue.AppendPointer(pointer, token)
		at = c
	}
	return pointer
}

// longDetail is the length from which a detail of the schema is left out of a
// message.
const longDetail = 200

func detail(text string) string {
	if len(text) > longDetail {
		return "(too long to show)"
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
