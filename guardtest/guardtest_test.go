package guardtest_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/guardtest"
)

// Each server here is this test binary, started again with the server's name in serverEnv.
const serverEnv = "GUARDTEST_SERVER"

func TestMain(m *testing.M) {
	name, ok := os.LookupEnv(serverEnv)
	if !ok {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // else each server takes a second to exit
		os.Exit(m.Run())
	}
	time.AfterFunc(3*time.Minute, func() { os.Exit(99) }) // nobody's orphan
	servers[name]()
}

func server(name string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serverEnv+"="+name)
		return cmd
	}
}

// guarded is how the servers here are guarded. The race detector takes several times
// the memory that a program does, so the limit is not the default.
var guarded = stdioguard.WithLimits(stdioguard.Limits{Line: 1 << 20, Answers: answers()})

// answers is how many error answers in a row are to fit in a pipe: the default, but on
// Windows, where a pipe that a Go client makes holds 4096 bytes.
func answers() int {
	if runtime.GOOS == "windows" {
		return 50
	}
	return 256
}

// servers are all guarded, and so without fault but for the one that each has.
var servers = map[string]func(){
	"whole":     func() { serve(os.Stdin, classic, guarded) },
	"modern":    func() { serve(os.Stdin, modern, guarded) },
	"under Run": serveRun,

	"dies of what is no JSON": func() {
		serve(lineByLine(func(line []byte) []byte {
			text := bytes.TrimSpace(bytes.TrimPrefix(line, bom))
			if len(text) > 0 && text[0] != '{' && text[0] != '[' && !json.Valid(text) {
				fmt.Fprintf(os.Stderr, "what is %.20q?\n", text)
				os.Exit(2)
			}
			return line
		}), classic, guarded)
	},
	"loses a line with a BOM": func() {
		serve(lineByLine(func(line []byte) []byte {
			if bytes.HasPrefix(line, bom) {
				return nil
			}
			return line
		}), classic, guarded)
	},
	"takes an id of 1.5 for 1": func() {
		serve(lineByLine(func(line []byte) []byte {
			return bytes.Replace(line, []byte(`"id":1.5`), []byte(`"id":1`), 1)
		}), classic, guarded)
	},
	"prints when it is astonished": func() {
		serve(lineByLine(func(line []byte) []byte {
			if bytes.Contains(line, []byte("@effect/rpc/Eof")) {
				fmt.Println("debug: unknown method")
			}
			return line
		}), classic, guarded)
	},
	"prints when it starts": func() {
		fmt.Println("listening on stdio")
		serve(os.Stdin, classic, guarded)
	},
	"prints its number when it starts": func() {
		fmt.Println("process", os.Getpid())
		serve(os.Stdin, classic, guarded)
	},
	"has no limit": func() {
		serve(os.Stdin, classic, stdioguard.WithLimits(stdioguard.Limits{Line: 1 << 30, Answers: answers()}))
	},
	"answers no line that is bad": func() { serve(os.Stdin, classic, guarded, stdioguard.WithAnswers(stdioguard.AnswerNone)) },
	"drops answers at the end": func() {
		serve(os.Stdin, classic, guarded, stdioguard.WithDrain(0))
	},
	"ignores the end of input": func() {
		serve(os.Stdin, classic, guarded)
		select {}
	},
	"ignores a hang-up": func() { serveDeaf() },
	"answers the last line twice": func() {
		serve(os.Stdin, func(c *call) string {
			if string(c.ID) == "2" {
				fmt.Println(`{"jsonrpc":"2.0","id":2,` + classic(c) + `}`)
			}
			return classic(c)
		}, guarded)
	},
	"asks without end": func() {
		go io.Copy(io.Discard, os.Stdin)
		for id := 0; ; id++ {
			if _, err := fmt.Printf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", id); err != nil {
				return
			}
		}
	},
	"ends with status 3": func() {
		serve(os.Stdin, classic, guarded)
		os.Exit(3)
	},

	"has a usage":      func() { fmt.Fprintln(os.Stderr, "usage: server -port N"); os.Exit(64) },
	"never answers":    func() { io.Copy(io.Discard, os.Stdin) },
	"names no version": func() { serve(os.Stdin, nameless, guarded) },
	"knows one method": func() { serve(os.Stdin, particular, guarded) },
	"refuses all":      func() { serve(os.Stdin, refusing, guarded) },
}

