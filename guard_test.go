package stdioguard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stdioguard/stdioguard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const pingLine = ping + "\n"

func TestWhatNoGuardCanBeMadeOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func()
	}{
		{"no reader", func() { stdioguard.New(nil, io.Discard) }},
		{"a negative line limit", func() { newWith(stdioguard.Limits{Line: -1}) }},
		{"a negative depth", func() { newWith(stdioguard.Limits{Depth: -1}) }},
		{"a depth that encoding/json cannot take", func() { newWith(stdioguard.Limits{Depth: 10_001}) }},
		{"answers of an unknown kind", func() { stdioguard.WithAnswers(3) }},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Panics(t, tt.make) })
	}
	assert.NotPanics(t, func() { newWith(stdioguard.Limits{Line: 1, Depth: 10_000, Answers: -1}) })
}

func newWith(l stdioguard.Limits) *stdioguard.Guard {
	return stdioguard.New(strings.NewReader(""), io.Discard, stdioguard.WithLimits(l))
}

func TestWithLimitsReplacesAllLimits(t *testing.T) {
	g := stdioguard.New(strings.NewReader("[[]]\n"+pingLine), io.Discard,
		stdioguard.WithLimits(stdioguard.Limits{Line: 3}), stdioguard.WithLimits(stdioguard.Limits{Depth: 1}), stdioguard.WithAnyJSON())
	got, err := io.ReadAll(g)
	require.NoError(t, err)
	assert.Equal(t, pingLine, string(got), "the depth alone is limited")
}

// A Stats that is asked for from a RejectFunc has counted the line.
func TestARejectFuncMayUseTheGuard(t *testing.T) {
	var g *stdioguard.Guard
	var seen []stdioguard.Stats
	g = stdioguard.New(strings.NewReader("x\n\n"+pingLine+"y\n"+pingLine), io.Discard, stdioguard.WithRejectFunc(func(*stdioguard.FrameError) {
		seen = append(seen, g.Stats())
		_, err := g.Writer().Write([]byte("{}\n"))
		assert.NoError(t, err)
		if len(seen) == 2 {
			assert.NoError(t, g.Close())
		}
	}))
	got, err := io.ReadAll(g)
	require.NoError(t, err)
	assert.Equal(t, pingLine, string(got), "closed after the second bad line")
	require.Len(t, seen, 2)
	assert.Equal(t, stdioguard.Stats{Lines: 1, Rejected: 1, Answered: 1, BytesIn: seen[0].BytesIn}, seen[0])
	assert.Equal(t, int64(4), seen[1].Lines)
}

func TestAFailedAnswerEndsTheSession(t *testing.T) {
	errGone := errors.New("the client is gone")
	for _, tt := range []struct {
		name string
		w    io.Writer
		want error
	}{
		{"the write fails", writerFunc(func(p []byte) (int, error) { return 0, errGone }), errGone},
		{"the write is short", writerFunc(func(p []byte) (int, error) { return 10, nil }), io.ErrShortWrite},
		{"the writer lies", writerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }), io.ErrShortWrite},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inEveryShape(t, pingLine+"x\n"+pingLine, func(t *testing.T, r io.Reader) {
				var faults []*stdioguard.FrameError
				g := stdioguard.New(r, tt.w, stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) { faults = append(faults, e) }))
				got, _, err := readAll(t, g)
				require.ErrorIs(t, err, tt.want)
				assert.ErrorContains(t, err, "answering line 2")
				assert.Equal(t, pingLine, got, "what came before is handed over")
				_, again := g.Read(make([]byte, 1))
				assert.Equal(t, err, again, "sticky")
				_, err = g.Writer().Write([]byte(pingLine))
				assert.ErrorIs(t, err, tt.want, "nothing follows a line that was cut short")
				require.Len(t, faults, 1)
				assert.False(t, faults[0].Answered)
				assert.Zero(t, g.Stats().Answered)
			})
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// 8 servers write while bad lines are answered: every line stays whole.
func TestAnswersLandBetweenLinesOnly(t *testing.T) {
	const writers, each, bad = 8, 200, 200
	in, feed := io.Pipe()
	var out bytes.Buffer // guarded by the guard's lock alone: the race detector looks on
	g := stdioguard.New(in, &out)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range each {
				_, err := fmt.Fprintf(g.Writer(), `{"jsonrpc":"2.0","id":"%d-%d","result":"%s"}`+"\n", i, n, strings.Repeat("r", n))
				assert.NoError(t, err)
			}
		})
	}
	all.Go(func() {
		for range bad {
			io.WriteString(feed, "x\n")
		}
		feed.Close()
	})
	got, err := io.ReadAll(g)
	require.NoError(t, err)
	assert.Empty(t, got)
	all.Wait()
	next := make([]int, writers)
	answers := 0
	for line := range strings.Lines(out.String()) {
		var m struct {
			ID     any
			Result *string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m), "%q", line)
		if m.ID == nil {
			require.Equal(t, parseError("null"), line)
			answers++
			continue
		}
		var i, n int
		_, err := fmt.Sscanf(m.ID.(string), "%d-%d", &i, &n)
		require.NoError(t, err)
		require.Equal(t, next[i], n, "each writer's own in their order")
		next[i]++
	}
	assert.Equal(t, bad, answers)
	for i := range writers {
		assert.Equal(t, each, next[i])
	}
}

