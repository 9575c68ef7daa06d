package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/receipt"
)

// Kinds of fixtures about the event log. Those of receipts have operations of both.
const (
	eventLogKind      = "EventLog"
	effectReceiptKind = "EffectReceipt"
)

// Operations of a step.
const (
	opTypes       = "register_event_types"
	opConstraints = "register_constraints"
	opAppend      = "append"
	opRecord      = "record_effect"
	opDrop        = "drop_namespace"
)

// kindOfFixture is what a file says that it is, or nothing.
func kindOfFixture(root node) string {
	fields, _ := root.value.(map[string]node)
	kind, _ := fields["kind"].value.(string)
	return kind
}

// logScenario is a scenario about a namespace.
type logScenario struct {
	id    string
	ns    countersign.Namespace
	steps []logStep
}

// logStep is one operation and what must come of it.
type logStep struct {
	op    string
	req   any // nil for crash_recover
	want  logResult
	image logImage
}

// logResult is the result of a step. What is absent is nil and "".
type logResult struct {
	Outcome    string          `json:"outcome"`
	Revision   *uint64         `json:"revision,omitempty"`
	First      *uint64         `json:"first,omitempty"`
	Last       *uint64         `json:"last,omitempty"`
	Receipt    *string         `json:"receipt,omitempty"` // shown
	Violations []violationText `json:"violations,omitempty"`
	Scopes     []violatedText  `json:"scopes,omitempty"`
}

// violationText is a violation as a fixture has it.
type violationText struct {
	Event      uint64  `json:"event"`
	Kind       string  `json:"kind"`
	Pointer    *string `json:"pointer,omitempty"`
	Keyword    string  `json:"keyword,omitempty"`
	Constraint string  `json:"constraint,omitempty"`
	Holder     *uint64 `json:"holder,omitempty"`
	InBatch    bool    `json:"in_batch,omitempty"`
}

// violatedText is a violated scope as a fixture has it.
type violatedText struct {
	Scope  uint64 `json:"scope"` // its index in the request
	Actual uint64 `json:"actual"`
}

func (r logResult) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// logImage is everything of a namespace that a fixture compares.
type logImage struct {
	sequences map[string][]eventlog.Recorded
	receipts  []receipt.Receipt
}

// resultOf is the result of a request that was answered. The scopes are those of the
// request.
func resultOf(req any, a logAnswer) logResult {
	res := logResult{Outcome: a.outcome(req)}
	switch details := logDetails(a.err).(type) {
	case []eventlog.Violation:
		for _, v := range details {
			one := violationText{Event: uint64(v.Event), Kind: string(v.Kind), Keyword: v.Keyword, Constraint: v.Constraint, InBatch: v.InBatch} //nolint:gosec // an index
			if v.Kind == eventlog.SchemaViolation {
				one.Pointer = &v.Pointer
			}
			if v.Constraint != "" && !v.InBatch {
				one.Holder = &v.Holder
			}
			res.Violations = append(res.Violations, one)
		}
	case []eventlog.ScopeViolation:
		scopes := scopesOf(req)
		for _, v := range details {
			i := slices.IndexFunc(scopes, func(s eventlog.Scope) bool { return showScope(s) == showScope(v.Scope) })
			res.Scopes = append(res.Scopes, violatedText{Scope: uint64(i), Actual: v.Actual}) //nolint:gosec // an index; none is a great number
		}
	}
	switch v := a.value.(type) {
	case eventlog.Registered:
		res.Revision = &v.Revision
	case eventlog.Appended:
		if v.Count > 0 {
			res.First, res.Last = &v.First, &v.Last
		}
	case receipt.Result:
		shown := showReceipt(untimed(v.Receipt))
		res.Receipt = &shown
	}
	return res
}

func scopesOf(req any) []eventlog.Scope {
	switch r := req.(type) {
	case eventlog.AppendEvents:
		return r.Scopes
	case receipt.AppendWithReceipt:
		return r.Scopes
	}
	return nil
}

// untimed is a receipt without its time, which is the store's.
func untimed(r receipt.Receipt) receipt.Receipt {
	r.RecordedAt = time.Time{}
	return r
}

// show shows the image, so that two of them can be compared.
func (i logImage) show() string {
	var b strings.Builder
	names := make([]string, 0, len(i.sequences))
	for name := range i.sequences {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "sequence %q\n%s", name, showEvents(i.sequences[name]))
	}
	for _, r := range i.receipts {
		b.WriteString(showReceipt(untimed(r)) + "\n")
	}
	return b.String()
}
