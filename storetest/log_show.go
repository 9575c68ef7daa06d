package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// What is compared is shown as text: two values are the same exactly if their texts
// are. Long ones are shown by their beginning, length and hash.

func showTime(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.Format(time.RFC3339Nano)
}

func showBytes(b []byte) string {
	if b == nil {
		return "none"
	}
	return shortQuoted(string(b))
}

// shortQuoted is the string with its quotes, or its beginning.
func shortQuoted(s string) string {
	if len(s) > 300 {
		return shorten(s)
	}
	return fmt.Sprintf("%q", s)
}

func showTags(tags []eventlog.Tag) string {
	parts := make([]string, len(tags))
	for i, t := range tags {
		parts[i] = fmt.Sprintf("%s=%s", shortQuoted(t.Name), shortQuoted(t.Value))
	}
	return strings.Join(parts, " ")
}

func showEvent(e eventlog.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s generation %d source %s occurred %s content %s", shortQuoted(e.Type), e.Generation, shortQuoted(e.Source), showTime(e.Occurred), showBytes(e.Content))
	for _, one := range []struct{ name, value string }{
		{"source type", e.SourceType}, {"stream type", e.StreamType}, {"stream id", e.StreamID}, {"subject", e.Subject},
		{"correlation", e.CorrelationID}, {"causation", e.CausationID}, {"caused by", e.CausedBy}, {"tags", showTags(e.Tags)},
	} {
		if one.value != "" {
			fmt.Fprintf(&b, " %s %s", one.name, shortQuoted(one.value))
		}
	}
	return b.String()
}

func showEvents(events []eventlog.Recorded) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d: %s\n", e.Number, showEvent(e.Event))
	}
	return b.String()
}

func showReceipt(r receipt.Receipt) string {
	return fmt.Sprintf("%s/%s occurrence %s effect %s: %s sequence %s %d to %d reasons %s epoch %d recorded %s response %s",
		shortQuoted(r.Key.Namespace.EventStore), shortQuoted(r.Key.Namespace.Name), shortQuoted(r.Key.Occurrence), shortQuoted(r.Key.Effect),
		r.Outcome, shortQuoted(r.Sequence), r.First, r.Last, shortQuoted(fmt.Sprintf("%q", r.Reasons)), r.Epoch, showTime(r.RecordedAt), showBytes(r.Response))
}

func showReceipts(all []receipt.Receipt) string {
	var b strings.Builder
	for _, r := range all {
		b.WriteString(showReceipt(r) + "\n")
	}
	return b.String()
}

func showState(s eventlog.ObserverState) string {
	return fmt.Sprintf("observer %s of %s/%s/%s next %d replay before %d fence %d holder %q until %s",
		shortQuoted(s.Key.Name), shortQuoted(s.Key.Sequence.Namespace.EventStore), shortQuoted(s.Key.Sequence.Namespace.Name), shortQuoted(s.Key.Sequence.Name),
		s.Next, s.ReplayBefore, s.Fence, s.Holder, showTime(s.LeaseUntil))
}

func showPartition(p eventlog.Partition) string {
	return fmt.Sprintf("partition %s from %d replay before %d attempts %d quarantined %v retry at %s error %s operator %q at %s",
		shortQuoted(p.Source), p.From, p.ReplayBefore, p.Attempts, p.Quarantined, showTime(p.RetryAt), shortQuoted(p.LastError), p.Operator, showTime(p.OperatorAt))
}

func showPartitions(all []eventlog.Partition) string {
	var b strings.Builder
	for _, p := range all {
		b.WriteString(showPartition(p) + "\n")
	}
	return b.String()
}

