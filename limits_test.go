package stdioguard_test

// What an attack costs: memory, which has a bound that the limits give, however long
// the attack goes on; and time, which grows as the attack does and no faster.
//
//	go test -run '^$' -bench Attack .
//
// has the cost of each, and STDIOGUARD_ATTACK_SCALE=16 makes all of them that much
// longer, in tests and benchmarks, under the same bounds.

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	// timesLonger is how many times longer an attack is when it is played at length.
	timesLonger = 16
	// atRest is what a guard holds whatever comes: a buffer for small lines, and the
	// stacks of its scanners.
	atRest = 256 * kib
)

// An attack is a stream of pieces. What it is to cost is said of timesLonger × small pieces.
type attack struct {
	name  string
	small int
	piece func(b []byte, i, n int) []byte    // appends the i-th of n to b
	once  bool                               // it is one line, whose size its bounds are for
	wrap  func(io.Reader) io.Reader          // how the input arrives; nil: as it is asked for
	opts  func(size int) []stdioguard.Option // nil: none

	output bool // the server writes it; else the client sends it
	stuck  bool // and nobody takes what is diverted

	held      int64 // most bytes of heap that are live at any time
	allocated int64 // most bytes allocated from the beginning to the end, so that the peak cannot be more
	garbage   int64 // and for each piece; 0 where nothing is allocated for a piece
	stats     func(n int, size int64) stdioguard.Stats
}

const callBegin, callEnd = `{"jsonrpc":"2.0","id":1,"method":"m"`, "}\n"

var (
	fourKiB    = strings.Repeat("a", 4*kib)
	smallLines = strings.Repeat(pingLine, 64)
)

