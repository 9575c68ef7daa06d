package jsonschema

import (
	"regexp"
	"regexp/syntax"
)

// A pattern is a compiled regular expression. Go's are matched in time linear in
// the text, times the size of the program at worst.
type pattern struct {
	source string
	regexp *regexp.Regexp
	size   int
}

// compilePattern returns a reason if it refuses the expression. Its size is
// known before it is compiled: x{1000} is seven bytes and a thousand
// instructions.
func compilePattern(source string) (pattern, string) {
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return pattern{}, "the pattern is not a regular expression of Go"
	}
	size := programSize(parsed)
	if size > MaxPatternSize {
		return pattern{}, "the pattern is too large"
	}
	compiled, err := regexp.Compile(source)
	if err != nil {
		return pattern{}, "the pattern is not a regular expression of Go"
	}
	return pattern{source: source, regexp: compiled, size: size}, ""
}

// programSize returns about how many instructions an expression becomes, or
// something above the limit. The parser bounds its depth.
func programSize(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size = 1 + len(re.Rune)/16
	}
	for _, sub := range re.Sub {
		if size += programSize(sub); size > MaxPatternSize {
			return MaxPatternSize + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return min(size, MaxPatternSize+1)
}

// cost returns the steps for matching a text of a length.
func (p *pattern) cost(length int) int { return (length + 4) * (p.size/4 + 2) }
