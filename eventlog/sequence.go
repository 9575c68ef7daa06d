package eventlog

import "github.com/countersign/countersign"

// DefaultSequence is the name of a sequence that is not named.
const DefaultSequence = "log"

// A Sequence is an ordered log of events in a namespace. It exists from its first
// event on. "" is [DefaultSequence].
type Sequence struct {
	Namespace countersign.Namespace
	Name      string
}

// Log returns the namespace's default sequence.
func Log(ns countersign.Namespace) Sequence { return Sequence{Namespace: ns, Name: DefaultSequence} }

// Named returns the sequence with its name filled in. An adapter uses no other.
func (s Sequence) Named() Sequence {
	if s.Name == "" {
		s.Name = DefaultSequence
	}
	return s
}

// Check reports the first rule that the names break, as
// [countersign.CheckIdentity] does.
func (s Sequence) Check() error {
	if err := s.Namespace.Check(); err != nil {
		return err
	}
	return countersign.CheckIdentity("sequence", s.Named().Name)
}