var bom = []byte("\ufeff")

// A call is a message of the client's.
type call struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Version string                     `json:"protocolVersion"`
		Meta    map[string]json.RawMessage `json:"_meta"`
		A, B    json.RawMessage
	} `json:"params"`
}

// Each of these answers requests, with a result or an error.

func classic(c *call) string {
	switch c.Method {
	case "initialize":
		return `"result":{"protocolVersion":` + quote(c.Params.Version) + `,"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
	case "tools/list":
		return `"result":{"tools":[]}`
	case "ping":
		return `"result":{}`
	}
	return `"error":{"code":-32601,"message":"Method not found"}`
}

func modern(c *call) string {
	const prefix = "io.modelcontextprotocol/"
	switch {
	case c.Method != "tools/list":
		return `"error":{"code":-32601,"message":"Method not found"}`
	case string(c.Params.Meta[prefix+"protocolVersion"]) != `"2026-07-28"` || c.Params.Meta[prefix+"clientCapabilities"] == nil:
		return `"error":{"code":-32602,"message":"Invalid params"}`
	}
	return `"result":{"tools":[],"resultType":"complete"}`
}

// particular answers no probe but the one that TestProbe sets.
func particular(c *call) string {
	if c.Method == "initialize" || string(c.Params.A) == `"\u2028"` && string(c.Params.B) == "[1,2]" && string(c.Params.Meta["c"]) == `"\u2028"` {
		return classic(&call{Method: "initialize", Params: c.Params})
	}
	if c.Method == "x/y" {
		os.Exit(9)
	}
	return classic(c)
}

func nameless(*call) string { return `"result":{}` }

func refusing(*call) string { return `"error":{"code":-32603,"message":"not today"}` }

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// serve answers each request by a goroutine of its own, as SDKs do, and ends with its
// input.
func serve(input io.Reader, answer func(*call) string, opts ...stdioguard.Option) {
	g := stdioguard.New(input, os.Stdout, opts...)
	if err := loop(g, g.Writer(), answer); err != nil {
		os.Exit(1)
	}
}

func serveRun() {
	err := stdioguard.Run(context.Background(), func(context.Context) error { return loop(os.Stdin, os.Stdout, classic) }, guarded)
	if err != nil {
		os.Exit(1)
	}
}

func loop(r io.Reader, w io.Writer, answer func(*call) string) error {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // whatever is still being answered
		}
		if err != nil {
			return err
		}
		var c call
		json.Unmarshal(line, &c)
		if c.Method == "" || c.ID == nil {
			continue
		}
		go func() {
			time.Sleep(time.Millisecond) // so that a server which does not wait is found out
			if _, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", c.ID, answer(&c)); err != nil {
				os.Exit(1) // where SIGPIPE does not end it
			}
		}()
	}
}

// lineByLine returns standard input with each line, up to 64 KiB, changed by f.
func lineByLine(f func(line []byte) []byte) io.Reader {
	r, w := io.Pipe()
	go func() {
		begins := true
		for lines := bufio.NewReaderSize(os.Stdin, 64<<10); ; {
			part, err := lines.ReadSlice('\n')
			if begins && err != bufio.ErrBufferFull {
				part = f(part)
			}
			begins = err == nil
			if _, werr := w.Write(part); werr != nil {
				return
			}
			if err != nil && err != bufio.ErrBufferFull {
				w.CloseWithError(err)
				return
			}
		}
	}()
	return r
}

// serveDeaf goes on when nobody reads any more.
func serveDeaf() {
	signal.Ignore(syscall.SIGPIPE)
	g := stdioguard.New(os.Stdin, deafWriter{}, guarded)
	loop(g, g.Writer(), classic)
}

type deafWriter struct{}

func (deafWriter) Write(p []byte) (int, error) {
	os.Stdout.Write(p)
	return len(p), nil
}

// names returns those of results, in order.
func names(results []guardtest.Result) []string {
	all := []string{}
	for _, r := range results {
		all = append(all, r.Name)
	}
	return all
}

func result(t *testing.T, r *guardtest.Report, name string) guardtest.Result {
	t.Helper()
	i := slices.IndexFunc(r.Results, func(r guardtest.Result) bool { return r.Name == name })
	require.GreaterOrEqual(t, i, 0, "no result for %s", name)
	return r.Results[i]
}

func TestTest(t *testing.T) {
	for _, name := range []string{"whole", "under Run"} {
		t.Run(name, func(t *testing.T) { guardtest.Test(t, server(name), guardtest.WithTimeout(time.Minute)) })
	}
}

// only skips all cases but a few.
func only(names ...string) (opts []guardtest.Option) {
	for _, c := range guardtest.Cases() {
		if !slices.Contains(names, c.Name) {
			opts = append(opts, guardtest.WithSkip(c.Name, "not now"))
		}
	}
	return append(opts, guardtest.WithTimeout(time.Minute))
}

func TestRunFindsTheOneFault(t *testing.T) {
	onLinux := func(name string) []string {
		if runtime.GOOS == "linux" {
			return []string{name}
		}
		return nil
	}
	for _, r := range []struct {
		server   string
		revision string // 2025-11-25 unless it is another
		failed   []string
		failure  map[string]string // of some of them
		slow     bool              // the server has to be waited for: long lines would take as long on a busy machine
		some     bool              // of failed: which, is the scheduler's choice
	}{
		{server: "modern", revision: "2026-07-28"},
		{
			server: "loses a line with a BOM", failed: []string{"bom", "bom-first"}, slow: true,
			failure: map[string]string{
				"bom": `sent:     \ufeff{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}\n` + "\n" +
					"expected: an answer to tools/list, id 2\n" +
					`came:     {"jsonrpc":"2.0","id":1002,"result":{"tools":[]}}\n, then nothing in 5s; the process runs`,
				"bom-first": `sent:     \ufeff{"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVer… (161 bytes)` + "\n" +
					"expected: an answer to initialize, id 1000\n" +
					`came:     nothing in 8s; the process runs`,
			},
		},
		{
			server: "takes an id of 1.5 for 1", failed: []string{"id-fraction"},
			failure: map[string]string{
				"id-fraction": `sent:     {"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{}}\n` + "\n" +
					"expected: no answer but to what was asked\n" +
					`came:     {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`,
			},
		},
		{
			server: "prints when it is astonished", failed: []string{"effect-eof", "effect-eof-id"},
			failure: map[string]string{
				"effect-eof": `sent:     {"jsonrpc":"2.0","method":"@effect/rpc/Eof"}\n` + "\n" +
					"expected: one JSON-RPC 2.0 message on each line of stdout\n" +
					`came:     a line that is no JSON object: debug: unknown method\n`,
			},
		},
		{server: "ignores a hang-up", failed: []string{"hang-up"}, slow: true},
		{
			server: "ignores the end of input", failed: []string{"eof-idle", "eof-requests", "eof-unterminated", "eof-gaps", "one-shot"}, slow: true,
			failure: map[string]string{"eof-idle": "sent:     the end of input\nexpected: an exit\ncame:     the process runs after 8s"},
		},
		{
			server: "dies of what is no JSON",
			failed: []string{
				"not-json", "not-json-then-request", "log-line", "nul", "bad-utf8", "content-length",
				"content-length-body", "utf-16", "two-boms", "storm", "flood", "not-json-first",
			},
			failure: map[string]string{
				"not-json": `sent:     not json\n` + "\n" +
					"expected: an answer to tools/list, id 1001\n" +
					"came:     the end of its output; exit status 2\n" +
					`stderr:   what is "not json"?`,
			},
		},
		{
			server: "has no limit", failed: onLinux("endless-line"),
		},
		{server: "drops answers at the end", failed: []string{"eof-requests", "eof-unterminated", "eof-gaps", "one-shot"}, some: true},
	} {
		t.Run(r.server, func(t *testing.T) {
			t.Parallel()
			opts := []guardtest.Option{guardtest.WithTimeout(time.Minute)}
			if r.slow {
				opts = []guardtest.Option{guardtest.WithTimeout(8 * time.Second)}
				for _, long := range []string{"overcap", "overcap-text", "endless-line", "flood", "depth-100000"} {
					opts = append(opts, guardtest.WithSkip(long, "the server is slow"))
				}
			}
			report, err := guardtest.Run(t.Context(), server(r.server), opts...)
			require.NoError(t, err)
			failed := report.Failed()
			for _, f := range failed {
				t.Logf("%s: %s\n%s", f.Name, f.Answer, f.Failure)
				for line := range strings.Lines(f.Failure.String()) {
					require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
				}
			}
			if r.some {
				require.NotEmpty(t, failed)
				require.Subset(t, r.failed, names(failed))
			} else {
				require.ElementsMatch(t, r.failed, names(failed))
			}
			assert.Equal(t, cmp.Or(r.revision, "2025-11-25"), report.Revision)
			for name, failure := range r.failure {
				assert.Equal(t, failure, result(t, report, name).Failure.String(), name)
			}
		})
	}
}

