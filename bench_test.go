package stdioguard_test

// The ratios between the guard and its peers, with their confidence intervals:
//
//	go test -run '^$' -bench 'Read|Worst|Pipe' -count 6 . | benchstat -col /peer -
//
// (benchstat is golang.org/x/perf/cmd/benchstat.) All peers read the same bytes
// in the same process, so that the ratios carry over to another machine where
// the MB/s do not.

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	goccy "github.com/goccy/go-json"
	"github.com/stdioguard/stdioguard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// BenchmarkRead measures the steady state: every peer reads a stream without an
// end that repeats the corpus, one iteration is one corpus, and the first one,
// in which buffers grow, is not timed.
func BenchmarkRead(b *testing.B) {
	for _, c := range benchCorpora() {
		for _, p := range benchPeers {
			b.Run("corpus="+c.name+"/peer="+p.name, func(b *testing.B) {
				benchPasses(b, c, p.start(c, &endlessReader{data: c.data}))
			})
		}
	}
}

// BenchmarkWorst is BenchmarkRead for lines that are made to be slow.
func BenchmarkWorst(b *testing.B) {
	for _, c := range worstCorpora() {
		for _, p := range benchPeers {
			if p.name == "guard" || p.name == "scanner+json.Valid" {
				b.Run("corpus="+c.name+"/peer="+p.name, func(b *testing.B) {
					benchPasses(b, c, p.start(c, &endlessReader{data: c.data}))
				})
			}
		}
	}
}

// BenchmarkPipe reads what another process writes to a pipe.
func BenchmarkPipe(b *testing.B) {
	for _, c := range benchCorpora() {
		for _, p := range pipePeers {
			b.Run("corpus="+c.name+"/peer="+p.name, func(b *testing.B) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), serverEnv+"=a corpus", corpusEnv+"="+c.name)
				pipe, err := cmd.StdoutPipe()
				require.NoError(b, err)
				require.NoError(b, cmd.Start())
				benchPasses(b, c, p.start(c, pipe))
				b.StopTimer()
				require.NoError(b, cmd.Process.Kill())
				assert.Error(b, cmd.Wait())
			})
		}
	}
}

const corpusEnv = "STDIOGUARD_TEST_CORPUS"

// corpusServer writes a corpus for ever.
func corpusServer() int {
	for _, c := range benchCorpora() {
		if c.name == os.Getenv(corpusEnv) {
			io.Copy(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{&endlessReader{data: c.data}})
		}
	}
	return 1
}

// benchPasses times pass, which reads the corpus once.
func benchPasses(b *testing.B, c benchCorpus, pass func() error) {
	require.NoError(b, pass())
	b.SetBytes(int64(len(c.data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := pass(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.lines), "ns/line")
}

// TestReadAllocatesNothing counts the allocations of whole passes, not an
// average, so that one allocation in a thousand lines shows.
func TestReadAllocatesNothing(t *testing.T) {
	for _, c := range benchCorpora() {
		for _, p := range benchPeers[:2] {
			t.Run(c.name+" through "+p.name, func(t *testing.T) {
				pass := p.start(c, &endlessReader{data: c.data})
				for range 2 { // until buffers have the size that the corpus needs
					require.NoError(t, pass())
				}
				assert.Zero(t, fewestAllocs(func() {
					for range 2 {
						require.NoError(t, pass())
					}
				}), "allocations in 2 passes of %d lines", c.lines)
			})
		}
	}
}

// fewestAllocs is the least of a few counts: the runtime and other tests'
// goroutines allocate now and then, but what f itself does is in every count.
func fewestAllocs(f func()) float64 {
	fewest := testing.AllocsPerRun(1, f)
	for range 4 {
		if fewest == 0 {
			break
		}
		fewest = min(fewest, testing.AllocsPerRun(1, f))
	}
	return fewest
}

// TestCorporaPassUnchanged keeps the benchmark honest: a corpus whose lines the
// guard rejects or trims would measure something else.
func TestCorporaPassUnchanged(t *testing.T) {
	for _, c := range benchCorpora() {
		t.Run(c.name, func(t *testing.T) {
			var answers bytes.Buffer
			got, err := io.ReadAll(stdioguard.New(bytes.NewReader(c.data), &answers))
			require.NoError(t, err)
			// Not assert.Equal, which would print megabytes.
			assert.True(t, bytes.Equal(c.data, got), "%d bytes in, %d bytes out, and not the same", len(c.data), len(got))
			assert.Empty(t, answers.String())
		})
	}
}

// benchPeers are the readers that are compared; start returns a function that
// reads one corpus' worth of r each time it is called. The guard's two come first.
var benchPeers = []benchPeer{
	{"guard", passRead},
	{"guard-writeto", passWriteTo},
	{"framing", passFraming},
	{"json.Decoder", passDecoder},
	{"scanner+json.Valid", passScanner(json.Valid)},
	{"scanner+goccy.Valid", passScanner(goccy.Valid)},
	{"handwritten", passHandwritten},
}

var pipePeers = []benchPeer{{"guard", passRead}, {"framing", passFraming}, {"copy", passCopy}}

type benchPeer struct {
	name  string
	start func(c benchCorpus, r io.Reader) (pass func() error)
}

// passRead reads through [stdioguard.Guard.Read].
func passRead(c benchCorpus, r io.Reader) func() error { return passCopy(c, guardCorpus(r)) }

// passCopy only reads. Reads do not end where the corpus does, so what one pass
// reads past it is the next one's.
func passCopy(c benchCorpus, r io.Reader) func() error {
	buf := make([]byte, 64<<10)
	ahead := 0
	return func() error {
		for ahead < len(c.data) {
			n, err := r.Read(buf)
			if err != nil {
				return err
			}
			ahead += n
		}
		ahead -= len(c.data)
		return nil
	}
}

// passWriteTo reads through [stdioguard.Guard.WriteTo]. Only an error ends
// that, so the reader times out where the corpus ends: a guard passes a timeout
// on and reads further afterwards.
func passWriteTo(c benchCorpus, _ io.Reader) func() error {
	g := guardCorpus(&endlessReader{data: c.data, timeouts: true})
	return func() error {
		n, err := g.WriteTo(io.Discard)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("WriteTo returned %v before the corpus ended", err)
		}
		if n != int64(len(c.data)) {
			return fmt.Errorf("WriteTo wrote %d bytes of %d", n, len(c.data))
		}
		return nil
	}
}

// guardCorpus returns a guard as a server has it that asked for the Writer too.
// It panics where a line is rejected: Read would look for a good one for ever.
func guardCorpus(r io.Reader) *stdioguard.Guard {
	g := stdioguard.New(r, io.Discard, stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) { panic(e) }))
	g.Writer()
	return g
}