var attacks = []attack{
	{
		name: "a line without an end", small: 8 * mib / (4 * kib), piece: same(fourKiB),
		opts: longest(mib), held: atRest, allocated: 2 * mib,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: 1, Rejected: 1, Answered: 1, BytesDiscarded: size}
		},
	},
	{
		name: "a line of blanks without an end", small: 8 * mib / (4 * kib), piece: same(strings.Repeat(" \t\r ", kib)),
		opts: longest(mib), held: atRest, allocated: 2 * mib,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: 1, Rejected: 1, Answered: 1, BytesDiscarded: size}
		},
	},
	{
		name: "byte order marks without an end", small: 8 * mib / (4 * kib), piece: same(strings.Repeat(bom, 4*kib/3)),
		opts: longest(mib), held: atRest, allocated: 2 * mib,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: 1, Rejected: 1, Answered: 1, BytesDiscarded: size}
		},
	},
	{
		name: "blank lines", small: 16 * kib, piece: same(" \t\r\n"), held: atRest, allocated: atRest,
		stats: func(n int, size int64) stdioguard.Stats { return stdioguard.Stats{Lines: int64(n), Blank: int64(n)} },
	},
	{
		name: "lines of a byte order mark", small: 16 * kib, piece: same(bom + "\n"), held: atRest, allocated: atRest,
		stats: func(n int, size int64) stdioguard.Stats { return stdioguard.Stats{Lines: int64(n), Blank: int64(n)} },
	},
	{
		name: "a line of the limit's size, byte by byte", once: true, small: 64, piece: inOneLine(callBegin+`,"params":["`, strings.Repeat("a", kib), `"]`+callEnd),
		wrap: iotest.OneByteReader,
		opts: func(size int) []stdioguard.Option { return longest(size - 1)(size) }, held: mib + atRest, allocated: 2*mib + atRest,
		stats: func(_ int, size int64) stdioguard.Stats { return stdioguard.Stats{Lines: 1, Forwarded: 1, Pending: 1} },
	},
	{
		name: "bad lines", small: 16 * kib, piece: same("x\n"), held: atRest, allocated: atRest,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: int64(n), Rejected: int64(n), Answered: 256, Withheld: int64(n) - 256}
		},
	},
	{
		name: "requests without an answer", small: 16 * kib, piece: numbered(`{"jsonrpc":"2.0","id":`, `,"method":"m"}`+"\n"),
		held: 22*65536 + atRest, allocated: 3*mib + atRest,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: int64(n), Forwarded: int64(n), Pending: min(n, 65536)}
		},
	},
	{
		name: "ids that an unseeded hash of numbers puts in one place", small: 4 * kib, piece: func(b []byte, i, _ int) []byte {
			b = strconv.AppendInt(append(b, `{"jsonrpc":"2.0","id":`...), int64(i)<<20, 10)
			return append(b, `,"method":"m"}`+"\n"...)
		},
		held: 22*65536 + atRest, allocated: 3*mib + atRest,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: int64(n), Forwarded: int64(n), Pending: min(n, 65536)}
		},
	},
	{
		name: "ids that an unseeded hash of strings puts in one place", small: 4 * kib, piece: func(b []byte, i, _ int) []byte {
			b = append(b, `{"jsonrpc":"2.0","id":"`...)
			for bit := range 20 { // of one hash by the rule of Java's and Go's old string hashes, 31*h + c
				b = append(b, []string{"Aa", "BB"}[i>>bit&1]...)
			}
			return append(b, `","method":"m"}`+"\n"...)
		},
		held: 22*65536 + atRest, allocated: 3*mib + atRest,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: int64(n), Forwarded: int64(n), Pending: min(n, 65536)}
		},
	},
	{
		name: "cancellations of unknown ids", small: 16 * kib, piece: numbered(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`, "}}\n"),
		held: atRest, allocated: atRest, garbage: 512,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: int64(n), Forwarded: int64(n)}
		},
	},
	{
		name: "requests with ids of 1 MiB", small: 13 * 258, piece: inLines(256, `{"jsonrpc":"2.0","method":"m","id":"`, fourKiB, `"`+callEnd),
		held: defaultLine + mib, allocated: defaultLine + 2*mib,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: int64(n / 258), Forwarded: int64(n / 258), Pending: n / 258}
		},
	},
	{
		name: "member names of 1 MiB", small: 2 * 258, piece: inLines(256, callBegin+`,"`, fourKiB, `":1`+callEnd),
		held: defaultLine + mib, allocated: defaultLine + 2*mib,
		stats: pendingOne(258),
	},
	{
		name: "member names of 1 MiB, all escapes", small: 2 * 258, piece: inLines(256, callBegin+`,"`, strings.Repeat(`\u0069\n`, kib/2), `":1`+callEnd),
		held: defaultLine + mib, allocated: defaultLine + 2*mib,
		stats: pendingOne(258),
	},
	{
		name: "a line over 1 MiB before every 64 small ones", small: 2 * 260,
		piece: func(b []byte, i, n int) []byte {
			switch i % 260 {
			case 0:
				return append(append(b, callBegin...), `,"params":["`...)
			case 258:
				return append(append(b, `"]`...), callEnd...)
			case 259:
				return append(b, smallLines...)
			}
			return append(b, fourKiB...)
		},
		held: defaultLine + mib, allocated: mib, garbage: 24 * mib / 260,
		stats: func(n int, _ int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: int64(n / 260 * 65), Forwarded: int64(n / 260 * 65), Pending: 1}
		},
	},
	{
		name: "100 000 members", once: true, small: 63, piece: inOneLine(callBegin, strings.Repeat(`,"a":1`, 100), callEnd),
		held: mib + atRest, allocated: mib + atRest,
		stats: func(_ int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: 1, Forwarded: 1, Pending: 1}
		},
	},
	{
		name: "100 000 members that are the same", once: true, small: 63, piece: inOneLine(callBegin, strings.Repeat(`,"id":1`, 100), callEnd),
		held: mib + atRest, allocated: mib + atRest,
		stats: func(_ int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: 1, Rejected: 1, Answered: 1}
		},
	},
	{
		name: "100 000 members that are one in all escapes", once: true, small: 63, piece: inOneLine(callBegin, strings.Repeat(`,"\u006D\u0045\u0074\u0068\u006f\u0064":1`, 100), callEnd),
		held: defaultLine + mib, allocated: defaultLine + 2*mib,
		stats: func(_ int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: 1, Rejected: 1, Answered: 1}
		},
	},
	{
		name: "lines as deep as the limit", small: 256, piece: same(callBegin + `,"params":` + nested(999) + callEnd),
		held: atRest, allocated: atRest,
		stats: pendingOne(1),
	},
	{
		name: "lines as deep as the deepest limit", small: 32, piece: same(callBegin + `,"params":` + nested(9999) + callEnd),
		opts: limits(stdioguard.Limits{Depth: 10_000}), held: atRest, allocated: atRest,
		stats: pendingOne(1),
	},
	{
		name: "brackets that do not close", small: 64, piece: same(strings.Repeat("[", 64*kib-1) + "\n"),
		held: atRest, allocated: atRest,
		stats: func(n int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Lines: int64(n), Rejected: int64(n), Answered: min(int64(n), 256), Withheld: max(0, int64(n)-256)}
		},
	},
	{
		name: "the beginning of a message, and on without an end", output: true, small: 256, piece: inOneLine(`{"jsonrpc":"2.0","id":1,"result":"`, fourKiB, ""),
		opts: heldUpTo(4 * mib), held: 6 * mib, allocated: 32 * mib,
		stats: allDiverted,
	},
	{
		name: "objects that do not close", output: true, small: 256, piece: same(strings.Repeat(`{"jsonrpc":"2.0","x":`, 100)),
		held: 2 * atRest, allocated: 2 * mib,
		stats: func(_ int, size int64) stdioguard.Stats {
			// One that is deeper than the scanner can hold is text; the last is held.
			size -= size % int64(10_000*len(`{"jsonrpc":"2.0","x":`))
			return allDiverted(0, size)
		},
	},
	{
		name: "lines that almost are messages", output: true, small: 8 * kib, piece: same(`{"jsonrpc":"2.0","id":1,"result":{}` + "\n"),
		held: atRest, allocated: atRest,
		stats: allDiverted,
	},
	{
		name: "lines that almost are messages, which nobody takes", output: true, stuck: true, small: 8 * kib, piece: same(`{"jsonrpc":"2.0","id":1,"result":{}` + "\n"),
		held: 6 * mib, allocated: 32 * mib,
		stats: func(_ int, size int64) stdioguard.Stats {
			return stdioguard.Stats{Diverted: size, DiversionLost: size - 4*mib}
		},
	},
	{
		name: "requests of the server without an answer", output: true, small: kib,
		piece: numbered(`{"jsonrpc":"2.0","id":"`+strings.Repeat("a", 1000), `","method":"m"}`+"\n"),
		opts:  limits(stdioguard.Limits{Pending: 4096}), held: 4096*1536 + atRest, allocated: 4096*4096 + atRest,
		stats: func(n int, size int64) stdioguard.Stats { return stdioguard.Stats{Written: int64(n)} },
	},
}

