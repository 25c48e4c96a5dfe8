package stdioguard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard"
)

const (
	bom  = "\ufeff"
	ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

	defaultLine = 16<<20 - 1
)

// errReset is the end of a stream that is no end of input.
var errReset = errors.New("connection reset")

// A shape is a way in which the same bytes can arrive.
type shape struct {
	name string
	most int // the longest input for which its pieces are not too small
	wrap func(io.Reader) io.Reader
}

const anySize = 1 << 30

var shapes = []shape{
	{"whole", anySize, func(r io.Reader) io.Reader { return r }},
	{"byte by byte", 4 << 20, iotest.OneByteReader},
	{"by halves", anySize, iotest.HalfReader},
	{"data with the error", anySize, iotest.DataErrReader},
	{"a timeout before each piece", 256 << 10, pausing(1)},
	{"three timeouts before each piece", 256 << 10, pausing(3)},
}

// pausing returns a reader of small pieces with so many timeouts before each.
// iotest.TimeoutReader does not do: its error has no Timeout method.
func pausing(times int) func(io.Reader) io.Reader {
	return func(r io.Reader) io.Reader { return &pauses{r: r, times: times} }
}

type pauses struct {
	r           io.Reader
	times, past int
}

func (p *pauses) Read(b []byte) (int, error) {
	if p.past < p.times {
		p.past++
		return 0, os.ErrDeadlineExceeded
	}
	p.past = 0
	return p.r.Read(b[:min(len(b), 7)])
}

// A script is a reader that takes one step a call: a string is data, an error
// an error, data an answer with both, a func what it returns. It ends in io.EOF.
type script struct {
	steps []any
	calls int
}

type dataErr struct {
	data string
	err  error
}

func steps(s ...any) *script { return &script{steps: s} }

func (s *script) Read(p []byte) (int, error) {
	s.calls++
	if len(s.steps) == 0 {
		return 0, io.EOF
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	switch step := step.(type) {
	case string:
		return s.data(p, step, nil)
	case error:
		return 0, step
	case dataErr:
		return s.data(p, step.data, step.err)
	case func(p []byte) (int, error):
		return step(p)
	case func():
		step()
		return s.Read(p)
	}
	panic(fmt.Sprintf("no such step: %T", step))
}

// data gives what fits of a step and puts the rest back.
func (s *script) data(p []byte, data string, err error) (int, error) {
	n := copy(p, data)
	if n == len(data) {
		return n, err
	}
	s.steps = slices.Insert(s.steps, 0, any(dataErr{data[n:], err}))
	return n, nil
}

// A fault is a FrameError with all that it says in fields that compare.
type fault struct {
	Line, Offset, Size int64
	Code               int
	ID                 string
	Answered           bool
	Err                error
}

var sentinels = []error{
	stdioguard.ErrSyntax, stdioguard.ErrUTF8, stdioguard.ErrTooLong,
	stdioguard.ErrTooDeep, stdioguard.ErrBatch, stdioguard.ErrNotMessage,
}

func faultOf(t testing.TB, e *stdioguard.FrameError) fault {
	t.Helper()
	f := fault{e.Line, e.Offset, e.Size, e.Code, string(e.ID), e.Answered, nil}
	for _, s := range sentinels {
		if errors.Is(e, s) {
			require.NoError(t, f.Err, "a second sentinel in %v", e)
			f.Err = s
		}
	}
	require.Error(t, f.Err, "no sentinel in %v", e)
	return f
}

// An outcome is everything that can be seen of a guard whose input has ended.
type outcome struct {
	out, answers string
	faults       []fault
	hints        []string
	stats        stdioguard.Stats
	err          error
	timeouts     int
}

// answerLog is the client's side: it insists that only whole lines arrive.
type answerLog struct {
	t testing.TB
	bytes.Buffer
}

func (a *answerLog) Write(p []byte) (int, error) {
	assert.True(a.t, bytes.HasSuffix(p, []byte("\n")), "an answer was written in pieces: %q", p)
	return a.Buffer.Write(p)
}

// drain reads r through a guard up to its end, going on after timeouts.
func drain(t testing.TB, r io.Reader, conf drawn) outcome {
	t.Helper()
	var got outcome
	w := &answerLog{t: t}
	onReject := stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) {
		got.faults = append(got.faults, faultOf(t, e))
		got.hints = append(got.hints, e.Hint)
	})
	g := stdioguard.New(r, w, append(conf.options(), onReject)...)
	got.out, got.timeouts, got.err = readAll(t, g)
	got.answers, got.stats = w.String(), g.Stats()
	return got
}

