package jsonschema

import "github.com/countersign/countersign/internal/jsonvalue"

// What a schema may be. [Compile] refuses what is beyond.
const (
	// MaxSchemaBytes is the length of a schema's text.
	MaxSchemaBytes = 1 << 20
	// MaxSchemaValues is the number of JSON values in a schema.
	MaxSchemaValues = 20_000
	// MaxVisits is how often one place of a document may be evaluated, over all
	// the paths that lead there through references, allOf, anyOf, oneOf, not, if,
	// then, else, dependencies, and the properties and items that overlap. A
	// recursion that reaches a place along two paths doubles with every level,
	// so it is always beyond.
	MaxVisits = 2_000
	// MaxInPlaceDepth is how many references, allOf and so on may stand in each
	// other without a step into the document.
	MaxInPlaceDepth = 64
	// MaxPatternSize is the size of a regular expression's program, in
	// instructions, and of all programs of a schema together ten times that.
	MaxPatternSize = 10_000
)

// What a document may be. [Schema.Validate] does not judge what is beyond.
const (
	// MaxDepth is the depth of nested arrays and objects, of schemas too.
	MaxDepth = jsonvalue.MaxDepth
	// MaxValues is the number of JSON values in a document.
	MaxValues = 200_000
	// MaxNumberLength is the length of a number's text, in schemas too.
	MaxNumberLength = 1_000
	// MaxExponent is the absolute value of a number's exponent, in schemas too.
	MaxExponent = 1_000
	// MaxSteps bounds the work for one document. A step is about ten
	// nanoseconds.
	MaxSteps = 50_000_000
	// MaxProblems is how many problems are returned.
	MaxProblems = 1_000
)
