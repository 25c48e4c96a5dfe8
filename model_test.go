package stdioguard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard"
)

// A model is a whole guard as the rules have it: what a session looks like from
// outside after each thing that client, server and clock do. It judges lines with
// the reference and output with the slowWriter, and adds what those do not know:
// when something happens, and who waits for whom. It starts nothing and holds no
// lock, as it is told of one act at a time.
type model struct {
	setting
	t     testing.TB
	start time.Time
	rules *reference  // what becomes of a line
	out   *slowWriter // what becomes of output

	// The client's way to the server.
	arriving   []arrival // what the reader will return
	inReader   bool      // a Read waits in it
	empty      int       // times in a row that it returned nothing
	readErr    error     // what it returned, not yet told
	unjudged   []byte    // bytes that it returned
	offset     int64     // of these in the stream
	number     int64     // of the last line
	discarding bool      // a line over the limit goes on
	forwarded  []byte    // lines for the server that it has not read
	faults     []fault
	in         int64 // bytes that came in
	discarded  int64
	ahead      int64 // bytes to discard of a line that was seen behind those

	// The server's Read.
	want     *readMode // nil where none is running
	room     int       // bytes that its writer still takes, if it is a WriteTo
	got      []byte
	last     error         // what it returned last
	returned time.Duration // when, since the start
	err      error         // what every Read returns from now on

	// Who waits for whom.
	asked    bool // Writer was called
	pending  map[string]bool
	own      []ownCall
	endedAt  time.Time // when the input ended; zero while it has not
	draining bool

	// The server's way to the client.
	client       []byte
	written      int64
	failed       error // why nothing follows
	cutShort     bool  // it was a Write that failed
	surely       int   // bytes that were diverted; the rest of out.diverted may be
	readClosed   bool
	writerClosed bool
	closed       bool
}

// An ownCall is a request of the server's without a response.
type ownCall struct {
	key, id string
	isPing  bool
}

func newModel(t testing.TB, s setting) *model {
	m := &model{setting: s, t: t, start: time.Now(), asked: !s.late, pending: map[string]bool{}}
	m.rules = &reference{t: t, drawn: s.drawn.withDefaults()}
	m.out = newSlowWriter(t, outConf{limits: s.limits, anyJSON: s.anyJSON})
	m.limits = m.rules.limits
	if m.limits.Pending == 0 {
		m.limits.Pending = 1 << 16
	}
	return m
}

// proceed lets the Read that is running go on as far as it can.
func (m *model) proceed() {
	for m.want != nil {
		switch {
		case m.inReader:
			if len(m.arriving) == 0 {
				return // it waits for the client
			}
			m.receive()
		case m.closed:
			m.returns(io.EOF)
		case len(m.forwarded) > 0:
			m.handOver()
		case m.err != nil:
			m.returns(m.err)
		case m.judge():
		case m.readErr != nil && m.readErr != io.EOF && !m.readClosed:
			m.breaksOff()
		case m.readErr != nil || m.readClosed:
			if m.readErr = io.EOF; m.lastLine() {
				continue
			}
			if m.drains() {
				return // it waits for answers
			}
		default:
			m.inReader, m.empty = true, 0
		}
	}
}

// receive is a return of the reader.
func (m *model) receive() {
	a := m.arriving[0]
	m.arriving = m.arriving[1:]
	if a.lie != 0 {
		m.inReader, m.readErr = false, failure{text: "impossible count"}
		return
	}
	m.in += int64(len(a.data))
	m.unjudged = append(m.unjudged, a.data...)
	m.readErr = a.err
	if len(a.data) > 0 || a.err != nil {
		m.inReader = false
		return
	}
	if m.empty++; m.empty == 100 {
		m.readErr = io.ErrNoProgress
	}
	if m.empty == 100 || m.readClosed || m.closed {
		m.inReader = false
	}
}

func (m *model) returns(err error) {
	m.want, m.last, m.returned = nil, err, time.Since(m.start)
}

// handOver gives the server what there is for it.
func (m *model) handOver() {
	n := min(m.want.size, m.room, len(m.forwarded))
	m.got = append(m.got, m.forwarded[:n]...)
	m.forwarded = m.forwarded[n:]
	m.room -= n
	switch {
	case m.want.writeTo && len(m.forwarded) > 0:
		m.returns(io.ErrShortWrite)
	case m.want.once:
		m.returns(nil)
	}
}

// judge judges the lines that have come, as many as the Read has room for. A bad
// one is dealt with once those before it have been read. It reports whether there
// is something to return then.
func (m *model) judge() bool {
	for m.err == nil && len(m.forwarded) < m.want.size {
		if m.discarding && !m.discard() {
			break
		}
		line, rest, ended := bytes.Cut(m.unjudged, []byte("\n"))
		over := len(line) > m.limits.Line
		if !ended && !over {
			break
		}
		after := m.judged(line, over)
		var e event
		if len(after.events) > 0 {
			e = after.events[0]
		}
		if e.fault != nil && len(m.forwarded) > 0 {
			if over && ended {
				m.ahead = int64(len(line))
			}
			break
		}
		m.rules = after
		m.number++
		if ended {
			m.offset += int64(len(line) + 1)
			m.unjudged = rest
		}
		if over && ended {
			m.ahead = 0
			m.discarded += int64(len(line))
		}
		m.discarding = over && !ended
		m.forwarded = append(m.forwarded, e.out...)
		switch {
		case e.fault != nil:
			m.reject(e)
		case e.out != "":
			m.clientSent([]byte(strings.TrimSuffix(e.out, "\n")))
		}
	}
	return m.err != nil || len(m.forwarded) > 0
}