// Other faults are told apart in a case or two.
func TestRunFindsOtherFaults(t *testing.T) {
	t.Parallel()
	report, err := guardtest.Run(t.Context(), server("answers the last line twice"), append(only("control", "crlf"), guardtest.WithTimeout(time.Minute))...)
	require.NoError(t, err)
	for _, name := range []string{"control", "crlf"} {
		failure := result(t, report, name).Failure
		require.NotNil(t, failure, name)
		assert.Equal(t, "one answer to tools/list, id 2", failure.Expected)
		assert.Equal(t, `a second: {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`, failure.Came)
	}

	_, err = guardtest.Run(t.Context(), server("asks without end"), guardtest.WithTimeout(2*time.Second))
	require.ErrorContains(t, err, "expected: at most 1000 requests of the server's\ncame:     more")
}

func TestRunReportsEachCase(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	var told []guardtest.Result
	report, err := guardtest.Run(t.Context(), server("whole"), guardtest.WithTimeout(time.Minute),
		guardtest.WithSkip("flood", "it floods"),
		guardtest.WithProgress(func(r guardtest.Result) { told = append(told, r) }))
	require.NoError(t, err)
	requireGoroutines(t, goroutines)
	cases := guardtest.Cases()
	require.Len(t, report.Results, len(cases))
	require.ElementsMatch(t, report.Results, told)
	for i, c := range cases {
		r := report.Results[i]
		require.Equal(t, []string{c.Name, c.Source}, []string{r.Name, r.Source})
		if c.Name == "endless-line" && runtime.GOOS != "linux" {
			require.Equal(t, guardtest.Skipped, r.Status)
			continue
		}
		if c.Name != "flood" {
			require.Equal(t, guardtest.Passed, r.Status, r.Failure)
			require.NotEmpty(t, r.Answer, c.Name)
			require.Positive(t, r.Took, c.Name)
		}
	}
	flood := result(t, report, "flood")
	require.Equal(t, guardtest.Skipped, flood.Status)
	require.Equal(t, []string{"it floods"}, flood.Notes)

	for name, answer := range map[string]string{
		"control":               "served",
		"blank":                 "silent",
		"not-json":              "-32700, id null",
		"not-json-then-request": "-32700, id null; served",
		"scalar":                "-32600, id null",
		"method-id":             "-32600, id 4",
		"unknown-method":        "-32601, id 2",
		"content-length-body":   "2 x -32700, id null",
		"storm":                 fmt.Sprintf("%d x -32700, id null", answers()),
		"eof-idle":              "exit status 0",
		"eof-requests":          "20 x served; exit status 0",
	} {
		require.Equal(t, answer, result(t, report, name).Answer, name)
	}
	const note = "an answer with a null id ends the session of clients built on go-sdk v1.8 and on the Java SDK"
	require.Equal(t, []string{note}, result(t, report, "storm").Notes)
	require.Empty(t, result(t, report, "method-id").Notes)
}

