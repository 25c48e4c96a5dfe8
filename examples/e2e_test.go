// The end-to-end tests play bad lines at real servers, one child process each,
// over real pipes and socket pairs: with the guard every session goes on, and the
// answers are exactly the guard's; without it go-sdk's ends.
package examples_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
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

// wait bounds each wait for a child. It only says how soon a test that hangs is
// given up.
const wait = time.Minute

// lastingDrain is more than any test waits, so that an exit is never that of a drain
// which ran out.
const lastingDrain = "-drain=5m"

var programs string // the directory that holds the servers

func TestMain(m *testing.M) {
	if format, ok := os.LookupEnv(scriptEnv); ok {
		os.Exit(scriptedServer(format))
	}
	// Tests wait for their children most of the time: more of them fit a processor.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		f.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0)))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stdioguard-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = drive.Build(dir, "./gosdk", "./mcpgo", "./jrpc2", "./trpc", "./client")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	return m.Run()
}

// An sdk is one of the examples, and how its SDK words what it answers.
type sdk struct {
	program  string
	content  string                  // of the result of a tool, with %s for the JSON string
	notFound string                  // the error for the method "x"
	rewrites map[string]string       // ids that its answers spell in another way
	question string                  // the request that the tool ask makes, from its method on
	reply    string                  // a result for it, of which ask returns "Well!"
	unheard  string                  // what ask returns, a JSON string, where the connection is closed
	progress string                  // the params of the notification that the tool announce sends
	anyOrder bool                    // the tools are listed in any order
	lastLog  string                  // part of what it may log as the session ends
	bare     func() (string, string) // bareAnswers
}

const (
	sampled      = `{"role":"assistant","model":"m","content":{"type":"text","text":"Well!"}}`
	progressLast = `{"progressToken":"p","progress":1}`
	tokenLast    = `{"progress":1,"progressToken":"p"}`
)

var (
	gosdk = &sdk{
		program:  "gosdk",
		content:  `{"type":"text","text":%s}`,
		notFound: `{"code":-32601,"message":"method not found: \"x\""}`,
		rewrites: map[string]string{"9007199254740993": "9007199254740992", "-0": "0", `"\u0061"`: `"a"`, `"\ud800"`: "\"\ufffd\""},
		question: `"sampling/createMessage","params":{"maxTokens":100,"messages":[{"content":{"type":"text","text":"Well?"},"role":"user"}]}`,
		reply:    sampled,
		unheard:  `"no answer: calling \"sampling/createMessage\": Connection closed"`,
		progress: progressLast,
	}
	mcpgo = &sdk{
		program:  "mcpgo",
		content:  `{"type":"text","text":%s}`,
		notFound: `{"code":-32601,"message":"Method x not found"}`,
		rewrites: map[string]string{"9007199254740993": "9007199254740992", `"\u0061"`: `"a"`, `"\ud800"`: "\"\ufffd\""},
		question: `"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Well?"}}],"maxTokens":100}`,
		reply:    sampled,
		unheard:  `"no answer: sampling request failed: Connection closed"`,
		progress: tokenLast,
	}
	jrpc2 = &sdk{
		program:  "jrpc2",
		content:  `{"text":%s,"type":"text"}`,
		notFound: `{"code":-32601,"message":"method not found","data":"x"}`,
		question: `"sampling/createMessage","params":{"maxTokens":100,"messages":[{"content":{"text":"Well?","type":"text"},"role":"user"}]}`,
		reply:    sampled,
		unheard:  `"no answer: [-32000] Connection closed"`,
		progress: tokenLast,
	}
	trpc = &sdk{
		program:  "trpc",
		content:  `{"type":"text","text":%s}`,
		notFound: `{"code":-32601,"message":"Method not found"}`,
		rewrites: map[string]string{"9007199254740993": "9007199254740992", `"\u0061"`: `"a"`, `"\ud800"`: "\"\ufffd\""},
		question: `"roots/list"`,
		reply:    `{"roots":[{"uri":"file:///","name":"Well!"}]}`,
		unheard:  `"no roots"`,
		progress: tokenLast,
		anyOrder: true,
		// It writes a message's newline by itself, and the message is enough for the end.
		lastLog: "error writing newline",
	}
)

// A server is an SDK, guarded in one way.
type server struct {
	*sdk
	guard string
	kind  drive.Kind // pipes, unless a test says otherwise
}

// servers are all that are tested. Those on Stdio come first, those under Run last.
var (
	onGoSDK      = &server{sdk: gosdk, guard: "stdio"}
	onMCPGo      = &server{sdk: mcpgo, guard: "stdio"}
	onJRPC2      = &server{sdk: jrpc2, guard: "stdio"}
	newGoSDK     = &server{sdk: gosdk, guard: "new"}
	runGoSDK     = &server{sdk: gosdk, guard: "run"}
	runMCPGo     = &server{sdk: mcpgo, guard: "run"}
	runServe     = &server{sdk: mcpgo, guard: "run-servestdio"}
	runTRPC      = &server{sdk: trpc, guard: "run"}
	servers      = []*server{onGoSDK, onMCPGo, onJRPC2, newGoSDK, runGoSDK, runMCPGo, runServe, runTRPC}
	stdioServers = servers[:3]
	runServers   = servers[4:]
	ownsStreams  = slices.Concat(stdioServers, runServers) // Stdio and Run
	bareServers  []*server
)

