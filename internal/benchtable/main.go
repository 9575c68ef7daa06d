// Command benchtable reads the output of go test -bench and prints its ratios
// as a Markdown table: every metric whose unit begins with "x-".
package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
)

func main() {
	fmt.Println("| benchmark | ratio | to |")
	fmt.Println("|---|---|---|")
	lines := bufio.NewScanner(os.Stdin)
	pkg := ""
	for lines.Scan() {
		if path, ok := strings.CutPrefix(lines.Text(), "pkg: "); ok {
			pkg = path[strings.LastIndex(path, "/")+1:]
		}
		for _, row := range rows(pkg, lines.Text()) {
			fmt.Println(row)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// cores is what the testing package puts behind a name: -2 on two cores.
var cores = regexp.MustCompile(`-\d+$`)

// rows returns a row of the table for each ratio on a line of a package's output.
func rows(pkg, line string) []string {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return nil
	}
	name := strings.TrimPrefix(cores.ReplaceAllString(fields[0], ""), "Benchmark")
	var table []string
	for i := 2; i+1 < len(fields); i += 2 {
		if to, ok := strings.CutPrefix(fields[i+1], "x-"); ok {
			table = append(table, fmt.Sprintf("| %s %s | %s | %s |", pkg, name, fields[i], to))
		}
	}
	return table
}
