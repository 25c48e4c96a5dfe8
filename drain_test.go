package stdioguard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard"
)

func lines(all ...string) string {
	var b strings.Builder
	for _, l := range all {
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return b.String()
}

func cancelled(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

func calling(method, id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"}`
}

// connectionClosed and pong are what a server is told about its own requests.
func connectionClosed(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32000,"message":"Connection closed"}}`
}

func pong(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

// A lockedBuffer is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A reading is a way to read a guard to its end.
type reading struct {
	name string
	all  func(*stdioguard.Guard, io.Writer) error
}

var readings = []reading{
	{"by Read", func(g *stdioguard.Guard, to io.Writer) error {
		p := make([]byte, 50)
		for {
			n, err := g.Read(p)
			to.Write(p[:n])
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
		}
	}},
	{"byte by byte", func(g *stdioguard.Guard, to io.Writer) error {
		_, err := io.Copy(to, iotest.OneByteReader(g))
		if err == nil {
			err = io.EOF
		}
		return err
	}},
	{"by WriteTo", func(g *stdioguard.Guard, to io.Writer) error {
		_, err := g.WriteTo(to)
		if err == nil {
			err = io.EOF
		}
		return err
	}},
}

// A session is a server in a bubble that reads in a goroutine of its own.
type session struct {
	t       *testing.T
	guard   *stdioguard.Guard
	client  lockedBuffer // what the client got
	got     lockedBuffer // what the server got
	started time.Time
	done    chan struct{}
	err     error         // what ended the reading
	took    time.Duration // until then
}

// newSession is a guard with a Writer that nobody reads yet.
func newSession(t *testing.T, r io.Reader, opts ...stdioguard.Option) *session {
	s := &session{t: t, started: time.Now(), done: make(chan struct{})}
	s.guard = stdioguard.New(r, &s.client, append(opts, stdioguard.WithDiversion(nil))...)
	s.guard.Writer()
	return s
}

func (s *session) start(how reading) {
	go func() {
		defer close(s.done)
		s.err = how.all(s.guard, &s.got)
		s.took = time.Since(s.started)
	}()
	synctest.Wait()
}

func (s *session) write(all ...string) {
	s.t.Helper()
	for _, line := range all {
		_, err := s.guard.Writer().Write([]byte(line + "\n"))
		require.NoError(s.t, err)
	}
	synctest.Wait()
}

// waits insists that the server has not seen the end, when nothing is going on.
func (s *session) waits() {
	s.t.Helper()
	synctest.Wait()
	select {
	case <-s.done:
		require.Fail(s.t, "the input has ended", "with %v after %v", s.err, s.took)
	default:
	}
}

// ended insists that it has, so long after the start.
func (s *session) ended(want error, after time.Duration) {
	s.t.Helper()
	synctest.Wait()
	select {
	case <-s.done:
	default:
		s.guard.Close() // lets the bubble end
		require.Fail(s.t, "the input has not ended", "the server got %q", s.got.String())
	}
	require.ErrorIs(s.t, s.err, want)
	require.Equal(s.t, after, s.took)
	n, err := s.guard.Read(make([]byte, 1))
	require.Zero(s.t, n)
	require.ErrorIs(s.t, err, want, "sticky")
}

// inBubble runs f for every way to read.
func inBubble(t *testing.T, name string, f func(t *testing.T, how reading)) {
	t.Helper()
	for _, how := range readings {
		t.Run(name+"/"+how.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, how) })
		})
	}
}

const theDrain = 30 * time.Second // the default

// A settleRow is a client's input and a server's output, and whether something
// is waited for then.
type settleRow struct {
	name  string
	in    string
	out   []string
	waits bool

	anyJSON bool
	opts    []stdioguard.Option
}

var settleRows = []settleRow{
	{name: "nothing at all"},
	{name: "a request is waited for", in: lines(request("1")), waits: true},
	{name: "a request without its newline is waited for", in: request("1"), waits: true},
	{name: "a ping is waited for", in: lines(ping), waits: true},
	{name: "a response ends the wait", in: lines(request("1")), out: []string{response("1")}},
	{name: "an error response ends the wait", in: lines(request("1")), out: []string{errorWith(`{"code":-1,"message":"m"}`)}},
	{name: "another's response does not", in: lines(request("1")), out: []string{response("2")}, waits: true},
	{name: "an error response with a null id does not", in: lines(request("1")), out: []string{strings.TrimSpace(parseError("null"))}, waits: true},
	{name: "a notification does not", in: lines(request("1")), out: []string{note}, waits: true},
	{name: "an object with the id alone does not", in: lines(request("1")), out: []string{withID("1")}, waits: true},
	{name: "a response without the version does not", in: lines(request("1")), out: []string{`{"id":1,"result":1}`}, waits: true},
	{name: "a response in a string does not", in: lines(request("1")), out: []string{`{"jsonrpc":"2.0","method":"log","params":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}"}`}, waits: true},
	{name: "a response beside text does", in: lines(request("1")), out: []string{"text " + response("1")}},
	{name: "a response glued to another message does", in: lines(request("1")), out: []string{note + response("1")}},
	{name: "a response of odd shape does", in: lines(request("1")), out: []string{`{"jsonrpc":"2.0","result":null,"id":1,"extra":1}`}},
	{name: "one of two is answered", in: lines(request("1"), request("2")), out: []string{response("2")}, waits: true},
	{name: "two of two are answered", in: lines(request("1"), request("2")), out: []string{response("2"), response("1")}},
	{name: "a batch of responses settles each", in: lines(request("1"), request("2")), out: []string{"[" + response("2") + "," + response("1") + "]"}},
	{name: "a batch of one response leaves the other", in: lines(request("1"), request("2")), out: []string{"[" + response("2") + "]"}, waits: true},
	{name: "a batch beside text is diverted and settles nothing", in: lines(request("1")), out: []string{"x[" + response("1") + "]"}, waits: true},
	{name: "a batch with something else in it is diverted and settles nothing", in: lines(request("1")), out: []string{"[" + response("1") + ",{}]"}, waits: true},
	{name: "lines that close up over what was stripped are answered", in: bom + request("1") + " \t\r\n\n" + bom + request(`"b"`) + "  \n" + request("3") + "\n" + request("4") + "\n", out: []string{response("1"), response(`"b"`), response("3"), response("4")}},
	{name: "lines that close up over what was stripped are waited for", in: bom + request("1") + " \t\r\n\n" + bom + request(`"b"`) + "  \n" + request("3") + "\n", out: []string{response("1"), response("3")}, waits: true},
	{name: "a cancellation that closes up over what was stripped counts", in: request("1") + "   \n " + cancelled("1") + "\n"},
	{name: "an id twice is one id", in: lines(request("1"), request("1")), out: []string{response("1")}},
	{name: "a notification of the client's is not waited for", in: lines(note)},
	{name: "a response of the client's is not waited for", in: lines(response("1"))},
	{name: "a bad line is not waited for", in: lines(`{"jsonrpc":"2.0","id":1,"method":5}`, "{bad", `{"jsonrpc":"2.0","id":2,"method":"m","Method":"m"}`)},
	{name: "an open subscription is not waited for", in: lines(calling("subscriptions/listen", "1"))},
	{name: "an open subscription written with escapes is not waited for", in: lines(calling(`subscriptions\/l\u0069sten`, "1"))},
	{name: "beside an open subscription another request is", in: lines(calling("subscriptions/listen", "1"), request("2")), waits: true},
	{name: "a method that only looks like a subscription is", in: lines(calling("subscriptions/listen2", "1")), waits: true},
	{name: "a method in other letters is", in: lines(calling("Subscriptions/Listen", "1")), waits: true},
	{name: "the client cancels", in: lines(request("1"), cancelled("1"))},
	{name: "the client cancels one of two", in: lines(request("1"), request("2"), cancelled("1")), waits: true},
	{name: "the client cancels, and a response comes nevertheless", in: lines(request("1"), cancelled("1")), out: []string{response("1")}},
	{name: "the client cancels another's", in: lines(request("1"), cancelled("2")), waits: true},
	{name: "the client cancels with a reason", in: lines(request(`"a"`), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"why {","requestId":"a","_meta":{"requestId":"b"}}}`)},
	{name: "the client cancels in other words", in: lines(request("1"), `{ "params" : { "request\u0049d" : 1 } , "method" : "notifications\/cancelled" , "jsonrpc" : "2.0" }`)},
	{name: "the client cancels nothing", in: lines(request("1"), `{"jsonrpc":"2.0","method":"notifications/cancelled"}`), waits: true},
	{name: "the client cancels null", in: lines(request("1"), cancelled("null")), waits: true},
	{name: "the client cancels a value that is no id", in: lines(request("1"), cancelled("[1]"), cancelled("{}"), cancelled("true")), waits: true},
	{name: "the client cancels with params of a wrong kind", in: lines(request("1"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":1}`), waits: true},
	{name: "the client cancels too deep", in: lines(request("1"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"a":{"requestId":1}}}`), waits: true},
	{name: "the client cancels beside params", in: lines(request("1"), `{"jsonrpc":"2.0","method":"notifications/cancelled","requestId":1,"params":{}}`), waits: true},
	{name: "the client cancels before it asks", in: lines(cancelled("1"), request("1")), waits: true},
	{name: "the client asks again after it cancelled", in: lines(request("1"), cancelled("1"), request("1")), waits: true},
	{name: "another notification with a requestId", in: lines(request("1"), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"requestId":1}}`), waits: true},
	{name: "a request named like the cancellation cancels nothing", in: lines(request("1"), `{"jsonrpc":"2.0","id":2,"method":"notifications/cancelled","params":{"requestId":1}}`), out: []string{response("2")}, waits: true},
	{name: "the server cancels: that is about its own requests", in: lines(request("1")), out: []string{cancelled("1")}, waits: true},
	{name: "the client's response is about the server's own requests", in: lines(request("1"), response("1")), waits: true},
	{name: "with any JSON, a request is waited for", in: lines(request("1")), waits: true, anyJSON: true},
	{name: "with any JSON, a response ends the wait", in: lines(request("1")), out: []string{response("1")}, anyJSON: true},
	{name: "with any JSON, the members of a batch are not waited for", in: lines("[" + request("1") + "," + request("2") + "]"), anyJSON: true},
	{name: "with any JSON, other values are not waited for", in: lines("7", "{}", `{"id":1}`), anyJSON: true},
	{name: "with a negative Pending nothing is waited for", in: lines(request("1")), opts: pendingLimit(-1)},
	{name: "past Pending requests are not waited for", in: lines(request("1"), request("2"), request("3")), out: []string{response("1"), response("2")}, opts: pendingLimit(2)},
	{name: "up to Pending they are", in: lines(request("1"), request("2"), request("3")), out: []string{response("1"), response("3")}, opts: pendingLimit(2), waits: true},
	{name: "a request behind a blank line is waited for", in: lines(note, "", request("1")), waits: true},
	{name: "a request behind a line that ends in CR LF is answered", in: lines(note+"\r", request("12")+"\r"), out: []string{response("12")}},
	{name: "a request behind space and a byte order mark is waited for", in: lines(note, bom+"  "+request(`"a"`)), waits: true},
	{name: "the client cancels behind what was cut off", in: lines(request("12"), " "+cancelled("12"))},
	{name: "an id twice counts once", in: lines(request("1"), request("1"), request("2")), out: []string{response("1")}, opts: pendingLimit(2), waits: true},
}

