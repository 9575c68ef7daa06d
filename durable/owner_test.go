package durable_test

import (
	"strings"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
)

func TestRepairEffectIDOfAnyOwnerIsAnIdentity(t *testing.T) {
	owner := strings.Repeat("o", durable.MaxOwnerBytes)
	if err := durable.CheckOwner(owner); err != nil {
		t.Fatal(err)
	}
	id := durable.RepairEffectID(owner, countersign.MaxInteger)
	if want := "reconcile/" + owner + "/9223372036854775807"; id != want {
		t.Errorf("got %q, expected %q", id, want)
	}
	if err := countersign.CheckIdentity("effect id", id); err != nil {
		t.Error(err)
	}
}
