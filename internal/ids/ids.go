// Package ids keeps sets of JSON-RPC ids in a few bytes each, however long the
// ids are.
package ids

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"unicode/utf8"

	"github.com/stdioguard/stdioguard/internal/jsonscan"
)

// A Key stands for an id. Ids that a peer may write in another way have the same
// key: strings are compared decoded, with U+FFFD for what cannot be decoded, and
// numbers as float64 has them, -0 being 0, since SDKs decode and encode them. Two
// ids that differ have the same key by chance only; the seeds keep a peer from
// choosing such ids.
type Key uint64

// Seeds make the keys of one guard.
type Seeds struct {
	str      maphash.Seed
	num, mul uint64
}

// NewSeeds returns new random seeds.
func NewSeeds() Seeds { return Seeds{maphash.MakeSeed(), rand.Uint64(), rand.Uint64() | 1} }

// Key returns the key of an id as it stands in a message: a string with its
// quotes, or a number. For anything else it returns false.
func (s Seeds) Key(id []byte) (Key, bool) {
	switch {
	case len(id) == 0:
		return 0, false
	case id[0] == '"':
		return s.stringKey(id[1 : len(id)-1]), true
	case id[0] == '-' || '0' <= id[0] && id[0] <= '9':
		return s.numberKey(id), true
	}
	return 0, false
}

func (s Seeds) stringKey(raw []byte) Key {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return Key(maphash.Bytes(s.str, raw))
	}
	var h maphash.Hash
	h.SetSeed(s.str)
	var decoded [64]byte
	n := 0
	for len(raw) > 0 {
		r, size := jsonscan.DecodeRune(raw)
		raw = raw[size:]
		n += utf8.EncodeRune(decoded[n:], r)
		if n > len(decoded)-utf8.UTFMax {
			h.Write(decoded[:n])
			n = 0
		}
	}
	h.Write(decoded[:n])
	return Key(h.Sum64())
}

func (s Seeds) numberKey(id []byte) Key {
	f := float(id)
	if f == 0 {
		f = 0 // of either sign
	}
	// A product that is folded mixes 64 bits, at less cost than a hash of bytes; what
	// follows spreads ids that come in an order over the table.
	hi, lo := bits.Mul64(math.Float64bits(f)^s.num, s.mul)
	k := hi ^ lo
	k = (k ^ k>>32) * 0xd6e8feb86659fd93
	return Key(k ^ k>>32)
}

// float returns a JSON number as a float64, an infinity where it is too large.
func float(id []byte) float64 {
	if n, ok := eightDigits(id); ok {
		return float64(n)
	}
	if len(id) <= 15 { // exact as an integer
		n, digits := int64(0), id
		if id[0] == '-' {
			digits = id[1:]
		}
		for _, c := range digits {
			if c -= '0'; c > 9 {
				return parseFloat(id)
			}
			n = 10*n + int64(c)
		}
		if id[0] == '-' {
			n = -n
		}
		return float64(n)
	}
	return parseFloat(id)
}

// eightDigits returns the value of up to eight digits, which are taken as one word.
// That may reach beyond id, where it has the capacity.
func eightDigits(id []byte) (n uint64, ok bool) {
	if len(id) == 0 || len(id) > 8 || cap(id) < 8 {
		return 0, false
	}
	const zeros, highs = 0x3030303030303030, 0x8080808080808080
	n = (binary.LittleEndian.Uint64(id[:8]) ^ zeros) << (64 - 8*len(id))
	if (n|(n&^highs+0x7676767676767676))&highs != 0 { // a byte is above 9
		return 0, false
	}
	// Two, four, then eight digits to a number, the first in the lowest bits.
	n = (10*n + n>>8) & 0x00ff00ff00ff00ff
	n = (100*n + n>>16) & 0x0000ffff0000ffff
	return (10000*n + n>>32) & 0xffffffff, true
}

func parseFloat(id []byte) float64 {
	f, _ := strconv.ParseFloat(string(id), 64)
	return f
}

// A Set is a set of keys: an open-addressed table with linear probing. The zero
// value is empty, ready to use, and holds no memory.
type Set struct {
	table []Key // a power of two long, at most three quarters full; 0 is a free slot
	n     int
}

// Len returns the number of keys.
func (s *Set) Len() int { return s.n }

// Has reports whether k is in the set.
func (s *Set) Has(k Key) bool {
	if s.n == 0 {
		return false
	}
	return s.table[s.find(nonzero(k))] != 0
}

// Add adds k.
func (s *Set) Add(k Key) {
	if 4*(s.n+1) > 3*len(s.table) {
		s.grow()
	}
	k = nonzero(k)
	if i := s.find(k); s.table[i] == 0 {
		s.table[i] = k
		s.n++
	}
}

// Remove removes k, if it is there.
func (s *Set) Remove(k Key) {
	if s.n == 0 {
		return
	}
	i := s.find(nonzero(k))
	if s.table[i] == 0 {
		return
	}
	s.n--
	// Move up what the gap would cut off from where its search begins.
	mask := len(s.table) - 1
	for gap := i; ; {
		i = (i + 1) & mask
		k := s.table[i]
		if k == 0 {
			s.table[gap] = 0
			return
		}
		if home := int(k) & mask; (i-home)&mask >= (i-gap)&mask {
			s.table[gap] = k
			gap = i
		}
	}
}

// find returns the slot of k, or the free one where it would be.
func (s *Set) find(k Key) int {
	mask := len(s.table) - 1
	i := int(k) & mask
	for s.table[i] != 0 && s.table[i] != k {
		i = (i + 1) & mask
	}
	return i
}

func (s *Set) grow() {
	old := s.table
	s.table = make([]Key, max(16, 2*len(old)))
	for _, k := range old {
		if k != 0 {
			s.table[s.find(k)] = k
		}
	}
}

// nonzero gives the key 0, which marks a free slot, another value.
func nonzero(k Key) Key {
	if k == 0 {
		return 1
	}
	return k
}
