package stdioguard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard"
)

// A process has one standard input and output, and Stdio takes them once. So each
// server here is this test binary, started again with the server's name in serverEnv.
const (
	serverEnv    = "STDIOGUARD_TEST_SERVER"
	diversionEnv = "STDIOGUARD_TEST_DIVERSION" // the file for WithDiversion
)

// patience bounds each wait for a server. It only says how soon a test that hangs
// is given up.
const patience = time.Minute

func TestMain(m *testing.M) {
	name, ok := os.LookupEnv(serverEnv)
	if !ok {
		os.Exit(m.Run())
	}
	time.AfterFunc(3*patience, func() { os.Exit(99) }) // nobody's orphan
	os.Exit(stdioServers[name]())
}

// stdioServers are the servers, each of which returns its exit status. What a
// server has to say to the test it says on standard error.
var stdioServers map[string]func() int

func init() {
	stdioServers = map[string]func() int{
		"echo":     echoServer,
		"linger":   lingerServer,
		"noisy":    noisyServer,
		"a corpus": corpusServer,

		"Stdio without a standard input":  func() int { return closedServer(os.Stdin) },
		"Stdio without a standard output": func() int { return closedServer(os.Stdout) },
		"Stdio without a standard error":  noStderrServer,
		"Close":                           closeServer,
		"CloseRead":                       closeReadServer,
		"hang-up":                         hangUpServer,
		"one large message":               func() int { return stuckServer(writeBig) },
		"many small messages":             func() int { return stuckServer(writeOn) },
		"drain":                           drainServer,
		"big":                             bigServer,
		"unread noise":                    unreadNoiseServer,
		"Stdio, counted":                  func() int { return counted(countedStdio) },
		"Close, counted":                  func() int { return counted(countedClose) },
		"Stdio that fails, counted":       func() int { return counted(countedFailure) },
		"Run, counted":                    func() int { return counted(countedRun) },
		"Run with an error, counted":      func() int { return counted(countedRunError) },
		"Run with a hang-up, counted":     func() int { return counted(countedRunHangUp) },

		"Run: noisy":            runNoisyServer,
		"Run: concurrent":       func() int { return runServer(serveConcurrently) },
		"Run: starts only":      func() int { return runServer(serveInBackground) },
		"Run: fails":            func() int { return runServer(serveAndFail) },
		"Run: fails at length":  func() int { return runServer(serveAtLength) },
		"Run: context":          runContextServer,
		"Run: no answer":        runNoAnswerServer,
		"Run: never reads":      runNeverReadsServer,
		"Run: late":             runLateServer,
		"Run: hang-up":          func() int { return runServer(serveUntilHangUp) },
		"Run: drain":            func() int { return runServer(serveNoAnswer) },
		"Run: background child": func() int { return runServer(serveWithChild) },
		"Run: unread noise":     runUnreadNoiseServer,
		"Run: twice":            runTwiceServer,
	}
}

// A stdioKind is what a client makes a server's standard streams of.
type stdioKind struct {
	name string
	pair func(serverReads bool) (server, client *os.File, err error)
}

var stdioKinds = []stdioKind{{"pipes", pipe}} // and more, where the system has it

func pipe(serverReads bool) (server, client *os.File, err error) {
	r, w, err := os.Pipe()
	if serverReads {
		return r, w, err
	}
	return w, r, err
}

func inEachKind(t *testing.T, f func(t *testing.T, k stdioKind)) {
	t.Helper()
	for _, k := range stdioKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

// A startConf is how a server is started.
type startConf struct {
	stdioKind
	merged    bool // standard error is standard output, as with 2>&1
	shared    bool // the test keeps the server's ends
	unread    bool // nobody reads standard output, but for what the test reads itself
	unreadLog bool // and nobody standard error
	env       []string
	prepare   func(*exec.Cmd)
}

// A child is a server in a process of its own, as its client sees it.
type child struct {
	t              *testing.T
	cmd            *exec.Cmd
	in, out, log   *os.File   // the client's ends
	ends           []*os.File // the server's
	stdout, stderr *divertLog
	ended          []chan struct{} // of outputs that are read
	exited         chan struct{}
}

func (c startConf) start(t *testing.T, server string) *child {
	t.Helper()
	require.Contains(t, stdioServers, server)
	exe, err := os.Executable()
	require.NoError(t, err)
	s := &child{t: t, cmd: exec.Command(exe), stdout: newDivertLog(), stderr: newDivertLog(), exited: make(chan struct{})}
	// The race detector has a program wait for a second before it exits.
	s.cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0", serverEnv+"="+server), c.env...)
	serverIn, in, err := c.pair(true)
	require.NoError(t, err)
	serverOut, out, err := c.pair(false)
	require.NoError(t, err)
	serverErr, log, err := c.pair(false)
	require.NoError(t, err)
	s.in, s.out, s.log = in, out, log
	s.ends = []*os.File{serverIn, serverOut, serverErr}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = serverIn, serverOut, serverErr
	if c.merged {
		s.cmd.Stderr = serverOut
	}
	if c.prepare != nil {
		c.prepare(s.cmd)
	}
	err = s.cmd.Start()
	// The server has its own: the end of its life has to be the end of the streams.
	if !c.shared {
		s.closeEnds()
	}
	require.NoError(t, err)
	go func() {
		s.cmd.Wait() // the status is in ProcessState
		close(s.exited)
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.exited
		s.closeEnds()
		for _, f := range []*os.File{in, out, log} {
			f.Close()
		}
	})
	if !c.unread {
		s.read(out, s.stdout)
	}
	if !c.unreadLog {
		s.read(log, s.stderr)
	}
	return s
}

