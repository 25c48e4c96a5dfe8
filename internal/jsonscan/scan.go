// Package jsonscan judges one JSON text in one pass: is it RFC 8259, is it
// UTF-8, how deep does it nest, which members does its outermost object have.
//
// A [Scanner] works on a slice that ends in a newline. A JSON text on one line
// cannot contain that byte, so it stands as a sentinel: no token can run past
// it, and nothing in the scanner asks whether there is another byte. Nothing is
// allocated, nothing recurses, and the state is as large as the depth limit.
//
// The scanner is a state machine whose states are the labels of [Scanner.run]. A
// text that breaks off at the sentinel leaves the machine where it stood, so a
// longer slice that starts with the same bytes can be scanned on from there:
// see [Scanner.Resume].
package jsonscan

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// MaxDepth is the largest depth limit that New takes. It is encoding/json's.
const MaxDepth = 10_000

// Status is what a scan found.
type Status uint8

const (
	// Valid: a JSON text within the depth limit.
	Valid Status = iota
	// Truncated: well-formed up to the sentinel, and not yet complete.
	Truncated
	// Syntax: a byte that RFC 8259 does not allow where it stands.
	Syntax
	// UTF8: a string holds bytes that are not UTF-8 (RFC 8259 §8.1).
	UTF8
	// TooDeep: a bracket opens one level more than the limit.
	TooDeep
)

// A Scanner scans one text after another. It is not safe for concurrent use.
type Scanner struct {
	// Members of the text's outermost object, if it is one, as of the last
	// scan: those complete before the first fault.
	Members

	// Lenient makes the scanner pass over bytes of a string that are not
	// UTF-8, and only report in Repair that there are any.
	Lenient bool
	Repair  bool

	names *Names
	// open holds, for each container that is open, where it opens, shifted
	// left by one, and in the lowest bit whether it is an object. The entry
	// at 0 stands for the outside, which is neither: it is never read.
	open []int

	// The machine between two calls of run.
	state state
	pos   int // the next byte to look at; after a scan, see Offset
	depth int
	key   bool // the string being read is a member's name
	name  int  // where the name of the member at depth one begins
	value int  // where its value begins: at whitespace, perhaps
	which match
}

// New returns a scanner for texts that nest up to depth levels, the outermost
// container counted. It panics unless 1 ≤ depth ≤ MaxDepth.
func New(depth int) *Scanner {
	if depth < 1 || depth > MaxDepth {
		panic(fmt.Sprintf("jsonscan: depth %d, want 1 to %d", depth, MaxDepth))
	}
	return &Scanner{open: make([]int, depth+1)}
}

// Scan judges line, which must end in a newline, as one JSON text with nothing
// but whitespace around it. It reports the members called names.
func (s *Scanner) Scan(line []byte, names *Names) Status {
	status := s.Value(line, names)
	if status == Valid {
		for isSpace(line[s.pos]) {
			s.pos++
		}
		if s.pos != len(line)-1 {
			status = Syntax
		}
		return status
	}
	if status == Truncated {
		// A rune that the line's end cuts short is not going to be completed.
		if s.state == inString && line[s.pos] >= 0x80 {
			return UTF8
		}
		s.pos = len(line) - 1
	}
	return status
}

// Value judges the value that b begins with, after whitespace. Where it is
// Valid, Offset is the byte after it. What follows the value is not looked at;
// b must end in a newline.
func (s *Scanner) Value(b []byte, names *Names) Status {
	s.names = names
	s.Members.reset()
	s.Repair = false
	s.state, s.pos, s.depth, s.which = beforeValue, 0, 0, none
	return s.run(b)
}

// Resume continues a scan by Value that was Truncated. The bytes of b before
// the earlier call's sentinel must be the same as then, and b must end in a
// newline.
func (s *Scanner) Resume(b []byte) Status { return s.run(b) }

// Offset is the first byte that is at fault, or after Value the byte after a
// Valid value.
func (s *Scanner) Offset() int { return s.pos }

// Open returns where the containers begin that are open at a fault, outermost
// first, appended to dst.
func (s *Scanner) Open(dst []int) []int {
	for _, open := range s.open[1 : s.depth+1] {
		dst = append(dst, open>>1)
	}
	return dst
}

// Depth is how many containers are open at a fault.
func (s *Scanner) Depth() int { return s.depth }

// state is where the machine can come to a stop: the production that the next
// byte belongs to.
type state uint8

const (
	beforeValue state = iota
	beforeFirstElement
	beforeFirstName
	beforeName
	beforeColon
	afterValue
	inString
	afterMinus
	afterZero
	inInteger
	afterPoint
	inFraction
	afterE
	afterSign
	inExponent
)

const (
	array  = 0
	object = 1
)