func init() {
	for _, sdk := range []*sdk{gosdk, mcpgo, jrpc2, trpc} {
		sdk.bare = sync.OnceValues(sdk.bareAnswers)
		bareServers = append(bareServers, &server{sdk: sdk, guard: "off"})
	}
}

func (s *server) String() string { return s.program + " " + s.guard }

// on returns the server with streams of a kind.
func (s *server) on(kind drive.Kind) *server {
	with := *s
	with.kind = kind
	return &with
}

// isRun reports whether the server is under Run.
func (s *server) isRun() bool { return strings.HasPrefix(s.guard, "run") }

// launch starts the server. What conf says of kind, time and directory is not needed.
func (s *server) launch(conf drive.Conf, args ...string) (*drive.Child, error) {
	conf.Wait, conf.Dir, conf.Kind = wait, programs, s.kind
	return conf.Start(s.program, append([]string{"-guard=" + s.guard, lastingDrain}, args...)...)
}

// bareAnswers is what the server answers to initialize as id 1 and tools/list as
// id 3 where no guard stands in between, so that a guard which changes a byte is
// found out.
func (s *sdk) bareAnswers() (initialize, tools string) {
	c, err := drive.Start(wait, programs, s.program, "-guard=off")
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
	return initialize, s.inOrder(tools)
}

// inOrder returns a line as it is, but with the tools of a tools/list sorted where
// the SDK lists them in any order.
func (s *sdk) inOrder(line string) string {
	var m struct {
		Result struct{ Tools []json.RawMessage }
	}
	if !s.anyOrder || json.Unmarshal([]byte(line), &m) != nil || len(m.Result.Tools) == 0 {
		return line
	}
	before := bytes.Join(asBytes(m.Result.Tools), []byte(","))
	slices.SortFunc(m.Result.Tools, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
	return strings.Replace(line, string(before), string(bytes.Join(asBytes(m.Result.Tools), []byte(","))), 1)
}

func asBytes(raw []json.RawMessage) [][]byte {
	all := make([][]byte, len(raw))
	for i, r := range raw {
		all[i] = r
	}
	return all
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
	return startAs(t, s, drive.Conf{}, prefix, args...)
}

func startAs(t *testing.T, s *server, conf drive.Conf, prefix string, args ...string) *drive.Child {
	t.Helper()
	c, err := s.launch(conf, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if stderr := c.Stop(); t.Failed() && stderr != "" {
			t.Logf("stderr of %s: %s", s, stderr)
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
		got = append(got, s.inOrder(line))
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
	rest = slices.DeleteFunc(rest, func(line string) bool { // where stderr is the client too
		return s.lastLog != "" && strings.Contains(line, s.lastLog)
	})
	assert.Empty(t, rest, "lines that nothing asked for")
	status, err := c.AwaitExit()
	require.NoError(t, err)
	assert.Zero(t, status, "exit status")
}

// each runs f for every server at once.
func each(t *testing.T, f func(*testing.T, *server)) { eachOf(t, servers, f) }

func eachOf(t *testing.T, servers []*server, f func(*testing.T, *server)) {
	for _, s := range servers {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			f(t, s)
		})
	}
}

// eachKind runs f for every server and every kind of streams that it can have.
func eachKind(t *testing.T, servers []*server, f func(*testing.T, *server)) {
	for _, kind := range drive.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			eachOf(t, servers, func(t *testing.T, s *server) { f(t, s.on(kind)) })
		})
	}
}

func TestSessionGoesOn(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for i, r := range rows() {
			for _, kind := range kindsOfRow(i) {
				t.Run(r.name+" on "+kind.Name, func(t *testing.T) {
					t.Parallel()
					s := s.on(kind)
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
		}
	})
}

// kindsOfRow are those of streams that a row is tested with: all, or one of them
// where time is short.
func kindsOfRow(i int) []drive.Kind {
	if testing.Short() {
		i %= len(drive.Kinds)
		return drive.Kinds[i : i+1]
	}
	return drive.Kinds
}

// Shows that the driver can tell a session that is over from one that goes on.
func TestBareGoSDKDies(t *testing.T) {
	for _, r := range rows() {
		if !r.killsGoSDK {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, bareServers[0], "")
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
		c, err := bareServers[0].launch(drive.Conf{})
		require.NoError(t, err)
		defer c.Stop()
		require.ErrorIs(t, c.Handshake(bom), io.EOF, "go-sdk has been mended?")
	})
}

// A client that writes a run of garbage before it reads anything fills both
// pipes, if every line of it is answered.
func TestFloodBeforeReading(t *testing.T) {
	eachKind(t, servers, func(t *testing.T, s *server) {
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
	eachOf(t, []*server{onGoSDK, newGoSDK, runGoSDK}, func(t *testing.T, s *server) {
		c := start(t, s, "", "-sdk-line=0")
		c.SendString(ping("2", defaultLine) + "\n" + ping("4", defaultLine) + "\n")
		expect(t, s, c, true, pong("2"), pong("4"))
		finish(t, s, c, "3")
	})
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
				t.Run(s.String(), func(t *testing.T) {
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
