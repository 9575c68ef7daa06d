package mongo

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"math"
	"sync"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

// The kinds of document in the collection of the log. A head has a readable _id,
// made of names, and a key of its own; what belongs to it is stored under that key.
// So once a head is gone, nothing that belonged to it is seen any more, whatever is
// still stored of it, and a new head under the same names begins empty.
const (
	clockKind       = "clock" // the one document that is always there: it is read with the server's time
	definitionsKind = "definitions"
	definitionKind  = "definition"
	namespaceKind   = "namespace"
	sequenceKind    = "sequence"
	recordsKind     = "records" // what the receipts without a sequence lock
	observerKind    = "observer"
	partitionKind   = "partition"
	claimKind       = "claim"  // by its source
	holderKind      = "holder" // the same claim by its value
	leftoverKind    = "leftover"
	effectRowKind   = "effect_receipt"
)

// A key is what the documents of a head are stored under. It is never used again.
type key [16]byte

func newKey() key {
	var k key
	_, _ = rand.Read(k[:]) // it never fails
	return k
}

// A place is a head that an append locks: of a sequence, or of some of a
// namespace's receipts without one.
type place struct {
	id        string
	kind      string
	namespace countersign.Namespace
	name      string // of the sequence
}

func headID(kind string, ns countersign.Namespace, names ...string) string {
	id := kind + separator + ns.EventStore + separator + ns.Name
	for _, name := range names {
		id += separator + name
	}
	return id
}

func namespaceID(ns countersign.Namespace) string { return headID(namespaceKind, ns) }

func sequenceID(s eventlog.Sequence) string { return headID(sequenceKind, s.Namespace, s.Name) }

func observerID(k eventlog.ObserverKey) string {
	return headID(observerKind, k.Sequence.Namespace, k.Sequence.Name, k.Name)
}

func definitionsID(eventStore string) string { return definitionsKind + separator + eventStore }

func leftoverID(ns countersign.Namespace, k key) string {
	return headID(leftoverKind, ns, hex.EncodeToString(k[:]))
}

// recordPlaces is how many documents the receipts without a sequence of a namespace
// lock, one each, so that those of different effects rarely wait for each other.
const recordPlaces = 16

// placeOf returns what the append locks.
func placeOf(a *store.Append) place {
	if s, ok := a.Sequence(); ok {
		return sequencePlace(s)
	}
	k, _ := a.Key()
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.Occurrence + separator + k.Effect))
	name := fixed(uint64(h.Sum32() % recordPlaces))
	return place{id: headID(recordsKind, k.Namespace, name), kind: recordsKind, namespace: k.Namespace, name: name}
}

func sequencePlace(s eventlog.Sequence) place {
	return place{id: sequenceID(s), kind: sequenceKind, namespace: s.Namespace, name: s.Name}
}

// rowID is the _id of a document that is looked up by what it is about: a hash of
// the kind and the parts, each length-prefixed.
func rowID(kind string, parts ...[]byte) []byte {
	h := sha256.New()
	var size [4]byte
	for _, part := range append([][]byte{[]byte(kind)}, parts...) {
		binary.BigEndian.PutUint32(size[:], uint32(len(part))) //nolint:gosec // an identity is short
		_, _ = h.Write(size[:])
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// receiptID is that of a receipt in one life of its namespace.
func receiptID(life key, k receipt.Key) []byte {
	return rowID(effectRowKind, life[:], []byte(k.Occurrence), []byte(k.Effect))
}

func claimID(sequence key, o eventlog.ClaimOwner) []byte {
	return rowID(claimKind, sequence[:], o.Index[:], []byte(o.Source))
}

func holderID(sequence key, v eventlog.ClaimValue) []byte {
	return rowID(holderKind, sequence[:], v.Index[:], v.Value[:])
}

func partitionID(observer key, source string) []byte {
	return rowID(partitionKind, observer[:], []byte(source))
}

// definitionsKey is what the definitions of an event store are found under.
func definitionsKey(eventStore string) []byte { return rowID(definitionsKind, []byte(eventStore)) }

func leftoversKey(ns countersign.Namespace) []byte {
	return rowID(leftoverKind, []byte(ns.EventStore), []byte(ns.Name))
}

// eventKey is the _id of an event: in the order of the numbers.
func eventKey(sequence key, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(sequence)+8), sequence[:]...), number)
}

// stored is a number as it is stored: in 64 bits with a sign. One above the
// greatest, as the next number of a sequence may be, comes back as it was.
func stored(v uint64) int64 { return int64(v) } //nolint:gosec // see above

func loaded(v int64) uint64 { return uint64(v) } //nolint:gosec // see stored

// upTo is the greatest number below a bound that is not 0, as a stored one.
func upTo(bound uint64) int64 { return stored(min(bound-1, math.MaxInt64)) }

// known keeps, by the _id of a head, under which keys its documents were found last.
// It only saves a round trip: each transaction finds out whether it still is so.
type known struct {
	mu  sync.Mutex
	all map[string]keys
}

// keys are a head's own key, and that of the namespace's life to which it belongs.
type keys struct{ own, life key }

const maxKnown = 10_000

func (k *known) of(id string) (keys, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.all[id]
	return found, ok
}

func (k *known) set(id string, found keys) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxKnown {
		k.all = map[string]keys{}
	}
	k.all[id] = found
}