func limits(l stdioguard.Limits) func(int) []stdioguard.Option {
	return func(int) []stdioguard.Option { return []stdioguard.Option{stdioguard.WithLimits(l)} }
}

func longest(n int) func(int) []stdioguard.Option  { return limits(stdioguard.Limits{Line: n}) }
func heldUpTo(n int) func(int) []stdioguard.Option { return limits(stdioguard.Limits{Held: n}) }

// same is one piece again and again.
func same(text string) func([]byte, int, int) []byte {
	return func(b []byte, _, _ int) []byte { return append(b, text...) }
}

// numbered has the piece's number in its middle.
func numbered(before, after string) func([]byte, int, int) []byte {
	return func(b []byte, i, _ int) []byte {
		b = append(b, before...)
		b = strconv.AppendInt(b, int64(i), 10)
		return append(b, after...)
	}
}

// inOneLine is one line of all pieces.
func inOneLine(begin, middle, end string) func([]byte, int, int) []byte {
	return func(b []byte, i, n int) []byte {
		switch i {
		case 0:
			return append(b, begin...)
		case n - 1:
			return append(b, end...)
		}
		return append(b, middle...)
	}
}

// inLines is a line of every units + 2 pieces, with its number before the first unit.
func inLines(units int, begin, unit, end string) func([]byte, int, int) []byte {
	return func(b []byte, i, _ int) []byte {
		switch line := i / (units + 2); i % (units + 2) {
		case 0:
			return strconv.AppendInt(append(b, begin...), int64(line), 10)
		case units + 1:
			return append(b, end...)
		}
		return append(b, unit...)
	}
}

