// Package stdioguard guards JSON-RPC over stdio: one message per line, as the
// Model Context Protocol has it.
//
// A [Guard] stands between a server's standard streams and its SDK. Reading from
// it gives whole, valid JSON-RPC 2.0 messages and nothing else:
//
//	g, err := stdioguard.Stdio()
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer g.Close()
//	err = server.Run(ctx, &mcp.IOTransport{Reader: g, Writer: g.Writer()})
//
// [Stdio] takes the process's standard streams for the protocol alone, so that what
// else is printed cannot get into it. [New] guards any other streams. [Run] is for
// SDKs that read os.Stdin and write os.Stdout themselves.
//
// A byte order mark at the start of any line is stripped and a blank line is
// skipped. A line that is not JSON, not UTF-8, over the length or depth limit, or
// no JSON-RPC 2.0 message is dropped and answered with an error on the guard's
// writer, and the session goes on. Every other line is handed on byte for byte,
// without the whitespace around it.
//
// What the server writes to [Guard.Writer] leaves as whole messages, one a line;
// anything else it writes goes to standard error. And the end of input is held
// back until the requests that were handed on have their responses, so that
// answers in the making are not lost.
package stdioguard

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stdioguard/stdioguard/internal/ids"
	"github.com/stdioguard/stdioguard/internal/jsonscan"
	"github.com/stdioguard/stdioguard/internal/stdfd"
)

// A Guard reads lines and hands on those that are valid messages. It is an
// [io.ReadCloser] and an [io.WriterTo]; make one with [Stdio] or [New].
//
// One goroutine at a time may call Read or WriteTo; all other methods may be
// called from any goroutine at any time.
type Guard struct {
	cfg      config
	src      source
	in       framer
	scan     *jsonscan.Scanner
	out      output
	wr       writer
	diverted diversion
	seeds    ids.Seeds
	streams  *stdfd.Streams // of Stdio; nil for New

	// Only Read and what it calls use these.
	rejecting bool   // in.line is bad, and still to be dealt with
	cause     error  // why it is
	answer    []byte // the last answer, kept for its memory
	flood     flood
	counts    Stats
	events    []event // of the lines that wait, not yet in pending and serverCalls
	err       error   // what Read returns from now on

	closed  atomic.Bool
	endedAt atomic.Pointer[time.Time] // when the input ended; nil while it has not
	written atomic.Int64              // messages of the server's
	wake    chan struct{}             // a Read that drains has to look again

	mu          sync.Mutex
	stats       Stats                  // counts, as last published
	pending     ids.Set                // the client's requests without a response
	serverCalls map[ids.Key]serverCall // the server's requests without a response
	called      int64                  // requests of the server so far
}

// An event is what a line from the client means for who waits for whom.
type event struct {
	kind kind
	key  ids.Key
}

// A serverCall is a request that the server has sent to the client.
type serverCall struct {
	id     []byte // as it was written
	isPing bool
	number int64
}

// Stats counts what a guard has done. Lines = Blank + Forwarded + Rejected.
type Stats struct {
	Lines     int64 // lines read whole, and over-cap lines
	Blank     int64 // lines that held nothing, or only a BOM, spaces, tabs and CRs
	Forwarded int64 // lines of the client's handed on
	Rejected  int64 // lines dropped for a reason that a FrameError gives
	Answered  int64 // error answers written
	Withheld  int64 // answers that the flood rule held back: see Limits.Answers

	BytesIn        int64 // bytes read
	BytesDiscarded int64 // bytes of over-cap lines, and of a line that a read error broke off

	Written       int64 // messages that the server wrote
	Diverted      int64 // bytes that it wrote and that are no message
	DiversionLost int64 // those of them that the diversion's writer did not get
	Pending       int   // requests handed on that have no response yet
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
		cfg:         cfg,
		scan:        jsonscan.New(cfg.limits.Depth),
		diverted:    diversion{w: cfg.divert},
		seeds:       ids.NewSeeds(),
		flood:       flood{limit: cfg.limits.Answers},
		wake:        make(chan struct{}, 1),
		serverCalls: make(map[ids.Key]serverCall),
	}
	g.src = source{g: g, r: r}
	g.in = framer{r: &g.src, limit: cfg.limits.Line}
	g.out = output{w: w, onFail: g.interrupt}
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
// since the client is gone. After Close, Read returns io.EOF. Where the guard's
// Writer was asked for, io.EOF may be held back, and responses that the guard makes up
// may come before it: see [Guard.Writer].
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
	if err == nil || g.err == nil && isTimeout(err) {
		g.publish()
		return err
	}
	g.calm()
	g.publish()
	if err == io.EOF {
		err = g.drain()
	}
	g.err = err
	return err
}