// run is the machine. It starts in s.state at s.pos and runs until the value is
// complete, a byte is at fault, or the sentinel is reached.
//
// Whitespace loops back to the label it stands before, so that it is looked for
// only where the byte is none of those expected.
func (s *Scanner) run(b []byte) Status {
	var (
		i      = s.pos
		end    = len(b) - 1 // the sentinel
		depth  = s.depth
		kind   = s.open[depth] & object // of the innermost container
		key    = s.key
		state  = s.state
		status = Syntax
		c      byte
		w, m   uint64
	)
	switch state {
	case beforeValue:
		goto value
	case beforeFirstElement:
		goto firstElement
	case beforeFirstName:
		goto firstName
	case beforeName:
		goto name
	case beforeColon:
		goto colon
	case afterValue:
		goto after
	case inString:
		goto str
	case afterMinus:
		goto minus
	case afterZero:
		goto zero
	case inInteger:
		goto integer
	case afterPoint:
		goto point
	case inFraction:
		goto fraction
	case afterE:
		goto exponent
	case afterSign:
		goto sign
	case inExponent:
		goto exponentDigits
	}

value:
	switch b[i] {
	case '"':
		i++
		key = false
		goto str
	case '{':
		if depth == len(s.open)-1 {
			status = TooDeep
			goto stop
		}
		depth++
		kind = object
		s.open[depth] = i<<1 | object
		i++
		goto firstName
	case '[':
		if depth == len(s.open)-1 {
			status = TooDeep
			goto stop
		}
		depth++
		kind = array
		s.open[depth] = i<<1 | array
		i++
		goto firstElement
	case '-':
		i++
		goto minus
	case '0':
		i++
		goto zero
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		i++
		goto integer
	case 't':
		if end-i >= 4 && binary.LittleEndian.Uint32(b[i:]) == 'e'<<24|'u'<<16|'r'<<8|'t' {
			i += 4
			goto after
		}
		return s.literal(b, i, depth, "true")
	case 'f':
		if end-i >= 5 && binary.LittleEndian.Uint32(b[i+1:]) == 'e'<<24|'s'<<16|'l'<<8|'a' {
			i += 5
			goto after
		}
		return s.literal(b, i, depth, "false")
	case 'n':
		if end-i >= 4 && binary.LittleEndian.Uint32(b[i:]) == 'l'<<24|'l'<<16|'u'<<8|'n' {
			i += 4
			goto after
		}
		return s.literal(b, i, depth, "null")
	case ' ', '\t', '\r':
		i++
		goto value
	}
	state = beforeValue
	goto stop

firstElement:
	switch b[i] {
	case ']':
		goto closed
	case ' ', '\t', '\r':
		i++
		goto firstElement
	case '\n':
		state = beforeFirstElement
		goto stop
	}
	goto value

firstName:
	if b[i] == '}' {
		goto closed
	}
	if b[i] == '"' {
		goto nameQuote
	}
	if isSpace(b[i]) {
		i++
		goto firstName
	}
	state = beforeFirstName
	goto stop

name:
	if b[i] == '"' {
		goto nameQuote
	}
	if isSpace(b[i]) {
		i++
		goto name
	}
	state = beforeName
	goto stop

nameQuote:
	i++
	key = true
	if depth == 1 {
		s.name = i
	}
	goto str

colon:
	if b[i] == ':' {
		i++
		if depth == 1 {
			s.value = i
		}
		goto value
	}
	if isSpace(b[i]) {
		i++
		goto colon
	}
	state = beforeColon
	goto stop

after:
	if depth <= 1 {
		goto afterOutermost
	}
	c = b[i]
	if c == ',' {
		i++
		if kind == object {
			goto name
		}
		goto value
	}
	if c == '}' && kind == object || c == ']' && kind == array {
		goto closed
	}
	if isSpace(c) {
		i++
		goto after
	}
	state = afterValue
	goto stop

afterOutermost:
	if depth == 0 {
		goto done
	}
	c = b[i]
	if c == ',' {
		if kind == object {
			s.member(b, i)
			i++
			goto name
		}
		i++
		goto value
	}
	if c == '}' && kind == object {
		s.member(b, i)
		goto closed
	}
	if c == ']' && kind == array {
		goto closed
	}
	if isSpace(c) {
		i++
		goto afterOutermost
	}
	state = afterValue
	goto stop

closed:
	i++
	depth--
	if depth == 0 {
		goto done
	}
	kind = s.open[depth] & object
	goto after

	// The rest of a string, up to its closing quote. Runs of plain ASCII are
	// taken eight bytes at a time; what else a string can hold is met byte by
	// byte, in order, so that the first fault is the one reported.
str:
	for end-i >= 8 {
		w = binary.LittleEndian.Uint64(b[i:])
		m = notPlain(w)
		if m != 0 {
			i += bits.TrailingZeros64(m) >> 3
			goto special
		}
		i += 8
	}
	for plain[b[i]] {
		i++
	}
special:
	c = b[i]
	if c == '"' {
		i++
		if !key {
			goto after
		}
		if depth == 1 {
			s.which = s.names.find(b, s.name, i-1)
		}
		goto colon
	}
	if c >= utf8Lead {
		goto multibyte
	}
	if c == '\\' {
		c = b[i+1]
		if simpleEscape[c] {
			i += 2
			goto str
		}
		if c != 'u' {
			m = 1
			goto badEscape
		}
		for m = 2; m < 6; m++ {
			if !isHex[b[i+int(m)]] {
				goto badEscape
			}
		}
		i += 6
		goto str
	}
	state = inString
	goto stop

badEscape:
	state = inString
	if i+int(m) != end {
		i += int(m)
	} else {
		status = Truncated // from the backslash on
	}
	goto stop

	// UTF-8 as RFC 3629 §4 has it. Text in one script comes in runs, so the
	// rune after a rune is tried here first.
multibyte:
	for {
		c = b[i]
		switch {
		case c < utf8Lead:
			goto str
		case c&0xf0 == 0xe0:
			if !isTail(b[i+1]) || c == 0xe0 && b[i+1] < 0xa0 || c == 0xed && b[i+1] > 0x9f {
				m = 1
				goto badRune
			}
			if !isTail(b[i+2]) {
				m = 2
				goto badRune
			}
			i += 3
		case c&0xe0 == 0xc0 && c >= 0xc2:
			if !isTail(b[i+1]) {
				m = 1
				goto badRune
			}
			i += 2
		case c >= 0xf0 && c <= 0xf4:
			if !isTail(b[i+1]) || c == 0xf0 && b[i+1] < 0x90 || c == 0xf4 && b[i+1] > 0x8f {
				m = 1
				goto badRune
			}
			if !isTail(b[i+2]) {
				m = 2
				goto badRune
			}
			if !isTail(b[i+3]) {
				m = 3
				goto badRune
			}
			i += 4
		default:
			m = 0
			goto badRune
		}
	}
badRune:
	state = inString
	status = UTF8
	if i+int(m) == end {
		status = Truncated // from the first byte of the rune on
	} else if s.Lenient {
		s.Repair = true
		i++
		goto str
	}
	goto stop

	// A number ends where a byte comes that cannot continue it. The sentinel
	// is such a byte, but there a longer text may go on with the number.
minus:
	c = b[i]
	if c == '0' {
		i++
		goto zero
	}
	if isDigit(c) {
		i++
		goto integer
	}
	state = afterMinus
	goto stop

integer:
	for isDigit(b[i]) {
		i++
	}
	state = inInteger
	goto integerEnd
zero:
	state = afterZero
integerEnd:
	switch b[i] {
	case '.':
		i++
		goto point
	case 'e', 'E':
		i++
		goto exponent
	}
	goto numberEnd

point:
	if !isDigit(b[i]) {
		state = afterPoint
		goto stop
	}
fraction:
	for isDigit(b[i]) {
		i++
	}
	if b[i]|0x20 == 'e' {
		i++
		goto exponent
	}
	state = inFraction
	goto numberEnd

exponent:
	if b[i] == '+' || b[i] == '-' {
		i++
		goto sign
	}
	if !isDigit(b[i]) {
		state = afterE
		goto stop
	}
	goto exponentDigits
sign:
	if !isDigit(b[i]) {
		state = afterSign
		goto stop
	}
exponentDigits:
	for isDigit(b[i]) {
		i++
	}
	state = inExponent
numberEnd:
	if i == end && depth > 0 {
		goto stop
	}
	goto after

done:
	s.pos, s.depth = i, depth
	return Valid

stop:
	if i == end {
		status = Truncated
	}
	s.pos, s.depth, s.state, s.key = i, depth, state, key
	return status
}

