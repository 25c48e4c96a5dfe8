package stdioguard_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	goccy "github.com/goccy/go-json"
	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/internal/jsonscan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A slowText is a JSON text as RFC 8259's grammar reads it, one byte at a time:
// the second opinion on where a fault is and of what kind. encoding/json is the
// second opinion on whether there is one.
type slowText struct {
	text  []byte
	depth int // the deepest nesting that is allowed

	at, open int
	status   jsonscan.Status
	members  []slowMember // of the outermost object, whose end was seen
}

type slowMember struct{ name, value []byte }

func readSlowly(text []byte, depth int) *slowText {
	s := &slowText{text: text, depth: depth}
	s.space()
	if s.value() {
		s.space()
		if s.at < len(s.text) {
			s.wrong()
		}
	}
	return s
}

// peek is the next byte, or 0 at the end, where no grammar allows a NUL.
func (s *slowText) peek() byte {
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

func (s *slowText) take(c byte) bool {
	if s.at == len(s.text) || s.text[s.at] != c {
		return s.wrong()
	}
	s.at++
	return true
}

// wrong is the verdict on the next byte, or on there being none.
func (s *slowText) wrong() bool {
	s.status = jsonscan.Syntax
	if s.at == len(s.text) {
		s.status = jsonscan.Truncated
	}
	return false
}

func (s *slowText) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *slowText) value() bool {
	switch c := s.peek(); {
	case c == '{' || c == '[':
		return s.container(c)
	case c == '"':
		return s.string()
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.wrong()
}

func (s *slowText) container(c byte) bool {
	if s.open == s.depth {
		s.status = jsonscan.TooDeep
		return false
	}
	s.at++
	s.open++
	end, element := byte(']'), s.element
	if c == '{' {
		end, element = '}', s.member
	}
	s.space()
	for first := true; !first || s.peek() != end; first = false {
		if !element(end) {
			return false
		}
		if s.peek() == end {
			break
		}
		s.at++ // the comma
		s.space()
	}
	s.open--
	return s.take(end)
}

// element reads one element of an array up to the byte after it.
func (s *slowText) element(end byte) bool { return s.value() && s.after(end) }

// member reads one member of an object up to the byte after it.
func (s *slowText) member(end byte) bool {
	from := s.at
	if !s.string() {
		return false
	}
	name := s.text[from:s.at]
	s.space()
	if !s.take(':') {
		return false
	}
	s.space()
	from = s.at
	if !s.value() {
		return false
	}
	value := s.text[from:s.at]
	if !s.after(end) {
		return false
	}
	if s.open == 1 {
		s.members = append(s.members, slowMember{name, value})
	}
	return true
}

// after finds the byte after a value, a comma or the container's end.
func (s *slowText) after(end byte) bool {
	s.space()
	if c := s.peek(); c == ',' || c == end {
		return true
	}
	return s.wrong()
}

func (s *slowText) string() bool {
	if !s.take('"') {
		return false
	}
	for {
		switch c := s.peek(); {
		case c == '"':
			s.at++
			return true
		case c == '\\':
			s.at++
			if !s.escape() {
				return false
			}
		case c < 0x20:
			return s.wrong()
		default:
			r, size := utf8.DecodeRune(s.text[s.at:])
			if r == utf8.RuneError && size == 1 {
				s.status = jsonscan.UTF8
				return false
			}
			s.at += size
		}
	}
}

// escape reads what follows a backslash. A byte that is not UTF-8 is a fault of
// syntax there, like any other that is no escape.
func (s *slowText) escape() bool {
	if s.peek() != 'u' {
		if s.peek() == 0 || strings.IndexByte(`"\/bfnrt`, s.peek()) < 0 {
			return s.wrong()
		}
		s.at++
		return true
	}
	s.at++
	for range 4 {
		if s.peek() == 0 || strings.IndexByte("0123456789abcdefABCDEF", s.peek()) < 0 {
			return s.wrong()
		}
		s.at++
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *slowText) digits() bool {
	if !isDigit(s.peek()) {
		return s.wrong()
	}
	for isDigit(s.peek()) {
		s.at++
	}
	return true
}

func (s *slowText) number() bool {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.at++
		if !s.digits() {
			return false
		}
	}
	if s.peek() == 'e' || s.peek() == 'E' {
		s.at++
		if s.peek() == '+' || s.peek() == '-' {
			s.at++
		}
		return s.digits()
	}
	return true
}

func (s *slowText) word(w string) bool {
	for _, c := range []byte(w) {
		if !s.take(c) {
			return false
		}
	}
	return true
}

// A named is how often a name stands in an object, and in which spellings.
type named struct {
	count int
	other bool   // in another spelling: another case, or a NUL after it
	value []byte // the last one's
}

// lookUp finds a name among an object's members. Other spellings are those that
// encoding/json's case folding and a C string's end would take for the name.
func lookUp(members []slowMember, name string) named {
	var n named
	for _, m := range members {
		var decoded string
		if err := json.Unmarshal(m.name, &decoded); err != nil {
			panic(err)
		}
		head, _, _ := strings.Cut(decoded, "\x00")
		switch {
		case decoded == name:
			n.value = m.value
			n.count++
		case strings.EqualFold(head, name):
			n.other = true
		}
	}
	return n
}

func (n named) anyhow() bool { return n.count > 0 || n.other }
func (n named) unique() bool { return n.count == 1 && !n.other }

func isString(v []byte) bool { return len(v) > 0 && v[0] == '"' }
func isNumber(v []byte) bool { return len(v) > 0 && (v[0] == '-' || isDigit(v[0])) }

func isInteger(v []byte) bool {
	_, err := strconv.ParseInt(string(v), 10, 64)
	return isNumber(v) && !bytes.ContainsAny(v, ".eE") && err == nil
}

// membersOf walks a valid object with encoding/json, which knows nothing of
// slowText; nil for another value.
func membersOf(t testing.TB, text []byte) []slowMember {
	dec := json.NewDecoder(bytes.NewReader(text))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil
	}
	members := []slowMember{}
	for dec.More() {
		name, err := dec.Token()
		require.NoError(t, err)
		var value json.RawMessage
		require.NoError(t, dec.Decode(&value))
		quoted, err := json.Marshal(name)
		require.NoError(t, err)
		members = append(members, slowMember{quoted, value})
	}
	return members
}

// isMessage is the definition of a JSON-RPC 2.0 message, clause by clause.
func isMessage(t testing.TB, text []byte) bool {
	members := membersOf(t, text)
	is := map[string]named{}
	for _, name := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
		n := lookUp(members, name)
		if n.count > 1 || n.other {
			return false
		}
		is[name] = n
	}
	var version string
	if !isString(is["jsonrpc"].value) || json.Unmarshal(is["jsonrpc"].value, &version) != nil || version != "2.0" {
		return false
	}
	id, method, result, fault := is["id"], is["method"], is["result"], is["error"]
	goodID := isString(id.value) || isInteger(id.value)
	if method.count == 1 {
		return isString(method.value) && result.count == 0 && fault.count == 0 && (id.count == 0 || goodID)
	}
	if !goodID || result.count+fault.count != 1 {
		return false
	}
	return result.count == 1 || isErrorObject(t, fault.value)
}