func (row settleRow) options() []stdioguard.Option {
	if row.anyJSON {
		return append(row.opts, stdioguard.WithAnyJSON())
	}
	return row.opts
}

func pendingLimit(n int) []stdioguard.Option {
	return []stdioguard.Option{stdioguard.WithLimits(stdioguard.Limits{Pending: n})}
}

// check runs a row with the output written before the end of input and after it.
func (row settleRow) check(t *testing.T) {
	t.Helper()
	var handed string
	ref := judgeSlowly(t, []byte(row.in), drawn{anyJSON: row.anyJSON})
	handed, _, _ = ref.upTo(theWholeInput)
	finish := func(t *testing.T, s *session) {
		t.Helper()
		if row.waits {
			s.waits()
			time.Sleep(theDrain)
			s.ended(io.EOF, theDrain)
		} else {
			s.ended(io.EOF, 0)
		}
		assert.Equal(t, handed, s.got.String())
	}
	inBubble(t, row.name+"/written before the end", func(t *testing.T, how reading) {
		r := steps(row.in)
		s := newSession(t, r, row.options()...)
		r.steps = append(r.steps, func() {
			for _, line := range row.out {
				_, err := s.guard.Writer().Write([]byte(line + "\n"))
				assert.NoError(t, err)
			}
		})
		s.start(how)
		finish(t, s)
	})
	inBubble(t, row.name+"/written while Read waits", func(t *testing.T, how reading) {
		s := newSession(t, strings.NewReader(row.in), row.options()...)
		s.start(how)
		if len(row.out) > 0 {
			s.write(row.out...)
		}
		finish(t, s)
	})
}

func TestWhatTheEndOfInputWaitsFor(t *testing.T) {
	for _, row := range settleRows {
		row.check(t)
	}
}

