package eventlog

import (
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign"
)

// A Tag marks an event: a plain string, or a name with a value. A plain tag is
// never equal to a named one. Tags are plain text in every store: put no personal
// data there.
type Tag struct {
	Name  string // "" for a plain tag
	Value string // of a named tag it may be empty
}

// Check reports the first rule that the tag breaks: the parts are identities (see
// [countersign.CheckIdentity]), but for the value of a named tag, which may be
// empty.
func (t Tag) Check() error {
	switch {
	case t.Name == "":
		return countersign.CheckIdentity("tag", t.Value)
	case t.Value == "":
		return countersign.CheckIdentity("tag name", t.Name)
	}
	if err := countersign.CheckIdentity("tag name", t.Name); err != nil {
		return err
	}
	return countersign.CheckIdentity("tag value", t.Value)
}

// Key is the tag as one string, in which no two tags are equal: what an adapter
// keeps in its index. It contains a NUL byte.
func (t Tag) Key() string { return t.Name + "\x00" + t.Value }

// TagOfKey returns the tag of a [Tag.Key].
func TagOfKey(key string) Tag {
	name, value, _ := strings.Cut(key, "\x00")
	return Tag{Name: name, Value: value}
}

// distinct returns the tags without repetitions, in their order.
func distinct(tags []Tag) []Tag {
	if len(tags) == 0 {
		return nil
	}
	seen := make(map[Tag]bool, len(tags))
	all := make([]Tag, 0, len(tags))
	for _, t := range tags {
		if !seen[t] {
			seen[t] = true
			all = append(all, t)
		}
	}
	return all
}

func checkText(field, text string, limit int) error {
	switch {
	case len(text) > limit:
		return &countersign.LimitError{Field: field, Unit: "bytes", Limit: int64(limit), Actual: int64(len(text))}
	case strings.IndexByte(text, 0) >= 0:
		return &countersign.MalformedError{Field: field, Reason: "contains a NUL byte"}
	case !utf8.ValidString(text):
		return &countersign.MalformedError{Field: field, Reason: "is not valid UTF-8"}
	}
	return nil
}