func isErrorObject(t testing.TB, value []byte) bool {
	members := membersOf(t, value)
	code, message := lookUp(members, "code"), lookUp(members, "message")
	return code.unique() && isInteger(code.value) && message.unique() && isString(message.value)
}

// drawn is a set of options, as the fuzzer draws them, in a form to look at.
type drawn struct {
	limits    stdioguard.Limits
	answers   stdioguard.Answers
	recovered bool
	anyJSON   bool
	noWriter  bool
	breaks    bool // the input ends in an error instead of io.EOF
}

func (d drawn) options() []stdioguard.Option {
	opts := []stdioguard.Option{stdioguard.WithLimits(d.limits), stdioguard.WithAnswers(d.answers)}
	if d.recovered {
		opts = append(opts, stdioguard.WithRecoveredIDs())
	}
	if d.anyJSON {
		opts = append(opts, stdioguard.WithAnyJSON())
	}
	return opts
}

func (d drawn) withDefaults() drawn {
	if d.limits.Line == 0 {
		d.limits.Line = 16777215
	}
	if d.limits.Depth == 0 {
		d.limits.Depth = 1000
	}
	if d.limits.Answers == 0 {
		d.limits.Answers = 256
	}
	return d
}

// An event is one line's consequence, which must be seen before the guard reads
// more than the first due bytes of its input.
type event struct {
	due         int
	out, answer string
	fault       *fault
}

// A reference judges a whole input, naively.
type reference struct {
	drawn
	t      testing.TB
	events []event
	stats  stdioguard.Stats

	row, rowBytes int // answers since a line was forwarded
	withholding   bool
}

func judgeSlowly(t testing.TB, in []byte, d drawn) *reference {
	r := &reference{t: t, drawn: d.withDefaults()}
	r.stats.BytesIn = int64(len(in))
	for at, number := 0, int64(1); at < len(in); number++ {
		line, _, ended := bytes.Cut(in[at:], []byte("\n"))
		over := len(line) > r.limits.Line
		if over || !ended && d.breaks {
			r.stats.BytesDiscarded += int64(len(line))
		}
		switch due := at + len(line) + 1; {
		case over:
			size := r.limits.Line + 1
			f := &fault{Line: number, Offset: int64(at), Size: int64(size), Code: -32700, Err: stdioguard.ErrTooLong}
			r.reject(f, at+size, r.recoverID(text(line[:r.limits.Line])))
		case ended || !d.breaks:
			r.judge(line, due, fault{Line: number, Offset: int64(at), Size: int64(len(line))})
		}
		at += len(line) + 1
	}
	return r
}

// text is what a line holds beside a byte order mark and whitespace.
func text(line []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(line, []byte(bom)), " \t\r")
}

func (r *reference) judge(line []byte, due int, f fault) {
	text := text(line)
	if len(text) == 0 {
		r.stats.Lines++
		r.stats.Blank++
		return
	}
	slow := readSlowly(text, r.limits.Depth)
	valid := json.Valid(text) && utf8.Valid(text) // of any depth up to encoding/json's own
	require.True(r.t, slow.status != jsonscan.Valid || valid, "the reference accepts %q", text)
	require.True(r.t, slow.status == jsonscan.Valid || slow.status == jsonscan.TooDeep || !valid, "the reference refuses %q", text)
	f.Code = -32700
	switch slow.status {
	case jsonscan.Truncated, jsonscan.Syntax:
		f.Err = stdioguard.ErrSyntax
		r.reject(&f, due, "")
	case jsonscan.UTF8:
		f.Err = stdioguard.ErrUTF8
		r.reject(&f, due, r.recoverID(text))
	case jsonscan.TooDeep:
		f.Err = stdioguard.ErrTooDeep
		r.reject(&f, due, r.recoverID(text))
	default:
		r.judgeJSON(text, due, f)
	}
}

func (r *reference) judgeJSON(text []byte, due int, f fault) {
	f.Code = -32600
	switch {
	case r.anyJSON || isMessage(r.t, text):
		r.stats.Lines++
		r.stats.Forwarded++
		r.row, r.rowBytes, r.withholding = 0, 0, false
		r.events = append(r.events, event{due: due, out: string(text) + "\n"})
	case text[0] == '[':
		f.Err = stdioguard.ErrBatch
		r.reject(&f, due, "")
	default:
		f.Err = stdioguard.ErrNotMessage
		members := membersOf(r.t, text)
		hasResult := lookUp(members, "result").anyhow() || lookUp(members, "error").anyhow()
		if hasResult && !lookUp(members, "method").anyhow() {
			r.stats.Lines++
			r.stats.Rejected++
			f.ID = idOf(members)
			r.events = append(r.events, event{due: due, fault: &f})
			return
		}
		r.reject(&f, due, idOf(members))
	}
}

// idOf is the id that an answer may carry, or "".
func idOf(members []slowMember) string {
	id := lookUp(members, "id")
	if !id.unique() || !isString(id.value) && !isNumber(id.value) || len(id.value) > 1024 {
		return ""
	}
	return string(id.value)
}

// recoverID is the id of a line's well-formed beginning, if it may be used.
func (r *reference) recoverID(text []byte) string {
	members := readSlowly(text, r.limits.Depth).members
	if !r.recovered || lookUp(members, "method").count == 0 {
		return ""
	}
	return idOf(members)
}

// reject drops a line that is answered unless the options say otherwise.
func (r *reference) reject(f *fault, due int, id string) {
	r.stats.Lines++
	r.stats.Rejected++
	f.ID = id
	answer := r.answer(f.Code, id)
	bounded := r.limits.Answers >= 0
	switch {
	case answer == "":
	case bounded && (r.withholding || r.row+1 > r.limits.Answers || r.rowBytes+len(answer) > 20480):
		r.withholding = true
		r.stats.Withheld++
		answer = ""
	default:
		r.row++
		r.rowBytes += len(answer)
		r.stats.Answered++
		f.Answered = true
	}
	r.events = append(r.events, event{due: due, answer: answer, fault: f})
}

func (r *reference) answer(code int, id string) string {
	message := map[int]string{-32700: "Parse error", -32600: "Invalid Request"}[code]
	head := `{"jsonrpc":"2.0","id":` + id
	if id == "" {
		if r.noWriter || r.answers == stdioguard.AnswerNone {
			return ""
		}
		head += "null"
		if r.answers == stdioguard.AnswerOmit {
			head = `{"jsonrpc":"2.0"`
		}
	}
	if r.noWriter {
		return ""
	}
	return head + `,"error":{"code":` + strconv.Itoa(code) + `,"message":"` + message + `"}}` + "\n"
}

