// Package jsonscan judges one JSON text in one pass: is it RFC 8259, is it
// UTF-8, how deep does it nest, which members does its outermost object have.
//
// A [Scanner] works on a slice that ends in a newline. A JSON text on one line
// cannot contain that byte, so it stands as a sentinel: no token can run past
// it, and nothing in the scanner asks whether there is another byte. Nothing is
// allocated, nothing recurses, and the state is as large as the depth limit.
//
// Where it pays, eight bytes are looked at as one word. For that, what stands
// between the slice's length and its capacity is loaded too, and changes nothing:
// a slice whose array somebody else writes to must be clipped.
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

	machine
}

// A machine is what is kept between two calls of run.
type machine struct {
	pos   int // the next byte to look at; after a scan, see Offset
	depth int
	name  int // where the name of the last member begins
	value int // where the value of the member at depth one begins: at whitespace, perhaps
	state state
	key   bool // the string being read is a member's name
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
	s.machine = machine{which: none}
	if o := names.opening; o.begins(b) {
		s.machine = o.machine
		s.open[1] = o.open
	}
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
func (s *Scanner) run(line []byte) Status {
	var (
		b       = textOf(line)
		words   = cap(line) - 8 // the last place where a word can be loaded
		end     = len(line) - 1 // the sentinel
		i       = s.pos
		depth   = s.depth
		kind    = s.open[depth] & object // of the innermost container
		isKey   = s.key
		state   = s.state
		status  = Syntax
		c       byte
		n       int
		literal string
		w, m    uint64
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
	switch b.at(i) {
	case '"':
		i++
		isKey = false
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
		if i <= words && uint32(b.word(i)) == 'e'<<24|'u'<<16|'r'<<8|'t' {
			i += 4
			goto after
		}
		literal = "true"
		goto literally
	case 'f':
		if i < words && uint32(b.word(i+1)) == 'e'<<24|'s'<<16|'l'<<8|'a' {
			i += 5
			goto after
		}
		literal = "false"
		goto literally
	case 'n':
		if i <= words && uint32(b.word(i)) == 'l'<<24|'l'<<16|'u'<<8|'n' {
			i += 4
			goto after
		}
		literal = "null"
		goto literally
	case ' ', '\t', '\r':
		i++
		goto value
	}
	state = beforeValue
	goto stop

	// Where the word is not whole, or the line too near its end to tell: a word
	// that the sentinel cuts short is gone over from its beginning.
literally:
	state = beforeValue
	for n = range len(literal) {
		if b.at(i+n) == literal[n] {
			continue
		}
		if i+n == end {
			status = Truncated
		} else {
			i += n
		}
		goto stop
	}
	i += len(literal)
	goto after

firstElement:
	switch b.at(i) {
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
	if b.at(i) == '}' {
		goto closed
	}
	if b.at(i) == '"' {
		goto key
	}
	if isSpace(b.at(i)) {
		i++
		goto firstName
	}
	state = beforeFirstName
	goto stop

name:
	if b.at(i) == '"' {
		goto key
	}
	if isSpace(b.at(i)) {
		i++
		goto name
	}
	state = beforeName
	goto stop

	// A member's name. Most fit a word, and have the colon right behind them. Its
	// length is branched on, as a processor guesses the branch and goes on with the
	// value: it would wait for a sum.
key:
	i++
	s.name = i
	if i <= words {
		w = b.word(i)
		if m = notPlain(w); m != 0 {
			switch bits.TrailingZeros64(m) >> 3 {
			case 0:
				n, w = i, 0
			case 1:
				n, w = i+1, w&(1<<8-1)
			case 2:
				n, w = i+2, w&(1<<16-1)
			case 3:
				n, w = i+3, w&(1<<24-1)
			case 4:
				n, w = i+4, w&(1<<32-1)
			case 5:
				n, w = i+5, w&(1<<40-1)
			case 6:
				n, w = i+6, w&(1<<48-1)
			case 7:
				n, w = i+7, w&(1<<56-1)
			}
			if b.at(n) == '"' && b.at(n+1) == ':' {
				i = n + 2
				if depth == 1 {
					s.which = s.names.findShort(w)
					s.value = i
				}
				goto value
			}
		}
	}
	isKey = true
	goto str

colon:
	if b.at(i) == ':' {
		i++
		if depth == 1 {
			s.value = i
		}
		goto value
	}
	if isSpace(b.at(i)) {
		i++
		goto colon
	}
	state = beforeColon
	goto stop

after:
	if depth <= 1 {
		goto afterOutermost
	}
	c = b.at(i)
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
	c = b.at(i)
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

	// The rest of a string, up to its closing quote. What it can hold is met in
	// order, so that the first fault is the one reported.
str:
	for n = 0; n < 3 && i <= words; n++ {
		if m = notPlain(b.word(i)); m != 0 {
			i += bits.TrailingZeros64(m) >> 3
			goto special
		}
		i += 8
	}
	// Long, or not the first of its parts.
more:
	if plain[b.at(i)] {
		i = skip(b, i, words)
	}
	for plain[b.at(i)] {
		i++
	}
special:
	c = b.at(i)
	if c == '"' {
		i++
		if !isKey {
			goto after
		}
		if depth == 1 {
			s.which = s.names.find(b.bytes(s.name, i-1))
		}
		goto colon
	}
	if c >= utf8Lead {
		goto multibyte
	}
	if c == '\\' {
		c = b.at(i + 1)
		if simpleEscape[c] {
			i += 2
			goto more
		}
		if c != 'u' {
			m = 1
			goto badEscape
		}
		for m = 2; m < 6; m++ {
			if !isHex[b.at(i+int(m))] {
				goto badEscape
			}
		}
		i += 6
		goto more
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

	// Text in one script comes in runs.
multibyte:
	i, n = runes(b, i, words)
	if n < 0 {
		goto more
	}
	state = inString
	switch {
	case i+n == end:
		status = Truncated // from the first byte of the rune on
	case s.Lenient:
		s.Repair = true
		i++
		goto str
	default:
		status = UTF8
	}
	goto stop

	// A number ends where a byte comes that cannot continue it. The sentinel
	// is such a byte, but there a longer text may go on with the number.
minus:
	c = b.at(i)
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
	state = inInteger
	for i <= words {
		n = digits(b.word(i))
		i += n
		if n < 8 {
			goto integerEnd
		}
	}
	for isDigit(b.at(i)) {
		i++
	}
	goto integerEnd
zero:
	state = afterZero
integerEnd:
	switch b.at(i) {
	case '.':
		i++
		goto point
	case 'e', 'E':
		i++
		goto exponent
	}
	goto numberEnd

point:
	if !isDigit(b.at(i)) {
		state = afterPoint
		goto stop
	}
fraction:
	for isDigit(b.at(i)) {
		i++
	}
	if b.at(i)|0x20 == 'e' {
		i++
		goto exponent
	}
	state = inFraction
	goto numberEnd

exponent:
	if b.at(i) == '+' || b.at(i) == '-' {
		i++
		goto sign
	}
	if !isDigit(b.at(i)) {
		state = afterE
		goto stop
	}
	goto exponentDigits
sign:
	if !isDigit(b.at(i)) {
		state = afterSign
		goto stop
	}
exponentDigits:
	for isDigit(b.at(i)) {
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
	s.pos, s.depth, s.state, s.key = i, depth, state, isKey
	return status
}

// skip passes over plain string content and over escapes of one letter, as far as
// eight words at a time can be loaded.
func skip(b text, i, words int) int {
	for i <= words-56 {
		m0, m1, m2, m3 := notPlain(b.word(i)), notPlain(b.word(i+8)), notPlain(b.word(i+16)), notPlain(b.word(i+24))
		m4, m5, m6, m7 := notPlain(b.word(i+32)), notPlain(b.word(i+40)), notPlain(b.word(i+48)), notPlain(b.word(i+56))
		if m0|m1|m2|m3|m4|m5|m6|m7 == 0 {
			i += 64
			continue
		}
		// In text, escapes stand close together. A branch on each word would be guessed
		// wrong as often as not, and each word looked at again for each escape in it.
		mask := gather(m0) | gather(m1)<<8 | gather(m2)<<16 | gather(m3)<<24 |
			gather(m4)<<32 | gather(m5)<<40 | gather(m6)<<48 | gather(m7)<<56
		next := i + 64
		for mask != 0 {
			n := bits.TrailingZeros64(mask)
			if b.at(i+n) != '\\' || !simpleEscape[b.at(i+n+1)] {
				return i + n
			}
			mask &^= 3 << n // its letter may be a quote or a backslash
			if n == 63 {
				next++
			}
		}
		i = next
	}
	return i
}

// gather puts the high bits of the eight bytes of m next to each other.
func gather(m uint64) uint64 { return m >> 7 * 0x0102040810204080 >> 56 }

// runes passes over the runes outside ASCII that stand at i, as RFC 3629 §4 has
// them, and over what is plain in the words behind them. It returns where they
// end. If there the first bytes of another stand, it returns also how many of them
// are right, else -1.
func runes(b text, i, words int) (next, right int) {
	for {
		c := b.at(i)
		switch {
		case c < utf8Lead:
			if !plain[c] || i > words {
				return i, -1
			}
			m := notPlain(b.word(i))
			i += bits.TrailingZeros64(m) >> 3 // 8 if there is none
			if m == 0 || b.at(i) < utf8Lead {
				return i, -1
			}
		case c&0xf0 == 0xe0:
			// Most scripts that are written without spaces have three bytes a rune.
			from := i
			for i <= words-16 && areEightRunes(b.word(i), b.word(i+8), b.word(i+16)) {
				i += 24
			}
			for i <= words && areTwoRunes(b.word(i)) {
				i += 6
			}
			if i > from {
				continue
			}
			if d := b.at(i + 1); !isTail(d) || c == 0xe0 && d < 0xa0 || c == 0xed && d > 0x9f {
				return i, 1
			}
			if !isTail(b.at(i + 2)) {
				return i, 2
			}
			i += 3
		case c&0xe0 == 0xc0 && c >= 0xc2:
			if !isTail(b.at(i + 1)) {
				return i, 1
			}
			i += 2
		case c >= 0xf0 && c <= 0xf4:
			if d := b.at(i + 1); !isTail(d) || c == 0xf0 && d < 0x90 || c == 0xf4 && d > 0x8f {
				return i, 1
			}
			if !isTail(b.at(i + 2)) {
				return i, 2
			}
			if !isTail(b.at(i + 3)) {
				return i, 3
			}
			i += 4
		default:
			return i, 0
		}
	}
}

// areEightRunes reports whether three words in a row are eight runes of three
// bytes each whose first byte is neither E0 nor ED, which restrict the second.
func areEightRunes(u, v, w uint64) bool {
	// Each word begins at another byte of a rune.
	const (
		fixedU, shapeU, freeU = 0xc0f0c0c0f0c0c0f0, 0x80e08080e08080e0, 0x000f00000f00000f
		fixedV, shapeV, freeV = 0xf0c0c0f0c0c0f0c0, 0xe08080e08080e080, 0x0f00000f00000f00
		fixedW, shapeW, freeW = 0xc0c0f0c0c0f0c0c0, 0x8080e08080e08080, 0x00000f00000f0000
	)
	if (u&fixedU^shapeU)|(v&fixedV^shapeV)|(w&fixedW^shapeW) != 0 {
		return false
	}
	return areFree(u&freeU|v&freeV|w&freeW, ones)
}

// areTwoRunes is the same of the first six bytes of a word.
func areTwoRunes(w uint64) bool {
	const fixed, shape, free, firsts = 0xc0c0f0c0c0f0, 0x8080e08080e0, 0x00000f00000f, 0x000001000001
	return w&fixed == shape && areFree(w&free, firsts)
}

// areFree reports whether the low halves of bytes like E4, those that firsts has a
// one for, are neither 0 nor D.
func areFree(halves, firsts uint64) bool {
	notE0, notED := halves+0xf*firsts, (halves^0xd*firsts)+0xf*firsts // carry where they are not zero
	return notE0&notED&(0x10*firsts) == 0x10*firsts
}

// member notes the member of the outermost object whose value ends before i.
// It is called at the byte after the value, when that is known to be right.
func (s *Scanner) member(b text, i int) {
	if s.which == none {
		return
	}
	from := s.value
	for isSpace(b.at(from)) {
		from++
	}
	for isSpace(b.at(i - 1)) {
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
	// Setting apart bit 0x02 puts the quote, 0x22, beside the control characters.
	return (((w ^ 0x02*ones) - 0x21*ones) | ((w ^ '\\'*ones) - ones) | w) & highs
}

// digits is the number of digits that w begins with.
func digits(w uint64) int {
	x := w ^ '0'*ones
	return bits.TrailingZeros64((x&^highs+(0x80-10)*ones|x)&highs) >> 3
}

// AreDigits reports whether b is all digits.
func AreDigits(b []byte) bool {
	if len(b) <= 8 && cap(b) >= 8 {
		return digits(binary.LittleEndian.Uint64(b[:8])) >= len(b)
	}
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
	}
	return true
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