// A source is the framer's reader: the guard's own, until the guard is closed or
// told that the input has ended.
type source struct {
	g     *Guard
	r     io.Reader
	ended atomic.Bool
}

func (s *source) isEnded() bool { return s.ended.Load() || s.g.closed.Load() }

func (s *source) Read(p []byte) (int, error) {
	if s.isEnded() {
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
			// For good, even if it is a timeout: that of a read alone is not.
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
		var role role
		if role, g.cause = g.judge(); g.cause == nil {
			g.track(role) // before its bytes move
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

// judge returns what is wrong with the line that was read, or nil and its role.
func (g *Guard) judge() (role, error) {
	line := &g.in.line
	if !line.tooLong {
		return judge(g.scan, line.text, g.cfg.anyJSON)
	}
	if g.cfg.recover {
		g.scan.Scan(line.text, envelope)
	}
	return role{}, ErrTooLong
}

// reject drops the line that was read: answers it, as far as the options and the
// flood rule allow, and tells who asked to be told. It returns the error of a
// failed answer.
func (g *Guard) reject() error {
	line := &g.in.line
	v := verdictOn(line, g.cause, g.scan, g.cfg.recover)
	g.counts.Rejected++
	g.flood.lines++
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
	if g.flood.lines == 0 {
		return
	}
	if g.flood.silent > 0 { // so there is a logger
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
	limit    int   // of answers, and of records; negative: none
	lines    int64 // bad ones, so far
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
	s := g.stats
	s.Written = g.written.Load()
	s.Pending = g.pending.Len()
	s.Diverted, s.DiversionLost = g.diverted.counts()
	return s
}

// track notes what a line that is forwarded means for who waits for whom.
func (g *Guard) track(r role) {
	if r.kind == other || r.kind == listen || g.cfg.limits.Pending < 0 || !g.wr.asked.Load() {
		return
	}
	if key, ok := g.seeds.Key(r.id); ok {
		g.events = append(g.events, event{r.kind, key})
	}
}

// publish makes the counts visible to Stats, and to the Writer which requests the
// server is about to have: it is called before their lines can be taken.
func (g *Guard) publish() {
	g.counts.Blank = g.in.blank
	g.counts.Lines = g.in.blank + g.counts.Forwarded + g.counts.Rejected
	g.counts.BytesIn = g.in.read
	g.counts.BytesDiscarded = g.in.discarded
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stats = g.counts
	for _, e := range g.events {
		switch e.kind {
		case request, ping:
			if g.pending.Len() < g.cfg.limits.Pending {
				g.pending.Add(e.key)
			}
		case cancellation:
			g.pending.Remove(e.key)
		case response:
			delete(g.serverCalls, e.key)
		}
	}
	g.events = g.events[:0]
}

// serverSends is called before a message of the server is written: a request has
// to be known before its response can come.
func (g *Guard) serverSends(r role) {
	if r.kind != request && r.kind != ping {
		return
	}
	key, ok := g.seeds.Key(r.id)
	if !ok || len(r.id) > maxAnswerID {
		return
	}
	g.mu.Lock()
	if len(g.serverCalls) < g.cfg.limits.Pending {
		g.called++
		g.serverCalls[key] = serverCall{appendRepaired(make([]byte, 0, len(r.id)), r.id), r.kind == ping, g.called}
	}
	g.mu.Unlock()
	g.wakeUp()
}

// serverSent is called after a message of the server was written.
func (g *Guard) serverSent(r role) {
	key, ok := g.seeds.Key(r.id)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch r.kind {
	case cancellation:
		delete(g.serverCalls, key)
	case response:
		g.pending.Remove(key)
		if g.pending.Len() == 0 {
			g.wakeUp()
		}
	}
}

// isPending reports whether the client waits for a response with the id.
func (g *Guard) isPending(id []byte) bool {
	key, ok := g.seeds.Key(id)
	g.mu.Lock()
	defer g.mu.Unlock()
	return ok && g.pending.Has(key)
}

// drain holds back the end of input while the client waits for a response. It
// returns nil when there is a line for the server, else what ends Read.
func (g *Guard) drain() error {
	if !g.wr.asked.Load() || g.out.w == nil {
		return io.EOF
	}
	g.inputEnds()
	left := time.Until(g.endedAt.Load().Add(g.cfg.drain))
	if left <= 0 {
		return io.EOF // even if the server goes on asking the client
	}
	over := time.NewTimer(left)
	defer over.Stop()
	var look <-chan time.Time
	if g.streams != nil {
		t := time.NewTicker(hangUpInterval)
		defer t.Stop()
		look = t.C
	}
	for {
		if done, err := g.drained(); done {
			return err
		}
		select {
		case <-g.wake:
		case <-look:
			if err := g.streams.HungUp(); err != nil && !g.closed.Load() {
				return err
			}
		case <-over.C:
			return io.EOF
		}
	}
}

// hangUpInterval is how often a drain looks whether the client is still there.
const hangUpInterval = 50 * time.Millisecond

// drained reports whether the wait is over, and with what: nil where there are lines
// for the server.
func (g *Guard) drained() (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending.Len() == 0 || g.wr.isClosed() {
		return true, io.EOF
	}
	if err := g.out.failure(); err != nil {
		return true, err
	}
	return g.closeServerCalls(), nil
}

// closeServerCalls makes responses to the server's requests wait to be taken, and
// reports whether there are any. The client will not respond any more, and a handler
// that waits for it would never come to its own response. It needs g.mu.
func (g *Guard) closeServerCalls() bool {
	if len(g.serverCalls) == 0 {
		return false
	}
	open := slices.SortedFunc(maps.Values(g.serverCalls), func(a, b serverCall) int { return cmp.Compare(a.number, b.number) })
	clear(g.serverCalls)
	var lines []byte
	for _, r := range open {
		lines = appendClosed(lines, r.id, r.isPing)
	}
	g.in.inject(lines)
	return true
}

// wakeUp makes a Read that drains look again.
func (g *Guard) wakeUp() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// interrupt ends the wait of a Read, as far as that is in the guard's hands.
func (g *Guard) interrupt() {
	g.wakeUp()
	if g.streams != nil {
		g.streams.Wake()
	}
}

// CloseRead ends the input as if the underlying reader had. Whole lines that were
// read are handed over, one without a newline is judged as at the end of input,
// an error of the reader counts as its end. Then Read waits for answers and
// returns io.EOF. It is what a signal handler calls for a graceful end.
//
// A Read that waits in the underlying reader returns when that does. CloseRead
// does not wait, closes nothing, always returns nil, and may be called more than once.
func (g *Guard) CloseRead() error {
	g.inputEnds()
	g.src.ended.Store(true)
	g.interrupt()
	return nil
}

// inputEnds notes the time, from which the drain time counts.
func (g *Guard) inputEnds() {
	now := time.Now()
	g.endedAt.CompareAndSwap(nil, &now)
}

// Close makes Read return io.EOF from now on, also one that waits for answers, and
// makes the Writer's Write return [io.ErrClosedPipe]. A Read that waits in the
// underlying reader returns when that does. Close does not wait for a Write that is
// stuck; it gives the diversion a tenth of a second to be written. It closes neither
// the reader nor the writer, always returns nil, and may be called more than once.
func (g *Guard) Close() error {
	g.closed.Store(true)
	g.wr.Close()
	g.diverted.flush()
	if g.streams != nil {
		g.streams.Close()
	}
	return nil
}

// Writer returns what the server is to write to, the same value each time. Its
// Write takes bytes cut anywhere, from any goroutine. Each message in them, a JSON
// object with "jsonrpc":"2.0" or a batch of such (with [WithAnyJSON] any object or
// array), leaves as soon as it is whole: without the whitespace around it, with one
// newline, in one write of the underlying writer, and never within an answer of the
// guard's. A byte of a string that is not UTF-8 becomes U+FFFD. Messages that stand on
// one line come apart, and a message and its newline may come in two Writes.
//
// What cannot become a message is diverted as it comes, to standard error unless
// [WithDiversion] says otherwise. The beginning of a message is held until the rest
// comes, a newline ends it, or it reaches [Limits].Held bytes. From a line that has
// something else beside messages only a response leaves that the client waits for, so
// that a request or notification which is logged before it is sent is not sent twice.
//
// Write returns the first error of the underlying writer, from then on: nothing follows
// a line that was cut short. After Close of the Writer or of the guard it returns
// [io.ErrClosedPipe]. Close diverts what is held and ends Read's wait for answers; it
// closes nothing else, and the guard's own answers go on. With a nil underlying writer
// Write fails.
//
// From the first call of Writer on, which should come before the first Read, Read keeps
// count of the requests that it hands over.
// At the end of input it returns io.EOF once each of them has a response written
// through the Writer or was cancelled (notifications/cancelled), the drain time is over
// (see [WithDrain]), or the Writer is closed; a failed write ends the wait with its
// error. An open subscriptions/listen (MCP 2026-07-28) is not waited for. Ids are
// compared as SDKs that decode them do: strings without their escapes, numbers as
// float64. While it waits, Read hands the server a response to each request that the
// server has sent itself, as nobody else can any more: an error with code -32000 and
// message "Connection closed", or the result of a ping.
func (g *Guard) Writer() io.WriteCloser {
	g.wr.asked.Store(true)
	return &g.wr
}