// passFraming finds each line's newline and copies the line out, as any guard has to.
func passFraming(c benchCorpus, r io.Reader) func() error {
	br := bufio.NewReaderSize(r, 64<<10)
	var frame []byte
	return func() (err error) {
		for range c.lines {
			if frame, err = readFrame(br, frame[:0]); err != nil {
				return err
			}
		}
		return nil
	}
}

// passDecoder is how go-sdk v1.8 reads its input: one decoder over the stream,
// a new RawMessage for each message.
func passDecoder(c benchCorpus, r io.Reader) func() error {
	dec := json.NewDecoder(r)
	return func() error {
		for range c.lines {
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				return err
			}
		}
		return nil
	}
}

func passScanner(valid func([]byte) bool) func(benchCorpus, io.Reader) func() error {
	return func(c benchCorpus, r io.Reader) func() error {
		s := bufio.NewScanner(r)
		s.Buffer(make([]byte, 64<<10), 16<<20)
		return func() error {
			for range c.lines {
				if !s.Scan() {
					return fmt.Errorf("scanner stopped: %v", s.Err())
				}
				if !valid(s.Bytes()) {
					return errors.New("a good line was judged bad")
				}
			}
			return nil
		}
	}
}

// passHandwritten is the filter that people put before an SDK today: collect
// the line, check it, look at the envelope.
func passHandwritten(c benchCorpus, r io.Reader) func() error {
	br := bufio.NewReaderSize(r, 64<<10)
	var frame []byte
	return func() error {
		for range c.lines {
			var err error
			if frame, err = readFrame(br, frame[:0]); err != nil {
				return err
			}
			if !json.Valid(frame) {
				return errors.New("a good line was judged bad")
			}
			var envelope struct {
				JSONRPC string          `json:"jsonrpc"`
				ID      json.RawMessage `json:"id"`
				Method  string          `json:"method"`
			}
			if err := json.Unmarshal(frame, &envelope); err != nil {
				return err
			}
			if envelope.JSONRPC != "2.0" {
				return errors.New("a message was taken for none")
			}
		}
		return nil
	}
}

func readFrame(br *bufio.Reader, frame []byte) ([]byte, error) {
	for {
		part, err := br.ReadSlice('\n')
		frame = append(frame, part...)
		if err != bufio.ErrBufferFull {
			return frame, err
		}
	}
}

// endlessReader repeats data. With timeouts, Read times out each time it has come
// to the end of data.
type endlessReader struct {
	data     []byte
	off      int
	timeouts bool
}