// sameIDs are pairs of ids: the client's, and one that a server sends back.
var sameIDs = []struct {
	name, asked, told string
	same              bool
}{
	{"the same number", "1", "1", true},
	{"a number with a point", "1", "1.0", true},
	{"a number with an exponent", "10", "1e1", true},
	{"a number with another exponent", "1", "100E-2", true},
	{"a number with more digits than a float64 has", "1", "1.00000000000000000001", true},
	{"a number that is a little larger", "1", "1.000000000000001", false},
	{"another number", "1", "2", false},
	{"another sign", "1", "-1", false},
	{"minus zero for zero", "0", "-0", true},
	{"zero for minus zero", "-0", "0", true},
	{"zero with a point for minus zero", "-0", "0.0", true},
	{"zero with an exponent", "0", "-0e5", true},
	{"2^53+1 rounded", "9007199254740993", "9007199254740992", true},
	{"2^53+1 as it was", "9007199254740993", "9007199254740993", true},
	{"2^53+1 in a float's form", "9007199254740993", "9.007199254740992e+15", true},
	{"2^53+1 and the next float64", "9007199254740993", "9007199254740994", false},
	{"the largest int64 rounded", "9223372036854775807", "9223372036854775808", true},
	{"the smallest int64", "-9223372036854775808", "-9223372036854775808", true},
	{"a number that is too large", "1", "1e400", false},
	{"a string for a number", "1", `"1"`, false},
	{"a number for a string", `"1"`, "1", false},
	{"null for a number", "1", "null", false},
	{"the same string", `"a"`, `"a"`, true},
	{"another string", `"a"`, `"b"`, false},
	{"another case", `"a"`, `"A"`, false},
	{"a longer string", `"a"`, `"ab"`, false},
	{"a string with space", `"a"`, `" a"`, false},
	{"the empty string", `""`, `""`, true},
	{"the empty string for another", `"a"`, `""`, false},
	{"a string without its escape", `"\u0061"`, `"a"`, true},
	{"a string with an escape", `"a"`, `"\u0061"`, true},
	{"short escapes", `"\/\n\"\\"`, `"/\u000a\u0022\u005C"`, true},
	{"a pair of surrogates decoded", `"\ud83d\ude00"`, `"😀"`, true},
	{"a pair of surrogates for a rune", `"😀"`, `"\uD83D\uDE00"`, true},
	{"a lone surrogate as U+FFFD", `"\ud800"`, "\"\ufffd\"", true},
	{"a lone surrogate as an escape of U+FFFD", `"\ud800"`, `"\ufffd"`, true},
	{"another lone surrogate", `"\ud800"`, `"\udc00"`, true},
	{"two lone surrogates for one", `"\ud800"`, `"\ud800\ud800"`, false},
	{"a lone surrogate before a letter", `"\ud800a"`, "\"\ufffda\"", true},
	{"NUL", `"\u0000"`, `"\u0000"`, true},
	{"NUL for nothing", `"\u0000"`, `""`, false},
	{"a long string", quoted(100 << 10), quoted(100 << 10), true},
	{"a long string but one byte", quoted(100 << 10), quoted(100<<10 - 1), false},
}

func TestIDsThatMatch(t *testing.T) {
	for _, tt := range sameIDs {
		settleRow{
			name: tt.name + " in a response", in: lines(request(tt.asked)),
			out: []string{response(tt.told)}, waits: !tt.same,
		}.check(t)
		settleRow{name: tt.name + " in a cancellation", in: lines(request(tt.asked), cancelled(tt.told)), waits: !tt.same}.check(t)
		settleRow{
			name: tt.name + " in a batch", in: lines(request(tt.asked)),
			out: []string{"[" + response(tt.told) + "]"}, waits: !tt.same,
		}.check(t)
	}
	settleRow{name: "bytes that are no UTF-8 for a lone surrogate", in: lines(request(`"\ud800"`)), out: []string{response("\"\xff\"")}}.check(t)
}

// An ownRow is about the server's own requests: what it sent, what the client
// sent after that, and what the server is told at the end.
type ownRow struct {
	name string
	out  []string
	in   string
	told []string
	opts []stdioguard.Option
}

var ownRows = []ownRow{
	{name: "a request", out: []string{request("9")}, told: []string{connectionClosed("9")}},
	{name: "a request without params or with", out: []string{`{"method":"sampling/createMessage","params":{"id":7},"id":"s","jsonrpc":"2.0"}`}, told: []string{connectionClosed(`"s"`)}},
	{name: "requests in their order", out: []string{request("9"), request(`"b"`), request("3")}, told: []string{connectionClosed("9"), connectionClosed(`"b"`), connectionClosed("3")}},
	{name: "a ping", out: []string{calling("ping", "9")}, told: []string{pong("9")}},
	{name: "a ping written with an escape", out: []string{calling(`p\u0069ng`, "9")}, told: []string{pong("9")}},
	{name: "what is no ping", out: []string{calling("pings", "9"), calling("Ping", "8"), calling("", "7")}, told: []string{connectionClosed("9"), connectionClosed("8"), connectionClosed("7")}},
	{name: "pings between requests", out: []string{request("1"), calling("ping", "2"), request("3")}, told: []string{connectionClosed("1"), pong("2"), connectionClosed("3")}},
	{name: "ids as they were written", out: []string{request("-0"), request("9007199254740993"), request(`"\u0061\ud800"`), request(`""`)}, told: []string{connectionClosed("-0"), connectionClosed("9007199254740993"), connectionClosed(`"\u0061\ud800"`), connectionClosed(`""`)}},
	{name: "an id with bytes that are no UTF-8 as it left", out: []string{request("\"\xff\"")}, told: []string{connectionClosed("\"\ufffd\"")}},
	{name: "an id of 1024 bytes", out: []string{request(quoted(1024))}, told: []string{connectionClosed(quoted(1024))}},
	{name: "an id of 1025 bytes is not tracked", out: []string{request(quoted(1025))}},
	{name: "the requests of a batch", out: []string{"[" + request("8") + "," + note + "," + calling("ping", "9") + "]"}, told: []string{connectionClosed("8"), pong("9")}},
	{name: "no notification", out: []string{note}},
	{name: "no request with a null id", out: []string{request("null")}},
	{name: "no response", out: []string{response("9")}},
	{name: "no request in text", out: []string{"text " + request("9")}},
	{name: "a request glued to another message", out: []string{note + request("9")}, told: []string{connectionClosed("9")}},
	{name: "an id twice is one id", out: []string{request("9"), request("9")}, told: []string{connectionClosed("9")}},
	{name: "the client answered", out: []string{request("9")}, in: lines(response("9"))},
	{name: "the client answered behind what was cut off", out: []string{request("12")}, in: lines(note, " "+response("12"))},
	{name: "the client answered with an error", out: []string{request("1")}, in: lines(errorWith(`{"code":-1,"message":"m"}`))},
	{name: "the client answered one of two", out: []string{request("8"), request("9")}, in: lines(response("8")), told: []string{connectionClosed("9")}},
	{name: "the client answered in another spelling", out: []string{request(`"a"`), request("-0"), request("9007199254740993")}, in: lines(response(`"\u0061"`), response("0"), response("9007199254740992"))},
	{name: "the client answered something else", out: []string{request("9")}, in: lines(response(`"9"`), response("99")), told: []string{connectionClosed("9")}},
	{name: "the client answered with a bad line", out: []string{request("9")}, in: lines(`{"jsonrpc":"2.0","id":9,"result":1,"error":1}`, `{"jsonrpc":"2.0","id":9,"result":`), told: []string{connectionClosed("9")}},
	{name: "the client cancels: that is about its own", out: []string{request("9")}, in: lines(cancelled("9")), told: []string{connectionClosed("9")}},
	{name: "the server cancelled", out: []string{request("9"), cancelled("9")}},
	{name: "the server cancelled one of two", out: []string{request("8"), request("9"), cancelled("8")}, told: []string{connectionClosed("9")}},
	{name: "the server cancelled in another spelling", out: []string{request(`"a"`), cancelled(`"\u0061"`)}},
	{name: "the server cancelled another's", out: []string{request("9"), cancelled("8")}, told: []string{connectionClosed("9")}},
	{name: "the server cancelled in text", out: []string{request("9"), "x" + cancelled("9")}, told: []string{connectionClosed("9")}},
	{name: "the server asked again after it cancelled", out: []string{request("9"), cancelled("9"), request("9")}, told: []string{connectionClosed("9")}},
	{name: "the server's own response does not settle its request", out: []string{request("9"), response("9")}, told: []string{connectionClosed("9")}},
	{name: "with any JSON", out: []string{request("9")}, told: []string{connectionClosed("9")}, opts: []stdioguard.Option{stdioguard.WithAnyJSON()}},
	{name: "with a negative Pending none is tracked", out: []string{request("9"), calling("ping", "8")}, opts: pendingLimit(-1)},
	{name: "past Pending none is tracked", out: []string{request("7"), request("8"), request("9")}, told: []string{connectionClosed("7"), connectionClosed("8")}, opts: pendingLimit(2)},
	{name: "one that is settled makes room", out: []string{request("7"), cancelled("7"), request("8"), request("9")}, told: []string{connectionClosed("8"), connectionClosed("9")}, opts: pendingLimit(2)},
}

