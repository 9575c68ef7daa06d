package jsonschema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xeipuuv/gojsonschema"

	"github.com/countersign/countersign/internal/jsonschema"
	"github.com/countersign/countersign/internal/jsonvalue"
)

const (
	inDraft4 = `"$schema":"http://json-schema.org/draft-04/schema#"`
	inDraft6 = `"$schema":"http://json-schema.org/draft-06/schema#"`
	inDraft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
)

func compile(t require.TestingT, schema string) *jsonschema.Schema {
	s, err := jsonschema.Compile([]byte(schema))
	require.NoError(t, err, schema)
	return s
}

func refused(t *testing.T, schema string) *jsonschema.SchemaError {
	t.Helper()
	start := time.Now()
	s, err := jsonschema.Compile([]byte(schema))
	var refusal *jsonschema.SchemaError
	require.ErrorAs(t, err, &refusal, shorten(schema))
	require.Nil(t, s)
	require.NotErrorAs(t, err, new(*jsonschema.PanicError), shorten(schema))
	require.Less(t, time.Since(start), 3*time.Second, shorten(schema))
	return refusal
}

func shorten(s string) string { return s[:min(len(s), 200)] }

func TestCompileAcceptsSchemasOfThreeDrafts(t *testing.T) {
	for _, schema := range []string{
		`{}`, `true`, `false`, `{"type":"string"}`,
		`{` + inDraft4 + `,"id":"http://example.com/s","minimum":1,"exclusiveMinimum":true}`,
		`{` + inDraft6 + `,"$id":"http://example.com/s","exclusiveMinimum":1,"examples":[1]}`,
		`{` + inDraft7 + `,"$id":"http://example.com/s#","if":{},"then":true,"$comment":"x","readOnly":true}`,
		`{"$schema":"https://json-schema.org/draft-07/schema"}`,
		`{"definitions":{"a":{` + inDraft7 + `}}}`,
		`{"unknown":{"$ref":5,"pattern":"("}}`,
	} {
		compile(t, schema)
	}
}

func TestCompileRefusesWhatIsNoSchema(t *testing.T) {
	for schema, pointer := range map[string]string{
		``: "", `{`: "", `{"a":1}x`: "", "{\"title\":\"\xff\"}": "", `[]`: "", `"x"`: "", `null`: "", `1`: "",
		`{"type":"strnig"}`:                                          "/type",
		`{"minimum":"x"}`:                                            "/minimum",
		`{"maxLength":-1}`:                                           "/maxLength",
		`{"maxLength":1.5}`:                                          "/maxLength",
		`{"properties":{"a":{"type":"strnig"}}}`:                     "/properties/a/type",
		`{"properties":{"a/b":{"items":{"not":5}}}}`:                 "/properties/a~1b/items/not",
		`{"properties":[]}`:                                          "/properties",
		`{"properties":{"a":5}}`:                                     "/properties/a",
		`{"required":"a"}`:                                           "/required",
		`{"required":["a","a"]}`:                                     "/required",
		`{"enum":[]}`:                                                "/enum",
		`{"enum":[1,1.0]}`:                                           "/enum/1",
		`{"allOf":[]}`:                                               "/allOf",
		`{"multipleOf":0}`:                                           "/multipleOf",
		`{"exclusiveMinimum":true}`:                                  "/exclusiveMinimum",
		`{` + inDraft4 + `,"exclusiveMinimum":1}`:                    "/exclusiveMinimum",
		`{` + inDraft4 + `,"properties":{"a":true}}`:                 "/properties/a",
		`{` + inDraft4 + `,"exclusiveMinimum":true}`:                 "",
		`{"definitions":{"a":{"type":"strnig"}}}`:                    "/definitions/a/type",
		`{"$defs":{"a":{"type":"strnig"}}}`:                          "/$defs/a/type",
		`{"x":{"type":1},"items":{"$ref":"#/x"}}`:                    "/x/type",
		`{"title":5}`:                                                "/title",
		`{"a":{"b":1,"b":1}}`:                                        "/a/b",
		`{"const":{"b":1,"\u0062":1}}`:                               "/const/b",
		`{"$schema":"http://json-schema.org/schema"}`:                "/$schema",
		`{"$schema":"https://json-schema.org/draft/2020-12/schema"}`: "/$schema",
		`{"$schema":"http://json-schema.org/draft-03/schema#"}`:      "/$schema",
		`{"$schema":7}`:                                              "/$schema",
		`{"definitions":{"a":{` + inDraft4 + `}}}`:                   "/definitions/a/$schema",
	} {
		assert.Equal(t, pointer, refused(t, schema).Pointer, schema)
	}
}