func readAll(t testing.TB, r io.Reader) (out string, timeouts int, err error) {
	t.Helper()
	var b bytes.Buffer
	p := make([]byte, 4096)
	for inRow := 0; ; {
		n, err := r.Read(p)
		b.Write(p[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			timeouts++
			inRow++
			require.Less(t, inRow, 5_000_000, "a timeout is sticky")
		case err != nil:
			return b.String(), timeouts, err
		default:
			require.NotZero(t, n, "Read returned 0, nil")
			inRow = 0
		}
	}
}

// A stream is an input of several lines and all that becomes of it.
type stream struct {
	name      string
	conf      drawn
	in        string
	out       string
	answers   string
	faults    []fault
	blank     int64
	withheld  int64
	discarded int64
}

// stats are the numbers that follow from the other fields.
func (s stream) stats() stdioguard.Stats {
	forwarded := int64(strings.Count(s.out, "\n"))
	rejected := int64(len(s.faults))
	return stdioguard.Stats{
		Lines:          s.blank + forwarded + rejected,
		Blank:          s.blank,
		Forwarded:      forwarded,
		Rejected:       rejected,
		Answered:       int64(strings.Count(s.answers, "\n")),
		Withheld:       s.withheld,
		BytesIn:        int64(len(s.in)),
		BytesDiscarded: s.discarded,
	}
}

func (s stream) check(t *testing.T, got outcome) {
	t.Helper()
	assert.Equal(t, io.EOF, got.err)
	assertSame(t, s.out, got.out, "forwarded")
	assertSame(t, s.answers, got.answers, "answered")
	assert.Equal(t, s.faults, got.faults)
	assert.Equal(t, s.stats(), got.stats)
}

// assertSame compares texts that may be too long to print.
func assertSame(t testing.TB, want, got, what string) {
	t.Helper()
	if len(want) <= 4<<10 && len(got) <= 4<<10 {
		assert.Equal(t, want, got, what)
		return
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	assert.True(t, want == got, "%s: %d bytes, want %d, first difference at %d", what, len(got), len(want), at)
}

// inEveryShape runs f once for each way in which in can arrive.
func inEveryShape(t *testing.T, in string, f func(t *testing.T, r io.Reader)) {
	t.Helper()
	for _, s := range shapes {
		if len(in) > s.most {
			continue
		}
		t.Run(s.name, func(t *testing.T) { f(t, s.wrap(strings.NewReader(in))) })
	}
}

func lineLimit(n int) drawn { return drawn{limits: stdioguard.Limits{Line: n}} }

func answerLimit(n int) drawn { return drawn{limits: stdioguard.Limits{Answers: n}} }

// messageOf returns a notification of exactly n bytes.
func messageOf(n int) string {
	const head, tail = `{"jsonrpc":"2.0","method":"m","params":["`, `"]}`
	return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
}

func parseError(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32700,"message":"Parse error"}}` + "\n"
}

func invalidRequest(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32600,"message":"Invalid Request"}}` + "\n"
}

// badSyntax, tooLong: the fault of a line that is answered with a null id.
func badSyntax(line, offset, size int64) fault {
	return fault{line, offset, size, -32700, "", true, stdioguard.ErrSyntax}
}

func tooLong(line, offset, limit int64) fault {
	return fault{line, offset, limit + 1, -32700, "", true, stdioguard.ErrTooLong}
}

