package stdfd_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard/internal/stdfd"
)

// Take works once in a process: each case is this test binary, started again with
// the case's name in caseEnv.
const caseEnv = "STDFD_TEST_CASE"

// patience bounds each wait. It only says how soon a test that hangs is given up.
const patience = time.Minute

func TestMain(m *testing.M) {
	name, ok := os.LookupEnv(caseEnv)
	if !ok {
		os.Exit(m.Run())
	}
	time.AfterFunc(2*patience, func() { os.Exit(99) })
	cases[name]()
}

// cases are what a process does. It says on standard error what it sees.
var cases = map[string]func(){
	"take twice":       takeTwice,
	"read":             readToTheEnd,
	"wake a read":      wakeARead,
	"wake beforehand":  wakeBeforehand,
	"write":            writeAtLength,
	"hang up":          hangUp,
	"close":            closeAndGoOn,
	"close in a write": closeInAWrite,
	"same as error":    sayWhetherSame,
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func take() *stdfd.Streams {
	s, err := stdfd.Take()
	if err != nil {
		say("Take: %v", err)
		os.Exit(98)
	}
	return s
}

func nameOf(err error) string {
	for _, e := range []error{stdfd.ErrWoken, stdfd.ErrTaken, os.ErrClosed, syscall.EPIPE} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return fmt.Sprint(err)
}

// A process is one case, with the test at the other ends of its streams.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr text
}

// A text is read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

func start(t *testing.T, name string) *process {
	t.Helper()
	require.Contains(t, cases, name)
	exe, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(exe)}
	// The race detector has a program wait for a second before it exits.
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", caseEnv+"="+name)
	p.cmd.Stderr = &p.stderr
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	p.out, err = p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	kill := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	t.Cleanup(func() {
		kill.Stop()
		p.cmd.Process.Kill()
	})
	return p
}

// ends waits until the process has, and compares what was on its standard error.
func (p *process) ends(log string) {
	p.t.Helper()
	assert.NoError(p.t, p.cmd.Wait())
	assert.Equal(p.t, log, p.stderr.String())
}

// says waits until so much was on standard error, of a process that goes on.
func (p *process) says(log string) {
	p.t.Helper()
	assert.Eventually(p.t, func() bool { return len(p.stderr.String()) >= len(log) }, patience, time.Millisecond)
	assert.Equal(p.t, log, p.stderr.String())
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// awaitSleep waits until a goroutine waits in a method of Streams.
func awaitSleep(method string) {
	for buf := make([]byte, 1<<20); ; time.Sleep(time.Millisecond) {
		for goroutine := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			state, calls, _ := strings.Cut(goroutine, "\n")
			if strings.Contains(calls, "stdfd.(*Streams)."+method+"(") && !strings.Contains(state, "[run") {
				return
			}
		}
	}
}

func takeTwice() {
	s := take()
	_, err := stdfd.Take()
	say("%s", nameOf(err))
	s.Close()
	_, err = stdfd.Take()
	say("%s", nameOf(err))
}

func TestTakeWorksOnce(t *testing.T) {
	start(t, "take twice").ends(strings.Repeat(stdfd.ErrTaken.Error()+"\n", 2))
}

func readToTheEnd() {
	s := take()
	got, err := io.ReadAll(s)
	say("%q, %v", got, err)
	_, err = s.Read(make([]byte, 1))
	say("%v", err)
	s.Write([]byte("out"))
	fmt.Print("printed\n")
}

func TestStreamsAreTheStandardOnes(t *testing.T) {
	p := start(t, "read")
	_, err := io.WriteString(p.in, "in")
	require.NoError(t, err)
	p.in.Close()
	got, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.Equal(t, "out", string(got))
	p.ends("\"in\", <nil>\nEOF\nprinted\n")
}

func wakeARead() {
	s := take()
	read := make(chan error)
	go func() {
		for range 2 {
			_, err := s.Read(make([]byte, 1))
			read <- err
		}
	}()
	awaitSleep("Read")
	s.Wake()
	s.Wake()
	say("%s", nameOf(<-read))
	say("%s", nameOf(<-read))
}

