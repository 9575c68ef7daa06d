package storetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// runChild runs this test binary with this test alone, on a location, until it is
// killed or gets through. What it reports otherwise, line by line, is given to report.
func runChild(t T, location, step, stdin string, patience time.Duration, report func(line string) error) (unharmed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run="+onlyTest(t.Name()), "-test.count=1")
	cmd.Env = append(os.Environ(), ladderTest+"="+t.Name(), ladderLocation+"="+location, ladderStep+"="+step)
	cmd.Stdin = strings.NewReader(stdin)
	out, ended := cmd.CombinedOutput()
	killed := false
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		line, ok := strings.CutPrefix(lines.Text(), ladderMark)
		switch {
		case !ok:
		case line == "killed":
			killed = true
		case line == "through":
			unharmed = true
		default:
			if err := report(line); err != nil {
				return false, err
			}
		}
	}
	if killed == unharmed || unharmed != (ended == nil) || ctx.Err() != nil {
		return false, errors.Join(fmt.Errorf("the child neither died at its step nor got through:\n%.4000s", out), ended, ctx.Err())
	}
	return unharmed, nil
}

// onlyTest returns the pattern that runs one test, or one subtest, and no other.
func onlyTest(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
