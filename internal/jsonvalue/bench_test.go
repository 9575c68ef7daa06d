package jsonvalue_test

import (
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/jsonvalue"
)

var order = []byte(`{"id":"0190c6a2-7c1e-7000-8000-000000000001","customer":"Ada Lovelace","amount":129.95,"quantity":3,"placed":"2026-01-02T03:04:05Z","express":true}`)

func BenchmarkCheck(b *testing.B) {
	b.SetBytes(int64(len(order)))
	b.ReportAllocs()
	for b.Loop() {
		_ = jsonvalue.Check(order, jsonvalue.Limits{})
	}
}

func BenchmarkCheckLarge(b *testing.B) {
	doc := []byte("[" + strings.Repeat(string(order)+",", 10_000) + "0]")
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		_ = jsonvalue.Check(doc, jsonvalue.Limits{})
	}
}

func BenchmarkLookup(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		jsonvalue.Lookup(order, "placed")
	}
}

func BenchmarkLookupMany(b *testing.B) {
	paths := [][]string{{"id"}, {"customer"}, {"placed"}, {"express"}}
	b.ReportAllocs()
	for b.Loop() {
		jsonvalue.LookupMany(order, paths)
	}
}

func BenchmarkIdentity(b *testing.B) {
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		dst = jsonvalue.Identity(dst[:0], order, false)
	}
}