// allDiverted is for output that nobody wants.
func allDiverted(_ int, size int64) stdioguard.Stats {
	return stdioguard.Stats{Diverted: size, DiversionLost: size}
}

// pendingOne is for lines of so many pieces that all have one id.
func pendingOne(pieces int) func(int, int64) stdioguard.Stats {
	return func(n int, _ int64) stdioguard.Stats {
		return stdioguard.Stats{Lines: int64(n / pieces), Forwarded: int64(n / pieces), Pending: 1}
	}
}

// A pieces is a reader of n pieces, and a sequence of them. It holds one.
type pieces struct {
	attack  *attack
	n, i    int
	buf     []byte
	left    []byte // of buf, not yet read
	size    int64  // of the pieces so far
	look    func() // nil, or called now and then
	lookAll int    // after so many pieces
}

func (p *pieces) next() bool {
	if p.look != nil && p.i%p.lookAll == 0 {
		p.look()
	}
	if p.i == p.n {
		return false
	}
	p.buf = p.attack.piece(p.buf[:0], p.i, p.n)
	p.i++
	p.left = p.buf
	p.size += int64(len(p.buf))
	return true
}

func (p *pieces) Read(b []byte) (n int, err error) {
	for n < len(b) {
		if len(p.left) == 0 && !p.next() {
			return n, io.EOF
		}
		took := copy(b[n:], p.left)
		p.left = p.left[took:]
		n += took
	}
	return n, nil
}

// sizeOf is how many bytes n pieces are.
func (a *attack) sizeOf(n int) int {
	p := &pieces{attack: a, n: n}
	for p.next() {
	}
	return int(p.size)
}

// play plays n pieces at a new guard, which is looked at at some moments.
func (a *attack) play(t testing.TB, n, size int, look func()) stdioguard.Stats {
	p := &pieces{attack: a, n: n, look: look, lookAll: max(1, n/8)}
	opts := []stdioguard.Option{stdioguard.WithDrain(0), stdioguard.WithDiversion(nil)}
	if a.opts != nil {
		opts = append(opts, a.opts(size)...)
	}
	if a.stuck {
		release := make(chan struct{})
		defer close(release)
		opts = append(opts, stdioguard.WithDiversion(writerFunc(func(p []byte) (int, error) {
			<-release
			return len(p), nil
		})))
	}
	var r io.Reader = p
	if a.wrap != nil {
		r = a.wrap(r)
	}
	if a.output {
		r = strings.NewReader("")
	}
	g := stdioguard.New(r, io.Discard, opts...)
	w := g.Writer()
	if a.output {
		for p.next() {
			_, err := w.Write(p.buf)
			require.NoError(t, err)
		}
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{g}, make([]byte, 32*kib))
	require.NoError(t, err)
	stats := g.Stats()
	if !a.output {
		assert.Equal(t, p.size, stats.BytesIn)
	}
	return stats
}

