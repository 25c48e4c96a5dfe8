// Package drive runs an MCP server as a child process and talks to it over real
// pipes, one line at a time. The end-to-end tests and the demo share it.
package drive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Build compiles packages of this module into dir.
func Build(dir string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", dir + string(filepath.Separator)}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// A Child is a running server. Nothing is read from it but by [Child.Next], so
// that a client which writes first and reads later can be played; what is sent
// is written by goroutines, so that a child which does not read blocks nobody.
// One goroutine may use a Child.
type Child struct {
	Wait time.Duration // how long to wait for the child, each time

	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	lines  *bufio.Reader
	next   chan line     // the line that Next waits for
	sent   chan struct{} // closed once the last Send was written
	done   chan struct{} // closed once the child has gone
	stderr tail          // to be read once the child has gone
}

type line struct {
	text string
	err  error
}

// Start runs a program that [Build] has put into dir.
func Start(wait time.Duration, dir, program string, args ...string) (*Child, error) {
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), stdin.Close())
	}
	c := &Child{
		Wait: wait, cmd: exec.Command(filepath.Join(dir, program), args...),
		stdin: stdin, stdout: stdout, lines: bufio.NewReader(stdout),
		sent: make(chan struct{}), done: make(chan struct{}),
	}
	close(c.sent)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = childIn, childOut, &c.stderr
	err = c.cmd.Start()
	// The child has its own copies; the end of its life must be the end of the pipes.
	childIn.Close()
	childOut.Close()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), stdout.Close())
	}
	go func() {
		c.cmd.Wait() // the exit status is in ProcessState
		close(c.done)
	}()
	return c, nil
}

// Stop ends the child, if it still runs, and returns the end of what it wrote to
// stderr.
func (c *Child) Stop() string {
	c.cmd.Process.Kill()
	<-c.done
	c.stdin.Close() // also ends a Send that still waits
	c.stdout.Close()
	<-c.sent
	return string(c.stderr)
}

// Send queues what r holds to be written to the child's stdin. That the child
// went away meanwhile is seen by [Child.Next], not here.
func (c *Child) Send(r io.Reader) {
	c.enqueue(func() { io.Copy(c.stdin, r) })
}

// CloseStdin ends the child's stdin after all that was sent.
func (c *Child) CloseStdin() {
	c.enqueue(func() { c.stdin.Close() })
}

func (c *Child) enqueue(write func()) {
	before, sent := c.sent, make(chan struct{})
	c.sent = sent
	go func() {
		<-before
		write()
		close(sent)
	}()
}

// AwaitSent waits until the pipe has taken all that was sent.
func (c *Child) AwaitSent() error { return c.await(c.sent, "write: the child does not read") }

// AwaitExit waits until the child has gone, and returns its exit status.
func (c *Child) AwaitExit() (int, error) {
	if err := c.await(c.done, "the child does not exit"); err != nil {
		return 0, err
	}
	return c.cmd.ProcessState.ExitCode(), nil
}

func (c *Child) await(event <-chan struct{}, what string) error {
	select {
	case <-event:
		return nil
	case <-time.After(c.Wait):
		return fmt.Errorf("%s: %w", what, context.DeadlineExceeded)
	}
}

// Alive reports whether the process has not ended.
func (c *Child) Alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Next returns the next line of the child's stdout, without its newline. The
// error is io.EOF if stdout has ended, io.ErrUnexpectedEOF if it did so within a
// line, and context.DeadlineExceeded if no line came in time.
func (c *Child) Next() (string, error) {
	if c.next == nil { // else the one that did not come in time last time
		next := make(chan line, 1)
		c.next = next
		go func() { // a deadline on the pipe would do, but Windows has none
			text, err := c.lines.ReadString('\n')
			next <- line{text, err}
		}()
	}
	select {
	case l := <-c.next:
		c.next = nil
		if l.err == io.EOF && l.text != "" {
			return "", io.ErrUnexpectedEOF
		}
		return strings.TrimSuffix(l.text, "\n"), l.err
	case <-time.After(c.Wait):
		return "", context.DeadlineExceeded
	}
}

// PeakMemory returns the most memory that the child has held so far, in bytes.
// Linux alone tells.
func (c *Child) PeakMemory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, errors.New("no VmHWM in /proc/PID/status")
}

// Fill reads as n times the byte b, without holding them.
func Fill(b byte, n int64) io.Reader { return io.LimitReader(filler(b), n) }

type filler byte

func (f filler) Read(p []byte) (int, error) {
	n := copy(p, []byte{byte(f)})
	for n > 0 && n < len(p) {
		n += copy(p[n:], p[:n])
	}
	return n, nil
}

// tail keeps the end of what is written to it: a server may log each bad line.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	*t = append(*t, p[max(0, len(p)-most):]...)
	*t = (*t)[max(0, len(*t)-most):]
	return len(p), nil
}