func TestExitStatusIsANote(t *testing.T) {
	report, err := guardtest.Run(t.Context(), server("ends with status 3"), only("eof-idle")...)
	require.NoError(t, err)
	r := result(t, report, "eof-idle")
	require.Equal(t, guardtest.Passed, r.Status)
	require.Equal(t, []string{"the end of input ends the process with exit status 3"}, r.Notes)
}

func TestSilenceIsNoFailure(t *testing.T) {
	report, err := guardtest.Run(t.Context(), server("answers no line that is bad"), only("not-json", "method-id")...)
	require.NoError(t, err)
	require.Empty(t, names(report.Failed()))
	require.Equal(t, "silent", result(t, report, "not-json").Answer)
	require.Equal(t, "-32600, id 4", result(t, report, "method-id").Answer)
}

// Whatever a case is about, its output is judged.
func TestOutputIsJudgedInEachCase(t *testing.T) {
	cases := []string{"control", "not-json", "bom-first", "eof-idle", "eof-requests", "hang-up"}
	report, err := guardtest.Run(t.Context(), server("prints its number when it starts"), only(cases...)...)
	require.NoError(t, err)
	require.ElementsMatch(t, cases, names(report.Failed()))
}

// What is printed at each start would hide all other faults.
func TestWhatIsPrintedAtEachStartFailsOneCase(t *testing.T) {
	report, err := guardtest.Run(t.Context(), server("prints when it starts"), only("control", "not-json", "bom-first", "eof-idle")...)
	require.NoError(t, err)
	require.Equal(t, "2025-11-25", report.Revision)
	require.Equal(t, []string{"control"}, names(report.Failed()))
	require.Equal(t, `sent:     {"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVersion":… (158 bytes)`+"\n"+
		"expected: one JSON-RPC 2.0 message on each line of stdout\n"+
		`came:     a line that is no JSON object: listening on stdio\n`, result(t, report, "control").Failure.String())
}

