package jsonvalue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/countersign/countersign/internal/jsonvalue"
)

func TestParsePointerReadsTheExamplesOfTheRFC(t *testing.T) {
	for pointer, want := range map[string][]string{
		"": {}, "/foo": {"foo"}, "/foo/0": {"foo", "0"}, "/": {""}, "/a~1b": {"a/b"}, "/c%d": {"c%d"}, "/ x": {" x"}, "/m~0n": {"m~n"},
		"/~01": {"~1"}, "//": {"", ""},
	} {
		path, err := jsonvalue.ParsePointer(pointer)
		assert.NoError(t, err, pointer)
		assert.Equal(t, want, path, pointer)
		back := ""
		for _, token := range path {
			back = jsonvalue.AppendPointer(back, token)
		}
		assert.Equal(t, pointer, back)
	}
}

func TestParsePointerRefusesWhatIsNone(t *testing.T) {
	for _, pointer := range []string{"a", "#/a", "/~", "/a~2", "/~/x", " /a"} {
		_, err := jsonvalue.ParsePointer(pointer)
		var malformed *jsonvalue.PointerError
		assert.ErrorAs(t, err, &malformed, pointer)
	}
}
