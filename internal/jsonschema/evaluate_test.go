package jsonschema_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/jsonschema"
	"github.com/countersign/countersign/internal/jsonvalue"
)

// problems requires that a document has exactly these, each as pointer and
// keyword.
func problems(t require.TestingT, s *jsonschema.Schema, doc string, want ...string) {
	found, err := s.Validate([]byte(doc))
	require.NoError(t, err, doc)
	var got []string
	for _, p := range found {
		require.NotEmpty(t, p.Message)
		got = append(got, p.Pointer+" "+p.Keyword)
	}
	require.Equal(t, want, got, "%s %v", doc, found)
}

func TestValidateSaysWhereAndWhy(t *testing.T) {
	s := compile(t, `{
		"type":"object","required":["id","lines"],"additionalProperties":false,"minProperties":1,"maxProperties":9,
		"propertyNames":{"maxLength":5},
		"properties":{
			"id":{"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-z]+$"},
			"lines":{"type":"array","minItems":1,"maxItems":2,"uniqueItems":true,"items":{"type":["integer","null"],"minimum":1,"maximum":9,"multipleOf":2}},
			"pair":{"items":[{"const":1}],"additionalItems":false,"contains":{"const":2}},
			"mail":{"format":"email"},
			"kind":{"enum":["a",1,null]},
			"any":{"anyOf":[{"type":"string"},{"type":"number","exclusiveMaximum":5}]},
			"one":{"oneOf":[{"minimum":1},{"maximum":5}]},
			"no":false
		},
		"dependencies":{"mail":["kind"],"kind":{"required":["mail"]}},
		"if":{"required":["one"]},"then":{"required":["any"]},"else":{"not":{"required":["any"]}}
	}`)
	problems(t, s, `{"id":"ab","lines":[2,null]}`)
	problems(t, s, `5`, " type")
	problems(t, s, `{}`, " minProperties", " required", " required")
	problems(t, s, `{"id":"A","lines":[]}`, "/id minLength", "/id pattern", "/lines minItems")
	problems(t, s, `{"id":"abcd","lines":[0,11,"x"]}`, "/id maxLength", "/lines maxItems", "/lines/0 minimum", "/lines/1 maximum", "/lines/1 multipleOf", "/lines/2 type")
	problems(t, s, `{"id":"ab","lines":[2,2.0]}`, "/lines uniqueItems")
	problems(t, s, `{"id":"ab","lines":[2],"pair":[2,1]}`, "/pair/0 const", "/pair/1 additionalItems")
	problems(t, s, `{"id":"ab","lines":[2],"pair":[1]}`, "/pair contains")
	problems(t, s, `{"id":"ab","lines":[2],"mail":"x"}`, " dependencies", "/mail format")
	problems(t, s, `{"id":"ab","lines":[2],"kind":"b"}`, " required", "/kind enum")
	problems(t, s, `{"id":"ab","lines":[2],"any":5,"one":7}`, "/any anyOf", "/any exclusiveMaximum")
	problems(t, s, `{"id":"ab","lines":[2],"any":4,"one":3}`, "/one oneOf")
	problems(t, s, `{"id":"ab","lines":[2],"any":4}`, " not")
	problems(t, s, `{"id":"ab","lines":[2],"one":7}`, " required")
	problems(t, s, `{"id":"ab","lines":[2],"no":1}`, "/no false")
	problems(t, s, `{"id":"ab","lines":[2],"a/b~":1,"toolong":1}`, "/a~1b~0 additionalProperties", "/toolong additionalProperties", "/toolong propertyNames")
}