// However much the reader goes on to bring, and whatever kind of line it is in.
func TestCloseEndsAReadThatGetsNothingToHandOver(t *testing.T) {
	for _, tt := range []struct {
		name, endless string
	}{
		{"in blank lines", "\n"},
		{"in a line over the limit", strings.Repeat("x", 1000)},
		{"in a line without an end", "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reads := 0
			var g *stdioguard.Guard
			g = stdioguard.New(readerFunc(func(p []byte) (int, error) {
				if reads++; reads == 10 {
					assert.NoError(t, g.Close())
				}
				return copy(p, tt.endless), nil
			}), io.Discard, stdioguard.WithLimits(stdioguard.Limits{Line: 500}))
			n, err := g.Read(make([]byte, 100))
			assert.Zero(t, n)
			assert.Equal(t, io.EOF, err)
			assert.Equal(t, 10, reads, "the reader is not asked again")
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestARejectFuncThatClosesEndsTheRead(t *testing.T) {
	var g *stdioguard.Guard
	g = stdioguard.New(steps("bad\n", errors.New("asked again")), io.Discard,
		stdioguard.WithRejectFunc(func(*stdioguard.FrameError) { g.Close() }))
	_, err := g.Read(make([]byte, 100))
	assert.Equal(t, io.EOF, err)
}

func TestStatsCountWhileReadWaits(t *testing.T) {
	var g *stdioguard.Guard
	var seen []stdioguard.Stats
	parts := []string{"\n\n \n", strings.Repeat("x", 55), strings.Repeat("x", 20), "\n" + pingLine}
	g = stdioguard.New(readerFunc(func(p []byte) (int, error) {
		seen = append(seen, g.Stats())
		return copy(p, parts[len(seen)-1]), nil
	}), io.Discard, stdioguard.WithLimits(stdioguard.Limits{Line: 50}))
	g.Read(make([]byte, 100))
	assert.Equal(t, []stdioguard.Stats{
		{},
		{Lines: 3, Blank: 3, BytesIn: 4},
		{Lines: 4, Blank: 3, Rejected: 1, Answered: 1, BytesIn: 59, BytesDiscarded: 55},
		{Lines: 4, Blank: 3, Rejected: 1, Answered: 1, BytesIn: 79, BytesDiscarded: 75},
	}, seen)
}

// The longest limit there is allocates for the lines that come, not for itself.
func TestALimitMayBeAsLargeAsAnInt(t *testing.T) {
	line := `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 3<<20) + "\"}\n"
	g := stdioguard.New(strings.NewReader(line), io.Discard, stdioguard.WithLimits(stdioguard.Limits{Line: math.MaxInt}))
	got, err := io.ReadAll(g)
	require.NoError(t, err)
	assertSame(t, line, string(got), "forwarded")
}

func TestATimeoutOfTheWriterIsForGood(t *testing.T) {
	w := writerFunc(func(p []byte) (int, error) { return 5, os.ErrDeadlineExceeded })
	g := stdioguard.New(strings.NewReader("bad\n"+pingLine), w)
	for range 2 {
		n, err := g.Read(make([]byte, 100))
		assert.Zero(t, n)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
}

func TestNothingFollowsALineThatAPanicCutShort(t *testing.T) {
	var out bytes.Buffer
	g := stdioguard.New(strings.NewReader("bad\nbad\n"), writerFunc(func(p []byte) (int, error) {
		out.Write(p[:5])
		panic("in the middle of a line")
	}))
	assert.Panics(t, func() { g.Read(make([]byte, 100)) })
	_, err := g.Writer().Write([]byte(pingLine))
	assert.Error(t, err)
	assert.Equal(t, `{"jso`, out.String())
}

func TestAWriterThatTookMoreThanThereWas(t *testing.T) {
	g := stdioguard.New(strings.NewReader(pingLine), io.Discard)
	_, err := g.WriteTo(writerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }))
	assert.ErrorContains(t, err, "impossible count")
}

// What an append of the writer's overwrites is not the guard's.
func TestWriteToHandsOutNoSpareBytes(t *testing.T) {
	var out bytes.Buffer
	g := stdioguard.New(strings.NewReader(pingLine+"x\n"+pingLine), io.Discard)
	_, err := g.WriteTo(writerFunc(func(p []byte) (int, error) {
		_ = append(p, "overwritten"...)
		return out.Write(p)
	}))
	require.NoError(t, err)
	assert.Equal(t, pingLine+pingLine, out.String())
}

func TestTheWriterOfAGuardWithoutOne(t *testing.T) {
	n, err := stdioguard.New(strings.NewReader(""), nil).Writer().Write([]byte(pingLine))
	assert.Zero(t, n)
	assert.Error(t, err)
}

func TestAfterAnyCloseTheWriterIsClosed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		close func(*stdioguard.Guard) error
	}{
		{"the writer's", func(g *stdioguard.Guard) error { return g.Writer().Close() }},
		{"the guard's", (*stdioguard.Guard).Close},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			g := stdioguard.New(strings.NewReader("x\n"), &out)
			require.NoError(t, tt.close(g))
			require.NoError(t, tt.close(g), "twice")
			n, err := g.Writer().Write([]byte(pingLine))
			assert.Zero(t, n)
			assert.Equal(t, io.ErrClosedPipe, err)
			assert.Empty(t, out.String())
		})
	}
}