func (s *child) closeEnds() {
	for _, f := range s.ends {
		f.Close()
	}
}

func (s *child) read(f *os.File, to *divertLog) {
	ended := make(chan struct{})
	s.ended = append(s.ended, ended)
	go func() {
		defer close(ended)
		io.Copy(to, f)
	}()
}

func (s *child) send(lines string) {
	s.t.Helper()
	_, err := s.in.WriteString(lines)
	require.NoError(s.t, err)
}

// awaitsOut waits until so much has come on standard output, or no more will.
func (s *child) awaitsOut(want string) {
	s.t.Helper()
	s.awaitsText(want, s.stdout, "on standard output")
}

func (s *child) awaitsLog(want string) {
	s.t.Helper()
	s.awaitsText(want, s.stderr, "on standard error")
}

func (s *child) awaitsText(want string, log *divertLog, what string) {
	s.t.Helper()
	came := make(chan struct{})
	go func() {
		log.await(int64(len(want)))
		close(came)
	}()
	select {
	case <-came:
	case <-s.exited:
		for _, ended := range s.ended {
			await(s.t, ended, patience, "somebody holds the server's outputs open")
		}
	case <-time.After(patience):
	}
	got := log.String()
	assertSame(s.t, want, got, what)
	if got == want {
		return
	}
	select {
	case <-s.exited:
		require.Fail(s.t, "the server has gone", "%v", s.cmd.ProcessState)
	default:
		require.Fail(s.t, "the server is still there")
	}
}

func (s *child) awaits(out, log string) {
	s.t.Helper()
	s.awaitsOut(out)
	s.awaitsLog(log)
}

// exits waits for the server's end: exactly that was on its standard output and error.
func (s *child) exits(status int, out, log string) {
	s.t.Helper()
	s.exitsWithin(patience, status)
	for _, ended := range s.ended {
		await(s.t, ended, patience, "somebody holds the server's outputs open")
	}
	assertSame(s.t, out, s.stdout.String(), "on standard output")
	assertSame(s.t, log, s.stderr.String(), "on standard error")
}

func (s *child) exitsWithin(most time.Duration, status int) {
	s.t.Helper()
	await(s.t, s.exited, most, "the server does not exit")
	require.Equal(s.t, status, s.cmd.ProcessState.ExitCode(), "%v\non standard error: %s", s.cmd.ProcessState, s.stderr)
}

func await(t *testing.T, event <-chan struct{}, most time.Duration, otherwise string) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(most):
		require.Fail(t, otherwise)
	}
}

// readLine reads from a standard output that nobody else reads.
func (s *child) readLine() string {
	s.t.Helper()
	var line []byte
	for p := make([]byte, 1); p[0] != '\n'; line = append(line, p[0]) {
		_, err := io.ReadFull(s.out, p)
		require.NoError(s.t, err)
	}
	return string(line)
}

// hangUp closes the client's end of standard output, and nothing else.
func (s *child) hangUp() {
	s.t.Helper()
	require.NoError(s.t, s.out.Close())
}

func (s *child) closeIn() {
	s.t.Helper()
	require.NoError(s.t, s.in.Close())
}

// Servers' helpers.

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// must returns v, or ends a server that cannot go on.
func must[T any](v T, err error) T {
	if err != nil {
		say("%v", err)
		os.Exit(98)
	}
	return v
}

// nameOf gives the errors that tests ask for a name.
func nameOf(err error) string {
	switch {
	case err == nil:
		return "no error"
	case errors.Is(err, syscall.EPIPE):
		return "EPIPE"
	}
	return err.Error()
}

// callLine is a request, as a line.
func callLine(method, id string) string { return calling(method, id) + "\n" }

func replyLine(id string) string { return response(id) + "\n" }

// eachCall calls f with each request, up to the end of r.
func eachCall(r io.Reader, f func(method, id string)) error {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return nil
		}
		if err != nil {
			return err
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return err
		}
		f(m.Method, string(m.ID))
	}
}

// awaitSleep waits until a goroutine waits for something within a function.
func awaitSleep(function string) {
	for buf := make([]byte, 1<<20); ; pause() {
		for goroutine := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			state, calls, _ := strings.Cut(goroutine, "\n")
			if strings.Contains(calls, function) && !strings.Contains(state, "[run") {
				return
			}
		}
	}
}

// pause passes a little of the time in which others bring about what is waited for.
func pause() { time.Sleep(time.Millisecond) }

// awaitRead waits until a goroutine waits in the guard's Read.
func awaitRead() { awaitSleep("stdioguard.(*Guard).Read(") }

// What can go wrong around the protocol.

// A noise is something that would disturb a client or its server, and the text of
// it that turns up on standard error instead.
type noise struct {
	name, text string
	make       func()
	direct     bool // it is made on standard error itself
}

// old is what a server had before it called Stdio or Run.
var old struct {
	guard       *stdioguard.Guard
	log         *log.Logger
	buf         *bufio.Writer
	descriptors string
}

// Some systems can say these.
var (
	childDescriptors = func() string { return "" }
	processorTime    = func() time.Duration { return 0 }
)

