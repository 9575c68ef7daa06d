package jsonvalue

// Lookup returns the raw text of a value in a valid document: of the document
// itself without a path, otherwise of what is reached by member names, and by
// decimal indexes in arrays. Names are compared exactly after unescaping, as
// [AppendText] has them; of members with the same name the last one counts. The
// result is part of the document. Nothing is allocated.
//
// The document must have passed [Check]. In another one Lookup finds something
// or nothing.
func Lookup(doc []byte, path ...string) (raw []byte, ok bool) {
	i := skipSpace(doc, 0)
	if i == len(doc) {
		return nil, false
	}
	raw = doc[i:skipValue(doc, i)]
	for _, token := range path {
		if raw, ok = child(raw, token); !ok {
			return nil, false
		}
	}
	return raw, true
}

// LookupMany is [Lookup] for many paths, in one pass over the document's own
// members. Where there is no value, the result is nil.
func LookupMany(doc []byte, paths [][]string) [][]byte {
	found := make([][]byte, len(paths))
	i := skipSpace(doc, 0)
	if i < len(doc) && doc[i] == '{' {
		for m := members(doc[i:]); m.next(); {
			for k, path := range paths {
				if len(path) > 0 && equalText(m.name, m.escaped, path[0]) {
					found[k] = m.value
				}
			}
		}
		for k, path := range paths {
			switch {
			case len(path) == 0:
				found[k], _ = Lookup(doc)
			case len(path) > 1 && found[k] != nil:
				found[k], _ = Lookup(found[k], path[1:]...)
			}
		}
		return found
	}
	for k, path := range paths {
		found[k], _ = Lookup(doc, path...)
	}
	return found
}

func child(raw []byte, token string) (value []byte, ok bool) {
	if len(raw) == 0 {
		return nil, false
	}
	switch raw[0] {
	case '{':
		for m := members(raw); m.next(); {
			if equalText(m.name, m.escaped, token) {
				value, ok = m.value, true
			}
		}
		return value, ok
	case '[':
		index, ok := arrayIndex(token)
		if !ok {
			return nil, false
		}
		i := 1
		for {
			i = skipSpace(raw, i)
			end := skipValue(raw, i)
			if end == i {
				return nil, false
			}
			if index == 0 {
				return raw[i:end], true
			}
			index--
			if i = skipSpace(raw, end); i >= len(raw) || raw[i] != ',' {
				return nil, false
			}
			i++
		}
	}
	return nil, false
}

// A memberScan goes over the members of a valid object.
type memberScan struct {
	raw     []byte
	offset  int
	name    []byte
	escaped bool
	value   []byte
}

func members(object []byte) memberScan { return memberScan{raw: object, offset: 1} }

func (m *memberScan) next() bool {
	i := skipSpace(m.raw, m.offset)
	if i < len(m.raw) && m.raw[i] == ',' {
		i = skipSpace(m.raw, i+1)
	}
	if i >= len(m.raw) || m.raw[i] != '"' {
		return false
	}
	end, escaped, reason := scanString(m.raw, i)
	if reason != "" {
		return false
	}
	m.name, m.escaped = m.raw[i:end], escaped
	if i = skipSpace(m.raw, end); i >= len(m.raw) || m.raw[i] != ':' {
		return false
	}
	i = skipSpace(m.raw, i+1)
	end = skipValue(m.raw, i)
	if end == i {
		return false
	}
	m.value, m.offset = m.raw[i:end], end
	return true
}
