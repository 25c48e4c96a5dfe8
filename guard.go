// Package stdioguard guards JSON-RPC over stdio: one message per line, as the
// Model Context Protocol has it.
//
// A [Guard] stands between a server's standard streams and its SDK. Reading from
// it gives whole, valid JSON-RPC 2.0 messages and nothing else:
//
//	g := stdioguard.New(os.Stdin, os.Stdout)
//	err := server.Run(ctx, &mcp.IOTransport{Reader: g, Writer: g.Writer()})
//
// A byte order mark at the start of any line is stripped and a blank line is
// skipped. A line that is not JSON, not UTF-8, over the length or depth limit, or
// no JSON-RPC 2.0 message is dropped and answered with an error on the guard's
// writer, and the session goes on. Every other line is handed on byte for byte,
// without the whitespace around it.
package stdioguard

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/stdioguard/stdioguard/internal/jsonscan"
)

// A Guard reads lines and hands on those that are valid messages. It is an
// [io.ReadCloser] and an [io.WriterTo]; make one with [New].
//
// One goroutine at a time may call Read or WriteTo; all other methods may be
// called from any goroutine at any time.
type Guard struct {
	cfg  config
	in   framer
	scan *jsonscan.Scanner
	out  output
	wr   writer

	// Only Read and what it calls use these.
	rejecting bool   // in.line is bad, and still to be dealt with
	cause     error  // why it is
	answer    []byte // the last answer, kept for its memory
	flood     flood
	counts    Stats
	err       error // of a failed answer: what Read returns from now on

	closed atomic.Bool

	mu    sync.Mutex
	stats Stats // counts, as last published
}

// Stats counts what a guard has done. Lines = Blank + Forwarded + Rejected.
type Stats struct {
	Lines     int64 // lines read whole, and over-cap lines
	Blank     int64 // lines that held nothing, or only a BOM, spaces, tabs and CRs
	Forwarded int64 // lines handed on
	Rejected  int64 // lines dropped for a reason that a FrameError gives
	Answered  int64 // error answers written
	Withheld  int64 // answers that the flood rule held back: see Limits.Answers

	BytesIn        int64 // bytes read
	BytesDiscarded int64 // bytes of over-cap lines, and of a line that a read error broke off
}

// New returns a guard that reads from r and answers bad lines on w. With a nil w
// nothing is ever answered: that is for a client that reads a server's output.
// New panics on a nil r. It reads nothing and starts nothing.
func New(r io.Reader, w io.Writer, opts ...Option) *Guard {
	if r == nil {
		panic("stdioguard: New with a nil reader")
	}
	cfg := newConfig(opts)
	g := &Guard{
		cfg:   cfg,
		scan:  jsonscan.New(cfg.limits.Depth),
		out:   output{w: w},
		flood: flood{limit: cfg.limits.Answers},
	}
	g.in = framer{r: &source{g, r}, limit: cfg.limits.Line}
	g.wr.g = g
	return g
}

// Read reads messages, each with a newline after it, as a stream of bytes: p may
// be of any size. It reads from the underlying reader only while it has no
// message to hand over, and by the time it returns one, the answers to all bad
// lines before it have been written.
//
// A bad line is never an error here. An error of the underlying reader is
// returned, as it is, after every line read before it, and is returned from then
// on; one that is a timeout ([os.ErrDeadlineExceeded], a [net.Error] that says
// so) is returned once, and reading may go on. At [io.EOF] a last line without a
// newline is judged as if it had one; at any other error but a timeout it is
// dropped. A failure to write an answer ends Read with an error that wraps it,
// since the client is gone. After Close, Read returns io.EOF.
//
// Read returns 0, nil only for an empty p. It keeps no reference to p.
func (g *Guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := g.ready(len(p)); err != nil {
		return 0, err
	}
	n := copy(p, g.in.waiting())
	g.in.take(n)
	return n, nil
}