var noises = []noise{
	{name: "nothing"},
	{name: "fmt.Println", text: "printed\n", make: func() { fmt.Println("printed") }},
	{name: "fmt.Print without a newline", text: "unended", make: func() { fmt.Print("unended") }},
	{name: "println", text: "7\n", make: func() { println(7) }, direct: true},
	{name: "a logger made before", text: "old: logged\n", make: func() { old.log.Print("logged") }},
	{name: "a bufio.Writer made before", text: "buffered", make: func() {
		old.buf.WriteString("buffered")
		old.buf.Flush()
	}},
	{name: "os.Stdout.WriteString", text: "written\n", make: func() { os.Stdout.WriteString("written\n") }},
	{name: "a write to descriptor 1", text: "raw\n", make: func() { must(syscall.Write(syscall.Stdout, []byte("raw\n"))) }},
	{name: "the very message that is to be sent", text: replyLine("1"), make: func() { fmt.Println(response("1")) }},
	{name: "a notification", text: note + "\n", make: func() { fmt.Println(note) }},
	{name: "a MiB of text", text: mebibyte, make: func() { fmt.Print(mebibyte) }},
	{name: "text written to the Writer", text: "diverted\n", make: func() { io.WriteString(old.guard.Writer(), "diverted\n") }},
	{name: "a child that is given os.Stdin and os.Stdout", text: "a child's\n", make: func() {
		cmd := echoCommand()
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		must(0, cmd.Run())
	}},
	{name: "reading os.Stdin", text: "0 bytes, no error\n", make: func() {
		p, err := io.ReadAll(os.Stdin)
		say("%d bytes, %s", len(p), nameOf(err))
	}, direct: true},
	{name: "Stdio again", text: "an error\n", make: func() {
		if _, err := stdioguard.Stdio(); err != nil {
			say("an error")
		}
	}, direct: true},
	{name: "Run after Stdio", text: "an error\n", make: func() {
		if err := stdioguard.Run(context.Background(), func(context.Context) error {
			say("called")
			return nil
		}); err != nil {
			say("an error")
		}
	}, direct: true},
}

var mebibyte = strings.Repeat("0123456789abcde\n", 1<<16)

// echoServer stands for any child: it prints, and reads all that there is.
func echoServer() int {
	fmt.Println("a child's")
	io.Copy(os.Stdout, os.Stdin)
	return 0
}

func echoCommand() *exec.Cmd {
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = append(os.Environ(), serverEnv+"=echo")
	return cmd
}

// noisyServer makes the noise that a method names, and answers.
func noisyServer() int {
	old.log = log.New(os.Stdout, "old: ", 0)
	old.buf = bufio.NewWriter(os.Stdout)
	old.descriptors = childDescriptors()
	var opts []stdioguard.Option
	if name := os.Getenv(diversionEnv); name != "" {
		opts = append(opts, stdioguard.WithDiversion(must(os.Create(name))))
	}
	g := must(stdioguard.Stdio(opts...))
	old.guard = g
	must(0, eachCall(g, func(method, id string) {
		makeNoise(noises, method)
		must(io.WriteString(g.Writer(), replyLine(id)))
	}))
	must(0, g.Close())
	fmt.Println("after the session")
	return 0
}

func makeNoise(all []noise, name string) {
	i := slices.IndexFunc(all, func(n noise) bool { return n.name == name })
	if all[i].make != nil {
		all[i].make()
	}
}

// Whatever is printed, and by whom: the client sees the protocol, byte for byte.
func TestStdioKeepsTheStreamsForTheProtocol(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "noisy")
		var out, log string
		for _, n := range noises {
			s.send(callLine(n.name, "1"))
			out, log = out+replyLine("1"), log+n.text
			s.t.Log(n.name)
			s.awaits(out, log)
		}
		s.send("bad\n" + callLine("nothing", "2"))
		s.closeIn()
		s.exits(0, out+parseError("null")+replyLine("2"), log+"after the session\n")
	})
}

func TestStdioWhereStandardErrorIsTheClientToo(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		for _, tt := range []struct {
			name     string
			divert   bool
			diverted string
		}{
			{"nothing is diverted by default", false, ""},
			{"an explicit diversion is kept", true, "diverted\n"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "diverted")
				c := startConf{stdioKind: k, merged: true}
				if tt.divert {
					c.env = []string{diversionEnv + "=" + file}
				}
				s := c.start(t, "noisy")
				var out string
				for _, n := range noises {
					if n.direct {
						continue
					}
					s.send(callLine(n.name, "1"))
					out += replyLine("1")
					s.t.Log(n.name)
					s.awaits(out, "")
				}
				s.closeIn()
				s.exits(0, out, "")
				diverted, _ := os.ReadFile(file)
				assert.Equal(t, tt.diverted, string(diverted))
			})
		}
	})
}

func TestStdioOnRegularFiles(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(in, []byte(callLine("fmt.Println", "1")+"bad\n"+strings.TrimSpace(callLine("nothing", "2"))), 0o600))
	s := startConf{stdioKind: stdioKinds[0], prepare: func(cmd *exec.Cmd) {
		var err error
		cmd.Stdin, err = os.Open(in)
		require.NoError(t, err)
		cmd.Stdout, err = os.Create(out)
		require.NoError(t, err)
	}}.start(t, "noisy")
	defer s.cmd.Stdin.(*os.File).Close()
	defer s.cmd.Stdout.(*os.File).Close()
	s.exits(0, "", "printed\nafter the session\n")
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, replyLine("1")+parseError("null")+replyLine("2"), string(got))
}

