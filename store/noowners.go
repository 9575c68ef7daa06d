package store

import (
	"context"

	"github.com/countersign/countersign/durable"
)

// NoOwners is [durable.Store] of an adapter that does not have it: every call is an
// [*UnsupportedError], and [CapabilitiesOf] says so. It is embedded in the adapter's
// transactions, which must be a [Backend].
type NoOwners struct{}

var _ durable.Store = NoOwners{}

func (NoOwners) noOwners() {}

func errNoOwners() error { return &UnsupportedError{Capability: "the durable owner"} }

// CreateOwner implements [durable.Store].
func (NoOwners) CreateOwner(context.Context, durable.CreateOwner) (durable.Head, error) {
	return durable.Head{}, errNoOwners()
}

// LoadOwner implements [durable.Store].
func (NoOwners) LoadOwner(context.Context, durable.LoadOwner) (durable.Image, error) {
	return durable.Image{}, errNoOwners()
}

// CommitOwner implements [durable.Store].
func (NoOwners) CommitOwner(context.Context, durable.Commit) (durable.Committed, error) {
	return durable.Committed{}, errNoOwners()
}

// AdvanceFence implements [durable.Store].
func (NoOwners) AdvanceFence(context.Context, durable.AdvanceFence) (durable.Head, error) {
	return durable.Head{}, errNoOwners()
}

// RecordReceipt implements [durable.Store].
func (NoOwners) RecordReceipt(context.Context, durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	return durable.ReceiptRecorded{}, errNoOwners()
}

// ReadHistory implements [durable.Store].
func (NoOwners) ReadHistory(context.Context, durable.ReadHistory) ([]durable.Record, error) {
	return nil, errNoOwners()
}

// ReadPending implements [durable.Store].
func (NoOwners) ReadPending(context.Context, durable.ReadPending) ([]durable.Effect, error) {
	return nil, errNoOwners()
}
