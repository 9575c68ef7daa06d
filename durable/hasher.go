package durable

import "fmt"

// A HistoryHasher makes a [HistoryFingerprint] of a history that is read in
// pages. It keeps no record, so its size does not grow with the history. It is
// not safe for concurrent use.
type HistoryHasher struct {
	owner    string
	position uint64
	source   encoding
}

// NewHistoryHasher returns a hasher at position 0. A malformed owner id is a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func NewHistoryHasher(owner string) (*HistoryHasher, error) {
	if err := CheckOwner(owner); err != nil {
		return nil, err
	}
	return &HistoryHasher{owner: owner, source: newEncoding(historySourceTag)}, nil
}

// Add takes the next records, in position order and without a gap. A record
// that does not follow, or that no store accepts, is a [*CorruptImageError]; the
// hasher then stands before that record.
func (h *HistoryHasher) Add(records ...Record) error {
	// Only the zero hasher has no hash. It has no owner either, so what it is
	// given never becomes evidence.
	if h.source.hash == nil {
		h.source = newEncoding(historySourceTag)
	}
	for _, r := range records {
		if r.Position != h.position+1 {
			return h.corrupt(HistoryNotContiguous, "the record at position %d follows position %d", r.Position, h.position)
		}
		if err := r.Payload.Check("payload"); err != nil {
			return h.corrupt(CorruptPayload, "event at position %d: %v", r.Position, err)
		}
		h.source.record(r)
		h.position = r.Position
	}
	return nil
}

// Position returns the position of the last record, 0 before the first one.
func (h *HistoryHasher) Position() uint64 { return h.position }

// Fingerprint returns the fingerprint of the records so far and of a projection
// of them. The hasher can go on afterwards. A malformed projection is a
// [*countersign.MalformedError] or a [*countersign.LimitError].
func (h *HistoryHasher) Fingerprint(projection Payload) (HistoryFingerprint, error) {
	if err := CheckOwner(h.owner); err != nil {
		return HistoryFingerprint{}, err
	}
	f, err := newFingerprint(h.owner, CompleteHistory, h.position, h.source.digest(), projection)
	return HistoryFingerprint{fingerprint: f}, err
}

func (h *HistoryHasher) corrupt(reason CorruptReason, format string, args ...any) error {
	return &CorruptImageError{Owner: h.owner, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
