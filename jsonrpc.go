package stdioguard

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-json"
	"github.com/stdioguard/stdioguard/internal/jsonscan"
)

// The causes that a [FrameError] wraps.
var (
	// ErrSyntax: the line is not one RFC 8259 JSON text. Code -32700.
	ErrSyntax = errors.New("not one JSON text")
	// ErrUTF8: a string in the line is not UTF-8 (RFC 8259 §8.1). Code -32700.
	ErrUTF8 = errors.New("not UTF-8")
	// ErrTooLong: the line is longer than Limits.Line. Code -32700.
	ErrTooLong = errors.New("line too long")
	// ErrTooDeep: the line nests deeper than Limits.Depth. Code -32700.
	ErrTooDeep = errors.New("nested too deeply")
	// ErrBatch: the line is an array, a JSON-RPC batch, which MCP ended in
	// revision 2025-06-18. Code -32600.
	ErrBatch = errors.New("a batch")
	// ErrNotMessage: the line is JSON and no JSON-RPC 2.0 message. Code -32600.
	ErrNotMessage = errors.New("not a JSON-RPC 2.0 message")
)

// What makes a JSON value no message: JSON-RPC 2.0 §4 and §5, held to what MCP
// and the SDKs that decode these lines can take.
var (
	errNotObject = notMessage("not an object")
	errTwice     = notMessage("a member of the envelope stands twice")
	errSpelling  = notMessage("a member of the envelope is spelled in another way")
	errVersion   = notMessage(`"jsonrpc" is not the string "2.0"`)
	errMethod    = notMessage(`"method" is not a string`)
	errBoth      = notMessage("more than one of method, result and error")
	errNeither   = notMessage("no method, result or error")
	errID        = notMessage("the id is not a string or a 64-bit integer")
	errNoID      = notMessage("a response without an id")
	errError     = notMessage(`"error" is not an object with an integer code and a string message`)
)

func notMessage(why string) error { return fmt.Errorf("%w: %s", ErrNotMessage, why) }

// The names that the guard looks at, in the order of their Names.
const (
	nameJSONRPC = iota
	nameID
	nameMethod
	nameParams
	nameResult
	nameError
)

const (
	nameCode = iota
	nameMessage
)

var (
	envelope = jsonscan.NewNames("jsonrpc", "id", "method", "params", "result", "error").
			WithOpening(`{"jsonrpc":"2.0"`) // as SDKs write it
	errorObject = jsonscan.NewNames("code", "message")
)

// judge returns what is wrong with a line, or nil and the line's role. The text has
// no whitespace around it and ends in a newline. The scanner keeps what it saw of
// the line.
func judge(s *jsonscan.Scanner, text []byte, anyJSON bool) (role, error) {
	switch s.Scan(text, envelope) {
	case jsonscan.Syntax, jsonscan.Truncated:
		return role{}, ErrSyntax
	case jsonscan.UTF8:
		return role{}, ErrUTF8
	case jsonscan.TooDeep:
		return role{}, ErrTooDeep
	}
	r, err := judgeMessage(s, text)
	if anyJSON {
		err = nil
	}
	return r, err
}

// judgeMessage returns what makes a JSON text no JSON-RPC 2.0 message, or nil and
// the message's role.
func judgeMessage(s *jsonscan.Scanner, text []byte) (role, error) {
	m := &s.Members
	switch {
	case text[0] == '[':
		return role{}, ErrBatch
	case text[0] != '{':
		return role{}, errNotObject
	case m.Other != 0:
		return role{}, errSpelling
	case m.Again != 0:
		return role{}, errTwice
	case !isVersion(member(m, text, nameJSONRPC)):
		return role{}, errVersion
	}
	id := member(m, text, nameID)
	if id != nil && !isString(id) && !isInteger(id) {
		return role{}, errID
	}
	method, result, failure := member(m, text, nameMethod), m.Seen.Has(nameResult), m.Seen.Has(nameError)
	switch {
	case method != nil && (result || failure), result && failure:
		return role{}, errBoth
	case method != nil && !isString(method):
		return role{}, errMethod
	case method != nil:
		return callRole(method, id, member(m, text, nameParams)), nil
	case !result && !failure:
		return role{}, errNeither
	case id == nil:
		return role{}, errNoID
	case failure:
		if err := judgeError(s, text); err != nil {
			return role{}, err
		}
	}
	return role{response, id}, nil
}