// due counts the events that must be seen before more than the first read
// bytes are read, upTo says what is seen of them.
func (r *reference) due(read int) int {
	n, _ := slices.BinarySearchFunc(r.events, read, func(e event, read int) int { return cmp.Compare(e.due, read+1) })
	return n
}

func (r *reference) upTo(read int) (out, answers string, faults []fault) {
	var o, a strings.Builder
	for _, e := range r.events[:r.due(read)] {
		o.WriteString(e.out)
		a.WriteString(e.answer)
		if e.fault != nil {
			faults = append(faults, *e.fault)
		}
	}
	return o.String(), a.String(), faults
}

const theWholeInput = 1 << 62

// answersBefore are the answers to the bad lines before the last of n forwarded
// bytes.
func (r *reference) answersBefore(n int) string {
	var a strings.Builder
	for _, e := range r.events {
		if n <= 0 {
			break
		}
		n -= len(e.out)
		a.WriteString(e.answer)
	}
	return a.String()
}

// The tables' expectations were written by hand. So that neither they nor the
// reference are wrong alone, they must agree with each other.
func TestTheReferenceAgreesWithTheTables(t *testing.T) {
	check := func(t *testing.T, s stream) {
		t.Helper()
		ref := judgeSlowly(t, []byte(s.in), s.conf)
		out, answers, faults := ref.upTo(theWholeInput)
		s.check(t, outcome{out: out, answers: answers, faults: faults, stats: ref.stats, err: io.EOF})
	}
	for _, set := range ruleSets {
		for _, row := range set.rows {
			t.Run(set.name+"/"+row.name, func(t *testing.T) {
				check(t, row.stream(set.conf, ping+"\n", "\n"+ping+"\n"))
				check(t, row.stream(set.conf, "", ""))
			})
		}
	}
	for _, seed := range streamSeeds() {
		t.Run(seed.name, func(t *testing.T) { check(t, seed) })
	}
	for _, tt := range cutRows {
		t.Run("over the limit/"+tt.name, func(t *testing.T) {
			line, limit := cut(tt.line)
			row := lineRow{line: line, want: overCap}
			if tt.id != "" {
				row.want = overCap.recovered(tt.id)
			}
			s := row.stream(drawn{recovered: true, limits: stdioguard.Limits{Line: limit}}, "", "")
			s.faults[0].Size = int64(limit) + 1
			check(t, s)
		})
	}
}

// streamSeeds are the tables of whole streams.
func streamSeeds() []stream {
	return slices.Concat(frameStreams, []stream{everyFeature}, reports, floodStreams())
}

// goodLine is a message that fits almost every limit the fuzzer draws.
const goodLine = `{"jsonrpc":"2.0","method":"m"}`

// fuzzed is a drawn way of running a guard.
type fuzzed struct {
	drawn
	in        []byte
	writeTo   bool // from some Read on
	withEnd   bool // the last data and the error come in one call
	pauses    bool // timeouts come between
	appended  bool // goodLine was appended
	rand      *rand.Rand
	maxChunk  int
	maxBuffer int
}

const (
	optRecovered = 1 << iota
	optAnyJSON
	optNoWriter
	optBreaks
	optWriteTo
	optWithEnd
	optPauses
	optAppended
)

// draw turns the fuzzer's arguments into a run. Its small limits reach every
// rule with small inputs.
func draw(in []byte, line uint16, depth, answers, answer, flags uint8, seed uint64) fuzzed {
	has := func(flag uint8) bool { return flags&flag != 0 }
	f := fuzzed{
		drawn: drawn{
			limits: stdioguard.Limits{
				Line: int(line) % 301, Depth: int(depth) % 9, Answers: int(answers)%7 - 1,
			},
			answers:   stdioguard.Answers(answer % 3),
			recovered: has(optRecovered), anyJSON: has(optAnyJSON),
			noWriter: has(optNoWriter), breaks: has(optBreaks),
		},
		in: in, writeTo: has(optWriteTo), withEnd: has(optWithEnd), pauses: has(optPauses),
		appended: has(optAppended), rand: rand.New(rand.NewPCG(seed, 1)),
	}
	if f.appended {
		f.in = slices.Concat(in, []byte("\n"+goodLine+"\n"))
	}
	f.maxChunk = 1 + f.rand.IntN([]int{1, 8, 64, 100_000}[seed%4])
	f.maxBuffer = 1 + f.rand.IntN([]int{1, 8, 64, 100_000}[seed/4%4])
	return f
}

// A chunked reader hands out its input in drawn pieces. Each time it is asked
// for more it has the run checked.
type chunked struct {
	fuzzed
	read   int
	err    error
	asked  func(read int)
	paused bool
}

func (c *chunked) Read(p []byte) (int, error) {
	c.asked(c.read)
	if c.pauses && !c.paused && c.rand.IntN(3) == 0 {
		c.paused = true
		return 0, os.ErrDeadlineExceeded
	}
	c.paused = false
	n := copy(p[:min(len(p), 1+c.rand.IntN(c.maxChunk))], c.in[c.read:])
	c.read += n
	switch last := c.read == len(c.in); {
	case n == 0, last && c.withEnd:
		return n, c.err
	case c.pauses && c.rand.IntN(8) == 0:
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

// A fuzzRun is a guard at work, compared with the reference at every step.
type fuzzRun struct {
	fuzzed
	t       testing.TB
	ref     *reference
	guard   *stdioguard.Guard
	out     bytes.Buffer
	answers bytes.Buffer
	faults  []fault
	seen    [4]int // what asked saw last
}

func newFuzzRun(t testing.TB, f fuzzed) *fuzzRun {
	run := &fuzzRun{fuzzed: f, t: t, ref: judgeSlowly(t, f.in, f.drawn)}
	r := &chunked{fuzzed: f, err: io.EOF, asked: run.asked}
	if f.breaks {
		r.err = errReset
	}
	var w io.Writer = &run.answers
	if f.noWriter {
		w = nil
	}
	onReject := stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) {
		run.faults = append(run.faults, faultOf(t, e))
	})
	run.guard = stdioguard.New(r, w, append(f.options(), onReject)...)
	return run
}

// asked is called when the guard reads on: by then everything that follows from
// what it has read must have been handed over, answered and reported.
func (run *fuzzRun) asked(read int) {
	sees := [4]int{run.ref.due(read), run.out.Len(), run.answers.Len(), len(run.faults)}
	if sees == run.seen {
		return
	}
	run.seen = sees
	out, answers, faults := run.ref.upTo(read)
	require.Equal(run.t, out, run.out.String(), "forwarded after %d bytes", read)
	require.Equal(run.t, answers, run.answers.String(), "answered after %d bytes", read)
	require.Equal(run.t, faults, run.faults, "reported after %d bytes", read)
}