// showConstraint shows a constraint so that two that are the same look the same.
func showConstraint(c eventlog.Constraint) string {
	c = copyConstraint(c)
	slices.SortFunc(c.Covers, func(a, b eventlog.Covered) int { return strings.Compare(a.Type, b.Type) })
	slices.Sort(c.RemovedBy)
	var b strings.Builder
	fmt.Fprintf(&b, "%q %s ignore case %v within %+v removed by %q", c.Name, c.Kind, c.IgnoreCase, c.Within, c.RemovedBy)
	for _, covered := range c.Covers {
		fmt.Fprintf(&b, " covers %q %q", covered.Type, covered.Properties)
	}
	return b.String()
}

func showScope(s eventlog.Scope) string {
	expected := "none yet"
	if n, ok := s.Expected.Number(); ok {
		expected = fmt.Sprint(n)
	} else if s.Expected == (eventlog.Expected{}) {
		expected = "nothing"
	}
	return fmt.Sprintf("%q source %q source type %q stream type %q stream id %q types %q expected %s", s.Label, shorten(s.Source), s.SourceType, s.StreamType, s.StreamID, s.EventTypes, expected)
}

// showValue shows a result.
func showValue(v any) string {
	switch v := v.(type) {
	case receipt.Result:
		return fmt.Sprintf("already recorded %v: %s", v.AlreadyRecorded, showReceipt(v.Receipt))
	case eventlog.ObserverState:
		return showState(v) + " now " + showTime(v.Now)
	case eventlog.Partition:
		return showPartition(v)
	}
	return fmt.Sprintf("%+v", v)
}

// showDetails shows what an error says.
func showDetails(v any) string {
	switch all := v.(type) {
	case []eventlog.Violation:
		var b strings.Builder
		for _, v := range all {
			fmt.Fprintf(&b, "%+v\n", v)
		}
		return b.String()
	case []eventlog.ScopeViolation:
		var b strings.Builder
		for _, v := range all {
			n, some := v.Expected.Number()
			fmt.Fprintf(&b, "scope %s: expected %d (%v), actual %d\n", showScope(v.Scope), n, some, v.Actual)
		}
		return b.String()
	}
	return fmt.Sprintf("%+v", v)
}

// describeLog names a request in a message.
func describeLog(req any) string {
	switch r := req.(type) {
	case eventlog.AppendEvents:
		return describeAppend(r)
	case receipt.AppendWithReceipt:
		return fmt.Sprintf("%s, with the receipt of %q, effect %q, under epoch %d, response %s", describeAppend(r.AppendEvents), shorten(r.Occurrence), shorten(r.Effect), r.Epoch, showBytes(r.Response))
	case receipt.RecordEffect:
		return fmt.Sprintf("record %q, effect %q, under epoch %d, reasons %.300q, response %s", shorten(r.Occurrence), shorten(r.Key.Effect), r.Epoch, r.Reasons, showBytes(r.Response))
	case countersign.Namespace:
		return fmt.Sprintf("drop the namespace %q of %q", r.Name, r.EventStore)
	case eventlog.RegisterEventTypes:
		return fmt.Sprintf("register %d event types in %q", len(r.Types), r.EventStore)
	case eventlog.RegisterConstraints:
		return fmt.Sprintf("register %d constraints in %q, remove %q", len(r.Constraints), r.EventStore, r.Remove)
	}
	return fmt.Sprintf("%s %.600s", reflect.TypeOf(req).Name(), fmt.Sprintf("%+v", req))
}

func describeAppend(r eventlog.AppendEvents) string {
	var b strings.Builder
	fmt.Fprintf(&b, "append %d events to %q of %q/%q", len(r.Events), shorten(r.Sequence.Name), shorten(r.Sequence.Namespace.EventStore), shorten(r.Sequence.Namespace.Name))
	const most = 4
	for i, e := range r.Events[:min(most, len(r.Events))] {
		fmt.Fprintf(&b, "; %d: %s", i, showEvent(e))
	}
	for _, s := range r.Scopes[:min(most, len(r.Scopes))] {
		b.WriteString("; scope " + showScope(s))
	}
	return b.String()
}
