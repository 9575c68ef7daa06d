package mongo

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A logDocument is a document of the collection of the log. Which fields it has
// depends on its kind. Times are microseconds since 1970.
type logDocument struct {
	ID   bson.RawValue `bson:"_id"`
	Kind string        `bson:"kind"`
	Of   []byte        `bson:"of"`   // the key that it is stored under
	Name string        `bson:"name"` // among those: of a sequence, a partition's or a claim's source, a receipt's occurrence
	Key  []byte        `bson:"key"`  // of a head: what belongs to it is stored under it
	Now  int64         `bson:"now"`  // not stored: the server's time in milliseconds

	Revision    int64 `bson:"revision"` // definitions
	Constraints int64 `bson:"constraints"`

	DefinitionKind string `bson:"definition_kind"` // definition
	Generation     int64  `bson:"generation"`
	Body           []byte `bson:"body"`

	Next     int64 `bson:"next"` // sequence, observer; leftover: its events
	Indexed  int64 `bson:"indexed"`
	Building int64 `bson:"building"`
	Through  int64 `bson:"through"`

	Index  []byte `bson:"index"` // claim, holder
	Value  []byte `bson:"value"`
	Source string `bson:"source"` // holder
	Number int64  `bson:"number"`

	Effect     string `bson:"effect"` // receipt
	Outcome    string `bson:"outcome"`
	Sequence   string `bson:"sequence"`
	First      int64  `bson:"first"`
	Last       int64  `bson:"last"`
	Reasons    []byte `bson:"reasons"` // JSON
	Epoch      int64  `bson:"epoch"`
	RecordedAt int64  `bson:"recorded_at"`
	Response   []byte `bson:"response"`

	ReplayBefore int64  `bson:"replay_before"` // observer, partition
	Fence        int64  `bson:"fence"`         // observer
	Holder       string `bson:"holder"`
	LeaseUntil   int64  `bson:"lease_until"`

	From        int64  `bson:"from"` // partition
	Attempts    int64  `bson:"attempts"`
	Quarantined bool   `bson:"quarantined"`
	RetryAt     int64  `bson:"retry_at"`
	LastError   string `bson:"last_error"`
	Operator    string `bson:"operator"`
	OperatorAt  int64  `bson:"operator_at"`
}

// check reports what no write of this library can have left.
func (d *logDocument) check() error {
	switch d.Kind {
	case namespaceKind, sequenceKind, recordsKind, observerKind, leftoverKind:
		if len(d.Key) != len(key{}) {
			return d.unusable(errors.New("mongo: the key has another length"))
		}
	}
	switch d.Kind {
	case sequenceKind, recordsKind, observerKind:
		if len(d.Of) != len(key{}) {
			return d.unusable(errors.New("mongo: the namespace's key has another length"))
		}
	case claimKind, holderKind:
		if len(d.Index) != len(eventlog.IndexKey{}) || len(d.Value) != len(eventlog.ValueKey{}) {
			return d.unusable(errors.New("mongo: the claim has other lengths"))
		}
	}
	return nil
}

func (d *logDocument) unusable(err error) error {
	return &store.UnusableError{Reason: fmt.Sprintf("the document %v of the log is not as this library writes it", d.ID), Err: err}
}

func (d *logDocument) ownKey() key { return key(d.Key) }

// keys are those of a place or an observer.
func (d *logDocument) keys() keys { return keys{own: key(d.Key), life: key(d.Of)} }

func (d *logDocument) indexState() eventlog.IndexState {
	return eventlog.IndexState{Next: loaded(d.Next), Indexed: loaded(d.Indexed), Building: loaded(d.Building), Through: loaded(d.Through)}
}

func (d *logDocument) definition() eventlog.Definition {
	return eventlog.Definition{Kind: d.DefinitionKind, Name: d.Name, Generation: uint32(d.Generation), Body: copied(d.Body)} //nolint:gosec // as it was stored
}

func definitionDocument(eventStore string, d eventlog.Definition) bson.D {
	id := definitionKind + separator + eventStore + separator + d.Kind + separator + d.Name + separator + fixed(uint64(d.Generation))
	return bson.D{
		{Key: "_id", Value: id}, {Key: "kind", Value: definitionKind},
		{Key: "of", Value: definitionsKey(eventStore)}, {Key: "name", Value: d.Name},
		{Key: "definition_kind", Value: d.Kind}, {Key: "generation", Value: int64(d.Generation)}, {Key: "body", Value: bytesOf(d.Body)},
	}
}

// claim returns the claim of either of its documents.
func (d *logDocument) claim() eventlog.Claim {
	c := eventlog.Claim{Index: eventlog.IndexKey(d.Index), Source: d.Name, Value: eventlog.ValueKey(d.Value), Number: loaded(d.Number)}
	if d.Kind == holderKind {
		c.Source = d.Source
	}
	return c
}

func ownerOf(c eventlog.Claim) eventlog.ClaimOwner {
	return eventlog.ClaimOwner{Index: c.Index, Source: c.Source}
}