func TestCompileUnwrapsToWhatIsWrongWithTheText(t *testing.T) {
	assert.ErrorAs(t, refused(t, `{"a":}`), new(*jsonvalue.SyntaxError))
	assert.ErrorAs(t, refused(t, strings.Repeat(`{"not":`, 10_000)+`{}`+strings.Repeat(`}`, 10_000)), new(*jsonvalue.DepthError))
	assert.ErrorAs(t, refused(t, `{"enum":[`+strings.Repeat("0,", 30_000)+`0]}`), new(*jsonvalue.ValuesError))
	assert.ErrorAs(t, refused(t, `{"minimum":1e999999999}`), new(*jsonschema.NumberError))
	assert.Contains(t, refused(t, `{"title":"`+strings.Repeat("x", jsonschema.MaxSchemaBytes)+`"}`).Reason, "1 MiB")
}

func TestCompileRefusesReferencesThatLeaveTheDocument(t *testing.T) {
	for _, ref := range []string{"http://example.com/s", "file:///etc/passwd", "other.json", "other.json#/a", "/a", "", "//example.com/s", "http://json-schema.org/draft-07/schema#", "?x#", " #"} {
		for pointer, schema := range map[string]string{
			"/$ref":                         `{"$ref":%q}`,
			"/properties/a/$ref":            `{"properties":{"a":{"$ref":%q}}}`,
			"/definitions/unused/$ref":      `{"definitions":{"unused":{"$ref":%q}}}`,
			"/$defs/unused/$ref":            `{"$defs":{"unused":{"$ref":%q}}}`,
			"/items/0/$ref":                 `{"items":[{"$ref":%q}]}`,
			"/additionalItems/$ref":         `{"additionalItems":{"$ref":%q}}`,
			"/contains/$ref":                `{"contains":{"$ref":%q}}`,
			"/propertyNames/$ref":           `{"propertyNames":{"$ref":%q}}`,
			"/patternProperties/^x/$ref":    `{"patternProperties":{"^x":{"$ref":%q}}}`,
			"/additionalProperties/$ref":    `{"additionalProperties":{"$ref":%q}}`,
			"/dependencies/a/$ref":          `{"dependencies":{"a":{"$ref":%q}}}`,
			"/allOf/0/anyOf/0/oneOf/0/$ref": `{"allOf":[{"anyOf":[{"oneOf":[{"$ref":%q}]}]}]}`,
			"/not/if/then/else/$ref":        `{"not":{"if":{"then":{"else":{"$ref":%q}}}}}`,
			"/properties/$ref/$ref":         `{"properties":{"$ref":{"$ref":%q}}}`,
			"/definitions/const/$ref":       `{"definitions":{"const":{"$ref":%q}}}`,
			"/definitions/properties/$ref":  `{"definitions":{"properties":{"$ref":%q}}}`,
		} {
			assert.Equal(t, pointer, refused(t, fmt.Sprintf(schema, ref)).Pointer, "%s %q", schema, ref)
		}
	}
}

func TestCompileRefusesReferencesToNothing(t *testing.T) {
	for _, ref := range []string{`"#/definitions/b"`, `"#a"`, `"#/definitions/a/type/0"`, `"#/%zz"`, `"#/~2"`, `"#/allOf/01"`, `"#/allOf/-"`, `"#/allOf/1"`, `"#/definitions"`, `5`, `null`, `{}`, `["#"]`} {
		schema := `{"definitions":{"a":{"type":"string"}},"allOf":[{}],"items":{"$ref":` + ref + `}}`
		if ref == `"#/definitions"` { // an object, but not one that the metaschema takes for a schema
			schema = strings.Replace(schema, `"a":{"type":"string"}`, `"type":{}`, 1)
		}
		assert.NotEmpty(t, refused(t, schema).Pointer, schema)
	}
}

