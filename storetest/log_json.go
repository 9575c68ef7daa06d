package storetest

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// jsonValue is a JSON value as the model compares it: by what it means, not by how
// it is written. It is the suite's own reading, so that no rule of the library
// judges itself.
type jsonValue struct {
	kind  byte   // n, f, t, 0 for a number, " for a string, [ or {
	text  string // of a number its one decimal form; of a string its text
	names []string
	items []jsonValue
}

// readJSON reads a valid document.
func readJSON(doc []byte) jsonValue {
	r := jsonReader{doc: doc}
	return r.value()
}

type jsonReader struct {
	doc []byte
	at  int
}

func (r *jsonReader) space() {
	for r.at < len(r.doc) && strings.IndexByte(" \t\r\n", r.doc[r.at]) >= 0 {
		r.at++
	}
}

// next skips space, and takes the byte if it is there.
func (r *jsonReader) next(b byte) bool {
	r.space()
	if r.at < len(r.doc) && r.doc[r.at] == b {
		r.at++
		return true
	}
	return false
}

func (r *jsonReader) value() jsonValue {
	r.space()
	if r.at >= len(r.doc) {
		return jsonValue{kind: '!'}
	}
	switch b := r.doc[r.at]; b {
	case 'n', 'f', 't':
		for r.at < len(r.doc) && r.doc[r.at] >= 'a' && r.doc[r.at] <= 'z' {
			r.at++
		}
		return jsonValue{kind: b}
	case '"':
		return jsonValue{kind: '"', text: r.str()}
	case '[':
		v := jsonValue{kind: '['}
		for r.at++; !r.next(']') && r.at < len(r.doc); r.next(',') {
			v.items = append(v.items, r.value())
		}
		return v
	case '{':
		v := jsonValue{kind: '{'}
		for r.at++; !r.next('}') && r.at < len(r.doc); r.next(',') {
			r.space()
			name := r.str()
			r.next(':')
			one := r.value()
			if i := slices.Index(v.names, name); i >= 0 { // the last one counts
				v.items[i] = one
				continue
			}
			v.names, v.items = append(v.names, name), append(v.items, one)
		}
		return v
	}
	start := r.at
	for r.at < len(r.doc) && strings.IndexByte("+-.0123456789eE", r.doc[r.at]) >= 0 {
		r.at++
	}
	if r.at == start {
		r.at = len(r.doc) // no JSON: it ends here
	}
	return jsonValue{kind: '0', text: decimal(string(r.doc[start:r.at]))}
}

// str reads a string. Half a surrogate pair becomes three bytes that are no UTF-8,
// so that it is equal to itself alone.
func (r *jsonReader) str() string {
	var b []byte
	unit := func() rune {
		v, _ := strconv.ParseUint(string(r.doc[r.at+1:r.at+5]), 16, 16)
		r.at += 5
		return rune(v)
	}
	for r.at++; r.at < len(r.doc) && r.doc[r.at] != '"'; {
		if r.doc[r.at] != '\\' {
			b = append(b, r.doc[r.at])
			r.at++
			continue
		}
		r.at++
		c := r.doc[r.at]
		if c != 'u' {
			if i := strings.IndexByte("bfnrt", c); i >= 0 {
				c = "\b\f\n\r\t"[i]
			}
			b = append(b, c)
			r.at++
			continue
		}
		high := unit()
		if utf16.IsSurrogate(high) && high < 0xDC00 && r.at+6 <= len(r.doc) && r.doc[r.at] == '\\' && r.doc[r.at+1] == 'u' {
			mark := r.at
			r.at++
			if both := utf16.DecodeRune(high, unit()); both != utf8.RuneError {
				b = utf8.AppendRune(b, both)
				continue
			}
			r.at = mark
		}
		if utf16.IsSurrogate(high) {
			b = append(b, 0xED, byte(0x80|high>>6&0x3F), byte(0x80|high&0x3F))
			continue
		}
		b = utf8.AppendRune(b, high)
	}
	r.at++
	return string(b)
}

// decimal is the one form of equal numbers: digits without zeros at their ends, and
// the power of ten.
func decimal(number string) string {
	sign := ""
	if rest, ok := strings.CutPrefix(number, "-"); ok {
		sign, number = "-", rest
	}
	mantissa, power, _ := strings.Cut(strings.ToLower(number), "e")
	exponent, _ := new(big.Int).SetString(strings.TrimPrefix(power, "+"), 10)
	if exponent == nil {
		exponent = new(big.Int)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "0"
	}
	exponent.Add(exponent, big.NewInt(int64(len(digits)-len(trimmed))))
	return sign + trimmed + "e" + exponent.String()
}

// identity is a text that is equal for equal values only.
func (v jsonValue) identity(fold bool) string {
	switch v.kind {
	case '0':
		return "0" + v.text
	case '"':
		text := v.text
		if fold && utf8.ValidString(text) {
			text = cases.Fold().String(text)
		}
		return strconv.Quote(text)
	case '[':
		parts := make([]string, len(v.items))
		for i, item := range v.items {
			parts[i] = item.identity(fold)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case '{':
		parts := make([]string, len(v.items))
		for i, item := range v.items {
			parts[i] = fmt.Sprintf("%q:%s", v.names[i], item.identity(fold))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return string(v.kind)
}

// property returns what a constraint's property names: a member, or what a JSON
// pointer leads to.
func (v jsonValue) property(name string) (jsonValue, bool) {
	if !strings.HasPrefix(name, "/") {
		return v.member(name)
	}
	for token := range strings.SplitSeq(name[1:], "/") {
		var ok bool
		if v, ok = v.member(strings.NewReplacer("~1", "/", "~0", "~").Replace(token)); !ok {
			return jsonValue{}, false
		}
	}
	return v, true
}

func (v jsonValue) member(name string) (jsonValue, bool) {
	if v.kind == '[' {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v.items) || name != strconv.Itoa(i) {
			return jsonValue{}, false
		}
		return v.items[i], true
	}
	if i := slices.Index(v.names, name); v.kind == '{' && i >= 0 {
		return v.items[i], true
	}
	return jsonValue{}, false
}
