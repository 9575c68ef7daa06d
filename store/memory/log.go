package memory

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// eventLog is the state of the event log, the receipts and the observers: of the
// medium, or on top of that what a transaction has written.
type eventLog struct {
	under *eventLog // of a transaction: the medium's

	definitions map[string]eventlog.Definitions // by event store
	sequences   map[eventlog.Sequence]*sequence // nil: dropped
	receipts    map[occurrence]effects          // nil: dropped
	observers   map[eventlog.ObserverKey]*observer
}

type occurrence struct {
	namespace countersign.Namespace
	id        string
}

// effects are an occurrence's receipts, by effect.
type effects map[string]receipt.Receipt

type observer struct {
	state      eventlog.ObserverState
	partitions map[string]eventlog.Partition
}

func newEventLog(under *eventLog) *eventLog {
	return &eventLog{
		under:       under,
		definitions: map[string]eventlog.Definitions{},
		sequences:   map[eventlog.Sequence]*sequence{},
		receipts:    map[occurrence]effects{},
		observers:   map[eventlog.ObserverKey]*observer{},
	}
}

// look finds a value in this state or in the one under it.
func look[K comparable, V any](l *eventLog, of func(*eventLog) map[K]V, k K) (V, bool) {
	for ; l != nil; l = l.under {
		if v, ok := of(l)[k]; ok {
			return v, true
		}
	}
	var none V
	return none, false
}

func definitionsOf(l *eventLog) map[string]eventlog.Definitions  { return l.definitions }
func sequencesOf(l *eventLog) map[eventlog.Sequence]*sequence    { return l.sequences }
func receiptsOf(l *eventLog) map[occurrence]effects              { return l.receipts }
func observersOf(l *eventLog) map[eventlog.ObserverKey]*observer { return l.observers }
func (l *eventLog) sequence(s eventlog.Sequence) *sequence       { v, _ := look(l, sequencesOf, s); return v }
func (l *eventLog) observer(k eventlog.ObserverKey) *observer {
	v, _ := look(l, observersOf, k)
	return v
}
func (l *eventLog) definitionsIn(eventStore string) eventlog.Definitions {
	v, _ := look(l, definitionsOf, eventStore)
	return v
}

// writable returns the sequence to write to: in a transaction, its own copy.
func (l *eventLog) writable(s eventlog.Sequence) *sequence {
	own, ok := l.sequences[s]
	if ok && own != nil {
		return own
	}
	below := (*sequence)(nil)
	if !ok {
		below = l.under.sequenceOrNil(s)
	}
	own = below.clone()
	l.sequences[s] = own
	return own
}

func (l *eventLog) sequenceOrNil(s eventlog.Sequence) *sequence {
	if l == nil {
		return nil
	}
	return l.sequence(s)
}

// putReceipt stores a receipt that is not there.
func (l *eventLog) putReceipt(r receipt.Receipt) {
	at := occurrence{r.Key.Namespace, r.Key.Occurrence}
	found, _ := look(l, receiptsOf, at)
	if own, ok := l.receipts[at]; !ok || own == nil {
		found = maps.Clone(found)
		if found == nil {
			found = effects{}
		}
		l.receipts[at] = found
	}
	found[r.Key.Effect] = r.Clone()
}

// merge carries over what a transaction has written.
func (l *eventLog) merge(tx *eventLog) {
	maps.Copy(l.definitions, tx.definitions)
	for k, v := range tx.sequences {
		setOrDelete(l.sequences, k, v, v == nil)
	}
	for k, v := range tx.receipts {
		setOrDelete(l.receipts, k, v, v == nil)
	}
	for k, v := range tx.observers {
		setOrDelete(l.observers, k, v, v == nil)
	}
}

func setOrDelete[K comparable, V any](m map[K]V, k K, v V, gone bool) {
	if gone {
		delete(m, k)
	} else {
		m[k] = v
	}
}