// closedServer has one stream closed, and then uses the other.
func closedServer(f *os.File) int {
	must(0, f.Close())
	if _, err := stdioguard.Stdio(); err == nil {
		say("no error")
	}
	fmt.Println(note)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	say("%q, %t", line, err == nil)
	return 0
}

func TestStdioFailsOnAClosedStreamAndHarmsNone(t *testing.T) {
	for _, tt := range []struct {
		name, out, log string
	}{
		{"Stdio without a standard input", note + "\n", `"", false` + "\n"},
		{"Stdio without a standard output", "", strconv.Quote(pingLine) + ", true\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startConf{stdioKind: stdioKinds[0]}.start(t, tt.name)
			s.in.WriteString(pingLine) // who would not read it has closed the pipe
			s.exits(0, tt.out, tt.log)
		})
	}
}

// noStderrServer has nowhere to say anything: it exits with what went wrong.
func noStderrServer() int {
	must(0, os.Stderr.Close())
	g := must(stdioguard.Stdio())
	status := 0
	must(0, eachCall(g, func(method, id string) {
		io.WriteString(g.Writer(), "diverted\n")
		if _, err := fmt.Println("printed"); err != nil {
			status = 3
		}
		must(io.WriteString(g.Writer(), replyLine(id)))
	}))
	return status
}

func TestStdioWithoutAStandardErrorPrintsToTheNullDevice(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "Stdio without a standard error")
		s.send(callLine("any", "1") + callLine("any", "2"))
		s.closeIn()
		s.exits(0, replyLine("1")+replyLine("2"), "")
	})
}

// closeServer closes the guard under a Read that waits for the client, and then
// stays until the client has seen that.
func closeServer() int {
	g := must(stdioguard.Stdio())
	out := g.Writer()
	must(io.ReadFull(g, make([]byte, len(callLine("any", "1")))))
	read := make(chan error, 1)
	go func() {
		_, err := g.Read(make([]byte, 100))
		read <- err
	}()
	awaitRead()
	must(0, g.Close())
	say("Read: %s", nameOf(<-read))
	_, err := io.WriteString(out, replyLine("1"))
	say("Write: %s", nameOf(err))
	must(0, g.Close())
	fmt.Println("closed")
	select {}
}

// The server stays, so that what the client sees is not the process's end.
func TestCloseWakesAReadAndClosesTheStreams(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "Close")
		s.send(callLine("any", "1"))
		s.awaitsLog("Read: EOF\nWrite: io: read/write on closed pipe\nclosed\n")
		await(t, s.ended[0], patience, "standard output is still open")
		assert.Empty(t, s.stdout.String())
		_, err := s.in.WriteString(pingLine)
		assert.Error(t, err, "standard input is still open")
	})
}

// closeReadServer ends the input under a Read that waits for the client.
func closeReadServer() int {
	g := must(stdioguard.Stdio())
	out := g.Writer()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for p := make([]byte, 1000); ; {
			n, err := g.Read(p)
			if err != nil {
				say("Read: %s", nameOf(err))
				return
			}
			lines <- string(p[:n])
		}
	}()
	first := <-lines
	say("%q", first)
	for g.Stats().BytesIn < int64(len(first)+len(ping)) {
		pause() // until the line without an end has come too
	}
	awaitRead()
	must(0, g.CloseRead())
	say("%q", <-lines)
	awaitRead()
	must(io.WriteString(out, replyLine("7")))
	select {
	case <-lines:
		say("the input has ended before the answers")
	case <-time.After(grace):
	}
	must(io.WriteString(out, replyLine("1")))
	<-lines
	must(0, g.Close())
	return 0
}

// grace is how long what must not happen yet is given to happen.
const grace = 100 * time.Millisecond

func TestCloseReadEndsTheInputAndDrains(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "CloseRead")
		s.send(callLine("any", "7"))
		first := fmt.Sprintf("%q\n", callLine("any", "7"))
		s.awaitsLog(first)
		s.send(ping)
		s.exits(0, replyLine("7")+replyLine("1"), first+fmt.Sprintf("%q\nRead: EOF\n", pingLine))
	})
}

// hangUpServer writes, after its second line, until its client is gone.
func hangUpServer() int {
	g := must(stdioguard.Stdio())
	lines, read := make(chan struct{}), make(chan error)
	go func() {
		for range 2 {
			must(io.ReadFull(g, make([]byte, len(pingLine))))
			lines <- struct{}{}
		}
		_, err := g.Read(make([]byte, 100))
		read <- err
	}()
	<-lines
	must(io.WriteString(g.Writer(), note+"\n"))
	say("written")
	<-lines
	awaitRead()
	say("Write: %s", nameOf(writeOn(g.Writer())))
	say("Read: %s", nameOf(<-read))
	say("Write: %s", nameOf(writeOn(g.Writer())))
	return 7
}

// writeOn writes until that fails.
func writeOn(w io.Writer) (err error) {
	for err == nil {
		_, err = io.WriteString(w, note+"\n")
	}
	return err
}

// A client may leave something unread, which some kinds of stream tell the writer.
var hangUps = []struct {
	name  string
	leave func(*child)
}{
	{"having read all", func(s *child) { assert.Equal(s.t, note+"\n", s.readLine()) }},
	{"with something unread", func(s *child) { s.awaitsLog("written\n") }},
}

