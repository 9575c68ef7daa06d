// Package conformance holds the language-neutral fixtures of the library's
// contracts, golden vectors, and the JSON Schemas of the fixtures, as embedded
// files.
//
// README.md beside this file says how to replay them. Go code that only wants
// to prove an adapter does not need this package: the suite in storetest
// replays the fixtures.
package conformance

import (
	"embed"
	"io/fs"
)

//go:embed durable-owner/*.json eventlog/*.json receipt/*.json golden/*.json schemas/*.json
var files embed.FS

// DurableOwner returns the four fixture files of the durable owner, at the root
// of the file system: atomic_crash_boundary.json, ordered_replay.json,
// inbox_outbox_deduplication.json and projection_fingerprint.json. Each is valid
// against durable-owner.json of [Schemas].
func DurableOwner() fs.FS { return sub("durable-owner") }

// EventLog returns the fixture files of the event log, at the root of the file
// system: sequence.json, schema_and_constraint.json and concurrency_scope.json. Each
// is valid against eventlog.json of [Schemas].
func EventLog() fs.FS { return sub("eventlog") }

// EffectReceipt returns the fixture files of the effect receipts, at the root of the
// file system: first_writer_wins.json and effect_without_events.json. Each is valid
// against receipt.json of [Schemas].
func EffectReceipt() fs.FS { return sub("receipt") }

// Golden returns vectors of inputs and the digests that must come out, at the
// root of the file system: fingerprints.json for the fingerprints of the durable
// owner.
func Golden() fs.FS { return sub("golden") }

// Schemas returns the JSON Schemas (draft 7), at the root of the file system.
// Each is named after the folder of the fixtures that it describes.
func Schemas() fs.FS { return sub("schemas") }

// sub returns a folder of the embedded files. The folders are constants of this
// file, and fs.Sub fails for nothing but an invalid name.
func sub(dir string) fs.FS {
	s, err := fs.Sub(files, dir)
	if err != nil {
		panic(err)
	}
	return s
}
