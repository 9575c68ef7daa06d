package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// testClock is the time of a store in a case that moves it.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

// Now implements [countersign.Clock].
func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// logSession is how a case talks to the event log. It sends every request to the
// model too, and compares after every step: the answer with all its fields, and what
// the store holds.
type logSession struct {
	T
	db    *database
	store *handle
	model *logModel
	clock *testClock // nil: the store's own time
	since time.Time
	step  int

	provisional bool // the store is a transaction that has not committed

	sequences   []eventlog.Sequence // that were sent, whether they exist or not
	occurrences map[countersign.Namespace][]string
	observers   []eventlog.ObserverKey
}

// newLogSession returns a session on a fresh database: with the store's own time, or
// with a clock that all handles share.
func newLogSession(t T, h Harness, clocked bool) *logSession {
	t.Helper()
	s := &logSession{T: t, db: newDatabase(t, h), since: time.Now(), occurrences: map[countersign.Namespace][]string{}}
	s.model = newLogModel(func() time.Time { return time.Time{} })
	if clocked {
		// With parts of a microsecond, which no store keeps. A first fence is the time in
		// microseconds, so here it is 1.
		s.clock = &testClock{now: time.Unix(0, 1_567).UTC()}
		s.db.clock = s.clock
		s.model.now = func() time.Time { return micro(s.clock.Now()) }
	}
	s.store = s.db.handle()
	return s
}

func (s *logSession) failf(what, format string, args ...any) {
	s.Helper()
	s.Fatalf("step %d, %s: %s", s.step, what, fmt.Sprintf(format, args...))
}

// send sends a request whose outcome the case knows. The model says the rest.
func (s *logSession) send(want string, req any) logAnswer {
	s.Helper()
	return s.sendThrough(s.store, want, req)
}

func (s *logSession) sendThrough(hd *handle, want string, req any) logAnswer {
	s.Helper()
	got, expected := s.exchange(hd, req)
	if outcome := expected.outcome(req); outcome != want {
		s.failf(describeLog(req), "the case wants %s, the model says %s", want, expected.show(req))
	}
	if diff := got.differs(req, expected); diff != "" {
		s.failf(describeLog(req), "%s", diff)
	}
	s.same(describeLog(req), req)
	return got
}

// exchange asks the model and the store.
func (s *logSession) exchange(hd *handle, req any) (got, expected logAnswer) {
	s.step++
	s.remember(req)
	// The model first: a store that changes its input must not change the model.
	expected = s.model.ask(req)
	got = askLog(s.Context(), hd, req)
	return got, s.learn(got, expected)
}

// remember notes the names that the request is about: what is refused must leave
// nothing under them.
func (s *logSession) remember(req any) {
	switch r := req.(type) {
	case eventlog.AppendEvents:
		s.rememberSequence(r.Sequence)
	case receipt.AppendWithReceipt:
		s.rememberSequence(r.Sequence)
		s.rememberKey(r.Key())
	case receipt.RecordEffect:
		s.rememberKey(r.Key)
	case eventlog.ClaimObserver:
		if key := r.Key.Named(); key.Check() == nil && !slices.Contains(s.observers, key) {
			s.observers = append(s.observers, key)
		}
	}
}

func (s *logSession) rememberSequence(q eventlog.Sequence) {
	if q = q.Named(); q.Check() == nil && !slices.Contains(s.sequences, q) {
		s.sequences = append(s.sequences, q)
	}
}

func (s *logSession) rememberKey(k receipt.Key) {
	if k.Check() == nil && !slices.Contains(s.occurrences[k.Namespace], k.Occurrence) {
		s.occurrences[k.Namespace] = append(s.occurrences[k.Namespace], k.Occurrence)
	}
}

// skew is how far a server's time may be from the suite's.
const skew = 10 * time.Minute

// plausible reports whether a time can be that of a request of this session.
func (s *logSession) plausible(t time.Time) bool {
	return s.clock == nil && t.Equal(micro(t)) && t.After(s.since.Add(-skew)) && t.Before(time.Now().Add(skew))
}