// frameStreams is how bytes become lines.
var frameStreams = []stream{
	{name: "nothing at all is no line"},
	{name: "one newline is one blank line", in: "\n", blank: 1},
	{
		name: "space, tab and CR make blank lines, the unterminated one too",
		in:   " \n\t\r\n\r\n \t\r", blank: 4,
	},
	{
		name: "blank lines between messages vanish",
		in:   ping + "\n\n \r\n" + ping + "\n", out: ping + "\n" + ping + "\n", blank: 2,
	},
	{
		name: "surrounding space, tab and CR are taken off",
		in:   "\t \r" + ping + " \t\r\r\n", out: ping + "\n",
	},
	{
		name: "a last line without a newline gets one",
		in:   ping + "\n" + ping + "\r", out: ping + "\n" + ping + "\n",
	},
	{
		name: "a last line without a newline is answered like any other",
		in:   ping + "\n{bad", out: ping + "\n", answers: parseError("null"),
		faults: []fault{badSyntax(2, 41, 4)},
	},
	{
		name: "a byte order mark is stripped from any line",
		in:   bom + ping + "\n" + ping + "\n" + bom + ping + "\n" + bom + " " + ping,
		out:  strings.Repeat(ping+"\n", 4),
	},
	{
		name: "a byte order mark with nothing or whitespace after it is a blank line",
		in:   bom + "\n" + bom + " \t\r\n" + bom, blank: 3,
	},
	{
		name: "only one byte order mark is stripped, and only at the start",
		in:   bom + bom + ping + "\n " + bom + ping + "\n" + ping + bom + "\n",
		faults: []fault{
			badSyntax(1, 0, 46), badSyntax(2, 47, 44), badSyntax(3, 92, 43),
		},
		answers: strings.Repeat(parseError("null"), 3),
	},
	{
		name:   "a part of a byte order mark is garbage",
		in:     "\xef\n\xef\xbb\n\xef\xbb" + ping + "\n\xbb\xbf" + ping,
		faults: []fault{badSyntax(1, 0, 1), badSyntax(2, 2, 2), badSyntax(3, 5, 42), badSyntax(4, 48, 42)}, answers: strings.Repeat(parseError("null"), 4),
	},
	{
		name: "CR, U+2028, U+2029 and U+0085 do not end a line",
		in: ping + "\r" + ping + "\n" +
			ping + "\u2028" + ping + "\n" + ping + "\u2029" + ping + "\n" + ping + "\u0085" + ping + "\n",
		faults:  []fault{badSyntax(1, 0, 81), badSyntax(2, 82, 83), badSyntax(3, 166, 83), badSyntax(4, 250, 82)},
		answers: strings.Repeat(parseError("null"), 4),
	},
	{
		name: "U+2028, U+2029 and U+0085 in a string stay",
		in:   `{"jsonrpc":"2.0","method":"` + "\u2028\u2029\u0085" + `"}` + "\n",
		out:  `{"jsonrpc":"2.0","method":"` + "\u2028\u2029\u0085" + `"}` + "\n",
	},
	{
		name: "vertical tab, form feed and U+00A0 are no whitespace",
		in:   "\v\n\f\n\u00a0\n", answers: strings.Repeat(parseError("null"), 3),
		faults: []fault{badSyntax(1, 0, 1), badSyntax(2, 2, 1), badSyntax(3, 4, 2)},
	},
	{
		name: "a line of exactly the limit is fine",
		conf: lineLimit(50), in: messageOf(50) + "\n" + messageOf(50),
		out: messageOf(50) + "\n" + messageOf(50) + "\n",
	},
	{
		name: "a line of one byte more is not",
		conf: lineLimit(50), in: messageOf(51) + "\n" + messageOf(50) + "\n", out: messageOf(50) + "\n",
		answers: parseError("null"), faults: []fault{tooLong(1, 0, 50)}, discarded: 51,
	},
	{
		name: "a byte order mark counts towards the limit",
		conf: lineLimit(50), in: bom + messageOf(47) + "\n" + bom + messageOf(48) + "\n", out: messageOf(47) + "\n",
		answers: parseError("null"), faults: []fault{tooLong(2, 51, 50)}, discarded: 51,
	},
	{
		name: "whitespace counts towards the limit, a CR before the newline too",
		conf: lineLimit(50),
		in:   " " + messageOf(48) + "\r\n" + messageOf(50) + "\r\n " + messageOf(50) + "\n" + messageOf(50) + " \n",
		out:  messageOf(48) + "\n", answers: strings.Repeat(parseError("null"), 3),
		faults: []fault{tooLong(2, 51, 50), tooLong(3, 103, 50), tooLong(4, 155, 50)}, discarded: 153,
	},
	{
		name: "a blank line over the limit is over the limit",
		conf: lineLimit(5), in: "     \n      \n" + bom + "   \n", blank: 1,
		answers: strings.Repeat(parseError("null"), 2), faults: []fault{tooLong(2, 6, 5), tooLong(3, 13, 5)}, discarded: 12,
	},
	{
		name: "of a line far over the limit nothing is left, and it is answered once",
		conf: lineLimit(50), in: strings.Repeat("a", 200_000) + ping + "\n" + ping + "\n", out: ping + "\n",
		answers: parseError("null"), faults: []fault{tooLong(1, 0, 50)}, discarded: 200_040,
	},
	{
		name: "an unterminated line over the limit is answered once",
		conf: lineLimit(50), in: ping + "\n" + messageOf(51), out: ping + "\n",
		answers: parseError("null"), faults: []fault{tooLong(2, 41, 50)}, discarded: 51,
	},
	{
		name: "lines over the limit may follow each other",
		conf: lineLimit(1), in: "12\n\n3\n456\n78", blank: 1,
		answers: parseError("null") + invalidRequest("null") + strings.Repeat(parseError("null"), 2),
		faults: []fault{
			tooLong(1, 0, 1), {3, 4, 1, -32600, "", true, stdioguard.ErrNotMessage},
			tooLong(4, 6, 1), tooLong(5, 10, 1),
		},
		discarded: 7,
	},
}

func TestFraming(t *testing.T) {
	for _, s := range frameStreams {
		t.Run(s.name, func(t *testing.T) {
			inEveryShape(t, s.in, func(t *testing.T, r io.Reader) {
				s.check(t, drain(t, r, s.conf))
			})
		})
	}
}