func (run *fuzzRun) Write(p []byte) (int, error) {
	require.True(run.t, bytes.HasSuffix(p, []byte("\n")), "WriteTo wrote no whole lines: %q", p)
	run.delivered(p)
	return len(p), nil
}

func (run *fuzzRun) delivered(p []byte) {
	run.out.Write(p)
	due := run.ref.answersBefore(run.out.Len())
	require.True(run.t, strings.HasPrefix(run.answers.String(), due), "forwarded before bad lines before it were answered")
}

// step reads once, or writes all.
func (run *fuzzRun) step(p []byte) error {
	if run.writeTo && run.rand.IntN(4) == 0 {
		before := run.out.Len()
		n, err := run.guard.WriteTo(run)
		require.EqualValues(run.t, run.out.Len()-before, n)
		if err == nil {
			return io.EOF
		}
		return err
	}
	n, err := run.guard.Read(p)
	require.True(run.t, n > 0 || err != nil, "Read returned 0, nil")
	run.delivered(p[:n])
	return err
}

func (run *fuzzRun) toTheEnd() {
	p := make([]byte, run.maxBuffer)
	want := error(io.EOF)
	if run.breaks {
		want = errReset
	}
	for {
		err := run.step(p[:1+run.rand.IntN(run.maxBuffer)])
		switch {
		case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
			continue
		}
		require.ErrorIs(run.t, err, want)
		break
	}
	run.asked(theWholeInput)
	require.Equal(run.t, run.ref.stats, run.guard.Stats())
	n, err := run.guard.Read(p)
	require.Zero(run.t, n)
	require.ErrorIs(run.t, err, want)
}

// checkForwarded looks at what came out without the reference's help.
func (run *fuzzRun) checkForwarded() {
	limits := run.ref.limits
	last := ""
	for line := range strings.Lines(run.out.String()) {
		last = strings.TrimSuffix(line, "\n")
		text := []byte(last)
		require.LessOrEqual(run.t, len(text), limits.Line)
		require.True(run.t, json.Valid(text) && utf8.Valid(text), "forwarded %q", text)
		require.Equal(run.t, last, strings.Trim(last, " \t\r"))
		require.False(run.t, strings.HasPrefix(last, bom))
		require.LessOrEqual(run.t, depthOf(text), limits.Depth, "forwarded %q", text)
		if !run.anyJSON {
			var message map[string]json.RawMessage
			require.NoError(run.t, json.Unmarshal(text, &message))
			require.Contains(run.t, message, "jsonrpc")
			require.True(run.t, isMessage(run.t, text), "forwarded %q", text)
		}
	}
	if run.appended && limits.Line >= len(goodLine) {
		require.Equal(run.t, goodLine, last, "the good line after all")
	}
}

