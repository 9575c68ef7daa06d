// Command idempotency answers a repeated HTTP command from its effect receipt: the
// events of the command and the response are committed together, so that a client
// which has lost the answer may send the command again.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/countersign/countersign/store/sqlite"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves orders from a database in a temporary folder, and sends three commands.
func run(ctx context.Context, out io.Writer) error {
	folder, err := os.MkdirTemp("", "countersign-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	db, err := sqlite.Open(ctx, filepath.Join(folder, "shop.db"), nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := register(ctx, db); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &orders{store: db}, ReadHeaderTimeout: time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	url := "http://" + listener.Addr().String()
	for _, command := range []struct{ key, body string }{
		{"order-1", `{"item":"book","price":12}`},
		{"order-1", `{"item":"book","price":12}`}, // the client has lost the answer
		{"order-2", `{"item":"gold","price":100000}`},
	} {
		if err := send(ctx, out, url, command.key, command.body); err != nil {
			return err
		}
	}
	if err := server.Shutdown(ctx); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return count(ctx, out, db)
}

// send sends a command and prints the answer.
func send(ctx context.Context, out io.Writer, url, key, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	fmt.Fprintf(out, "%s: %s, repeated: %t: %s\n", key, res.Status, res.Header.Get("Idempotent-Replayed") == "true", answer)
	return err
}
