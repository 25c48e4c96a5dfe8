package stdioguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

const (
	// smallBuffer holds a pipe's content on Linux, and every usual message. A
	// buffer that is full grows growth times larger: that takes few copies, and
	// little memory beside the new one while it is copied.
	smallBuffer = 64 << 10
	largeBuffer = growth * smallBuffer
	growth      = 16

	// readSize bounds one read, so that what it brings is judged while the
	// processor's cache still holds it.
	readSize = 64 << 10

	// slack is kept free behind the data: for the newline that a last line
	// lacks, or that ends the part of an over-cap line which is looked at.
	slack = 1

	// giveBackAfter is how many small lines in a row make a buffer go that is
	// larger than largeBuffer. That one goes when as many bytes of small lines
	// have passed as it holds: a stream with a large line now and then keeps it.
	giveBackAfter = 64

	// maxEmptyReads is bufio's bound on reads in a row that bring nothing.
	maxEmptyReads = 100
)

var utf8BOM = []byte("\xef\xbb\xbf")

// A frame is one line that is not blank.
type frame struct {
	text    []byte // without BOM and surrounding whitespace, but with a newline
	at      int    // where the text is in the buffer
	number  int64  // from 1
	offset  int64  // of the line's first byte in the stream
	size    int64  // of the line as it stood, without its newline
	indent  int    // bytes stripped before text
	tooLong bool   // text is the part within the limit, a newline put behind it
}

// A framer cuts a stream into lines. It knows no JSON but its whitespace. It
// starts nothing and reads only when it is asked for a line that it does not have.
//
// Its buffer holds, from left to right, lines that were judged good and wait to
// be taken, and bytes that are not yet judged:
//
//	0 ≤ out ≤ outEnd ≤ start ≤ searched ≤ end ≤ len(buf)-slack
//
// buf[out:outEnd] is whole lines, but for the part of the first that was taken,
// and buf[start:searched] holds no newline. Bytes move only while out is empty.
type framer struct {
	r     *source
	limit int // bytes a line may have, without its newline

	buf                    []byte
	out, outEnd            int
	start, searched        int
	end                    int
	smallLines, smallBytes int   // since a line that was not small
	err                    error // what r ended with, if it has
	discarding             bool  // the line at start is over the limit, and was returned
	line                   frame // the last one that next returned; text is good until it is forwarded or next is called
	offset                 int64 // of buf[start] in the stream
	blank, read, discarded int64
}

// next puts the next line that is not blank into f.line. Without mayRead, which
// asks that no line waits, it returns false at the end of what was read. An
// error comes only after every line that was read before it.
func (f *framer) next(mayRead bool) (bool, error) {
	for {
		if i := bytes.IndexByte(f.buf[f.searched:f.end], '\n'); i >= 0 {
			if f.endLine(f.searched + i) {
				return true, nil
			}
			continue
		}
		f.searched = f.end
		switch {
		case f.discarding:
			f.discard(f.end)
		case f.end-f.start > f.limit:
			f.discarding = true
			f.cutOverCap()
			return true, nil
		}
		if !mayRead {
			return false, nil
		}
		if f.err == nil {
			f.fill()
			continue
		}
		if f.r.isEnded() {
			f.err = io.EOF
		}
		if f.finish() {
			return true, nil
		}
		return false, f.takeError()
	}
}

// endLine handles the line that ends at the newline buf[nl], and reports
// whether it is one to judge.
func (f *framer) endLine(nl int) bool {
	size := nl - f.start
	if f.discarding {
		f.discarding = false
		f.discard(nl)
		f.advance(nl + 1)
		return false
	}
	if size > f.limit {
		f.cutOverCap()
		f.discarded += int64(size)
		f.advance(nl + 1)
		return true
	}
	if size < smallBuffer {
		f.smallLines++
		f.smallBytes += size
	} else {
		f.smallLines, f.smallBytes = 0, 0
	}
	f.cut(nl)
	f.advance(nl + 1)
	if len(f.line.text) == 1 {
		f.blank++
		return false
	}
	return true
}

// cut makes buf[start:nl] the line: it strips a BOM and then whitespace, and puts
// a newline behind the rest.
func (f *framer) cut(nl int) {
	line := &f.line
	line.number++
	line.offset, line.size, line.tooLong = f.offset, int64(nl-f.start), false
	at := f.start
	if f.buf[at] == utf8BOM[0] && bytes.HasPrefix(f.buf[at:nl], utf8BOM) {
		at += len(utf8BOM)
	}
	for at < nl && isSpace(f.buf[at]) {
		at++
	}
	for nl > at && isSpace(f.buf[nl-1]) {
		nl--
	}
	f.buf[nl] = '\n'
	line.at, line.text, line.indent = at, f.buf[at:nl+1], at-f.start
}

// cutOverCap makes the part within the limit the line: there is more of it.
func (f *framer) cutOverCap() {
	f.smallLines, f.smallBytes = 0, 0
	f.cut(f.start + f.limit)
	f.line.size, f.line.tooLong = int64(f.limit)+1, true
}