// everyFeature has all that a careless framer trips over when it is split.
var everyFeature = stream{
	name: "every feature",
	conf: lineLimit(120),
	in: bom + ping + "\r\n" + bom + "\r\n" +
		`{"jsonrpc":"2.0","method":"\u00e9\\\"` + "é\u2028😀" + `\ud83d\ude00"}` + " \r\n" +
		"\xff\xfe\n" + strings.Repeat("€", 41) + "\r\n" +
		`{"jsonrpc":"2.0","id":-12,"result":[true,null,1.5e-3]}` + "\r\n\n" +
		bom + `{"jsonrpc":"2.0","id":"é","method":7}` + "\n" + bom + ping,
	out: ping + "\n" +
		`{"jsonrpc":"2.0","method":"\u00e9\\\"` + "é\u2028😀" + `\ud83d\ude00"}` + "\n" +
		`{"jsonrpc":"2.0","id":-12,"result":[true,null,1.5e-3]}` + "\n" + ping + "\n",
	answers: parseError("null") + parseError("null") + invalidRequest(`"é"`),
	faults: []fault{
		badSyntax(4, 113, 2), tooLong(5, 116, 120),
		{8, 298, 41, -32600, `"é"`, true, stdioguard.ErrNotMessage},
	},
	blank: 2, discarded: 124,
}

func TestSplitAtEveryByte(t *testing.T) {
	s := everyFeature
	for at := range len(s.in) + 1 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			s.check(t, drain(t, steps(s.in[:at], s.in[at:]), s.conf))
			paused := drain(t, steps(s.in[:at], os.ErrDeadlineExceeded, s.in[at:]), s.conf)
			s.check(t, paused)
			assert.Equal(t, 1, paused.timeouts)
		})
	}
}

// Every byte of the features comes to lie on each side of the places where
// buffers are likely to end, whatever the reader hands over in one call.
func TestEveryFeatureAtTheEndOfABuffer(t *testing.T) {
	features, _, _ := strings.Cut(everyFeature.in, strings.Repeat("€", 41))
	forwarded := strings.Join(strings.SplitAfterN(everyFeature.out, "\n", 3)[:2], "")
	for _, size := range []int{4 << 10, 32 << 10, 64 << 10, 1 << 20} {
		for at := range len(features) {
			filler := messageOf(size-1-at) + "\n"
			s := stream{
				in: filler + features, out: filler + forwarded, blank: 1, answers: parseError("null"),
				faults: []fault{badSyntax(5, int64(len(filler))+113, 2)},
			}
			s.check(t, drain(t, strings.NewReader(s.in), s.conf))
			if t.Failed() {
				t.Fatalf("byte %d of the features at byte %d", at, size)
			}
		}
	}
}

func TestLinesOfEverySizeAroundABuffer(t *testing.T) {
	for _, base := range []int{4 << 10, 64 << 10, 1 << 20} {
		for d := -2; d <= 2; d++ {
			line := messageOf(base+d) + "\n"
			s := stream{in: ping + "\n" + line + line + ping + "\n", out: ping + "\n" + line + line + ping + "\n"}
			t.Run(fmt.Sprint(base+d), func(t *testing.T) {
				inEveryShape(t, s.in, func(t *testing.T, r io.Reader) { s.check(t, drain(t, r, drawn{})) })
			})
		}
	}
}

func TestLinesAroundTheDefaultLimit(t *testing.T) {
	for d := -1; d <= 1; d++ {
		line := messageOf(defaultLine+d) + "\n"
		s := stream{in: line + line + ping, out: line + line + ping + "\n"}
		if d > 0 {
			s.out, s.answers = ping+"\n", strings.Repeat(parseError("null"), 2)
			s.faults = []fault{tooLong(1, 0, defaultLine), tooLong(2, int64(len(line)), defaultLine)}
			s.discarded = 2 * int64(defaultLine+d)
		}
		t.Run(fmt.Sprintf("limit%+d", d), func(t *testing.T) {
			inEveryShape(t, s.in, func(t *testing.T, r io.Reader) { s.check(t, drain(t, r, drawn{})) })
		})
	}
}

func TestALineOverTheLimitIsAnsweredBeforeItEnds(t *testing.T) {
	var w bytes.Buffer
	answersAre := func(want string) func() {
		return func() { assert.Equal(t, want, w.String()) }
	}
	r := steps(
		strings.Repeat("x", 50), answersAre(""),
		"x", answersAre(parseError("null")),
		strings.Repeat("x", 100_000), answersAre(parseError("null")),
		"\n"+ping+"\n", answersAre(parseError("null")),
	)
	g := stdioguard.New(r, &w, lineLimit(50).options()...)
	out, err := io.ReadAll(g)
	require.NoError(t, err)
	assert.Equal(t, ping+"\n", string(out))
	assert.Empty(t, r.steps)
	answersAre(parseError("null"))()
}

