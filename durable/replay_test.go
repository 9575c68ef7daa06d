package durable_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"pgregory.net/rapid"
)

func TestCertifyReplayNamesTheDifference(t *testing.T) {
	recorded := fingerprintHistory(t, "order-42", history(v1("a"), v1("b")), v1("ab"))
	if err := durable.CertifyReplay(recorded, fingerprintHistory(t, "order-42", history(v1("a"), v1("b")), v1("ab"))); err != nil {
		t.Errorf("an exact replay: %v", err)
	}
	for _, c := range []struct {
		what     string
		replayed durable.HistoryFingerprint
	}{
		{"owner", fingerprintHistory(t, "order-43", history(v1("a"), v1("b")), v1("ab"))},
		{"frontier", fingerprintHistory(t, "order-42", history(v1("a")), v1("ab"))},
		{"source digest", fingerprintHistory(t, "order-42", history(v1("b"), v1("a")), v1("ab"))},
		{"projection version", fingerprintHistory(t, "order-42", history(v1("a"), v1("b")), durable.Payload{SchemaVersion: 2, CodecVersion: 1, Bytes: []byte("ab")})},
		{"projection digest", fingerprintHistory(t, "order-42", history(v1("a"), v1("b")), v1("ba"))},
	} {
		var e *durable.ReplayMismatchError
		if err := durable.CertifyReplay(recorded, c.replayed); !errors.As(err, &e) || e.What != c.what || !errors.Is(err, countersign.ErrRefused) {
			t.Errorf("%s: got %v", c.what, err)
		}
	}
}

func TestSourceDigestsAreEqualExactlyForEqualHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(drawPayload, 0, 3).Draw(t, "left")
		b := rapid.SliceOfN(drawPayload, 0, 3).Draw(t, "right")
		equal := fmt.Sprint(a) == fmt.Sprint(b)
		left, err := durable.FingerprintHistory("o", history(a...), v1(""))
		if err != nil {
			t.Fatal(err)
		}
		right, err := durable.FingerprintHistory("o", history(b...), v1(""))
		if err != nil {
			t.Fatal(err)
		}
		if durable.SameHistory(left, right) != equal || (left.Digest() == right.Digest()) != equal {
			t.Fatalf("%v and %v: equal is %v", a, b, equal)
		}
	})
}

func TestCompilerRefusesWhatIsNoCompleteHistory(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command:", err)
	}
	for _, c := range []struct{ dir, refusal string }{
		{"control", ""},
		{"latest", "cannot use f (variable of struct type durable.LatestFingerprint) as durable.HistoryFingerprint value in argument to durable.CertifyReplay"},
		{"snapshot", "cannot use f (variable of struct type durable.SnapshotFingerprint) as durable.HistoryFingerprint value in argument to durable.CertifyReplay"},
		{"conversion", "cannot convert f (variable of struct type durable.LatestFingerprint) to type durable.HistoryFingerprint"},
	} {
		t.Run(c.dir, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", "build", "./testdata/must_not_compile/"+c.dir).CombinedOutput()
			if c.refusal == "" {
				if err != nil {
					t.Errorf("does not compile: %v\n%s", err, out)
				}
				return
			}
			// Older and newer compilers describe the variable in other words.
			words := strings.NewReplacer("struct type ", "type ")
			if err == nil || !strings.Contains(words.Replace(string(out)), words.Replace(c.refusal)) {
				t.Errorf("expected the compiler to say %q, got %v\n%s", c.refusal, err, out)
			}
		})
	}
}
