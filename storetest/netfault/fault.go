package netfault

import (
	"bytes"
	"slices"
)

// Direction is which way data goes.
type Direction string

// The directions.
const (
	ToServer Direction = "to server"
	ToClient Direction = "to client"
)

// LongestPattern is the length in bytes to which a pattern is looked for across
// the pieces in which data arrives. A longer one is found only within one piece.
const LongestPattern = 1 << 10

// A Fault is armed and strikes once, at the first data that asks for it, on
// whichever connection that is. It is safe for concurrent use.
type Fault struct {
	proxy  *Proxy
	struck chan struct{}

	direction Direction
	pattern   []byte // nil: left counts
	left      int64  // bytes; with a pattern, messages of on
	on        *link  // that the pattern came over, when left counts messages
	then      act
}

// act is what happens after the bytes that a fault lets pass.
type act int

const (
	cut         act = iota // both connections end
	loseMessage            // the server gets no more; the client is cut when it is done
	loseReply              // the server gets all; its answer is thrown away
)

// Struck returns a channel that is closed when the fault has struck.
func (f *Fault) Struck() <-chan struct{} { return f.struck }

// Disarm takes the fault back, and reports whether it could: it can't when the fault
// has met its data, even if [Fault.Struck] is not closed yet.
func (f *Fault) Disarm() bool {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	armed := len(f.proxy.faults)
	f.proxy.faults = slices.DeleteFunc(f.proxy.faults, func(g *Fault) bool { return g == f })
	return len(f.proxy.faults) < armed
}

func (p *Proxy) arm(f *Fault) *Fault {
	f.proxy, f.struck = p, make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

// CutAfter lets n more bytes pass in a direction, counted over all connections,
// and cuts the connection that the last of them went over. With 0 or less that is
// the first connection on which there is data in this direction.
func (p *Proxy) CutAfter(d Direction, n int64) *Fault {
	return p.arm(&Fault{direction: d, left: max(n, 0), then: cut})
}

// LoseMessage loses the first message of a client that contains the pattern,
// before it reaches the server: the server gets what stands before the pattern,
// and then the end of the connection. The client is cut when the server has ended
// its side too, so it can repeat at once and meets nothing of its own.
//
// The pattern must be as the driver writes it: pgx sends "commit", MongoDB's
// driver "commitTransaction". The slice is copied. An empty one is in any message.
func (p *Proxy) LoseMessage(pattern []byte) *Fault {
	return p.arm(&Fault{direction: ToServer, pattern: append([]byte{}, pattern...), then: loseMessage})
}

// LoseReply loses the answer to the first message of a client that contains the
// pattern: the server gets the message and carries it out, its answer is thrown
// away, and then the client is cut. [Fault.Struck] means that the message is on
// its way; when the client sees its connection end, the server is done with it.
//
// The pattern is that of [Proxy.LoseMessage].
func (p *Proxy) LoseReply(pattern []byte) *Fault {
	return p.arm(&Fault{direction: ToServer, pattern: append([]byte{}, pattern...), then: loseReply})
}

// LoseMessageAfter is [Proxy.LoseMessage] for a message that need not contain the
// pattern: the n-th of those that follow the pattern on its connection. With 0 it
// is the message with the pattern. A message is a piece in which data arrives, so
// the client should send one in one write, and wait for the answer before the next.
func (p *Proxy) LoseMessageAfter(pattern []byte, n int) *Fault {
	return p.arm(&Fault{direction: ToServer, pattern: append([]byte{}, pattern...), left: int64(n), then: loseMessage})
}

// LoseReplyAfter is [Proxy.LoseReply] for the message of [Proxy.LoseMessageAfter].
func (p *Proxy) LoseReplyAfter(pattern []byte, n int) *Fault {
	return p.arm(&Fault{direction: ToServer, pattern: append([]byte{}, pattern...), left: int64(n), then: loseReply})
}

// A strike is how much of a chunk passes, and the fault that then strikes, if any.
type strike struct {
	passes int
	fault  *Fault
	then   act
}

// judge looks at a chunk and takes the first fault that it meets from those that
// are armed.
func (p *Proxy) judge(l *link, d Direction, before, chunk []byte) strike {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.faults {
		if f.direction != d {
			continue
		}
		passes, strikes := f.meets(l, before, chunk)
		if !strikes {
			continue
		}
		p.faults = slices.Delete(p.faults, i, i+1)
		return strike{passes: passes, fault: f, then: f.then}
	}
	return strike{passes: len(chunk)}
}

// meets reports whether the fault strikes at a chunk, and how much of it passes.
func (f *Fault) meets(l *link, before, chunk []byte) (passes int, strikes bool) {
	switch {
	case f.pattern == nil && f.left > int64(len(chunk)):
		f.left -= int64(len(chunk))
		return 0, false
	case f.pattern == nil:
		return int(f.left), true
	case f.on == nil:
		at, found := find(before, chunk, f.pattern)
		if found && f.left > 0 {
			f.on = l
		}
		return f.passing(at, chunk), found && f.left <= 0
	case f.on == l:
		f.left--
		return f.passing(0, chunk), f.left <= 0
	}
	return 0, false
}

// passing is how much of a chunk passes if what is struck begins at a place in it.
func (f *Fault) passing(at int, chunk []byte) int {
	if f.then == loseMessage {
		return at
	}
	return len(chunk)
}

// find returns where in a chunk a pattern begins; 0 if it began before. It does
// not find one that had ended before.
func find(before, chunk, pattern []byte) (at int, found bool) {
	overlap := before[max(0, len(before)-max(0, len(pattern)-1)):]
	i := bytes.Index(append(slices.Clone(overlap), chunk...), pattern)
	return max(0, i-len(overlap)), i >= 0
}