// judged is what the rules say of a line, and from there on.
func (m *model) judged(line []byte, over bool) *reference {
	r := *m.rules
	r.events = nil
	f := fault{Line: m.number + 1, Offset: m.offset, Size: int64(len(line))}
	if !over {
		r.judge(line, 0, f)
		return &r
	}
	f.Size, f.Code, f.Err = int64(m.limits.Line)+1, -32700, stdioguard.ErrTooLong
	r.reject(&f, 0, r.recoverID(text(line[:m.limits.Line])))
	return &r
}

// discard drops a line over the limit as far as it has come, and reports whether
// that is to its end.
func (m *model) discard() bool {
	line, rest, ended := bytes.Cut(m.unjudged, []byte("\n"))
	m.discarded += int64(len(line))
	m.offset += int64(len(m.unjudged) - len(rest))
	m.unjudged = rest
	m.discarding = !ended
	return ended
}

// reject answers a bad line and reports it.
func (m *model) reject(e event) {
	if e.answer != "" {
		if err := m.send(e.answer); err != nil {
			m.rules.stats.Answered--
			e.fault.Answered = false
			m.err = failure{fmt.Sprintf("answering line %d: ", e.fault.Line), err}
		}
	}
	m.faults = append(m.faults, *e.fault)
}

// breaksOff is an error of the reader that is no end of input.
func (m *model) breaksOff() {
	if errors.Is(m.readErr, os.ErrDeadlineExceeded) {
		m.returns(m.readErr)
		m.readErr = nil
		return
	}
	m.discarded += int64(len(m.unjudged))
	m.unjudged = nil
	m.err = m.readErr
}

// lastLine ends what has no newline at the end of input, if there is anything.
func (m *model) lastLine() bool {
	if len(m.unjudged) == 0 {
		return false
	}
	m.unjudged = append(m.unjudged, '\n')
	return true
}

// drains holds back the end of input while the client waits for a response, and
// reports whether it does.
func (m *model) drains() bool {
	waited := m.draining
	m.draining = false
	m.err = io.EOF
	if !m.asked || m.noWriter {
		return false
	}
	m.inputEnds()
	over := m.endedAt.Add(m.drain)
	switch {
	case !time.Now().Before(over):
		m.returns(io.EOF)
		if waited {
			m.returned = over.Sub(m.start)
		}
	case len(m.pending) == 0 || m.writerClosed:
	case m.failed != nil:
		m.err = m.failed
	case len(m.own) > 0:
		m.err = nil
		for _, c := range m.own {
			told := connectionClosed(c.id)
			if c.isPing {
				told = pong(c.id)
			}
			m.forwarded = append(m.forwarded, told+"\n"...)
		}
		m.own = nil
	default:
		m.err = nil
		m.draining = true
	}
	return m.draining
}

func (m *model) inputEnds() {
	if m.endedAt.IsZero() {
		m.endedAt = time.Now()
	}
}

// write is a Write of the server's.
func (m *model) write(p []byte) error {
	switch {
	case m.closed || m.writerClosed:
		return io.ErrClosedPipe
	case m.noWriter:
		return failure{text: "no writer"}
	case m.failed != nil:
		return m.failed
	}
	m.out.pending = maps.Clone(m.pending)
	before := len(m.out.out)
	m.out.write(p)
	for _, message := range m.out.out[before:] {
		m.serverSends(message)
		m.proceed() // it may be told of a request of the server's
		if err := m.send(message + "\n"); err != nil {
			m.out.held, m.cutShort = nil, true
			return err
		}
		m.written++
		m.serverSent(message)
	}
	m.surely = len(m.out.diverted) - m.out.undecided()
	return nil
}

// send is a write to the client's stream, which may fail in the middle of it.
func (m *model) send(line string) error {
	if m.failed != nil {
		return m.failed
	}
	took := m.hangUp.takes(len(m.client), len(line))
	m.client = append(m.client, line[:took]...)
	if took < len(line) {
		m.failed = m.hangUp.want
	}
	return m.failed
}

func (m *model) closeRead() {
	m.inputEnds()
	m.readClosed = true
}

func (m *model) closeWriter() {
	m.writerClosed = true
	m.out.close()
	if !m.cutShort {
		m.surely = len(m.out.diverted)
	}
}

func (m *model) close() {
	m.closeWriter()
	m.closed = true
}

// A meaning is what a message is to who waits for whom.
type meaning int

const (
	nothing meaning = iota
	asks
	pings
	cancels
	responds
)

// meaningOf returns the meaning of an object, and the id that it is about. A
// request that stays open by design means nothing.
func meaningOf(t testing.TB, object []byte) (meaning, []byte) {
	members := membersOf(t, object)
	id, method := lookUp(members, "id").value, lookUp(members, "method")
	if !isString(method.value) {
		if method.count == 0 && id != nil && lookUp(members, "result").count+lookUp(members, "error").count > 0 {
			return responds, id
		}
		return nothing, nil
	}
	var name string
	require.NoError(t, json.Unmarshal(method.value, &name))
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	switch {
	case id == nil && name == "notifications/cancelled":
		json.Unmarshal(lookUp(members, "params").value, &params)
		return cancels, params.RequestID
	case id == nil || name == "subscriptions/listen":
		return nothing, nil
	case name == "ping":
		return pings, id
	}
	return asks, id
}

