// Package storetest is the conformance suite of a store.
package storetest
