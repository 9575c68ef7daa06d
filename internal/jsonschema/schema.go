package jsonschema

import (
	"bytes"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// A Schema is a compiled schema. It does not change, and may be used
// concurrently.
type Schema struct {
	nodes []node // the root first
}

// Compile makes a schema of its text: of draft 4, 6 or 7 if $schema says so, and
// of draft 7 without a $schema. Every error is a [*SchemaError].
//
// Refused is what is not JSON, repeats a member name, or is no schema of its
// draft; a $ref that leaves the document, that refers to nothing, or that leads
// back to itself without a step into the document; an id in a subschema that
// moves the base of references (the root may have one, it is not looked at); a
// pattern that is no regular expression of Go; and what is beyond the limits of
// this package. Keywords beside a $ref are ignored, as the drafts have it.
//
// The text is not kept.
func Compile(schema []byte) (compiled *Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			compiled, err = nil, &SchemaError{Reason: "it cannot be compiled", Err: &PanicError{Value: r}}
		}
	}()
	if len(schema) > MaxSchemaBytes {
		return nil, &SchemaError{Reason: "longer than 1 MiB"}
	}
	p := &parser{tree: new(jsonvalue.Tree), draft: defaultDraft, at: map[int32]int32{}, bare: map[int32]bool{}}
	if err := p.tree.Parse(bytes.Clone(schema), jsonvalue.Limits{Depth: MaxDepth, Values: MaxSchemaValues}); err != nil {
		if len(schema) == 0 {
			return nil, &SchemaError{Reason: "the schema is empty; true takes any JSON", Err: err}
		}
		return nil, &SchemaError{Reason: "not a JSON document that a schema may be", Err: err}
	}
	if err := p.checkDocument(); err != nil {
		return nil, err
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	for _, place := range append([]int32{0}, p.detached...) {
		if err := p.checkMetaschema(place); err != nil {
			return nil, err
		}
	}
	if err := p.checkInPlace(); err != nil {
		return nil, err
	}
	if err := p.checkVisits(); err != nil {
		return nil, err
	}
	return &Schema{nodes: p.nodes}, nil
}

// checkDocument refuses what can be refused without a look at the keywords, and
// finds the draft.
func (p *parser) checkDocument() error {
	t := p.tree
	for i := range t.Nodes {
		if t.Nodes[i].Shadowed {
			return p.errorAt(int32(i), "a member name is repeated")
		}
	}
	if err := checkNumbers(t); err != nil {
		return &SchemaError{Pointer: err.Pointer, Reason: "a number is beyond the limits", Err: err}
	}
	if !p.isSchema(0) {
		return &SchemaError{Reason: "neither an object nor a boolean"}
	}
	if place, ok := t.Member(0, "$schema"); ok {
		name, _ := p.text(place)
		if p.draft, ok = draftOf(name); !ok {
			return p.errorAt(place, "$schema is not that of draft 4, 6 or 7")
		}
	}
	return nil
}

// Equal reports whether two schemas are the same JSON value, so that they
// validate the same documents. What is not JSON is equal only to itself.
func Equal(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(jsonvalue.Identity(nil, a, false), jsonvalue.Identity(nil, b, false))
}
