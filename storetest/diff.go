package storetest

import (
	"fmt"
	"strings"
)

// diffLines returns the difference of two texts: "-" marks the lines that were
// wanted, "+" those that came instead. Lines that both have stand around them.
func diffLines(want, got string) string {
	a, b := strings.Split(strings.TrimRight(want, "\n"), "\n"), strings.Split(strings.TrimRight(got, "\n"), "\n")
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	middle := changes(a[start:len(a)-end], b[start:len(b)-end])

	const around = 4
	var out strings.Builder
	out.WriteString("  --- want\n  +++ got\n")
	if start > around {
		fmt.Fprintf(&out, "  … %d equal lines\n", start-around)
	}
	for _, line := range a[max(0, start-around):start] {
		out.WriteString("    " + line + "\n")
	}
	out.WriteString(middle)
	rest := a[len(a)-end:]
	for _, line := range rest[:min(around, len(rest))] {
		out.WriteString("    " + line + "\n")
	}
	if len(rest) > around {
		fmt.Fprintf(&out, "  … %d equal lines\n", len(rest)-around)
	}
	return out.String()
}

// changes returns the lines of both, marked, by their longest common
// subsequence. Texts too long for that are shown one after the other, cut short.
func changes(a, b []string) string {
	const longest = 1500
	var out strings.Builder
	if len(a) > longest || len(b) > longest {
		mark(&out, "-", a)
		mark(&out, "+", b)
		return out.String()
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int16, len(a)+1)
	for i := range common {
		common[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out.WriteString("    " + a[i] + "\n")
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out.WriteString("  - " + a[i] + "\n")
			i++
		default:
			out.WriteString("  + " + b[j] + "\n")
			j++
		}
	}
	return out.String()
}

// mark writes the first lines of a text that is too long to be compared.
func mark(out *strings.Builder, sign string, lines []string) {
	const most = 60
	for _, line := range lines[:min(most, len(lines))] {
		fmt.Fprintf(out, "  %s %s\n", sign, line)
	}
	if len(lines) > most {
		fmt.Fprintf(out, "  %s … %d more lines\n", sign, len(lines)-most)
	}
}