func (a *attack) atLength() int {
	scale, err := strconv.Atoi(os.Getenv("STDIOGUARD_ATTACK_SCALE"))
	if err != nil || a.once {
		scale = 1
	}
	return timesLonger * a.small * scale
}

// heap returns the live bytes, and all that were ever allocated.
func heap() (live, allocated int64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first finalized
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.TotalAlloc)
}

// Not parallel: it measures the whole process.
func TestAttacksTakeBoundedMemory(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			n := a.atLength()
			size := a.sizeOf(n)
			var held int64
			idle, before := heap()
			stats := a.play(t, n, size, func() {
				live, _ := heap()
				held = max(held, live-idle)
			})
			_, after := heap()
			t.Logf("%d MiB: %d KiB held, %d KiB allocated, %.1f bytes a piece", size/mib, held/kib, (after-before)/kib, float64(after-before)/float64(n))
			assert.LessOrEqual(t, held, a.held, "held")
			assert.LessOrEqual(t, after-before, a.allocated+a.garbage*int64(n), "allocated")
			want := a.stats(n, int64(size))
			if !a.output {
				want.BytesIn = int64(size)
			}
			assert.Equal(t, want, stats)
		})
	}
}

// What is played eight times at small size and what is played once at eight times that
// size are as many bytes, and take as long on a busy machine as on an idle one. Where
// time is quadratic, the second takes eight times as long, however often it is tried.
func TestAttacksTakeLinearTime(t *testing.T) {
	if hasRaceDetector() {
		t.Skip("it would be the detector's time")
	}
	const times, factor, tries = 8, 3, 10
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			n := a.atLength() / timesLonger
			small, large := a.sizeOf(n), a.sizeOf(times*n)
			bySmall, byLarge := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
			for range tries {
				begin := time.Now()
				for range times {
					a.play(t, n, small, nil)
				}
				between := time.Now()
				a.play(t, times*n, large, nil)
				bySmall = min(bySmall, between.Sub(begin))
				byLarge = min(byLarge, time.Since(between))
				if byLarge <= factor*bySmall {
					break
				}
			}
			t.Logf("%v, and %v at length", bySmall, byLarge)
			assert.LessOrEqual(t, byLarge, factor*bySmall, "for %d bytes at length, and in %d pieces", large, times)
		})
	}
}

func BenchmarkAttack(b *testing.B) {
	for _, a := range attacks {
		b.Run("attack="+a.name, func(b *testing.B) {
			n := a.atLength()
			size := a.sizeOf(n)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				a.play(b, n, size, nil)
			}
		})
	}
}

// As many small lines as it takes, and one more read, which may find nothing.
func TestAHundredSmallLinesGiveTheBufferBack(t *testing.T) {
	idle, _ := heap()
	var largest, last int64
	look := func(live *int64) io.Reader {
		return iotest.OneByteReader(steps(func() { *live, _ = heap(); *live -= idle }))
	}
	begin, end := callBegin+`,"params":["`, `"]`+callEnd
	long := &endless{n: defaultLine - len(begin) - len(end) + 1, atEnd: func() {}, started: true}
	g := stdioguard.New(io.MultiReader(
		strings.NewReader(begin), long, strings.NewReader(end), look(&largest),
		strings.NewReader(strings.Repeat(pingLine, 100)), look(&last),
	), io.Discard, stdioguard.WithDrain(0))
	g.Writer()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{g}, make([]byte, 32*kib))
	require.NoError(t, err)
	assert.EqualValues(t, defaultLine+1+100*len(pingLine), n)
	assert.Greater(t, largest-last, int64(defaultLine-mib), "given back after the long line")
	assert.Less(t, last, int64(2*mib), "after the small ones")
	runtime.KeepAlive(g)
}