// discard drops an over-cap line's bytes before i, and the buffer that it had grown.
func (f *framer) discard(i int) {
	f.discarded += int64(i - f.start)
	f.advance(i)
	if f.start == f.end && len(f.buf) > smallBuffer+slack {
		f.move(nil)
	}
}

func (f *framer) advance(i int) {
	f.offset += int64(i - f.start)
	f.start, f.searched = i, i
}

// finish handles what stands at the end of the input without a newline, and
// reports whether it is a line to judge.
func (f *framer) finish() bool {
	switch {
	case f.start == f.end || isTimeout(f.err):
		return false
	case f.err != io.EOF:
		f.discard(f.end)
		return false
	}
	nl := f.end
	f.buf[nl] = '\n'
	f.end++
	return f.endLine(nl)
}

// takeError returns r's error: for good, unless it is a timeout.
func (f *framer) takeError() error {
	err := f.err
	if isTimeout(err) {
		f.err = nil
	}
	return err
}

// fill reads once from r, or until there is a byte or an error.
func (f *framer) fill() {
	f.makeRoom()
	p := f.buf[f.end:min(f.end+readSize, len(f.buf)-slack)]
	for range maxEmptyReads {
		n, err := f.r.Read(p)
		if n < 0 || n > len(p) {
			f.err = fmt.Errorf("stdioguard: the reader returned an impossible count, %d for a buffer of %d bytes", n, len(p))
			return
		}
		f.end += n
		f.read += int64(n)
		f.err = err
		if n > 0 || err != nil {
			return
		}
	}
	f.err = io.ErrNoProgress
}

// makeRoom makes room behind end, at the least for one byte. A line is moved at
// most once, beside the copies into larger buffers.
func (f *framer) makeRoom() {
	held := f.end - f.start
	switch {
	case f.buf == nil || f.mayGiveBack() && held < smallBuffer:
		f.move(make([]byte, smallBuffer+slack))
	case f.start > 0 && (held == 0 || len(f.buf)-slack-f.end < len(f.buf)/4):
		f.move(f.buf)
	}
	if f.end < len(f.buf)-slack {
		return
	}
	size := growth * (len(f.buf) - slack)
	if size > f.limit/2 {
		size = f.limit + 1
	}
	f.move(make([]byte, size+slack))
}

// mayGiveBack reports whether the buffer is large and has not been needed lately.
func (f *framer) mayGiveBack() bool {
	return len(f.buf) > largeBuffer+slack && f.smallLines >= giveBackAfter ||
		len(f.buf) > smallBuffer+slack && f.smallBytes >= len(f.buf)
}

// move puts what is not yet judged at the beginning of buf, and lets go of the
// buffer that it was in.
func (f *framer) move(buf []byte) {
	n := copy(buf, f.buf[f.start:f.end])
	f.buf = buf
	f.line.text = nil
	f.out, f.outEnd = 0, 0
	f.start, f.searched, f.end = 0, f.searched-f.start, n
}

// forward appends f.line to the lines that wait to be taken.
func (f *framer) forward() {
	if f.out == f.outEnd {
		f.out, f.outEnd = f.line.at, f.line.at
	}
	if f.outEnd < f.line.at {
		copy(f.buf[f.outEnd:], f.line.text)
	}
	f.outEnd += len(f.line.text)
}

// waiting returns the lines that wait to be taken, without the bytes behind them.
func (f *framer) waiting() []byte { return f.buf[f.out:f.outEnd:f.outEnd] }

// take removes the first n bytes of waiting.
func (f *framer) take(n int) { f.out += n }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// isTimeout reports whether a Timeout method anywhere in err's chain says so.
func isTimeout(err error) bool {
	if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return isTimeout(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if isTimeout(err) {
				return true
			}
		}
	}
	return false
}

// inject makes lines wait to be taken that did not come from r. It is for the end of
// input, when nothing waits any more: the buffer may have no slack after it.
func (f *framer) inject(lines []byte) {
	f.buf = append(f.buf[:0], lines...)
	n := len(f.buf)
	f.out, f.outEnd, f.start, f.searched, f.end = 0, n, n, n, n
}

// errNoWriter is what the Writer of a guard without one returns.
var errNoWriter = errors.New("stdioguard: New was given no writer")

// An output is where lines leave: the server's, and the guard's own answers.
// One lock keeps each whole. It is safe for concurrent use.
type output struct {
	w      io.Writer
	onFail func()

	mu     sync.Mutex
	failed atomic.Pointer[error] // the first failure; nothing follows a line that was cut short
}

// write writes p with one call.
func (o *output) write(p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.failure(); err != nil {
		return err
	}
	err := io.ErrShortWrite // should w panic
	defer func() {
		if err != nil {
			o.fail(err)
		}
	}()
	var n int
	if n, err = o.w.Write(p); err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	return err
}

func (o *output) fail(err error) {
	o.failed.Store(&err)
	o.onFail()
}

// failure returns the error of the write that failed, if one has.
func (o *output) failure() error {
	if err := o.failed.Load(); err != nil {
		return *err
	}
	return nil
}
