package store

import (
	"testing"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
	"github.com/stretchr/testify/assert"
)

// Of two appends of one group, one may be answered by the other's receipt. When it is
// looked at, the other's caller may have changed its bytes.
func TestHitsOfAGroupShareNoMemory(t *testing.T) {
	effect := receipt.Effect{Key: receipt.Key{Namespace: countersign.Namespace{EventStore: "shop", Name: "eu"}, Occurrence: "o", Effect: "e"}}
	response, reason := []byte(`"first"`), []string{"first"}
	first := &Append{record: &receipt.RecordEffect{Effect: effect, Response: response, Reasons: reason}}
	second := &Append{record: &receipt.RecordEffect{Effect: effect, Response: []byte(`"second"`)}}
	groups := NewAppendGroups(first, second)
	assert.Len(t, groups, 1)
	groups[0].Decide(receipt.Found{}, nil, time.UnixMicro(1))
	assert.True(t, first.Writes())
	assert.False(t, second.Writes())
	clear(response)
	reason[0] = "changed"
	assert.Equal(t, `"first"`, string(second.plan.Receipt.Response))
	assert.Equal(t, []string{"first"}, second.plan.Receipt.Reasons)
}

func TestWaitersLeaveNothingBehind(t *testing.T) {
	var s signals
	q := eventlog.Log(countersign.Namespace{EventStore: "shop", Name: "eu"})
	one, leaveOne := s.listen(q)
	two, leaveTwo := s.listen(q)
	assert.Equal(t, one, two)
	leaveOne()
	assert.Len(t, s.waiting, 1)
	leaveTwo()
	assert.Empty(t, s.waiting)

	woken, leave := s.listen(q)
	s.wake(q)
	<-woken
	later, leaveLater := s.listen(q)
	leave() // of a signal that is over: the later one stays
	assert.Len(t, s.waiting, 1)
	s.wakeAll()
	<-later
	leaveLater()
	assert.Empty(t, s.waiting)
	(&Events{}).Wake(q)
}