func TestWhatAServerIsToldOfItsOwnRequests(t *testing.T) {
	for _, row := range ownRows {
		handed, _, _ := judgeSlowly(t, []byte(row.in), drawn{}).upTo(theWholeInput)
		inBubble(t, row.name+"/sent before the end", func(t *testing.T, how reading) {
			r := steps(lines(request("77")), func() {}, row.in)
			s := newSession(t, r, row.opts...)
			r.steps[1] = func() {
				for _, line := range row.out {
					_, err := s.guard.Writer().Write([]byte(line + "\n"))
					assert.NoError(t, err)
				}
			}
			s.start(how)
			assert.Equal(t, lines(request("77"))+handed+lines(row.told...), s.got.String(), "before it waits")
			s.write(response("77"))
			s.ended(io.EOF, 0)
			assert.Equal(t, lines(request("77"))+handed+lines(row.told...), s.got.String(), "nothing more at the end")
			stats := s.guard.Stats()
			assert.Equal(t, stats.Lines, stats.Blank+stats.Forwarded+stats.Rejected)
			assert.EqualValues(t, 1+strings.Count(handed, "\n"), stats.Forwarded, "what the guard says is no line of the client's")
		})
		alone := len(row.told) == len(row.out) || len(row.told) == 0 && len(row.out) == 1
		if row.in != "" || row.opts != nil || !alone {
			continue // the input is at its end, and what settles a request comes too late
		}
		inBubble(t, row.name+"/sent while Read waits", func(t *testing.T, how reading) {
			s := newSession(t, strings.NewReader(lines(request("77"))))
			s.start(how)
			s.write(row.out...)
			s.waits()
			assert.Equal(t, lines(request("77"))+lines(row.told...), s.got.String())
			s.write(response("77"))
			s.ended(io.EOF, 0)
			assert.Equal(t, lines(request("77"))+lines(row.told...), s.got.String(), "nothing more at the end")
		})
	}
}

// A handler that waits for the client is told, and then answers the call that
// it works on.
func TestAHandlerThatWaitsForTheClientIsTold(t *testing.T) {
	inBubble(t, "before and during the wait", func(t *testing.T, how reading) {
		r := steps(lines(request("1")))
		s := newSession(t, r)
		r.steps = append(r.steps, func() { io.WriteString(s.guard.Writer(), request("50")+"\n") })
		s.start(how)
		s.waits()
		want := lines(request("1"), connectionClosed("50"))
		assert.Equal(t, want, s.got.String())
		time.Sleep(time.Second)
		s.write(request("51"))
		want += lines(connectionClosed("51"))
		assert.Equal(t, want, s.got.String())
		s.write(calling("ping", "52"), request("51"))
		want += lines(pong("52"), connectionClosed("51"))
		assert.Equal(t, want, s.got.String())
		s.waits()
		s.write(response("1"))
		s.ended(io.EOF, time.Second)
		assert.Equal(t, want, s.got.String())
		assert.Equal(t, lines(request("50"), request("51"), calling("ping", "52"), request("51"), response("1")), s.client.String(), "all that it wrote has left")
	})
}

// The client may have answered before the write of the request has returned.
func TestAnAnswerThatIsQuickerThanTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, client := io.Pipe()
		var got lockedBuffer
		g := stdioguard.New(in, writerFunc(func(p []byte) (int, error) {
			io.WriteString(client, lines(response("9")))
			synctest.Wait() // until Read asks for more
			assert.Equal(t, lines(response("9")), got.String())
			return len(p), nil
		}))
		g.Writer()
		done := make(chan error, 1)
		go func() { done <- readings[0].all(g, &got) }()
		_, err := io.WriteString(g.Writer(), request("9")+"\n")
		require.NoError(t, err)
		client.Close()
		assert.Equal(t, io.EOF, <-done)
		assert.Equal(t, lines(response("9")), got.String(), "its request is settled")
	})
}

func TestHowLongTheEndOfInputWaits(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []stdioguard.Option
		want time.Duration
	}{
		{"by default", nil, 30 * time.Second},
		{"with a longer drain", []stdioguard.Option{stdioguard.WithDrain(time.Hour)}, time.Hour},
		{"with a short drain", []stdioguard.Option{stdioguard.WithDrain(time.Millisecond)}, time.Millisecond},
		{"with none", []stdioguard.Option{stdioguard.WithDrain(0)}, 0},
		{"with the last drain that is given", []stdioguard.Option{stdioguard.WithDrain(0), stdioguard.WithDrain(time.Second)}, time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T, how reading) {
			in, client := io.Pipe()
			s := newSession(t, in, tt.opts...)
			s.start(how)
			io.WriteString(client, lines(request("1"), request("2")))
			time.Sleep(time.Hour) // before the end it does not count
			s.waits()
			client.Close()
			if tt.want > 0 {
				time.Sleep(tt.want / 2)
				s.waits()
				s.write(response("1")) // that gives no more time
				time.Sleep(tt.want - tt.want/2)
			}
			s.ended(io.EOF, time.Hour+tt.want)
			s.write(response("2"))
			assert.Equal(t, lines(request("1"), request("2")), s.got.String())
			if tt.want > 0 {
				assert.Equal(t, lines(response("1"), response("2")), s.client.String(), "a late answer may still be written")
			}
		})
	}
}

func TestADrainOrABeginningCannotBeNegative(t *testing.T) {
	assert.Panics(t, func() { stdioguard.WithDrain(-1) })
	assert.Panics(t, func() { newWith(stdioguard.Limits{Held: -1}) })
	assert.NotPanics(t, func() { newWith(stdioguard.Limits{Pending: -1, Held: 1}) })
}

func TestWithoutAWriterNothingIsTrackedAndNothingWaitedFor(t *testing.T) {
	for _, how := range readings {
		t.Run(how.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got bytes.Buffer
				start := time.Now()
				g := stdioguard.New(strings.NewReader(lines(request("1"), request("2"))), io.Discard)
				assert.Equal(t, io.EOF, how.all(g, &got))
				assert.Equal(t, lines(request("1"), request("2")), got.String())
				assert.Zero(t, time.Since(start))
				assert.Zero(t, g.Stats().Pending)
			})
		})
	}
}

