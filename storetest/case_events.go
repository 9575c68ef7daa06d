package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign"
	"github.com/countersign/countersign/eventlog"
)

var eventsCases = []Case{
	logCase("events", "missing_sequence_is_an_empty_page", func(s *logSession) {
		page := s.page("nothing", eventlog.ReadEvents{Sequence: orders})
		if !page.End || page.Next != 0 {
			s.failf("read events", "of a sequence that is not there: %+v", page)
		}
		s.page("nothing", eventlog.ReadEvents{Sequence: orders, From: 7})
		s.page("nothing", eventlog.ReadEvents{Sequence: orders, Before: 7})
		s.tail("nothing", orders, eventlog.Filter{})
	}),
	logCase("events", "pages_lead_through_everything_once", func(s *logSession) {
		s.append(appended, notes(25)...)
		for _, limit := range []int{1, 2, 7, 24, 25, 26, eventlog.MaxPageLimit} {
			var all []eventlog.Recorded
			for from, n := uint64(0), 0; ; n++ {
				page := s.page("pages", eventlog.ReadEvents{Sequence: orders, From: from, Limit: limit})
				all = append(all, page.Events...)
				if page.End {
					break
				}
				if from = page.Next; n > 30 {
					s.failf("read events", "pages of %d do not come to an end", limit)
				}
			}
			s.sameEvents("pages", s.model.events[orders], all)
		}
	}),
	logCase("events", "full_page_at_the_end_is_the_last", func(s *logSession) {
		s.append(appended, notes(6)...)
		for _, limit := range []int{3, 6} {
			for _, from := range []uint64{0, 3, 4, 6, 7, 100} {
				s.page("the end", eventlog.ReadEvents{Sequence: orders, From: from, Limit: limit})
			}
		}
	}),
	logCase("events", "from_and_before_bound_the_page", func(s *logSession) {
		s.append(appended, notes(8)...)
		for _, bounds := range [][2]uint64{{0, 1}, {0, 8}, {0, 9}, {3, 5}, {5, 5}, {6, 3}, {7, 8}, {8, 9}, {0, 1<<63 - 1}, {1<<63 - 1, 0}, {1<<63 - 1, 1<<63 - 1}} {
			s.page("bounds", eventlog.ReadEvents{Sequence: orders, From: bounds[0], Before: bounds[1]})
			s.page("bounds", eventlog.ReadEvents{Sequence: orders, From: bounds[0], Before: bounds[1], Limit: 2})
		}
	}),
	logCase("events", "filters_narrow_by_each_part", func(s *logSession) {
		fillScopes(s)
		for _, f := range []eventlog.Filter{
			{Source: "a"}, {Source: "b"}, {Source: "nobody"}, {SourceType: "order"}, {StreamType: "mail"}, {StreamID: "2"}, {EventTypes: []string{renamed}}, {EventTypes: []string{closedE, renamed, "unknown"}},
			{Source: "a", SourceType: "order", StreamType: "shop", StreamID: "1", EventTypes: []string{noted}}, {Source: "b", EventTypes: []string{renamed}},
		} {
			s.page("filter", eventlog.ReadEvents{Sequence: orders, Filter: f})
			s.page("filter", eventlog.ReadEvents{Sequence: orders, Filter: f, From: 1, Limit: 1})
			s.page("filter", eventlog.ReadEvents{Sequence: orders, Filter: f, From: 1, Before: 5, Limit: 2})
			s.tail("filter", orders, f)
		}
	}),
	logCase("events", "tags_are_any_of_them", func(s *logSession) {
		tagged := func(source string, tags ...eventlog.Tag) eventlog.Event {
			e := note(source, `1`)
			e.Tags = tags
			return e
		}
		plain, named, empty, other := eventlog.Tag{Value: "t"}, eventlog.Tag{Name: "t", Value: "v"}, eventlog.Tag{Name: "t"}, eventlog.Tag{Name: "v", Value: "t"}
		s.append(appended, tagged("a", plain), tagged("a", named), tagged("b", empty), tagged("b", plain, named, other), tagged("c"), tagged("c", other, empty))
		for _, tags := range [][]eventlog.Tag{{plain}, {named}, {empty}, {other}, {plain, named}, {plain, named, empty, other}, {{Value: "T"}}, {{Value: "t", Name: "T"}}, {{Value: "tv"}}, {plain, plain}} {
			s.page("tags", eventlog.ReadEvents{Sequence: orders, Filter: eventlog.Filter{Tags: tags}})
			s.page("tags", eventlog.ReadEvents{Sequence: orders, Filter: eventlog.Filter{Tags: tags, Source: "b"}, Limit: 1})
			s.tail("tags", orders, eventlog.Filter{Tags: tags})
			s.tail("tags", orders, eventlog.Filter{Tags: tags, EventTypes: []string{noted, renamed}})
		}
	}),
	// An event that has several of the tags, or types, comes once.
	logCase("events", "event_with_several_matching_tags_comes_once", func(s *logSession) {
		var events []eventlog.Event
		var tags []eventlog.Tag
		for i := range 6 {
			tags = append(tags, eventlog.Tag{Name: "t", Value: fmt.Sprint(i)})
			e := note("a", fmt.Sprint(i))
			e.Tags = append([]eventlog.Tag(nil), tags...)
			events = append(events, e)
		}
		s.append(appended, events...)
		for limit := 1; limit < 7; limit++ {
			s.page("tags", eventlog.ReadEvents{Sequence: orders, Filter: eventlog.Filter{Tags: tags}, Limit: limit})
			s.page("tags", eventlog.ReadEvents{Sequence: orders, Filter: eventlog.Filter{Tags: tags, EventTypes: []string{noted, noted}}, From: 2, Limit: limit})
		}
	}),
	logCase("events", "filtered_page_says_where_the_next_begins", func(s *logSession) {
		s.append(appended, notes(30)...)
		for _, f := range []eventlog.Filter{{Source: "source-3"}, {Source: "source-6"}, {Source: "nobody"}} {
			for from, n := uint64(0), 0; n < 20; n++ {
				page := s.page("filter", eventlog.ReadEvents{Sequence: orders, Filter: f, From: from, Limit: 2})
				if page.End {
					break
				}
				from = page.Next
			}
		}
		s.append(appended, note("nobody", `1`))
		s.page("filter", eventlog.ReadEvents{Sequence: orders, Filter: eventlog.Filter{Source: "nobody"}, From: 30})
	}),
	logCase("events", "page_ends_at_its_bytes", func(s *logSession) {
		for i := range 6 {
			s.append(appended, note(fmt.Sprint(i), `"`+strings.Repeat("x", 3<<20)+`"`), note("small", `1`))
		}
		page := s.page("bytes", eventlog.ReadEvents{Sequence: orders})
		if page.End {
			s.failf("read events", "18 MiB came in one page of %d events", len(page.Events))
		}
		s.page("bytes", eventlog.ReadEvents{Sequence: orders, From: page.Next})
	}),
	logCase("events", "default_limit_is_a_thousand", func(s *logSession) {
		s.append(appended, notes(1000)...)
		s.page("default", eventlog.ReadEvents{Sequence: orders})
		s.append(appended, notes(1)...)
		page := s.page("default", eventlog.ReadEvents{Sequence: orders})
		if len(page.Events) != 1000 || page.End {
			s.failf("read events", "the default page has %d events, end %v", len(page.Events), page.End)
		}
	}),
	logCase("events", "malformed_reads_are_refused", func(s *logSession) {
		s.append(appended, notes(2)...)
		long := strings.Repeat("x", 513)
		filters := []eventlog.Filter{{Source: long}, {SourceType: "\x00"}, {StreamType: "\xff"}, {StreamID: long}, {EventTypes: []string{""}}, {EventTypes: make([]string, 101)}, {Tags: []eventlog.Tag{{}}}, {Tags: make([]eventlog.Tag, 101)}}
		var reads []eventlog.ReadEvents
		for _, f := range filters {
			reads = append(reads, eventlog.ReadEvents{Sequence: orders, Filter: f})
		}
		reads = append(reads, eventlog.ReadEvents{}, eventlog.ReadEvents{Sequence: orders, Limit: -1}, eventlog.ReadEvents{Sequence: orders, Limit: eventlog.MaxPageLimit + 1},
			eventlog.ReadEvents{Sequence: orders, From: 1 << 63}, eventlog.ReadEvents{Sequence: orders, Before: 1 << 63}, eventlog.ReadEvents{Sequence: eventlog.Sequence{Namespace: shop, Name: long}})
		for _, r := range reads {
			s.step++
			page, err := s.store.events.ReadEvents(s.Context(), r)
			if !errors.Is(err, countersign.ErrMalformed) || len(page.Events) > 0 {
				s.failf(describeLog(r), "want %q, got %v", countersign.ErrMalformed, err)
			}
			if r.Limit == 0 && r.From == 0 && r.Before == 0 {
				if _, err := s.store.events.ReadTail(s.Context(), eventlog.ReadTail{Sequence: r.Sequence, Filter: r.Filter}); !errors.Is(err, countersign.ErrMalformed) {
					s.failf("read the tail "+describeLog(r), "want %q, got %v", countersign.ErrMalformed, err)
				}
			}
		}
	}),
	logCase("events", "await_returns_at_once_for_what_is_there", func(s *logSession) {
		s.append(appended, notes(3)...)
		for from := range uint64(3) {
			if err := s.store.events.AwaitEvents(s.Context(), eventlog.AwaitEvents{Sequence: orders, From: from}); err != nil {
				s.failf("await events", "from %d on: %v", from, err)
			}
		}
		if err := s.store.events.AwaitEvents(s.Context(), eventlog.AwaitEvents{Sequence: orders, From: 1 << 63}); !errors.Is(err, countersign.ErrMalformed) {
			s.failf("await events", "from 2^63 on: %v", err)
		}
	}),
	logCase("events", "await_ends_with_its_context", func(s *logSession) {
		s.append(appended, notes(3)...)
		for _, q := range []eventlog.Sequence{orders, {Namespace: shopUS, Name: "nothing"}} {
			ctx, cancel := context.WithTimeout(s.Context(), 30*time.Millisecond)
			err := s.store.events.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: q, From: 3})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				s.failf("await events", "that do not come: %v", err)
			}
		}
	}),
	logCase("events", "await_is_woken_by_another_handle", func(s *logSession) {
		s.append(appended, notes(1)...)
		other := s.db.handle()
		for n := uint64(1); n < 4; n++ {
			ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
			woken := make(chan error, 1)
			go func() { woken <- other.events.AwaitEvents(ctx, eventlog.AwaitEvents{Sequence: orders, From: n}) }()
			select {
			case err := <-woken:
				cancel()
				s.failf("await events", "it returned before there was event %d: %v", n, err)
			case <-time.After(20 * time.Millisecond):
			}
			s.append(appended, notes(1)...)
			err := <-woken
			cancel()
			if err != nil {
				s.failf("await events", "event %d was appended through another handle: %v", n, err)
			}
		}
	}),
}
