// Package serverenv tells tests which servers there are: it reads the variables
// that internal/testservers sets, or a user who has servers of their own.
package serverenv

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// A Kind is a kind of server.
type Kind struct {
	name     string // as COUNTERSIGN_TEST_REQUIRE lists it
	variable string // its address
	control  string // where a POST kills and starts servers of this kind; see internal/testservers
}

// The kinds.
var (
	Postgres = Kind{"postgres", "COUNTERSIGN_TEST_POSTGRES_DSN", "COUNTERSIGN_TEST_POSTGRES_CONTROL"}
	Mongo    = Kind{"mongo", "COUNTERSIGN_TEST_MONGO_URI", "COUNTERSIGN_TEST_MONGO_CONTROL"}
)

// Address returns the connection string of the server. A test without one is
// skipped, or fails where COUNTERSIGN_TEST_REQUIRE lists the kind.
func (k Kind) Address(t testing.TB) string {
	t.Helper()
	address := os.Getenv(k.variable)
	if address == "" {
		if slices.Contains(strings.Split(os.Getenv("COUNTERSIGN_TEST_REQUIRE"), ","), k.name) {
			t.Fatalf("%s is not set, and COUNTERSIGN_TEST_REQUIRE asks for it", k.variable)
		}
		t.Skipf("%s is not set", k.variable)
	}
	return address
}

// Own returns the connection string of a server that only this test uses, and what
// kills it as kill -9 does and starts it again. It ends with the test. Where servers
// can't be started, it is the server of Address, and kill is nil.
func (k Kind) Own(t testing.TB) (address string, kill func(context.Context) error) {
	t.Helper()
	address, kill, stop, err := k.Start(k.Address(t))
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop a server: %v", err)
		}
	})
	return address, kill
}

// Start is Own for a server that several tests use: the caller stops it.
func (k Kind) Start(otherwise string) (address string, kill func(context.Context) error, stop func() error, err error) {
	control := os.Getenv(k.control)
	if control == "" {
		return otherwise, nil, func() error { return nil }, nil
	}
	answer, err := post(context.Background(), control+"/another", http.StatusCreated)
	if err != nil {
		return "", nil, nil, err
	}
	address, control, _ = strings.Cut(strings.TrimSpace(answer), "\n")
	kill = func(ctx context.Context) error {
		_, err := post(ctx, control+"/restart", http.StatusNoContent)
		return err
	}
	stop = func() error {
		_, err := post(context.Background(), control+"/stop", http.StatusNoContent)
		return err
	}
	return address, kill, stop, nil
}

func post(ctx context.Context, url string, want int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}
