// Package jsonvalue reads JSON (RFC 8259) strictly and without decoding it: it
// checks a document, finds the raw text of a value in it, and tells whether two
// texts are the same JSON value. Numbers are exact decimals and strings are
// sequences of UTF-16 code units, so nothing is rounded and nothing is replaced.
//
// A document is not changed and not kept, except where a result is said to be
// part of it. Every function may be called concurrently, and none panics,
// whatever it is given.
package jsonvalue
