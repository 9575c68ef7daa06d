package receipt

import (
	"time"

	"github.com/countersign/countersign/eventlog"
)

// Found is what an adapter found of the receipts that a group of requests touch.
type Found map[Key]Receipt

// A Plan is what [Decide] or [DecideRecord] decided.
type Plan struct {
	Receipt         Receipt
	AlreadyRecorded bool // nothing is written
	Log             eventlog.Plan
}

// Decide says what an append with a receipt comes to. A receipt that is found
// answers it, before anything of the batch is looked at; else
// [eventlog.Decide] is asked, and its refusal writes no receipt. The plan shares
// memory with the request.
func Decide(found Found, s *eventlog.Slice, req AppendWithReceipt, p *eventlog.Prepared) (Plan, error) {
	if r, ok := found[req.Key()]; ok {
		return Plan{Receipt: r, AlreadyRecorded: true}, nil
	}
	log, err := eventlog.Decide(s, p)
	if err != nil {
		return Plan{}, err
	}
	r := Receipt{Key: req.Key(), Outcome: NoEvents, Epoch: req.Epoch, RecordedAt: eventlog.Microseconds(s.Now), Response: response(req.Response)}
	if log.Appended.Count > 0 {
		r.Outcome, r.Sequence, r.First, r.Last = Appended, log.Appended.Sequence, log.Appended.First, log.Appended.Last
	}
	return Plan{Receipt: r, Log: log}, nil
}

// DecideRecord says what a record of an effect without events comes to.
func DecideRecord(found Found, now time.Time, req RecordEffect) Plan {
	if r, ok := found[req.Key]; ok {
		return Plan{Receipt: r, AlreadyRecorded: true}
	}
	r := Receipt{Key: req.Key, Outcome: NoEvents, Epoch: req.Epoch, RecordedAt: eventlog.Microseconds(now), Response: response(req.Response)}
	if len(req.Reasons) > 0 {
		r.Outcome, r.Reasons = Refused, req.Reasons
	}
	return Plan{Receipt: r}
}

// response is what is stored: without bytes there is none.
func response(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
