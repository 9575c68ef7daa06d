package jsonvalue

// plain holds the bytes that stand for themselves inside a string. Whether those
// from 0x80 on are UTF-8 is checked for the whole document at once.
var plain = func() (t [256]bool) {
	for b := 0x20; b < len(t); b++ {
		t[b] = b != '"' && b != '\\'
	}
	return t
}()

func space(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

func digit(b byte) bool { return '0' <= b && b <= '9' }

func skipSpace(doc []byte, i int) int {
	for i < len(doc) && space(doc[i]) {
		i++
	}
	return i
}

// scanString returns the offset behind the string whose opening quote is at i,
// and whether it has escapes. With a reason, end is where it is wrong.
func scanString(doc []byte, i int) (end int, escaped bool, reason string) {
	i++
	for {
		for i < len(doc) && plain[doc[i]] {
			i++
		}
		if i == len(doc) {
			return i, escaped, "unfinished string"
		}
		switch doc[i] {
		case '"':
			return i + 1, escaped, ""
		case '\\':
			escaped = true
			if i+1 == len(doc) {
				return i + 1, escaped, "unfinished string"
			}
			switch doc[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				for k := i + 2; k < i+6; k++ {
					if k >= len(doc) {
						return len(doc), escaped, "unfinished string"
					}
					if _, ok := hexDigit(doc[k]); !ok {
						return k, escaped, "no hexadecimal digit in an escape"
					}
				}
				i += 6
			default:
				return i + 1, escaped, "unknown escape"
			}
		default:
			return i, escaped, "control character in a string"
		}
	}
}

// scanNumber returns the offset behind the number that begins at i. With a
// reason, end is where it is wrong.
func scanNumber(doc []byte, i int) (end int, reason string) {
	if i < len(doc) && doc[i] == '-' {
		i++
	}
	switch {
	case i == len(doc):
		return i, "unfinished number"
	case doc[i] == '0':
		i++
	case digit(doc[i]):
		i = skipDigits(doc, i)
	default:
		return i, "no digit in a number"
	}
	if i < len(doc) && doc[i] == '.' {
		first := i + 1
		if i = skipDigits(doc, first); i == first {
			return i, "no digit behind the decimal point"
		}
	}
	if i < len(doc) && (doc[i] == 'e' || doc[i] == 'E') {
		first := i + 1
		if first < len(doc) && (doc[first] == '+' || doc[first] == '-') {
			first++
		}
		if i = skipDigits(doc, first); i == first {
			return i, "no digit in an exponent"
		}
	}
	return i, ""
}

func skipDigits(doc []byte, i int) int {
	for i < len(doc) && digit(doc[i]) {
		i++
	}
	return i
}

// skipValue returns the offset behind the value that begins at i in a valid
// document. In an invalid one it may stop anywhere, but not outside.
func skipValue(doc []byte, i int) int {
	if i >= len(doc) {
		return len(doc)
	}
	switch doc[i] {
	case '"':
		end, _, _ := scanString(doc, i)
		return end
	case '{', '[':
		depth := 0
		for i < len(doc) {
			switch doc[i] {
			case '"':
				i, _, _ = scanString(doc, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(doc)
	default:
		for i < len(doc) && !space(doc[i]) && doc[i] != ',' && doc[i] != '}' && doc[i] != ']' {
			i++
		}
		return i
	}
}
