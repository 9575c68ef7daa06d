package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/xeipuuv/gojsonschema"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/jsonschema"
)

// The verdicts are gojsonschema's, on schemas and documents where it is exact.
func TestValidateAgreesWithGojsonschema(t *testing.T) {
	accepted, judged := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		draft := rapid.SampledFrom([]int{4, 6, 7}).Draw(t, "draft")
		schema := object(
			member("$schema", fmt.Sprintf(`"http://json-schema.org/draft-0%d/schema#"`, draft)),
			member("definitions", object(member("d", drawSchema(t, draft, 2)))),
			strings.TrimSuffix(strings.TrimPrefix(drawSchema(t, draft, 3), "{"), "}"),
		)
		s, err := jsonschema.Compile([]byte(schema))
		if err != nil {
			return // too recursive, mostly; gojsonschema might not come back
		}
		reference, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(schema))
		if err != nil {
			require.Contains(t, err.Error(), "cannot be greater than", schema) // a minimum above its maximum is allowed
			return
		}
		for range 8 {
			doc := drawDocument(t, 3)
			result, err := reference.Validate(gojsonschema.NewStringLoader(doc))
			require.NoError(t, err)
			found, err := s.Validate([]byte(doc))
			require.NoError(t, err)
			require.Equal(t, result.Valid(), len(found) == 0, "%s\n%s\n%v\n%v", schema, doc, result.Errors(), found)
			if judged++; result.Valid() {
				accepted++
			}
		}
	})
	t.Logf("%d documents, %d of them valid", judged, accepted)
}

func object(members ...string) string {
	var all []string
	for _, m := range members {
		if m != "" {
			all = append(all, m)
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

func member(name, value string) string { return fmt.Sprintf("%q:%s", name, value) }

var (
	someNames   = []string{"a", "b", "ab", "$ref", "é"}
	someScalars = []string{`null`, `true`, `false`, `0`, `1`, `1.0`, `2`, `-3`, `2.5`, `"a"`, `"ab"`, `"é"`, `""`, `"2026-01-02"`}
)

func drawSchema(t *rapid.T, draft, depth int) string {
	if draft > 4 && rapid.IntRange(0, 9).Draw(t, "boolean") == 0 && depth < 3 {
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "schema")
	}
	if depth < 3 && rapid.IntRange(0, 9).Draw(t, "reference") == 0 {
		return rapid.SampledFrom([]string{`{"$ref":"#"}`, `{"$ref":"#/definitions/d"}`}).Draw(t, "ref")
	}
	keywords := map[string]string{}
	for range rapid.IntRange(0, 4).Draw(t, "keywords") {
		name, value := drawKeyword(t, draft, depth)
		if name != "" {
			keywords[name] = value
		}
	}
	if draft == 4 { // where the one needs the other
		if _, ok := keywords["minimum"]; !ok {
			delete(keywords, "exclusiveMinimum")
		}
		if _, ok := keywords["maximum"]; !ok {
			delete(keywords, "exclusiveMaximum")
		}
	}
	text, err := json.Marshal(raw(keywords))
	require.NoError(t, err)
	return string(text)
}

func raw(keywords map[string]string) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for name, value := range keywords {
		all[name] = json.RawMessage(value)
	}
	return all
}

func drawKeyword(t *rapid.T, draft, depth int) (name, value string) {
	scalars := []string{"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format",
		"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "required", "enum", "const"}
	schemas := []string{"properties", "patternProperties", "additionalProperties", "propertyNames", "dependencies", "items", "tuple", "additionalItems",
		"contains", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
	choice := append([]string{}, scalars...)
	if depth > 0 {
		choice = append(choice, schemas...)
	}
	name = rapid.SampledFrom(choice).Draw(t, "keyword")
	sub := func() string { return drawSchema(t, draft, depth-1) }
	list := func() string {
		var all []string
		for range rapid.IntRange(1, 3).Draw(t, "schemas") {
			all = append(all, sub())
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	distinct := func(of []string, least int) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), least, 3, rapid.ID[string]).Draw(t, "distinct")
	}
	switch name {
	case "type":
		types := []string{`"null"`, `"boolean"`, `"integer"`, `"number"`, `"string"`, `"array"`, `"object"`}
		value = "[" + strings.Join(distinct(types, 1), ",") + "]"
	case "minimum", "maximum":
		value = rapid.SampledFrom([]string{"0", "1", "2", "2.5", "-3", "1e0"}).Draw(t, "bound")
	case "exclusiveMinimum", "exclusiveMaximum":
		value = rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, "bound")
		if draft == 4 {
			value = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "exclusive")
		}
	case "multipleOf":
		value = rapid.SampledFrom([]string{"1", "2", "0.5", "1.5"}).Draw(t, "divisor")
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		value = rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, "count")
	case "pattern":
		value = rapid.SampledFrom([]string{`"a"`, `"^a"`, `"b$"`, `"^$"`, `"."`, `"^\\d"`}).Draw(t, "pattern")
	case "format":
		value = `"date"`
		return "allOf", `[{"type":["string","null","boolean","array","object"]},{"format":` + value + `}]`
	case "uniqueItems":
		value = "true"
	case "required":
		value = quoteAll(distinct(someNames, 1))
	case "enum":
		distinctScalars := []string{`null`, `true`, `1`, `2.0`, `"a"`, `"é"`, `[1]`, `{"a":1.0}`, `{}`, `[]`}
		value = "[" + strings.Join(distinct(distinctScalars, 1), ",") + "]"
	case "const":
		value = drawDocument(t, 1)
	case "properties", "patternProperties", "dependencies":
		names := someNames
		if name == "patternProperties" {
			names = []string{"a", "^b", "é", "^.$"}
		}
		var all []string
		for _, n := range distinct(names, 1) {
			if name == "dependencies" && rapid.Bool().Draw(t, "names") {
				all = append(all, member(n, quoteAll(distinct(someNames, 1))))
			} else {
				all = append(all, member(n, sub()))
			}
		}
		value = object(all...)
	case "tuple":
		return "items", list()
	case "allOf", "anyOf", "oneOf":
		value = list()
	default:
		value = sub()
	}
	return name, value
}

func quoteAll(names []string) string {
	text, _ := json.Marshal(names)
	return string(text)
}

func drawDocument(t *rapid.T, depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 4:
		var all []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			all = append(all, drawDocument(t, depth-1))
		}
		return "[" + strings.Join(all, ",") + "]"
	case 5:
		var all []string
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(someNames), 0, 4).Draw(t, "members") {
			all = append(all, member(name, drawDocument(t, depth-1)))
		}
		return object(all...)
	default:
		return rapid.SampledFrom(someScalars).Draw(t, "scalar")
	}
}
