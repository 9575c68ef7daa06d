package memory_test

import (
	"context"
	"testing"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
	"github.com/countersign/countersign/storetest"
)

// handle is a store together with its medium, where images are planted.
type handle struct {
	*memory.Store
	medium *memory.Medium
}

var harness = storetest.Harness{
	New: func(storetest.T) storetest.Opener {
		medium := memory.NewMedium()
		return func(context.Context, storetest.OpenOptions) (storetest.Backend, error) {
			return handle{memory.Open(medium), medium}, nil
		}
	},
	Plant: func(_ context.Context, b storetest.Backend, img durable.Image) error {
		b.(handle).medium.Plant(img)
		return nil
	},
}

func TestConformance(t *testing.T) { storetest.Run(t, harness) }