// clientSent notes a line that was forwarded.
func (m *model) clientSent(line []byte) {
	if !m.asked || m.limits.Pending < 0 || !isMessage(m.t, line) {
		return // with any JSON, batches and other values too
	}
	what, id := meaningOf(m.t, line)
	key := idKey(m.t, id)
	switch {
	case key == "":
	case what == responds:
		m.settleOwn(key)
	case what == cancels:
		delete(m.pending, key)
	case what == asks || what == pings:
		if len(m.pending) < m.limits.Pending {
			m.pending[key] = true
		}
	}
}

// serverSends notes a message before it leaves, serverSent once it has left.
func (m *model) serverSends(message string) {
	m.eachOf(message, func(what meaning, id []byte, key string) {
		if what != asks && what != pings || len(id) > 1024 || len(m.own) >= m.limits.Pending {
			return
		}
		m.settleOwn(key)
		m.own = append(m.own, ownCall{key, string(id), what == pings})
	})
}

func (m *model) serverSent(message string) {
	m.eachOf(message, func(what meaning, _ []byte, key string) {
		switch what {
		case responds:
			delete(m.pending, key)
		case cancels:
			m.settleOwn(key)
		}
	})
}

func (m *model) settleOwn(key string) {
	m.own = slices.DeleteFunc(m.own, func(c ownCall) bool { return c.key == key })
}

// eachOf calls f for a message, or for each one in a batch, that is about an id.
func (m *model) eachOf(message string, f func(meaning, []byte, string)) {
	all := []json.RawMessage{json.RawMessage(message)}
	if message[0] == '[' {
		all = elementsOf(m.t, all[0])
	}
	for _, one := range all {
		if !isVersionedOrNil(m.t, one) {
			continue
		}
		what, id := meaningOf(m.t, one)
		if key := idKey(m.t, id); key != "" {
			f(what, id, key)
		}
	}
}

// A failure is an error of which a part of the text is known, and the cause, if it
// has one.
type failure struct {
	text  string
	cause error
}

func (f failure) Error() string { return f.text }

// isError reports whether got is the error that a model returned.
func isError(got, want error) bool {
	if f, ok := want.(failure); ok {
		return got != nil && strings.Contains(got.Error(), f.text) && errors.Is(got, f.cause) == (f.cause != nil)
	}
	return errors.Is(got, want)
}

// A setting is what a session is made of.
type setting struct {
	drawn
	drain  time.Duration
	late   bool // Writer is not called before the server uses it
	hangUp hangUp
}

// A hangUp is how the client's stream fails, if it does: once.
type hangUp struct {
	at int // the byte that it does not take, from 1; 0: it takes all
	hangUpKind
}

type hangUpKind struct {
	name string
	lie  int // what Write returns beyond the bytes that it took
	err  error
	want error
}