// endless is one line of n bytes; it looks at the heap when only the last
// byte is missing.
type endless struct {
	n       int
	atEnd   func()
	started bool
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	if e.n == 1 {
		e.atEnd()
	}
	n := min(len(p), max(1, e.n-1))
	for i := range p[:n] {
		p[i] = 'a'
	}
	if !e.started {
		copy(p, `{"jsonrpc":"2.0","id":1,"method":"`)
		e.started = true
	}
	e.n -= n
	return n, nil
}

// Not parallel: it measures the whole process.
func TestAnEndlessLineTakesConstantMemory(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name             string
		limit            int
		allocated, inUse uint64
		recovered        bool
	}{
		{name: "the default limit", limit: defaultLine, allocated: 24 * mib, inUse: 2 * mib},
		{name: "a limit of 1 MiB", limit: mib, allocated: 4 * mib, inUse: 2 * mib},
		{name: "a limit of 1 MiB, with ids recovered", limit: mib, allocated: 4 * mib, inUse: 2 * mib, recovered: true},
		{name: "a limit of 100 bytes", limit: 100, allocated: mib / 2, inUse: mib / 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, atEnd, after runtime.MemStats
			conf := lineLimit(tt.limit)
			conf.recovered = tt.recovered
			r := &endless{n: 128 * mib, atEnd: func() {
				runtime.ReadMemStats(&after)
				runtime.GC()
				runtime.ReadMemStats(&atEnd)
			}}
			runtime.GC()
			runtime.ReadMemStats(&before)
			g := stdioguard.New(r, io.Discard, conf.options()...)
			n, err := g.Read(make([]byte, 100))
			assert.Zero(t, n)
			assert.Equal(t, io.EOF, err)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, tt.allocated, "allocated over the line")
			assert.Less(t, int64(atEnd.HeapAlloc)-int64(before.HeapAlloc), int64(tt.inUse), "held at its end")
			assert.Equal(t, stdioguard.Stats{
				Lines: 1, Rejected: 1, Answered: 1, BytesIn: 128 * mib, BytesDiscarded: 128 * mib,
			}, g.Stats())
		})
	}
}

func TestMemoryIsGivenBackOnceSmallLinesFollow(t *testing.T) {
	const mib = 1 << 20
	var before, after runtime.MemStats
	// The long line comes byte for byte from a reader that holds none of it.
	long := io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","method":"`), &endless{n: 15 * mib, atEnd: func() {}, started: true}, strings.NewReader(`"}`+"\n"))
	small := strings.NewReader(strings.Repeat(ping+"\n", 100_000))
	done := func() { runtime.GC(); runtime.ReadMemStats(&after) }
	r := io.MultiReader(long, small, iotest.OneByteReader(steps(done)))
	runtime.GC()
	runtime.ReadMemStats(&before)
	g := stdioguard.New(r, io.Discard)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{g}, make([]byte, 32<<10))
	require.NoError(t, err)
	assert.EqualValues(t, 15*mib+30+100_000*len(ping+"\n"), n)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2*mib))
	runtime.KeepAlive(g)
}

// timeoutError is a net.Error's Timeout without the net.
type timeoutError bool

func (e timeoutError) Error() string { return fmt.Sprintf("timeout: %t", bool(e)) }
func (e timeoutError) Timeout() bool { return bool(e) }

