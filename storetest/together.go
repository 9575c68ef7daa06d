package storetest

import (
	"sync"
)

// together runs f on n goroutines, all released at the same moment, and waits
// for them. Errors, and panics, are failures of the case.
func together(t T, n int, f func(i int) error) {
	t.Helper()
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("goroutine %d: panic: %v", i, p)
				}
			}()
			<-start
			if err := f(i); err != nil {
				t.Errorf("goroutine %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	if t.Failed() {
		t.Fatalf("not all of %d goroutines did their work", n)
	}
}
