package mongo

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
	"github.com/countersign/countersign/store"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
)

const (
	lookAgain   = time.Second            // how often those who wait look, although a change stream wakes them
	lookAround  = 200 * time.Millisecond // and without one
	streamPause = time.Second            // before a change stream is opened again
)

// watching is the change stream of a store: there is one from the first waiting on,
// until Close.
type watching struct {
	once sync.Once

	mu   sync.Mutex
	open bool
}

func (w *watching) set(open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = open
}

func (w *watching) isOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// Watch implements [store.EventPort].
func (p port) Watch(ctx context.Context) (time.Duration, error) {
	if p.tx != nil || ctx.Value(inBody{p.s}) != nil {
		return 0, store.ErrNestedTransaction
	}
	s := p.s
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	s.watching.once.Do(func() {
		if s.enterAgain() {
			go s.watch()
		}
	})
	if s.watching.isOpen() {
		return lookAgain, nil
	}
	return lookAround, nil
}

// watch wakes those who wait for events of sequences that the change stream tells
// of, until the store is closed. Where the server has no change streams, or one ends,
// they look by themselves, and it is tried again.
func (s *Store) watch() {
	defer s.leave()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	for wait := streamPause; ; wait = min(2*wait, time.Minute) {
		if s.follow(ctx) {
			wait = streamPause
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// follow reads the change stream until it ends, and reports whether there was one.
func (s *Store) follow(ctx context.Context) bool {
	// A head's _id begins with its kind.
	first, end := sequenceKind+separator, sequenceKind+afterSeparator
	changes := s.log.Database().Collection(s.log.Name(), options.Collection().SetReadConcern(readconcern.Majority()))
	stream, err := changes.Watch(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "documentKey._id", Value: bson.D{{Key: "$gte", Value: first}, {Key: "$lt", Value: end}}}}}},
		{{Key: "$project", Value: bson.D{{Key: "documentKey", Value: 1}}}},
	}, options.ChangeStream().SetMaxAwaitTime(lookAgain))
	if err != nil {
		return false
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
		defer cancel()
		_ = stream.Close(late)
	}()
	s.watching.set(true)
	defer func() {
		s.watching.set(false)
		s.WakeAll() // they don't rely on it any more
	}()
	s.WakeAll() // whatever came before the stream
	for stream.Next(ctx) {
		var change struct {
			Key struct {
				ID string `bson:"_id"`
			} `bson:"documentKey"`
		}
		if stream.Decode(&change) != nil {
			continue
		}
		if sequence, ok := sequenceOfID(change.Key.ID); ok {
			s.Wake(sequence)
		}
	}
	return true
}

// sequenceOfID returns the sequence whose head has the _id.
func sequenceOfID(id string) (eventlog.Sequence, bool) {
	parts := strings.Split(id, separator)
	if len(parts) != 4 || parts[0] != sequenceKind {
		return eventlog.Sequence{}, false
	}
	return eventlog.Sequence{Namespace: countersign.Namespace{EventStore: parts[1], Name: parts[2]}, Name: parts[3]}, true
}