func TestCompileResolvesReferencesWithinTheDocument(t *testing.T) {
	s := compile(t, `{
		"definitions": {"a b": {"type":"string"}, "x/y~": {"minimum":5}, "": {"maximum":9}, "%": {"type":"boolean"}, "alias": {"$ref":"#/definitions/a%20b"}},
		"properties": {
			"a": {"$ref":"#/definitions/a%20b"}, "b": {"$ref":"#/definitions/x~1y~0"}, "c": {"$ref":"#/definitions/"},
			"d": {"$ref":"#/elsewhere/0"}, "e": {"$ref":"#/properties/a"}, "f": {"$ref":"#/definitions/%25"}, "g": {"$ref":"#/definitions/alias"}
		},
		"elsewhere": [{"type":"array"}]
	}`)
	problems(t, s, `{"a":"","b":5,"c":9,"d":[],"e":"","f":true,"g":""}`)
	problems(t, s, `{"a":0,"b":4,"c":10,"d":0,"e":0,"f":0,"g":0}`,
		"/a type", "/b minimum", "/c maximum", "/d type", "/e type", "/f type", "/g type")
}

func TestCompileRefusesIDsThatMoveTheBase(t *testing.T) {
	assert.Equal(t, "/properties/a/$id", refused(t, `{"properties":{"a":{"$id":"http://example.com/x"}}}`).Pointer)
	assert.Equal(t, "/definitions/a/$id", refused(t, `{"definitions":{"a":{"$id":"other"}}}`).Pointer)
	assert.Equal(t, "/items/id", refused(t, `{`+inDraft4+`,"items":{"id":"other"}}`).Pointer)
	compile(t, `{"$id":"http://example.com/root.json","items":{"$id":"#/items","$ref":"#/definitions/a"},"definitions":{"a":{"$id":"#a"}}}`)
	compile(t, `{"properties":{"$id":{"type":"string"},"id":{"const":"x"}},"items":{"id":"http://example.com/means-nothing"}}`)
}

func TestCompileRefusesReferencesThatConsumeNothing(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#"}`,
		`{"allOf":[{"$ref":"#"}]}`,
		`{"anyOf":[{"$ref":"#"}]}`,
		`{"oneOf":[{"$ref":"#"}]}`,
		`{"not":{"$ref":"#"}}`,
		`{"if":{"$ref":"#"}}`,
		`{"if":{},"then":{"$ref":"#"}}`,
		`{"if":{},"else":{"$ref":"#"}}`,
		`{"dependencies":{"a":{"$ref":"#"}}}`,
		`{"definitions":{"a":{"allOf":[{"$ref":"#/definitions/b"}]},"b":{"allOf":[{"$ref":"#/definitions/a"}]}},"$ref":"#/definitions/a"}`,
		`{"definitions":{"a":{"$ref":"#/definitions/a"}}}`,
		`{"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}},"items":{"$ref":"#/definitions/a"}}`,
		`{"properties":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/properties/a"}]}}}`,
		`{"items":{"not":{"allOf":[{"$ref":"#/items"}]}}}`,
	} {
		assert.Contains(t, refused(t, schema).Reason, "itself", schema)
	}
}

func TestCompileRefusesPatternsThatDoNotCompile(t *testing.T) {
	assert.Equal(t, "/pattern", refused(t, `{"pattern":"("}`).Pointer)
	assert.Equal(t, "/items/pattern", refused(t, `{"items":{"pattern":"(?=a)"}}`).Pointer)
	assert.Equal(t, "/patternProperties/a~1(", refused(t, `{"patternProperties":{"a/(":{}}}`).Pointer)
	assert.Equal(t, "/pattern", refused(t, `{"pattern":"`+strings.Repeat("x{1000}", 1000)+`"}`).Pointer)
	assert.Equal(t, "/pattern", refused(t, `{"pattern":"((x{10}){10}){1000}"}`).Pointer)
	many := strings.Repeat(`{"pattern":"x{1000}"},`, 500)
	assert.Contains(t, refused(t, `{"allOf":[`+many+`{}]}`).Reason, "together")
	compile(t, `{"pattern":"^[a-z]{1,100}$","patternProperties":{"\\d+":{}}}`)
}