// judgeError judges the error member of a response, which is known to be JSON.
func judgeError(s *jsonscan.Scanner, text []byte) error {
	outer := s.Members
	defer func() { s.Members = outer }()
	start, _ := outer.Span(nameError)
	object := text[start:]
	if object[0] != '{' {
		return errError
	}
	s.Value(object, errorObject)
	m := &s.Members
	if m.Other|m.Again != 0 || !isInteger(member(m, object, nameCode)) || !isString(member(m, object, nameMessage)) {
		return errError
	}
	return nil
}

// member returns the value of the k-th name, nil where it does not stand.
func member(m *jsonscan.Members, text []byte, k int) []byte {
	if !m.Seen.Has(k) {
		return nil
	}
	start, end := m.Span(k)
	return text[start:end]
}

func isString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

func isNumber(value []byte) bool {
	return len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9')
}

// isInteger reports whether a value is a number without fraction and exponent
// that fits an int64.
func isInteger(value []byte) bool {
	if !isNumber(value) {
		return false
	}
	digits, most := value, "9223372036854775807"
	if value[0] == '-' {
		digits, most = value[1:], "9223372036854775808"
	}
	if !jsonscan.AreDigits(digits) {
		return false
	}
	return len(digits) < len(most) || len(digits) == len(most) && string(digits) <= most
}

// isVersion reports whether a value is the string 2.0.
func isVersion(value []byte) bool { return string(value) == `"2.0"` || isSpelled(value, "2.0") }

// isSpelled reports whether a value is the string s, which is ASCII, with escapes
// or without.
func isSpelled(value []byte, s string) bool {
	return len(value) >= len(s)+2 && (value[1] == s[0] || value[1] == '\\') && isString(value) && decodesTo(value[1:len(value)-1], s)
}

// decodesTo reports whether the inside of a string stands for s.
func decodesTo(raw []byte, s string) bool {
	for len(raw) > 0 && len(s) > 0 {
		r, size := jsonscan.DecodeRune(raw)
		if r != rune(s[0]) {
			return false
		}
		raw, s = raw[size:], s[1:]
	}
	return len(raw) == 0 && len(s) == 0
}

// A role is what a message is to the one who keeps count of open requests.
type role struct {
	kind kind
	id   []byte // that it is about, part of the message
}

type kind uint8

const (
	other        kind = iota // a notification, or no message that is tracked
	request                  // waits for a response with its id
	ping                     // a request that any peer answers with an empty result
	listen                   // a request that stays open by design (MCP 2026-07-28)
	cancellation             // of the request with the id
	response                 // to the request with the id
	batch                    // of some of these
)

// roleOf returns the role of a message that was not judged.
func roleOf(m *jsonscan.Members, text []byte) role {
	id, method := member(m, text, nameID), member(m, text, nameMethod)
	switch {
	case isString(method):
		return callRole(method, id, member(m, text, nameParams))
	case method == nil && id != nil && (m.Seen.Has(nameResult) || m.Seen.Has(nameError)):
		return role{response, id}
	}
	return role{}
}

// callRole returns the role of a request, or of a notification, which has no id.
func callRole(method, id, params []byte) role {
	switch {
	case id == nil && isSpelled(method, "notifications/cancelled"):
		return role{cancellation, cancelledID(params)}
	case id == nil:
		return role{}
	case isSpelled(method, "ping"):
		return role{ping, id}
	case isSpelled(method, "subscriptions/listen"):
		return role{listen, id}
	}
	return role{request, id}
}

// cancelledID returns the requestId in the params of a cancellation.
func cancelledID(params []byte) []byte {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if len(params) == 0 || json.Unmarshal(params, &p) != nil {
		return nil
	}
	return p.RequestID
}