func TestValidateMessagesAreMadeOfTheSchemaAlone(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"type":"integer"},"b":{"maxLength":1},"c":{"enum":["x"]},"d":{"const":[1]},"e":{"format":"email"},"f":{"pattern":"^x$"},
		"g":{"anyOf":[{"minLength":99},{"pattern":"^y"}]},"h":{"maximum":1,"multipleOf":7},"i":{"uniqueItems":true},"j":{"not":{}}},"additionalProperties":false,"required":["z"],
		"propertyNames":{"maxLength":3},"dependencies":{"a":["y"]}}`)
	found, err := s.Validate([]byte(`{"a":"SECRET","b":"SECRET","c":"SECRET","d":"SECRET","e":"SECRET","f":"SECRET","g":"SECRET","h":123456789.5,"i":["SECRET","SECRET"],"j":"SECRET","SECRET":1}`))
	require.NoError(t, err)
	require.Greater(t, len(found), 12)
	for _, p := range found {
		assert.NotContains(t, p.Message, "SECRET")
		assert.NotContains(t, p.Message, "123456789")
	}
	assert.Contains(t, found, jsonschema.Problem{Pointer: "/a", Keyword: "type", Message: "must be integer"})
}

func TestValidateIsDeterministicAndBounded(t *testing.T) {
	s := compile(t, `{"additionalProperties":{"type":"string"},"patternProperties":{"1":{"minimum":5000},"2":{"multipleOf":7000}}}`)
	var members []string
	for i := range 1000 {
		members = append(members, fmt.Sprintf(`"k%d":%d`, i, i+1))
	}
	doc := []byte(`{` + strings.Join(members, ",") + `}`)
	first, err := s.Validate(doc)
	require.NoError(t, err)
	assert.Len(t, first, jsonschema.MaxProblems)
	for range 5 {
		again, err := s.Validate(doc)
		require.NoError(t, err)
		assert.Equal(t, first, again)
	}
	for i := 1; i < len(first); i++ {
		assert.LessOrEqual(t, first[i-1].Pointer, first[i].Pointer)
	}
}

func TestValidateReportsTheSameProblemOnce(t *testing.T) {
	s := compile(t, `{"allOf":[{"required":["a"]},{"required":["a"]}]}`)
	problems(t, s, `{}`, " required")
}

func TestValidateNumbersAreExact(t *testing.T) {
	maximum := compile(t, `{"maximum":9007199254740992}`)
	problems(t, maximum, `9007199254740992`)
	problems(t, maximum, `9007199254740993`, " maximum")
	problems(t, maximum, `9007199254740992.0000000000000000000000000001`, " maximum")
	problems(t, compile(t, `{"exclusiveMaximum":9007199254740993}`), `9007199254740992`)
	problems(t, compile(t, `{"multipleOf":0.01}`), `9007199254740993.07`)
	problems(t, compile(t, `{"multipleOf":0.01}`), `9007199254740993.075`, " multipleOf")
	problems(t, compile(t, `{"multipleOf":3}`), `9007199254740993`)
	problems(t, compile(t, `{"multipleOf":3}`), `9007199254740992`, " multipleOf")
	problems(t, compile(t, `{"const":9007199254740993}`), `9007199254740992`, " const")
	problems(t, compile(t, `{"enum":[9007199254740992,9007199254740993]}`), `9007199254740993.0`)
	problems(t, compile(t, `{"uniqueItems":true}`), `[9007199254740992,9007199254740993]`)
	problems(t, compile(t, `{"enum":[1e400]}`), `10e399`)
	problems(t, compile(t, `{"type":"integer"}`), `1e400`)
	problems(t, compile(t, `{"type":"integer"}`), `1.50e1`)
	problems(t, compile(t, `{"type":"integer"}`), `1.5`, " type")
	problems(t, compile(t, `{"type":"integer"}`), `1e-1000`, " type")
	problems(t, compile(t, `{"minimum":1e400}`), `1e399`, " minimum")
	problems(t, compile(t, `{"maxLength":1e300,"minItems":2.0}`), `"x"`)
}

func TestNumbersThatWouldBlowUpAreTypedErrors(t *testing.T) {
	s := compile(t, `{"additionalProperties":{"type":"number","maximum":5}}`)
	for _, number := range []string{`1e999999999`, `1e-999999999`, `1e1001`, `-1E+99999999999999999999999`, strings.Repeat("9", 1001), "0." + strings.Repeat("0", 5000) + "1", `0e5000`} {
		_, err := s.Validate([]byte(`{"a":1,"b/":` + number + `}`))
		assert.Equal(t, &jsonschema.NumberError{Pointer: "/b~1", Offset: 12}, err, shorten(number))
		assert.ErrorAs(t, refused(t, `{"enum":[`+number+`]}`), new(*jsonschema.NumberError))
	}
	problems(t, s, `{"a":1e1000,"b":1e-1000}`, "/a maximum")
}

func TestValidateDoesNotJudgeMalformedDocuments(t *testing.T) {
	s := compile(t, `{}`)
	_, err := s.Validate([]byte(`{"a":}`))
	assert.ErrorAs(t, err, new(*jsonvalue.SyntaxError))
	_, err = s.Validate([]byte("\"\xff\""))
	assert.ErrorAs(t, err, new(*jsonvalue.SyntaxError))
	_, err = s.Validate([]byte(strings.Repeat("[", 600) + strings.Repeat("]", 600)))
	assert.ErrorAs(t, err, new(*jsonvalue.DepthError))
	_, err = s.Validate([]byte("[" + strings.Repeat("0,", jsonschema.MaxValues) + "0]"))
	assert.ErrorAs(t, err, new(*jsonvalue.ValuesError))
}

func TestValidateTakesTheLastOfRepeatedMembers(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"type":"string"}},"maxProperties":1,"required":["a"]}`)
	problems(t, s, `{"a":1,"\u0061":"x"}`)
	problems(t, s, `{"a":"x","a":1}`, "/a type")
}