func TestTheGuardsAnswersGoOnAfterTheWriterIsClosed(t *testing.T) {
	var out bytes.Buffer
	g := stdioguard.New(strings.NewReader("x\n"), &out)
	require.NoError(t, g.Writer().Close())
	_, err := io.ReadAll(g)
	require.NoError(t, err)
	assert.Equal(t, parseError("null"), out.String())
}

// A good line is handed over before the bad line behind it is answered, which may
// take as long as the client likes.
func TestABadLineDelaysNoGoodOneBeforeIt(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func(t *testing.T, g *stdioguard.Guard, answered func() string)
	}{
		{"by Read", func(t *testing.T, g *stdioguard.Guard, answered func() string) {
			p := make([]byte, 4096)
			n, err := g.Read(p)
			require.NoError(t, err)
			assert.Equal(t, pingLine+pingLine, string(p[:n]), "lines that came together")
			assert.Empty(t, answered())
			n, err = g.Read(p)
			require.NoError(t, err)
			assert.Equal(t, pingLine, string(p[:n]))
			assert.Equal(t, parseError("null"), answered())
		}},
		{"by WriteTo", func(t *testing.T, g *stdioguard.Guard, answered func() string) {
			var writes []string
			_, err := g.WriteTo(writerFunc(func(p []byte) (int, error) {
				writes = append(writes, string(p), answered())
				return len(p), nil
			}))
			require.NoError(t, err)
			assert.Equal(t, []string{pingLine + pingLine, "", pingLine, parseError("null")}, writes)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			tt.read(t, stdioguard.New(strings.NewReader(pingLine+"\r\n"+pingLine+"x\n"+pingLine), &out), out.String)
		})
	}
}