// Only requests that Read hands over after the first call of Writer are tracked.
func TestTrackingBeginsWithTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := stdioguard.New(steps(lines(request("1")), lines(request("2"))), io.Discard)
		_, err := io.ReadFull(g, make([]byte, len(lines(request("1")))))
		require.NoError(t, err)
		w := g.Writer()
		assert.Zero(t, g.Stats().Pending)
		_, err = io.ReadFull(g, make([]byte, len(lines(request("2")))))
		require.NoError(t, err)
		assert.Equal(t, 1, g.Stats().Pending)
		_, err = io.WriteString(w, lines(response("2")))
		require.NoError(t, err)
		start := time.Now()
		_, err = g.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		assert.Zero(t, time.Since(start))
	})
}

func TestStatsSayWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, client := io.Pipe()
		s := newSession(t, in)
		s.start(readings[0])
		for _, tt := range []struct {
			name, in, out string
			want          int
		}{
			{"a request", request("1"), "", 1},
			{"another", request(`"1"`), "", 2},
			{"the first again, in another spelling", request("1"), "", 2},
			{"a notification", note, "", 2},
			{"a response of the client's", response("1"), "", 2},
			{"a response", "", response("1.0"), 1},
			{"the response again", "", response("1"), 1},
			{"the id used again", request("1"), "", 2},
			{"a cancellation", cancelled(`"1"`), "", 1},
			{"a request of the server's", "", request("1"), 1},
			{"the last response", "", response("1"), 0},
		} {
			if tt.in != "" {
				io.WriteString(client, tt.in+"\n")
				synctest.Wait()
			} else {
				s.write(tt.out)
			}
			assert.Equal(t, tt.want, s.guard.Stats().Pending, tt.name)
		}
		client.Close()
		s.ended(io.EOF, 0)
	})
}

// Whole sessions of ids of every length take the memory of hashes alone, and all
// up to the limit are waited for.
func TestAsManyAsTheLimitArePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 65536
		var in strings.Builder
		for i := range limit + 10 {
			in.WriteString(lines(request(fmt.Sprint(i))))
		}
		s := newSession(t, strings.NewReader(in.String()))
		s.start(readings[2])
		assert.Equal(t, limit, s.guard.Stats().Pending)
		for i := range limit {
			_, err := io.WriteString(s.guard.Writer(), response(fmt.Sprint(i))+"\n")
			require.NoError(t, err)
		}
		s.ended(io.EOF, 0)
	})
}

func TestAnErrorOfTheReaderWaitsForNothing(t *testing.T) {
	inBubble(t, "with a request and one of the server's own", func(t *testing.T, how reading) {
		r := steps(lines(request("1")) + request("2"))
		s := newSession(t, r)
		r.steps = append(r.steps, func() { io.WriteString(s.guard.Writer(), lines(request("9"))) }, errReset)
		s.start(how)
		s.ended(errReset, 0)
		assert.Equal(t, lines(request("1")), s.got.String(), "neither the unfinished line nor anything about 9")
		assert.EqualValues(t, len(request("2")), s.guard.Stats().BytesDiscarded)
		assert.Equal(t, 1, s.guard.Stats().Pending)
	})
}

func TestATimeoutIsNoEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t, steps(lines(request("1")), os.ErrDeadlineExceeded, lines(request("2")), os.ErrDeadlineExceeded))
		s.start(readings[0])
		s.write(response("2"))
		s.waits()
		s.write(response("1"))
		s.ended(io.EOF, 0)
	})
}

// What ends a wait besides answers and the drain's time.
func TestWhatEndsTheWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(g *stdioguard.Guard) error
		want error
	}{
		{"the writer is closed", func(g *stdioguard.Guard) error { return g.Writer().Close() }, io.EOF},
		{"the guard is closed", (*stdioguard.Guard).Close, io.EOF},
	} {
		inBubble(t, tt.name+"/while Read waits", func(t *testing.T, how reading) {
			s := newSession(t, strings.NewReader(lines(request("1"))))
			s.start(how)
			s.waits()
			time.Sleep(time.Second)
			require.NoError(t, tt.end(s.guard))
			s.ended(tt.want, time.Second)
			require.NoError(t, tt.end(s.guard), "twice")
		})
		inBubble(t, tt.name+"/before the end", func(t *testing.T, how reading) {
			r := steps(lines(request("1")))
			s := newSession(t, r)
			r.steps = append(r.steps, func() { require.NoError(t, tt.end(s.guard)) })
			s.start(how)
			s.ended(tt.want, 0)
			assert.Equal(t, lines(request("1")), s.got.String())
		})
	}
}

// hangsUp fails from the n-th Write on.
type hangsUp struct{ writes, from int }

func (h *hangsUp) Write(p []byte) (int, error) {
	h.writes++
	if h.writes >= h.from {
		return 0, errHungUp
	}
	return len(p), nil
}

// typescript-sdk#1564: the client hangs up after a request. A server that reads
// and one that writes both learn of it.
func TestAClientThatHangsUp(t *testing.T) {
	start := func(t *testing.T, how reading, from int) (*session, *hangsUp) {
		w := &hangsUp{from: from}
		s := &session{t: t, started: time.Now(), done: make(chan struct{})}
		s.guard = stdioguard.New(strings.NewReader(lines(request("1"), request("2"))), w, stdioguard.WithDiversion(nil))
		s.guard.Writer()
		return s, w
	}
	inBubble(t, "while Read waits", func(t *testing.T, how reading) {
		s, w := start(t, how, 2)
		s.start(how)
		s.write(response("1"))
		s.waits()
		for range 3 {
			_, err := io.WriteString(s.guard.Writer(), lines(response("2")))
			assert.ErrorIs(t, err, errHungUp)
		}
		s.ended(errHungUp, 0)
		assert.Equal(t, 2, w.writes)
		assert.Equal(t, 1, s.guard.Stats().Pending, "what was not written settles nothing")
		assert.NoError(t, s.guard.Close())
	})
	inBubble(t, "before the end, with requests unanswered", func(t *testing.T, how reading) {
		s, _ := start(t, how, 1)
		_, err := io.WriteString(s.guard.Writer(), lines(note))
		require.ErrorIs(t, err, errHungUp)
		s.start(how)
		s.ended(errHungUp, 0)
	})
}

// A gate lets Writes through one by one.
type gate struct {
	enter chan struct{}
	buf   lockedBuffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.enter
	return g.buf.Write(p)
}

func gatedSession(t *testing.T, r io.Reader) (*session, *gate) {
	w := &gate{enter: make(chan struct{})}
	s := &session{t: t, started: time.Now(), done: make(chan struct{})}
	s.guard = stdioguard.New(r, w, stdioguard.WithDiversion(nil))
	s.guard.Writer()
	return s, w
}

// A request is settled when its response has been written, not before.
func TestAResponseSettlesOnceItsWriteHasReturned(t *testing.T) {
	inBubble(t, "one of two", func(t *testing.T, how reading) {
		s, w := gatedSession(t, strings.NewReader(lines(request("1"), request("2"))))
		s.start(how)
		go io.WriteString(s.guard.Writer(), lines(response("1"), response("2")))
		s.waits()
		assert.Equal(t, 2, s.guard.Stats().Pending)
		w.enter <- struct{}{}
		s.waits()
		assert.Equal(t, 1, s.guard.Stats().Pending)
		time.Sleep(time.Second)
		w.enter <- struct{}{}
		s.ended(io.EOF, time.Second)
		assert.Equal(t, lines(response("1"), response("2")), w.buf.String())
	})
}