func inEachHangUp(t *testing.T, server string, status int, log string) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		for _, h := range hangUps {
			t.Run(h.name, func(t *testing.T) {
				s := startConf{stdioKind: k, unread: true}.start(t, server)
				s.send(pingLine)
				h.leave(s)
				s.hangUp()
				s.in.WriteString(pingLine) // the server may have gone
				s.exits(status, "", log)
			})
		}
	})
}

func TestAClientThatHangsUpIsAnErrorAndNoSignal(t *testing.T) {
	inEachHangUp(t, "hang-up", 7, "written\nWrite: EPIPE\nRead: EPIPE\nWrite: EPIPE\n")
}

func writeBig(w io.Writer) error {
	_, err := io.WriteString(w, bigAnswer("1"))
	return err
}

// stuckServer has a client that does not read what is written.
func stuckServer(write func(io.Writer) error) int {
	g := must(stdioguard.Stdio())
	first, read, written := make(chan struct{}), make(chan error), make(chan error)
	go func() {
		must(io.ReadFull(g, make([]byte, len(pingLine))))
		close(first)
		_, err := g.Read(make([]byte, 100))
		read <- err
	}()
	<-first
	awaitRead()
	go func() { written <- write(g.Writer()) }()
	awaitSleep("io.WriteString(")
	for before := int64(-1); before != g.Stats().Written; time.Sleep(grace) {
		before = g.Stats().Written
	}
	say("stuck")
	say("Write: %s", nameOf(<-written))
	say("Read: %s", nameOf(<-read))
	return 7
}

func TestAClientThatHangsUpOnAWriteThatIsStuck(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		for _, server := range []string{"one large message", "many small messages"} {
			t.Run(server, func(t *testing.T) {
				s := startConf{stdioKind: k, unread: true}.start(t, server)
				s.send(pingLine)
				s.awaitsLog("stuck\n")
				s.hangUp()
				s.exits(7, "", "stuck\nWrite: EPIPE\nRead: EPIPE\n")
			})
		}
	})
}

// drainServer never answers.
func drainServer() int {
	g := must(stdioguard.Stdio())
	g.Writer()
	p := make([]byte, 100)
	say("%d bytes", must(g.Read(p)))
	_, err := g.Read(p)
	say("Read: %s", nameOf(err))
	return 7
}

// The time of a drain is twice what is waited here.
func TestADrainNoticesThatTheClientHasGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there the next write notices")
	}
	const soon = 15 * time.Second
	inEachKind(t, func(t *testing.T, k stdioKind) {
		for _, tt := range []struct {
			name, server, log string
			leave             func(*child)
			status            int
		}{
			{"input first, under Stdio", "drain", "Read: EPIPE\n", func(s *child) { s.closeIn(); s.hangUp() }, 7},
			{"output first, under Stdio", "drain", "Read: EPIPE\n", func(s *child) { s.hangUp(); s.closeIn() }, 7},
			{"input first, under Run", "Run: drain", "Read: EOF\nRun: EPIPE\n", func(s *child) { s.closeIn(); s.hangUp() }, 0},
		} {
			t.Run(tt.name, func(t *testing.T) {
				s := startConf{stdioKind: k, unread: true}.start(t, tt.server)
				s.send(pingLine)
				begin := fmt.Sprintf("%d bytes\n", len(pingLine))
				s.awaitsLog(begin)
				tt.leave(s)
				s.exitsWithin(soon, tt.status)
				s.exits(tt.status, "", begin+tt.log)
			})
		}
	})
}

// bigServer answers with a MiB while it reads on, and says what a method took that
// came in the meantime.
func bigServer() int {
	g := must(stdioguard.Stdio())
	out := g.Writer()
	written := make(chan struct{})
	before := processorTime()
	must(0, eachCall(g, func(method, id string) {
		switch method {
		case "big":
			go func() {
				must(io.WriteString(out, bigAnswer(id)))
				close(written)
			}()
			awaitSleep("io.WriteString(")
			before = processorTime()
			say("answering")
		case "idle":
			if took := processorTime() - before; took > idle/10 {
				say("%v of processor time in %v without work", took, idle)
			}
			<-written
			must(io.WriteString(out, replyLine(id)))
		}
	}))
	return 0
}

// idle is how long a server has nothing to do, to see how it does that.
const idle = 2 * time.Second

func bigAnswer(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":"` + strings.Repeat("r", 1<<20) + `"}` + "\n"
}

// unreadNoiseServer prints more than a pipe holds, before it answers others.
func unreadNoiseServer() int {
	g := must(stdioguard.Stdio())
	if eachCall(g, func(method, id string) {
		if method == "noise" {
			go fmt.Print(mebibyte)
			awaitSleep("fmt.Fprint(")
		}
		io.WriteString(g.Writer(), replyLine(id))
	}) != nil {
		return 1
	}
	g.Close()
	return 0
}

func TestNobodyReadsStandardError(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		for _, server := range []string{"unread noise", "Run: unread noise"} {
			t.Run(server, func(t *testing.T) {
				s := startConf{stdioKind: k, unreadLog: true}.start(t, server)
				s.send(callLine("noise", "1"))
				s.awaitsOut(replyLine("1"))
				// On Windows, a write that a pipe has no room for goes with its writer.
				first := make([]byte, 1)
				_, err := io.ReadFull(s.log, first)
				require.NoError(t, err)
				s.send(callLine("any", "2"))
				s.closeIn()
				s.exits(0, replyLine("1")+replyLine("2"), "")
				rest, err := io.ReadAll(s.log)
				require.NoError(t, err)
				got := string(first) + string(rest)
				assert.Equal(t, mebibyte[:len(got)], got)
			})
		}
	})
}