func TestTheLog(t *testing.T) {
	long := "z" + strings.Repeat("é", 100)
	for _, tt := range []struct {
		name    string
		in      string
		answers int
		want    []string
	}{
		{"a good line leaves no record", pingLine + "\n", 0, nil},
		{"a bad line leaves one", "\ufeff {bad\n", 0, []string{
			`level=WARN msg="stdioguard: dropped a bad line" error="not one JSON text: at byte 5 of the line" line=1 offset=0 size=8 code=-32700 answered=true text="\"{bad\""`,
		}},
		{"the id and a hint are there where they are known", pingLine + `{"id":7,"level":"info"}` + "\n" + `{"level":"info"}`, 0, []string{
			`level=WARN msg="stdioguard: dropped a bad line" error="not a JSON-RPC 2.0 message: \"jsonrpc\" is not the string \"2.0\"" line=2 offset=41 size=23 code=-32600 answered=true text="\"{\\\"id\\\":7,\\\"level\\\":\\\"info\\\"}\"" id=7 hint="looks like text for a log; it belongs on standard error"`,
			`level=WARN msg="stdioguard: dropped a bad line" error="not a JSON-RPC 2.0 message: \"jsonrpc\" is not the string \"2.0\"" line=3 offset=65 size=16 code=-32600 answered=true text="\"{\\\"level\\\":\\\"info\\\"}\"" hint="looks like text for a log; it belongs on standard error"`,
		}},
		{"the text is cut at 120 bytes and quoted", long + "\x1b\n", 0, []string{
			`level=WARN msg="stdioguard: dropped a bad line" error="not one JSON text: at byte 0 of the line" line=1 offset=0 size=202 code=-32700 answered=true text="\"z` + strings.Repeat("é", 59) + `\\xc3\"" hint="looks like text for a log; it belongs on standard error"`,
		}},
		{"after as many records as answers the rest is summed up", strings.Repeat("!\n", 5) + pingLine + "!\n", 2, []string{
			bang(1), bang(2), summary(3, 3), bang(7),
		}},
		{"what is left to sum up at the end is summed up", strings.Repeat("!\n", 3), 1, []string{bang(1), summary(2, 2)}},
		{"lines that are never answered are summed up too", strings.Repeat("{\"result\":1}\n", 4), 2, []string{
			neverAnswered(1), neverAnswered(2), summary(2, 0),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inEveryShape(t, tt.in, func(t *testing.T, r io.Reader) {
				var log bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				}}))
				g := stdioguard.New(r, io.Discard, stdioguard.WithLogger(logger), stdioguard.WithLimits(stdioguard.Limits{Answers: tt.answers}))
				_, _, err := readAll(t, g)
				require.Equal(t, io.EOF, err)
				var want string
				for _, w := range tt.want {
					want += w + "\n"
				}
				assert.Equal(t, want, log.String())
			})
		})
	}
}

func bang(line int) string {
	return fmt.Sprintf(`level=WARN msg="stdioguard: dropped a bad line" error="not one JSON text: at byte 0 of the line" line=%d offset=%d size=1 code=-32700 answered=true text="\"!\"" hint="looks like text for a log; it belongs on standard error"`,
		line, offsetOfBang(line))
}

func offsetOfBang(line int) int {
	if line > 6 {
		return 2*(line-2) + len(pingLine)
	}
	return 2 * (line - 1)
}

func neverAnswered(line int) string {
	return fmt.Sprintf(`level=WARN msg="stdioguard: dropped a bad line" error="not a JSON-RPC 2.0 message: \"jsonrpc\" is not the string \"2.0\"" line=%d offset=%d size=12 code=-32600 answered=false text="\"{\\\"result\\\":1}\""`,
		line, 13*(line-1))
}

func summary(lines, withheld int) string {
	return fmt.Sprintf(`level=WARN msg="stdioguard: more bad lines were dropped" lines=%d answers_withheld=%d`, lines, withheld)
}

func TestWhatAFrameErrorSays(t *testing.T) {
	e := &stdioguard.FrameError{Line: 3, Offset: 120, Err: fmt.Errorf("%w: at byte 5 of the line", stdioguard.ErrSyntax)}
	assert.EqualError(t, e, "stdioguard: line 3 at byte 120: not one JSON text: at byte 5 of the line")
	e.Hint = "looks like UTF-16"
	assert.EqualError(t, e, "stdioguard: line 3 at byte 120: not one JSON text: at byte 5 of the line (looks like UTF-16)")
	assert.ErrorIs(t, e, stdioguard.ErrSyntax)
}

