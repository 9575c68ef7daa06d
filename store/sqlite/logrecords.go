package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/countersign/countersign/store"
)

const (
	maxNumber = countersign.MaxInteger
	pageSize  = 4096
	rowSize   = 256 // of a small row with its index entries, about
)

// number is a number of 64 bits without a sign, stored by its bits.
func number(v driver.Value) uint64 { return uint64(v.(int64)) } // by its bits

// optional is null for what is absent.
func optional(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func optionalText(v driver.Value) string {
	s, _ := v.(string)
	return s
}

func optionalBytes(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

func timeOf(v driver.Value) time.Time { return time.UnixMicro(v.(int64)).UTC() }

// sequenceOf reads event_store, namespace, name.
func sequenceOf(v []driver.Value) eventlog.Sequence {
	return eventlog.Sequence{Namespace: countersign.Namespace{EventStore: v[0].(string), Name: v[1].(string)}, Name: v[2].(string)}
}

// definitionOf reads kind, name, generation, body.
func definitionOf(v []driver.Value) eventlog.Definition {
	body, _ := v[3].([]byte)
	return eventlog.Definition{Kind: v[0].(string), Name: v[1].(string), Generation: uint32(v[2].(int64)), Body: body}
}

// claimOf reads index_key, source, value_key, number.
func claimOf(v []driver.Value) eventlog.Claim {
	c := eventlog.Claim{Source: v[1].(string), Number: number(v[3])}
	copy(c.Index[:], bytesOf(v[0]))
	copy(c.Value[:], bytesOf(v[2]))
	return c
}

// recordedOf reads a number and eventColumns.
func recordedOf(v []driver.Value) eventlog.Recorded {
	return eventlog.Recorded{Number: number(v[0]), Event: eventlog.Event{
		Type: v[1].(string), Generation: uint32(v[2].(int64)), Source: v[3].(string),
		SourceType: optionalText(v[4]), StreamType: optionalText(v[5]), StreamID: optionalText(v[6]), Subject: optionalText(v[7]),
		Tags: tagsOf(v[8]), Content: bytesOf(v[9]), Occurred: timeOf(v[10]),
		CorrelationID: optionalText(v[11]), CausationID: optionalText(v[12]), CausedBy: optionalText(v[13]),
	}}
}

func addEvent(to *rows, key int64, e *eventlog.Recorded) {
	to.add(key, int64(e.Number), e.Type, int64(e.Generation), e.Source,
		optional(e.SourceType), optional(e.StreamType), optional(e.StreamID), optional(e.Subject),
		tagsValue(e.Tags), blob(e.Content), e.Occurred.UnixMicro(),
		optional(e.CorrelationID), optional(e.CausationID), optional(e.CausedBy))
}

// tagsValue is the keys of the tags, with NUL between them. A key contains one
// itself.
func tagsValue(tags []eventlog.Tag) driver.Value {
	if len(tags) == 0 {
		return nil
	}
	var b []byte
	for i, t := range tags {
		if i > 0 {
			b = append(b, 0)
		}
		b = append(b, t.Key()...)
	}
	return b
}

func tagsOf(v driver.Value) []eventlog.Tag {
	b, _ := v.([]byte)
	if len(b) == 0 {
		return nil
	}
	parts := strings.Split(string(b), "\x00")
	tags := make([]eventlog.Tag, 0, len(parts)/2)
	for i := 0; i+1 < len(parts); i += 2 {
		tags = append(tags, eventlog.Tag{Name: parts[i], Value: parts[i+1]})
	}
	return tags
}

// effectReceiptOf reads receiptColumns.
func effectReceiptOf(v []driver.Value) (receipt.Receipt, error) {
	r := receipt.Receipt{
		Key: receipt.Key{
			Namespace:  countersign.Namespace{EventStore: v[0].(string), Name: v[1].(string)},
			Occurrence: v[2].(string), Effect: v[3].(string),
		},
		Outcome: receipt.Outcome(v[4].(string)), Sequence: optionalText(v[5]),
		Epoch: number(v[9]), RecordedAt: timeOf(v[10]),
	}
	if v[6] != nil && v[7] != nil {
		r.First, r.Last = number(v[6]), number(v[7])
	}
	if reasons, ok := v[8].([]byte); ok {
		if err := json.Unmarshal(reasons, &r.Reasons); err != nil {
			return r, &store.UnusableError{Reason: fmt.Sprintf("the reasons of a receipt of %.80q can't be read", r.Key.Occurrence), Err: err}
		}
	}
	r.Response, _ = v[11].([]byte)
	return r, nil
}

func addReceipt(to *rows, r receipt.Receipt) error {
	var reasons, first, last driver.Value
	if len(r.Reasons) > 0 {
		encoded, err := json.Marshal(r.Reasons)
		if err != nil {
			return err
		}
		reasons = encoded
	}
	if r.Outcome == receipt.Appended {
		first, last = int64(r.First), int64(r.Last)
	}
	to.add(r.Key.Namespace.EventStore, r.Key.Namespace.Name, r.Key.Occurrence, r.Key.Effect, string(r.Outcome), optional(r.Sequence),
		first, last, reasons, int64(r.Epoch), r.RecordedAt.UnixMicro(), optionalBytes(r.Response))
	return nil
}

// partitionOf reads partitionColumns.
func partitionOf(v []driver.Value) eventlog.Partition {
	return eventlog.Partition{
		Source: v[0].(string), From: number(v[1]), ReplayBefore: number(v[2]), Attempts: int(v[3].(int64)), Quarantined: v[4].(int64) != 0,
		RetryAt: timeOf(v[5]), LastError: optionalText(v[6]), Operator: optionalText(v[7]), OperatorAt: timeOf(v[8]),
	}
}

func addPartition(to *rows, observer int64, p eventlog.Partition) {
	quarantined := int64(0)
	if p.Quarantined {
		quarantined = 1
	}
	to.add(observer, p.Source, int64(p.From), int64(p.ReplayBefore), int64(p.Attempts), quarantined,
		p.RetryAt.UnixMicro(), optional(p.LastError), optional(p.Operator), p.OperatorAt.UnixMicro())
}