func TestErrorsComeAfterWhatWasReadBeforeThem(t *testing.T) {
	half := ping[:20]
	tests := []struct {
		name      string
		r         *script
		out       string
		err       error
		discarded int64
		in        int
	}{
		{"io.EOF after whole lines", steps(ping+"\n"+ping+"\n", io.EOF), ping + "\n" + ping + "\n", io.EOF, 0, 82},
		{"io.EOF in one call with the lines", steps(dataErr{ping + "\n" + ping + "\n", io.EOF}), ping + "\n" + ping + "\n", io.EOF, 0, 82},
		{"io.EOF in one call with an unfinished line", steps(dataErr{ping, io.EOF}), ping + "\n", io.EOF, 0, 40},
		{"an error after whole lines", steps(ping+"\n", errReset), ping + "\n", errReset, 0, 41},
		{"an error in one call with whole lines", steps(dataErr{ping + "\n" + ping + "\n", errReset}), ping + "\n" + ping + "\n", errReset, 0, 82},
		{"an error after an unfinished line", steps(ping+"\n"+half, errReset), ping + "\n", errReset, 20, 61},
		{"an error in one call with an unfinished line", steps(dataErr{ping + "\n" + half, errReset}), ping + "\n", errReset, 20, 61},
		{"an error after a line that only lacks its newline", steps(ping, errReset), "", errReset, 40, 40},
		{"an error after unfinished whitespace", steps(ping+"\n \r", errReset), ping + "\n", errReset, 2, 43},
		{"an error at once", steps(errReset), "", errReset, 0, 0},
		{"io.ErrUnexpectedEOF is no end of input", steps(ping, io.ErrUnexpectedEOF), "", io.ErrUnexpectedEOF, 40, 40},
		{"an error whose Timeout is false is no timeout", steps(half, timeoutError(false)), "", timeoutError(false), 20, 20},
		{"an error after a timeout", steps(half, os.ErrDeadlineExceeded, errReset), "", errReset, 20, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &answerLog{t: t}
			g := stdioguard.New(tt.r, w, stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) {
				t.Errorf("an unfinished line was judged: %v", e)
			}))
			out, _, err := readAll(t, g)
			assert.Equal(t, tt.out, out)
			assert.ErrorIs(t, err, tt.err)
			assert.Empty(t, w.String())
			assert.EqualValues(t, tt.discarded, g.Stats().BytesDiscarded)
			assert.EqualValues(t, tt.in, g.Stats().BytesIn)
			assert.EqualValues(t, strings.Count(tt.out, "\n"), g.Stats().Lines)
			assertSticky(t, g, tt.err, tt.r)
		})
	}
}

// assertSticky checks that a guard stays ended and leaves its reader alone.
func assertSticky(t *testing.T, g *stdioguard.Guard, want error, r *script) {
	t.Helper()
	r.steps = []any{ping + "\n"}
	for range 3 {
		n, err := g.Read(make([]byte, 100))
		assert.Zero(t, n)
		assert.ErrorIs(t, err, want)
	}
	assert.Len(t, r.steps, 1, "r was read after its error")
}

func TestAnErrorWithinALineOverTheLimit(t *testing.T) {
	got := drain(t, steps(messageOf(51), os.ErrDeadlineExceeded, "more", errReset), lineLimit(50))
	assert.ErrorIs(t, got.err, errReset)
	assert.Equal(t, parseError("null"), got.answers)
	assert.Equal(t, []fault{tooLong(1, 0, 50)}, got.faults)
	assert.Equal(t, stdioguard.Stats{Lines: 1, Rejected: 1, Answered: 1, BytesIn: 55, BytesDiscarded: 55}, got.stats)
}

func TestTimeoutsArePassedOnAndReadingGoesOn(t *testing.T) {
	timeout := os.ErrDeadlineExceeded
	wrapped := fmt.Errorf("read stdin: %w", timeout)
	tests := []struct {
		name     string
		r        *script
		out      string
		timeouts int
	}{
		{"at once", steps(timeout, ping+"\n"), ping + "\n", 1},
		{"within a line", steps(ping[:9], timeout, ping[9:]+"\n"), ping + "\n", 1},
		{"twice within a line", steps(ping[:9], timeout, timeout, ping[9:]+"\n"), ping + "\n", 2},
		{"in one call with half a line", steps(dataErr{ping[:9], timeout}, ping[9:]+"\n"), ping + "\n", 1},
		{"in one call with whole lines", steps(dataErr{ping + "\n" + ping + "\n", timeout}, ping+"\n"), strings.Repeat(ping+"\n", 3), 1},
		{"between a line and its newline", steps(ping, timeout, "\n"), ping + "\n", 1},
		{"before the end of input", steps(ping, timeout), ping + "\n", 1},
		{"within a byte order mark", steps("\xef", timeout, "\xbb", timeout, "\xbf"+ping+"\n"), ping + "\n", 2},
		{"wrapped", steps(ping[:9], wrapped, ping[9:]+"\n"), ping + "\n", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := drain(t, tt.r, drawn{})
			assert.Equal(t, tt.out, got.out)
			assert.Equal(t, tt.timeouts, got.timeouts)
			assert.Equal(t, io.EOF, got.err)
			assert.Empty(t, got.faults)
			assert.Zero(t, got.stats.BytesDiscarded)
		})
	}
}

func TestATimeoutIsTheReadersOwnError(t *testing.T) {
	g := stdioguard.New(steps(ping[:9], timeoutError(true), ping[9:]+"\n"), io.Discard)
	p := make([]byte, 100)
	n, err := g.Read(p)
	assert.Zero(t, n)
	assert.ErrorIs(t, err, timeoutError(true))
	n, err = g.Read(p)
	assert.Equal(t, ping+"\n", string(p[:n]))
	assert.NoError(t, err)
}

