// The end-to-end tests play bad lines at real servers, one child process each,
// over real pipes: with the guard every session goes on, and the answers are
// exactly the guard's; without it go-sdk's ends.
package examples_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wait bounds each wait for a child. It only says how soon a test that hangs is
// given up.
const wait = 30 * time.Second

var programs string // the directory that holds the servers

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stdioguard-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = drive.Build(dir, "./gosdk", "./mcpgo", "./jrpc2")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	return m.Run()
}

// A server is one of the examples, and how its SDK words what it answers.
type server struct {
	program  string
	content  string                  // of the result of a tool, with %s for the JSON string
	notFound string                  // the error for the method "x"
	rewrites map[string]string       // ids that its answers spell in another way
	question string                  // the params of the request that the tool ask makes
	unheard  string                  // what ask returns, a JSON string, where the connection is closed
	bare     func() (string, string) // bareAnswers
}

var servers = []*server{
	{
		program:  "gosdk",
		content:  `{"type":"text","text":%s}`,
		notFound: `{"code":-32601,"message":"method not found: \"x\""}`,
		rewrites: map[string]string{"9007199254740993": "9007199254740992", "-0": "0", `"\u0061"`: `"a"`, `"\ud800"`: "\"\ufffd\""},
		question: `{"maxTokens":100,"messages":[{"content":{"type":"text","text":"Well?"},"role":"user"}]}`,
		unheard:  `"no answer: calling \"sampling/createMessage\": Connection closed"`,
	},
	{
		program:  "mcpgo",
		content:  `{"type":"text","text":%s}`,
		notFound: `{"code":-32601,"message":"Method x not found"}`,
		rewrites: map[string]string{"9007199254740993": "9007199254740992", `"\u0061"`: `"a"`, `"\ud800"`: "\"\ufffd\""},
		question: `{"messages":[{"role":"user","content":{"type":"text","text":"Well?"}}],"maxTokens":100}`,
		unheard:  `"no answer: sampling request failed: Connection closed"`,
	},
	{
		program:  "jrpc2",
		content:  `{"text":%s,"type":"text"}`,
		notFound: `{"code":-32601,"message":"method not found","data":"x"}`,
		question: `{"maxTokens":100,"messages":[{"content":{"text":"Well?","type":"text"},"role":"user"}]}`,
		unheard:  `"no answer: [-32000] Connection closed"`,
	},
}

func init() {
	for _, s := range servers {
		s.bare = sync.OnceValues(s.bareAnswers)
	}
}

// bareAnswers is what the server answers to initialize as id 1 and tools/list as
// id 3 where no guard stands in between, so that a guard which changes a byte is
// found out.
func (s *server) bareAnswers() (initialize, tools string) {
	c, err := drive.Start(wait, programs, s.program, "-guard=false")
	if err != nil {
		return err.Error(), err.Error()
	}
	defer c.Stop()
	c.SendString(drive.Initialize + "\n")
	initialize, err = c.Next()
	if err != nil {
		return err.Error(), err.Error()
	}
	c.SendString(drive.Initialized + "\n" + drive.ListTools("3") + "\n")
	tools, err = c.Next()
	if err != nil {
		return initialize, err.Error()
	}
	return initialize, tools
}

// An answer is one expected line of stdout.
type answer func(*server) string

// The guard's answers.

func parseError(id string) answer {
	return func(*server) string { return drive.ParseError(id) }
}

func invalidRequest(id string) answer {
	return func(*server) string { return drive.InvalidRequest(id) }
}

// The server's answers.

func pong(id string) answer {
	return func(*server) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }
}

