package jsonvalue

import "strconv"

// AppendNumber appends the one form that equal numbers share: "0", or the
// digits without zeros at either end, then "e" and the power of ten. The number
// is given as it stands in a valid document, and the time is in proportion to
// its length: the exponent is arithmetic on its digits, because 1e1000000 must
// not become a million digits, and an exponent may have a million digits itself.
func AppendNumber(dst, raw []byte) []byte {
	mantissa, exponent := raw, []byte(nil)
	for i, b := range raw {
		if b == 'e' || b == 'E' {
			mantissa, exponent = raw[:i], raw[i+1:]
			break
		}
	}
	start := len(dst)
	if len(mantissa) > 0 && mantissa[0] == '-' {
		dst, mantissa = append(dst, '-'), mantissa[1:]
	}
	first := len(dst)
	shift, point := 0, false // value = digits * 10^shift
	for _, b := range mantissa {
		if b == '.' {
			point = true
			continue
		}
		if point {
			shift--
		}
		if b != '0' || len(dst) > first {
			dst = append(dst, b)
		}
	}
	for len(dst) > first && dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
		shift++
	}
	if len(dst) == first {
		return append(dst[:start], '0')
	}
	dst = append(dst, 'e')
	return appendSum(dst, exponent, shift)
}

// longExponent is the number of digits from which an exponent does not fit an
// int64 together with a shift.
const longExponent = 18

// appendSum appends the decimal sum of an exponent as written and a shift, which
// is no greater than a document is long.
func appendSum(dst, exponent []byte, shift int) []byte {
	negative := false
	if len(exponent) > 0 && (exponent[0] == '-' || exponent[0] == '+') {
		negative = exponent[0] == '-'
		exponent = exponent[1:]
	}
	for len(exponent) > 0 && exponent[0] == '0' {
		exponent = exponent[1:]
	}
	if len(exponent) < longExponent {
		n := int64(0)
		for _, b := range exponent {
			n = n*10 + int64(b-'0')
		}
		if negative {
			n = -n
		}
		return strconv.AppendInt(dst, n+int64(shift), 10)
	}
	// The exponent is greater than any shift, so its sign stays.
	if negative {
		dst = append(dst, '-')
		shift = -shift
	}
	first := len(dst)
	dst = append(dst, '0')
	dst = append(dst, exponent...)
	carry := shift
	for i := len(dst) - 1; carry != 0 && i >= first; i-- {
		n := int(dst[i]-'0') + carry
		carry = n / 10
		if n %= 10; n < 0 {
			n += 10
			carry--
		}
		dst[i] = '0' + byte(n)
	}
	zeros := first
	for zeros < len(dst)-1 && dst[zeros] == '0' {
		zeros++
	}
	return append(dst[:first], dst[zeros:]...)
}
