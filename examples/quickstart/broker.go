package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/countersign/countersign/durable"
)

//go:embed deliveries.jsonl
var shipped string

// broker delivers each line until it is acknowledged. It kills the service now
// and then, and looks at what is there in the end.
func broker(ctx context.Context, where, input string, kills int) (err error) {
	deliveries := shipped
	if input != "" {
		content, err := os.ReadFile(input) //nolint:gosec // the user names the file
		if err != nil {
			return err
		}
		deliveries = string(content)
	}
	p := place{where: where, run: fmt.Sprintf("quickstart_%x", rand.Uint64())}
	if where == "" {
		dir, err := os.MkdirTemp("", "countersign-quickstart-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		p.where = filepath.Join(dir, "shop.db")
	}
	defer func() { err = cmp.Or(err, leave(ctx, p)) }()
	if p.inMemory() {
		kills = 0
	}

	var verdicts []string
	lines := strings.Split(strings.TrimSpace(deliveries), "\n")
	killed := 0
	for len(verdicts) < len(lines) {
		answers, kill, err := session(ctx, p, lines[len(verdicts):], kills-killed)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, answers...)
		if kill {
			killed++
		}
	}
	return report(ctx, p, killed, verdicts)
}

// session starts the service, hands it deliveries one after another, and returns
// its answers. As long as kills are left the service is killed, at a random
// instant while it has a delivery that it has not answered: that one will be
// delivered again.
func session(ctx context.Context, p place, deliveries []string, kills int) (answers []string, killed bool, err error) {
	shop, err := start(ctx, p)
	if err != nil {
		return nil, false, err
	}
	last := rand.IntN(max(len(deliveries)/(kills+1), 1)) // how many it lives through
	for _, delivery := range deliveries {
		if _, err := fmt.Fprintln(shop.in, delivery); err != nil {
			break // it is dead
		}
		if kills > 0 && len(answers) == last {
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			shop.kill()
			killed = true
		}
		if !shop.out.Scan() {
			break
		}
		answers = append(answers, shop.out.Text())
	}
	_ = shop.in.Close()
	if err := shop.wait(); err != nil && !killed {
		return nil, false, err
	}
	return answers, killed, nil
}

// report prints what happened, and what the store holds: its image is recovered
// and validated.
func report(ctx context.Context, p place, killed int, verdicts []string) error {
	db, err := open(ctx, p)
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
	kills := fmt.Sprint(killed, " times")
	if p.inMemory() {
		kills = "never: the memory would go with it"
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range [][2]any{
		{"deliveries", len(verdicts)}, {"committed", len(img.Inbox)}, {"duplicates", duplicates},
		{"conflicts", count["conflict"]}, {"refused", count["refused"]}, {"effects", len(img.Outbox)},
		{"each effect exists once", once}, {"service killed", kills}, {"complete history", complete.Digest()},
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