// WriteTo writes to w what Read would return, several whole lines a write where
// they came together, until Read would return an error. It returns that error,
// nil in place of io.EOF, or that of w. The bytes that w did not take are there
// for the next Read or WriteTo. w must not keep the slice it is given.
func (g *Guard) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		if err := g.ready(math.MaxInt); err != nil {
			if err == io.EOF {
				err = nil
			}
			return total, err
		}
		lines := g.in.waiting()
		n, err := w.Write(lines)
		if n < 0 || n > len(lines) {
			return total, fmt.Errorf("stdioguard: the writer returned an impossible count, %d for %d bytes", n, len(lines))
		}
		g.in.take(n)
		total += int64(n)
		if err == nil && n < len(lines) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// ready sees to it that a line waits to be taken, or returns why there will be none.
func (g *Guard) ready(want int) error {
	switch {
	case g.closed.Load():
		g.calm()
		return io.EOF
	case len(g.in.waiting()) > 0:
		return nil
	case g.err != nil:
		return g.err
	}
	err := g.advance(want)
	if err != nil && (g.err != nil || !isTimeout(err)) {
		g.calm()
	}
	g.publish()
	return err
}

// A source is the framer's reader: the guard's own, for as long as the guard is
// open.
type source struct {
	g *Guard
	r io.Reader
}

func (s *source) Read(p []byte) (int, error) {
	if s.g.closed.Load() {
		return 0, io.EOF
	}
	s.g.publish() // it may be long until there is more to tell
	return s.r.Read(p)
}

// advance judges lines: until one can be forwarded, and on from there as long as
// lines are at hand, good, and asked for. A bad line is dealt with when those
// before it have been taken, so that it delays none of them.
func (g *Guard) advance(want int) error {
	for {
		if g.rejecting {
			g.rejecting = false
			if g.err = g.reject(); g.err != nil {
				return g.err
			}
		}
		waiting := len(g.in.waiting())
		if waiting >= want {
			return nil
		}
		ok, err := g.in.next(waiting == 0)
		if !ok {
			return err
		}
		if g.closed.Load() {
			return io.EOF
		}
		if g.cause = g.judge(); g.cause == nil {
			g.in.forward()
			g.counts.Forwarded++
			g.calm()
			continue
		}
		g.rejecting = true
		if waiting > 0 {
			return nil
		}
	}
}

// judge returns what is wrong with the line that was read, or nil.
func (g *Guard) judge() error {
	line := &g.in.line
	if !line.tooLong {
		return judge(g.scan, line.text, g.cfg.anyJSON)
	}
	if g.cfg.recover {
		g.scan.Scan(line.text, envelope)
	}
	return ErrTooLong
}

// reject drops the line that was read: answers it, as far as the options and the
// flood rule allow, and tells who asked to be told. It returns the error of a
// failed answer.
func (g *Guard) reject() error {
	line := &g.in.line
	v := verdictOn(line, g.cause, g.scan, g.cfg.recover)
	g.counts.Rejected++
	answered, withheld, err := g.reply(&v)
	g.publish()
	if g.cfg.logger == nil && g.cfg.onReject == nil {
		return err
	}
	fe := v.frameError(line, g.scan, answered)
	if g.cfg.logger != nil && g.flood.admitRecord(withheld) {
		g.log(fe, line.text)
	}
	if g.cfg.onReject != nil {
		g.cfg.onReject(fe)
	}
	return err
}

// reply writes the answer that v asks for.
func (g *Guard) reply(v *verdict) (answered, withheld bool, err error) {
	if g.out.w == nil {
		return false, false, nil
	}
	g.answer = v.appendAnswer(g.answer[:0], g.cfg.answers)
	if len(g.answer) == 0 {
		return false, false, nil
	}
	if !g.flood.admit(len(g.answer)) {
		g.counts.Withheld++
		return false, true, nil
	}
	if err := g.out.write(g.answer); err != nil {
		return false, false, &answerError{g.in.line.number, err}
	}
	g.counts.Answered++
	return true, false, nil
}

