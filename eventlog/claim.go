package eventlog

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"github.com/countersign/countersign/internal/jsonvalue"
)

// An IndexKey identifies a constraint, and the part of the sequence within which
// it holds.
type IndexKey [32]byte

// A ValueKey is the hash of a value that a constraint makes unique.
type ValueKey [32]byte

// A Claim is an entry of a sequence's constraint index: the source holds the value.
// In one index a source holds one value, and a value has one holder.
type Claim struct {
	Index  IndexKey
	Source string
	Value  ValueKey
	Number uint64 // of the event that made the claim
}

// A ClaimOwner is the key of a claim.
type ClaimOwner struct {
	Index  IndexKey
	Source string
}

// A ClaimValue is the other key of a claim.
type ClaimValue struct {
	Index IndexKey
	Value ValueKey
}

// constraint is a compiled constraint.
type constraint struct {
	Constraint
	paths map[string][][]string // of the properties, by event type
	frees map[string]bool       // by event type
}

func newConstraint(definition Constraint) constraint {
	c := constraint{Constraint: definition, paths: map[string][][]string{}, frees: map[string]bool{}}
	for _, covered := range definition.Covers {
		paths := make([][]string, len(covered.Properties))
		for i, property := range covered.Properties {
			paths[i], _ = path(property) // it was checked
		}
		c.paths[covered.Type] = paths
	}
	for _, id := range definition.RemovedBy {
		c.frees[id] = true
	}
	return c
}

// A move is what an event does to a constraint's index.
type move struct {
	constraint *constraint
	owner      ClaimOwner
	value      ValueKey // of a claim
	frees      bool
}

// move returns what the event does, and false if it does nothing.
func (c *constraint) move(e *Event) (move, bool) {
	m := move{constraint: c, owner: ClaimOwner{Index: c.index(e), Source: e.Source}}
	if c.frees[e.Type] {
		m.frees = true
		return m, true
	}
	if c.Kind == UniqueEventType {
		h := sha256.New()
		writePart(h, "countersign/event-source/v1")
		writePart(h, e.Source)
		h.Sum(m.value[:0])
		return m, true
	}
	value, ok := valueOf(e.Content, c.paths[e.Type], c.IgnoreCase)
	m.value = value
	return m, ok
}

// index is the key of the constraint's index for an event. Every part of it is
// length-prefixed, so that no two share one.
func (c *constraint) index(e *Event) IndexKey {
	h := sha256.New()
	writePart(h, "countersign/constraint/v1")
	writePart(h, c.Name)
	for _, part := range []struct {
		within bool
		value  string
	}{{c.Within.SourceType, e.SourceType}, {c.Within.StreamType, e.StreamType}, {c.Within.StreamID, e.StreamID}} {
		if part.within {
			writePart(h, "within")
			writePart(h, part.value)
		} else {
			writePart(h, "")
		}
	}
	return IndexKey(h.Sum(nil))
}

// valueOf hashes the values at the paths, with their places. It is false if there
// are none.
func valueOf(content []byte, paths [][]string, fold bool) (ValueKey, bool) {
	h := sha256.New()
	writePart(h, "countersign/unique-value/v1")
	some := false
	var encoded []byte
	for i, raw := range jsonvalue.LookupMany(content, paths) {
		if raw == nil || string(raw) == "null" {
			continue
		}
		some = true
		var place [4]byte
		binary.BigEndian.PutUint32(place[:], uint32(i)) //nolint:gosec // few properties
		h.Write(place[:])
		encoded = jsonvalue.Identity(encoded[:0], raw, fold)
		writePart(h, encoded)
	}
	return ValueKey(h.Sum(nil)), some
}

func writePart[S string | []byte](h hash.Hash, part S) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(part))) //nolint:gosec // bounded by the batch
	h.Write(size[:])
	h.Write([]byte(part))
}

// claims is the part of a constraint index that was read, and what becomes of it.
type claims struct {
	byOwner map[ClaimOwner]Claim
	byValue map[ClaimValue]ClaimOwner
	stored  map[ClaimOwner]Claim // as it was read
	changed map[ClaimOwner]bool
}

func (c *claims) add(one Claim) {
	c.stored = put(c.stored, ClaimOwner{one.Index, one.Source}, one)
	c.set(one)
}

func (c *claims) set(one Claim) {
	owner := ClaimOwner{one.Index, one.Source}
	c.free(owner)
	c.byOwner = put(c.byOwner, owner, one)
	c.byValue = put(c.byValue, ClaimValue{one.Index, one.Value}, owner)
}

func (c *claims) free(owner ClaimOwner) {
	if old, ok := c.byOwner[owner]; ok {
		delete(c.byOwner, owner)
		if value := (ClaimValue{old.Index, old.Value}); c.byValue[value] == owner { // or a trial has given it to another
			delete(c.byValue, value)
		}
	}
}

// changes returns the claims to delete, and those to insert after that.
func (c *claims) changes() (freed []ClaimOwner, made []Claim) {
	for owner := range c.changed {
		old, was := c.stored[owner]
		now, is := c.byOwner[owner]
		if was && is && old == now {
			continue
		}
		if was {
			freed = append(freed, owner)
		}
		if is {
			made = append(made, now)
		}
	}
	slices.SortFunc(freed, compareOwners)
	slices.SortFunc(made, func(a, b Claim) int {
		return compareOwners(ClaimOwner{a.Index, a.Source}, ClaimOwner{b.Index, b.Source})
	})
	return freed, made
}

func compareOwners(a, b ClaimOwner) int {
	if a.Index != b.Index {
		return slices.Compare(a.Index[:], b.Index[:])
	}
	if a.Source < b.Source {
		return -1
	} else if a.Source > b.Source {
		return 1
	}
	return 0
}

func put[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m == nil {
		m = make(map[K]V)
	}
	m[k] = v
	return m
}
