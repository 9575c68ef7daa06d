package jsonschema

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// A number is an exact decimal. Most are small integers, for which the rational
// is left out.
type number struct {
	small int64
	rat   *big.Rat // nil if small is the number
}

// smallDigits is the length up to which an integer fits an int64.
const smallDigits = 18

// parseNumber reads a number that checkNumbers has let pass.
func parseNumber(raw []byte) number {
	if len(raw) <= smallDigits {
		negative, n := false, int64(0)
		for i, b := range raw {
			switch {
			case b == '-' && i == 0:
				negative = true
				continue
			case b < '0' || b > '9':
				return parseRational(raw)
			}
			n = n*10 + int64(b-'0')
		}
		if negative {
			n = -n
		}
		return number{small: n}
	}
	return parseRational(raw)
}

func parseRational(raw []byte) number {
	rat, ok := new(big.Rat).SetString(string(raw))
	if !ok {
		return number{}
	}
	return number{rat: rat}
}

func (n number) rational() *big.Rat {
	if n.rat != nil {
		return n.rat
	}
	return new(big.Rat).SetInt64(n.small)
}

func (n number) compare(m number) int {
	if n.rat == nil && m.rat == nil {
		switch {
		case n.small < m.small:
			return -1
		case n.small > m.small:
			return 1
		}
		return 0
	}
	return n.rational().Cmp(m.rational())
}

func (n number) multipleOf(m number) bool {
	if n.rat == nil && m.rat == nil && m.small != 0 {
		return n.small%m.small == 0
	}
	divisor := m.rational()
	return divisor.Sign() != 0 && new(big.Rat).Quo(n.rational(), divisor).IsInt()
}

// isInteger reports whether a number has no fraction: 1.0 and 10e-1 have none.
func isInteger(raw []byte) bool {
	if bytes.IndexByte(raw, '.') < 0 && bytes.IndexByte(raw, 'e') < 0 && bytes.IndexByte(raw, 'E') < 0 {
		return true
	}
	var room [64]byte
	canonical := jsonvalue.AppendNumber(room[:0], raw)
	exponent := bytes.IndexByte(canonical, 'e')
	return exponent < 0 || canonical[exponent+1] != '-' // without an exponent it is zero
}

// shortNumber is the length up to which no number can be beyond a limit.
const shortNumber = 5

// checkNumbers refuses the numbers that exact arithmetic would blow up:
// 1e999999999 has a billion digits.
func checkNumbers(tree *jsonvalue.Tree) *NumberError {
	for i := range tree.Nodes {
		n := &tree.Nodes[i]
		if n.Kind == jsonvalue.Number && n.End-n.Start > shortNumber && !boundedNumber(tree.Doc[n.Start:n.End]) {
			return &NumberError{Pointer: pointerTo(tree, int32(i)), Offset: int(n.Start)}
		}
	}
	return nil
}

func boundedNumber(raw []byte) bool {
	if len(raw) > MaxNumberLength {
		return false
	}
	for i, b := range raw {
		if b == 'e' || b == 'E' {
			exponent, err := strconv.Atoi(string(raw[i+1:]))
			return err == nil && -MaxExponent <= exponent && exponent <= MaxExponent
		}
	}
	return true
}

// parseCount reads a limit such as maxLength. One that no document can reach is
// as good as the greatest int.
func parseCount(raw []byte) (int, bool) {
	if !isInteger(raw) {
		return 0, false
	}
	n := parseNumber(raw)
	if n.rat == nil {
		return int(n.small), n.small >= 0
	}
	if n.rat.Sign() < 0 || !n.rat.IsInt() {
		return 0, false
	}
	if !n.rat.Num().IsInt64() {
		return int(^uint(0) >> 1), true
	}
	return int(n.rat.Num().Int64()), true
}
