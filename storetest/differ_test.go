package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/countersign/countersign/durable"
)

func TestDifferFindsTheStoreThatDiffers(t *testing.T) {
	Differ(t, map[string]Harness{"one": goodHarness(), "other": goodHarness()})
	for _, tt := range []struct {
		name  string
		fault fault
		want  string
	}{
		{"an answer", fault{advance: func(ctx context.Context, b *broken, req durable.AdvanceFence) (durable.Head, error) {
			req.Fence++
			return b.Store.AdvanceFence(ctx, req)
		}}, "broken: step"},
		{"an image", fault{load: func(ctx context.Context, b *broken, req durable.LoadOwner) (durable.Image, error) {
			img, err := b.Store.LoadOwner(ctx, req)
			img.Receipts = nil
			return img, err
		}}, "the image is not the one expected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := verdictOf(t, func(t T) { differ(t, map[string]Harness{"a sound one": goodHarness(), "broken": tt.fault.harness()}) })
			if all := strings.Join(v.Failures, "\n"); !strings.Contains(all, tt.want) {
				t.Errorf("want a failure with %q, got:\n%s", tt.want, all)
			}
		})
	}
	if v := verdictOf(t, func(t T) { differ(t, map[string]Harness{"alone": goodHarness()}) }); !v.Failed() {
		t.Error("one store has nothing to differ from")
	}
}
