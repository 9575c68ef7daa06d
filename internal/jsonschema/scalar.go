package jsonschema

import (
	"bytes"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// equality checks const and enum. The functions of the keywords return whether
// the evaluation is over.
func (o *outcome) equality(n *node) bool {
	if n.constant == nil && n.enum == nil {
		return false
	}
	raw := o.e.raw(o.x)
	o.e.steps -= 2 * len(raw)
	identity := jsonvalue.Identity(o.e.other[:0], raw, false)
	o.e.other = identity
	if n.constant != nil && !bytes.Equal(identity, n.constant) {
		if o.fail("const", "must be %s", detail(n.constantText)) {
			return true
		}
	}
	if n.enum != nil {
		if _, ok := n.enum[string(identity)]; !ok {
			return o.fail("enum", "must be one of %s", detail(n.enumText))
		}
	}
	return false
}

func (o *outcome) string(n *node) bool {
	if n.minLength < 0 && n.maxLength < 0 && n.pattern == nil && n.format == "" {
		return false
	}
	text := o.e.text(o.x)
	if n.minLength >= 0 || n.maxLength >= 0 {
		o.e.steps -= len(text) / 2
		length := utf8.RuneCount(text)
		if length < n.minLength && o.fail("minLength", "must have at least %s", count(n.minLength, "character", "characters")) {
			return true
		}
		if n.maxLength >= 0 && length > n.maxLength && o.fail("maxLength", "must have at most %s", count(n.maxLength, "character", "characters")) {
			return true
		}
	}
	if n.pattern != nil {
		if o.e.steps -= n.pattern.cost(len(text)); o.e.steps < 0 {
			return true
		}
		if !n.pattern.regexp.Match(text) && o.fail("pattern", "must match the pattern %s", detail(n.pattern.source)) {
			return true
		}
	}
	if n.format != "" {
		if o.e.steps -= formatCost(n.format, text); o.e.steps < 0 {
			return true
		}
		if !gojsonschema.FormatCheckers.IsFormat(n.format, string(text)) {
			return o.fail("format", "must have the format %s", detail(n.format))
		}
	}
	return false
}

// formatCost returns the steps for checking a format. To check a regular
// expression is to compile one.
func formatCost(format string, text []byte) int {
	if format == "regex" {
		return 100_000 + 200*len(text)
	}
	return 50 + 20*len(text)
}

func (o *outcome) number(n *node) bool {
	if n.minimum == nil && n.maximum == nil && n.exclusiveMinimum == nil && n.exclusiveMaximum == nil && n.multipleOf == nil {
		return false
	}
	raw := o.e.raw(o.x)
	o.e.steps -= len(raw)
	v := parseNumber(raw)
	if v.rat != nil {
		o.e.steps -= 500 + 2*len(raw) // MaxExponent may add as many zeros
	}
	return n.minimum != nil && v.compare(n.minimum.number) < 0 &&
		o.fail("minimum", "must be at least %s", detail(n.minimum.text)) ||
		n.maximum != nil && v.compare(n.maximum.number) > 0 &&
			o.fail("maximum", "must be at most %s", detail(n.maximum.text)) ||
		n.exclusiveMinimum != nil && v.compare(n.exclusiveMinimum.number) <= 0 &&
			o.fail("exclusiveMinimum", "must be greater than %s", detail(n.exclusiveMinimum.text)) ||
		n.exclusiveMaximum != nil && v.compare(n.exclusiveMaximum.number) >= 0 &&
			o.fail("exclusiveMaximum", "must be less than %s", detail(n.exclusiveMaximum.text)) ||
		n.multipleOf != nil && !v.multipleOf(n.multipleOf.number) &&
			o.fail("multipleOf", "must be a multiple of %s", detail(n.multipleOf.text))
}
