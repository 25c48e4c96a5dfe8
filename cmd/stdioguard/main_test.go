package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test binary, started again with childEnv set, is the command itself; with "serve"
// as its first argument it is a server.
const childEnv = "STDIOGUARD_TEST_CHILD"

// patience bounds each wait. It only says how soon a test that hangs is given up.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	time.AfterFunc(3*patience, func() { os.Exit(99) }) // nobody's orphan
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		os.Exit(servers[os.Args[2]]())
	}
	main()
}

// Servers.

// servers are those behind the guard, each of which returns its exit status. What one
// has to say to the test it sends as a notification.
var servers map[string]func() int

func init() {
	servers = map[string]func() int{
		"tools":    serveTools,
		"deaf":     func() int { select {} },
		"stubborn": serveStubborn,
		"flood":    serveFlood,
		"ends":     func() int { return 7 },
		"no input": serveWithoutInput,
		"no out":   serveWithoutOutput,
		"copy":     serveCopy,
		"answer":   serveAnswer,
		"mcp":      serveMCP,
		"burst":    serveBurst,
	}
}

func serve(name string) []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{exe, "serve", name}
}

func request(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method) + "\n"
}

func result(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) + "\n" }

func told(what string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"told","params":[%q]}`, what) + "\n"
}

func tell(what string) { io.WriteString(os.Stdout, told(what)) }

// question is what "ask" sends to the client.
const question = `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage"}` + "\n"

// big is a notification that does not fit a pipe at once.
var big = told(strings.Repeat("0123456789abcdef", 3<<14))

// late is two messages of 80 KiB. While the first one waits for a client's pipe, the
// guard has 48 KiB of the second, and the rest is in the server's pipe.
var late = strings.Repeat(told(strings.Repeat("0123456789abcdef", 5<<10)), 2)

// serveTools drops what it is doing at the end of its input, as SDKs do.
func serveTools() (status int) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	asking := 0
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			tell(err.Error())
		}
		var id int
		if json.Unmarshal(m.ID, &id) != nil { // "q", or a notification
			if m.ID != nil {
				io.WriteString(os.Stdout, result(asking))
			}
			continue
		}
		switch m.Method {
		case "ask":
			asking = id
			io.WriteString(os.Stdout, question)
			continue
		case "forget":
			continue
		case "slow":
			time.AfterFunc(300*time.Millisecond, func() { io.WriteString(os.Stdout, result(id)) })
			continue
		case "print":
			fmt.Print("loading…\n\n\tcolour \x1b[31mred\x1b[0m \xff\r\n", strings.Repeat("=", 200), "\nnull\n")
		case "print without an end":
			fmt.Print("debug: ")
		case "print much":
			fmt.Print(strings.Repeat("again\n", 300))
		case "log":
			os.Stderr.WriteString("untouched \xff\x00\r\n")
		case "two writes":
			body, _ := strings.CutSuffix(result(id), "\n")
			io.WriteString(os.Stdout, body)
			io.WriteString(os.Stdout, "\n")
			continue
		case "environment":
			tell(os.Getenv("STDIOGUARD_TEST_VALUE"))
		case "hold":
			leaveBehind()
		case "exit":
			os.Exit(7)
		case "exit after much":
			io.WriteString(os.Stdout, big)
			os.Exit(7)
		case "hold and exit":
			leaveBehind()
			io.WriteString(os.Stdout, late)
			os.Exit(7)
		case "exit in a message":
			fmt.Print(`{"jsonrpc":"2.0",`)
			os.Exit(7)
		case "exit after text":
			fmt.Print(strings.Repeat("again\n", 300))
			os.Exit(7)
		case "exit at the end":
			status = 4
		}
		io.WriteString(os.Stdout, result(id))
	}
	return status
}

// leaveBehind starts a process that has the server's output, and tells its id.
func leaveBehind() {
	command := serve("deaf")
	holder := exec.Command(command[0], command[1:]...)
	holder.Stdout = os.Stdout
	if err := holder.Start(); err != nil {
		tell(err.Error())
	}
	tell(fmt.Sprint(holder.Process.Pid))
}

// serveStubborn ignores all but SIGKILL.
func serveStubborn() int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write that nobody reads, too
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	tell("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		tell("a line")
	}
	tell("end of input")
	for s := range signals {
		tell(s.String())
	}
	return 0
}