func TestServerThatNeverServes(t *testing.T) {
	const initialize = `sent:     {"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVersion":… (158 bytes)` + "\n"
	for _, r := range []struct{ server, err string }{
		{"has a usage", "guardtest: the server ended before it answered initialize\n" + initialize +
			"expected: an answer to initialize, id 1000\n" +
			"came:     the end of its output; exit status 64\n" +
			"stderr:   usage: server -port N"},
		{"never answers", "guardtest: the server does not answer initialize\n" + initialize +
			"expected: an answer to initialize, id 1000\n" +
			"came:     nothing in 1s; the process runs"},
		{"names no version", "guardtest: the server answers initialize and names no protocolVersion"},
		{"refuses all", "guardtest: the server refuses both lifecycles of MCP\n" + initialize +
			"expected: a result for initialize, id 1000\n" +
			`came:     {"jsonrpc":"2.0","id":1000,"error":{"code":-32603,"message":"not today"}}` + "\n" +
			`sent:     {"jsonrpc":"2.0","id":1000,"method":"tools/list","params":{"_meta":{"io.model… (245 bytes)` + "\n" +
			"expected: a result for tools/list, id 1000\n" +
			`came:     {"jsonrpc":"2.0","id":1000,"error":{"code":-32603,"message":"not today"}}`},
	} {
		t.Run(r.server, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if r.server == "never answers" {
				timeout = time.Second
			}
			report, err := guardtest.Run(t.Context(), server(r.server), guardtest.WithTimeout(timeout))
			require.Nil(t, report)
			require.Error(t, err)
			require.Equal(t, r.err, err.Error())
		})
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	_, err := guardtest.Run(t.Context(), func() *exec.Cmd { return exec.Command("./no such program") })
	require.True(t, errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound), "%v", err) // the latter on Windows
}