// While a Write is stuck in the client's stream, everything else goes on.
func TestAWriteThatIsStuck(t *testing.T) {
	stuck := func(t *testing.T, how reading, r io.Reader) *session {
		s, w := gatedSession(t, r)
		t.Cleanup(func() { close(w.enter) })
		s.start(how)
		go io.WriteString(s.guard.Writer(), lines(response("1")))
		synctest.Wait()
		return s
	}
	inBubble(t, "Close returns and wakes Read", func(t *testing.T, how reading) {
		s := stuck(t, how, strings.NewReader(lines(request("1"))))
		s.waits()
		assert.Equal(t, 1, s.guard.Stats().Pending)
		require.NoError(t, s.guard.CloseRead())
		s.waits()
		require.NoError(t, s.guard.Close())
		s.ended(io.EOF, 0)
		assert.EqualValues(t, 1, s.guard.Stats().Forwarded)
	})
	inBubble(t, "the drain runs out", func(t *testing.T, how reading) {
		s := stuck(t, how, strings.NewReader(lines(request("1"))))
		time.Sleep(theDrain)
		s.ended(io.EOF, theDrain)
	})
	inBubble(t, "Read hands over what the client sends", func(t *testing.T, how reading) {
		in, client := io.Pipe()
		s := stuck(t, how, in)
		for _, line := range []string{request("1"), cancelled("1"), response("5"), request("2")} {
			io.WriteString(client, line+"\n")
		}
		synctest.Wait()
		assert.Equal(t, lines(request("1"), cancelled("1"), response("5"), request("2")), s.got.String())
		require.NoError(t, s.guard.Close())
		client.Close()
		s.ended(io.EOF, 0)
	})
}

// After Close a Write returns, also where one before it is stuck. A mutex is no
// place where a bubble knows that somebody waits, so this test has none.
func TestAWriteAfterCloseDoesNotQueueBehindOneThatIsStuck(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	g := stdioguard.New(strings.NewReader(""), writerFunc(func(p []byte) (int, error) {
		close(entered)
		<-release
		return len(p), nil
	}), stdioguard.WithDiversion(nil))
	go io.WriteString(g.Writer(), lines(note))
	<-entered
	require.NoError(t, g.Close())
	after := make(chan error)
	go func() {
		_, err := io.WriteString(g.Writer(), lines(note))
		after <- err
	}()
	select {
	case err := <-after:
		assert.Equal(t, io.ErrClosedPipe, err)
	case <-time.After(10 * time.Second):
		t.Error("it queues")
	}
}

// A closeRow is a moment for CloseRead: the input up to it, in steps, where a
// timeout is a moment at which Read returns, and what follows.
type closeRow struct {
	name    string
	in      []any
	before  string // handed over before CloseRead
	after   string // handed over after it
	answers string
	limits  stdioguard.Limits
}

var closeRows = []closeRow{
	{name: "before anything was read", in: nil},
	{name: "between lines", in: []any{pingLine}, before: pingLine},
	{name: "before lines that were read", in: []any{pingLine + lines(note, note)}, before: pingLine, after: lines(note, note)},
	{name: "within a line that Read hands over", in: []any{pingLine + lines(note)}, before: pingLine[:9], after: pingLine[9:] + lines(note)},
	{name: "before bad lines that were read", in: []any{pingLine + "x\n\n" + lines(note) + "y\n"}, before: pingLine, after: lines(note), answers: parseError("null") + parseError("null")},
	{name: "before an unfinished line that was read", in: []any{pingLine + note}, before: pingLine, after: lines(note)},
	{name: "before an unfinished line that is bad", in: []any{pingLine + note[:9]}, before: pingLine, answers: parseError("null")},
	{name: "before an unfinished blank line", in: []any{pingLine + bom + " \r"}, before: pingLine},
	{name: "before half a byte order mark", in: []any{pingLine + bom[:2]}, before: pingLine, answers: parseError("null")},
	{name: "within a line that goes on", in: []any{pingLine + note, os.ErrDeadlineExceeded}, before: pingLine, after: lines(note)},
	{name: "within a bad line that goes on", in: []any{pingLine + "x", os.ErrDeadlineExceeded}, before: pingLine, answers: parseError("null")},
	{name: "within a line over the limit", in: []any{pingLine + strings.Repeat("x", 50), os.ErrDeadlineExceeded}, before: pingLine, answers: parseError("null"), limits: stdioguard.Limits{Line: 45}},
}

func TestCloseReadAtEveryMoment(t *testing.T) {
	for _, row := range closeRows {
		inBubble(t, row.name, func(t *testing.T, how reading) {
			r := steps(append(row.in, "never read\n")...)
			s := newSession(t, r, stdioguard.WithLimits(row.limits))
			_, err := io.ReadFull(s.guard, make([]byte, len(row.before)))
			require.NoError(t, err)
			if len(row.in) > 1 {
				_, err = s.guard.Read(make([]byte, 1))
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}
			require.NoError(t, s.guard.CloseRead())
			require.NoError(t, s.guard.CloseRead(), "twice")
			s.start(how)
			if strings.Contains(row.before+row.after, pingLine) {
				s.waits()
				require.Equal(t, row.after, s.got.String())
				time.Sleep(time.Second)
				s.write(response("1"))
				s.ended(io.EOF, time.Second)
			} else {
				s.ended(io.EOF, 0)
			}
			assert.Equal(t, row.after, s.got.String())
			assert.Equal(t, row.answers, strings.TrimSuffix(s.client.String(), lines(response("1"))))
			assert.Equal(t, len(row.in), r.calls, "nothing is read after CloseRead")
		})
	}
}

func TestCloseReadWithinTheReader(t *testing.T) {
	inBubble(t, "that then fails", func(t *testing.T, how reading) {
		in, client := io.Pipe()
		s := newSession(t, in)
		s.start(how)
		io.WriteString(client, lines(request("1"))+note)
		require.NoError(t, s.guard.CloseRead())
		s.waits()
		time.Sleep(time.Second)
		client.CloseWithError(os.ErrClosed) // as a signal handler closes its stdin
		s.waits()
		assert.Equal(t, lines(request("1"), note), s.got.String(), "an error of the reader's counts as its end")
		s.write(response("1"))
		s.ended(io.EOF, time.Second)
	})
	inBubble(t, "that then ends", func(t *testing.T, how reading) {
		in, client := io.Pipe()
		s := newSession(t, in)
		s.start(how)
		require.NoError(t, s.guard.CloseRead())
		client.Close()
		s.ended(io.EOF, 0)
	})
	inBubble(t, "that then times out", func(t *testing.T, how reading) {
		in, client := io.Pipe()
		s := newSession(t, in)
		s.start(how)
		io.WriteString(client, note)
		require.NoError(t, s.guard.CloseRead())
		client.CloseWithError(os.ErrDeadlineExceeded) // a way to make a Read return
		s.ended(io.EOF, 0)
		assert.Equal(t, lines(note), s.got.String())
	})
}

