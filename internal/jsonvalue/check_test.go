package jsonvalue_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/jsonvalue"
)

func TestCheckAcceptsWhatIsJSON(t *testing.T) {
	for _, doc := range []string{
		`null`, `true`, `false`, `0`, `-0`, `-0.5e+10`, `1E400`, `""`, `"a\"\\\/\b\f\n\r\tA"`, `[]`, `{}`,
		" \t\r\n[1 , 2]\n", `{"a":{"b":[{}]},"a":1}`, `"\ud800"`, `"\ud83d\ude00"`, `"é😀"`, "\"\u007f\"", `[[],[[]],{}]`,
	} {
		assert.NoError(t, jsonvalue.Check([]byte(doc), jsonvalue.Limits{}), doc)
	}
}

func TestCheckSaysWhereADocumentIsWrong(t *testing.T) {
	for _, c := range []struct {
		doc    string
		offset int
	}{
		{``, 0}, {` `, 1}, {`nul`, 0}, {`nulll`, 4}, {`1 2`, 2}, {`01`, 1}, {`-`, 1}, {`1.`, 2}, {`1.e1`, 2}, {`1e`, 2}, {`1e+`, 3},
		{`+1`, 0}, {`.5`, 0}, {`NaN`, 0}, {`'a'`, 0}, {`"a`, 2}, {`"\`, 2}, {`"\x"`, 2}, {`"\u12"`, 5}, {`"\u12g4"`, 5}, {"\"a\nb\"", 2},
		{"\"\x00\"", 1}, {`[`, 1}, {`[1`, 2}, {`[1,`, 3}, {`[1,]`, 3}, {`[,1]`, 1}, {`[1}`, 2}, {`{]`, 1}, {`{"a"}`, 4}, {`{"a":}`, 5},
		{`{"a":1,}`, 7}, {`{"a":1 "b":2}`, 7}, {`{a:1}`, 1}, {`{1:1}`, 1}, {`]`, 0}, {`// x`, 0}, {"\xef\xbb\xbf1", 0}, {"1\x00", 1},
		{"\"\xff\"", 1}, {"\"ab\xed\xa0\x80\"", 3}, {"\"\xc0\xaf\"", 1}, {"[1]\xff", 3},
	} {
		err := jsonvalue.Check([]byte(c.doc), jsonvalue.Limits{})
		var syntax *jsonvalue.SyntaxError
		if assert.ErrorAs(t, err, &syntax, c.doc) {
			assert.Equal(t, c.offset, syntax.Offset, "%s: %s", c.doc, syntax.Reason)
		}
	}
}

func TestCheckBoundsDepthAndValues(t *testing.T) {
	nested := func(depth int) []byte {
		return []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	}
	assert.NoError(t, jsonvalue.Check(nested(jsonvalue.MaxDepth), jsonvalue.Limits{}))
	assert.Equal(t, &jsonvalue.DepthError{Offset: 512, Limit: 512}, jsonvalue.Check(nested(jsonvalue.MaxDepth+1), jsonvalue.Limits{}))
	assert.Equal(t, &jsonvalue.DepthError{Offset: 512 * 5, Limit: 512}, jsonvalue.Check([]byte(strings.Repeat(`{"a":`, 800_000)), jsonvalue.Limits{}))
	assert.NoError(t, jsonvalue.Check(nested(10_000), jsonvalue.Limits{Depth: 10_000}))
	assert.Equal(t, &jsonvalue.DepthError{Offset: 2, Limit: 1}, jsonvalue.Check([]byte(`[ {}]`), jsonvalue.Limits{Depth: 1}))

	assert.NoError(t, jsonvalue.Check([]byte(`{"a":[1,2],"b":3}`), jsonvalue.Limits{Values: 5}))
	assert.Equal(t, &jsonvalue.ValuesError{Offset: 15, Limit: 4}, jsonvalue.Check([]byte(`{"a":[1,2],"b":3}`), jsonvalue.Limits{Values: 4}))
}

func TestCheckDoesNotAllocate(t *testing.T) {
	doc := []byte(`{"a":[1,2.5e3,"x\n",null,true,{"b":{}}]}`)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = jsonvalue.Check(doc, jsonvalue.Limits{}) }))
}

// depth counts brackets outside strings, of a document that json.Valid accepts.
func depth(doc []byte) (deepest int) {
	level, inside := 0, false
	for i := 0; i < len(doc); i++ {
		switch b := doc[i]; {
		case inside && b == '\\':
			i++
		case b == '"':
			inside = !inside
		case inside:
		case b == '[' || b == '{':
			level++
			deepest = max(deepest, level)
		case b == ']' || b == '}':
			level--
		}
	}
	return deepest
}

func FuzzCheck(f *testing.F) {
	for _, doc := range []string{`{"a":[1,2,{"b":null}]}`, `[[[[]]]]`, `"\ud800\udc00\u0000"`, `-1.5E-10`, "\"\xff\"", ` [true , false] `, `{"a":1,"a":2}`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := jsonvalue.Check(doc, jsonvalue.Limits{Depth: 4})
		if json.Valid(doc) && utf8.Valid(doc) {
			require.Equal(t, depth(doc) <= 4, err == nil, "%q: %v", doc, err)
		} else {
			require.Error(t, err, "%q", doc)
		}
		var tree jsonvalue.Tree
		require.Equal(t, err, tree.Parse(doc, jsonvalue.Limits{Depth: 4}))
		jsonvalue.Lookup(doc, "a", "0")
		jsonvalue.LookupMany(doc, [][]string{{"a"}, {"a", "0"}, {}})
		jsonvalue.Identity(nil, doc, true)
	})
}
