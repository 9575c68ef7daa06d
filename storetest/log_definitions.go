package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/eventlog"
)

// show is what an event store must have registered, in order.
func (s *eventStoreModel) show() string {
	var lines []string
	for _, r := range s.rules {
		lines = append(lines, fmt.Sprintf("constraint %q: %s", r.Name, showConstraint(r.Constraint)))
	}
	for _, name := range s.removed {
		lines = append(lines, fmt.Sprintf("constraint %q: removed", name))
	}
	slices.Sort(lines)
	types := slices.Clone(s.types)
	slices.SortFunc(types, func(a, b eventlog.EventType) int {
		if a.ID != b.ID {
			return strings.Compare(a.ID, b.ID)
		}
		return int(a.Generation) - int(b.Generation)
	})
	for _, t := range types {
		lines = append(lines, fmt.Sprintf("event type %q generation %d: %s", t.ID, t.Generation, showBytes(t.Schema)))
	}
	return fmt.Sprintf("revision %d, constraints %d\n%s\n", s.revision, s.constraints, strings.Join(lines, "\n"))
}

// showDefinitions is what a store says that is registered, in the order in which it
// says so.
func showDefinitions(d eventlog.Definitions) (string, error) {
	var lines []string
	for _, one := range d.All {
		switch {
		case one.Kind == eventlog.EventTypeDefinition:
			lines = append(lines, fmt.Sprintf("event type %q generation %d: %s", one.Name, one.Generation, showBytes(one.Body)))
		case len(one.Body) == 0:
			lines = append(lines, fmt.Sprintf("constraint %q: removed", one.Name))
		default:
			var c eventlog.Constraint
			if err := json.Unmarshal(one.Body, &c); err != nil {
				return "", fmt.Errorf("the constraint %q can't be read: %w", one.Name, err)
			}
			lines = append(lines, fmt.Sprintf("constraint %q: %s", one.Name, showConstraint(c)))
		}
	}
	return fmt.Sprintf("revision %d, constraints %d\n%s\n", d.Revision, d.Constraints, strings.Join(lines, "\n")), nil
}