// An error that came with data, and was not returned yet, counts as the end too.
func TestCloseReadBeforeAnErrorThatWasRead(t *testing.T) {
	inBubble(t, "with whole lines", func(t *testing.T, how reading) {
		s := newSession(t, steps(dataErr{lines(note, note), errReset}))
		_, err := io.ReadFull(s.guard, make([]byte, len(note)+1))
		require.NoError(t, err)
		require.NoError(t, s.guard.CloseRead())
		s.start(how)
		s.ended(io.EOF, 0)
		assert.Equal(t, lines(note), s.got.String())
	})
	inBubble(t, "with an unfinished line", func(t *testing.T, how reading) {
		s := newSession(t, steps(dataErr{lines(note) + note, errReset}))
		_, err := io.ReadFull(s.guard, make([]byte, len(note)+1))
		require.NoError(t, err)
		require.NoError(t, s.guard.CloseRead())
		s.start(how)
		s.ended(io.EOF, 0)
		assert.Equal(t, lines(note), s.got.String())
		assert.Zero(t, s.guard.Stats().BytesDiscarded)
	})
}

func TestCloseReadAtTheEndOfInput(t *testing.T) {
	inBubble(t, "while Read waits changes nothing", func(t *testing.T, how reading) {
		s := newSession(t, strings.NewReader(lines(request("1"))))
		s.start(how)
		time.Sleep(10 * time.Second)
		require.NoError(t, s.guard.CloseRead())
		s.waits()
		time.Sleep(20 * time.Second)
		s.ended(io.EOF, theDrain)
	})
	inBubble(t, "starts the wait's time", func(t *testing.T, how reading) {
		r := steps(lines(request("1")))
		s := newSession(t, r)
		_, err := io.ReadFull(s.guard, make([]byte, len(lines(request("1")))))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, s.guard.CloseRead())
		s.start(how)
		s.waits()
		time.Sleep(theDrain)
		s.ended(io.EOF, time.Hour+theDrain)
	})
	inBubble(t, "after the end changes nothing", func(t *testing.T, how reading) {
		s := newSession(t, strings.NewReader(""))
		s.start(how)
		s.ended(io.EOF, 0)
		require.NoError(t, s.guard.CloseRead())
		s.ended(io.EOF, 0)
		s.write(note)
		assert.Equal(t, lines(note), s.client.String(), "the output is not closed")
	})
	inBubble(t, "tells the server of its own requests", func(t *testing.T, how reading) {
		s := newSession(t, steps(lines(request("1"))+ping[:9]))
		_, err := io.ReadFull(s.guard, make([]byte, len(lines(request("1")))))
		require.NoError(t, err)
		s.write(request("9"))
		require.NoError(t, s.guard.CloseRead())
		s.start(how)
		assert.Equal(t, lines(connectionClosed("9")), s.got.String())
		s.write(response("1"))
		s.ended(io.EOF, 0)
	})
	inBubble(t, "without a Writer ends the input at once", func(t *testing.T, how reading) {
		var got bytes.Buffer
		g := stdioguard.New(steps(lines(request("1"))+note, "never read\n"), io.Discard)
		_, err := io.ReadFull(g, make([]byte, 9))
		require.NoError(t, err)
		require.NoError(t, g.CloseRead())
		assert.Equal(t, io.EOF, how.all(g, &got))
		assert.Equal(t, lines(request("1"))[9:]+lines(note), got.String())
	})
}

// A RejectFunc may end the input, and so may what writes.
func TestCloseReadFromWithin(t *testing.T) {
	inBubble(t, "a RejectFunc", func(t *testing.T, how reading) {
		var s *session
		s = newSession(t, steps("x\n"+lines(note), "never read\n"), stdioguard.WithRejectFunc(func(*stdioguard.FrameError) {
			assert.NoError(t, s.guard.CloseRead())
		}))
		s.start(how)
		s.ended(io.EOF, 0)
		assert.Equal(t, lines(note), s.got.String())
	})
	inBubble(t, "the client's writer", func(t *testing.T, how reading) {
		var g *stdioguard.Guard
		var got lockedBuffer
		g = stdioguard.New(steps("x\n"+lines(note), "never read\n"), writerFunc(func(p []byte) (int, error) {
			assert.NoError(t, g.CloseRead())
			return len(p), nil
		}))
		g.Writer()
		assert.Equal(t, io.EOF, how.all(g, &got))
		assert.Equal(t, lines(note), got.String())
	})
}

func TestCloseAtEveryMoment(t *testing.T) {
	for _, row := range closeRows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := steps(append(row.in, "never read\n")...)
				s := newSession(t, r, stdioguard.WithLimits(row.limits))
				_, err := io.ReadFull(s.guard, make([]byte, len(row.before)))
				require.NoError(t, err)
				require.NoError(t, s.guard.Close())
				require.NoError(t, s.guard.Close(), "twice")
				require.NoError(t, s.guard.CloseRead())
				s.start(readings[0])
				s.ended(io.EOF, 0)
				assert.Empty(t, s.got.String(), "whatever was read is gone")
				_, err = s.guard.Writer().Write([]byte(note + "\n"))
				assert.Equal(t, io.ErrClosedPipe, err)
			})
		})
	}
	inBubble(t, "within the reader", func(t *testing.T, how reading) {
		in, client := io.Pipe()
		s := newSession(t, in)
		s.start(how)
		io.WriteString(client, lines(request("1")))
		synctest.Wait() // until the line has been handed over
		require.NoError(t, s.guard.Close())
		s.waits() // the reader is the caller's
		client.CloseWithError(os.ErrClosed)
		s.ended(io.EOF, 0)
		assert.Equal(t, lines(request("1")), s.got.String())
	})
}

// Like those moments, one after each byte that the reader brings: CloseRead makes
// that the input, and Close hands over no more than had been.
func TestClosingAfterEveryByte(t *testing.T) {
	in := lines(request("1"), "x", "", request("2")+"\r") + bom + lines(note, "\xff", cancelled("2")) + "{"
	for at := range len(in) + 1 {
		all := judgeSlowly(t, []byte(in[:at]), drawn{})
		for _, row := range []struct {
			name  string
			close func(*stdioguard.Guard) error
			read  int  // bytes of the input that count
			waits bool // for a response
		}{
			{"CloseRead", (*stdioguard.Guard).CloseRead, theWholeInput, true},
			{"CloseRead and the writer's Close", func(g *stdioguard.Guard) error { return errors.Join(g.CloseRead(), g.Writer().Close()) }, theWholeInput, false},
			{"Close", (*stdioguard.Guard).Close, at, false},
		} {
			out, answers, _ := all.upTo(row.read)
			inBubble(t, fmt.Sprintf("byte %d/%s", at, row.name), func(t *testing.T, how reading) {
				var s *session
				s = newSession(t, steps(in[:at], func([]byte) (int, error) { return 0, errors.Join(errReset, row.close(s.guard)) }, "never read\n"))
				s.start(how)
				client := answers
				if row.waits && strings.Contains(out, request("1")) {
					s.waits()
					s.write(response("2"), response("1"))
					client += lines(response("2"), response("1"))
				}
				s.ended(io.EOF, 0)
				require.Equal(t, out, s.got.String())
				require.Equal(t, client, s.client.String())
			})
			if t.Failed() {
				return
			}
		}
	}
}