// maxAnswerID bounds the id that an answer repeats, in bytes, quotes included.
const maxAnswerID = 1024

// knownID returns the id of a line that was scanned, as far as it is sound: it
// stands once, in one spelling, and is a string or number of a moderate size.
func knownID(m *jsonscan.Members, text []byte) []byte {
	id := member(m, text, nameID)
	if m.Again.Has(nameID) || m.Other.Has(nameID) || len(id) > maxAnswerID || !isString(id) && !isNumber(id) {
		return nil
	}
	return id
}

// hasResponseShape reports whether a bad line could be meant as a response. An
// error sent for one could settle another call of the peer's, and two programs
// that answer each other's answers would not stop.
func hasResponseShape(m *jsonscan.Members) bool {
	any := m.Seen | m.Other
	return (any.Has(nameResult) || any.Has(nameError)) && !any.Has(nameMethod)
}

const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
)

// A verdict is what a bad line gets.
type verdict struct {
	cause  error  // wraps a sentinel
	code   int    // JSON-RPC 2.0 §5.1
	id     []byte // part of the line; nil where it is not known
	silent bool   // never answered, whatever the options say
}

// verdictOn is what a line gets for the cause that judge, or the framer, found.
// The scanner's last scan is that of the line.
func verdictOn(line *frame, cause error, s *jsonscan.Scanner, recoverID bool) verdict {
	v := verdict{cause: cause, code: codeParseError}
	switch {
	case errors.Is(cause, ErrBatch), errors.Is(cause, ErrNotMessage):
		v.code = codeInvalidRequest
		v.id = knownID(&s.Members, line.text)
		v.silent = hasResponseShape(&s.Members)
	case recoverID && cause != ErrSyntax && s.Members.Seen.Has(nameMethod):
		v.id = knownID(&s.Members, line.text)
	}
	return v
}

// appendAnswer appends the answer's line to dst, or nothing where there is none.
func (v *verdict) appendAnswer(dst []byte, unknown Answers) []byte {
	if v.silent || v.id == nil && unknown == AnswerNone {
		return dst
	}
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	switch {
	case v.id != nil:
		dst = append(append(append(dst, `"id":`...), v.id...), ',')
	case unknown == AnswerNull:
		dst = append(dst, `"id":null,`...)
	}
	if v.code == codeParseError {
		return append(dst, `"error":{"code":-32700,"message":"Parse error"}}`+"\n"...)
	}
	return append(dst, `"error":{"code":-32600,"message":"Invalid Request"}}`+"\n"...)
}

// appendClosed appends the line that settles a request of the server's which the
// client can no longer respond to. A ping gets the result that any peer gives, as
// go-sdk closes the session on one that fails.
func appendClosed(dst, id []byte, isPing bool) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	if isPing {
		return append(dst, `,"result":{}}`+"\n"...)
	}
	return append(dst, `,"error":{"code":-32000,"message":"Connection closed"}}`+"\n"...)
}

// A FrameError says what was wrong with one line. Its Err is, or wraps, one of
// [ErrSyntax], [ErrUTF8], [ErrTooLong], [ErrTooDeep], [ErrBatch] and
// [ErrNotMessage]: errors.Is finds it.
type FrameError struct {
	Line     int64  // number of the line, from 1; blank lines count
	Offset   int64  // bytes in the stream before the line
	Size     int64  // bytes of the line, without its newline; for an over-cap line Limits.Line + 1
	Code     int    // JSON-RPC's code for it, -32700 or -32600, answered or not
	ID       []byte // the line's id as it stood, a copy; nil where it is not known
	Answered bool   // an error answer was written
	Hint     string // what the cause probably is, where that is well known
	Err      error  // the cause, with where in the line it stands
}