// depthOf counts the brackets of a valid text that stand outside its strings.
func depthOf(text []byte) int {
	depth, deepest := 0, 0
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := dec.Token()
		if err != nil {
			return deepest
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// FuzzGuard: for any input, options and chunking, a guard does what the rules
// say, at the time they say it.
func FuzzGuard(f *testing.F) {
	seedGuard(f)
	f.Fuzz(func(t *testing.T, in []byte, line uint16, depth, answers, answer, flags uint8, seed uint64) {
		run := newFuzzRun(t, draw(in, line, depth, answers, answer, flags, seed))
		run.toTheEnd()
		run.checkForwarded()
	})
}

// seedGuard adds every line of the tables under its own options and under small
// limits, and every stream that is not of megabytes.
func seedGuard(f *testing.F) {
	n := uint64(0)
	add := func(in string, d drawn) {
		n++
		f.Add([]byte(in), uint16(d.limits.Line), uint8(d.limits.Depth%9), uint8(d.limits.Answers+1), uint8(d.answers), d.flags()|optAppended, n)
		f.Add([]byte(in), uint16(40), uint8(2), uint8(3), uint8(n), uint8(n*37), n*7)
	}
	for _, set := range ruleSets {
		for _, row := range set.rows {
			if len(row.line) < 4<<10 {
				add(row.line, set.conf)
				add(row.line+"\n"+ping+"\n"+row.line+"\r\n", set.conf)
			}
		}
	}
	for _, s := range streamSeeds() {
		if len(s.in) < 4<<10 {
			add(s.in, s.conf)
		}
	}
	for _, tt := range cutRows {
		line, limit := cut(tt.line)
		add(line, drawn{recovered: true, limits: stdioguard.Limits{Line: limit}})
	}
}

func (d drawn) flags() (flags uint8) {
	if d.recovered {
		flags |= optRecovered
	}
	if d.anyJSON {
		flags |= optAnyJSON
	}
	return flags
}

var scanNames = []string{"jsonrpc", "id", "method", "params", "result", "error", "code", "name"}

// FuzzScan: jsonscan accepts exactly what encoding/json and unicode/utf8 accept
// within its depth, finds the fault where a slow reading of the grammar finds
// it, and the members that encoding/json finds.
func FuzzScan(f *testing.F) {
	for i, line := range lineSeeds() {
		f.Add([]byte(line), uint8(i), uint16(i*3))
		f.Add([]byte(line), uint8(0x87), uint16(i)) // with the opening, and all of the depth
	}
	// Long enough to be scanned by words, with bytes in it that are not UTF-8.
	for _, bad := range []string{"", "\xe4\xb8", "\xed\xa0\x80", "\xe0\x80\x80", `\"`} {
		f.Add([]byte(`{"id":"`+strings.Repeat("\u4e2d\u4e01", 9)+bad+strings.Repeat("\u4e2d\u4e01", 9)+`"}`), uint8(0), uint16(40))
	}
	plain := jsonscan.NewNames(scanNames...)
	opened := plain.WithOpening(`{"jsonrpc":"2.0"`)
	f.Fuzz(func(t *testing.T, in []byte, depth uint8, split uint16) {
		names := plain
		if depth&0x80 != 0 {
			names = opened
		}
		if bytes.IndexByte(in, '\n') >= 0 {
			t.Skip("no line")
		}
		limit := int(depth) % 9
		if limit == 0 {
			limit = jsonscan.MaxDepth
		}
		slow := readSlowly(in, limit)
		valid := json.Valid(in) && utf8.Valid(in)
		require.Equal(t, valid, slow.status == jsonscan.Valid || valid && slow.status == jsonscan.TooDeep, "the slow reading says %d", slow.status)

		line := lineOf(in)
		s := jsonscan.New(limit)
		require.Equal(t, slow.status, s.Scan(line, names))
		require.Equal(t, string(in)+"\n", string(line), "the line was written to")
		if slow.status != jsonscan.Valid {
			require.Equal(t, slow.at, s.Offset())
		}
		checkMembers(t, s, line, slow.members)
		if slow.status == jsonscan.Valid {
			checkMembers(t, s, line, membersOf(t, in))
		}
		again := s.Scan(line, names)
		require.Equal(t, slow.status, again, "a scanner that was used before")
		checkMembers(t, s, line, slow.members)
		again = s.Scan(withMoreBehind(line), names)
		require.Equal(t, slow.status, again, "with other bytes behind the newline")
		checkMembers(t, s, line, slow.members)
		checkSplit(t, in, int(split)%(len(in)+1), limit, names)
	})
}

// lineOf fills its array, so that a read past the newline is out of range.
func lineOf(text []byte) []byte {
	line := make([]byte, len(text)+1)
	line[copy(line, text)] = '\n'
	return line
}

// withMoreBehind returns the line in an array in which bytes follow that would
// continue it, were they part of it: the scanner may look at them, no more.
func withMoreBehind(line []byte) []byte {
	return append(line[:len(line):len(line)], `"}]0e1\u12"}}}]]]`...)[:len(line)]
}

func checkMembers(t *testing.T, s *jsonscan.Scanner, line []byte, members []slowMember) {
	t.Helper()
	for k, name := range scanNames {
		want := lookUp(members, name)
		require.Equal(t, want.count > 0, s.Seen.Has(k), "%s is seen", name)
		require.Equal(t, want.count > 1, s.Again.Has(k), "%s is seen again", name)
		require.Equal(t, want.other, s.Other.Has(k), "%s is seen in another spelling", name)
		if want.count > 0 {
			start, end := s.Span(k)
			require.Equal(t, string(want.value), string(line[start:end]), "the value of %s", name)
		}
	}
}

// checkSplit scans a beginning of the text and then resumes.
func checkSplit(t *testing.T, in []byte, at, limit int, names *jsonscan.Names) {
	t.Helper()
	whole, parts := jsonscan.New(limit), jsonscan.New(limit)
	want := whole.Value(lineOf(in), names)
	got := parts.Value(lineOf(in[:at]), names)
	if got != jsonscan.Truncated {
		return // a fault, or a value that ends before the split
	}
	got = parts.Resume(lineOf(in))
	require.Equal(t, want, got, "resumed at %d", at)
	require.Equal(t, whole.Offset(), parts.Offset(), "resumed at %d", at)
	require.Equal(t, whole.Seen, parts.Seen, "resumed at %d", at)
	require.Equal(t, whole.Again, parts.Again, "resumed at %d", at)
	require.Equal(t, whole.Other, parts.Other, "resumed at %d", at)
	for k := range scanNames {
		if whole.Seen.Has(k) {
			start, end := whole.Span(k)
			gotStart, gotEnd := parts.Span(k)
			require.Equal(t, []int{start, end}, []int{gotStart, gotEnd}, "resumed at %d", at)
		}
	}
}

// lineSeeds are the texts of all tables, one line each.
func lineSeeds() []string {
	var all []string
	for _, set := range ruleSets {
		for _, row := range set.rows {
			all = append(all, row.line)
		}
	}
	for _, tt := range cutRows {
		line, _ := cut(tt.line)
		all = append(all, line)
	}
	for _, s := range streamSeeds() {
		if len(s.in) < 4<<10 {
			all = append(all, strings.Split(s.in, "\n")...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// faultRows are texts with a mark before the first byte that no continuation
// could make valid; where there is none, nothing is wrong but the end.
var faultRows = []struct {
	name, text string
	status     jsonscan.Status
}{
	{"nothing", ``, jsonscan.Truncated},
	{"a word", `§word`, jsonscan.Syntax},
	{"half a word", `tru`, jsonscan.Truncated},
	{"a word that goes wrong", `tru§th`, jsonscan.Syntax},
	{"a word that goes on", `true§r`, jsonscan.Syntax},
	{"a leading zero", `0§1`, jsonscan.Syntax},
	{"a sign", `-`, jsonscan.Truncated},
	{"a sign and a letter", `-§a`, jsonscan.Syntax},
	{"a point", `1.`, jsonscan.Truncated},
	{"a point and an exponent", `1.§e5`, jsonscan.Syntax},
	{"an exponent of nothing", `1e+§,`, jsonscan.Syntax},
	{"two numbers", `1 §2`, jsonscan.Syntax},
	{"a control byte", "\"a§\x1fb\"", jsonscan.Syntax},
	{"a wrong escape", `"\§x"`, jsonscan.Syntax},
	{"a wrong digit", `"\u00§g0"`, jsonscan.Syntax},
	{"an escape broken off", `"\u00`, jsonscan.Truncated},
	{"a byte that is no escape", "\"\\§\xff\"", jsonscan.Syntax},
	{"a byte that is no digit", "\"\\u12§\xff\"", jsonscan.Syntax},
	{"a byte in a string", "\"a§\xffb\"", jsonscan.UTF8},
	{"a rune cut short", "\"a§\xe2\x82\"", jsonscan.UTF8},
	{"a rune cut short by the end", "\"a§\xe2\x82", jsonscan.UTF8},
	{"a surrogate", "\"€§\xed\xa0\x80\"", jsonscan.UTF8},
	{"a byte in a name", "{\"§\xff\":1}", jsonscan.UTF8},
	{"a byte beside strings", "{§\xff}", jsonscan.Syntax},
	{"a rune beside strings", "{§é}", jsonscan.Syntax},
	{"a trailing comma", `[1,§]`, jsonscan.Syntax},
	{"a trailing comma in an object", `{"a":1,§}`, jsonscan.Syntax},
	{"a leading comma", `[§,1]`, jsonscan.Syntax},
	{"no colon", `{"a"§,`, jsonscan.Syntax},
	{"no name", `{§1:2}`, jsonscan.Syntax},
	{"no value", `{"a":§}`, jsonscan.Syntax},
	{"a wrong bracket", `[[1]§}`, jsonscan.Syntax},
	{"open brackets", `[{"a":[`, jsonscan.Truncated},
	{"the fourth level", `[{"a":[§[`, jsonscan.TooDeep},
	{"the fourth level, a brace", `[[[],[§{"a":1}]]]`, jsonscan.TooDeep},
	{"a bracket that may not stand there, at the third level", `[[[1§[`, jsonscan.Syntax},
	{"three levels twice", `[[[]],[[]]]`, jsonscan.Valid},
	{"a NUL at the end", "1§\x00", jsonscan.Syntax},
	{"whitespace about it", " \t\r[ 1 , 2 ] \t\r", jsonscan.Valid},
}

func TestTheFirstFault(t *testing.T) {
	for _, tt := range faultRows {
		t.Run(tt.name, func(t *testing.T) {
			before, after, marked := strings.Cut(tt.text, "§")
			text := []byte(before + after)
			slow := readSlowly(text, 3)
			assert.Equal(t, tt.status, slow.status, "the slow reading")
			s := jsonscan.New(3)
			assert.Equal(t, tt.status, s.Scan(lineOf(text), jsonscan.NewNames("id")), "jsonscan")
			if marked || tt.status == jsonscan.Truncated {
				assert.Equal(t, len(before), slow.at, "the slow reading")
				assert.Equal(t, len(before), s.Offset(), "jsonscan")
			}
		})
	}
}

// A text that is cut anywhere is at fault where it ends or where it was, and
// one with a byte changed where encoding/json says it is: so the slow reading
// is held to encoding/json and unicode/utf8 apart from any fuzzing.
func TestTheSlowReadingAgreesWithEncodingJSON(t *testing.T) {
	agrees := func(t *testing.T, text []byte) {
		t.Helper()
		slow := readSlowly(text, jsonscan.MaxDepth)
		valid := json.Valid(text) && utf8.Valid(text)
		if valid != (slow.status == jsonscan.Valid) && slow.status != jsonscan.TooDeep {
			t.Errorf("%.200q: valid is %t, the slow reading says %d at %d", text, valid, slow.status, slow.at)
		}
		if slow.status == jsonscan.Valid {
			checkSameMembers(t, membersOf(t, text), slow.members)
		}
	}
	for _, line := range lineSeeds() {
		agrees(t, []byte(line))
		if len(line) > 72 {
			continue
		}
		for i := range len(line) {
			agrees(t, []byte(line[:i]))
			for _, c := range []byte("\"\\{}[],: 0e.-u\x00\x1f\x7f\x80\xc3\xff") {
				agrees(t, []byte(line[:i]+string([]byte{c})+line[i+1:]))
			}
		}
	}
}

func checkSameMembers(t *testing.T, want, got []slowMember) {
	t.Helper()
	for _, name := range scanNames {
		assert.Equal(t, lookUp(want, name), lookUp(got, name), "%s", name)
	}
}

// A third opinion, in a test of its own so that a fault there hides none of ours.
func TestGoccyAgrees(t *testing.T) {
	names := jsonscan.NewNames("id")
	s := jsonscan.New(jsonscan.MaxDepth)
	for _, line := range lineSeeds() {
		status := s.Scan(lineOf([]byte(line)), names)
		if status == jsonscan.UTF8 || status == jsonscan.TooDeep {
			continue // goccy knows no such rules
		}
		assert.Equal(t, status == jsonscan.Valid, goccy.Valid([]byte(line)), "%.200q", line)
	}
}

// A slowWriter is the second opinion on what becomes of a server's output. It
// reads whatever is undecided again from its start with every Write, and asks
// encoding/json about everything that slowText does not know.
type slowWriter struct {
	t       testing.TB
	anyJSON bool
	limit   int             // Limits.Held
	pending map[string]bool // keys of the client's requests

	held  []byte // the beginning of a message at the end of the last Write
	mixed bool   // the line holds something else than messages and whitespace

	out      []string
	diverted []byte
	account  []byte // what left or was diverted, as it was written, in order
}

func newSlowWriter(t testing.TB, conf outConf) *slowWriter {
	w := &slowWriter{t: t, anyJSON: conf.anyJSON, limit: conf.limits.Held, pending: map[string]bool{}}
	if w.limit == 0 {
		w.limit = 64 << 20
	}
	for _, id := range pendingIDs {
		w.pending[idKey(t, []byte(id))] = true
	}
	return w
}

func (w *slowWriter) write(p []byte) {
	in := slices.Concat(w.held, p)
	w.held = nil
	for len(in) > 0 {
		line, rest, ended := bytes.Cut(in, []byte("\n"))
		w.part(line, ended)
		if ended {
			w.blank([]byte("\n"))
			w.mixed = false
		}
		in = rest
	}
	if len(w.held) >= w.limit {
		w.divert(w.held)
		w.held, w.mixed = nil, true
	}
}

// close diverts what is held.
func (w *slowWriter) close() {
	w.divert(w.held)
	w.held = nil
}

func (w *slowWriter) divert(b []byte) {
	w.diverted = append(w.diverted, b...)
	w.account = append(w.account, b...)
}

// blank is whitespace or a byte order mark, which is text where text is.
func (w *slowWriter) blank(b []byte) {
	if w.mixed {
		w.divert(b)
	}
}

// undecided is how many bytes of text may be held because they could begin a
// byte order mark, though that would be text as well.
func (w *slowWriter) undecided() int {
	for n := len(bom) - 1; n > 0; n-- {
		if w.mixed && len(w.held) == 0 && bytes.HasSuffix(w.diverted, []byte(bom[:n])) {
			return n
		}
	}
	return 0
}

// A piece is what a part of a line is made of.
type piece struct {
	kind pieceKind
	raw  []byte
	good []byte // a whole value with U+FFFD for what is not UTF-8
}

type pieceKind int

const (
	isText pieceKind = iota
	isBlank
	isValue // an array or object that is whole
	isOpen  // the beginning of a message or of a byte order mark
)

// part reads as much of a line as one Write has.
func (w *slowWriter) part(line []byte, ended bool) {
	pieces := piecesOf(line, ended)
	for _, p := range pieces {
		w.mixed = w.mixed || p.kind == isText || p.kind == isValue && !w.isMessage(p.good)
	}
	for _, p := range pieces {
		switch {
		case p.kind == isOpen && w.mixed && p.raw[0] == bom[0]:
			w.divert(p.raw) // the mark itself would be text here
		case p.kind == isOpen:
			w.held = p.raw
		case p.kind == isBlank:
			w.blank(p.raw)
		case p.kind == isValue && w.isMessage(p.good) && (!w.mixed || w.isAwaited(p.good)):
			w.out = append(w.out, string(p.good))
			w.account = append(w.account, p.raw...)
			w.settle(p.good)
		default:
			w.divert(p.raw)
		}
	}
}

func piecesOf(line []byte, ended bool) (all []piece) {
	for len(line) > 0 {
		n, kind, good := 1, isText, []byte(nil)
		switch rest := string(line); {
		case line[0] == '{' || line[0] == '[':
			var status jsonscan.Status
			n, status, good = readLeniently(line)
			switch {
			case status == jsonscan.Valid:
				kind = isValue
			case status == jsonscan.Truncated && !ended:
				kind = isOpen
			default:
				all = append(all, brokenOff(line[:n])...)
				line = line[n:]
				continue
			}
		case strings.HasPrefix(rest, bom):
			n, kind = len(bom), isBlank
		case strings.HasPrefix(bom, rest) && !ended:
			n, kind = len(rest), isOpen
		case strings.IndexByte(" \t\r", line[0]) >= 0:
			kind = isBlank
		}
		all = append(all, piece{kind, line[:n], good})
		line = line[n:]
	}
	return all
}

// readLeniently reads the array or object that text begins with, up to its end
// or its first fault, over strings that are not UTF-8. Good is the value with
// each byte replaced that is not; it may be longer.
func readLeniently(text []byte) (n int, status jsonscan.Status, good []byte) {
	good = slices.Clone(text)
	for replaced := 0; ; {
		s := &slowText{text: good, depth: jsonscan.MaxDepth}
		s.container(good[0])
		if s.status != jsonscan.UTF8 {
			grown := replaced * (len("\ufffd") - 1)
			return s.at - grown, s.status, good[:s.at]
		}
		bad := 1 // as many as stand together
		for isBadByte(good[s.at+bad:]) {
			bad++
		}
		replaced += bad
		good = slices.Concat(good[:s.at], []byte(strings.Repeat("\ufffd", bad)), good[s.at+bad:])
	}
}

func isBadByte(b []byte) bool {
	r, size := utf8.DecodeRune(b)
	return r == utf8.RuneError && size == 1
}

// brokenOff reads what stands before a fault: the containers that are whole, and
// text.
func brokenOff(text []byte) (all []piece) {
	type span struct{ from, to int }
	var open []int
	var whole []span
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			open = append(open, i)
		case c == '}' || c == ']':
			from := open[len(open)-1]
			open = open[:len(open)-1]
			for len(whole) > 0 && whole[len(whole)-1].from > from {
				whole = whole[:len(whole)-1]
			}
			whole = append(whole, span{from, i + 1})
		}
	}
	at := 0
	for _, s := range append(whole, span{len(text), len(text)}) {
		if at < s.from {
			all = append(all, piece{isText, text[at:s.from], nil})
		}
		if s.from < s.to {
			_, _, good := readLeniently(text[s.from:s.to])
			all = append(all, piece{isValue, text[s.from:s.to], good})
		}
		at = s.to
	}
	return all
}

func (w *slowWriter) isMessage(value []byte) bool {
	if w.anyJSON {
		return true
	}
	if value[0] == '{' {
		return isVersioned(w.t, value)
	}
	elements := elementsOf(w.t, value)
	return len(elements) > 0 && !slices.ContainsFunc(elements, func(e json.RawMessage) bool {
		return e[0] != '{' || !isVersioned(w.t, e)
	})
}

func elementsOf(t testing.TB, array []byte) (elements []json.RawMessage) {
	require.NoError(t, json.Unmarshal(array, &elements))
	return elements
}

// isVersioned reports whether an object has "jsonrpc":"2.0", where it has more
// than one first.
func isVersioned(t testing.TB, object []byte) bool {
	var version any
	value := lookUp(membersOf(t, object), "jsonrpc").value
	if value != nil {
		require.NoError(t, json.Unmarshal(value, &version))
	}
	return version == "2.0"
}

// isAwaited reports whether a value is the response to a request that is pending.
func (w *slowWriter) isAwaited(value []byte) bool { return w.pending[responseTo(w.t, value)] }

// responseTo is the key of the request that a value is the response to, or "".
func responseTo(t testing.TB, value []byte) string {
	members := membersOf(t, value)
	if !isVersionedOrNil(t, value) || lookUp(members, "method").count > 0 ||
		lookUp(members, "result").count+lookUp(members, "error").count == 0 {
		return ""
	}
	return idKey(t, lookUp(members, "id").value)
}

func isVersionedOrNil(t testing.TB, value []byte) bool {
	return value[0] == '{' && isVersioned(t, value)
}

// idKey is the same for ids that a peer may write for one another, or "".
func idKey(t testing.TB, id []byte) string {
	switch {
	case isString(id):
		var s string
		require.NoError(t, json.Unmarshal(id, &s))
		return "string " + s
	case isNumber(id):
		f, _ := strconv.ParseFloat(string(id), 64) // ±Inf where it is out of range
		if f == 0 {
			f = 0 // also for -0
		}
		return "number " + strconv.FormatUint(math.Float64bits(f), 16)
	}
	return ""
}

func (w *slowWriter) settle(message []byte) {
	if message[0] == '{' {
		delete(w.pending, responseTo(w.t, message))
		return
	}
	for _, e := range elementsOf(w.t, message) {
		if e[0] == '{' {
			delete(w.pending, responseTo(w.t, e))
		}
	}
}

// The tables' expectations were written by hand. So that neither they nor the
// reference are wrong alone, they must agree with each other.
func TestTheSlowWriterAgreesWithTheTables(t *testing.T) {
	for _, row := range outRows() {
		for _, run := range row.runs() {
			if len(run.writes) > 1<<10 {
				continue // it would read all of it again each time
			}
			t.Run(row.name+"/"+run.name, func(t *testing.T) {
				slow := newSlowWriter(t, row.outConf)
				for _, p := range run.writes {
					slow.write([]byte(p))
				}
				assert.Equal(t, run.out, slow.out)
				assertSame(t, run.diverted, string(slow.diverted), "diverted")
				assertSame(t, run.held, string(slow.held), "held")
			})
		}
	}
}

// A drawnOutput is what a server writes, as the fuzzer draws it.
type drawnOutput struct {
	outConf
	writes [][]byte
}

// The bytes from 0x80 on stand for whole tokens where the fuzzer says so, so
// that it finds messages on its own.
var outTokens = []string{
	note, response("1"), response("2"), response(`"a"`), response("9"), request("7"),
	`{"jsonrpc":"2.0","id":-0.0,"error":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	`{"jsonrpc":"2.0"`, `"jsonrpc":"2.0"`, `,"id":1`, `,"result":`, `,"method":"`, `[`, `{`, `]`, `}`, `"`, `\`, `,`, `:`,
	`{}`, `[]`, `{"a":`, `"{"`, `"[\"`, "\n", "\r\n", " ", "\t", "text ", "null", bom, bom[:1], bom[1:2], bom[2:],
	"\xff", "\xe2\x82", "\x00", "\x01", "é", `\u00e9`, `\ud800`, "-0", "1e400", `[` + response("1") + `,` + response("2") + `]`,
}

func drawOutput(in, cuts []byte, held, flags uint8) drawnOutput {
	d := drawnOutput{outConf: outConf{limits: stdioguard.Limits{Held: int(held)}, anyJSON: flags&1 != 0}}
	if flags&2 != 0 {
		var b []byte
		for _, c := range in {
			if i := int(c) - 0x80; i >= 0 {
				b = append(b, outTokens[i%len(outTokens)]...)
			} else {
				b = append(b, c)
			}
		}
		in = b
	}
	for i := 0; len(in) > 0; i++ {
		n := len(in)
		if len(cuts) > 0 {
			n = min(n, 1+int(cuts[i%len(cuts)]))
		}
		d.writes = append(d.writes, in[:n])
		in = in[n:]
	}
	return d
}

func (d drawnOutput) size() (n int) {
	for _, p := range d.writes {
		n += len(p)
	}
	return n
}

// FuzzWriter: for any bytes, cut anywhere, what leaves and what is diverted is
// what the reference says, at the time it says it; and it is everything.
func FuzzWriter(f *testing.F) {
	seedWriter(f)
	f.Fuzz(func(t *testing.T, in, cuts []byte, held, flags uint8) {
		d := drawOutput(in, cuts, held, flags)
		if d.size() > 2<<10 {
			t.Skip("too long for a slow reading")
		}
		slow := newSlowWriter(t, d.outConf)
		s := newOutput(t, d.outConf)
		for i, p := range d.writes {
			slow.write(p)
			s.write(p)
			require.Equal(t, slow.out, s.client.lines, "left after Write %d of %q", i, d.writes)
			require.Equal(t, len(slow.pending), s.guard.Stats().Pending, "pending after Write %d of %q", i, d.writes)
			least := len(slow.diverted) - slow.undecided()
			diverted := int(s.guard.Stats().Diverted)
			require.True(t, least <= diverted && diverted <= len(slow.diverted), "diverted %d to %d, not %d, after Write %d of %q", least, len(slow.diverted), diverted, i, d.writes)
		}
		slow.close()
		s.close()
		require.Equal(t, string(slow.diverted), s.log.String(), "diverted of %q", d.writes)
		require.Equal(t, stdioguard.Stats{
			Lines: int64(len(pendingIDs)), Forwarded: int64(len(pendingIDs)), BytesIn: s.bytesIn,
			Written: int64(len(slow.out)), Diverted: int64(len(slow.diverted)), Pending: len(slow.pending),
		}, s.guard.Stats())
		require.Equal(t, unspaced(bytes.Join(d.writes, nil)), unspaced(slow.account), "every byte is accounted for")
	})
}

// unspaced takes out whitespace and byte order marks, those too that come to be
// when others are taken out.
func unspaced(b []byte) string {
	s := strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(string(b))
	for strings.Contains(s, bom) {
		s = strings.ReplaceAll(s, bom, "")
	}
	return s
}

func seedWriter(f *testing.F) {
	for i, row := range outRows() {
		if len(row.in) > 1<<10 {
			continue
		}
		flags := uint8(0)
		if row.anyJSON {
			flags = 1
		}
		whole := []byte(strings.ReplaceAll(row.in, "§", ""))
		f.Add(whole, []byte{}, uint8(row.limits.Held), flags)
		f.Add(whole, []byte{0}, uint8(row.limits.Held), flags)
		f.Add(slices.Concat(whole, whole), []byte{byte(i), 3, byte(i * 7)}, uint8(i*5), uint8(i))
	}
	r := rand.New(rand.NewPCG(3, 0))
	for i := range 64 {
		in := make([]byte, 1+r.IntN(24))
		for k := range in {
			in[k] = byte(0x80 + r.IntN(len(outTokens)))
		}
		f.Add(in, []byte{byte(r.IntN(64)), byte(r.IntN(8))}, uint8(0), uint8(2+i%2))
	}
}

// A drawnWriter is one goroutine of a server: its messages, and how it cuts them.
type drawnWriter struct {
	messages []string
	writes   []string
}

func drawWriter(r *rand.Rand, self, n int) (w drawnWriter) {
	for i := range n {
		name := fmt.Sprintf(`"%d-%d"`, self, i)
		text := strings.Repeat("t", r.IntN(1+r.IntN(300)))
		m := []string{
			`{"jsonrpc":"2.0","id":` + name + `,"result":"` + text + `"}`,
			`{"jsonrpc":"2.0","method":"n","params":[` + name + `,"` + text + `"]}`,
			`[{"jsonrpc":"2.0","id":` + name + `,"result":"` + text + `"},` + note + `]`,
		}[r.IntN(3)]
		w.messages = append(w.messages, m+"\n")
		body, end := m, []string{"\n", "\r\n", " \n"}[r.IntN(3)]
		switch r.IntN(3) {
		case 0:
			w.writes = append(w.writes, body+end)
		case 1:
			w.writes = append(w.writes, body, end)
		default:
			w.writes = append(w.writes, bom+" "+body, end)
		}
	}
	return w
}

// FuzzWriterConcurrent: however many goroutines write messages, and however they
// write the newlines, while the guard answers bad lines, the client gets every
// message and every answer on a line of its own, each writer's in their order.
func FuzzWriterConcurrent(f *testing.F) {
	for i := range uint8(16) {
		f.Add(uint64(i), i%6, i*3, i*5)
	}
	f.Fuzz(func(t *testing.T, seed uint64, writers, each, bad uint8) {
		r := rand.New(rand.NewPCG(seed, 3))
		all := make([]drawnWriter, 1+writers%6)
		owner := map[string]int{}
		for i := range all {
			all[i] = drawWriter(r, i, int(each)%24)
			for _, m := range all[i].messages {
				owner[m] = i
			}
		}
		bads := int(bad) % 48
		sent := concurrently(t, all, bads)
		next := make([]int, len(all))
		for _, line := range sent {
			if line == parseError("null") {
				bads--
				continue
			}
			i, known := owner[line]
			require.True(t, known, "nobody wrote %q", line)
			require.Equal(t, all[i].messages[next[i]], line, "writer %d's messages in their order", i)
			next[i]++
		}
		require.Zero(t, bads, "answers that were not given")
		for i := range all {
			require.Len(t, all[i].messages, next[i], "writer %d's messages", i)
		}
	})
}

// concurrently lets all write at once while bad lines are read, and returns what
// the client got, a Write each.
func concurrently(t *testing.T, all []drawnWriter, bads int) (sent []string) {
	// The guard's own lock alone keeps this safe, as the race detector can see.
	client := writerFunc(func(p []byte) (int, error) {
		sent = append(sent, string(p))
		return len(p), nil
	})
	in := strings.NewReader(strings.Repeat("x\n", bads))
	g := stdioguard.New(in, client, stdioguard.WithLimits(stdioguard.Limits{Answers: -1}), stdioguard.WithDiversion(nil))
	w := g.Writer()
	var running sync.WaitGroup
	for _, writer := range all {
		running.Go(func() {
			for _, p := range writer.writes {
				n, err := w.Write([]byte(p))
				assert.NoError(t, err)
				assert.Len(t, p, n)
			}
		})
	}
	got, err := io.ReadAll(g)
	require.NoError(t, err)
	require.Empty(t, got)
	running.Wait()
	require.Zero(t, g.Stats().Diverted)
	return sent
}