var hangUpKinds = []hangUpKind{
	{"fails", 0, errHungUp, errHungUp},
	{"is short", 0, nil, io.ErrShortWrite},
	{"takes more than there is", 1000, nil, io.ErrShortWrite},
	{"times out", 0, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
}

// takes is how many bytes it takes of a write of n bytes, after others.
func (h hangUp) takes(before, n int) int {
	if h.at <= before || before+n < h.at {
		return n
	}
	return h.at - 1 - before
}

// A plan is a setting as the fuzzer draws it. The zero plan is the usual one.
type plan struct{ flags, line, depth, answers, pending, held, drain, hangUp uint8 }

// A plan's flags are optRecovered, optAnyJSON and optNoWriter, as in draw, and these.
const (
	optLate = 1 << (iota + 3)
	optOmit
	optNone
	optHangUp // which of the four, in two bits
)

func (p plan) setting() setting {
	has := func(flag uint8) bool { return p.flags&flag != 0 }
	s := setting{
		drawn: drawn{
			limits: stdioguard.Limits{
				Line: int(p.line) % 150, Depth: int(p.depth) % 6, Answers: pick([]int{0, 1, 2, 3, -1}, p.answers),
				Pending: pick([]int{0, 1, 2, -1}, p.pending), Held: int(p.held) % 50,
			},
			recovered: has(optRecovered), anyJSON: has(optAnyJSON), noWriter: has(optNoWriter),
		},
		drain: pick([]time.Duration{theDrain, 0, time.Second}, p.drain), late: has(optLate),
		hangUp: hangUp{int(p.hangUp), hangUpKinds[p.flags/optHangUp]},
	}
	switch {
	case has(optOmit):
		s.answers = stdioguard.AnswerOmit
	case has(optNone):
		s.answers = stdioguard.AnswerNone
	}
	return s
}

// An arrival is one return of the client's reader.
type arrival struct {
	data string
	err  error
	lie  int // a count that no reader may return, less than none or too many
}

// arrivals are the ways in which what the client has written arrives. Each
// returns what is left to arrive.
var arrivals = []struct {
	name string
	of   func(s string) (all []arrival, rest string)
}{
	whole:        {"whole", func(s string) ([]arrival, string) { return []arrival{{data: s}}, "" }},
	later:        {"later", func(s string) ([]arrival, string) { return nil, s }},
	byHalves:     {"by halves", func(s string) ([]arrival, string) { return []arrival{{data: s[:len(s)/2]}, {data: s[len(s)/2:]}}, "" }},
	byteByByte:   {"byte by byte", func(s string) ([]arrival, string) { return bytewise(s), "" }},
	oneByte:      {"up to its first byte", func(s string) ([]arrival, string) { n := min(1, len(s)); return []arrival{{data: s[:n]}}, s[n:] }},
	aHalf:        {"up to its half", func(s string) ([]arrival, string) { return []arrival{{data: s[:len(s)/2]}}, s[len(s)/2:] }},
	withTimeout:  {"with a timeout", func(s string) ([]arrival, string) { return []arrival{{data: s, err: os.ErrDeadlineExceeded}}, "" }},
	afterTimeout: {"after a timeout", func(s string) ([]arrival, string) { return []arrival{{err: os.ErrDeadlineExceeded}, {data: s}}, "" }},
	withEOF:      {"with the end of input", func(s string) ([]arrival, string) { return []arrival{{data: s, err: io.EOF}}, "" }},
	afterEOF:     {"not, as the input ends", func(s string) ([]arrival, string) { return []arrival{{err: io.EOF}}, s }},
	withReset:    {"with an error", func(s string) ([]arrival, string) { return []arrival{{data: s, err: errReset}}, "" }},
	afterNothing: {"after nothing", func(s string) ([]arrival, string) { return []arrival{{}, {data: s}}, "" }},
	manyNothings: {"after nothing sixty times", func(s string) ([]arrival, string) { return append(make([]arrival, 60), arrival{data: s}), "" }},
	negative:     {"as less than nothing", func(s string) ([]arrival, string) { return []arrival{{lie: -1}}, "" }},
	tooMany:      {"as more than there is room for", func(s string) ([]arrival, string) { return []arrival{{lie: 1}}, "" }},
}

const (
	whole = iota
	later
	byHalves
	byteByByte
	oneByte
	aHalf
	withTimeout
	afterTimeout
	withEOF
	afterEOF
	withReset
	afterNothing
	manyNothings
	negative
	tooMany
)

func bytewise(s string) (all []arrival) {
	for i := range len(s) {
		all = append(all, arrival{data: s[i : i+1]})
	}
	return all
}

// A readMode is a way in which the server reads.
type readMode struct {
	name    string
	size    int // of its buffer
	once    bool
	writeTo bool
	takes   int // bytes that a WriteTo's writer takes
}

const unbounded = 1 << 30

var readModes = []readMode{
	onAndOn:    {"on and on", 4096, false, false, unbounded},
	byWriteTo:  {"by WriteTo", unbounded, false, true, unbounded},
	byFifty:    {"on and on, 50 bytes a Read", 50, false, false, unbounded},
	byOne:      {"on and on, a byte a Read", 1, false, false, unbounded},
	once:       {"once", 4096, true, false, unbounded},
	aByte:      {"a byte", 1, true, false, unbounded},
	tenBytes:   {"ten bytes", 10, true, false, unbounded},
	takesFifty: {"by WriteTo a writer that takes 50 bytes", unbounded, false, true, 50},
}

const (
	onAndOn = iota
	byWriteTo
	byFifty
	byOne
	once
	aByte
	tenBytes
	takesFifty
)

// cuts are the ways in which the server cuts what it has to write into Writes.
// Each returns what is left.
var cuts = []struct {
	name string
	of   func(s string) (all []string, rest string)
}{
	whole:      {"in one Write", func(s string) ([]string, string) { return []string{s}, "" }},
	later:      {"later", func(s string) ([]string, string) { return nil, s }},
	byHalves:   {"by halves", func(s string) ([]string, string) { return []string{s[:len(s)/2], s[len(s)/2:]}, "" }},
	byteByByte: {"byte by byte", func(s string) ([]string, string) { return strings.Split(s, ""), "" }},
	oneByte:    {"up to its first byte", func(s string) ([]string, string) { n := min(1, len(s)); return []string{s[:n]}, s[n:] }},
	aHalf:      {"up to its half", func(s string) ([]string, string) { return []string{s[:len(s)/2]}, s[len(s)/2:] }},
}

// What a client writes: more often than not a line.
var clientTexts = []string{
	"", lines(request("1")), lines(request("2")), lines(request(`"a"`)), lines(ping), lines(note), lines(calling("subscriptions/listen", "3")),
	lines(cancelled("1")), lines(cancelled("1.0")), lines(cancelled(`"\u0061"`)), lines(cancelled("7")),
	lines(response("9")), lines(response("8")), lines(response(`"9"`)), lines(errorWith(`{"code":-1,"message":"m"}`)),
	"x\n", "\n", " \r\n", bom + note + "\r\n", bom, bom[:1], "\xff\n", lines(`{"jsonrpc":"2.0","id":5,"method":5}`),
	lines(`{"id":1,"result":1}`), lines("[" + request("2") + "]"), lines("[]"), lines("7"), lines(deep(4)),
	note, request("1"), note[:12], note[12:], "{", `"`, lines(messageOf(70)), messageOf(130), lines(saying("a\xff")), lines(call(`,"params":"` + "\xff" + `"`)),
	strings.Repeat("x\n", 20),
}

// What a server writes.
var serverTexts = []string{
	"", lines(response("1")), lines(response("2")), lines(response(`"a"`)), lines(response("1.0")), lines(response("7")), lines(errorWith("{}")),
	lines(request("9")), lines(request("8")), lines(calling("ping", "9")), lines(calling("ping", `"p"`)), lines(calling("subscriptions/listen", "8")), lines(cancelled("9")), lines(cancelled("8")),
	lines(note), "text", "text\n", "text " + response("1"), "text " + request("9"), "\n", " \t", bom, bom[:2],
	note, response("1"), response("2"), note[:12], note[12:], "{", "[", "]", ",", "}", `"`,
	lines("[" + response("1") + "," + response("2") + "]"), lines("[" + request("9") + "," + calling("ping", "8") + "," + note + "]"), lines("[" + cancelled("9") + ",7]"),
	lines(saying("a\xff")), lines(request("\"\xff\"")), lines("{}"), lines(`{"id":1,"result":1}`), lines(request("null")),
}

var times = []time.Duration{time.Millisecond, time.Second, 10 * time.Second, theDrain, time.Hour}

// An act is one thing that happens: what, and two choices in its tables.
type act struct{ what, which, how byte }

const (
	clientWrites = iota
	serverReads
	serverWrites
	timePasses
	somebodyCloses
	clientTypes // any byte
	serverTypes
)

const (
	theInput = iota // CloseRead
	theWriter
	theGuard
)

var closings = []string{"the input", "the writer", "the guard"}

// whats gives every act its share.
var whats = []byte{
	clientWrites, clientWrites, clientWrites, clientWrites, serverReads, serverReads,
	serverWrites, serverWrites, serverWrites, serverWrites, timePasses, clientTypes, serverTypes, somebodyCloses,
}

const mostActs = 48

func actsOf(b []byte) (all []act) {
	for a := range slices.Chunk(b, 3) {
		if len(a) == 3 && len(all) < mostActs {
			all = append(all, act{whats[int(a[0])%len(whats)], a[1], a[2]})
		}
	}
	return all
}

func bytesOf(all []act) (b []byte) {
	for _, a := range all {
		b = append(b, byte(bytes.IndexByte(whats, a.what)), a.which, a.how)
	}
	return b
}

// pick returns the element of a table that a byte stands for.
func pick[T any](table []T, i byte) T { return table[int(i)%len(table)] }

func (a act) String() string {
	switch a.what {
	case clientWrites:
		return fmt.Sprintf("the client writes %q, which arrives %s", pick(clientTexts, a.which), pick(arrivals, a.how).name)
	case clientTypes:
		return fmt.Sprintf("the client writes %q, which arrives %s", []byte{a.which}, pick(arrivals, a.how).name)
	case serverWrites:
		return fmt.Sprintf("the server writes %q %s", pick(serverTexts, a.which), pick(cuts, a.how).name)
	case serverTypes:
		return fmt.Sprintf("the server writes %q %s", []byte{a.which}, pick(cuts, a.how).name)
	case serverReads:
		return "the server reads " + pick(readModes, a.which).name
	case somebodyCloses:
		return pick(closings, a.which) + " is closed"
	}
	return pick(times, a.which).String() + " pass"
}

// A history tells what has happened, should a test fail.
type history []act

func (h history) String() string {
	var b strings.Builder
	for _, a := range h {
		b.WriteString("\n  " + a.String())
	}
	return b.String()
}

// A modelRun is a guard at work, and its model.
type modelRun struct {
	*model
	t       *testing.T
	guard   *stdioguard.Guard
	history history

	unarrived, unwritten string // what client and server have not written yet
	incoming             chan []arrival
	arrived              []arrival // of these, what the guard has not read
	writing              bool      // a Write of the server's runs
	log                  lockedBuffer

	mu       sync.Mutex // of what the guard's Read does
	reports  []fault
	toClient []byte
	hungUp   bool // the client's stream has failed, and would take what follows
	reading  bool
	read     []byte
	readErr  error
	readAt   time.Duration
}

func newModelRun(t *testing.T, s setting) *modelRun {
	r := &modelRun{t: t, model: newModel(t, s), incoming: make(chan []arrival, mostActs)}
	var w io.Writer = writerFunc(r.clientGets)
	if s.noWriter {
		w = nil
	}
	opts := append(s.options(), stdioguard.WithDrain(s.drain), stdioguard.WithDiversion(&r.log),
		stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) {
			r.note(func() { r.reports = append(r.reports, faultOf(t, e)) })
		}))
	r.guard = stdioguard.New(readerFunc(r.clientGives), w, opts...)
	if !s.late {
		r.guard.Writer()
	}
	return r
}

