package examples_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// handshake is what a client writes that does not wait for answers.
const handshake = drive.Initialize + "\n" + drive.Initialized + "\n"

// An ending is what a server did from the time on that somebody waited for its end.
type ending struct {
	begin time.Time
	lines []string
	came  []time.Time // the lines
	exit  time.Time
}

// awaitEnd reads up to the end of stdout and waits for an exit with status 0.
func awaitEnd(c *drive.Child) (ending, error) {
	e := ending{begin: time.Now()}
	for {
		line, err := c.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return e, fmt.Errorf("after %q: %w", e.lines, err)
		}
		e.lines = append(e.lines, line)
		e.came = append(e.came, time.Now())
	}
	status, err := c.AwaitExit()
	e.exit = time.Now()
	if err == nil && status != 0 {
		err = fmt.Errorf("after %q: exit status %d", e.lines, status)
	}
	return e, err
}

// linger is the time from the last line, or from the beginning, to the exit.
func (e *ending) linger() time.Duration {
	if n := len(e.came); n > 0 {
		return e.exit.Sub(e.came[n-1])
	}
	return e.exit.Sub(e.begin)
}

// drop removes lines that the guard does not wait for, and returns how many.
func (e *ending) drop(unawaited func(line string) bool) int {
	n := 0
	for i, line := range e.lines {
		if !unawaited(line) {
			e.lines[n], e.came[n] = line, e.came[i]
			n++
		}
	}
	dropped := len(e.lines) - n
	e.lines, e.came = e.lines[:n], e.came[:n]
	return dropped
}

// respondsTo recognises the responses to some requests. Whether a call that the
// guard does not wait for is answered is the SDK's business.
func respondsTo(ids ...string) func(line string) bool {
	return func(line string) bool {
		var m struct {
			ID     json.RawMessage
			Method *string
		}
		return json.Unmarshal([]byte(line), &m) == nil && m.Method == nil && slices.Contains(ids, string(m.ID))
	}
}

// oneShot is printf INPUT | server: all of the input and its end are there before
// the server has answered anything.
func oneShot(s *server, input string, args ...string) (ending, error) {
	c, err := s.launch(drive.Conf{}, args...)
	if err != nil {
		return ending{}, err
	}
	c.SendString(input)
	c.CloseStdin()
	e, err := awaitEnd(c)
	if stderr := c.Stop(); err != nil {
		err = fmt.Errorf("%w\nstderr of %s: %s", err, s, stderr)
	}
	return e, err
}

// difference returns the lines that are missing from got and those that are too
// many. Servers answer in any order.
func difference(s *server, want []answer, got []string) (missing, extra []string) {
	count := make(map[string]int)
	for _, line := range got {
		count[s.inOrder(line)]++
	}
	for _, w := range want {
		line := w(s)
		if count[line]--; count[line] < 0 {
			missing = append(missing, line)
		}
	}
	for line, n := range count {
		for range n {
			extra = append(extra, line)
		}
	}
	return missing, extra
}

// requireEnd holds that the server wrote the answers that were wanted and nothing
// else. That it has exited says that it waited for nothing: it would for long.
func requireEnd(t *testing.T, s *server, e ending, want ...answer) {
	t.Helper()
	missing, extra := difference(s, want, e.lines)
	require.Empty(t, missing, "answers that did not come")
	require.Empty(t, extra, "lines that nothing asked for")
	t.Logf("exit %v after the last line", e.linger().Round(time.Millisecond))
}

// repeat plays one session many times, several at once, on streams of each kind in turn.
func repeat(s *server, input string, args ...string) ([]ending, []error) {
	n, atOnce := 60, make(chan struct{}, 8)
	if testing.Short() {
		n = 10
	}
	endings, errs := make([]ending, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			atOnce <- struct{}{}
			endings[i], errs[i] = oneShot(s.on(drive.Kinds[i%len(drive.Kinds)]), input, args...)
			<-atOnce
		})
	}
	all.Wait()
	return endings, errs
}

// The shell's way to talk to a server: go-sdk#1061, python-sdk#2678, rust-sdk#753.
func TestOneShotPipe(t *testing.T) {
	for _, r := range []struct {
		name, tool, end string
		of              []*server
	}{
		{name: "a call of 300 ms", tool: "slow", end: "\n", of: servers},
		{name: "a call of 300 ms without the last newline", tool: "slow", of: servers},
		// mcp-go, which writes answers as long as handlers run, without a guard too.
		{name: "a call that does not heed its context", tool: "deaf", end: "\n", of: []*server{onMCPGo, runMCPGo}},
		{name: "a call that does not heed its context without the last newline", tool: "deaf", of: []*server{onMCPGo, runMCPGo}},
	} {
		t.Run(r.name, func(t *testing.T) {
			eachOf(t, r.of, func(t *testing.T, s *server) {
				endings, errs := repeat(s, handshake+drive.Call("2", r.tool)+r.end)
				var longest time.Duration
				for i, e := range endings {
					require.NoError(t, errs[i])
					missing, extra := difference(s, []answer{initialized(), done("2")}, e.lines)
					require.Empty(t, missing, "answers that did not come in run %d", i)
					require.Empty(t, extra, "lines that nothing asked for in run %d", i)
					longest = max(longest, e.linger())
				}
				t.Logf("%d runs, exit at most %v after the last answer", len(endings), longest.Round(time.Millisecond))
			})
		})
	}
}