// A client that does not want the log, or that has died, closes its end of that.
func TestNobodyCanReadStandardError(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		for _, tt := range []struct {
			name, server, noise string
		}{
			{"text is diverted under Stdio", "noisy", "text written to the Writer"},
			{"text is printed under Run", "Run: noisy", "fmt.Println"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				s := startConf{stdioKind: k, unreadLog: true}.start(t, tt.server)
				require.NoError(t, s.log.Close())
				s.send(callLine(tt.noise, "1"))
				s.awaitsOut(replyLine("1"))
				s.send(callLine(tt.noise, "2"))
				s.awaitsOut(replyLine("1") + replyLine("2"))
			})
		}
	})
}

// Run.

// runServer runs serve, says what came of it, and what the streams are afterwards.
func runServer(serve func(context.Context) error) int {
	return runWith(context.Background(), serve)
}

func runWith(ctx context.Context, serve func(context.Context) error, opts ...stdioguard.Option) int {
	err := stdioguard.Run(ctx, serve, opts...)
	fmt.Println("Run:", nameOf(err))
	if p, err := io.ReadAll(os.Stdin); len(p) > 0 || err != nil {
		say("os.Stdin: %d bytes, %v", len(p), err)
	}
	return 0
}

const runOK = "Run: no error\n"

// Text without a newline makes the line mixed that an answer stands on: its
// newline is text too.
var runNoises = []noise{
	{name: "nothing"},
	{name: "fmt.Println", text: "printed\n", make: func() { fmt.Println("printed") }},
	{name: "fmt.Print without a newline", text: "unended\n", make: func() { fmt.Print("unended") }},
	{name: "a brace without an end", text: "{\n", make: func() { fmt.Print("{") }},
	{name: "println", text: "7\n", make: func() { println(7) }},
	{name: "a logger made before", text: "old: logged\n", make: func() { old.log.Print("logged") }},
	{name: "JSON log lines", text: `{"level":"info","msg":"x"}` + "\n" + `{"msg":"request","method":"GET"}` + "\n", make: func() {
		fmt.Println(`{"level":"info","msg":"x"}`)
		fmt.Println(`{"msg":"request","method":"GET"}`)
	}},
	{name: "null", text: "null\n", make: func() { fmt.Println("null") }},
	{name: "a notification with text before it", text: "sending " + note + "\n", make: func() { fmt.Println("sending", note) }},
	{name: "a MiB of text", text: mebibyte, make: func() { fmt.Print(mebibyte) }},
	{name: "Stdio under Run", text: "an error\n", make: func() {
		if _, err := stdioguard.Stdio(); err != nil {
			say("an error")
		}
	}},
}

// runNoisyServer makes the noise that a method names, and answers in two writes.
func runNoisyServer() int {
	old.log = log.New(os.Stdout, "old: ", 0)
	return runServer(func(context.Context) error {
		return eachCall(os.Stdin, func(method, id string) {
			makeNoise(runNoises, method)
			must(os.Stdout.WriteString(response(id)))
			must(os.Stdout.WriteString("\n"))
		})
	})
}

func TestRunTakesTheProtocolOutOfWhatIsPrinted(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "Run: noisy")
		var out, log string
		for i, n := range runNoises {
			id := strconv.Itoa(i)
			s.send("bad\n\n" + callLine(n.name, id))
			out, log = out+parseError("null")+replyLine(id), log+n.text
			s.t.Log(n.name)
			s.awaits(out, log)
		}
		s.closeIn()
		s.exits(0, out, log+runOK)
	})
}

// serveConcurrently answers and prints from a goroutine for each call.
func serveConcurrently(context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait() // Run replaces os.Stdout again when this returns
	return eachCall(os.Stdin, func(_, id string) {
		calls.Go(func() {
			fmt.Println("printed for", id)
			must(os.Stdout.WriteString(response(id)))
			os.Stdout.WriteString("\n") // with the last answer Run has what it waited for
		})
	})
}

func TestRunTakesConcurrentWritesApart(t *testing.T) {
	const calls = 200
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "Run: concurrent")
		var in, out, log []string
		for i := range calls {
			id := strconv.Itoa(i)
			in = append(in, callLine("any", id))
			out = append(out, replyLine(id))
			log = append(log, "printed for "+id+"\n")
		}
		s.send(strings.Join(in, ""))
		s.closeIn()
		await(t, s.exited, patience, "the server does not exit")
		for _, ended := range s.ended {
			await(t, ended, patience, "an output does not end")
		}
		assert.ElementsMatch(t, out, slices.Collect(strings.Lines(s.stdout.String())))
		assert.ElementsMatch(t, append(log, runOK), slices.Collect(strings.Lines(s.stderr.String())))
	})
}

// serveInBackground only starts a server.
func serveInBackground(context.Context) error {
	in, out := os.Stdin, os.Stdout
	go eachCall(in, func(_, id string) { must(out.WriteString(replyLine(id))) })
	return nil
}

func TestRunGoesOnWhereServeOnlyStartedSomething(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "Run: starts only")
		for range 3 {
			s.send(callLine("any", "1"))
		}
		s.awaits(strings.Repeat(replyLine("1"), 3), "")
		s.send(callLine("any", "2"))
		s.closeIn()
		s.exits(0, strings.Repeat(replyLine("1"), 3)+replyLine("2"), runOK)
	})
}

