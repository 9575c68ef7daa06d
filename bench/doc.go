// Package bench compares countersign with other libraries. It is a module of its
// own, so that they are no dependencies of countersign's.
package bench