func wakeBeforehand() {
	s := take()
	s.Wake()
	_, err := s.Read(make([]byte, 1))
	say("%s", nameOf(err))
	n, err := s.Write([]byte("out"))
	say("%d, %v", n, err)
}

func TestWakeEndsReading(t *testing.T) {
	woken := stdfd.ErrWoken.Error() + "\n"
	for _, tt := range []struct {
		name, in, out, log string
	}{
		{"wake a read", "", "", woken + woken},
		{"wake beforehand", "there is something to read", "out", woken + "3, <nil>\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, tt.name)
			_, err := io.WriteString(p.in, tt.in)
			require.NoError(t, err)
			got, err := io.ReadAll(p.out) // the input stays open
			require.NoError(t, err)
			assert.Equal(t, tt.out, string(got))
			p.ends(tt.log)
		})
	}
}

var long = strings.Repeat("0123456789abcdef", 1<<19)

func writeAtLength() {
	n, err := take().Write([]byte(long))
	say("%t, %v", n == len(long), err)
}

func TestWriteWritesAll(t *testing.T) {
	p := start(t, "write")
	got, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.True(t, long == string(got), "%d bytes of %d", len(got), len(long))
	p.ends("true, <nil>\n")
}

func hangUp() {
	s := take()
	say("%v", s.HungUp())
	s.Write([]byte("."))
	if runtime.GOOS != "windows" { // there a write has to find out
		for s.HungUp() == nil {
			time.Sleep(time.Millisecond)
		}
		say("%s", nameOf(s.HungUp()))
	}
	var err error
	for err == nil {
		_, err = s.Write([]byte("x"))
	}
	say("%s", nameOf(err))
}

func TestAHangUpIsSeenAndKillsNobody(t *testing.T) {
	p := start(t, "hang up")
	_, err := io.ReadFull(p.out, make([]byte, 1))
	require.NoError(t, err)
	p.out.Close()
	gone := syscall.EPIPE.Error() + "\n"
	if runtime.GOOS != "windows" {
		gone += gone
	}
	p.ends("<nil>\n" + gone)
}

func closeAndGoOn() {
	s := take()
	s.Close()
	s.Close()
	s.Wake()
	_, err := s.Read(make([]byte, 1))
	say("%s", nameOf(err))
	say("%s", nameOf(s.HungUp()))
	_, err = s.Write([]byte("x"))
	say("%s", nameOf(err))
	os.Stdin.Close()
	fmt.Println("printed")
	select {} // until it is killed
}

func TestCloseClosesTheStreamsAndNothingElse(t *testing.T) {
	p := start(t, "close")
	got, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.Empty(t, got)
	// The process still lives, and so would its end of the pipe.
	for err == nil {
		_, err = io.WriteString(p.in, "x")
	}
	p.says(strings.Repeat(os.ErrClosed.Error()+"\n", 3) + "printed\n")
}

func closeInAWrite() {
	s := take()
	written := make(chan string)
	go func() {
		n, err := s.Write([]byte(long))
		written <- fmt.Sprintf("%t, %v", n == len(long), err)
	}()
	awaitSleep("Write")
	s.Close()
	_, err := s.Write([]byte("x"))
	say("%s", nameOf(err))
	say("%s", <-written)
	select {} // until it is killed
}

// What is half written is written to its end, and then the stream is closed.
func TestCloseLeavesAWriteAlone(t *testing.T) {
	p := start(t, "close in a write")
	got, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.True(t, long == string(got), "%d bytes of %d", len(got), len(long))
	p.says(os.ErrClosed.Error() + "\ntrue, <nil>\n")
}

func sayWhetherSame() {
	fmt.Print("before ")
	s := take()
	fmt.Print("printed ")
	fmt.Fprintf(s, "%t", s.Diversion() == nil)
}

func TestStandardErrorIsToldFromStandardOutput(t *testing.T) {
	t.Run("another stream", func(t *testing.T) {
		p := start(t, "same as error")
		got, err := io.ReadAll(p.out)
		require.NoError(t, err)
		assert.Equal(t, "before false", string(got))
		p.ends("printed ")
	})
	t.Run("the same", func(t *testing.T) {
		exe, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), caseEnv+"=same as error")
		got, err := cmd.CombinedOutput()
		require.NoError(t, err)
		assert.Equal(t, "before true", string(got))
	})
}
