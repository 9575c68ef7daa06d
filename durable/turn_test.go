package durable

import (
	"fmt"
	"sync"
	"testing"
)

func TestTurnsRememberNobody(t *testing.T) {
	var all turns
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				giveBack, err := all.take(t.Context(), fmt.Sprint((g+i)%10))
				if err != nil {
					t.Error(err)
					return
				}
				giveBack()
			}
		})
	}
	wg.Wait()
	if len(all.owners) != 0 {
		t.Fatalf("%d owners are remembered", len(all.owners))
	}
}
