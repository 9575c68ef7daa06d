package durable_test

import (
	"fmt"

	"github.com/countersign/countersign/durable"
)

// Two histories may settle to the same state. Their projections are equal then,
// their histories are not.
func ExampleFingerprintHistory() {
	payload := func(s string) durable.Payload {
		return durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(s)}
	}
	corrected, err := durable.FingerprintHistory("order-42", []durable.Record{
		{Position: 1, Payload: payload("total=100")},
		{Position: 2, Payload: payload("total=120")},
	}, payload("total=120"))
	if err != nil {
		fmt.Println(err)
		return
	}
	placed, err := durable.FingerprintHistory("order-42", []durable.Record{
		{Position: 1, Payload: payload("total=120")},
	}, payload("total=120"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("frontiers:", corrected.Frontier(), placed.Frontier())
	fmt.Println("same projection:", corrected.ProjectionDigest() == placed.ProjectionDigest())
	fmt.Println("same history:", durable.SameHistory(corrected, placed))
	fmt.Println("certified:", durable.CertifyReplay(corrected, placed))
	// Output:
	// frontiers: 2 1
	// same projection: true
	// same history: false
	// certified: durable: owner "order-42": the replay's frontier is 1, recorded is 2
}

// A large history is taken page by page; what a page held can be forgotten.
func ExampleHistoryHasher() {
	payload := func(s string) durable.Payload {
		return durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: []byte(s)}
	}
	hasher, err := durable.NewHistoryHasher("order-42")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, page := range [][]durable.Record{
		{{Position: 1, Payload: payload("placed")}, {Position: 2, Payload: payload("paid")}},
		{{Position: 3, Payload: payload("sent")}},
		{{Position: 5, Payload: payload("returned")}},
	} {
		if err := hasher.Add(page...); err != nil {
			fmt.Println(err)
		}
	}
	f, err := hasher.Fingerprint(payload("sent"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Completeness(), "through", f.Frontier())
	fmt.Println(f.Digest())
	// Output:
	// durable: owner "order-42": corrupt image (history): the record at position 5 follows position 3
	// complete_history through 3
	// 75ee79e98360e4e0af8a428e73cb28aecae14d8adbf76f5e8aa4f7af23aa6929
}
