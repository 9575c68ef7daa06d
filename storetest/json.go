package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a fixture file. They are far above what a fixture needs, and keep a
// hostile one from taking the process with it.
const (
	maxFixtureBytes = 32 << 20
	maxFixtureDepth = 32
)

// node is a JSON value that was read strictly: no duplicate keys, no trailing
// data, no text that Go would silently replace.
type node struct {
	path  string // where it stands, as in "scenarios[3].steps[0].op"
	value any    // nil, bool, json.Number, string, []node or map[string]node
}

// parseJSON reads one JSON value strictly.
func parseJSON(data []byte) (node, error) {
	if len(data) > maxFixtureBytes {
		return node{}, fmt.Errorf("the file has %d bytes, the limit is %d", len(data), maxFixtureBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, as some editors write it
	if err := checkText(data); err != nil {
		return node{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	n, err := parseValue(dec, "", 0)
	if err != nil {
		return node{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return node{}, errors.New("data follows the value")
	}
	return n, nil
}

func parseValue(dec *json.Decoder, path string, depth int) (node, error) {
	if depth > maxFixtureDepth {
		return node{}, fmt.Errorf("%s: deeper than %d levels", path, maxFixtureDepth)
	}
	token, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return node{}, fmt.Errorf("%s: the file ends here", path)
	}
	if err != nil {
		return node{}, fmt.Errorf("%s: %w", path, err)
	}
	switch token {
	case json.Delim('['):
		items := []node{}
		for dec.More() {
			item, err := parseValue(dec, fmt.Sprintf("%s[%d]", path, len(items)), depth+1)
			if err != nil {
				return node{}, err
			}
			items = append(items, item)
		}
		return node{path, items}, closed(dec, path)
	case json.Delim('{'):
		fields := map[string]node{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return node{}, fmt.Errorf("%s: %w", path, err)
			}
			name := key.(string) // the decoder takes nothing else for a key
			if _, twice := fields[name]; twice {
				return node{}, fmt.Errorf("%s: the key %q stands there twice", path, name)
			}
			field := name
			if path != "" {
				field = path + "." + name
			}
			if fields[name], err = parseValue(dec, field, depth+1); err != nil {
				return node{}, err
			}
		}
		return node{path, fields}, closed(dec, path)
	}
	return node{path, token}, nil
}

// closed takes the delimiter that ends an array or object.
func closed(dec *json.Decoder, path string) error {
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// checkText refuses what encoding/json replaces without a word: bytes that are
// not UTF-8, and half a surrogate pair. Two identities that differ there would
// become one.
func checkText(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the file is not valid UTF-8")
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		i++ // what is escaped
		high, ok := escapedUnit(data, i)
		if !ok || high < 0xD800 || high > 0xDFFF {
			continue
		}
		low, ok := escapedUnit(data, i+6)
		if high > 0xDBFF || !ok || data[i+5] != '\\' || low < 0xDC00 || low > 0xDFFF {
			return fmt.Errorf("half a surrogate pair at byte %d", i-1)
		}
		i += 6
	}
	return nil
}

// escapedUnit reads the four digits of a \u escape whose u stands at i.
func escapedUnit(data []byte, i int) (uint64, bool) {
	if i+5 > len(data) || data[i] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(data[i+1:i+5]), 16, 16)
	return v, err == nil
}

// reader takes typed values out of nodes. It keeps the first error, after which
// everything it returns is zero.
type reader struct{ err error }

func (r *reader) fail(n node, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", n.path, fmt.Sprintf(format, args...))
	}
}

// fields takes an object that has every required key and no other than the
// required and the optional ones.
func (r *reader) fields(n node, required []string, optional ...string) map[string]node {
	fields, ok := n.value.(map[string]node)
	if !ok {
		r.fail(n, "not an object")
		return nil
	}
	for _, name := range required {
		if _, ok := fields[name]; !ok {
			r.fail(n, "the field %q is missing", name)
		}
	}
	for name := range fields {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			r.fail(n, "the field %q is unknown here", name)
		}
	}
	if r.err != nil {
		return nil
	}
	return fields
}

// each calls f with the items of an array of at least least items.
func (r *reader) each(n node, least int, f func(node)) {
	items, ok := n.value.([]node)
	if !ok {
		r.fail(n, "not an array")
		return
	}
	if len(items) < least {
		r.fail(n, "has %d items, at least %d are needed", len(items), least)
	}
	for _, item := range items {
		if r.err != nil {
			return
		}
		f(item)
	}
}

func (r *reader) text(n node) string {
	s, ok := n.value.(string)
	if !ok {
		r.fail(n, "not a string")
	}
	return s
}

// word takes a string that is one of several.
func (r *reader) word(n node, known ...string) string {
	s := r.text(n)
	if r.err == nil && !slices.Contains(known, s) {
		r.fail(n, "%q is none of %s", s, strings.Join(known, ", "))
	}
	return s
}

func (r *reader) boolean(n node) bool {
	b, ok := n.value.(bool)
	if !ok {
		r.fail(n, "neither true nor false")
	}
	return b
}

func (r *reader) null(n node) bool { return n.value == nil }

// integer takes an expected number, from 0 to the limit.
func (r *reader) integer(n node, limit uint64) uint64 {
	v, ok := r.number(n)
	if r.err == nil && (!ok || v > limit) {
		r.fail(n, "not an integer from 0 to %d", limit)
	}
	return v
}

// operand takes a number of an operation. One that does not fit becomes the
// greatest of all, which a store must refuse as malformed: it must get there.
func (r *reader) operand(n node) uint64 {
	v, ok := r.number(n)
	if !ok {
		return math.MaxUint64
	}
	return v
}

// version is operand for a version.
func (r *reader) version(n node) uint32 {
	v, ok := r.number(n)
	if !ok || v > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(v)
}

// number takes a number, and reports whether it is an integer that fits. As in
// JSON Schema, 1.0 is one.
func (r *reader) number(n node) (uint64, bool) {
	num, ok := n.value.(json.Number)
	if !ok {
		r.fail(n, "not a number")
		return 0, true
	}
	if v, err := strconv.ParseUint(num.String(), 10, 64); err == nil {
		return v, true
	}
	const exact = 1 << 53
	f, err := strconv.ParseFloat(num.String(), 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f > exact {
		return 0, false
	}
	return uint64(f), true
}