func TestAStreamOfLongLinesKeepsItsBuffer(t *testing.T) {
	for _, tt := range []struct {
		name string
		unit string
	}{
		{"of 1 MiB less the newline", messageOf(mib-1) + "\n"},
		{"of 1 MiB and the newline", messageOf(mib) + "\n"},
		{"of 1 MiB and the newline with 60 small ones between", messageOf(mib) + "\n" + strings.Repeat(pingLine, 60)},
		{"of the limit's size", messageOf(defaultLine) + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := []byte(strings.Repeat(tt.unit, 2))
			pass := passRead(benchCorpus{data: data}, &endlessReader{data: data})
			require.NoError(t, pass())
			assert.Zero(t, fewestAllocs(func() { require.NoError(t, pass()) }), "allocations in a pass")
		})
	}
}

// A process that is attacked, as the system sees it: with what the collector has not
// freed, and what the runtime has not given back.
const attackEnv = "STDIOGUARD_TEST_ATTACK"

func TestAttacksTakeBoundedMemoryOfAProcess(t *testing.T) {
	if os.Getenv(attackEnv) != "" {
		attackedProcess(t)
		return
	}
	if _, err := peakMemory(); err != nil {
		t.Skip("only Linux tells a process's peak memory: ", err)
	}
	if hasRaceDetector() {
		t.Skip("the race detector holds more than what it looks at")
	}
	lineOfTheLimit := attack{
		name: "a line of the default limit", small: 64,
		piece: inOneLine(callBegin+`,"params":["`, strings.Repeat("a", 16*kib), `"]`+callEnd),
	}
	for _, tt := range []struct {
		attack *attack
		n      int
		over   int64 // most bytes over idle
	}{
		{&lineOfTheLimit, 1024, defaultLine * 16 / 10},
		{attackOf("a line without an end"), 64 * mib / (4 * kib), defaultLine * 16 / 10},
		{attackOf("requests with ids of 1 MiB"), 200 * 258, defaultLine * 16 / 10},
		{attackOf("bad lines"), mib, 4 * mib},
		{attackOf("requests without an answer"), mib, 8 * mib},
	} {
		t.Run(tt.attack.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()[:strings.IndexByte(t.Name(), '/')]+"$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), attackEnv+"=yes")
			cmd.Stdin = io.MultiReader(strings.NewReader(warmUp), &pieces{attack: tt.attack, n: tt.n})
			var report strings.Builder
			cmd.Stderr = &report
			require.NoError(t, cmd.Run())
			var idle, peak, lines int64
			_, err := fmt.Sscan(report.String(), &idle, &peak, &lines)
			require.NoError(t, err, report.String())
			t.Logf("%d KiB over %d KiB, %d lines", (peak-idle)/kib, idle/kib, lines)
			assert.Greater(t, lines, int64(2000), "the attack came")
			assert.LessOrEqual(t, peak-idle, tt.over)
		})
	}
}

// warmUp is what the process is idle after: it has loaded all code that it runs.
var warmUp = strings.Repeat(pingLine+"x\n", 1000)

// attackedProcess reads standard input to its end through a guard with default limits.
func attackedProcess(t *testing.T) {
	g := stdioguard.New(os.Stdin, io.Discard, stdioguard.WithDrain(0))
	g.Writer()
	buf := make([]byte, 32*kib)
	warm := int64(1000 * len(pingLine))
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(g, warm), buf)
	require.NoError(t, err)
	debug.FreeOSMemory()                                                      // what this binary's tables took to make
	require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // the peak is now
	idle, err := peakMemory()
	require.NoError(t, err)
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{g}, buf)
	require.NoError(t, err)
	peak, err := peakMemory()
	require.NoError(t, err)
	fmt.Fprintln(os.Stderr, idle, peak, g.Stats().Lines)
}

// peakMemory returns the most memory that this process has held so far, in bytes.
func peakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var n int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &n); err == nil {
			return n * kib, nil
		}
	}
	return 0, errors.New("no VmHWM in /proc/self/status")
}

func hasRaceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func attackOf(name string) *attack {
	return &attacks[slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })]
}
