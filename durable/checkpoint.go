package durable

import (
	"fmt"
	"slices"

	"github.com/countersign/countersign"
)

// An Entry is an entity of a projection and its value.
type Entry struct {
	EntityID string
	Value    string
}

// A Checkpoint is a projection together with the position up to which it has
// consumed its source. The zero Checkpoint is the beginning.
//
// It is advisory: no position, fence or state is taken from one to decide a
// transition.
type Checkpoint struct {
	Through           uint64  // the last position that was consumed
	ProjectionVersion uint64  // grows by one for each fact
	Entries           []Entry // the full state, sorted by entity id, byte by byte
}

// Equal reports whether both checkpoints stand at the same position and hold
// the same version and entries. No entries and nil are the same.
func (c Checkpoint) Equal(d Checkpoint) bool { return c.Through == d.Through && c.sameContent(d) }

// sameContent is Equal without the position.
func (c Checkpoint) sameContent(d Checkpoint) bool {
	return c.ProjectionVersion == d.ProjectionVersion && slices.Equal(c.Entries, d.Entries)
}

// Validate reports why no sequence of facts can have made the checkpoint, as a
// [*CorruptCheckpointError].
func (c Checkpoint) Validate() error {
	if err := c.checkVersion(); err != nil {
		return err
	}
	if uint64(len(c.Entries)) > c.ProjectionVersion {
		return c.corrupt(EntriesPastVersion, "%d entries at version %d", len(c.Entries), c.ProjectionVersion)
	}
	for i, e := range c.Entries {
		if e.EntityID == "" {
			return c.corrupt(EntryWithoutName, "entry %d", i)
		}
		if i > 0 && e.EntityID <= c.Entries[i-1].EntityID {
			return c.corrupt(EntryOrder, "entry %q follows %q", e.EntityID, c.Entries[i-1].EntityID)
		}
	}
	return nil
}

// checkVersion is the part of Validate that also an observed projection has to
// pass. It leaves the entries alone.
func (c Checkpoint) checkVersion() error {
	switch {
	case c.Through > countersign.MaxInteger:
		return c.corrupt(CheckpointInteger, "it is above 2^63-1")
	case c.ProjectionVersion > c.Through:
		return c.corrupt(VersionPastThrough, "version %d", c.ProjectionVersion)
	}
	return nil
}

func (c Checkpoint) corrupt(reason CheckpointReason, format string, args ...any) error {
	return &CorruptCheckpointError{Through: c.Through, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// A CheckpointReason says which rule a checkpoint breaks.
type CheckpointReason string

const (
	CheckpointInteger  CheckpointReason = "integer"              // a position above 2^63-1
	VersionPastThrough CheckpointReason = "version_past_through" // more facts than positions
	EntriesPastVersion CheckpointReason = "entries_past_version" // more entities than facts
	EntryWithoutName   CheckpointReason = "entry_without_name"
	EntryOrder         CheckpointReason = "entry_order" // unsorted, or an entity twice
)

// CorruptCheckpointError says that no sequence of facts can have made a
// checkpoint. Nothing may be projected from it. It matches
// [countersign.ErrRefused].
type CorruptCheckpointError struct {
	Through uint64 // where the checkpoint claims to stand
	Reason  CheckpointReason
	Detail  string
}

func (e *CorruptCheckpointError) Error() string {
	return fmt.Sprintf("durable: corrupt checkpoint at position %d (%s): %s", e.Through, e.Reason, e.Detail)
}

// Is reports whether target is the error's kind.
func (e *CorruptCheckpointError) Is(target error) bool { return target == countersign.ErrRefused }