func TestAReaderThatDoesNotKeepTheContract(t *testing.T) {
	nothing := func([]byte) (int, error) { return 0, nil }
	negative := func([]byte) (int, error) { return -1, nil }
	tooMany := func(p []byte) (int, error) { return len(p) + 1, nil }
	farTooMany := func([]byte) (int, error) { return int(^uint(0) >> 1), io.EOF }
	repeat := func(n int, s func([]byte) (int, error)) []any { return slices.Repeat([]any{s}, n) }

	t.Run("0, nil now and then is nothing", func(t *testing.T) {
		in := slices.Concat(repeat(10, nothing), []any{ping[:9]}, repeat(10, nothing), []any{ping[9:] + "\n"})
		got := drain(t, steps(in...), drawn{})
		assert.Equal(t, ping+"\n", got.out)
		assert.Equal(t, io.EOF, got.err)
	})
	tests := []struct {
		name string
		step func([]byte) (int, error)
		err  error
	}{
		{"0, nil for ever", nothing, io.ErrNoProgress},
		{"a negative count", negative, nil},
		{"a count past the buffer", tooMany, nil},
		{"the largest count, with io.EOF", farTooMany, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := steps(append([]any{ping + "\n" + ping[:9]}, repeat(100_000, tt.step)...)...)
			g := stdioguard.New(r, io.Discard)
			out, timeouts, err := readAll(t, g)
			assert.Equal(t, ping+"\n", out)
			assert.Zero(t, timeouts)
			assert.NotEqual(t, io.EOF, err)
			if tt.err != nil {
				assert.ErrorIs(t, err, tt.err)
			}
			assert.Equal(t, stdioguard.Stats{Lines: 1, Forwarded: 1, BytesIn: 50, BytesDiscarded: 9}, g.Stats())
			assertSticky(t, g, err, r)
		})
	}
}

func TestNewReadsNothing(t *testing.T) {
	r := steps(ping + "\n")
	g := stdioguard.New(r, io.Discard)
	g.Writer()
	g.Stats()
	assert.Zero(t, r.calls)
	assert.Panics(t, func() { stdioguard.New(nil, io.Discard) })
}

func TestAnEmptyReadTakesNothing(t *testing.T) {
	r := steps(ping+"\n", ping+"\n")
	g := stdioguard.New(r, io.Discard)
	for _, p := range [][]byte{nil, {}} {
		n, err := g.Read(p)
		assert.Zero(t, n)
		assert.NoError(t, err)
	}
	assert.Zero(t, r.calls)
	out, _, _ := readAll(t, g)
	assert.Equal(t, ping+"\n"+ping+"\n", out)
}

func TestReadGivesWhatItHasBeforeItReadsOn(t *testing.T) {
	for size := 1; size <= 90; size++ {
		var out bytes.Buffer
		delivered := func(want string) func() {
			return func() { assert.Equal(t, want, out.String()) }
		}
		r := steps(
			ping+"\n"+ping+"\nbad\n"+ping[:9],
			delivered(ping+"\n"+ping+"\n"),
			ping[9:]+"\n",
			delivered(ping+"\n"+ping+"\n"+ping+"\n"),
		)
		var answers bytes.Buffer
		g := stdioguard.New(r, &answers)
		p := make([]byte, size)
		for {
			n, err := g.Read(p)
			out.Write(p[:n])
			if err != nil {
				require.Equal(t, io.EOF, err)
				break
			}
			require.NotZero(t, n)
		}
		assert.Empty(t, r.steps)
		assert.Equal(t, parseError("null"), answers.String())
	}
}

func TestReadWritesNoFurtherThanItsSlice(t *testing.T) {
	g := stdioguard.New(strings.NewReader(ping+"\n"+ping+"\n"), io.Discard)
	p := bytes.Repeat([]byte{'-'}, 200)
	n, err := g.Read(p[:10])
	require.NoError(t, err)
	assert.Equal(t, ping[:n]+strings.Repeat("-", 200-n), string(p))
}

func TestAfterCloseThereIsOnlyEOF(t *testing.T) {
	tests := []struct {
		name string
		use  func(g *stdioguard.Guard)
	}{
		{"before the first Read", func(*stdioguard.Guard) {}},
		{"with half a line handed over", func(g *stdioguard.Guard) { _, _ = g.Read(make([]byte, 10)) }},
		{"with whole lines judged", func(g *stdioguard.Guard) { _, _ = g.Read(make([]byte, len(ping)+1)) }},
		{"after the end", func(g *stdioguard.Guard) { _, _ = io.ReadAll(g) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := steps(ping+"\n"+ping+"\n", errReset)
			g := stdioguard.New(r, io.Discard)
			tt.use(g)
			calls := r.calls
			assert.NoError(t, g.Close())
			for range 2 {
				n, err := g.Read(make([]byte, 100))
				assert.Zero(t, n)
				assert.Equal(t, io.EOF, err)
				m, err := g.WriteTo(io.Discard)
				assert.Zero(t, m)
				assert.NoError(t, err)
			}
			assert.NoError(t, g.Close())
			assert.Equal(t, calls, r.calls, "r was read after Close")
		})
	}
}