// literal is the slow way through true, false and null: it stands at i, where
// the word is not whole. It tells a word that the sentinel cuts short, from
// whose beginning the scan can go on, from one that is wrong.
func (s *Scanner) literal(b []byte, i, depth int, word string) Status {
	s.state, s.pos, s.depth = beforeValue, i, depth
	for j := range len(word) {
		if i+j == len(b)-1 {
			return Truncated
		}
		if b[i+j] != word[j] {
			s.pos = i + j
			return Syntax
		}
	}
	panic("jsonscan: literal called for a whole word")
}

// member notes the member of the outermost object whose value ends before i.
// It is called at the byte after the value, when that is known to be right.
func (s *Scanner) member(b []byte, i int) {
	if s.which == none {
		return
	}
	from := s.value
	for isSpace(b[from]) {
		from++
	}
	for isSpace(b[i-1]) {
		i--
	}
	s.Members.add(s.which, from, i)
	s.which = none
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// notPlain marks with a high bit the bytes of w that end a run of plain string
// content: quote, backslash, control characters, and anything outside ASCII.
// The lowest mark is exact; a borrow can set false ones above it.
func notPlain(w uint64) uint64 {
	quote, backslash := w^'"'*ones, w^'\\'*ones
	return ((quote - ones) | (backslash - ones) | (w - ' '*ones) | w) & highs
}

const utf8Lead = 0x80

func isTail(c byte) bool  { return c&0xc0 == 0x80 }
func isDigit(c byte) bool { return c-'0' <= 9 }
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

var plain = func() (t [256]bool) {
	for c := ' '; c < utf8Lead; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

var simpleEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

var isHex = func() (t [256]bool) {
	for _, c := range "0123456789abcdefABCDEF" {
		t[c] = true
	}
	return t
}()