// note keeps what the guard has done, on whatever goroutine.
func (r *modelRun) note(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
}

// clientGives is the guard's reader.
func (r *modelRun) clientGives(p []byte) (int, error) {
	for len(r.arrived) == 0 {
		more, open := <-r.incoming
		if !open {
			return 0, errReset
		}
		r.arrived = more
	}
	a := r.arrived[0]
	r.arrived = r.arrived[1:]
	switch {
	case a.lie < 0:
		return -1, nil
	case a.lie > 0:
		return len(p) + 1, nil
	}
	n := copy(p, a.data)
	if n < len(a.data) {
		panic("a Read of little room")
	}
	return n, a.err
}

// clientGets is the guard's writer.
func (r *modelRun) clientGets(p []byte) (n int, err error) {
	if r.writing {
		synctest.Wait() // a Read that drains knows of the message now, and not before
	}
	r.note(func() {
		if bytes.IndexByte(p, '\n') != len(p)-1 {
			assert.Fail(r.t, "a Write of something else than a line", "%q", p)
		}
		if n = len(p); !r.hungUp {
			n = r.hangUp.takes(len(r.toClient), len(p))
		}
		r.toClient = append(r.toClient, p[:n]...)
		if n < len(p) {
			r.hungUp = true
			n, err = n+r.hangUp.lie, r.hangUp.err
		}
	})
	return n, err
}