// learn takes over the time that the store gave a new receipt, and the events with
// it, if it can be true: it must stay so from then on. It takes over a failure's
// text too, where that had to be made fit to store.
func (s *logSession) learn(got, expected logAnswer) logAnswer {
	want, isEffect := expected.value.(receipt.Result)
	have, ok := got.value.(receipt.Result)
	if !isEffect || !ok || !want.Receipt.RecordedAt.IsZero() || !s.plausible(have.Receipt.RecordedAt) {
		return expected
	}
	want.Receipt.RecordedAt = micro(have.Receipt.RecordedAt)
	s.model.receipts[want.Receipt.Key] = want.Receipt
	if want.Receipt.Outcome == receipt.Appended {
		all := s.model.events[eventlog.Sequence{Namespace: want.Receipt.Key.Namespace, Name: want.Receipt.Sequence}]
		for i := want.Receipt.First; i <= want.Receipt.Last; i++ {
			if all[i].Occurred.IsZero() {
				all[i].Occurred = want.Receipt.RecordedAt
			}
		}
	}
	expected.value = want
	return expected
}

// learnEvents takes over the times of events that were appended without one.
func (s *logSession) learnEvents(q eventlog.Sequence, got []eventlog.Recorded) {
	all := s.model.events[q.Named()]
	for _, e := range got {
		if e.Number < uint64(len(all)) && all[e.Number].Occurred.IsZero() && s.plausible(e.Occurred) {
			all[e.Number].Occurred = micro(e.Occurred)
		}
	}
}

// same compares what the store holds of what the request is about, and from time to
// time everything.
func (s *logSession) same(what string, req any) {
	s.Helper()
	if s.step%closelyWatched == 1 {
		s.sameAll(what)
		return
	}
	switch r := req.(type) {
	case eventlog.AppendEvents:
		s.sameSequence(s.store, what, r.Sequence)
	case receipt.AppendWithReceipt:
		s.sameSequence(s.store, what, r.Sequence)
		s.sameReceipts(s.store, what, r.Sequence.Namespace)
	case receipt.RecordEffect:
		s.sameReceipts(s.store, what, r.Namespace)
	case eventlog.RegisterEventTypes:
		s.sameDefinitions(s.store, what, r.EventStore)
	case eventlog.RegisterConstraints:
		s.sameDefinitions(s.store, what, r.EventStore)
	case eventlog.ClaimObserver:
		s.sameObserver(s.store, what, r.Key)
	case eventlog.SaveObserver:
		s.sameObserver(s.store, what, r.Key)
	case eventlog.RetryPartition:
		s.sameObserver(s.store, what, r.Key)
	case eventlog.ReplayObserver:
		s.sameObserver(s.store, what, r.Key)
	default:
		s.sameAll(what)
	}
}

// sameAll compares everything, the events in small pages and by filters too.
func (s *logSession) sameAll(what string) {
	s.Helper()
	for _, q := range s.sequences {
		s.sameSequence(s.store, what, q)
		all := s.model.events[q]
		limit := max(2, len(all)/4)
		for from := uint64(0); ; {
			page := s.page(what, eventlog.ReadEvents{Sequence: q, From: from, Limit: limit})
			if page.End {
				break
			}
			from = page.Next
		}
		if len(all) > 0 {
			e := all[len(all)/2]
			s.tail(what, q, eventlog.Filter{Source: e.Source})
			s.tail(what, q, eventlog.Filter{EventTypes: []string{e.Type}})
		}
	}
	for ns := range s.occurrences {
		s.sameReceipts(s.store, what, ns)
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.model.receipts), func(a, b receipt.Key) int { return strings.Compare(a.Occurrence+a.Effect, b.Occurrence+b.Effect) })[:min(3, len(s.model.receipts))] {
		s.sameReceipt(what, key)
	}
	for name := range s.model.stores {
		s.sameDefinitions(s.store, what, name)
	}
	for _, key := range s.observers {
		s.sameObserver(s.store, what, key)
	}
}

// sameSequence compares all events of a sequence, and its tail.
func (s *logSession) sameSequence(hd *handle, what string, q eventlog.Sequence) {
	s.Helper()
	if q = q.Named(); q.Check() != nil {
		return
	}
	got, err := readSequence(s.Context(), hd, q)
	if err != nil {
		s.failf(what, "%v", err)
	}
	s.learnEvents(q, got)
	s.sameEvents(what, s.model.events[q], got)
}