func TestCommandsThatCannotBeUsed(t *testing.T) {
	whole := server("whole")
	once := whole()
	for _, r := range []struct {
		name   string
		newCmd func() *exec.Cmd
		err    string
	}{
		{"none", func() *exec.Cmd { return nil }, "guardtest: newCmd returned nil"},
		{"one with a stream", func() *exec.Cmd { cmd := whole(); cmd.Stderr = os.Stderr; return cmd },
			"guardtest: newCmd returned a command whose Stdin, Stdout or Stderr is set; they are the battery's"},
		{"the same again", func() *exec.Cmd { return once },
			"guardtest: newCmd returned a command that was started before; it has to make a new one each time"},
	} {
		t.Run(r.name, func(t *testing.T) {
			report, err := guardtest.Run(t.Context(), r.newCmd, only("control")...)
			if r.name == "the same again" { // the first was good
				require.NoError(t, err)
				require.Equal(t, r.err, result(t, report, "control").Failure.Came)
				return
			}
			require.EqualError(t, err, r.err)
		})
	}
	require.Panics(t, func() { guardtest.Run(t.Context(), nil) })
}

func TestOptionsThatCannotBeUsed(t *testing.T) {
	for name, option := range map[string]func(){
		"no such case":            func() { guardtest.WithSkip("no such case", "a reason") },
		"no reason":               func() { guardtest.WithSkip("flood", "") },
		"no time":                 func() { guardtest.WithTimeout(0) },
		"params that are no JSON": func() { guardtest.WithProbe("x", "{") },
		"params that are null":    func() { guardtest.WithProbe("x", "null") },
		"params in an array":      func() { guardtest.WithProbe("x", "[]") },
		"_meta in an array":       func() { guardtest.WithProbe("x", `{"_meta":[]}`) },
	} {
		require.Panics(t, option, name)
	}
}

func TestProbe(t *testing.T) {
	report, err := guardtest.Run(t.Context(), server("knows one method"), append(only("control", "bom", "depth-256", "eof-requests"),
		guardtest.WithProbe("x/y", `{"b": [1,
			2], "_meta": {"c": "\u2028"}, "a": "\u2028"}`))...)
	require.NoError(t, err)
	require.Empty(t, names(report.Failed()))
}

func TestEnv(t *testing.T) {
	for name, newCmd := range map[string]func() *exec.Cmd{
		"beside this process's own": func() *exec.Cmd { return exec.Command(os.Args[0]) },
		"beside the command's": func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), serverEnv+"=has a usage")
			return cmd
		},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := guardtest.Run(t.Context(), newCmd, append(only("control"), guardtest.WithEnv(serverEnv+"=whole"))...)
			require.NoError(t, err)
			require.Empty(t, names(report.Failed()))
		})
	}
}

// A context that is done ends everything at once.
func TestRunThatIsCancelled(t *testing.T) {
	t.Run("in the handshake", func(t *testing.T) {
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		newCmd := func() *exec.Cmd {
			go cancel()
			return server("never answers")()
		}
		requireCancelled(t, ctx, newCmd, before)
	})
	t.Run("in the battery", func(t *testing.T) {
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		requireCancelled(t, ctx, server("ignores the end of input"), before,
			guardtest.WithProgress(func(guardtest.Result) { cancel() }))
	})
}

