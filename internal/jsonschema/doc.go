// Package jsonschema validates JSON documents against JSON Schemas of draft 4, 6
// and 7, both of which may come from an adversary. Nothing is ever fetched, and
// time and memory are bounded: a schema whose evaluation could grow beyond
// measure is refused by [Compile], a document that would take too much by
// [Schema.Validate].
//
// Whether a schema is one, its draft's metaschema says, as gojsonschema evaluates
// it; formats are gojsonschema's too. Documents are evaluated here, because
// gojsonschema reads numbers in const, enum and uniqueItems as float64, panics
// there on 1e400, compiles patternProperties again for every member, and can't
// be stopped. Apart from that the verdicts are the same, and the tests compare
// them. A format is about strings only, as the drafts have it.
package jsonschema
