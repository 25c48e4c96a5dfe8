package jsonscan

import (
	"encoding/binary"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Names are the names that a scan looks for among the members of the outermost
// object. They are immutable.
type Names struct {
	names []string
	words []uint64 // each name's bytes, little-endian, padded with zeros
}

const (
	maxNames  = 8
	maxLength = 7 // a name and one byte more fit a word
)

// NewNames returns a set of up to eight names of one to seven lower-case ASCII
// letters each. It panics on others: the set is written in a program's source.
func NewNames(names ...string) *Names {
	if len(names) > maxNames {
		panic(fmt.Sprintf("jsonscan: %d names, want at most %d", len(names), maxNames))
	}
	ns := &Names{names: names}
	for _, name := range names {
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
		ns.words = append(ns.words, binary.LittleEndian.Uint64(word[:]))
	}
	return ns
}

// match says which name a member has: the name's index, with otherSpelling
// added where the name is spelled in another way.
type match int8

const (
	none          match = -1
	otherSpelling match = maxNames
)

// find tells which of the names stands in b[from:to], the inside of a string
// that was found to be well-formed.
func (ns *Names) find(b []byte, from, to int) match {
	word, n := firstWord(b, from, to), to-from
	if n <= maxLength {
		for k, name := range ns.words {
			if word == name {
				return match(k)
			}
		}
		// Setting the bit 0x20 turns a letter, and no other byte, into the
		// lower-case letter, so this compares without regard to case.
		lower := word | 0x2020202020202020&(1<<(8*n)-1)
		for k, name := range ns.words {
			if lower == name {
				return match(k) + otherSpelling
			}
		}
	}
	// More is to be seen only where an escape or a rune outside ASCII can hide
	// a letter or a NUL, and that within the length of a name and one more.
	if word&highs == 0 && !hasBackslash(word) {
		return none
	}
	return ns.findDecoded(b[from:to])
}

// firstWord returns the first eight bytes of b[from:to], padded with zeros.
func firstWord(b []byte, from, to int) uint64 {
	n := min(to-from, 8)
	if from+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[from:]) & (1<<(8*n) - 1)
	}
	var word [8]byte
	copy(word[:n], b[from:to])
	return binary.LittleEndian.Uint64(word[:])
}

func hasBackslash(w uint64) bool {
	x := w ^ '\\'*ones
	return (x-ones)&^x&highs != 0
}

// findDecoded compares a name rune by rune with all names at once, after its
// escapes are decoded: it looks at eight runes at most. Another spelling of a
// name is one that is equal under Unicode's simple case folding, as encoding/json
// and others match names, or the name with a NUL after it, where parsers that
// keep names in fixed words stop reading (GHSA-wvj2-96wp-fq3f, GHSA-q382-vc8q-7jhj).
func (ns *Names) findDecoded(raw []byte) match {
	var dropped, folded [maxNames]bool
	for p := 0; ; p++ {
		r, size := DecodeRune(raw)
		alive := false
		for k, name := range ns.names {
			switch {
			case dropped[k]:
				continue
			case p == len(name):
				if size == 0 && !folded[k] {
					return match(k)
				}
				if size == 0 || r == 0 {
					return match(k) + otherSpelling
				}
				dropped[k] = true
			case size == 0 || !equalFold(r, rune(name[p])):
				dropped[k] = true
			default:
				folded[k] = folded[k] || r != rune(name[p])
				alive = true
			}
		}
		if !alive {
			return none
		}
		raw = raw[size:]
	}
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

// equalFold reports whether r is the letter or another case of it.
func equalFold(r, letter rune) bool {
	for f := letter; ; {
		if f == r {
			return true
		}
		if f = unicode.SimpleFold(f); f == letter {
			return false
		}
	}
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
	spans [maxNames]struct{ start, end int }
}

// Span is where the value of the k-th name lies: its first, if there are more.
// It means something only where Seen has k.
func (m *Members) Span(k int) (start, end int) { return m.spans[k].start, m.spans[k].end }

func (m *Members) reset() { m.Seen, m.Again, m.Other = 0, 0, 0 }

func (m *Members) add(which match, start, end int) {
	bit := Set(1) << (which % maxNames)
	switch {
	case which >= otherSpelling:
		m.Other |= bit
	case m.Seen&bit != 0:
		m.Again |= bit
	default:
		m.Seen |= bit
		m.spans[which].start, m.spans[which].end = start, end
	}
}