// What a $ref stands beside is ignored, and so are the words of the user.
func TestCompileGoesByPosition(t *testing.T) {
	s := compile(t, `{
		"properties": {"$ref":{"type":"string"},"pattern":{"type":"number"},"$id":{},"id":{},"$schema":{},"properties":{"type":"null"},"definitions":{},"enum":{"minimum":3}},
		"definitions": {"beside":{"$ref":"#/definitions/b","pattern":"(","properties":{"a":{"$ref":"http://example.com/"}},"type":"strnig"},"b":{}},
		"patternProperties": {"^\\$ref$":{"minLength":1}},
		"dependencies": {"$ref":["pattern"]},
		"enum": [{"$ref":"x","pattern":0,"properties":null,"enum":3},{"$ref":"http://example.com/","$id":5,"pattern":"("}],
		"default": {"$ref":5,"$id":"http://example.com/","pattern":"("},
		"examples": [{"$ref":5,"$schema":"http://example.com"}]
	}`)
	problems(t, s, `{"$ref":"x","pattern":0,"properties":null,"enum":3}`)
	problems(t, s, `{"$ref":"","properties":1,"enum":2}`, " dependencies", " enum", "/$ref minLength", "/enum minimum", "/properties type")
	compile(t, `{"const":{"$ref":"http://example.com/","$id":"http://example.com/"}}`)
}

func TestCompileRefusesExponentialEvaluation(t *testing.T) {
	chain := func(link string) string {
		var b strings.Builder
		b.WriteString(`{"definitions":{`)
		for i := range 20 {
			fmt.Fprintf(&b, `"d%d":%s,`, i, strings.ReplaceAll(link, "NEXT", fmt.Sprintf("#/definitions/d%d", i+1)))
		}
		b.WriteString(`"d20":{}},"$ref":"#/definitions/d0"}`)
		return b.String()
	}
	for _, schema := range []string{
		`{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`,
		`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`,
		`{"items":{"$ref":"#"},"contains":{"$ref":"#"}}`,
		`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}`,
		`{"patternProperties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}`,
		`{"allOf":[{"additionalProperties":{"$ref":"#"}},{"properties":{"a":{"$ref":"#"}}}]}`,
		`{"allOf":[{"items":[{"$ref":"#"}]},{"items":{"$ref":"#"}}]}`,
		`{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`,
		`{"if":{"properties":{"a":{"$ref":"#"}}},"then":{"properties":{"a":{"$ref":"#"}}}}`,
		chain(`{"allOf":[{"$ref":"NEXT"},{"$ref":"NEXT"}]}`),
		chain(`{"anyOf":[{"not":{"$ref":"NEXT"}},{"if":{"$ref":"NEXT"}}]}`),
		chain(`{"allOf":[{"properties":{"a":{"$ref":"NEXT"}}},{"properties":{"a":{"$ref":"NEXT"}}}]}`),
		chain(`{"allOf":[{"items":{"$ref":"NEXT"}},{"additionalItems":{},"items":[{"$ref":"NEXT"}]}]}`),
	} {
		assert.Contains(t, refused(t, schema).Reason, "more often", shorten(schema))
	}
	long := `{"definitions":{`
	for i := range 2000 {
		long += fmt.Sprintf(`"d%d":{"$ref":"#/definitions/d%d"},`, i, i+1)
	}
	assert.Contains(t, refused(t, long+`"d2000":{}}}`).Reason, "too many schemas in each other")
}

func TestCompileAcceptsOrdinaryRecursion(t *testing.T) {
	for schema, doc := range map[string]string{
		`{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}},"required":["name"]}`:                                                                                                               `{"name":"a","children":[{"name":"b","children":[{"name":"c"}]}]}`,
		`{"type":"object","properties":{"next":{"oneOf":[{"type":"null"},{"$ref":"#"}]},"v":{"type":"integer"}},"additionalProperties":false}`:                                                                                                         `{"v":1,"next":{"v":2,"next":null}}`,
		`{"definitions":{"t":{"properties":{"left":{"$ref":"#/definitions/t"},"right":{"$ref":"#/definitions/t"},"v":{"type":"number"}}}},"$ref":"#/definitions/t"}`:                                                                                   `{"left":{"left":{"v":1}},"right":{"v":2}}`,
		`{"definitions":{"json":{"anyOf":[{"type":["null","boolean","number","string"]},{"type":"array","items":{"$ref":"#/definitions/json"}},{"type":"object","additionalProperties":{"$ref":"#/definitions/json"}}]}},"$ref":"#/definitions/json"}`: `{"a":[{"b":[1,null]}]}`,
		`{"definitions":{"a":{"properties":{"b":{"$ref":"#/definitions/b"}}},"b":{"properties":{"a":{"$ref":"#/definitions/a"}}}},"$ref":"#/definitions/a"}`:                                                                                           `{"b":{"a":{"b":{}}}}`,
		`{"patternProperties":{"^x-":{}},"additionalProperties":{"$ref":"#"}}`:                                                                                                                                                                         `{"x-a":1,"b":{"c":{}}}`,
		`{"properties":{"allOf":{"items":{"$ref":"#"}},"not":{"$ref":"#"},"items":{"anyOf":[{"$ref":"#"},{"type":"array","minItems":1,"items":{"$ref":"#"}}]}}}`:                                                                                       `{"allOf":[{"not":{}}]}`,
	} {
		problems(t, compile(t, schema), doc)
	}
	for _, url := range []string{"http://json-schema.org/draft-04/schema", "http://json-schema.org/draft-06/schema", "http://json-schema.org/draft-07/schema"} {
		meta, err := gojsonschema.NewReferenceLoader(url).LoadJSON() // from memory
		require.NoError(t, err)
		text, err := json.Marshal(meta)
		require.NoError(t, err)
		problems(t, compile(t, string(text)), string(text))
	}
	var enumerated []string
	for i := range 1500 {
		enumerated = append(enumerated, fmt.Sprintf(`{"const":%d,"title":"n"}`, i))
	}
	compile(t, `{"properties":{"a":{"oneOf":[`+strings.Join(enumerated, ",")+`]}}}`)
}

