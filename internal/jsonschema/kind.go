package jsonschema

import (
	"strings"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// kinds is a set of the seven types of JSON Schema.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindInteger
	kindNumber
	kindString
	kindArray
	kindObject
)

var kindNames = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

func kindNamed(name string) kinds {
	for i, n := range kindNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

func (k kinds) String() string {
	var names []string
	for i, n := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, " or ")
}

// allows reports whether a value is of one of the types. An integer is a number
// without a fraction, however it is written.
func (k kinds) allows(kind jsonvalue.Kind, raw []byte) bool {
	switch kind {
	case jsonvalue.Null:
		return k&kindNull != 0
	case jsonvalue.Bool:
		return k&kindBoolean != 0
	case jsonvalue.String:
		return k&kindString != 0
	case jsonvalue.Array:
		return k&kindArray != 0
	case jsonvalue.Object:
		return k&kindObject != 0
	default:
		return k&kindNumber != 0 || k&kindInteger != 0 && isInteger(raw)
	}
}
