package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/countersign/countersign/durable"
)

// What a result says of the acknowledgement.
const (
	ackSafe     = "safe"
	ackWithhold = "withhold"
)

// Replay replays every *.json file found anywhere in fsys against the store, those of
// the durable owner, of the event log and of the receipts by their kind:
// each scenario on a fresh database, and a second time with each request in a
// transaction of its own where the backend has transactions. Fixtures that were
// written elsewhere for the same contract replay unchanged.
//
// A file system without such a file, and a file that is not a fixture in every
// detail, is a failure. With a [*testing.T] each scenario is a subtest.
func Replay(t T, h Harness, fsys fs.FS) {
	t.Helper()
	cases, err := fixtureCases(fsys)
	if err != nil {
		t.Errorf("%v", err)
	}
	runAll(t, h, cases)
}

// fixtureCases returns the scenarios of all fixture files, as cases. The error
// joins what is wrong with the others.
func fixtureCases(fsys fs.FS) ([]Case, error) {
	if fsys == nil {
		return nil, errors.New("no file system to replay from")
	}
	var cases []Case
	var wrong []error
	files := 0
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".json") {
			return nil
		}
		files++
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			wrong = append(wrong, err)
			return nil
		}
		fx, err := parseFixture(data)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s is not a fixture: %s", name, strings.TrimPrefix(err.Error(), ": ")))
			return nil
		}
		for _, s := range fx.scenarios {
			cases = append(cases, s.asCase(strings.TrimSuffix(name, ".json")))
		}
		for _, s := range fx.logs {
			cases = append(cases, s.asCase(strings.TrimSuffix(name, ".json")))
		}
		return nil
	})
	if err != nil {
		wrong = append(wrong, err)
	}
	if files == 0 {
		wrong = append(wrong, errors.New("there is no *.json file to replay"))
	}
	return cases, errors.Join(wrong...)
}

// asCase returns the scenario as a case of the group named after its file.
func (s scenario) asCase(group string) Case {
	return Case{Group: group, Name: s.id, Needs: []Need{NeedOwners}, Run: func(t T, h Harness) {
		t.Helper()
		if s.steps != nil {
			s.replay(t, h)
		}
		if s.fingerprints != nil {
			s.fingerprints.replay(t, h)
		}
		for _, c := range s.reconciliations {
			c.replay(t, h, s.owner)
		}
	}}
}

// replay carries out the steps and compares the result of each, and the whole
// image after it.
func (s scenario) replay(t T, h Harness) {
	t.Helper()
	db := newDatabase(t, h)
	hd := db.handle()
	head := durable.Head{Owner: s.owner, Mode: s.mode, Fence: s.fence}
	if got, err := hd.CreateOwner(t.Context(), durable.CreateOwner{Owner: s.owner, Mode: s.mode, Fence: s.fence}); err != nil || got != head {
		t.Fatalf("create %q: want %+v, got %+v, %v", s.owner, head, got, err)
	}
	for i, st := range s.steps {
		what := fmt.Sprintf("scenario %s, step %d of %d, %s", s.id, i+1, len(s.steps), st.op)
		if st.req != nil {
			what += ": " + describe(st.req)
		}
		got, err := s.carryOut(db, &hd, st)
		if got.String() != st.want.String() {
			t.Fatalf("%s:\n want %s\n  got %s, error: %v", what, st.want, got, err)
		}
		img, err := hd.LoadOwner(t.Context(), durable.LoadOwner{Owner: s.owner})
		if err != nil {
			t.Fatalf("%s: load the owner: %v", what, err)
		}
		if !sameImage(st.image, img) {
			t.Fatalf("%s: the image is not the one expected:\n%s", what, diffImages(st.image, img))
		}
		// A session knows how to compare what is read in pages and parts.
		paged := &session{T: t, db: db, store: hd, step: i + 1}
		paged.samePages(hd, what, st.image)
	}
}

// carryOut does what the step says. A crash leaves another handle behind.
func (s scenario) carryOut(db *database, hd **handle, st step) (result, error) {
	db.t.Helper()
	ctx := db.t.Context()
	switch st.op {
	case opCrash:
		db.abort(*hd, st.req.(durable.Commit))
		*hd = db.handle()
		return result{outcome: aborted, ack: ackWithhold}, nil
	case opRecover:
		db.close()
		*hd = db.handle()
		if _, err := durable.Recover(ctx, *hd, s.owner); err != nil {
			return result{outcome: outcomeOf(err)}, err
		}
		return result{outcome: recovered}, nil
	}
	a := ask(ctx, *hd, st.req)
	res := result{outcome: a.outcome}
	switch {
	case st.op == opCommit:
		res.ack = ackWithhold
		if a.ackSafe {
			res.ack = ackSafe
		}
		if a.err == nil {
			res.through = &a.through
		}
	case st.op == opReceipt && a.outcome == staleFence:
		res.ack = ackWithhold
	}
	return res, a.err
}