// keysOf returns the keys for which there is a value, here or below.
func keysOf[K comparable, V any](l *eventLog, of func(*eventLog) map[K]V, in func(K) bool, there func(V) bool) []K {
	known := map[K]bool{}
	var keys []K
	for at := l; at != nil; at = at.under {
		for k, v := range of(at) {
			if !in(k) || known[k] {
				continue
			}
			known[k] = true
			if there(v) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// drop drops a namespace.
func (l *eventLog) drop(ns countersign.Namespace) eventlog.Dropped {
	var dropped eventlog.Dropped
	for _, k := range keysOf(l, sequencesOf, func(s eventlog.Sequence) bool { return s.Namespace == ns }, func(s *sequence) bool { return s != nil }) {
		dropped.Sequences++
		dropped.Events += int64(len(l.sequence(k).events))
		setOrDelete(l.sequences, k, nil, l.under == nil)
	}
	for _, k := range keysOf(l, receiptsOf, func(o occurrence) bool { return o.namespace == ns }, func(e effects) bool { return e != nil }) {
		found, _ := look(l, receiptsOf, k)
		dropped.Receipts += int64(len(found))
		setOrDelete(l.receipts, k, nil, l.under == nil)
	}
	for _, k := range keysOf(l, observersOf, func(k eventlog.ObserverKey) bool { return k.Sequence.Namespace == ns }, func(o *observer) bool { return o != nil }) {
		dropped.Observers++
		setOrDelete(l.observers, k, nil, l.under == nil)
	}
	return dropped
}

// sequence is everything that is stored of one sequence. A nil one is empty.
type sequence struct {
	state  eventlog.IndexState
	events []eventlog.Recorded
	claims map[eventlog.ClaimOwner]eventlog.Claim
	values map[eventlog.ClaimValue]eventlog.ClaimOwner
}

func (s *sequence) clone() *sequence {
	if s == nil {
		return &sequence{claims: map[eventlog.ClaimOwner]eventlog.Claim{}, values: map[eventlog.ClaimValue]eventlog.ClaimOwner{}}
	}
	c := *s
	c.events = slices.Clip(s.events)
	c.claims, c.values = maps.Clone(s.claims), maps.Clone(s.values)
	return &c
}

// slice reads what appends touch.
func (s *sequence) slice(t eventlog.Touch, d eventlog.Definitions) *eventlog.Slice {
	slice := &eventlog.Slice{Revision: d.Revision, Constraints: d.Constraints}
	if s == nil {
		return slice
	}
	slice.Exists, slice.Next, slice.Indexed = true, s.state.Next, s.state.Indexed
	s.readClaims(t, slice)
	for _, scope := range t.Scopes {
		if e, ok := s.highest(scope.Filter(), scope.Expected.From()); ok {
			slice.SetHighest(scope, e.Number)
		}
	}
	return slice
}

func (s *sequence) readClaims(t eventlog.Touch, slice *eventlog.Slice) {
	known := map[eventlog.ClaimOwner]bool{}
	add := func(o eventlog.ClaimOwner) {
		if c, ok := s.claims[o]; ok && !known[o] {
			known[o] = true
			slice.AddClaim(c)
		}
	}
	for _, o := range t.Owners {
		add(o)
	}
	for _, v := range t.Values {
		if o, ok := s.values[v]; ok {
			add(o)
		}
	}
}

func (s *sequence) writeClaims(freed []eventlog.ClaimOwner, made []eventlog.Claim) {
	for _, o := range freed {
		delete(s.values, eventlog.ClaimValue{Index: o.Index, Value: s.claims[o].Value})
		delete(s.claims, o)
	}
	for _, c := range made {
		o := eventlog.ClaimOwner{Index: c.Index, Source: c.Source}
		s.claims[o] = c
		s.values[eventlog.ClaimValue{Index: c.Index, Value: c.Value}] = o
	}
}

// apply writes what appends came to. It copies the events, which share memory with
// the requests.
func (s *sequence) apply(c eventlog.Changes) {
	if c.Creates {
		s.state.Indexed = c.Indexed
	}
	s.state.Next = c.Next
	for _, e := range c.Events {
		s.events = append(s.events, e.Clone())
	}
	s.writeClaims(c.Freed, c.Claims)
}

// from returns the events from a number on.
func (s *sequence) from(number uint64) []eventlog.Recorded {
	if s == nil {
		return nil
	}
	first := sort.Search(len(s.events), func(i int) bool { return s.events[i].Number >= number })
	return s.events[first:]
}

// highest returns the last event from a number on that the filter matches.
func (s *sequence) highest(f eventlog.Filter, from uint64) (eventlog.Recorded, bool) {
	events := s.from(from)
	for i := len(events) - 1; i >= 0; i-- {
		if f.Matches(&events[i].Event) {
			return events[i], true
		}
	}
	return eventlog.Recorded{}, false
}

// page reads a page.
func (s *sequence) page(r eventlog.ReadEvents) eventlog.Page {
	if s == nil {
		return eventlog.NewPage(r, nil, 0)
	}
	limit, _ := eventlog.PageLimit(r.Limit)
	var found []eventlog.Recorded
	size := 0
	for _, e := range s.from(r.From) {
		if len(found) > limit || size > eventlog.MaxPageBytes || r.Before > 0 && e.Number >= r.Before {
			break
		}
		if r.Filter.Matches(&e.Event) {
			found = append(found, e.Clone())
			size += e.Size()
		}
	}
	return eventlog.NewPage(r, found, s.state.Next)
}

func compareReceipts(a, b receipt.Receipt) int {
	return cmp.Or(cmp.Compare(a.Key.Occurrence, b.Key.Occurrence), cmp.Compare(a.Key.Effect, b.Key.Effect))
}