func (r *endlessReader) Read(p []byte) (int, error) {
	if r.off == len(r.data) {
		r.off = 0
		if r.timeouts {
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(p, r.data[r.off:])
	r.off += n
	return n, nil
}

// A benchCorpus is a stream of JSON-RPC messages, one a line.
type benchCorpus struct {
	name  string
	data  []byte
	lines int
}

// benchCorpora are the same bytes in every run: the generators draw from a
// source with a fixed seed.
var benchCorpora = sync.OnceValue(func() []benchCorpus {
	kinds := []struct {
		name    string
		message func(*rand.Rand) []byte
		size    int // of the kind's own corpus
		inMix   int // bytes of the kind in the mix, 8 MiB in all
	}{
		{"small", smallMessage, 1 << 20, 2 << 20},
		{"medium", mediumMessage, 1 << 20, 2 << 20},
		{"text", textMessage, 1 << 20, 1 << 20},
		{"base64", base64Message, 1 << 20, 1 << 20},
		{"cjk", cjkMessage, 1 << 20, 1 << 20},
		{"objects", objectsMessage, 2 << 20, 1 << 20},
	}
	r := rand.New(rand.NewPCG(2, 0))
	var corpora []benchCorpus
	var mix [][]byte
	for _, k := range kinds {
		corpora = append(corpora, joinCorpus(k.name, drawMessages(r, k.message, k.size)))
		mix = append(mix, drawMessages(r, k.message, k.inMix)...)
	}
	r.Shuffle(len(mix), func(i, j int) { mix[i], mix[j] = mix[j], mix[i] })
	return append(corpora, joinCorpus("mix", mix))
})

// worstCorpora are lines of 64 KiB each, of one thing again and again.
var worstCorpora = sync.OnceValue(func() (corpora []benchCorpus) {
	const size = 64 << 10
	filled := func(begin, unit, end string) string {
		n := (size - len(callBegin+begin+end+callEnd)) / len(unit)
		return callBegin + begin + strings.Repeat(unit, n) + end + callEnd
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `,"%x":%s"`, i, `"`+strings.Repeat("a", 50))
	}
	for _, c := range []struct{ name, line string }{
		{"escapes", filled(`,"params":["`, `\n`, `"]`)},
		{"quotes", filled(`,"params":["`, `\"`, `"]`)},
		{"hex escapes", filled(`,"params":["`, `\u00e9`, `"]`)},
		{"surrogates", filled(`,"params":["`, `\ud83d\ude00`, `"]`)},
		{"escapes apart", filled(`,"params":["`, `a\nbc\u00e9`, `"]`)},
		{"two-byte runes", filled(`,"params":["`, "é", `"]`)},
		{"four-byte runes", filled(`,"params":["`, "🙂", `"]`)},
		{"runes apart", filled(`,"params":["`, "aébc中", `"]`)},
		{"brackets", filled(`,"params":[`+nested(990), ","+nested(990), `]`)},
		{"braces", filled(`,"params":[0`, `,`+strings.Repeat(`{"":`, 900)+`0`+strings.Repeat(`}`, 900), `]`)},
		{"commas", filled(`,"params":[0`, `,0`, `]`)},
		{"empty strings", filled(`,"params":[0`, `,""`, `]`)},
		{"short strings", filled(`,"params":[0`, `,"ab"`, `]`)},
		{"empty objects", filled(`,"params":[0`, `,{}`, `]`)},
		{"literals", filled(`,"params":[0`, `,true,null`, `]`)},
		{"numbers", filled(`,"params":[0`, `,-1.5e+3`, `]`)},
		{"blanks", filled(`,"params":[0`, ` `, `]`)},
		{"blanks apart", filled(`,"params":[0`, ` , 0`, `]`)},
		{"1000 members", callBegin + many.String() + callEnd},
		{"short members", filled(``, `,"a":1`, ``)},
		{"names of escapes", filled(``, `,"\u0061\n\u0062":1`, ``)},
		{"one name of escapes", filled(`,"`, `\u0061\n`, `":1`)},
	} {
		corpora = append(corpora, benchCorpus{c.name, []byte(c.line), 1})
	}
	return corpora
})

func drawMessages(r *rand.Rand, message func(*rand.Rand) []byte, size int) (lines [][]byte) {
	// A message may be a little shorter or longer than its kind's size; a line
	// that would only fill up the last per cent is left out.
	for left := size; left > size/100; {
		m := append(message(r), '\n')
		lines = append(lines, m)
		left -= len(m)
	}
	return lines
}

func joinCorpus(name string, lines [][]byte) benchCorpus {
	return benchCorpus{name, bytes.Join(lines, nil), len(lines)}
}

// smallMessage is about 90 bytes: a call, its answer, or a notification.
func smallMessage(r *rand.Rand) []byte {
	id := r.IntN(1e6)
	switch r.IntN(3) {
	case 0:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"n":%d}}}`, id, word(r), r.IntN(100))
	case 1:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}],"ok":true}}`, id, word(r))
	default:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}`, id, r.IntN(100))
	}
}

// mediumMessage is a tool call of 1 to 4 KiB: an edit of a file.
func mediumMessage(r *rand.Rand) []byte {
	size := 1<<10 + r.IntN(3<<10)
	b := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"call-%d","method":"tools/call","params":{"_meta":{"progressToken":%d},"name":"edit_file","arguments":{"path":"/src/%s/%s.go","edits":[`,
		r.IntN(1e6), r.IntN(1e6), word(r), word(r))
	for {
		b = fmt.Appendf(b, `{"line":%d,"old":"`, r.IntN(2000))
		b = appendText(b, r, 60)
		b = append(b, `","new":"`...)
		b = appendText(b, r, 120)
		b = append(b, `"}`...)
		if len(b) > size {
			break
		}
		b = append(b, ',')
	}
	return append(b, `],"dryRun":false}}}`...)
}

