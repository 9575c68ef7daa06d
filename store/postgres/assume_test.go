package postgres_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/countersign/countersign/durable"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An owner that was made anew in the other mode, under the key and at the position
// that this store has seen, is not taken for the one that it was.
func TestAssumedCommitChecksTheMode(t *testing.T) {
	for _, grouped := range []bool{false, true} {
		t.Run(fmt.Sprintf("grouped %v", grouped), func(t *testing.T) {
			owners := []string{"a", "b", "c"}
			var once sync.Once
			hold := func() {} // the first write of a group
			w := &wire{before: func([]byte) bool { once.Do(hold); return false }}
			once.Do(hold)
			s := wired(t, w, "cache_statement", nil, owners...)
			_, err := s.Pool().Exec(t.Context(), "TRUNCATE countersign.owners RESTART IDENTITY")
			require.NoError(t, err)
			other, err := open(t.Context(), s.Pool().Config().ConnString())
			require.NoError(t, err)
			defer func() { require.NoError(t, other.Close()) }()
			for _, owner := range owners {
				_, err := other.CreateOwner(t.Context(), durable.CreateOwner{Owner: owner, Mode: durable.Snapshot})
				require.NoError(t, err)
			}
			if grouped {
				begun := make(chan struct{})
				hold = func() {
					close(begun)
					for s.Waiting() < len(owners)-1 {
						runtime.Gosched()
					}
				}
				once = sync.Once{}
				var wg sync.WaitGroup
				for i, owner := range owners {
					wg.Go(func() {
						if i > 0 { // these two are the second group
							<-begun
						}
						_, err := s.CommitOwner(context.Background(), commitTo(owner, 0))
						assert.ErrorAs(t, err, new(*durable.StateModeMismatchError), owner)
					})
				}
				wg.Wait()
			} else {
				_, err = s.CommitOwner(t.Context(), commitTo("a", 0))
				require.ErrorAs(t, err, new(*durable.StateModeMismatchError))
			}
			for _, owner := range owners {
				img := mustRecover(t, s, owner)
				assert.Zero(t, img.Position)
				assert.Empty(t, img.Inbox)
			}
		})
	}
}