// serveAndFail answers once, and fails at the next call.
func serveAndFail(context.Context) error {
	lines := bufio.NewReader(os.Stdin)
	must(lines.ReadString('\n'))
	must(os.Stdout.WriteString(replyLine("1") + note)) // without a newline
	return errors.New("serve failed")
}

func TestRunReturnsServesErrorWithTheInputOpen(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "Run: fails")
		s.send(callLine("any", "1"))
		s.exits(0, replyLine("1")+note+"\n", "Run: serve failed\n")
	})
}

// serveAtLength fails when the client cannot have got all of its answer.
func serveAtLength(context.Context) error {
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	must(os.Stdout.WriteString(bigAnswer("1")))
	say("answered")
	return errors.New("serve failed")
}

// What the server has written before it failed is not cut short because the
// client takes its time: that is longer here than Run waits for a pipe's end.
func TestRunReturnsWhenAllOutputIsWritten(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k, unread: true}.start(t, "Run: fails at length")
		s.send(callLine("any", "1"))
		s.awaitsLog("answered\n")
		time.Sleep(2 * time.Second) // a slow client
		s.read(s.out, s.stdout)
		s.exits(0, bigAnswer("1"), "answered\nRun: serve failed\n")
	})
}

// runContextServer has its context cancelled by a call, another of which it then
// still answers.
func runContextServer() int {
	ctx, cancel := context.WithCancel(context.Background())
	return runWith(ctx, func(serving context.Context) error {
		err := eachCall(os.Stdin, func(method, id string) {
			if method != "stop" {
				return
			}
			must(os.Stdout.WriteString(replyLine(id)))
			cancel()
			select {
			case <-serving.Done():
				say("the context is done before the answer")
			case <-time.After(grace):
			}
			must(os.Stdout.WriteString(replyLine("1")))
		})
		say("the input has ended: %v", err)
		<-serving.Done()
		say("the context is done")
		return nil
	})
}

func TestRunEndsGracefullyWhenItsContextIsDone(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "Run: context")
		s.send(callLine("slow", "1") + callLine("stop", "2"))
		s.exits(0, replyLine("2")+replyLine("1"), "the input has ended: <nil>\nthe context is done\n"+runOK)
	})
}

// runNoAnswerServer never answers, and its context is done before it serves.
func runNoAnswerServer() int {
	ctx, cancel := context.WithCancel(context.Background())
	return runWith(ctx, func(serving context.Context) error {
		must(bufio.NewReader(os.Stdin).ReadString('\n'))
		cancel()
		<-serving.Done()
		return serving.Err()
	}, stdioguard.WithDrain(10*time.Millisecond))
}

// runLateServer runs with a context that is done already.
func runLateServer() int {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return runWith(ctx, func(serving context.Context) error {
		p, err := io.ReadAll(os.Stdin)
		say("%d bytes, %v", len(p), err)
		<-serving.Done()
		return nil
	})
}

func TestRunWithAContextThatIsDone(t *testing.T) {
	startConf{stdioKind: stdioKinds[0]}.start(t, "Run: late").exits(0, "", "0 bytes, <nil>\n"+runOK)
}

// runNeverReadsServer has a client that sends more than any pipe holds.
func runNeverReadsServer() int {
	ctx, cancel := context.WithCancel(context.Background())
	return runWith(ctx, func(serving context.Context) error {
		awaitSleep("stdioguard.(*Guard).WriteTo(")
		cancel()
		<-serving.Done()
		return serving.Err()
	}, stdioguard.WithDrain(10*time.Millisecond))
}

func TestRunCancelsWhenTheDrainTimeIsOver(t *testing.T) {
	for _, tt := range []struct {
		name, server, in string
	}{
		{"a call is never answered", "Run: no answer", callLine("any", "1")},
		{"the input is never read", "Run: never reads", strings.Repeat(messageOf(1023)+"\n", 4096)}, // no read ends within a line
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startConf{stdioKind: stdioKinds[0]}.start(t, tt.server)
			go s.in.WriteString(tt.in) // it may never all be read
			s.exits(0, "", "Run: context canceled\n")
		})
	}
}

// serveUntilHangUp writes, after its second line, until that fails.
func serveUntilHangUp(context.Context) error {
	lines := bufio.NewReader(os.Stdin)
	must(lines.ReadString('\n'))
	must(os.Stdout.WriteString(note + "\n"))
	say("written")
	lines.ReadString('\n') // the input may have ended by now
	// What the error of a pipe is, is up to the system.
	say("Write: an error: %t", writeOn(os.Stdout) != nil)
	p, err := io.ReadAll(lines)
	say("Read: %d bytes, %s", len(p), nameOf(err))
	return nil
}

func TestRunEndsTheInputOfAServerWhoseClientHungUp(t *testing.T) {
	inEachHangUp(t, "Run: hang-up", 0, "written\nWrite: an error: true\nRead: 0 bytes, no error\nRun: EPIPE\n")
}

// serveNoAnswer never answers.
func serveNoAnswer(context.Context) error {
	in := bufio.NewReader(os.Stdin)
	line := must(in.ReadString('\n'))
	say("%d bytes", len(line))
	_, err := in.ReadString('\n')
	say("Read: %s", nameOf(err))
	return nil
}

// serveWithChild leaves a child behind that has os.Stdout for as long as this
// process lives.
func serveWithChild(context.Context) error {
	cmd := echoCommand()
	cmd.Env[len(cmd.Env)-1] = serverEnv + "=linger"
	cmd.Stdout = os.Stdout
	must(cmd.StdinPipe())
	must(0, cmd.Start())
	return eachCall(os.Stdin, func(_, id string) { must(os.Stdout.WriteString(replyLine(id))) })
}