func TestValidateStringsAsTheyRead(t *testing.T) {
	problems(t, compile(t, `{"maxLength":1}`), `"\ud83d\ude00"`)
	problems(t, compile(t, `{"maxLength":1}`), `"\ud83d"`)
	problems(t, compile(t, `{"maxLength":1}`), `"\ud83d\ud83d"`, " maxLength")
	problems(t, compile(t, `{"pattern":"^\ufffd$"}`), `"\ud800"`)
	problems(t, compile(t, `{"const":"\ufffd"}`), `"\ud800"`, " const")
	problems(t, compile(t, `{"const":"\ud800"}`), `"\ud800"`)
	problems(t, compile(t, `{"properties":{"\ud800":false}}`), `{"\ufffd":1}`)
	problems(t, compile(t, `{"properties":{"\ud800":false}}`), `{"\ud800":1}`, "/\uFFFD false")
	problems(t, compile(t, `{"patternProperties":{"^a\n$":false}}`), `{"a\n":1}`, "/a\n false")
	problems(t, compile(t, `{"propertyNames":{"pattern":"^a"}}`), `{"\u0061":1,"b":2}`, "/b propertyNames")
}

func TestValidateFormatsAreAboutStrings(t *testing.T) {
	s := compile(t, `{"format":"email"}`)
	problems(t, s, `5`)
	problems(t, s, `{}`)
	problems(t, s, `"a@b.c"`)
	problems(t, s, `"a"`, " format")
	problems(t, compile(t, `{"format":"of my own"}`), `"a"`)
	problems(t, compile(t, `{"format":"date-time"}`), `"2026-01-02T03:04:05Z"`)
}

func TestValidateIgnoresKeywordsOfOtherDrafts(t *testing.T) {
	problems(t, compile(t, `{`+inDraft4+`,"const":1,"contains":false,"propertyNames":false,"if":true,"then":false}`), `{"a":[2]}`)
	problems(t, compile(t, `{`+inDraft6+`,"if":true,"then":false}`), `1`)
	problems(t, compile(t, `{`+inDraft4+`,"minimum":5,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}`), `5`, " exclusiveMinimum")
	problems(t, compile(t, `{"then":false,"else":false}`), `1`)
}