// An answer that is stuck in the client's stream holds up its Read, and nobody else.
func TestAnAnswerThatIsStuck(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(g *stdioguard.Guard) error
		got  string // by the server, once the stream goes on
	}{
		{"Stats", func(g *stdioguard.Guard) error { g.Stats(); return nil }, lines(note)},
		{"CloseRead", (*stdioguard.Guard).CloseRead, lines(note)},
		{"the writer's Close", func(g *stdioguard.Guard) error { return g.Writer().Close() }, lines(note)},
		{"Close", (*stdioguard.Guard).Close, ""},
		{"text of the server's", func(g *stdioguard.Guard) error { _, err := io.WriteString(g.Writer(), "text\n"); return err }, lines(note)},
		{"half a message", func(g *stdioguard.Guard) error { _, err := io.WriteString(g.Writer(), note[:9]); return err }, lines(note)},
	} {
		inBubble(t, tt.name, func(t *testing.T, how reading) {
			s, w := gatedSession(t, strings.NewReader(lines("x", note)))
			s.start(how)
			require.NoError(t, tt.do(s.guard))
			require.Zero(t, s.guard.Stats().Answered)
			s.waits()
			require.Empty(t, s.got.String())
			time.Sleep(time.Hour)
			w.enter <- struct{}{}
			s.ended(io.EOF, time.Hour)
			require.Equal(t, tt.got, s.got.String())
			require.Equal(t, parseError("null"), w.buf.String(), "once")
			require.EqualValues(t, 1, s.guard.Stats().Answered)
		})
	}
}

// An answering is a server that answers every request that it reads.
func answering(g *stdioguard.Guard) (read, answered int, err error) {
	var all bytes.Buffer
	var answers sync.WaitGroup
	p := make([]byte, 300)
	var count sync.Mutex
	for {
		n, err := g.Read(p)
		all.Write(p[:n])
		for {
			line, e := all.ReadString('\n')
			if e != nil {
				all.WriteString(line)
				break
			}
			var id int
			if _, e := fmt.Sscanf(line, `{"jsonrpc":"2.0","id":%d,`, &id); e != nil {
				return read, answered, fmt.Errorf("read %q", line)
			}
			read++
			answers.Go(func() {
				if _, e := io.WriteString(g.Writer(), response(fmt.Sprint(id))+"\n"); e == nil {
					count.Lock()
					answered++
					count.Unlock()
				}
			})
		}
		if err != nil {
			answers.Wait()
			return read, answered, err
		}
	}
}

// From any goroutine, at any time: after CloseRead every request that was read
// is answered, and after Close the reading ends.
func TestClosingFromAnotherGoroutine(t *testing.T) {
	var in []byte
	for i := range 100 {
		in = append(in, lines(request(fmt.Sprint(i)))...)
		if i%10 == 0 {
			in = append(in, "x\n"...)
		}
	}
	for _, tt := range []struct {
		name  string
		close func(*stdioguard.Guard) error
	}{
		{"CloseRead", (*stdioguard.Guard).CloseRead},
		{"Close", (*stdioguard.Guard).Close},
		{"the writer's Close and CloseRead", func(g *stdioguard.Guard) error { return errors.Join(g.Writer().Close(), g.CloseRead()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for round := range 60 {
				var client bytes.Buffer // guarded by the guard's lock alone
				g := stdioguard.New(&endlessReader{data: in}, &client)
				g.Writer()
				var others sync.WaitGroup
				for range 2 {
					others.Go(func() {
						for g.Stats().Forwarded < int64(10*round) {
							runtime.Gosched()
						}
						assert.NoError(t, tt.close(g))
						s := g.Stats()
						assert.GreaterOrEqual(t, s.Lines, s.Forwarded)
					})
				}
				read, answered, err := answering(g)
				require.Equal(t, io.EOF, err)
				others.Wait()
				if tt.name == "CloseRead" {
					require.Equal(t, read, answered, "each is answered")
					require.Zero(t, g.Stats().Pending)
				}
				require.NoError(t, g.Close())
				for line := range strings.Lines(client.String()) {
					if line != parseError("null") {
						require.Regexp(t, `^\{"jsonrpc":"2\.0","id":\d+,"result":"r"\}`+"\n$", line)
					}
				}
			}
		})
	}
}

// As a server is in use: two hundred calls in flight at the end of input, whose
// answers come from as many goroutines.
func TestManyCallsInFlightAtTheEnd(t *testing.T) {
	var in strings.Builder
	for i := range 200 {
		in.WriteString(lines(request(fmt.Sprint(i))))
	}
	for range 20 {
		g := stdioguard.New(strings.NewReader(in.String()), io.Discard)
		g.Writer()
		read, answered, err := answering(g)
		require.Equal(t, io.EOF, err)
		assert.Equal(t, []int{200, 200}, []int{read, answered})
		assert.Zero(t, g.Stats().Pending)
	}
}

// A reader that does not return makes the wait no longer: who sent the signal
// counts from there.
func TestTheDrainTimeCountsFromCloseRead(t *testing.T) {
	inBubble(t, "with a reader that returns after a while", func(t *testing.T, how reading) {
		s := newSession(t, steps(lines(request("1")), func() { time.Sleep(20 * time.Second) }, io.EOF))
		s.start(how)
		require.NoError(t, s.guard.CloseRead())
		time.Sleep(theDrain)
		s.ended(io.EOF, theDrain)
	})
	inBubble(t, "with a reader that returns too late", func(t *testing.T, how reading) {
		s := newSession(t, steps(lines(request("1")), func() { time.Sleep(40 * time.Second) }, io.EOF))
		s.start(how)
		require.NoError(t, s.guard.CloseRead())
		time.Sleep(40 * time.Second)
		s.ended(io.EOF, 40*time.Second)
	})
}

func TestCloseReadAfterAnErrorThatWasReturned(t *testing.T) {
	g := stdioguard.New(steps(errReset), io.Discard)
	for range 2 {
		_, err := g.Read(make([]byte, 1))
		assert.Equal(t, errReset, err)
		require.NoError(t, g.CloseRead())
	}
}

func TestWhatNobodyCanAnswerIsNotWaitedFor(t *testing.T) {
	inBubble(t, "without an underlying writer", func(t *testing.T, how reading) {
		g := stdioguard.New(steps(lines(request("1"))), nil)
		g.Writer()
		start := time.Now()
		var got lockedBuffer
		assert.Equal(t, io.EOF, how.all(g, &got))
		assert.Zero(t, time.Since(start))
	})
}

// A server that asks again whenever it is told that nobody answers does not keep
// the drain from ending.
func TestAServerThatGoesOnAskingEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t, steps(lines(request("1"))), stdioguard.WithDrain(time.Second))
		p := make([]byte, 1000)
		var err error
		for n := 0; err == nil; n++ {
			time.Sleep(time.Millisecond)
			if _, err = s.guard.Read(p); err == nil {
				s.write(request(fmt.Sprint(n)))
			}
		}
		assert.Equal(t, io.EOF, err)
		assert.InDelta(t, time.Second, time.Since(s.started), float64(10*time.Millisecond))
	})
}
