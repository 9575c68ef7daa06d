package jsonvalue

import "fmt"

// SyntaxError says that a text is not JSON, or not valid UTF-8.
type SyntaxError struct {
	Offset int // of the first byte that cannot stand where it stands
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("jsonvalue: offset %d: %s", e.Offset, e.Reason)
}

// DepthError says that arrays and objects are nested too deeply.
type DepthError struct {
	Offset int // of the bracket that is one too many
	Limit  int
}

func (e *DepthError) Error() string {
	return fmt.Sprintf("jsonvalue: offset %d: nested deeper than %d levels", e.Offset, e.Limit)
}

// ValuesError says that a document has too many values.
type ValuesError struct {
	Offset int // of the value that is one too many
	Limit  int
}

func (e *ValuesError) Error() string {
	return fmt.Sprintf("jsonvalue: offset %d: more than %d values", e.Offset, e.Limit)
}

// PointerError says that a text is not a JSON pointer.
type PointerError struct {
	Pointer string
	Reason  string
}

func (e *PointerError) Error() string {
	return fmt.Sprintf("jsonvalue: %q is not a JSON pointer: %s", e.Pointer, e.Reason)
}
