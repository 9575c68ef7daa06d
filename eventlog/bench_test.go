package eventlog

import (
	"fmt"
	"testing"

	"github.com/countersign/countersign"
)

// BenchmarkPrepare checks and judges a batch of 1,000 events.
func BenchmarkPrepare(b *testing.B) {
	for name, schema := range map[string]string{
		"any":    `true`,
		"object": `{"type":"object","properties":{"item":{"type":"string","maxLength":100},"price":{"type":"integer","minimum":0},"note":{"type":"string"}},"required":["item","price"],"additionalProperties":false}`,
	} {
		b.Run(name, func(b *testing.B) {
			c, err := Compile(Definitions{All: []Definition{{Kind: EventTypeDefinition, Name: "placed", Generation: 1, Body: []byte(schema)}}})
			if err != nil {
				b.Fatal(err)
			}
			a := AppendEvents{Sequence: Log(countersign.Namespace{EventStore: "shop", Name: "eu"})}
			for i := range MaxEvents {
				a.Events = append(a.Events, Event{
					Type: "placed", Source: fmt.Sprint("order-", i), StreamType: "orders", CorrelationID: "c",
					Content: fmt.Appendf(nil, `{"item":"book","price":%d,"note":"%060d"}`, i, i),
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := a.Check(); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Prepare(a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
