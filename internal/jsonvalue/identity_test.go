package jsonvalue_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/jsonvalue"
)

func identity(value string) string { return string(jsonvalue.Identity(nil, []byte(value), false)) }

func folded(value string) string { return string(jsonvalue.Identity(nil, []byte(value), true)) }

func TestIdentityIsTheSameForTheSameValue(t *testing.T) {
	for _, same := range [][]string{
		{`1`, `1.0`, `1e0`, `10e-1`, `0.1e1`, ` 1 `, `1E+0`, `1.000`, `0.00001e5`, `100000e-5`},
		{`0`, `-0`, `0.0`, `-0e9`, `0e999999999999999999999999`, `-0.000E-5`},
		{`1e400`, `10e399`, `0.1e401`},
		{`1e100000000000000000`, `10e99999999999999999`, `0.1e100000000000000001`, `1e0000100000000000000000`},
		{`1e-100000000000000000`, `10e-100000000000000001`, `0.1e-99999999999999999`},
		{`-12.5`, `-1.25e1`, `-125e-1`},
		{`"a"`, `"\u0061"`},
		{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
		{`"/"`, `"\/"`, `"\u002f"`},
		{`{"a":1,"b":[2]}`, "{ \"b\" : [ 2.0 ] ,\n\"\\u0061\" : 1 }", `{"a":7,"b":[2],"a":1}`},
		{`[]`, ` [ ] `}, {`true`}, {`null`},
	} {
		for _, value := range same {
			assert.Equal(t, identity(same[0]), identity(value), "%s %s", same[0], value)
		}
	}
}

func TestIdentityDiffersForDifferentValues(t *testing.T) {
	different := []string{
		`1`, `"1"`, `-1`, `[1]`, `[[1]]`, `{"1":1}`, `true`, `false`, `null`, `"true"`, `0`, `""`, `[]`, `{}`, `[0]`, `[[]]`, `[{}]`, `[null]`,
		`9007199254740993`, `9007199254740992`, `0.1`, `0.1000000000000000055`, `1e400`, `1e401`, `-1e400`, `1e-400`, `1e999999999999999999999`,
		`1e999999999999999999998`, `1e-999999999999999999999`, `10`, `100`,
		`["a","b"]`, `["ab"]`, `["a,b"]`, `["b","a"]`, `{"a":"b"}`, `{"ab":""}`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":[1,2]}`, `{"a":[1],"b":2}`,
		`"\ud800"`, `"\ufffd"`, `"\udc00"`, `"\udc00\ud800"`, `"\ud800\ud800"`, `{"\ud800":0}`, `{"\ufffd":0}`, `"\u0000"`, `"\\u0000"`, `"a"`, `"A"`, `"é"`, `"e\u0301"`,
	}
	seen := map[string]string{}
	for _, value := range different {
		id := identity(value)
		assert.Empty(t, seen[id], "%s", value)
		seen[id] = value
	}
	for a := range seen { // no identity is the beginning of another
		for b := range seen {
			assert.False(t, a != b && strings.HasPrefix(a, b), "%s %s", seen[a], seen[b])
		}
	}
}

func TestIdentityFoldsCaseOfStringsAndOfNothingElse(t *testing.T) {
	for _, same := range [][2]string{{`"Straße"`, `"STRASSE"`}, {`"ΣΑΣ"`, `"σας"`}, {`{"a":["X"]}`, `{"a":["x"]}`}, {`"\u0041"`, `"a"`}} {
		assert.Equal(t, folded(same[0]), folded(same[1]), same)
		assert.NotEqual(t, identity(same[0]), identity(same[1]), same)
	}
	assert.NotEqual(t, folded(`{"A":1}`), folded(`{"a":1}`))
	assert.NotEqual(t, folded(`"A\ud800"`), folded(`"a\ud800"`))
	assert.NotEqual(t, folded(`"\ud800"`), folded(`"\ufffd"`))
	assert.NotEqual(t, folded(`"1"`), folded(`1`))
}

func TestIdentityOfHugeNumbersTakesLinearTime(t *testing.T) {
	const digits = 1_000_000
	start := time.Now()
	nines := strings.Repeat("9", digits)
	assert.Equal(t, identity("10e"+nines), identity("1e1"+strings.Repeat("0", digits)))
	assert.Equal(t, identity("0.1e-"+nines), identity("1e-1"+strings.Repeat("0", digits)))
	assert.Equal(t, identity("1"+strings.Repeat("0", digits)), identity("1e1000000"))
	assert.Equal(t, identity("0."+strings.Repeat("0", digits-1)+"1"), identity("1e-1000000"))
	assert.Less(t, time.Since(start), 5*time.Second)
}

func TestIdentityAppends(t *testing.T) {
	assert.Equal(t, "x"+identity(`"a"`), string(jsonvalue.Identity([]byte("x"), []byte(`"a"`), false)))
	assert.Equal(t, "s\x00\x00\x00\x01a", identity(`"a"`))
}

func TestIdentityOfWhatIsNotJSONDoesNotPanic(t *testing.T) {
	for _, raw := range []string{``, ` `, `"`, `"a`, `{`, `[`, `tru`, `-`, `1x`, strings.Repeat("[", 1_000_000), "\"\xff\"", `{"a":}`} {
		assert.NotEqual(t, identity(`null`), identity(raw), raw[:min(len(raw), 10)])
	}
}

func draw(t *rapid.T) []byte { return []byte(text(t, 3)) }

// text draws a document with many ways to write the same.
func text(t *rapid.T, depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t"})
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
	case 1, 2:
		return rapid.SampledFrom([]string{"0", "-0", "1", "1.0", "1e0", "10e-1", "10", "1e1", "-1", "0.1", "1e-1", "9007199254740992", "9007199254740993", "1e30", "100e28"}).Draw(t, "number")
	case 3:
		return name(t)
	case 4:
		var parts []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			parts = append(parts, space.Draw(t, "space")+text(t, depth-1)+space.Draw(t, "space"))
		}
		return "[" + strings.Join(parts, ",") + "]"
	default:
		var parts []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			parts = append(parts, space.Draw(t, "space")+name(t)+space.Draw(t, "space")+":"+space.Draw(t, "space")+text(t, depth-1))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
}