// sameEvents compares events with all their fields.
func (s *logSession) sameEvents(what string, want, got []eventlog.Recorded) {
	s.Helper()
	if wanted, have := showEvents(want), showEvents(got); wanted != have {
		s.failf(what, "the events are not those expected:\n%s", diffLines(wanted, have))
	}
}

// readSequence reads a whole sequence, and checks that the pages lead to its end.
func readSequence(ctx context.Context, hd *handle, q eventlog.Sequence) ([]eventlog.Recorded, error) {
	var all []eventlog.Recorded
	for from := uint64(0); ; {
		page, err := hd.events.ReadEvents(ctx, eventlog.ReadEvents{Sequence: q, From: from, Limit: eventlog.MaxPageLimit})
		if err != nil {
			return nil, fmt.Errorf("read the events from %d on: %w", from, err)
		}
		all = append(all, page.Events...)
		if page.End {
			return all, nil
		}
		if page.Next <= from || len(page.Events) == 0 {
			return nil, fmt.Errorf("the page from %d on is not the last one, and the next one begins at %d after %d events", from, page.Next, len(page.Events))
		}
		from = page.Next
	}
}

// page reads a page and compares all of it.
func (s *logSession) page(what string, req eventlog.ReadEvents) eventlog.Page {
	s.Helper()
	got, err := s.store.events.ReadEvents(s.Context(), req)
	if err != nil {
		s.failf(what, "read %s: %v", describeLog(req), err)
	}
	s.learnEvents(req.Sequence, got.Events)
	want := s.model.page(req)
	s.sameEvents(what+": "+describeLog(req), want.Events, got.Events)
	if got.Next != want.Next || got.End != want.End {
		s.failf(what, "%s: want next %d, end %v; got next %d, end %v", describeLog(req), want.Next, want.End, got.Next, got.End)
	}
	return got
}

// page is the page that must be read.
func (m *logModel) page(r eventlog.ReadEvents) eventlog.Page {
	all := m.events[r.Sequence.Named()]
	limit := r.Limit
	if limit == 0 {
		limit = 1_000
	}
	end := uint64(len(all))
	if r.Before > 0 {
		end = min(end, r.Before)
	}
	var page eventlog.Page
	size := 0
	for n := r.From; n < end; n++ {
		e := all[n]
		if !selected(r.Filter, e.Event) {
			continue
		}
		size += e.Size()
		if len(page.Events) == limit || len(page.Events) > 0 && size > 16<<20 {
			page.Next = page.Events[len(page.Events)-1].Number + 1
			return page
		}
		page.Events = append(page.Events, e)
	}
	page.Next, page.End = max(end, r.From), true
	return page
}

// tail reads the tail and compares it.
func (s *logSession) tail(what string, q eventlog.Sequence, f eventlog.Filter) {
	s.Helper()
	all := s.model.events[q.Named()]
	want := eventlog.Tail{Next: uint64(len(all))}
	for _, e := range all {
		if selected(f, e.Event) {
			want.Last, want.Found = e.Number, true
		}
	}
	got, err := s.store.events.ReadTail(s.Context(), eventlog.ReadTail{Sequence: q, Filter: f})
	if err != nil || got != want {
		s.failf(what, "the tail of %q under %+v: want %+v, got %+v, %v", q.Name, f, want, got, err)
	}
}

// sameReceipts compares all receipts of the occurrences that were ever sent to a
// namespace.
func (s *logSession) sameReceipts(hd *handle, what string, ns countersign.Namespace) {
	s.Helper()
	for ids := range slices.Chunk(s.occurrences[ns], receipt.MaxOccurrences) {
		s.list(hd, what, receipt.ListReceipts{Namespace: ns, Occurrences: ids})
	}
}

func (s *logSession) list(hd *handle, what string, req receipt.ListReceipts) {
	s.Helper()
	got, err := hd.receipts.ListReceipts(s.Context(), req)
	if err != nil {
		s.failf(what, "list the receipts: %v", err)
	}
	if want, have := showReceipts(s.model.receiptsOf(req)), showReceipts(got); want != have {
		s.failf(what, "the receipts are not those expected:\n%s", diffLines(want, have))
	}
}

