package jsonschema

// none stands for a subschema that is not there.
const none = int32(-1)

// A node is one schema. Subschemas are indexes into the nodes of the [Schema], so
// that a reference is no pointer into a cycle.
type node struct {
	place int32 // the schema's place in its document
	never bool  // whether the schema is false

	ref   int32
	types kinds // 0 is any

	minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf *bound

	minLength, maxLength int
	pattern              *pattern
	format               string

	names         []string         // that properties and required name, properties first
	slots         map[string]int32 // index of the names, if there are many
	properties    []int32          // the schemas of the first names
	required      []int32          // indexes into the names
	patterns      []patternProperty
	additional    int32
	propertyNames int32
	dependencies  []dependency

	minProperties, maxProperties int

	items           int32   // of every element
	tuple           []int32 // of the first elements
	additionalItems int32
	contains        int32

	minItems, maxItems int
	unique             bool

	constant     []byte // an identity
	constantText string
	enum         map[string]struct{} // of identities
	enumText     string

	allOf, anyOf, oneOf             []int32
	not, condition, then, otherwise int32
}

// A bound is a number of the schema, as it was written.
type bound struct {
	number
	text string
}

type patternProperty struct {
	pattern *pattern
	schema  int32
}

type dependency struct {
	name     string
	required []string
	schema   int32
	cost     int // the steps for each member of an object
}

func newNode(place int32) node {
	return node{
		place: place, ref: none, minLength: -1, maxLength: -1, additional: none, propertyNames: none,
		minProperties: -1, maxProperties: -1, items: none, additionalItems: none, contains: none,
		minItems: -1, maxItems: -1, not: none, condition: none, then: none, otherwise: none,
	}
}

// manyNames is the number of names from which a map is faster than comparing.
const manyNames = 8

// slot returns the index of a member name, or none.
func (n *node) slot(name []byte) int32 {
	if n.slots != nil {
		if i, ok := n.slots[string(name)]; ok {
			return i
		}
		return none
	}
	for i := range n.names {
		if n.names[i] == string(name) {
			return int32(i)
		}
	}
	return none
}

// inPlace calls visit for each subschema that is evaluated at the same place as
// the schema itself.
func (n *node) inPlace(visit func(int32)) {
	one := func(s int32) {
		if s != none {
			visit(s)
		}
	}
	one(n.ref)
	for _, all := range [][]int32{n.allOf, n.anyOf, n.oneOf} {
		for _, s := range all {
			visit(s)
		}
	}
	one(n.not)
	one(n.condition)
	one(n.then)
	one(n.otherwise)
	for i := range n.dependencies {
		one(n.dependencies[i].schema)
	}
}

// looksIntoObjects reports whether members are evaluated.
func (n *node) looksIntoObjects() bool {
	return len(n.properties) > 0 || len(n.patterns) > 0 || n.additional != none
}

// looksIntoArrays reports whether elements are evaluated.
func (n *node) looksIntoArrays() bool {
	return n.items != none || len(n.tuple) > 0 || n.contains != none
}
