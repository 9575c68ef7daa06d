package jsonschema

import "fmt"

// SchemaError says that a text is not a schema, or not one that is safe to
// evaluate. It unwraps to the cause, if there is one: a
// [*jsonvalue.SyntaxError], [*jsonvalue.DepthError], [*jsonvalue.ValuesError], a
// [*NumberError] or a [*PanicError].
type SchemaError struct {
	Pointer string // the JSON pointer of the offending place, where it is known
	Reason  string
	Err     error
}

func (e *SchemaError) Error() string {
	text := "jsonschema: " + e.Reason
	if e.Pointer != "" {
		text = fmt.Sprintf("jsonschema: at %s: %s", e.Pointer, e.Reason)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *SchemaError) Unwrap() error { return e.Err }

// NumberError says that a number is longer than [MaxNumberLength], or has an
// exponent beyond [MaxExponent].
type NumberError struct {
	Pointer string // the JSON pointer of the number
	Offset  int    // of the number in the text
}

func (e *NumberError) Error() string {
	return fmt.Sprintf("jsonschema: offset %d: the number at %q is longer than %d bytes or has an exponent beyond %d",
		e.Offset, e.Pointer, MaxNumberLength, MaxExponent)
}

// WorkError says that the evaluation of a document was stopped after [MaxSteps].
type WorkError struct{}

func (e *WorkError) Error() string {
	return fmt.Sprintf("jsonschema: the document takes more than %d steps to evaluate", MaxSteps)
}

// PanicError says that code panicked on a schema or a document. The value is not
// part of the text, because it may have been made from the document.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return "jsonschema: panic" }
