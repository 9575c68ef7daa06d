package jsonschema

import (
	"sync"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// Validate returns how a document does not match the schema, sorted by pointer,
// keyword and message, and the same for the same document always; nothing if it
// matches. After [MaxProblems] it stops looking. Of the members with the same
// name the last one counts.
//
// The error is about a document that is not judged: a [*jsonvalue.SyntaxError],
// [*jsonvalue.DepthError] or [*jsonvalue.ValuesError], a [*NumberError], a
// [*WorkError], or a [*PanicError].
func (s *Schema) Validate(doc []byte) (problems []Problem, err error) {
	e := evaluators.Get().(*evaluator)
	defer func() {
		if r := recover(); r != nil {
			problems, err = nil, &PanicError{Value: r}
			return // an evaluator that panicked may be in any state
		}
		e.release()
	}()
	if err := e.tree.Parse(doc, jsonvalue.Limits{Depth: MaxDepth, Values: MaxValues}); err != nil {
		return nil, err
	}
	if err := checkNumbers(&e.tree); err != nil {
		return nil, err
	}
	e.nodes, e.steps = s.nodes, MaxSteps
	var found findings
	e.evaluate(0, instance{}, &found)
	if e.steps < 0 {
		return nil, &WorkError{}
	}
	return sortProblems(found.problems), nil
}

// An evaluator evaluates one document.
type evaluator struct {
	nodes   []node
	tree    jsonvalue.Tree
	steps   int // left
	scratch []byte
	other   []byte
}

var evaluators = sync.Pool{New: func() any { return new(evaluator) }}

// keptNodes is the size up to which an evaluator's tree waits for the next
// document.
const keptNodes = 1 << 14

func (e *evaluator) release() {
	if cap(e.tree.Nodes) > keptNodes || cap(e.scratch) > keptNodes || cap(e.other) > keptNodes {
		return
	}
	e.nodes, e.tree.Doc = nil, nil
	evaluators.Put(e)
}

// evaluate reports whether an instance matches a schema. When the steps have run
// out it says anything.
func (e *evaluator) evaluate(schema int32, x instance, found *findings) bool {
	n := &e.nodes[schema]
	if e.steps -= 8; e.steps < 0 {
		return false
	}
	if n.ref != none {
		return e.evaluate(n.ref, x, found)
	}
	o := outcome{e: e, x: x, found: found, ok: true}
	if n.never {
		o.fail("false", "nothing is allowed here")
		return false
	}
	kind := e.kind(x)
	if kind == jsonvalue.Number {
		e.steps -= len(e.raw(x)) / 4
	}
	if n.types != 0 && !n.types.allows(kind, e.raw(x)) {
		o.fail("type", "must be %s", n.types)
		return false
	}
	over := false
	switch kind {
	case jsonvalue.String:
		over = o.string(n)
	case jsonvalue.Number:
		over = o.number(n)
	case jsonvalue.Array:
		over = o.array(n)
	case jsonvalue.Object:
		over = o.object(n)
	}
	if !over {
		_ = o.equality(n) || o.combination(n)
	}
	return o.ok
}