func name(t *rapid.T) string {
	return rapid.SampledFrom([]string{`"a"`, `"\u0061"`, `"b"`, `""`, `"ab"`, `"\ufffd"`, `"😀"`, `"\ud83d\ude00"`}).Draw(t, "name")
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// equal compares two values decoded with UseNumber: numbers as rationals.
func equal(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return false
		}
		p, _ := new(big.Rat).SetString(string(x))
		q, _ := new(big.Rat).SetString(string(y))
		return p.Cmp(q) == 0
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	default:
		return a == b
	}
}

func decode(t require.TestingT, doc []byte) any {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

func TestIdentityIsEqualExactlyForEqualValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t), draw(t)
		require.Equal(t, equal(decode(t, a), decode(t, b)), identity(string(a)) == identity(string(b)), "%s %s", a, b)
	})
}

func FuzzIdentity(f *testing.F) {
	f.Add([]byte(`{"a":[1,1.0,"x"]}`), []byte(`{"a":[1e0,10e-1,"\u0078"]}`))
	f.Add([]byte(`"\ud800"`), []byte(`"\ufffd"`))
	f.Add([]byte(`[9007199254740993]`), []byte(`[9007199254740992]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if jsonvalue.Check(a, jsonvalue.Limits{}) != nil || jsonvalue.Check(b, jsonvalue.Limits{}) != nil || !naive(a) || !naive(b) {
			return
		}
		same := equal(decode(t, a), decode(t, b))
		require.Equal(t, same, bytes.Equal(jsonvalue.Identity(nil, a, false), jsonvalue.Identity(nil, b, false)), "%s %s", a, b)
		if same {
			require.Equal(t, jsonvalue.Identity(nil, a, true), jsonvalue.Identity(nil, b, true))
		}
	})
}

// naive reports whether encoding/json and big.Rat can judge a document: they
// replace surrogates and write out exponents.
func naive(doc []byte) bool {
	return !bytes.Contains(bytes.ToLower(doc), []byte(`\ud`)) && len(doc) < 200 && !longExponent(doc)
}

func longExponent(doc []byte) bool {
	digits, inside := 0, false
	for _, b := range doc {
		switch {
		case b == 'e' || b == 'E':
			digits, inside = 0, true
		case inside && (b >= '0' && b <= '9'):
			if digits++; digits > 3 {
				return true
			}
		case b != '+' && b != '-':
			inside = false
		}
	}
	return false
}

func FuzzAppendText(f *testing.F) {
	f.Add([]byte(`"a\ud83d\ude00\udc00"`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) == 0 || doc[0] != '"' || doc[len(doc)-1] != '"' || jsonvalue.Check(doc, jsonvalue.Limits{}) != nil {
			return
		}
		got := jsonvalue.AppendText(nil, doc)
		var want string
		require.NoError(t, json.Unmarshal(doc, &want))
		if utf8.Valid(got) {
			require.Equal(t, want, string(got))
			return
		}
		// A surrogate without its partner is what differs, and nothing else.
		require.Equal(t, want, surrogateless(got))
	})
}

func surrogateless(text []byte) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			n = 3
		}
		b.WriteRune(r)
		text = text[n:]
	}
	return b.String()
}