// serveFlood writes until the client is gone, and then waits for the end of its input.
func serveFlood() int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a failed write is an error
	for {
		if _, err := io.WriteString(os.Stdout, told("more")); err != nil {
			break
		}
	}
	io.Copy(io.Discard, os.Stdin)
	return 5
}

// burst is as much as the pipes on the way to the client hold, and no more.
var burst = strings.Repeat(told("burst"), 300<<10/len(told("burst")))

// serveBurst exits while most of what it wrote is on its way.
func serveBurst() int {
	io.WriteString(os.Stdout, burst)
	return 3
}

func serveWithoutInput() int {
	os.Stdin.Close()
	tell("closed")
	select {}
}

func serveWithoutOutput() int {
	tell("closing")
	os.Stdout.Close()
	io.Copy(io.Discard, os.Stdin)
	return 6
}

// A client runs the command, and has the other ends of its streams.
type client struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     *os.File
	outEnd *os.File // of the command's output
	out    text
	log    text
	ended  []chan struct{}
	exited chan struct{}
}

// A text is read while it is written.
type text struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{}
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.more != nil {
		close(x.more)
		x.more = nil
	}
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// next returns the text, and a channel that is closed when there is more.
func (x *text) next() (string, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.more == nil {
		x.more = make(chan struct{})
	}
	return x.b.String(), x.more
}

// A setup is how the command is started.
type setup struct {
	flags   []string
	command []string
	args    []string // all of them, in place of flags and command
	env     []string
	merged  bool // its standard error is its standard output: 2>&1
	unread  bool // nobody reads its output
	deafLog bool // nobody reads its standard error
	noLog   bool // nobody can: the other end is closed
	shell   string
}

func (s setup) start(t *testing.T) *client {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	args := s.args
	if args == nil {
		args = append(append(append(args, s.flags...), "--"), s.command...)
	}
	c := &client{t: t, cmd: exec.Command(exe, args...), exited: make(chan struct{})}
	if s.shell != "" {
		c.cmd = exec.Command("sh", append([]string{"-c", s.shell, exe}, args...)...)
	}
	// The race detector has a program wait for a second before it exits.
	c.cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0", childEnv+"=1"), s.env...)
	var ends [6]*os.File
	for i := 0; i < len(ends); i += 2 {
		ends[i], ends[i+1], err = os.Pipe()
		require.NoError(t, err)
	}
	c.in, c.outEnd = ends[1], ends[2]
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = ends[0], ends[3], ends[5]
	if s.merged {
		c.cmd.Stderr = ends[3]
	}
	err = c.cmd.Start()
	for _, i := range []int{0, 3, 5} {
		ends[i].Close()
	}
	require.NoError(t, err)
	go func() {
		c.cmd.Wait() // the status is in ProcessState
		close(c.exited)
	}()
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		<-c.exited
		for _, i := range []int{1, 2, 4} {
			ends[i].Close()
		}
	})
	if !s.unread {
		c.read(ends[2], &c.out)
	}
	if s.noLog {
		ends[4].Close()
	} else if !s.deafLog {
		c.read(ends[4], &c.log)
	}
	return c
}

func (c *client) read(from *os.File, to *text) {
	ended := make(chan struct{})
	c.ended = append(c.ended, ended)
	go func() {
		defer close(ended)
		io.Copy(to, from)
	}()
}

func (c *client) send(lines string) {
	c.t.Helper()
	_, err := c.in.WriteString(lines)
	require.NoError(c.t, err)
}

func (c *client) closeIn() {
	c.t.Helper()
	require.NoError(c.t, c.in.Close())
}

// awaits waits until so much has come, which has to be that, or another of the wants,
// which are of one length.
func (c *client) awaits(x *text, wants ...string) {
	c.t.Helper()
	got := c.awaitsUntil(x, func(got string) bool { return len(got) >= len(wants[0]) })
	require.Contains(c.t, wants, got)
}

func (c *client) awaitsUntil(x *text, enough func(string) bool) (got string) {
	c.t.Helper()
	late := time.After(patience)
	for {
		got, more := x.next()
		if enough(got) {
			return got
		}
		select {
		case <-more:
		case <-late:
			require.Fail(c.t, "no more came", "than %q; on standard error: %s", got, &c.log)
		}
	}
}

