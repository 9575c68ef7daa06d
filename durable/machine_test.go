package durable_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/durable"
	"github.com/stretchr/testify/assert"
)

func TestRefusesDeliveryIsAboutTheDeliveryOnly(t *testing.T) {
	for _, err := range []error{
		&durable.RefusalError{Err: errors.New("sold out")},
		&durable.IdentityConflictError{Kind: durable.InboxIdentity},
		fmt.Errorf("handle: %w", &durable.RefusalError{Err: errors.New("sold out")}),
	} {
		assert.True(t, durable.RefusesDelivery(err), "%v", err)
	}
	for _, err := range []error{
		nil,
		&durable.StaleFenceError{},
		&durable.PositionConflictError{},
		&durable.UnsupportedVersionError{},
		&durable.UnknownOutcomeError{},
		&durable.IdentityConflictError{Kind: durable.EffectIdentity},
		&countersign.MalformedError{},
		errors.New("anything"),
	} {
		assert.False(t, durable.RefusesDelivery(err), "%v", err)
	}
}
