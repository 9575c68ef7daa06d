package jsonvalue

import "strings"

var (
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
)

// ParsePointer returns the names and indexes of a JSON pointer (RFC 6901); of
// the empty one, which means the whole document, there are none. A malformed
// pointer is a [*PointerError].
func ParsePointer(p string) ([]string, error) {
	if p == "" {
		return []string{}, nil
	}
	if p[0] != '/' {
		return nil, &PointerError{Pointer: p, Reason: "it does not begin with a slash"}
	}
	path := strings.Split(p[1:], "/")
	for i, token := range path {
		for k := 0; k < len(token); k++ {
			if token[k] == '~' && (k+1 == len(token) || token[k+1] != '0' && token[k+1] != '1') {
				return nil, &PointerError{Pointer: p, Reason: "a ~ is not followed by 0 or 1"}
			}
		}
		path[i] = unescapePointer.Replace(token)
	}
	return path, nil
}

// AppendPointer appends one name or index to a JSON pointer.
func AppendPointer(pointer, token string) string {
	return pointer + "/" + escapePointer.Replace(token)
}

// arrayIndex reads an index as RFC 6901 has it: decimal, without leading zeros.
func arrayIndex(token string) (int, bool) {
	if token == "" || len(token) > 9 || token[0] == '0' && len(token) > 1 {
		return 0, false
	}
	n := 0
	for i := 0; i < len(token); i++ {
		if !digit(token[i]) {
			return 0, false
		}
		n = n*10 + int(token[i]-'0')
	}
	return n, true
}
