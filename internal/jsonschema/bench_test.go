package jsonschema_test

import (
	"testing"

	"github.com/xeipuuv/gojsonschema"
)

const (
	orderSchema = `{"type":"object","additionalProperties":false,"required":["id","customer","amount","placed"],"properties":{
		"id":{"type":"string","format":"uuid"},"customer":{"type":"string","minLength":1,"maxLength":100},"amount":{"type":"number","minimum":0},
		"quantity":{"type":"integer","minimum":1,"maximum":1000},"placed":{"type":"string","format":"date-time"},"status":{"enum":["open","paid","shipped"]}}}`
	orderDocument = `{"id":"0190c6a2-7c1e-7000-8000-000000000001","customer":"Ada Lovelace","amount":129.95,"quantity":3,"placed":"2026-01-02T03:04:05Z","status":"paid"}`
)

func BenchmarkValidate(b *testing.B) {
	s := compile(b, orderSchema)
	doc := []byte(orderDocument)
	b.ReportAllocs()
	for b.Loop() {
		if found, err := s.Validate(doc); err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}

// The same with gojsonschema, for comparison.
func BenchmarkValidateGojsonschema(b *testing.B) {
	s, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(orderSchema))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if result, err := s.Validate(gojsonschema.NewBytesLoader([]byte(orderDocument))); err != nil || !result.Valid() {
			b.Fatal(result, err)
		}
	}
}

func BenchmarkValidateRefused(b *testing.B) {
	s := compile(b, orderSchema)
	doc := []byte(`{"id":"x","customer":"","amount":-1,"quantity":1.5,"placed":"now","status":"none","more":1}`)
	b.ReportAllocs()
	for b.Loop() {
		if found, err := s.Validate(doc); err != nil || len(found) != 7 {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compile(b, orderSchema)
	}
}