func requireCancelled(t *testing.T, ctx context.Context, newCmd func() *exec.Cmd, goroutines int, opts ...guardtest.Option) {
	t.Helper()
	report, err := guardtest.Run(ctx, newCmd, append(opts, guardtest.WithTimeout(time.Minute))...)
	require.Nil(t, report)
	require.ErrorIs(t, err, context.Canceled)
	requireGoroutines(t, goroutines)
}

// requireGoroutines waits until there are no more goroutines than there were: one that
// has nothing left to do may take a moment to be gone.
func requireGoroutines(t *testing.T, before int) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(late), "%d goroutines, there were %d", runtime.NumGoroutine(), before)
	}
}

func TestCases(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range guardtest.Cases() {
		require.False(t, seen[c.Name], "two cases are called %s", c.Name)
		seen[c.Name] = true
		require.Regexp(t, `^[a-z0-9.-]+$`, c.Name)
		require.Regexp(t, `^[A-Z0-9].*\.$`, c.What, c.Name)
		require.NotEmpty(t, c.Source, c.Name)
	}
	// These names are those of a public report.
	for _, name := range []string{
		"control", "not-json", "blank", "bom", "null-batch", "method-batch", "scalar", "empty-obj", "array", "method-id", "overcap",
	} {
		require.True(t, seen[name], name)
	}
}

func TestStatus(t *testing.T) {
	for s, text := range map[guardtest.Status]string{guardtest.Passed: "passed", guardtest.Failed: "failed", guardtest.Skipped: "skipped"} {
		require.Equal(t, text, s.String())
		b, err := s.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(b))
		var back guardtest.Status
		require.NoError(t, back.UnmarshalText(b))
		require.Equal(t, s, back)
	}
	var none guardtest.Status
	require.Equal(t, "Status(0)", none.String())
	_, err := none.MarshalText()
	require.Error(t, err)
	require.Error(t, none.UnmarshalText([]byte("")))
	require.Error(t, none.UnmarshalText([]byte("well")))
}

// What Test says, by a test of this binary that is to fail.
const innerEnv = "GUARDTEST_INNER"

func TestInner(t *testing.T) {
	name, ok := os.LookupEnv(innerEnv)
	if !ok {
		t.Skip("run by TestWhatTestSays")
	}
	guardtest.Test(t, server(name), only("control", "id-fraction", "eof-idle")...)
}

func TestWhatTestSays(t *testing.T) {
	inner := func(name string) (out string, failed []string) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInner$", "-test.v")
		cmd.Env = append(os.Environ(), innerEnv+"="+name)
		b, err := cmd.CombinedOutput()
		require.Error(t, err)
		for _, m := range regexp.MustCompile(`--- FAIL: TestInner/(\S+)`).FindAllStringSubmatch(string(b), -1) {
			failed = append(failed, m[1])
		}
		return string(b), failed
	}
	t.Run("of a case", func(t *testing.T) {
		out, failed := inner("takes an id of 1.5 for 1")
		require.Equal(t, []string{"id-fraction"}, failed, out)
		require.Contains(t, out, "A request whose id is 1.5. (go-sdk v1.8.0 answers it as 1)\n        sent: ")
		require.Contains(t, out, "--- SKIP: TestInner/flood")
		require.Contains(t, out, "not now")
		require.Contains(t, out, "the server speaks MCP 2025-11-25")
	})
	t.Run("of a server that never serves", func(t *testing.T) {
		out, failed := inner("has a usage")
		require.Empty(t, failed)
		require.Equal(t, 1, strings.Count(out, "--- FAIL: "), out)
		require.Contains(t, out, "guardtest: the server ended before it answered initialize\n")
	})
}