// do lets an act happen to the guard and to its model, and compares them.
func (r *modelRun) do(a act) {
	r.history = append(r.history, a)
	switch a.what {
	case clientWrites:
		r.clientWrites(pick(clientTexts, a.which), a.how)
	case clientTypes:
		r.clientWrites(string([]byte{a.which}), a.how)
	case serverWrites:
		r.serverWrites(pick(serverTexts, a.which), a.how)
	case serverTypes:
		r.serverWrites(string([]byte{a.which}), a.how)
	case serverReads:
		r.serverReads(pick(readModes, a.which))
	case somebodyCloses:
		r.closes(int(a.which) % len(closings))
	case timePasses:
		time.Sleep(pick(times, a.which))
	}
	synctest.Wait()
	r.proceed()
	r.compare()
}

func (r *modelRun) clientWrites(s string, how byte) {
	var all []arrival
	all, r.unarrived = pick(arrivals, how).of(r.unarrived + s)
	r.arriving = append(r.arriving, all...)
	r.incoming <- all
}

func (r *modelRun) serverWrites(s string, how byte) {
	var all []string
	all, r.unwritten = pick(cuts, how).of(r.unwritten + s)
	for _, p := range all {
		r.asked = true
		r.writing = true
		n, err := r.guard.Writer().Write([]byte(p))
		r.writing = false
		want := r.write([]byte(p))
		if !isError(err, want) || n != len(p) && err == nil || n != 0 && err != nil {
			require.Fail(r.t, "Write returned something else", "%d, %v for %q, want %v, after%s", n, err, p, want, r.history)
		}
		synctest.Wait()
		r.proceed() // a response may let Read return before the next Write
	}
}

// serverReads starts a Read unless one is running.
func (r *modelRun) serverReads(how readMode) {
	if r.reading {
		return
	}
	r.want, r.room = &how, how.takes
	r.reading = true
	go func() {
		err := r.readBy(how)
		r.note(func() { r.readErr, r.readAt, r.reading = err, time.Since(r.start), false })
	}()
}

func (r *modelRun) readBy(how readMode) error {
	if how.writeTo {
		room := how.takes
		_, err := r.guard.WriteTo(writerFunc(func(p []byte) (int, error) {
			n := min(room, len(p))
			room -= n
			r.note(func() { r.read = append(r.read, p[:n]...) })
			return n, nil
		}))
		if err == nil {
			err = io.EOF
		}
		return err
	}
	for {
		p := make([]byte, how.size)
		n, err := r.guard.Read(p)
		if (n == 0) != (err != nil) {
			assert.Fail(r.t, "Read may not return that", "%d, %v", n, err)
		}
		r.note(func() { r.read = append(r.read, p[:n]...) })
		if err != nil || how.once {
			return err
		}
	}
}

func (r *modelRun) closes(what int) {
	var err error
	switch what {
	case theInput:
		err = r.guard.CloseRead()
		r.closeRead()
	case theWriter:
		r.asked = true
		err = r.guard.Writer().Close()
		r.closeWriter()
	case theGuard:
		err = r.guard.Close()
		r.close()
	}
	require.NoError(r.t, err)
}

// A look is what a guard, or its model, looks like.
type look struct {
	got, client string // what the server and the client have got
	waits       bool   // a Read does
	returned    time.Duration
	stats       stdioguard.Stats
}

// compare insists that the guard looks as its model does.
func (r *modelRun) compare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	diverted, stats := r.log.String(), r.guard.Stats()
	want := look{string(r.got), string(r.client), r.want != nil, r.returned, r.stats(stats, len(diverted))}
	got := look{string(r.read), string(r.toClient), r.reading, r.readAt, stats}
	if r.reading {
		want.returned = got.returned
	}
	switch {
	case want != got:
		require.Equal(r.t, want, got, "after%s", r.history)
	case !slices.Equal(r.faults, r.reports):
		require.Equal(r.t, r.faults, r.reports, "reported, after%s", r.history)
	case !r.reading && !isError(r.readErr, r.last):
		require.Fail(r.t, "Read returned another error", "%v, want %v, after%s", r.readErr, r.last, r.history)
	case len(diverted) < r.surely || !strings.HasPrefix(string(r.out.diverted), diverted):
		require.Fail(r.t, "the diversion got something else", "%q, want %d bytes or more of %q, after%s", diverted, r.surely, r.out.diverted, r.history)
	}
}

// stats are the counts, some of which may run ahead: a line over the limit counts
// when it is found or when it is dealt with, and what a reader brings after Close
// may be looked at or not.
func (m *model) stats(got stdioguard.Stats, diverted int) stdioguard.Stats {
	s := m.rules.stats
	s.BytesIn, s.BytesDiscarded = m.in, m.discarded
	s.Written, s.Diverted, s.Pending = m.written, int64(diverted), len(m.pending)
	if got.BytesDiscarded == s.BytesDiscarded+m.ahead {
		s.BytesDiscarded = got.BytesDiscarded
	}
	if m.closed {
		s.BytesDiscarded, s.Blank = got.BytesDiscarded, got.Blank
		s.Lines = s.Blank + s.Forwarded + s.Rejected
	}
	return s
}

// end closes everything. That no goroutine is left then is what a bubble insists on.
func (r *modelRun) end() {
	r.guard.Close()
	close(r.incoming)
	synctest.Wait()
}

// inModel runs a session in a bubble.
func inModel(t *testing.T, s setting, all []act) (r *modelRun) {
	synctest.Test(t, func(t *testing.T) {
		r = newModelRun(t, s)
		defer r.end()
		for _, a := range all {
			r.do(a)
		}
	})
	return r
}

// A scenario is a session that a person wrote, and what comes of it: so that guard
// and model are not wrong together.
type scenario struct {
	name string
	plan
	acts   []act
	got    string // by the server
	client string // got by the client
	waits  bool
	err    error // that Read returned last
}