// Each of these is cheap to send. None may take long to judge or to refuse.
func TestValidateBoundsTheWork(t *testing.T) {
	million := "[" + strings.Repeat("0,", 999_999) + "0]"
	most := "[" + strings.Repeat("0,", jsonschema.MaxValues-2) + "0]"
	names := func(n, length int) string {
		var b strings.Builder
		b.WriteString("{")
		for i := range n {
			fmt.Fprintf(&b, `"%0*d":0,`, length, i)
		}
		return b.String() + `"z":0}`
	}
	deep := strings.Repeat("[", 500) + `"` + strings.Repeat("x", 4<<20) + `"` + strings.Repeat("]", 500)
	wide := strings.Repeat("[", 500) + strings.Repeat("0,", 150_000) + "0" + strings.Repeat("]", 500)
	var numbers []string
	for i := range jsonschema.MaxValues - 1 {
		numbers = append(numbers, strconv.Itoa(i))
	}
	different := "[" + strings.Join(numbers, ",") + "]"
	var alternatives []string
	for i := range 1500 {
		alternatives = append(alternatives, fmt.Sprintf(`{"const":%d}`, -1-i))
	}
	var patterns []string
	for i := range 80 {
		patterns = append(patterns, fmt.Sprintf(`"(a|b)*%d(x{1,100})":{}`, i))
	}
	for name, c := range map[string]struct{ schema, doc string }{
		"a million values":                {`{}`, million},
		"as many as allowed":              {`{"items":{"type":"integer","minimum":0,"maximum":5}}`, most},
		"all of them wrong":               {`{"items":{"type":"string"}}`, most},
		"unique":                          {`{"uniqueItems":true}`, most},
		"unique at every level":           {`{"uniqueItems":true,"items":{"$ref":"#"}}`, deep},
		"unique and different":            {`{"uniqueItems":true}`, different},
		"unique and wide":                 {`{"uniqueItems":true,"items":{"$ref":"#"}}`, wide},
		"const at every level":            {`{"items":{"$ref":"#"},"not":{"const":1}}`, deep},
		"many alternatives":               {`{"items":{"oneOf":[` + strings.Join(alternatives, ",") + `]}}`, most},
		"contains at every level":         {`{"contains":{"$ref":"#"}}`, wide},
		"patterns":                        {`{"patternProperties":{` + strings.Join(patterns, ",") + `}}`, names(100_000, 30)},
		"a pattern on long text":          {`{"pattern":"(x?){1000}y"}`, `"` + strings.Repeat("x", 4<<20) + `"`},
		"long names that are not allowed": {`{"additionalProperties":false}`, names(200, 20_000)},
		"regular expressions":             {`{"items":{"format":"regex"}}`, "[" + strings.Repeat(`"(\\pL{1000})(\\pL{1000})(\\pL{1000})",`, 20_000) + `""]`},
		"a long regular expression":       {`{"format":"regex"}`, `"` + strings.Repeat("x{1000}", 500_000) + `"`},
		"a long e-mail address":           {`{"format":"email"}`, `"` + strings.Repeat("(", 4<<20) + `"`},
		"a long template":                 {`{"format":"uri-template"}`, `"` + strings.Repeat("{a", 2<<20) + `"`},
		"dependencies":                    {`{"dependencies":{"a":["b"],"c":["d"],"z":["y"]}}`, names(190_000, 6)},
		"long numbers":                    {`{"items":{"multipleOf":7e-1000,"maximum":1e1000}}`, "[" + strings.Repeat(strings.Repeat("7", 990)+"e-900,", 4200) + "0]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := compile(t, c.schema)
			start := time.Now()
			found, err := s.Validate([]byte(c.doc))
			took := time.Since(start)
			t.Logf("%v: %d problems, %v", took, len(found), err)
			require.NotErrorAs(t, err, new(*jsonschema.PanicError))
			assert.Less(t, took, 5*time.Second) // a tenth of it on a machine that has nothing else to do
			total := 0
			for _, p := range found {
				total += len(p.Pointer) + len(p.Message)
			}
			assert.Less(t, total, 8<<20)
		})
	}
}

func TestSchemaIsSafeForConcurrentUse(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"type":"string","pattern":"^x"},"b":{"enum":[1,2]}},"required":["a"]}`)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				if rand.N(2) == 0 {
					problems(t, s, `{"a":"x","b":1}`)
				} else {
					problems(t, s, `{"a":"\u0079","b":3}`, "/a pattern", "/b enum")
				}
			}
		})
	}
	group.Wait()
}
