package jsonscan

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Names are the names that a scan looks for among the members of the outermost
// object. They are immutable.
type Names struct {
	words    [2 * maxNames]uint64 // each name's bytes, little-endian, padded with zeros; after them noName
	byLetter [32]uint8            // where in words the name is that begins with the letter
	opening  *opening             // nil: none
}

// noName is a word that no plain ASCII is equal to, in either case.
const noName = math.MaxUint64

const (
	maxNames  = 8
	maxLength = 7 // a name and one byte more fit a word
)

// NewNames returns a set of up to eight names of one to seven lower-case ASCII
// letters each, no two of which begin with the same letter. It panics on others:
// the set is written in a program's source.
func NewNames(names ...string) *Names {
	if len(names) > maxNames {
		panic(fmt.Sprintf("jsonscan: %d names, want at most %d", len(names), maxNames))
	}
	ns := new(Names)
	ns.words[len(names)] = noName
	for letter := range ns.byLetter {
		ns.byLetter[letter] = uint8(len(names))
	}
	for k, name := range names {
		if len(name) == 0 || len(name) > maxLength {
			panic(fmt.Sprintf("jsonscan: name %q, want 1 to %d letters", name, maxLength))
		}
		var word [8]byte
		for i, c := range []byte(name) {
			if c < 'a' || c > 'z' {
				panic(fmt.Sprintf("jsonscan: name %q, want lower-case letters", name))
			}
			word[i] = c
		}
		if ns.byLetter[name[0]%32] != uint8(len(names)) {
			panic(fmt.Sprintf("jsonscan: name %q begins like another", name))
		}
		ns.byLetter[name[0]%32] = uint8(k)
		ns.words[k] = binary.LittleEndian.Uint64(word[:])
	}
	return ns
}

// An opening is what many texts begin with, and where the machine stands behind it.
type opening struct {
	words   [openingSize / 8]uint64
	machine machine
	open    int // the object, as a Scanner notes it
}

const openingSize = 16

// WithOpening returns the same names for texts of which many begin alike: those are
// scanned on from behind the opening, which is 16 bytes long and ends where the value
// of the outermost object's first member does. It panics on others.
func (ns *Names) WithOpening(text string) *Names {
	s := New(1)
	if s.Value([]byte(text+"\n"), ns) != Truncated || len(text) != openingSize || s.state != afterValue {
		panic(fmt.Sprintf("jsonscan: opening %q, want a member of %d bytes with its bracket", text, openingSize))
	}
	with := *ns
	with.opening = &opening{machine: s.machine, open: s.open[1]}
	for i := range with.opening.words {
		with.opening.words[i] = binary.LittleEndian.Uint64([]byte(text[8*i:]))
	}
	return &with
}

// begins reports whether the text begins with the opening.
func (o *opening) begins(b []byte) bool {
	return o != nil && len(b) > openingSize &&
		binary.LittleEndian.Uint64(b) == o.words[0] && binary.LittleEndian.Uint64(b[8:]) == o.words[1]
}

// match says which name a member has: the name's index, with otherSpelling
// added where the name is spelled in another way.
type match int8

const (
	none          match = -1
	otherSpelling match = maxNames
)

// findShort tells which of the names the bytes of word are, padded with zeros,
// where they are plain: no backslash and nothing outside ASCII among them.
func (ns *Names) findShort(word uint64) match {
	k := ns.byLetter[word%32]
	name := ns.words[k%(2*maxNames)]
	if word == name {
		return match(k)
	}
	// The name's letters have the bit 0x20, which capitals lack.
	if (word^name)&^(name&(0x20*ones)) == 0 {
		return match(k) + otherSpelling
	}
	return none
}

// find tells which of the names raw is, the inside of a string that was found to
// be well-formed.
func (ns *Names) find(raw []byte) match {
	var first [8]byte
	copy(first[:], raw)
	word := binary.LittleEndian.Uint64(first[:])
	switch {
	case word&highs != 0 || hasBackslash(word):
		// An escape or a rune outside ASCII can hide a letter or a NUL. Further
		// on than the length of a name and one more it would not matter.
		return ns.findDecoded(raw)
	case len(raw) <= maxLength:
		return ns.findShort(word)
	}
	return none
}

func hasBackslash(w uint64) bool {
	x := w ^ '\\'*ones
	return (x-ones)&^x&highs != 0
}

// findDecoded looks at eight runes at most, after their escapes are decoded. Another
// spelling of a name is one that is equal under Unicode's simple case folding, as
// encoding/json and others match names, or the name with a NUL after it, where parsers
// that keep names in fixed words stop reading (GHSA-wvj2-96wp-fq3f, GHSA-q382-vc8q-7jhj).
func (ns *Names) findDecoded(raw []byte) match {
	word := uint64(0)
	for shift := 0; shift < 64; shift += 8 {
		r, size := DecodeRune(raw)
		if size == 0 {
			return ns.findShort(word)
		}
		if r == 0 {
			if m := ns.findShort(word); m != none {
				return m | otherSpelling
			}
			return none
		}
		if r >= utf8.RuneSelf {
			if r = unicode.SimpleFold(r); r >= utf8.RuneSelf {
				return none
			}
		}
		word |= uint64(r) << shift
		raw = raw[size:]
	}
	return none
}

// DecodeRune decodes the rune or the escape that b begins with, where b is the
// inside of a string that was found to be well-formed. The size is 0 at the end.
// What cannot be decoded, a lone surrogate or a byte that is not UTF-8, comes
// out as U+FFFD, as encoding/json has it.
func DecodeRune(b []byte) (r rune, size int) {
	if len(b) == 0 || b[0] != '\\' {
		return utf8.DecodeRune(b)
	}
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r = hex4(b[2:])
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if r = utf16.DecodeRune(r, hex4(b[8:])); r != utf8.RuneError {
				return r, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(b[1]), 2
}

// hex4 returns the value of four hexadecimal digits.
func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

// A Set is a set of names: bit k stands for the k-th.
type Set uint8

// Has reports whether the k-th name is in the set.
func (s Set) Has(k int) bool { return s>>k&1 != 0 }

// Members says which of the names an object has.
type Members struct {
	Seen  Set // names that stand there, exactly
	Again Set // names that stand there more than once
	Other Set // names that stand there in another spelling
	spans [maxNames]span
}

type span struct{ start, end int }

// Span is where the value of the k-th name lies: its last, if there are more.
// It means something only where Seen has k.
func (m *Members) Span(k int) (start, end int) { return m.spans[k].start, m.spans[k].end }

func (m *Members) reset() { m.Seen, m.Again, m.Other = 0, 0, 0 }

func (m *Members) add(which match, start, end int) {
	if which >= otherSpelling {
		m.Other |= 1 << (which - otherSpelling)
		return
	}
	bit := Set(1) << which
	m.Again |= m.Seen & bit
	m.Seen |= bit
	m.spans[which%maxNames] = span{start, end}
}