func client(text string, how byte) act {
	return act{clientWrites, byte(slices.Index(clientTexts, text)), how}
}

func server(text string, how byte) act {
	return act{serverWrites, byte(slices.Index(serverTexts, text)), how}
}

func reads(how byte) act       { return act{serverReads, how, 0} }
func closes(what byte) act     { return act{somebodyCloses, what, 0} }
func pass(d time.Duration) act { return act{timePasses, byte(slices.Index(times, d)), 0} }

var scenarios = []scenario{
	{
		name: "a call and its answer",
		acts: []act{reads(onAndOn), client(lines(request("1")), whole), server(lines(response("1")), whole), client("", withEOF)},
		got:  lines(request("1")), client: lines(response("1")), err: io.EOF,
	},
	{
		name: "the end of input waits for an answer",
		acts: []act{reads(byWriteTo), client(lines(request("1")), withEOF), pass(10 * time.Second), server(lines(response("2")), whole)},
		got:  lines(request("1")), client: lines(response("2")), waits: true,
	},
	{
		name: "an answer that comes too late, and twice",
		acts: []act{reads(byOne), client(lines(request("1")), withEOF), pass(theDrain), server(lines(response("1")), whole), server(lines(response("1")), byteByByte)},
		got:  lines(request("1")), client: lines(response("1"), response("1")), err: io.EOF,
	},
	{
		name: "an id is used again while it is pending, and one answer is enough",
		acts: []act{reads(byFifty), client(lines(request("1")), whole), client(lines(request("1")), byteByByte), server(lines(response("1.0")), byHalves), client("", withEOF)},
		got:  lines(request("1"), request("1")), client: lines(response("1.0")), err: io.EOF,
	},
	{
		name: "a bad line is answered when the lines before it have been read",
		acts: []act{
			client(lines(request("1")), later), client("x\n", later), client(lines(note), whole),
			reads(once), server(lines(response("1")), whole), reads(aByte), reads(once),
		},
		got: lines(request("1"), note), client: lines(response("1")) + parseError("null"),
	},
	{
		name: "a request behind a line whose end is cut off",
		acts: []act{reads(onAndOn), client(lines(note), later), client(" \r\n", later), client(lines(request(`"a"`)), withEOF), server(lines(response(`"a"`)), whole)},
		got:  lines(note, request(`"a"`)), client: lines(response(`"a"`)), err: io.EOF,
	},
	{
		name: "the client cancels what it waits for",
		acts: []act{reads(onAndOn), client(lines(request(`"a"`)), whole), client(lines(cancelled(`"\u0061"`)), withEOF)},
		got:  lines(request(`"a"`), cancelled(`"\u0061"`)), err: io.EOF,
	},
	{
		name: "the server's own requests are settled at the end of input",
		acts: []act{
			reads(onAndOn), client(lines(request("1")), whole), server(lines(request("9")), whole), server(lines(request("8")), byteByByte), server(lines(cancelled("9")), whole),
			client("", withEOF), server(lines(calling("ping", "9")), whole), server(lines(response("1")), whole),
		},
		got:    lines(request("1"), connectionClosed("8"), pong("9")),
		client: lines(request("9"), request("8"), cancelled("9"), calling("ping", "9"), response("1")), err: io.EOF,
	},
	{
		name: "the client has answered one of the server's own requests",
		acts: []act{
			reads(byFifty), client(lines(request("1")), whole), server(lines(request("9")), whole), server(lines(request("8")), whole),
			server(lines(calling("ping", `"p"`)), whole), client(lines(response("9")), byteByByte), client("", withEOF),
		},
		got: lines(request("1"), response("9"), connectionClosed("8"), pong(`"p"`)), client: lines(request("9"), request("8"), calling("ping", `"p"`)), waits: true,
	},
	{
		name: "a request of the server's that cannot be written is settled first", plan: plan{hangUp: 11},
		acts: []act{reads(onAndOn), client(lines(request("1")), withEOF), server(lines(request("9")), whole)},
		got:  lines(request("1"), connectionClosed("9")), client: request("9")[:10], err: errHungUp,
	},
	{
		name: "requests past Pending, and open subscriptions, are not waited for", plan: plan{pending: 1},
		acts: []act{
			reads(onAndOn), client(lines(calling("subscriptions/listen", "3")), whole), client(lines(request("1")), whole), client(lines(request("2")), whole),
			server(lines(response("1")), whole), client("", withEOF),
		},
		got: lines(calling("subscriptions/listen", "3"), request("1"), request("2")), client: lines(response("1")), err: io.EOF,
	},
	{
		name: "lines of the limit", plan: plan{line: uint8(len(note))},
		acts: []act{reads(onAndOn), client(note, byteByByte), client("\n", whole), client(bom, later), client(note, byHalves), client("\n", whole)},
		got:  lines(note), client: parseError("null"), waits: true,
	},
	{
		name: "CloseRead while the reader waits",
		acts: []act{reads(onAndOn), client(lines(request("1")), whole), closes(theInput), pass(time.Second), client(note, whole), server(lines(response("1")), whole)},
		got:  lines(request("1"), note), client: lines(response("1")), err: io.EOF,
	},
	{
		name: "the drain time counts from CloseRead",
		acts: []act{reads(onAndOn), client(lines(request("1")), whole), closes(theInput), pass(theDrain), client("", whole)},
		got:  lines(request("1")), err: io.EOF,
	},
	{
		name: "the guard is closed while the end is held back",
		acts: []act{reads(onAndOn), client(lines(request("1")), withEOF), closes(theGuard), server(lines(response("1")), whole)},
		got:  lines(request("1")), err: io.EOF,
	},
	{
		name: "the guard is closed with lines that wait to be read",
		acts: []act{client(lines(note), later), client(lines(request("1")), whole), reads(aByte), closes(theGuard), reads(onAndOn)},
		got:  note[:1], err: io.EOF,
	},
	{
		name: "the writer is closed, and bad lines are answered",
		acts: []act{reads(onAndOn), server(note[:12], whole), closes(theWriter), client(lines(request("1")), whole), client("x\n", withEOF)},
		got:  lines(request("1")), client: parseError("null"), err: io.EOF,
	},
	{
		name: "a flood", plan: plan{answers: 2},
		acts: []act{reads(onAndOn), client(strings.Repeat("x\n", 20), byHalves), client(lines(note), whole), client("x\n", whole)},
		got:  lines(note), client: strings.Repeat(parseError("null"), 3), waits: true,
	},
	{
		name: "a line over the limit that comes in pieces", plan: plan{line: 60},
		acts: []act{reads(onAndOn), client(messageOf(130), byteByByte), client(lines(note), whole), client(lines(note), withTimeout), reads(onAndOn), client(note, withEOF)},
		got:  lines(note, note), client: parseError("null"), err: io.EOF,
	},
	{
		name: "the client hangs up within an answer", plan: plan{hangUp: 11},
		acts: []act{reads(onAndOn), client(lines(request("1")), later), client("x\n", later), client(lines(note), whole), server(lines(response("1")), whole)},
		got:  lines(request("1")), client: parseError("null")[:10], err: errHungUp,
	},
	{
		name: "the client hangs up for a moment within a message, and then a line is bad", plan: plan{hangUp: 11},
		acts:   []act{reads(onAndOn), server(lines(note), whole), client("x\n", whole), server(lines(note), whole)},
		client: note[:10], err: errHungUp,
	},
	{
		name: "the client hangs up within a response while the end is held back", plan: plan{hangUp: 51, flags: 1 * optHangUp},
		acts: []act{reads(onAndOn), client(lines(request("1")), withEOF), server(lines(note), whole), server(lines(response("1")), whole), server(lines(note), whole)},
		got:  lines(request("1")), client: (lines(note) + response("1"))[:50], err: io.ErrShortWrite,
	},
	{
		name: "text, glued and spread output",
		acts: []act{
			reads(onAndOn), client(lines(request("1")), whole), server("text", whole), server("text "+response("1"), byteByByte), server("\n", whole),
			server(note, later), server(response("2"), later), server(note[:12], whole), server(note[12:], whole),
		},
		got: lines(request("1")), client: lines(response("1"), note, response("2"), note), waits: true,
	},
	{
		name: "nothing is waited for without a Writer", plan: plan{flags: optLate},
		acts: []act{reads(onAndOn), client(lines(request("1")), withEOF)},
		got:  lines(request("1")), err: io.EOF,
	},
	{
		name: "a reader that lies",
		acts: []act{reads(onAndOn), client(lines(request("1")), whole), client("", negative)},
		got:  lines(request("1")), err: failure{text: "impossible count"},
	},
	{
		name: "a reader that brings nothing for ever",
		acts: []act{reads(onAndOn), client(lines(request("1")), manyNothings), client("", manyNothings), client("", manyNothings)},
		got:  lines(request("1")), err: io.ErrNoProgress,
	},
}