func (e *FrameError) Error() string {
	s := fmt.Sprintf("stdioguard: line %d at byte %d: %v", e.Line, e.Offset, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns e.Err.
func (e *FrameError) Unwrap() error { return e.Err }

// frameError is the public form of a verdict.
func (v *verdict) frameError(line *frame, s *jsonscan.Scanner, answered bool) *FrameError {
	e := &FrameError{
		Line: line.number, Offset: line.offset, Size: line.size,
		Code: v.code, ID: bytes.Clone(v.id), Answered: answered, Hint: hintFor(line, v.cause, s), Err: v.cause,
	}
	switch v.cause {
	case ErrSyntax, ErrUTF8, ErrTooDeep:
		e.Err = fmt.Errorf("%w: at byte %d of the line", v.cause, line.indent+s.Offset())
	}
	return e
}

const (
	hintUTF16  = "looks like UTF-16; the stream must be UTF-8"
	hintHeader = "looks like a header of the Language Server Protocol's framing; here each line is one message"
	hintSpread = "looks like a message spread over several lines; it must be on one"
	hintCR     = "looks like lines that end in CR alone; they must end in LF"
	hintLog    = "looks like text for a log; it belongs on standard error"
)

// hintFor recognises the well-known ways in which a stream goes wrong.
func hintFor(line *frame, cause error, s *jsonscan.Scanner) string {
	text := line.text
	switch {
	case line.tooLong:
		return ""
	case isUTF16(text):
		return hintUTF16
	case cause == ErrSyntax:
		return syntaxHint(text, s.Offset(), s.Depth() == 0)
	case cause == errVersion && isLogRecord(&s.Members, text):
		return hintLog
	}
	return ""
}

// syntaxHint looks at what text begins with and where it breaks: at the fault,
// which may be outside of any container.
func syntaxHint(text []byte, fault int, outside bool) string {
	c, at := text[0], text[fault]
	switch {
	case hasHeader(text, "Content-Length:"), hasHeader(text, "Content-Type:"):
		return hintHeader
	case outside && (at == '{' || at == '[') && bytes.IndexByte(spaceBefore(text, fault), '\r') >= 0:
		return hintCR
	case (c == '{' || c == '[') && at == '\n', // breaks off
		outside && fault > 0 && (at == ',' || c == '"' && at == ':'), // an element or a member on a line of its own
		(c == '}' || c == ']') && fault == 0:                         // the end of a container
		return hintSpread
	case beginsLikeText(text, at):
		return hintLog
	}
	return ""
}

// beginsLikeText recognises what loggers and shells print: words, dates,
// punctuation, the escape of a terminal's colours. Where text begins like JSON, at
// tells: broken JSON seldom goes on with a letter or a dash.
func beginsLikeText(text []byte, at byte) bool {
	r, size := utf8.DecodeRune(text)
	switch {
	case r == '{' || r == '"' || r == '\ufeff' || r == utf8.RuneError && size == 1:
		return false
	case r == '[' || r == '-' || '0' <= r && r <= '9':
		return at == '-' || at == ':' || at == '/' || 'A' <= at&^0x20 && at&^0x20 <= 'Z'
	}
	return r > ' ' || r == '\x1b'
}

func hasHeader(text []byte, name string) bool {
	return len(text) >= len(name) && bytes.EqualFold(text[:len(name)], []byte(name))
}

// spaceBefore returns the whitespace that ends before text[at].
func spaceBefore(text []byte, at int) []byte {
	from := at
	for from > 0 && isSpace(text[from-1]) {
		from--
	}
	return text[from:at]
}

// isUTF16 recognises a byte order mark of UTF-16, and ASCII in UTF-16 of either
// byte order. A line's first byte may be the second of the newline before it.
func isUTF16(text []byte) bool {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return true
	}
	if text[0] == 0 {
		return len(text) > 2 && text[1] != 0
	}
	return len(text) > 4 && text[1]|text[3] == 0
}

// isLogRecord recognises an object that a structured logger wrote.
func isLogRecord(m *jsonscan.Members, text []byte) bool {
	any := m.Seen | m.Other
	if any.Has(nameJSONRPC) || any.Has(nameMethod) {
		return false
	}
	text = text[:min(len(text), 120)]
	return bytes.Contains(text, []byte(`"level"`)) || bytes.Contains(text, []byte(`"severity"`)) || bytes.Contains(text, []byte(`"msg"`))
}
