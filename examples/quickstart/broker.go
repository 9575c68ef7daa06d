package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/sqlite"
)

//go:embed deliveries.jsonl
var shipped string

// broker delivers each line until it is acknowledged. It kills the service now
// and then, and looks at what is there in the end.
func broker(ctx context.Context, input string, kills int) (err error) {
	deliveries := shipped
	if input != "" {
		content, err := os.ReadFile(input) //nolint:gosec // the user names the file
		if err != nil {
			return err
		}
		deliveries = string(content)
	}
	dir, err := os.MkdirTemp("", "countersign-quickstart-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "shop.db")

	var verdicts []string
	lines := strings.Split(strings.TrimSpace(deliveries), "\n")
	killed := 0
	for len(verdicts) < len(lines) {
		answers, err := session(ctx, file, lines[len(verdicts):], kills-killed)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, answers...)
		killed = min(killed+1, kills)
	}
	return report(ctx, file, killed, verdicts)
}

// session starts the service, hands it deliveries one after another, and returns
// its answers. As long as kills are left the service is killed, at a random
// instant while it has a delivery that it has not answered: that one will be
// delivered again.
func session(ctx context.Context, file string, deliveries []string, kills int) (answers []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-serve", file) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, err
	}
	last := rand.IntN(max(len(deliveries)/(kills+1), 1)) // how many it lives through
	lines := bufio.NewScanner(out)
	for _, delivery := range deliveries {
		if _, err := fmt.Fprintln(in, delivery); err != nil {
			break // it is dead
		}
		if kills > 0 && len(answers) == last {
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			_ = cmd.Process.Kill()
		}
		if !lines.Scan() {
			break
		}
		answers = append(answers, lines.Text())
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil && kills <= 0 {
		return nil, err
	}
	return answers, nil
}

// report prints what happened, and what the file holds: it is opened for
// reading, and its image is recovered and validated.
func report(ctx context.Context, file string, killed int, verdicts []string) error {
	db, err := sqlite.OpenReadOnly(ctx, file, nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	img, err := durable.Recover(ctx, db, "shop")
	if err != nil {
		return err
	}
	state, wanted := shopMachine.Initial(), map[string]bool{}
	for _, r := range img.History {
		if state, err = shopMachine.Fold(state, r.Payload); err != nil {
			return err
		}
		var event delivery
		if err := json.Unmarshal(r.Payload.Bytes, &event); err != nil {
			return err
		}
		wanted[event.Do+"/"+event.Order] = true
	}
	once := len(wanted) == len(img.Outbox) && len(wanted) == len(img.History)
	for _, e := range img.Outbox {
		once = once && wanted[e.ID]
	}
	projection, err := json.Marshal(state)
	if err != nil {
		return err
	}
	complete, err := durable.FingerprintHistory(img.Owner, img.History, durable.Payload{SchemaVersion: 1, CodecVersion: 1, Bytes: projection})
	if err != nil {
		return err
	}

	count := map[string]int{}
	for _, v := range verdicts {
		count[v]++
	}
	// A delivery whose answer was lost with its process is answered "duplicate"
	// later, so the commits are counted where they are: in the inbox.
	duplicates := count["committed"] + count["duplicate"] - len(img.Inbox)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range [][2]any{
		{"deliveries", len(verdicts)}, {"committed", len(img.Inbox)}, {"duplicates", duplicates},
		{"conflicts", count["conflict"]}, {"refused", count["refused"]}, {"effects", len(img.Outbox)},
		{"each effect exists once", once}, {"service killed", fmt.Sprint(killed, " times")}, {"complete history", complete.Digest()},
	} {
		fmt.Fprintf(table, "%v\t%v\n", row[0], row[1])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if !once {
		return errors.New("an effect is missing, or there is one that no event asks for")
	}
	return nil
}