// textMessage is a tool's result of 256 KiB of text as it comes out of a file:
// line ends, tabs and quotes escaped, some runes beyond ASCII.
func textMessage(r *rand.Rand) []byte {
	return stringMessage(r, func(b []byte) []byte { return appendText(b, r, 256<<10) })
}

// base64Message is an image of 256 KiB: one string without an escape.
func base64Message(r *rand.Rand) []byte {
	image := make([]byte, 192<<10)
	for i := range image {
		image[i] = byte(r.Uint32())
	}
	return stringMessage(r, func(b []byte) []byte { return base64.StdEncoding.AppendEncode(b, image) })
}

// cjkMessage is 256 KiB of Chinese text: runes of three bytes, few escapes.
func cjkMessage(r *rand.Rand) []byte {
	return stringMessage(r, func(b []byte) []byte {
		for len(b) < 256<<10 {
			for range 5 + r.IntN(20) {
				b = fmt.Appendf(b, "%c", 0x4e00+r.IntN(0x9fa5-0x4e00))
			}
			b = append(b, "。"...)
			if r.IntN(5) == 0 {
				b = append(b, `\n`...)
			}
		}
		return b
	})
}

func stringMessage(r *rand.Rand, appendString func([]byte) []byte) []byte {
	b := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"`, r.IntN(1e6))
	return append(appendString(b), `"}],"isError":false}}`...)
}

// objectsMessage is 1 MiB of rows: many short members, numbers of every form.
func objectsMessage(r *rand.Rand) []byte {
	b := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"structuredContent":{"rows":[`, r.IntN(1e6))
	for {
		b = fmt.Appendf(b, `{"id":%d,"name":"%s","lat":%.6f,"lon":%.6f,"weight":%.3e,"ok":%t,"parent":null,"tags":["%s","%s"],"size":[%d,%d]}`,
			r.Uint32(), word(r), r.Float64()*180-90, r.Float64()*360-180, r.NormFloat64()*1e6,
			r.IntN(2) == 0, word(r), word(r), -r.IntN(1e4), r.IntN(10))
		if len(b) > 1<<20-200 {
			return append(b, `]}}}`...)
		}
		b = append(b, ',')
	}
}

// appendText appends about n bytes of text, escaped to stand in a JSON string.
func appendText(b []byte, r *rand.Rand, n int) []byte {
	for end := len(b) + n; len(b) < end; {
		switch r.IntN(40) {
		case 0, 1, 2:
			b = append(b, `\n`...)
		case 3:
			b = append(b, `\n\t\t`...)
		case 4, 5:
			b = fmt.Appendf(b, `\"%s\" `, word(r))
		case 6:
			b = append(b, `\\`...)
		case 7:
			b = append(b, []string{`\u00e9`, `\u003c`, `\ud83d\ude00`}[r.IntN(3)]...)
		case 8:
			b = append(b, []string{"naïve ", "café ", "→ ", "“so” ", "— ", "🙂 ", "Größe "}[r.IntN(7)]...)
		default:
			b = append(append(b, word(r)...), ' ')
		}
	}
	return b
}

func word(r *rand.Rand) string { return benchWords[r.IntN(len(benchWords))] }

var benchWords = []string{
	"a", "of", "if", "the", "for", "err", "nil", "func", "line", "echo", "read", "byte", "guard", "return",
	"string", "server", "client", "message", "request", "session", "response", "transport", "notification",
}
