package durable_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"pgregory.net/rapid"
)

// v1 is a payload under schema and codec version 1.
func v1(s string) durable.Payload {
	return durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(s)}
}

// history puts payloads at the positions from 1.
func history(payloads ...durable.Payload) []durable.Record {
	records := make([]durable.Record, len(payloads))
	for i, p := range payloads {
		records[i] = durable.Record{Position: uint64(i) + 1, Payload: p}
	}
	return records
}

func fingerprintHistory(t *testing.T, owner string, records []durable.Record, projection durable.Payload) durable.HistoryFingerprint {
	t.Helper()
	f, err := durable.FingerprintHistory(owner, records, projection)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type goldenPayload struct {
	SchemaVersion uint32 `json:"schema_version"`
	CodecVersion  uint32 `json:"codec_version"`
	Bytes         []byte `json:"bytes_base64"`
}

type goldenRecord struct {
	Position uint64        `json:"position"`
	Payload  goldenPayload `json:"payload"`
}

type goldenDigests struct {
	Source      string `json:"source_digest"`
	Projection  string `json:"projection_digest"`
	Fingerprint string `json:"fingerprint"`
}

func (r goldenRecord) record() durable.Record {
	return durable.Record{Position: r.Position, Payload: durable.Payload(r.Payload)}
}

func TestFingerprintsAreTheGoldenVectors(t *testing.T) {
	file, err := os.Open("../conformance/golden/fingerprints.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var golden struct {
		Description string `json:"description"`
		Cases       []struct {
			ID         string         `json:"id"`
			Owner      string         `json:"owner_id"`
			History    []goldenRecord `json:"history"`
			Snapshot   *goldenRecord  `json:"snapshot"`
			Projection goldenPayload  `json:"projection"`
			Latest     goldenRecord   `json:"latest"`
			Expect     struct {
				History  goldenDigests  `json:"history"`
				Snapshot *goldenDigests `json:"snapshot"`
				Latest   goldenDigests  `json:"latest"`
			} `json:"expect"`
		} `json:"cases"`
	}
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range golden.Cases {
		t.Run(c.ID, func(t *testing.T) {
			var records []durable.Record
			for _, r := range c.History {
				records = append(records, r.record())
			}
			projection := durable.Payload(c.Projection)
			h := fingerprintHistory(t, c.Owner, records, projection)
			got := goldenDigests{h.SourceDigest().String(), h.ProjectionDigest().String(), h.Digest().String()}
			if got != c.Expect.History {
				t.Errorf("history: got %+v, expected %+v", got, c.Expect.History)
			}
			l, err := durable.FingerprintLatest(c.Owner, c.Latest.Position, durable.Payload(c.Latest.Payload))
			if err != nil {
				t.Fatal(err)
			}
			got = goldenDigests{l.SourceDigest().String(), l.ProjectionDigest().String(), l.Digest().String()}
			if got != c.Expect.Latest {
				t.Errorf("latest: got %+v, expected %+v", got, c.Expect.Latest)
			}
			if c.Snapshot == nil {
				return
			}
			s, err := durable.FingerprintSnapshot(c.Owner, c.Snapshot.record(), projection)
			if err != nil {
				t.Fatal(err)
			}
			got = goldenDigests{s.SourceDigest().String(), s.ProjectionDigest().String(), s.Digest().String()}
			if got != *c.Expect.Snapshot {
				t.Errorf("snapshot: got %+v, expected %+v", got, *c.Expect.Snapshot)
			}
		})
	}
}

func TestFingerprintTellsWhatItBinds(t *testing.T) {
	projection := durable.Payload{SchemaVersion: 3, CodecVersion: 4, Bytes: []byte("state")}
	h := fingerprintHistory(t, "order-42", history(v1("a"), v1("b")), projection)
	s, err := durable.FingerprintSnapshot("order-42", durable.Record{Position: 7, Payload: v1("b")}, projection)
	if err != nil {
		t.Fatal(err)
	}
	l, err := durable.FingerprintLatest("order-42", 9, projection)
	if err != nil {
		t.Fatal(err)
	}
	type binding interface {
		Owner() string
		Completeness() durable.Completeness
		Frontier() uint64
		Version() durable.Version
		Valid() bool
	}
	for _, c := range []struct {
		f            binding
		completeness durable.Completeness
		frontier     uint64
	}{
		{h, "complete_history", 2},
		{s, "snapshot_state", 7},
		{l, "latest_state_only", 9},
	} {
		if !c.f.Valid() || c.f.Owner() != "order-42" || c.f.Completeness() != c.completeness ||
			c.f.Frontier() != c.frontier || c.f.Version() != (durable.Version{Schema: 3, Codec: 4}) {
			t.Errorf("got %+v, expected %s through %d", c.f, c.completeness, c.frontier)
		}
	}
	if h.Digest() == s.Digest() || h.Digest() == l.Digest() || s.Digest() == l.Digest() {
		t.Error("two kinds of fingerprint have one digest")
	}
	if h.ProjectionDigest() != s.ProjectionDigest() || h.ProjectionDigest() != l.ProjectionDigest() {
		t.Error("equal projections have unequal digests")
	}
}

func TestUnequalHistoriesMayHaveEqualProjections(t *testing.T) {
	a := fingerprintHistory(t, "order-42", history(v1("100"), v1("120")), v1("120"))
	b := fingerprintHistory(t, "order-42", history(v1("120")), v1("120"))
	if a.ProjectionDigest() != b.ProjectionDigest() {
		t.Error("the projection digests differ")
	}
	if a.SourceDigest() == b.SourceDigest() || durable.SameHistory(a, b) {
		t.Error("the histories are taken for the same")
	}
}

func TestEqualHistoriesOfTwoOwners(t *testing.T) {
	a := fingerprintHistory(t, "order-42", history(v1("a")), v1("a"))
	b := fingerprintHistory(t, "order-43", history(v1("a")), v1("another"))
	if a.SourceDigest() != b.SourceDigest() || !durable.SameHistory(a, b) {
		t.Error("equal histories have unequal source digests")
	}
	if a.Digest() == b.Digest() {
		t.Error("the fingerprint does not bind the owner")
	}
}

func TestSwappedVersionsChangeEveryDigest(t *testing.T) {
	p := durable.Payload{SchemaVersion: 1, CodecVersion: 2, Bytes: []byte("x")}
	q := durable.Payload{SchemaVersion: 2, CodecVersion: 1, Bytes: []byte("x")}
	digests := func(p durable.Payload) map[string]durable.Digest {
		h := fingerprintHistory(t, "order-42", history(p), p)
		s, err := durable.FingerprintSnapshot("order-42", durable.Record{Position: 1, Payload: p}, p)
		if err != nil {
			t.Fatal(err)
		}
		l, err := durable.FingerprintLatest("order-42", 1, p)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]durable.Digest{
			"history source": h.SourceDigest(), "projection": h.ProjectionDigest(), "history": h.Digest(),
			"snapshot source": s.SourceDigest(), "snapshot": s.Digest(),
			"latest source": l.SourceDigest(), "latest": l.Digest(),
		}
	}
	left, right := digests(p), digests(q)
	for name, d := range left {
		if d == right[name] {
			t.Errorf("%s: both have %s", name, d)
		}
	}
}