// ends waits until the command has, and compares all that it wrote.
func (c *client) ends(status int, out, log string) {
	c.t.Helper()
	c.exits(status)
	for _, ended := range c.ended {
		c.await(ended, "somebody holds the outputs open")
	}
	same(c.t, out, c.out.String(), "on standard output")
	same(c.t, log, c.log.String(), "on standard error")
}

func (c *client) exits(status int) {
	c.t.Helper()
	c.await(c.exited, "the command does not exit")
	require.Equal(c.t, status, c.cmd.ProcessState.ExitCode(), "%v; on standard error: %s", c.cmd.ProcessState, &c.log)
}

func (c *client) await(event <-chan struct{}, otherwise string) {
	c.t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		require.Fail(c.t, otherwise, "on standard error: %s", &c.log)
	}
}

// sorted returns the lines of a text in an order that does not depend on which of two
// writers was first.
func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// same compares texts that are too long to print.
func same(t *testing.T, want, got, what string) {
	t.Helper()
	if want == got {
		return
	}
	if len(want)+len(got) < 8<<10 {
		assert.Equal(t, want, got, what)
		return
	}
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, i-100):min(len(s), i+200)] }
	assert.Fail(t, "not the same "+what, "%d bytes, want %d; from byte %d on\n%q, want\n%q", len(got), len(want), i, cut(got), cut(want))
}

// The command line.

func TestWhatIsNoSession(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/file"
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o644))
	const more = "stdioguard -h and stdioguard probe -h print the usage\n"
	var help bytes.Buffer
	usage(&help, new(config).flags())
	for _, tt := range []struct {
		name     string
		args     []string
		env      string
		status   int
		out, log string
		unix     bool
	}{
		{"nothing at all", []string{}, "", 2, "", "stdioguard: no command to run\n\n" + help.String(), false},
		{"flags and no command", []string{"-log", "off", "--"}, "", 2, "", "stdioguard: no command to run\n\n" + help.String(), false},
		{"help", []string{"-h"}, "", 0, "", help.String(), false},
		{"a command without --", []string{"-log", "off", "npx", "server"}, "", 2, "",
			`stdioguard: write "--" before the command: stdioguard [flags] -- npx server` + "\n" + more, false},
		{"a flag that there is not", []string{"-lines", "1", "--", "x"}, "", 2, "", "stdioguard: flag provided but not defined: -lines\n" + more, false},
		{"a bad flag", []string{"-line", "10 apples", "--", "x"}, "", 2, "",
			`stdioguard: invalid value "10 apples" for flag -line: want 1 or more bytes, such as 4096, 64k, 16MiB (powers of 1024) or 1MB (powers of 1000)` + "\n" + more, false},
		{"a bad variable", []string{"--", "x"}, "STDIOGUARD_DEPTH=20000", 2, "",
			`stdioguard: invalid value "20000" for STDIOGUARD_DEPTH: want 1 to 10000` + "\n" + more, false},
		{"a bad variable, and help is asked for", []string{"-h"}, "STDIOGUARD_DEPTH=deep", 0, "", help.String(), false},
		{"version", []string{"version"}, "", 0, "stdioguard " + moduleVersion() + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n", "", false},
		{"version and more", []string{"version", "-v"}, "", 2, "",
			"stdioguard: version takes no arguments; to run a command of that name: stdioguard -- version …\n", false},
		{"no such command", []string{"--", "no-such-command", "arg"}, "", 127, "",
			`stdioguard: cannot start the server: exec: "no-such-command": executable file not found in $PATH` + "\n", true},
		{"no such command, and off", []string{"-log", "off", "--", "no-such-command"}, "", 127, "", "", false},
		{"no such file", []string{"--", dir + "/none"}, "", 127, "",
			"stdioguard: cannot start the server: fork/exec " + dir + "/none: no such file or directory\n", true},
		{"a file that is not executable", []string{"--", file}, "", 126, "",
			"stdioguard: cannot start the server: fork/exec " + file + ": permission denied\n", true},
		{"a directory", []string{"--", dir}, "", 126, "",
			"stdioguard: cannot start the server: fork/exec " + dir + ": permission denied\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.unix && runtime.GOOS == "windows" {
				t.Skip("the system's text is another one")
			}
			setup{args: tt.args, env: []string{tt.env}}.start(t).ends(tt.status, tt.out, tt.log)
		})
	}
}
