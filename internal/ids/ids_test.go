package ids_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stdioguard/stdioguard/internal/ids"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeysOfTheSameIDAreTheSame(t *testing.T) {
	long := strings.Repeat("é", 1000)
	escaped := strings.Repeat(`\u00e9`, 1000)
	seeds := ids.NewSeeds()
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1`, true},
		{`1`, `1.0`, true},
		{`100`, `1e2`, true},
		{`0`, `-0`, true},
		{`-0.0`, `0e5`, true},
		{`9007199254740993`, `9007199254740992`, true},
		{`9223372036854775807`, `9223372036854775808`, true},
		{`1`, `2`, false},
		{`1`, `-1`, false},
		{`1`, `"1"`, false},
		{`"a"`, `"\u0061"`, true},
		{`"/"`, `"\/"`, true},
		{`"\n"`, `"\u000A"`, true},
		{`"😀"`, `"\ud83d\ude00"`, true},
		{`"\ud800"`, "\"\ufffd\"", true},
		{"\"\xff\"", `"\ufffd"`, true},
		{`"` + long + `"`, `"` + escaped + `"`, true},
		{`"` + long + `"`, `"` + escaped + `x"`, false},
		{`"a"`, `"A"`, false},
		{`""`, `"\u0000"`, false},
	} {
		a, ok := seeds.Key([]byte(tt.a))
		require.True(t, ok, tt.a)
		b, ok := seeds.Key([]byte(tt.b))
		require.True(t, ok, tt.b)
		assert.Equal(t, tt.same, a == b, "%.40s and %.40s", tt.a, tt.b)
	}
	other, _ := ids.NewSeeds().Key([]byte(`1`))
	own, _ := seeds.Key([]byte(`1`))
	assert.NotEqual(t, own, other, "keys cannot be guessed")
}

func TestWhatIsNoIDHasNoKey(t *testing.T) {
	for _, id := range []string{"", "null", "true", "false", "{}", "[1]"} {
		_, ok := ids.NewSeeds().Key([]byte(id))
		assert.False(t, ok, "%q", id)
	}
}

// A number is keyed by its value, wherever it lies: with a word's room behind it,
// with other digits there, or at the end of its array.
func TestANumberHasTheKeyOfItsValue(t *testing.T) {
	seeds := ids.NewSeeds()
	for _, digits := range []string{
		"0", "7", "10", "99", "123", "9876", "12345", "987654", "1234567", "90000009", "99999999", "123456789",
		"123456789012345", "1234567890123456", "9007199254740991",
	} {
		want, ok := seeds.Key([]byte(digits + ".0e0"))
		require.True(t, ok)
		for _, behind := range []string{"", "1", "99999999", ",\"method\":", "}\n", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
			array := []byte(digits + behind)
			got, ok := seeds.Key(array[:len(digits):len(array)])
			require.True(t, ok)
			assert.Equal(t, want, got, "%s before %q", digits, behind)
		}
	}
	for _, id := range []string{"-1", "1e5", "1.5", "0.25", "1E+2", "-0.5"} {
		f, err := strconv.ParseFloat(id, 64)
		require.NoError(t, err)
		want, _ := seeds.Key([]byte(strconv.FormatFloat(f, 'f', 12, 64)))
		got, ok := seeds.Key(append([]byte(id), ",\"method\":"...)[:len(id)])
		require.True(t, ok)
		assert.Equal(t, want, got, "%s", id)
	}
}

// Keys from a small range collide, wrap around the table's end and meet again
// after they were removed.
func TestASetAgreesWithAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s ids.Set
		m := map[ids.Key]bool{}
		span := 1 + r.Uint64N(300)
		for range 2000 {
			k := ids.Key(r.Uint64N(span))
			if r.IntN(4) == 0 {
				k <<= 60 // all at home in the first slot
			}
			switch r.IntN(3) {
			case 0:
				s.Add(k)
				m[max(k, 1)] = true
			case 1:
				s.Remove(k)
				delete(m, max(k, 1))
			default:
				require.Equal(t, m[max(k, 1)], s.Has(k))
			}
			require.Equal(t, len(m), s.Len())
		}
	}
}

// Ids in an order, as clients count them and as somebody chooses them who knows how
// they are kept, lie in the table as random ones do, whatever the seeds: three quarters
// full, a search looks at 2.5 slots then. How many it looks at is counted, in a table
// like the set's.
func TestIDsInAnOrderAreSpread(t *testing.T) {
	const slots, n = 1 << 13, 3 << 11
	for _, tt := range []struct {
		name string
		id   func(i int64) int64
	}{
		{"counted from 0", func(i int64) int64 { return i }},
		{"counted from 2^20", func(i int64) int64 { return 1<<20 + i }},
		{"that as float64 differ in high bits only", func(i int64) int64 { return i << 40 }},
		{"that as float64 differ in low bits only", func(i int64) int64 { return 1<<52 + i }},
		{"that as float64 differ in some of each", func(i int64) int64 { return 1<<52 + i&0x7f<<16 + i>>7<<44 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var most float64
			for range 100 {
				seeds := ids.NewSeeds()
				var taken [slots]bool
				looks := 0
				for i := range int64(n) {
					k, _ := seeds.Key(strconv.AppendInt(nil, tt.id(i), 10))
					at := k % slots
					for looks++; taken[at]; looks++ {
						at = (at + 1) % slots
					}
					taken[at] = true
				}
				most = max(most, float64(looks)/n)
			}
			assert.Less(t, most, 4.0, "slots that a search looks at, with the worst of 100 seeds")
		})
	}
}

func TestASetOfAThousandAllocatesNoMoreOnceItHasGrown(t *testing.T) {
	var s ids.Set
	turn := func() {
		for k := range ids.Key(1000) {
			s.Add(k * 0x9e3779b97f4a7c15)
		}
		for k := range ids.Key(1000) {
			s.Remove(k * 0x9e3779b97f4a7c15)
		}
	}
	turn()
	assert.Zero(t, testing.AllocsPerRun(10, turn))
	assert.Zero(t, s.Len())
}