// lingerServer lives until its input ends.
func lingerServer() int {
	io.Copy(io.Discard, os.Stdin)
	return 0
}

func TestRunDoesNotWaitForABackgroundChild(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		s := startConf{stdioKind: k}.start(t, "Run: background child")
		s.send(callLine("any", "1"))
		s.closeIn()
		s.exits(0, replyLine("1"), runOK)
	})
}

// runUnreadNoiseServer says nothing at its end: who would read it?
func runUnreadNoiseServer() int {
	if stdioguard.Run(context.Background(), func(context.Context) error {
		return eachCall(os.Stdin, func(method, id string) {
			if method == "noise" {
				fmt.Print(mebibyte)
			}
			os.Stdout.WriteString(replyLine(id))
		})
	}) != nil {
		return 1
	}
	return 0
}

// runTwiceServer runs a second time what has ended.
func runTwiceServer() int {
	runServer(serveInBackground)
	err := stdioguard.Run(context.Background(), func(context.Context) error {
		say("called")
		return nil
	})
	say("again: an error: %t", err != nil)
	fmt.Println("printed")
	return 0
}

func TestRunWorksOnce(t *testing.T) {
	s := startConf{stdioKind: stdioKinds[0]}.start(t, "Run: twice")
	s.closeIn()
	s.exits(0, "", runOK+"again: an error: true\nprinted\n")
}

// What is left.

// A census is what a process has that can leak. Only Linux tells of descriptors.
type census struct{ goroutines, descriptors int }

func takeCensus() census {
	var fds []os.DirEntry
	if runtime.GOOS == "linux" {
		fds, _ = os.ReadDir("/proc/self/fd")
	}
	return census{runtime.NumGoroutine(), len(fds)}
}

// counted calls f and says whether all is as before, once it is or time is up.
func counted(f func()) int {
	r, w, err := os.Pipe() // has the runtime open what it needs for itself
	must(0, err)
	r.Close()
	w.Close()
	before := takeCensus()
	f()
	after := takeCensus()
	for deadline := time.Now().Add(patience / 4); after != before && time.Now().Before(deadline); after = takeCensus() {
		pause()
	}
	if after != before {
		say("before: %+v, after: %+v", before, after)
		buf := make([]byte, 1<<20)
		say("%s", buf[:runtime.Stack(buf, true)])
	}
	return 0
}

func countedStdio() {
	g := must(stdioguard.Stdio(stdioguard.WithDiversion(io.Discard)))
	must(0, eachCall(g, func(_, id string) { must(io.WriteString(g.Writer(), "diverted\n"+replyLine(id))) }))
	must(0, g.Close())
}

// countedClose closes under a Read that waits.
func countedClose() {
	g := must(stdioguard.Stdio())
	go g.Read(make([]byte, 100))
	awaitRead()
	must(0, g.Close())
}

func countedFailure() {
	in := must(syscall.Open(os.DevNull, syscall.O_RDONLY, 0))
	defer syscall.Close(in) // and with it what is opened in the place of standard input
	must(0, os.Stdin.Close())
	if _, err := stdioguard.Stdio(); err == nil {
		say("no error")
	}
	os.Stdin = must(os.Open(os.DevNull))
}

func countedRun() {
	must(0, stdioguard.Run(context.Background(), func(context.Context) error {
		return eachCall(os.Stdin, func(_, id string) { must(os.Stdout.WriteString("diverted" + replyLine(id))) })
	}, stdioguard.WithDiversion(io.Discard)))
}

func countedRunError() {
	err := stdioguard.Run(context.Background(), func(context.Context) error {
		must(bufio.NewReader(os.Stdin).ReadString('\n'))
		must(os.Stdout.WriteString(replyLine("1")))
		return io.ErrUnexpectedEOF
	})
	if err != io.ErrUnexpectedEOF {
		say("Run: %v", err)
	}
}

func countedRunHangUp() {
	err := stdioguard.Run(context.Background(), func(context.Context) error {
		var err error
		for err == nil {
			_, err = os.Stdout.WriteString(note + "\n")
		}
		return nil
	})
	if err == nil {
		say("Run: no error")
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	inEachKind(t, func(t *testing.T, k stdioKind) {
		for _, tt := range []struct {
			server, in, out string
			openEnd         bool
		}{
			{"Stdio, counted", callLine("any", "1"), replyLine("1"), false},
			{"Close, counted", "", "", true},
			{"Run, counted", callLine("any", "1"), replyLine("1"), false},
			{"Run with an error, counted", callLine("any", "1"), replyLine("1"), true},
		} {
			t.Run(tt.server, func(t *testing.T) {
				s := startConf{stdioKind: k}.start(t, tt.server)
				s.send(tt.in)
				if !tt.openEnd {
					s.closeIn()
				}
				s.exits(0, tt.out, "")
			})
		}
		t.Run("Stdio that fails, counted", func(t *testing.T) {
			s := startConf{stdioKind: k}.start(t, "Stdio that fails, counted")
			s.exits(0, "", "")
		})
		t.Run("Run with a hang-up, counted", func(t *testing.T) {
			s := startConf{stdioKind: k, unread: true}.start(t, "Run with a hang-up, counted")
			s.readLine()
			s.hangUp()
			s.exits(0, "", "")
		})
	})
}
