package countersign

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxIdentityBytes is the greatest length of an identity, in bytes of its
	// UTF-8 encoding.
	MaxIdentityBytes = 512

	// MaxInteger is the greatest position, fence, epoch or expected position.
	// Values are unsigned in the contract but every store keeps them in signed
	// 64 bits, so a greater one is malformed and is never wrapped.
	MaxInteger = 1<<63 - 1
)

// CheckIdentity reports whether id may name something: a non-empty, valid UTF-8
// string of at most [MaxIdentityBytes] bytes without a NUL byte. Identities are
// compared byte by byte; nothing is folded, trimmed or normalised.
//
// The field names the value in the error, as in "inbox id". The error is a
// [*MalformedError] or, for a length above the limit, a [*LimitError].
func CheckIdentity(field, id string) error {
	return CheckIdentityWithin(field, id, MaxIdentityBytes)
}

// CheckIdentityWithin is [CheckIdentity] with a smaller limit, for identities
// from which others are derived.
func CheckIdentityWithin(field, id string, limit int) error {
	switch {
	case id == "":
		return &MalformedError{Field: field, Reason: "is empty"}
	case len(id) > limit:
		return &LimitError{Field: field, Unit: "bytes", Limit: int64(limit), Actual: int64(len(id))}
	case strings.IndexByte(id, 0) >= 0:
		return &MalformedError{Field: field, Reason: "contains a NUL byte"}
	case !utf8.ValidString(id):
		return &MalformedError{Field: field, Reason: "is not valid UTF-8"}
	}
	return nil
}

// CheckInteger reports whether v fits the signed 64 bits in which stores keep
// it. The error is a [*MalformedError].
func CheckInteger(field string, v uint64) error {
	if v > MaxInteger {
		return &MalformedError{Field: field, Reason: "is above 2^63-1"}
	}
	return nil
}