// An answerError says which line's answer could not be written.
type answerError struct {
	line int64
	err  error
}

func (e *answerError) Error() string {
	return "stdioguard: answering line " + strconv.FormatInt(e.line, 10) + ": " + e.err.Error()
}

func (e *answerError) Unwrap() error { return e.err }

// calm ends a row of bad lines.
func (g *Guard) calm() {
	if g.flood.silent > 0 {
		g.cfg.logger.Warn("stdioguard: more bad lines were dropped",
			slog.Int64("lines", g.flood.silent), slog.Int64("answers_withheld", g.flood.withheld))
	}
	g.flood = flood{limit: g.flood.limit}
}

func (g *Guard) log(e *FrameError, text []byte) {
	const most = 120
	text = bytes.TrimSuffix(text, []byte("\n"))
	attrs := []slog.Attr{
		slog.String("error", e.Err.Error()),
		slog.Int64("line", e.Line), slog.Int64("offset", e.Offset), slog.Int64("size", e.Size),
		slog.Int("code", e.Code), slog.Bool("answered", e.Answered),
		slog.String("text", strconv.Quote(string(text[:min(len(text), most)]))),
	}
	if e.ID != nil {
		attrs = append(attrs, slog.String("id", string(e.ID)))
	}
	if e.Hint != "" {
		attrs = append(attrs, slog.String("hint", e.Hint))
	}
	g.cfg.logger.LogAttrs(context.Background(), slog.LevelWarn, "stdioguard: dropped a bad line", attrs...)
}

// A flood is the row of bad lines since a line was forwarded.
type flood struct {
	limit    int // of answers, and of records; negative: none
	answers  int
	bytes    int // of the answers
	withheld int64
	records  int
	silent   int64 // lines that got no record
}

// admit reports whether an answer of n bytes may still be written. Once one may
// not, none may.
func (f *flood) admit(n int) bool {
	if f.limit >= 0 && (f.withheld > 0 || f.answers == f.limit || f.bytes+n > answerBytes) {
		f.withheld++
		return false
	}
	f.answers++
	f.bytes += n
	return true
}

// admitRecord reports whether a line may still be logged.
func (f *flood) admitRecord(withheld bool) bool {
	if withheld || f.limit >= 0 && f.records == f.limit {
		f.silent++
		return false
	}
	f.records++
	return true
}

// Stats returns the counts so far. A line that is forwarded is counted no later
// than the Read that hands it over returns, a bad one when it is answered.
func (g *Guard) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stats
}

// publish makes the counts visible to Stats.
func (g *Guard) publish() {
	g.counts.Blank = g.in.blank
	g.counts.Lines = g.in.blank + g.counts.Forwarded + g.counts.Rejected
	g.counts.BytesIn = g.in.read
	g.counts.BytesDiscarded = g.in.discarded
	g.mu.Lock()
	g.stats = g.counts
	g.mu.Unlock()
}

// Close makes Read return io.EOF from now on. A Read that waits in the
// underlying reader returns when that does. Close closes neither the reader nor
// the writer; it always returns nil, and may be called more than once.
func (g *Guard) Close() error {
	g.closed.Store(true)
	return nil
}

// Writer returns the guard's output, the same each time. What is written to it
// goes to the underlying writer under the lock that the guard's own answers
// take, so that neither ends up within the other. It is safe for concurrent use.
func (g *Guard) Writer() io.WriteCloser { return &g.wr }

type writer struct {
	g      *Guard
	closed atomic.Bool
}

// Write writes p to the underlying writer with one call.
func (w *writer) Write(p []byte) (int, error) {
	if w.closed.Load() || w.g.closed.Load() {
		return 0, io.ErrClosedPipe
	}
	if w.g.out.w == nil {
		return 0, errNoWriter
	}
	if err := w.g.out.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close ends the server's output. The guard's own answers go on.
func (w *writer) Close() error {
	w.closed.Store(true)
	return nil
}
