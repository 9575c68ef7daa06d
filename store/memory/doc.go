// Package memory is a backend in the memory of one process. It is the readable
// specification of what every adapter does: a lock, maps, the rules, nothing
// else. It is complete and safe for concurrent use, and nothing of it survives
// the process.
package memory