// The scenarios' expectations were written by hand. So that neither they nor the
// model are wrong alone, they must agree with each other.
func TestSessions(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			r := inModel(t, s.setting(), s.acts)
			assert.Equal(t, s.got, string(r.read), "the server got")
			assert.Equal(t, s.client, string(r.toClient), "the client got")
			assert.Equal(t, s.waits, r.want != nil, "Read waits")
			if !s.waits {
				assert.True(t, isError(r.readErr, s.err), "Read returned %v, want %v", r.readErr, s.err)
			}
		})
	}
}

// FuzzModel: whatever client, server and clock do, in whatever order, a guard looks
// as its model does after each act.
func FuzzModel(f *testing.F) {
	add := func(p plan, acts []byte) {
		f.Add(p.flags, p.line, p.depth, p.answers, p.pending, p.held, p.drain, p.hangUp, acts)
	}
	for _, s := range scenarios {
		add(s.plan, bytesOf(s.acts))
		add(plan{line: 60, depth: 3, answers: 2, pending: 1, held: 15, drain: 2, hangUp: 100}, bytesOf(s.acts))
	}
	r := rand.New(rand.NewPCG(4, 0))
	some := func() uint8 { return uint8(r.Uint32()) * uint8(r.IntN(2)) } // half of them the usual
	for range 200 {
		acts := make([]byte, 3*mostActs)
		for i := range acts {
			acts[i] = byte(r.Uint32())
		}
		add(plan{
			flags: some() &^ optNoWriter, line: some(), depth: some(), answers: some(),
			pending: some(), held: some(), drain: some(), hangUp: some(),
		}, acts)
	}
	f.Fuzz(func(t *testing.T, flags, line, depth, answers, pending, held, drain, hangUp uint8, acts []byte) {
		p := plan{
			flags: flags, line: line, depth: depth, answers: answers,
			pending: pending, held: held, drain: drain, hangUp: hangUp,
		}
		inModel(t, p.setting(), actsOf(acts))
	})
}
