package mongo

import (
	"github.com/countersign/countersign/eventlog"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// An eventRow is an event as it is stored. What an event does not have is left
// out, and so are its entries in the indexes.
type eventRow struct {
	Number        int64    `bson:"number"`
	Type          string   `bson:"type"`
	Generation    int64    `bson:"generation"`
	Source        string   `bson:"source"`
	SourceType    string   `bson:"source_type"`
	StreamType    string   `bson:"stream_type"`
	StreamID      string   `bson:"stream_id"`
	Subject       string   `bson:"subject"`
	Tags          []string `bson:"tags"` // by their keys
	Content       []byte   `bson:"content"`
	Occurred      int64    `bson:"occurred"`
	CorrelationID string   `bson:"correlation_id"`
	CausationID   string   `bson:"causation_id"`
	CausedBy      string   `bson:"caused_by"`
}

func (e *eventRow) recorded() eventlog.Recorded {
	r := eventlog.Recorded{Number: loaded(e.Number), Event: eventlog.Event{
		Type: e.Type, Generation: uint32(e.Generation), //nolint:gosec // as it was stored
		Source: e.Source, SourceType: e.SourceType, StreamType: e.StreamType, StreamID: e.StreamID, Subject: e.Subject,
		Content: copied(e.Content), Occurred: timeOf(e.Occurred),
		CorrelationID: e.CorrelationID, CausationID: e.CausationID, CausedBy: e.CausedBy,
	}}
	for _, tag := range e.Tags {
		r.Tags = append(r.Tags, eventlog.TagOfKey(tag))
	}
	return r
}

func eventRowOf(sequence key, e eventlog.Recorded) bson.D {
	d := bson.D{
		{Key: "_id", Value: eventKey(sequence, e.Number)}, {Key: "sequence", Value: sequence[:]}, {Key: "number", Value: stored(e.Number)},
		{Key: "type", Value: e.Type}, {Key: "generation", Value: int64(e.Generation)}, {Key: "source", Value: e.Source},
		{Key: "content", Value: bytesOf(e.Content)}, {Key: "occurred", Value: e.Occurred.UnixMicro()},
	}
	for _, optional := range []struct{ field, value string }{
		{"source_type", e.SourceType}, {"stream_type", e.StreamType}, {"stream_id", e.StreamID}, {"subject", e.Subject},
		{"correlation_id", e.CorrelationID}, {"causation_id", e.CausationID}, {"caused_by", e.CausedBy},
	} {
		if optional.value != "" {
			d = append(d, bson.E{Key: optional.field, Value: optional.value})
		}
	}
	if len(e.Tags) > 0 {
		tags := make([]string, len(e.Tags))
		for i, t := range e.Tags {
			tags[i] = t.Key()
		}
		d = append(d, bson.E{Key: "tags", Value: tags})
	}
	return d
}

// eventFilter matches the events of a sequence in a range of numbers, below a bound
// that is above from.
func eventFilter(sequence key, f eventlog.Filter, from, bound uint64) (filter bson.D, order string) {
	if f.Empty() {
		return bson.D{
			{Key: "_id", Value: bson.D{{Key: "$gte", Value: eventKey(sequence, from)}, {Key: "$lt", Value: eventKey(sequence, bound)}}},
			{Key: "sequence", Value: sequence[:]},
		}, "_id"
	}
	filter = bson.D{{Key: "sequence", Value: sequence[:]}}
	for _, part := range []struct{ field, value string }{
		{"source", f.Source}, {"source_type", f.SourceType}, {"stream_type", f.StreamType}, {"stream_id", f.StreamID},
	} {
		if part.value != "" {
			filter = append(filter, bson.E{Key: part.field, Value: part.value})
		}
	}
	if len(f.EventTypes) > 0 {
		filter = append(filter, bson.E{Key: "type", Value: anyOf(f.EventTypes)})
	}
	if len(f.Tags) > 0 {
		tags := make([]string, len(f.Tags))
		for i, t := range f.Tags {
			tags[i] = t.Key()
		}
		filter = append(filter, bson.E{Key: "tags", Value: anyOf(tags)})
	}
	return append(filter, bson.E{Key: "number", Value: bson.D{{Key: "$gte", Value: stored(from)}, {Key: "$lte", Value: upTo(bound)}}}), "number"
}

func anyOf(values []string) any {
	if len(values) == 1 {
		return values[0]
	}
	return bson.D{{Key: "$in", Value: values}}
}