// Shows that the guard is what makes the difference.
func TestBareOneShotPipe(t *testing.T) {
	eachOf(t, bareServers, func(t *testing.T, s *server) {
		endings, _ := repeat(s, handshake+drive.Call("2", "slow")+"\n")
		whole := 0
		for _, e := range endings {
			if missing, _ := difference(s, []answer{initialized(), done("2")}, e.lines); len(missing) == 0 {
				whole++
			}
		}
		t.Logf("%d of %d runs had every answer", whole, len(endings))
		assert.Less(t, whole, len(endings), "%s has been mended?", s)
	})
}

// canLeave are the servers that can end while a handler is stuck: those that read
// from the guard themselves, and trpc, which waits for no handler.
var canLeave = []*server{onGoSDK, onMCPGo, onJRPC2, newGoSDK, runTRPC}

func TestTwentyCallsInFlight(t *testing.T) {
	for _, r := range []struct {
		name, tool string
		args       []string
		of         []*server
	}{
		{name: "five cancelled that wait for their context", tool: "hang", of: servers},
		{name: "five cancelled that never return", tool: "stuck", args: []string{"-leave"}, of: canLeave},
	} {
		t.Run(r.name, func(t *testing.T) {
			eachOf(t, r.of, func(t *testing.T, s *server) {
				var calls, cancellations strings.Builder
				want, cancelled := []answer{initialized()}, []string(nil)
				for i := range 20 {
					id := strconv.Itoa(100 + i)
					if i%4 != 3 {
						calls.WriteString(drive.Call(id, "slow") + "\n")
						want = append(want, done(id))
						continue
					}
					calls.WriteString(drive.Call(id, r.tool) + "\n")
					cancellations.WriteString(drive.Cancel(id) + "\n")
					cancelled = append(cancelled, id)
				}
				e, err := oneShot(s, handshake+calls.String()+cancellations.String(), r.args...)
				require.NoError(t, err)
				t.Logf("%d of the 5 cancelled calls were answered", e.drop(respondsTo(cancelled...)))
				requireEnd(t, s, e, want...)
			})
		})
	}
}

// A guard that compares ids as they are spelled waits for answers that have come.
func TestIDsThatSDKsRewrite(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		input, want := handshake, []answer{initialized()}
		for _, id := range []string{"9007199254740993", "-0", `"\u0061"`, `"\ud800"`} {
			input += drive.Call(id, "slow") + "\n"
			want = append(want, done(id))
		}
		e, err := oneShot(s, input)
		require.NoError(t, err)
		requireEnd(t, s, e, want...)
	})
}

func TestHandlerThatNeverReturns(t *testing.T) {
	const drain = time.Second
	for _, r := range []struct {
		name, tool string
		args       []string
		of         []*server
	}{
		{name: "and heeds its context", tool: "hang", of: servers},
		{name: "and heeds nothing", tool: "stuck", args: []string{"-leave"}, of: canLeave},
	} {
		t.Run(r.name, func(t *testing.T) {
			eachOf(t, r.of, func(t *testing.T, s *server) {
				c := start(t, s, "", append(r.args, "-drain="+drain.String())...)
				c.SendString(drive.Call("2", r.tool) + "\n")
				begin := time.Now()
				c.CloseStdin()
				e, err := awaitEnd(c)
				require.NoError(t, err)
				e.drop(respondsTo("2"))
				require.Empty(t, e.lines, "lines that nothing asked for")
				took := e.exit.Sub(begin)
				t.Logf("exit %v after the end of input", took.Round(time.Millisecond))
				require.GreaterOrEqual(t, took, drain, "from the end of input to the exit")
			})
		})
	}
}

// question is the request that the tool ask makes of the client. It is the first
// that the server makes, and each SDK counts from 1.
func question(s *server) string {
	return `{"jsonrpc":"2.0","id":1,"method":` + s.question + `}`
}

// unheard answers a call of ask whose question nobody can answer any more.
func unheard(id string) answer {
	return func(s *server) string { return echoed(id, s.unheard)(s) }
}

