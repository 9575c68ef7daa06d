package jsonschema

import "fmt"

// findings collects problems. A nil one collects nothing, so that the first
// problem ends the evaluation.
type findings struct {
	problems []Problem
	bytes    int // of the pointers, which repeat the document's names
}

const maxFindingBytes = 1 << 20

func (f *findings) full() bool {
	return len(f.problems) >= MaxProblems || f.bytes > maxFindingBytes
}

// An outcome gathers the verdict of one schema about one instance.
type outcome struct {
	e     *evaluator
	x     instance
	found *findings
	ok    bool
}

// fail records a problem and reports whether the evaluation is over.
func (o *outcome) fail(keyword, format string, args ...any) bool {
	return o.failAt(o.x, keyword, format, args...)
}

func (o *outcome) failAt(x instance, keyword, format string, args ...any) bool {
	o.ok = false
	if o.found == nil || o.found.full() {
		return true
	}
	pointer := pointerTo(&o.e.tree, x.node)
	o.found.bytes += len(pointer)
	o.found.problems = append(o.found.problems, Problem{
		Pointer: pointer, Keyword: keyword, Message: fmt.Sprintf(format, args...),
	})
	return false
}

// check evaluates a schema as a part of this one and reports whether the
// evaluation is over.
func (o *outcome) check(schema int32, x instance) bool {
	if o.e.evaluate(schema, x, o.found) {
		return false
	}
	o.ok = false
	return o.found == nil || o.found.full() || o.e.steps < 0
}