func TestLatestSourceLeavesThePositionOut(t *testing.T) {
	a, err := durable.FingerprintLatest("order-42", 3, v1("x"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := durable.FingerprintLatest("order-42", 4, v1("x"))
	if err != nil {
		t.Fatal(err)
	}
	if a.SourceDigest() != b.SourceDigest() {
		t.Error("equal latest states have unequal source digests")
	}
	if a.Digest() == b.Digest() {
		t.Error("the fingerprint does not bind the position")
	}
}

func TestFingerprintRefusesWhatNoStoreHolds(t *testing.T) {
	noVersion := durable.Payload{SchemaVersion: 1}
	corrupt := func(reason durable.CorruptReason) func(error) bool {
		return func(err error) bool {
			var e *durable.CorruptImageError
			return errors.As(err, &e) && e.Reason == reason && errors.Is(err, countersign.ErrRefused)
		}
	}
	malformed := func(err error) bool { return errors.Is(err, countersign.ErrMalformed) }
	ofHistory := func(owner string, records []durable.Record, p durable.Payload) error {
		f, err := durable.FingerprintHistory(owner, records, p)
		if f.Valid() {
			t.Error("a refused fingerprint is valid")
		}
		return err
	}
	ofSnapshot := func(owner string, position uint64, state, p durable.Payload) error {
		f, err := durable.FingerprintSnapshot(owner, durable.Record{Position: position, Payload: state}, p)
		if f.Valid() {
			t.Error("a refused fingerprint is valid")
		}
		return err
	}
	ofLatest := func(owner string, position uint64, p durable.Payload) error {
		f, err := durable.FingerprintLatest(owner, position, p)
		if f.Valid() {
			t.Error("a refused fingerprint is valid")
		}
		return err
	}
	records := history(v1("a"), v1("b"), v1("c"))
	for _, c := range []struct {
		name string
		err  error
		is   func(error) bool
	}{
		{"history without its first record", ofHistory("o", records[1:], v1("")), corrupt(durable.HistoryNotContiguous)},
		{"history with a gap", ofHistory("o", []durable.Record{records[0], records[2]}, v1("")), corrupt(durable.HistoryNotContiguous)},
		{"history with a repeat", ofHistory("o", []durable.Record{records[0], records[0]}, v1("")), corrupt(durable.HistoryNotContiguous)},
		{"history from position 0", ofHistory("o", []durable.Record{{Payload: v1("")}}, v1("")), corrupt(durable.HistoryNotContiguous)},
		{"history with a payload without version", ofHistory("o", history(noVersion), v1("")), corrupt(durable.CorruptPayload)},
		{"history of no owner", ofHistory("", records, v1("")), malformed},
		{"history with a projection without version", ofHistory("o", records, noVersion), malformed},
		{"snapshot at position 0", ofSnapshot("o", 0, v1(""), v1("")), corrupt(durable.SnapshotPosition)},
		{"snapshot past the last position", ofSnapshot("o", 1<<63, v1(""), v1("")), corrupt(durable.SnapshotPosition)},
		{"snapshot without version", ofSnapshot("o", 1, noVersion, v1("")), corrupt(durable.CorruptPayload)},
		{"snapshot of no owner", ofSnapshot("", 1, v1(""), v1("")), malformed},
		{"snapshot with a projection without version", ofSnapshot("o", 1, v1(""), noVersion), malformed},
		{"latest past the last position", ofLatest("o", 1<<63, v1("")), malformed},
		{"latest of no owner", ofLatest("", 1, v1("")), malformed},
		{"latest without version", ofLatest("o", 1, noVersion), malformed},
	} {
		if c.err == nil || !c.is(c.err) {
			t.Errorf("%s: got %v", c.name, c.err)
		}
	}
}

func TestZeroFingerprintIsNoEvidence(t *testing.T) {
	var zero durable.HistoryFingerprint
	valid := fingerprintHistory(t, "order-42", nil, v1(""))
	if zero.Valid() || zero.Digest() != (durable.Digest{}) {
		t.Error("the zero value passes as evidence")
	}
	for _, pair := range [][2]durable.HistoryFingerprint{{zero, zero}, {zero, valid}, {valid, zero}} {
		if durable.SameHistory(pair[0], pair[1]) {
			t.Error("the zero value has a history")
		}
		if err := durable.CertifyReplay(pair[0], pair[1]); !errors.Is(err, countersign.ErrMalformed) {
			t.Errorf("the zero value certifies a replay: %v", err)
		}
	}
	var hasher durable.HistoryHasher
	if err := hasher.Add(history(v1("a"))...); err != nil {
		t.Fatal(err)
	}
	if f, err := hasher.Fingerprint(v1("")); !errors.Is(err, countersign.ErrMalformed) || f.Valid() {
		t.Errorf("the zero hasher gives evidence: %v", err)
	}
}

// drawPayload draws payloads of few versions and short bytes, so that parts of
// one history are often like parts of another.
var drawPayload = rapid.Custom(func(t *rapid.T) durable.Payload {
	return durable.Payload{
		SchemaVersion: rapid.Uint32Range(1, 2).Draw(t, "schema"),
		CodecVersion:  rapid.Uint32Range(1, 2).Draw(t, "codec"),
		Bytes:         rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a'}), 0, 3).Draw(t, "bytes"),
	}
})
