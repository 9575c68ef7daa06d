package durable_test

import (
	"testing"

	"github.com/countersign/countersign/durable"
	"pgregory.net/rapid"
)

func TestHasherInPagesEqualsWholeHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := history(rapid.SliceOfN(drawPayload, 0, 12).Draw(t, "events")...)
		projection := drawPayload.Draw(t, "projection")
		whole, err := durable.FingerprintHistory("order-42", records, projection)
		if err != nil {
			t.Fatal(err)
		}
		hasher, err := durable.NewHistoryHasher("order-42")
		if err != nil {
			t.Fatal(err)
		}
		for rest := records; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "page")
			// Neither a look at the sum nor a refused record leaves a trace.
			if _, err := hasher.Fingerprint(projection); err != nil {
				t.Fatal(err)
			}
			if err := hasher.Add(durable.Record{Position: hasher.Position() + 2, Payload: v1("gap")}); err == nil {
				t.Fatal("a gap was accepted")
			}
			if err := hasher.Add(rest[:n]...); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		paged, err := hasher.Fingerprint(projection)
		if err != nil {
			t.Fatal(err)
		}
		if err := durable.CertifyReplay(whole, paged); err != nil || whole.Digest() != paged.Digest() {
			t.Fatalf("in pages: %v", err)
		}
	})
}