// Each of these is a schema that is cheap to send. None may take long to compile
// or to refuse.
func TestCompileBoundsTheWork(t *testing.T) {
	repeat := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(strings.ReplaceAll(format, "%", fmt.Sprint(i)))
		}
		return b.String()
	}
	nested := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	for name, schema := range map[string]string{
		"many properties":         `{"properties":{` + repeat(9000, `"p%":{"type":"string"}`) + `}}`,
		"many wrong properties":   `{"properties":{` + repeat(9000, `"p%":{"type":"strnig"}`) + `}}`,
		"deep":                    nested(250, `{"items":{"additionalProperties":`, `{}`, `}}`),
		"deep and wrong":          nested(250, `{"items":{"additionalProperties":`, `{"type":1}`, `}}`),
		"deep in lists":           nested(120, `{"allOf":[{"items":[`, `{}`, `]}]}`),
		"deep and wrong in lists": nested(120, `{"items":[{"items":[`, `{"type":1}`, `]}]}`),
		"dependencies":            nested(250, `{"dependencies":{"a":`, `{"type":1}`, `}}`),
		"many patterns":           `{"properties":{` + repeat(5000, `"property number %":{}`) + `},"patternProperties":{` + repeat(4000, `"(a|b)*%(x{1,9})":{}`) + `}}`,
		"long names and patterns": `{"properties":{` + repeat(50, `"`+strings.Repeat("x", 10_000)+`%":{}`) + `},"patternProperties":{` + repeat(90, `"%(x?){900}y":{}`) + `}}`,
		"many alternatives":       `{"items":{"anyOf":[` + repeat(1500, `{"properties":{"a%":{},"b":{"items":{"type":"string"}}}}`) + `]}}`,
		"many overlaps":           `{"allOf":[` + repeat(90, `{"properties":{`+strings.ReplaceAll(repeat(60, `"q%":{}`), "%", "#")+`}}`) + `]}`,
		"overlaps that move on":   `{"definitions":{` + repeat(600, `"d%":{"properties":{"a":{"$ref":"#/definitions/e%"},"b%":{"$ref":"#"}}},"e%":{"properties":{"a":{"$ref":"#/definitions/d%"}}}`) + `},"anyOf":[` + repeat(600, `{"$ref":"#/definitions/d%"}`) + `]}`,
		"a long enum":             `{"enum":[` + repeat(19_000, `"value number %"`) + `]}`,
		"a deep enum":             `{"enum":[` + nested(500, "[", repeat(10_000, "%"), "]") + `,1e400]}`,
		"required":                `{"required":[` + repeat(19_000, `"r%"`) + `]}`,
		"long chains":             `{"definitions":{` + repeat(4000, `"d%":{"properties":{"a%":{"$ref":"#/definitions/d%"}}}`) + `}}`,
		"ids":                     `{"properties":{` + repeat(4000, `"a%":{"$id":"#/x","default":{"id":"#/x"}}`) + `}}`,
		"long references":         `{"definitions":{"` + strings.Repeat("~0", 1000) + `":{}},"items":[` + repeat(400, `{"$ref":"#/definitions/`+strings.Repeat("~00", 700)+`"}`) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(schema), jsonschema.MaxSchemaBytes)
			start := time.Now()
			_, err := jsonschema.Compile([]byte(schema))
			took := time.Since(start)
			text := fmt.Sprint(err)
			t.Logf("%v: %s", took, shorten(text))
			require.NotErrorAs(t, err, new(*jsonschema.PanicError))
			assert.Less(t, took, 10*time.Second) // a tenth of it on a machine that has nothing else to do
			assert.Less(t, len(text), 100_000)
		})
	}
}