// sameReceipt compares one receipt, or that there is none.
func (s *logSession) sameReceipt(what string, key receipt.Key) {
	s.Helper()
	got, err := s.store.receipts.ReadReceipt(s.Context(), key)
	want, there := s.model.receipts[key]
	switch {
	case !there:
		if !as[*receipt.UnknownReceiptError](err) || logDetails(err) != any(receipt.UnknownReceiptError{Key: key}) || showValue(got) != showValue(receipt.Result{}) {
			s.failf(what, "there is no receipt of %q, effect %q, and the store says: %s, %v", shorten(key.Occurrence), shorten(key.Effect), showReceipt(got.Receipt), err)
		}
	case err != nil || !got.AlreadyRecorded || got.AckSafe() != !s.provisional || showReceipt(got.Receipt) != showReceipt(want):
		s.failf(what, "read the receipt:\n want %s\n  got %s, already recorded %v, ack safe %v, %v", showReceipt(want), showReceipt(got.Receipt), got.AlreadyRecorded, got.AckSafe(), err)
	}
}

// sameDefinitions compares what is registered in an event store.
func (s *logSession) sameDefinitions(hd *handle, what, name string) {
	s.Helper()
	if countersign.CheckIdentity("event store", name) != nil {
		return
	}
	got, err := hd.events.ReadDefinitions(s.Context(), name)
	if err != nil {
		s.failf(what, "read the definitions: %v", err)
	}
	have, err := showDefinitions(got)
	if err != nil {
		s.failf(what, "read the definitions: %v", err)
	}
	if want := s.model.store(name).show(); want != have {
		s.failf(what, "the definitions are not those expected:\n%s", diffLines(want, have))
	}
}

// sameObserver compares an observer and its partitions.
func (s *logSession) sameObserver(hd *handle, what string, key eventlog.ObserverKey) {
	s.Helper()
	if key = key.Named(); key.Check() != nil {
		return
	}
	got, err := hd.observers.ReadObserver(s.Context(), key)
	o := s.model.observers[key]
	if o == nil {
		if !as[*eventlog.UnknownObserverError](err) || showState(got) != showState(eventlog.ObserverState{}) {
			s.failf(what, "there is no observer %q, and the store says: %s, %v", shorten(key.Name), showState(got), err)
		}
	} else if want := showValue(s.model.stateOf(o).value); err != nil || showValue(got) != want {
		s.failf(what, "the observer is not the one expected, %v:\n%s", err, diffLines(want, showValue(got)))
	}
	s.partitions(hd, what, eventlog.ReadPartitions{Key: key, Limit: eventlog.MaxPageLimit})
}

// partitions reads a page of partitions and compares it.
func (s *logSession) partitions(hd *handle, what string, req eventlog.ReadPartitions) []eventlog.Partition {
	s.Helper()
	got, err := hd.observers.ReadPartitions(s.Context(), req)
	if err != nil {
		s.failf(what, "read the partitions: %v", err)
	}
	if o := s.model.observers[req.Key.Named()]; o != nil {
		for _, p := range got {
			if wanted, there := o.partitions[p.Source]; there && storable(wanted.LastError, p.LastError) {
				wanted.LastError = p.LastError
				o.partitions[p.Source] = wanted
			}
		}
	}
	if want, have := showPartitions(s.model.partitionsOf(req)), showPartitions(got); want != have {
		s.failf(what, "the partitions are not those expected:\n%s", diffLines(want, have))
	}
	return got
}

// storable reports whether a failure's text is one that may be stored in place of
// another one, which was too long or had something in it that no store keeps.
func storable(text, stored string) bool {
	const limit = 4 << 10
	fits := func(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") && len(s) <= limit }
	if fits(text) || !fits(stored) {
		return false
	}
	kept := text[:min(len(text), limit-utf8.UTFMax)] // what is fit, up to the first that is not
	for i, r := range kept {
		if r == 0 || r == utf8.RuneError {
			kept = kept[:i]
			break
		}
	}
	return strings.HasPrefix(stored, kept)
}

// reopen closes every handle, opens the store as another process would, and compares
// everything.
func (s *logSession) reopen() {
	s.Helper()
	s.step++
	s.db.close()
	s.store = s.db.handle()
	s.sameAll("after the store was opened again")
}
