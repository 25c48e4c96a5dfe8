package stdioguard

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/stdioguard/stdioguard/internal/jsonscan"
)

// A writer finds the messages in what the server writes. It is what
// [Guard.Writer] returns.
//
// Between two Writes it holds nothing but the beginning of a value, or of a BOM,
// in held. Its lock is not the output's, so that a server which stops in the
// middle of a message does not keep the guard from answering.
type writer struct {
	g      *Guard
	asked  atomic.Bool // Guard.Writer was called: requests are tracked
	closed atomic.Bool

	mu      sync.Mutex
	scan    *jsonscan.Scanner // of the value being read, over more than one Write
	inBatch *jsonscan.Scanner // of each message in a batch; nil until there is one
	held    []byte
	idle    int  // Writes in a row that held could have been smaller for
	inValue bool // the scanner has read held, and goes on behind it
	mixed   bool // the current line has text on it
	found   []message
	open    []int  // for text
	line    []byte // a message that has to be copied
}

// A message is what was found in buf[from:to].
type message struct {
	role
	from, to int
	repair   bool // a string in it is not UTF-8
}

// What the writer keeps between two Writes at any time, in bytes for each of its
// buffers, and in messages.
const (
	keep      = 1 << 20
	keepFound = 1 << 10
)

// Write takes what a server writes: bytes cut anywhere. Each message in them
// leaves, with one newline, in one write of the underlying writer; the rest is
// diverted. It returns len(p), or the first error of the underlying writer, from
// then on. After Close of the writer or the guard it returns io.ErrClosedPipe.
//
// It is safe for concurrent use. It keeps no reference to p.
func (w *writer) Write(p []byte) (int, error) {
	if w.isClosed() {
		return 0, io.ErrClosedPipe // though another Write be stuck
	}
	w.mu.Lock()
	defer w.unlock() // also if the underlying writer panics
	if w.scan == nil {
		w.scan = newOutputScanner()
	}
	if err := w.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close diverts what is held and ends the wait for answers at the end of input.
// The guard's own answers go on until [Guard.Close]. It does not wait for a Write.
func (w *writer) Close() error {
	w.closed.Store(true)
	if w.mu.TryLock() {
		w.unlock() // else the Write that has the lock does it
	}
	w.g.wakeUp()
	return nil
}

func (w *writer) isClosed() bool { return w.closed.Load() || w.g.closed.Load() }

// unlock unlocks w.mu, and sees to it that nothing is held once w is closed.
func (w *writer) unlock() {
	for {
		closed := w.isClosed()
		if closed && len(w.held) > 0 {
			w.g.diverted.write(w.held)
			w.held = nil
		}
		w.mu.Unlock()
		// Who closed w while we had the lock has left this to us.
		if closed == w.isClosed() || !w.mu.TryLock() {
			return
		}
	}
}

func (w *writer) write(p []byte) error {
	switch {
	case w.isClosed():
		return io.ErrClosedPipe
	case w.g.out.w == nil:
		return errNoWriter
	}
	if err := w.g.out.failure(); err != nil || len(p) == 0 {
		return err
	}
	// The scanner needs a newline at the end: p's own, or one that is added.
	b, end := p[:len(p):len(p)], len(p)
	if ended := p[end-1] == '\n'; len(w.held) > 0 || !ended {
		b = append(w.held, p...)
		end = len(b)
		if !ended {
			b = append(b, '\n')
		}
		w.held = b[:0]
	}
	rest, err := w.split(b, end)
	if err != nil {
		rest, end = 0, 0 // nothing will be written any more
	}
	w.hold(b, rest, end)
	return err
}

// hold keeps b[from:end], the beginning of a value, for the next Write. If there is
// any, b is w.held's memory, which goes when it is large and was not needed for a
// number of Writes.
func (w *writer) hold(b []byte, from, end int) {
	if end-from >= w.g.cfg.limits.Held {
		w.g.diverted.write(b[from:end])
		w.mixed, w.inValue = true, false
		from = end
	}
	if end-from < keep && cap(w.held) > keep {
		w.idle++
	} else {
		w.idle = 0
	}
	switch {
	case w.idle == giveBackAfter:
		w.held, w.idle = bytes.Clone(b[from:end]), 0
	case from == end:
		w.held = w.held[:0]
	case from > 0:
		w.held = b[:copy(b, b[from:end])]
	default:
		w.held = b[:end] // where it is: it may be long, and come in many Writes
	}
}

// split deals with b[:end], line by line, and returns where the beginning of a
// value begins that is to be held. b ends in a newline, which is part of b[:end]
// or stands behind it.
func (w *writer) split(b []byte, end int) (rest int, err error) {
	from, i := 0, 0 // the line, as far as it is here; where to read on
	for i < end {
		if w.inValue {
			w.inValue = false
			i = w.value(b, i, end, w.scan.Resume(b))
		} else {
			switch c := b[i]; {
			case c == '\n':
				i++
				if err := w.flush(b, from, i); err != nil {
					return 0, err
				}
				w.mixed = false
				from = i
			case isSpace(c):
				i++
			case c == '{' || c == '[':
				i = w.value(b, i, end, w.scan.Value(b[i:], envelope))
			case c == utf8BOM[0] && isBOM(b[i:end]):
				if end-i < len(utf8BOM) {
					return i, w.flush(b, from, i)
				}
				i += len(utf8BOM)
			default:
				w.mixed = true
				for b[i] != '{' && b[i] != '[' && b[i] != '\n' {
					i++
				}
			}
		}
		if w.inValue {
			break
		}
	}
	return i, w.flush(b, from, i)
}

// isBOM reports whether b begins with a BOM, or is the beginning of one.
func isBOM(b []byte) bool {
	n := min(len(b), len(utf8BOM))
	return bytes.Equal(b[:n], utf8BOM[:n])
}

// value deals with the value that begins at b[i], which the scanner has read. It
// returns where to read on.
func (w *writer) value(b []byte, i, end int, status jsonscan.Status) int {
	if status == jsonscan.Valid {
		to := i + w.scan.Offset()
		w.note(b, i, to)
		return to
	}
	fault := i + w.scan.Offset()
	if status == jsonscan.Truncated {
		if end < len(b) {
			w.inValue = true // it breaks off where p ends
			return i
		}
		fault = end - 1 // the newline
	}
	w.broken(b, i, fault)
	return fault
}

// note notes a value that is whole.
func (w *writer) note(b []byte, from, to int) {
	m, ok := w.classify(b[from:])
	if !ok {
		w.mixed = true
		return
	}
	m.from, m.to = from, to
	w.found = append(w.found, m)
}

// broken deals with a value that begins at b[i] and breaks off at b[fault]. The
// containers that are open at the fault are text; those that are whole inside
// them are values of the line. Nothing else in there is, a string least of all.
func (w *writer) broken(b []byte, i, fault int) {
	w.mixed = true
	start := i
	w.open = w.scan.Open(w.open[:0])
	open := w.open
	for i < fault {
		switch b[i] {
		case '"':
			i = skipString(b, i, fault)
		case '{', '[':
			if len(open) > 0 && i == start+open[0] {
				open = open[1:]
				i++
				continue
			}
			w.scan.Value(b[i:], envelope)
			to := i + w.scan.Offset()
			w.note(b, i, to)
			i = to
		default:
			i++
		}
	}
}

// skipString returns the end of the string that begins at b[i], or the fault
// that it breaks off at.
func skipString(b []byte, i, fault int) int {
	for i++; i < fault; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return fault
}

// flush lets the messages out that were found in b[from:to], which is a line or
// the part of one that came in this Write, and diverts the rest. A line that has
// nothing but messages on it may bear all of them; beside text, which might have
// been meant for a person, only a response that the client waits for is believed.
func (w *writer) flush(b []byte, from, to int) error {
	found := w.found
	defer clear(found) // their ids are part of the caller's slice
	w.found = w.found[:0]
	if cap(w.found) > keepFound {
		w.found = nil
	}
	for _, m := range found {
		if w.mixed && !(m.kind == response && w.g.isPending(m.id)) {
			continue
		}
		if w.mixed {
			w.g.diverted.write(b[from:m.from])
		}
		from = m.to
		if err := w.send(b, m); err != nil {
			return err
		}
	}
	if w.mixed && from < to {
		w.g.diverted.write(b[from:to])
	}
	return nil
}

// send writes one message.
func (w *writer) send(b []byte, m message) error {
	if w.isClosed() {
		return io.ErrClosedPipe // while the message before this one was written
	}
	line := b[m.from : m.to+1]
	if m.repair || b[m.to] != '\n' {
		w.line = appendRepaired(w.line[:0], b[m.from:m.to])
		w.line = append(w.line, '\n')
		line = w.line
		if cap(w.line) > keep {
			w.line = nil
		}
	}
	w.account(b, m, false)
	if err := w.g.out.write(line); err != nil {
		return err
	}
	w.g.written.Add(1)
	w.account(b, m, true)
	return nil
}

// account tells the guard of a message, or of each one in a batch, before and
// after it is written.
func (w *writer) account(b []byte, m message, written bool) {
	tell := (*Guard).serverSends
	if written {
		tell = (*Guard).serverSent
	}
	if m.kind != batch {
		tell(w.g, m.role)
		return
	}
	w.eachElement(b[m.from:], func(element []byte, members *jsonscan.Members) bool {
		if isVersioned(members, element) {
			tell(w.g, roleOf(members, element))
		}
		return true
	})
}

// appendRepaired appends text with U+FFFD in place of each byte that is not part
// of a rune.
func appendRepaired(dst, text []byte) []byte {
	for len(text) > 0 {
		if text[0] < utf8.RuneSelf {
			dst = append(dst, text[0])
			text = text[1:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[size:]
	}
	return dst
}

// classify says what the value at the beginning of text is, which the scanner
// has just read, and whether it is a message.
func (w *writer) classify(text []byte) (message, bool) {
	m := message{repair: w.scan.Repair}
	if isVersioned(&w.scan.Members, text) {
		m.role = roleOf(&w.scan.Members, text)
		return m, true
	}
	if text[0] != '[' {
		return m, w.g.cfg.anyJSON
	}
	m.kind = batch
	return m, w.g.cfg.anyJSON || w.eachElement(text, func(element []byte, members *jsonscan.Members) bool {
		return isVersioned(members, element)
	})
}

// isVersioned reports whether the value that text begins with is an object that says
// of itself that it is JSON-RPC 2.0. More is not asked of a server.
func isVersioned(m *jsonscan.Members, text []byte) bool {
	return text[0] == '{' && isVersion(member(m, text, nameJSONRPC))
}

// eachElement calls f with what begins with each element of an array, and with
// the element's members, until f returns false. It returns false then, and for an
// empty array.
func (w *writer) eachElement(array []byte, f func([]byte, *jsonscan.Members) bool) bool {
	if w.inBatch == nil {
		w.inBatch = newOutputScanner()
	}
	any := false
	for i := 1; ; {
		for isSpace(array[i]) || array[i] == ',' {
			i++
		}
		if array[i] == ']' {
			return any
		}
		any = true
		w.inBatch.Value(array[i:], envelope)
		if !f(array[i:], &w.inBatch.Members) {
			return false
		}
		i += w.inBatch.Offset()
	}
}

// newOutputScanner returns a scanner for what a server writes: as deep as can be,
// and with strings to be repaired.
func newOutputScanner() *jsonscan.Scanner {
	s := jsonscan.New(jsonscan.MaxDepth)
	s.Lenient = true
	return s
}

// A diversion writes what is no message to where it can do no harm. Its writer
// may block or fail; that holds nothing up. The zero value drops everything.
type diversion struct {
	w io.Writer

	mu      sync.Mutex
	buf     []byte        // to be written
	writing int           // bytes that w has been given
	idle    chan struct{} // closed when the goroutine has ended; nil if there was none
	running bool
	failed  bool
	total   int64
	lost    int64
}

const (
	// maxDiverted bounds what waits for the diversion's writer.
	maxDiverted = 4 << 20
	// flushTime is what Close gives that writer.
	flushTime = 100 * time.Millisecond
)

// write takes a copy of p.
func (d *diversion) write(p []byte) {
	if len(p) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total += int64(len(p))
	room := maxDiverted - len(d.buf) - d.writing
	if d.w == nil || d.failed {
		room = 0
	}
	if len(p) > room {
		d.lost += int64(len(p) - room)
		p = p[:room]
	}
	d.buf = append(d.buf, p...)
	if len(d.buf) > 0 && !d.running {
		d.running = true
		d.idle = make(chan struct{})
		go d.run(d.idle)
	}
}

// run writes what there is, and ends when there is nothing more.
func (d *diversion) run(idle chan struct{}) {
	defer close(idle)
	var buf []byte
	for {
		d.mu.Lock()
		buf, d.buf = d.buf, buf[:0]
		d.writing = len(buf)
		d.running = len(buf) > 0
		d.mu.Unlock()
		if len(buf) == 0 {
			return
		}
		n, ok := d.give(buf)
		if ok {
			continue
		}
		d.mu.Lock()
		d.failed = true
		d.lost += int64(len(buf)-n) + int64(len(d.buf))
		d.buf = nil
		d.mu.Unlock()
	}
}

// give writes buf, and reports whether that went well. Nobody could recover a panic
// of w on this goroutine, so it counts as a failure.
func (d *diversion) give(buf []byte) (n int, ok bool) {
	defer func() { recover() }()
	n, err := d.w.Write(buf)
	if n < 0 || n > len(buf) {
		return 0, false
	}
	return n, err == nil && n == len(buf)
}

// flush waits a moment for what was diverted to be written.
func (d *diversion) flush() {
	d.mu.Lock()
	idle := d.idle
	d.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(flushTime):
	}
}

func (d *diversion) counts() (total, lost int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total, d.lost
}