func TestCloseWhileTheReaderIsRead(t *testing.T) {
	for _, data := range []string{ping + "\n", "bad\n", ping} {
		var g *stdioguard.Guard
		var answers bytes.Buffer
		r := steps(func(p []byte) (int, error) { return copy(p, data), g.Close() })
		g = stdioguard.New(r, &answers)
		n, err := g.Read(make([]byte, 100))
		assert.Zero(t, n, "%q", data)
		assert.Equal(t, io.EOF, err, "%q", data)
		assert.Empty(t, answers.String(), "%q", data)
	}
}

// batches collects what WriteTo writes, one element a call.
type batches struct {
	writes []string
	err    error
}

func (b *batches) Write(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	b.writes = append(b.writes, string(p))
	return len(p), nil
}

func TestWriteTo(t *testing.T) {
	for _, s := range append(frameStreams, everyFeature) {
		t.Run(s.name, func(t *testing.T) {
			inEveryShape(t, s.in, func(t *testing.T, r io.Reader) {
				var got batches
				w := &answerLog{t: t}
				g := stdioguard.New(r, w, s.conf.options()...)
				total := int64(0)
				err := error(os.ErrDeadlineExceeded)
				for errors.Is(err, os.ErrDeadlineExceeded) {
					var n int64
					n, err = g.WriteTo(&got)
					total += n
				}
				assert.NoError(t, err)
				assert.EqualValues(t, len(s.out), total)
				assert.Equal(t, s.out, strings.Join(got.writes, ""))
				for _, b := range got.writes {
					assert.True(t, strings.HasSuffix(b, "\n"), "a write of no whole lines: %q", b)
				}
				assert.Equal(t, s.answers, w.String())
				assert.Equal(t, s.stats(), g.Stats())
			})
		})
	}
}

func TestWriteToWritesLinesInBatches(t *testing.T) {
	in := strings.Repeat(ping+"\n", 100)
	var got batches
	n, err := stdioguard.New(strings.NewReader(in), io.Discard).WriteTo(&got)
	require.NoError(t, err)
	assert.EqualValues(t, len(in), n)
	assert.Equal(t, in, strings.Join(got.writes, ""))
	assert.Less(t, len(got.writes), 10)
}

func TestWriteToDoesNotWaitForMoreThanItHas(t *testing.T) {
	var got batches
	r := steps(
		ping+"\n"+ping+"\n"+ping[:9],
		func() { assert.Equal(t, ping+"\n"+ping+"\n", strings.Join(got.writes, "")) },
		ping[9:]+"\n",
		func() { assert.Equal(t, strings.Repeat(ping+"\n", 3), strings.Join(got.writes, "")) },
	)
	_, err := stdioguard.New(r, io.Discard).WriteTo(&got)
	require.NoError(t, err)
	assert.Empty(t, r.steps)
}

func TestWriteToGoesOnWhereReadStopped(t *testing.T) {
	g := stdioguard.New(strings.NewReader(ping+"\n"+ping+"\n"), io.Discard)
	p := make([]byte, 10)
	n, err := g.Read(p)
	require.NoError(t, err)
	var rest bytes.Buffer
	_, err = g.WriteTo(&rest)
	require.NoError(t, err)
	assert.Equal(t, ping+"\n"+ping+"\n", string(p[:n])+rest.String())
}

func TestWriteToReturnsErrors(t *testing.T) {
	t.Run("of the reader, after what was read before", func(t *testing.T) {
		var got batches
		n, err := stdioguard.New(steps(dataErr{ping + "\n" + ping[:9], errReset}), io.Discard).WriteTo(&got)
		assert.ErrorIs(t, err, errReset)
		assert.EqualValues(t, len(ping)+1, n)
		assert.Equal(t, ping+"\n", strings.Join(got.writes, ""))
	})
	t.Run("of the writer", func(t *testing.T) {
		n, err := stdioguard.New(steps(ping+"\n"), io.Discard).WriteTo(&batches{err: errReset})
		assert.ErrorIs(t, err, errReset)
		assert.Zero(t, n)
	})
	t.Run("of a writer that takes less than it was given", func(t *testing.T) {
		_, err := stdioguard.New(steps(ping+"\n"), io.Discard).WriteTo(shortWriter{})
		assert.ErrorIs(t, err, io.ErrShortWrite)
	})
}

type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) - 1, nil }