func echoed(id, jsonString string) answer {
	return func(s *server) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[` + fmt.Sprintf(s.content, jsonString) + `]}}`
	}
}

func notFound(id string) answer {
	return func(s *server) string { return `{"jsonrpc":"2.0","id":` + id + `,"error":` + s.notFound + `}` }
}

func tools(id string) answer {
	return func(s *server) string {
		_, tools := s.bare()
		return strings.Replace(tools, `"id":3`, `"id":`+id, 1)
	}
}

func initialized() answer {
	return func(s *server) string {
		initialize, _ := s.bare()
		return initialize
	}
}

// done answers a call of slow or deaf. The id is the call's.
func done(id string) answer {
	return func(s *server) string {
		if rewritten, ok := s.rewrites[id]; ok {
			id = rewritten
		}
		return echoed(id, `"done"`)(s)
	}
}

// start runs a server up to the end of the handshake.
func start(t *testing.T, s *server, prefix string, args ...string) *drive.Child {
	t.Helper()
	c, err := drive.Start(wait, programs, s.program, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if stderr := c.Stop(); t.Failed() && stderr != "" {
			t.Logf("stderr of %s: %s", s.program, stderr)
		}
	})
	require.NoError(t, c.Handshake(prefix))
	return c
}

// expect reads one line for each of want.
func expect(t *testing.T, s *server, c *drive.Child, anyOrder bool, want ...answer) {
	t.Helper()
	var lines, got []string
	for _, w := range want {
		lines = append(lines, w(s))
		line, err := c.Next()
		require.NoError(t, err, "after %q", got)
		got = append(got, line)
	}
	if anyOrder {
		require.ElementsMatch(t, lines, got)
		return
	}
	require.Equal(t, lines, got)
}

// finish asks for the tools as the given id, then ends stdin: the session must
// have been alive until then, and nothing else may have been written.
func finish(t *testing.T, s *server, c *drive.Child, id string) {
	t.Helper()
	c.SendString(drive.ListTools(id) + "\n")
	expect(t, s, c, false, tools(id))
	assert.True(t, c.Alive(), "the process has ended")
	c.CloseStdin()
	rest, err := c.Rest()
	require.NoError(t, err)
	assert.Empty(t, rest, "lines that nothing asked for")
	status, err := c.AwaitExit()
	require.NoError(t, err)
	assert.Zero(t, status, "exit status")
}

// each runs f for every server at once.
func each(t *testing.T, f func(*testing.T, *server)) { eachOf(t, servers, f) }

func eachOf(t *testing.T, servers []*server, f func(*testing.T, *server)) {
	for _, s := range servers {
		t.Run(s.program, func(t *testing.T) {
			t.Parallel()
			f(t, s)
		})
	}
}

func TestSessionGoesOn(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for _, r := range rows() {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				c := start(t, s, "", r.args...)
				next := "3"
				if r.takesNext {
					c.SendString(r.line + drive.ListTools("3") + "\n")
					next = "6"
				} else {
					c.SendString(r.line + "\n")
				}
				expect(t, s, c, r.anyOrder, r.want...)
				finish(t, s, c, next)
			})
		}
	})
}

// Shows that the driver can tell a session that is over from one that goes on.
func TestBareGoSDKDies(t *testing.T) {
	for _, r := range rows() {
		if !r.killsGoSDK {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, servers[0], "", "-guard=false")
			c.SendString(r.line + "\n" + drive.ListTools("3") + "\n")
			lines, err := c.AwaitResult("3")
			require.ErrorIs(t, err, io.EOF, "go-sdk has been mended? It went on with %q", lines)
			_, err = c.AwaitExit()
			require.NoError(t, err)
		})
	}
}

func TestBOMBeforeInitialize(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		finish(t, s, start(t, s, bom), "3")
	})
	t.Run("bare gosdk", func(t *testing.T) {
		c, err := drive.Start(wait, programs, "gosdk", "-guard=false")
		require.NoError(t, err)
		defer c.Stop()
		require.ErrorIs(t, c.Handshake(bom), io.EOF, "go-sdk has been mended?")
	})
}

// A client that writes a run of garbage before it reads anything fills both
// pipes, if every line of it is answered.
func TestFloodBeforeReading(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		c := start(t, s, "")
		c.SendString(strings.Repeat("x\n", 200_000))
		require.NoError(t, c.AwaitSent())
		var want []answer
		for range 256 {
			want = append(want, parseError("null"))
		}
		expect(t, s, c, false, want...)
		finish(t, s, c, "3")
	})
}

// The guard's limit plus a newline is go-sdk's own, so a line that passes the one
// must pass the other, wherever the SDK's reads fall.
func TestLongestLinesFitGoSDK(t *testing.T) {
	c := start(t, servers[0], "", "-sdk-line=0")
	c.SendString(ping("2", defaultLine) + "\n" + ping("4", defaultLine) + "\n")
	expect(t, servers[0], c, true, pong("2"), pong("4"))
	finish(t, servers[0], c, "3")
}

func TestHugeLineCostsNoMemory(t *testing.T) {
	huge := int64(300 << 20)
	if testing.Short() {
		huge = 40 << 20
	}
	request := `{"jsonrpc":"2.0","id":2,"method":"ping","params":{"_meta":{"t":"`
	for _, r := range []struct {
		name, begin string
		args        []string
		want        answer
		budget      int64
	}{
		{"one letter, the default limit", "", nil, parseError("null"), 24 << 20},
		{"one letter, a limit of 1 MiB", "", []string{"-line=1048576"}, parseError("null"), 3 << 20},
		{"a request, the default limit", request, []string{"-recover-ids"}, parseError("2"), 24 << 20},
		{"a request, a limit of 1 MiB", request, []string{"-line=1048576", "-recover-ids"}, parseError("2"), 3 << 20},
	} {
		t.Run(r.name, func(t *testing.T) {
			for _, s := range servers {
				t.Run(s.program, func(t *testing.T) {
					c := start(t, s, "", r.args...)
					// What loads code on its first use is none of the line's cost.
					c.SendString("x\n" + drive.ListTools("3") + "\n")
					expect(t, s, c, false, parseError("null"), tools("3"))
					idle := peakMemory(t, c)
					c.Send(io.MultiReader(strings.NewReader(r.begin), drive.Fill('a', huge)))
					expect(t, s, c, false, r.want) // comes before the newline does
					require.NoError(t, c.AwaitSent())
					c.SendString("\n" + drive.ListTools("4") + "\n")
					expect(t, s, c, false, tools("4"))
					over := peakMemory(t, c) - idle
					t.Logf("%d KiB over idle", over>>10)
					assert.LessOrEqual(t, over, r.budget, "bytes over idle")
					finish(t, s, c, "5")
				})
			}
		})
	}
}

func peakMemory(t *testing.T, c *drive.Child) int64 {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0 // the rest of the test holds everywhere
	}
	n, err := c.PeakMemory()
	require.NoError(t, err)
	return n
}