func valueOf(c eventlog.Claim) eventlog.ClaimValue {
	return eventlog.ClaimValue{Index: c.Index, Value: c.Value}
}

// claimDocuments are a claim by its source, and by its value: both are unique.
func claimDocuments(sequence key, c eventlog.Claim) [2]bson.D {
	fields := []bson.E{{Key: "index", Value: c.Index[:]}, {Key: "value", Value: c.Value[:]}, {Key: "number", Value: stored(c.Number)}}
	return [2]bson.D{
		append(bson.D{
			{Key: "_id", Value: claimID(sequence, ownerOf(c))}, {Key: "kind", Value: claimKind},
			{Key: "of", Value: sequence[:]}, {Key: "name", Value: c.Source},
		}, fields...),
		append(bson.D{
			{Key: "_id", Value: holderID(sequence, valueOf(c))}, {Key: "kind", Value: holderKind}, {Key: "source", Value: c.Source},
		}, fields...),
	}
}

func (d *logDocument) receipt(k receipt.Key) (receipt.Receipt, error) {
	r := receipt.Receipt{
		Key:     receipt.Key{Namespace: k.Namespace, Occurrence: d.Name, Effect: d.Effect},
		Outcome: receipt.Outcome(d.Outcome), Sequence: d.Sequence, First: loaded(d.First), Last: loaded(d.Last),
		Epoch: loaded(d.Epoch), RecordedAt: timeOf(d.RecordedAt),
	}
	if len(d.Response) > 0 {
		r.Response = copied(d.Response)
	}
	if len(d.Reasons) > 0 {
		if err := json.Unmarshal(d.Reasons, &r.Reasons); err != nil {
			return r, d.unusable(err)
		}
	}
	return r, nil
}

func receiptRow(life key, r receipt.Receipt) (bson.D, error) {
	d := bson.D{
		{Key: "_id", Value: receiptID(life, r.Key)}, {Key: "kind", Value: effectRowKind},
		{Key: "of", Value: life[:]}, {Key: "name", Value: r.Key.Occurrence},
		{Key: "effect", Value: r.Key.Effect}, {Key: "outcome", Value: string(r.Outcome)},
		{Key: "epoch", Value: stored(r.Epoch)}, {Key: "recorded_at", Value: r.RecordedAt.UnixMicro()},
	}
	if r.Outcome == receipt.Appended {
		d = append(d, bson.E{Key: "sequence", Value: r.Sequence}, bson.E{Key: "first", Value: stored(r.First)}, bson.E{Key: "last", Value: stored(r.Last)})
	}
	if len(r.Reasons) > 0 {
		reasons, err := json.Marshal(r.Reasons)
		if err != nil {
			return nil, err
		}
		d = append(d, bson.E{Key: "reasons", Value: reasons})
	}
	if len(r.Response) > 0 {
		d = append(d, bson.E{Key: "response", Value: r.Response})
	}
	return d, nil
}

func (d *logDocument) observer(k eventlog.ObserverKey, now time.Time) *eventlog.ObserverState {
	return &eventlog.ObserverState{
		Key: k, Next: loaded(d.Next), ReplayBefore: loaded(d.ReplayBefore),
		Fence: loaded(d.Fence), Holder: d.Holder, LeaseUntil: timeOf(d.LeaseUntil), Now: now,
	}
}

func observerFields(o eventlog.ObserverState) bson.D {
	return bson.D{
		{Key: "next", Value: stored(o.Next)}, {Key: "replay_before", Value: stored(o.ReplayBefore)},
		{Key: "fence", Value: stored(o.Fence)}, {Key: "holder", Value: o.Holder}, {Key: "lease_until", Value: o.LeaseUntil.UnixMicro()},
	}
}

func (d *logDocument) partition() eventlog.Partition {
	return eventlog.Partition{
		Source: d.Name, From: loaded(d.From), ReplayBefore: loaded(d.ReplayBefore),
		Attempts: int(min(d.Attempts, math.MaxInt32)), Quarantined: d.Quarantined, RetryAt: timeOf(d.RetryAt), LastError: d.LastError,
		Operator: d.Operator, OperatorAt: timeOf(d.OperatorAt),
	}
}

func partitionDocument(observer key, p eventlog.Partition) bson.D {
	return bson.D{
		{Key: "_id", Value: partitionID(observer, p.Source)}, {Key: "kind", Value: partitionKind},
		{Key: "of", Value: observer[:]}, {Key: "name", Value: p.Source},
		{Key: "from", Value: stored(p.From)}, {Key: "replay_before", Value: stored(p.ReplayBefore)},
		{Key: "attempts", Value: int64(p.Attempts)}, {Key: "quarantined", Value: p.Quarantined}, {Key: "retry_at", Value: p.RetryAt.UnixMicro()},
		{Key: "last_error", Value: p.LastError}, {Key: "operator", Value: p.Operator}, {Key: "operator_at", Value: p.OperatorAt.UnixMicro()},
	}
}

func timeOf(microseconds int64) time.Time { return time.UnixMicro(microseconds).UTC() }
