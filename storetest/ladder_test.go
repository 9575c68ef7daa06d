package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store/memory"
)

// journal is a durable store of a few lines: a memory store, and a file with a
// line for each request that changed it. What is not a whole line was never
// written.
type journal struct {
	durable.Store
	file  *os.File
	step  func()
	fault string

	mu   sync.Mutex
	held []byte // a line that is written with the next one
}

// entry is a line: one of the requests.
type entry struct {
	Create  *durable.CreateOwner
	Commit  *durable.Commit
	Advance *durable.AdvanceFence
	Record  *durable.RecordReceipt
}

func openJournal(dir, fault string, step func()) (*journal, error) {
	path := filepath.Join(dir, "journal")
	step()
	data, err := os.ReadFile(path)
	step()
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	s := memory.New()
	for line := range bytes.Lines(whole) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		switch ctx := context.Background(); {
		case e.Create != nil:
			_, err = s.CreateOwner(ctx, *e.Create)
		case e.Commit != nil:
			_, err = s.CommitOwner(ctx, *e.Commit)
		case e.Advance != nil:
			_, err = s.AdvanceFence(ctx, *e.Advance)
		case e.Record != nil:
			_, err = s.RecordReceipt(ctx, *e.Record)
		}
		if err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(int64(len(whole))); err != nil {
		return nil, err
	}
	_, err = file.Seek(0, 2)
	return &journal{Store: s, file: file, step: step, fault: fault}, err
}

func (j *journal) Close() error { return j.file.Close() }

// write appends a line, in two pieces, so that a process can be lost between
// them.
func (j *journal) write(e entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if j.fault == "acknowledges before it writes" {
		line, j.held = j.held, line
	}
	for _, piece := range [][]byte{line[:len(line)/2], line[len(line)/2:]} {
		j.step()
		if _, err := j.file.Write(piece); err != nil {
			return err
		}
		j.step()
	}
	return nil
}

func (j *journal) CreateOwner(ctx context.Context, req durable.CreateOwner) (durable.Head, error) {
	head, err := j.Store.CreateOwner(ctx, req)
	if err == nil {
		err = j.write(entry{Create: &req})
	}
	return head, err
}

func (j *journal) CommitOwner(ctx context.Context, c durable.Commit) (durable.Committed, error) {
	res, err := j.Store.CommitOwner(ctx, c)
	if err != nil || res.Duplicate {
		return res, err
	}
	if j.fault == "writes a commit in two" && len(c.Effects) > 0 && len(c.Receipts) == 0 {
		first := c
		first.Effects = nil
		if err := j.write(entry{Commit: &first}); err != nil {
			return res, err
		}
		// The effects would follow in a line of their own.
		j.step()
		j.step()
		return res, nil
	}
	return res, j.write(entry{Commit: &c})
}

func (j *journal) AdvanceFence(ctx context.Context, req durable.AdvanceFence) (durable.Head, error) {
	head, err := j.Store.AdvanceFence(ctx, req)
	if err == nil && j.fault != "keeps the fence in memory" {
		err = j.write(entry{Advance: &req})
	}
	return head, err
}

func (j *journal) RecordReceipt(ctx context.Context, req durable.RecordReceipt) (durable.ReceiptRecorded, error) {
	res, err := j.Store.RecordReceipt(ctx, req)
	if err == nil && !res.Duplicate {
		err = j.write(entry{Record: &req})
	}
	return res, err
}

func journalLadder(fault string) Ladder {
	return Ladder{Open: func(_ context.Context, location string, step func()) (Backend, error) {
		return openJournal(location, fault, step)
	}}
}

func TestCrashLadder(t *testing.T) { CrashLadder(t, journalLadder("")) }

// The ladder finds stores that lose what they acknowledged, and stores that
// show a part of what they did not. Each child runs one of these subtests.
func TestCrashLadderFindsFaults(t *testing.T) {
	for fault, want := range map[string]string{
		"acknowledges before it writes": "the store holds neither",
		"writes a commit in two":        "the store holds neither",
		"keeps the fence in memory":     "the store holds neither",
	} {
		t.Run(strings.ReplaceAll(fault, " ", "_"), func(t *testing.T) {
			if os.Getenv(ladderTest) != "" {
				CrashLadder(t, journalLadder(fault)) // the child
				return
			}
			v := verdictOf(t, func(inner T) { climb(ladderOf{inner, t.Name()}, journalLadder(fault)) })
			if all := strings.Join(v.Failures, "\n"); !strings.Contains(all, want) {
				t.Fatalf("want a failure with %q, got %q", want, all)
			}
		})
	}
}

// ladderOf is a recording T with the name of a test that a child can run.
type ladderOf struct {
	T
	name string
}

func (l ladderOf) Name() string { return l.name }

// A store whose steps are not around its I/O proves nothing.
func TestCrashLadderNeedsSteps(t *testing.T) {
	silent := Ladder{Open: func(_ context.Context, location string, _ func()) (Backend, error) {
		return openJournal(location, "", func() {})
	}}
	if os.Getenv(ladderTest) != "" {
		CrashLadder(t, silent)
		return
	}
	v := verdictOf(t, func(inner T) { climb(ladderOf{inner, t.Name()}, silent) })
	if all := strings.Join(v.Failures, "\n"); !strings.Contains(all, "does not call step") {
		t.Fatalf("got %q", all)
	}
}

// A child that fails by itself is not taken for one that was killed.
func TestCrashLadderReportsAFailingChild(t *testing.T) {
	failing := Ladder{Open: func(_ context.Context, location string, step func()) (Backend, error) {
		if os.Getenv(ladderTest) != "" {
			return nil, os.ErrPermission
		}
		return openJournal(location, "", step)
	}}
	if os.Getenv(ladderTest) != "" {
		CrashLadder(t, failing)
		return
	}
	v := verdictOf(t, func(inner T) { climb(ladderOf{inner, t.Name()}, failing) })
	if all := strings.Join(v.Failures, "\n"); !strings.Contains(all, "neither died at its step nor got through") || !strings.Contains(all, "permission") {
		t.Fatalf("got %q", all)
	}
}

func TestOnlyTest(t *testing.T) {
	for name, want := range map[string]string{"TestA": "^TestA$", "TestA/b_(c)": `^TestA$/^b_\(c\)$`} {
		if got := onlyTest(name); got != want {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
	}
}
