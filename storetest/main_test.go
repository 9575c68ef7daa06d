package storetest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// A mutant's random history is looked at once and thrown away: it needs no file,
// and no long search for a shorter one.
func TestMain(m *testing.M) {
	flag.Parse()
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "100ms"} {
		if err := flag.Set(name, value); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