// Nobody listens where these schemas point, so whoever connects is noticed.
func TestNothingIsEverFetched(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(`{"type":"string"}`))
	}))
	defer server.Close()
	transport := http.DefaultTransport
	http.DefaultTransport = roundTripper(func(*http.Request) (*http.Response, error) {
		requests.Add(1)
		return nil, errors.New("no network")
	})
	defer func() { http.DefaultTransport = transport }()
	file := filepath.Join(t.TempDir(), "false.json")
	require.NoError(t, os.WriteFile(file, []byte(`false`), 0o600)) // would refuse everything

	for _, url := range []string{server.URL, server.URL + "/schema#", "file://" + file} {
		for _, schema := range []string{
			`{"$ref":"URL"}`, `{"$schema":"URL"}`, `{"$id":"URL","$ref":"#/definitions/a","definitions":{"a":{}}}`,
			`{"$id":"URL","items":{"$ref":"other.json"}}`, `{"items":{"$id":"URL","allOf":[{"$ref":"#/a"}]}}`,
			`{"enum":[{"$ref":"URL"}]}`, `{"const":{"$ref":"URL","$id":"URL"}}`, `{"default":{"$ref":"URL","$id":"URL","id":"URL"}}`,
			`{"examples":[{"$ref":"URL"}]}`, `{"unknown":{"$ref":"URL"},"items":{"$ref":"#/unknown"}}`, `{"properties":{"a":{"format":"uri","default":"URL"}}}`,
			`{"$ref":"#/definitions/a","definitions":{"a":{}},"properties":{"a":{"$ref":"URL"}}}`,
			`{` + inDraft4 + `,"id":"URL","items":{"$ref":"#/definitions/a"},"definitions":{"a":{"$id":"URL"}}}`,
			`{` + inDraft6 + `,"$id":"URL"}`,
		} {
			s, err := jsonschema.Compile([]byte(strings.ReplaceAll(schema, "URL", url)))
			if err != nil {
				continue // that is one way of not fetching
			}
			for _, doc := range []string{`{"a":"` + url + `"}`, `{"$ref":"` + url + `"}`, `["` + url + `"]`} {
				_, err := s.Validate([]byte(doc))
				require.NoError(t, err)
			}
		}
	}
	assert.Zero(t, requests.Load())
	_, err := net.Dial("tcp", server.Listener.Addr().String())
	assert.NoError(t, err, "the server could have been reached")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEqualComparesJSONValues(t *testing.T) {
	assert.True(t, jsonschema.Equal([]byte(`{"type":"string","maxLength":5}`), []byte(` {"maxLength":5.0, "type":"\u0073tring"}`)))
	assert.True(t, jsonschema.Equal([]byte(`nonsense`), []byte(`nonsense`)))
	for _, other := range []string{`{"type":"string"}`, `{"type":"string","maxLength":6}`, `{"type":"string","maxLength":"5"}`, `nonsense`, ``} {
		assert.False(t, jsonschema.Equal([]byte(`{"type":"string","maxLength":5}`), []byte(other)), other)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`{"properties":{"a":{"$ref":"#"}},"required":["a"]}`, `{"a":{"a":{}}}`)
	f.Add(`{"definitions":{"a":{"allOf":[{"$ref":"#/definitions/a"}]}}}`, `1`)
	f.Add(`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1e3,"exclusiveMinimum":true}`, `1e3`)
	f.Add(`{"patternProperties":{"^a":{"uniqueItems":true}},"not":{"enum":[1e400]}}`, `{"a":[1,1.0]}`)
	f.Fuzz(func(t *testing.T, schema, doc string) {
		s, err := jsonschema.Compile([]byte(schema))
		if err != nil {
			require.ErrorAs(t, err, new(*jsonschema.SchemaError))
			require.NotErrorAs(t, err, new(*jsonschema.PanicError))
			return
		}
		first, err := s.Validate([]byte(doc))
		require.NotErrorAs(t, err, new(*jsonschema.PanicError))
		again, _ := s.Validate([]byte(doc))
		require.Equal(t, first, again)
	})
}