func TestHandlerThatAsksTheClient(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		t.Run("before the end of input", func(t *testing.T) {
			t.Parallel()
			c := start(t, s, "")
			c.SendString(drive.Call("2", "ask") + "\n")
			expect(t, s, c, false, question)
			c.CloseStdin()
			e, err := awaitEnd(c)
			require.NoError(t, err)
			requireEnd(t, s, e, unheard("2"))
		})
		t.Run("after the end of input", func(t *testing.T) {
			t.Parallel()
			e, err := oneShot(s, handshake+drive.Call("2", "ask")+"\n")
			require.NoError(t, err)
			requireEnd(t, s, e, initialized(), question, unheard("2"))
		})
		t.Run("and is answered", func(t *testing.T) {
			t.Parallel()
			c := start(t, s, "")
			c.SendString(drive.Call("2", "ask") + "\n")
			expect(t, s, c, false, question)
			c.SendString(`{"jsonrpc":"2.0","id":1,"result":` + s.reply + "}\n")
			c.CloseStdin()
			e, err := awaitEnd(c)
			require.NoError(t, err)
			requireEnd(t, s, e, echoed("2", `"Well!"`))
		})
	})
}

// go-sdk closes the session, and takes no more answers, where a ping is not
// answered in half the time between two: here after 3 s, and the call takes 3.5 s.
func TestKeepAliveDoesNotCostTheAnswer(t *testing.T) {
	t.Parallel()
	s := onGoSDK
	e, err := oneShot(s, handshake+drive.Call("2", "slow")+"\n", "-keepalive=2s", "-takes=3500ms")
	require.NoError(t, err)
	pings := 0
	e.drop(func(line string) bool {
		if line != fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, pings+1) {
			return false
		}
		pings++
		return true
	})
	require.NotZero(t, pings, "pings, without which this test shows nothing")
	requireEnd(t, s, e, initialized(), done("2"))
}

// MCP 2026-07-28 has no handshake: each request says who asks, and in what version.
const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"drive","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func TestOpenSubscriptionDoesNotDelayTheExit(t *testing.T) {
	acknowledged := func(*server) string {
		return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":` +
			`{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true}}}`
	}
	modernDone := func(s *server) string {
		return `{"jsonrpc":"2.0","id":2,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"` + s.program +
			`","version":"v1.0.0"}},"content":[` + fmt.Sprintf(s.content, `"done"`) + `],"resultType":"complete"}}`
	}
	for _, r := range []struct {
		name, call string
		want       []answer
	}{
		{name: "alone"},
		{
			name: "beside a call",
			call: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{},` + modern + "}}\n",
			want: []answer{modernDone},
		},
	} {
		t.Run(r.name, func(t *testing.T) {
			knowSubscriptions := []*server{onGoSDK, onMCPGo, runGoSDK, runMCPGo}
			eachOf(t, knowSubscriptions, func(t *testing.T, s *server) {
				c, err := s.launch(drive.Conf{})
				require.NoError(t, err)
				defer c.Stop()
				c.SendString(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modern + "}}\n")
				expect(t, s, c, false, acknowledged)
				c.SendString(r.call)
				c.CloseStdin()
				e, err := awaitEnd(c)
				require.NoError(t, err)
				e.drop(respondsTo("7"))
				requireEnd(t, s, e, r.want...)
			})
		})
	}
}

func TestNothingInFlight(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		c := start(t, s, "")
		c.CloseStdin()
		e, err := awaitEnd(c)
		require.NoError(t, err)
		requireEnd(t, s, e)
	})
}

// Each bad line is answered while hundreds of answers are on their way, and no
// line ends up inside another.
func TestBadLinesAmongManyRequests(t *testing.T) {
	longID := `"` + strings.Repeat("i", 1022) + `"`
	fit := 20_480 / len(drive.InvalidRequest(longID)+"\n") // answers of that size in a row
	for _, r := range []struct {
		name      string
		good, bad int // lines in a row
		line      string
		answers   int // to a row
		want      answer
	}{
		{name: "two at a time", good: 5, bad: 2, line: "not json", answers: 2, want: parseError("null")},
		{name: "200 at a time", good: 500, bad: 200, line: "not json", answers: 200, want: parseError("null")},
		{name: "more bytes of answers in a row than are written", good: 50, bad: fit + 1,
			line: `{"jsonrpc":"1.0","id":` + longID + `,"method":"x"}`, answers: fit, want: invalidRequest(longID)},
	} {
		t.Run(r.name, func(t *testing.T) {
			each(t, func(t *testing.T, s *server) {
				var input strings.Builder
				input.WriteString(handshake)
				want := []answer{initialized()}
				for i := range 500 {
					id := strconv.Itoa(100 + i)
					input.WriteString(drive.ListTools(id) + "\n")
					want = append(want, tools(id))
					if i%r.good == r.good-1 {
						input.WriteString(strings.Repeat(r.line+"\n", r.bad))
						want = append(want, slices.Repeat([]answer{r.want}, r.answers)...)
					}
				}
				e, err := oneShot(s, input.String())
				require.NoError(t, err)
				requireEnd(t, s, e, want...)
			})
		})
	}
}
