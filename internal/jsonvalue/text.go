package jsonvalue

import (
	"bytes"
	"unicode/utf8"
)

const (
	firstSurrogate    = 0xD800
	firstLowSurrogate = 0xDC00
	afterSurrogates   = 0xE000
)

// AppendText appends the text of a string, given as it stands in a valid
// document, quotes included. It is UTF-8, except that a surrogate without its
// partner has the three bytes that UTF-8 would give it: this way two strings
// have equal texts exactly if they have equal UTF-16 code units.
func AppendText(dst, quoted []byte) []byte {
	if len(quoted) < 2 {
		return dst
	}
	inner := quoted[1 : len(quoted)-1]
	for len(inner) > 0 {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			return append(dst, inner...)
		}
		dst = append(dst, inner[:i]...)
		r, n := unescape(inner[i:])
		dst = appendRune(dst, r)
		inner = inner[i+n:]
	}
	return dst
}

// equalText reports whether the string has the text, without building it.
func equalText(quoted []byte, escaped bool, text string) bool {
	if len(quoted) < 2 {
		return false
	}
	inner := quoted[1 : len(quoted)-1]
	if !escaped {
		return string(inner) == text
	}
	var buf [utf8.UTFMax]byte
	for len(inner) > 0 {
		part, n := inner[:1], 1
		if inner[0] == '\\' {
			var r rune
			r, n = unescape(inner)
			part = appendRune(buf[:0], r)
		}
		if len(text) < len(part) || text[:len(part)] != string(part) {
			return false
		}
		text, inner = text[len(part):], inner[n:]
	}
	return text == ""
}

// unescape returns the code point of the escape at the start of s, a surrogate
// pair as one, and the number of bytes that it takes.
func unescape(s []byte) (rune, int) {
	if len(s) < 2 {
		return utf8.RuneError, len(s)
	}
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		high, ok := codeUnit(s)
		if !ok {
			return utf8.RuneError, len(s)
		}
		if high < firstSurrogate || high >= firstLowSurrogate {
			return high, 6
		}
		if low, ok := codeUnit(s[6:]); ok && low >= firstLowSurrogate && low < afterSurrogates {
			return 0x10000 + (high-firstSurrogate)<<10 + (low - firstLowSurrogate), 12
		}
		return high, 6
	default:
		return rune(s[1]), 2
	}
}

// codeUnit returns the UTF-16 code unit of the escape \uXXXX at the start of s.
func codeUnit(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var unit rune
	for _, b := range s[2:6] {
		d, ok := hexDigit(b)
		if !ok {
			return 0, false
		}
		unit = unit<<4 | d
	}
	return unit, true
}

func hexDigit(b byte) (rune, bool) {
	switch {
	case digit(b):
		return rune(b - '0'), true
	case 'a' <= b && b <= 'f':
		return rune(b-'a') + 10, true
	case 'A' <= b && b <= 'F':
		return rune(b-'A') + 10, true
	}
	return 0, false
}

// appendRune appends a code point. Package utf8 would replace a surrogate by
// U+FFFD.
func appendRune(dst []byte, r rune) []byte {
	if r >= firstSurrogate && r < afterSurrogates {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
	}
	return utf8.AppendRune(dst, r)
}