func TestWhatAnErrorSays(t *testing.T) {
	read := func(r io.Reader, w io.Writer) error {
		_, err := io.ReadAll(stdioguard.New(r, w))
		return err
	}
	returns := func(n int, err error) writerFunc { return func([]byte) (int, error) { return n, err } }
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"a reader that brings less than nothing", read(steps(func([]byte) (int, error) { return -1, nil }), io.Discard), "stdioguard: the reader returned an impossible count, -1 for a buffer of 65536 bytes"},
		{"a reader that brings too much", read(steps(func(p []byte) (int, error) { return len(p) + 1, io.EOF }), io.Discard), "stdioguard: the reader returned an impossible count, 65537 for a buffer of 65536 bytes"},
		{"a reader's own error is as it was", read(steps("x", errReset), io.Discard), errReset.Error()},
		{"an answer that fails", read(steps("\nx\n"), returns(0, errHungUp)), "stdioguard: answering line 2: " + errHungUp.Error()},
		{"an answer that is cut short", read(steps("x\n"), returns(5, nil)), "stdioguard: answering line 1: " + io.ErrShortWrite.Error()},
		{"a WriteTo's writer that takes too much", func() error {
			_, err := stdioguard.New(steps(pingLine), io.Discard).WriteTo(returns(100, nil))
			return err
		}(), "stdioguard: the writer returned an impossible count, 100 for 41 bytes"},
		{"a Write where there is no writer", func() error {
			_, err := stdioguard.New(steps(), nil).Writer().Write([]byte(note))
			return err
		}(), "stdioguard: New was given no writer"},
		{"a Write that fails says what the writer does", func() error {
			_, err := stdioguard.New(steps(), returns(3, errHungUp)).Writer().Write([]byte(note))
			return err
		}(), errHungUp.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.EqualError(t, tt.err, tt.want) })
	}
}

func TestTheHintNamesAWellKnownCause(t *testing.T) {
	const utf16, header, spread, cr, log, none = "UTF-16", "framing", "spread over several lines", "CR alone", "text for a log", ""
	for _, tt := range []struct{ line, want string }{
		{"INFO ready", log},
		{"[INFO] ready", log},
		{"[2026-01-02] ready", log},
		{"2026-01-02T03:04:05Z ready", log},
		{"12:30 ready", log},
		{"\x1b[32minfo\x1b[0m ready", log},
		{"> srv@1.0 start", log},
		{"--- start", log},
		{"✓ ready", log},
		{"(node:1) Warning", log},
		{`{"level":"error","error":"x"}`, log},
		{`{"time":1,"level":"INFO","msg":"x","id":3}`, log},
		{`{"severity":"INFO","message":"x"}`, log},
		{`{"method":"m","level":"info"}`, none},

		{"{", spread},
		{`{"jsonrpc": "2.0",`, spread},
		{`"id": 1,`, spread},
		{"  1,", spread},
		{"  true,", spread},
		{"  -5,", spread},
		{`"a",`, spread},
		{"},", spread},
		{"]", spread},

		{ping + "\r" + ping, cr},
		{`[{"a":1}]` + "\r" + `[{"a":1}]`, cr},
		{"{\"a\" \r{", none},
		{"{\r{", none},
		{"[1\r{", none},

		{"Content-Length: 40", header},
		{"content-type: x", header},

		{"\xff\xfe", utf16},
		{"\xff\xfe{\x00", utf16},
		{"{\x00\"\x00a\x00", utf16},
		{"\x00{\"jsonrpc\":\"2.0\"}", utf16},
		{"\x00\x00\x00\x00", none},
		{"\x00", none},

		{"\ufeff\ufeff{}", none},
		{" \ufeff{}", none},
		{"\xff", none},
		{"01", none},
		{"-", none},
		{"1.", none},
		{"[1,]", none},
		{ping + "}", none},
		{ping + ping, none},
	} {
		t.Run(tt.line, func(t *testing.T) {
			var hint string
			_, err := io.ReadAll(stdioguard.New(strings.NewReader(tt.line+"\n"), nil, stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) { hint = e.Hint })))
			require.NoError(t, err)
			if tt.want == none {
				assert.Empty(t, hint)
			} else {
				assert.Contains(t, hint, tt.want)
			}
		})
	}
}
