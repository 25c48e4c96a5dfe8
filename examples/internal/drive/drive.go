// Package drive runs an MCP server as a child process and talks to it over real
// pipes or socket pairs, one line at a time. The end-to-end tests and the demo share it.
package drive

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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

// A Kind is what a child is given as its standard streams.
type Kind struct {
	Name string
	pair func(childReads bool) (child, parent *os.File, err error)
}

// Kinds are those that the system has: pipes, and socket pairs, which Node gives
// its children, where there are any.
var Kinds = []Kind{{"pipes", pipe}}

func pipe(childReads bool) (child, parent *os.File, err error) {
	r, w, err := os.Pipe()
	if childReads {
		return r, w, err
	}
	return w, r, err
}

// A Conf says how to start a child. The zero Kind means pipes.
type Conf struct {
	Kind
	Wait         time.Duration // how long to wait for the child, each time
	Dir          string        // what [Build] built the program into
	Merged       bool          // the child's stderr is its stdout: 2>&1
	StderrUnread bool          // nobody reads the child's stderr, but for what a test reads of it
	Env          []string      // beside this process's own
}

// A Child is a running server. Its stdout is read by [Child.Next] alone, so that
// a client which writes first and reads later can be played; what is sent is
// written by goroutines, so that a child which does not read blocks nobody. One
// goroutine may use a Child.
type Child struct {
	Wait time.Duration // how long to wait for the child, each time

	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	errors *os.File
	lines  *bufio.Reader
	next   chan line     // the line that Next waits for
	sent   chan struct{} // closed once the last Send was written
	done   chan struct{} // closed once the child has gone
	stderr *record
}

type line struct {
	text string
	err  error
}

// Start runs a program that [Build] has put into dir, with pipes.
func Start(wait time.Duration, dir, program string, args ...string) (*Child, error) {
	return Conf{Wait: wait, Dir: dir}.Start(program, args...)
}

// Start runs a program.
func (conf Conf) Start(program string, args ...string) (*Child, error) {
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	c := &Child{
		Wait: conf.Wait, cmd: exec.Command(filepath.Join(conf.Dir, program), args...),
		sent: make(chan struct{}), done: make(chan struct{}), stderr: newRecord(),
	}
	close(c.sent)
	c.cmd.Env = append(os.Environ(), conf.Env...)
	childEnds, err := c.connect(conf)
	if err == nil {
		err = c.cmd.Start()
	}
	// The child has its own copies; the end of its life must be the end of the streams.
	for _, f := range childEnds {
		f.Close()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	c.lines = bufio.NewReader(c.stdout)
	go func() {
		c.cmd.Wait() // the exit status is in ProcessState
		close(c.done)
	}()
	if conf.StderrUnread {
		close(c.stderr.ended)
	} else {
		go c.stderr.readFrom(c.errors)
	}
	return c, nil
}

// connect makes the child's standard streams, and returns its ends of them.
func (c *Child) connect(conf Conf) (childEnds []*os.File, err error) {
	if conf.pair == nil {
		conf.Kind = Kinds[0]
	}
	for i, parent := range []**os.File{&c.stdin, &c.stdout, &c.errors} {
		child, p, err := conf.pair(i == 0)
		if err != nil {
			return childEnds, err
		}
		*parent = p
		childEnds = append(childEnds, child)
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = childEnds[0], childEnds[1], childEnds[2]
	if conf.Merged {
		c.cmd.Stderr = childEnds[1]
	}
	return childEnds, nil
}

func (c *Child) close() {
	for _, f := range []*os.File{c.stdin, c.stdout, c.errors} {
		if f != nil {
			f.Close()
		}
	}
}

// Stop ends the child, if it still runs, and returns the end of what it wrote to
// stderr.
func (c *Child) Stop() string {
	const most = 4 << 10
	c.cmd.Process.Kill()
	<-c.done
	c.await(c.stderr.ended, "") // so that it is all there, unless a child of the child's holds it
	c.close()                   // also ends a Send that still waits
	<-c.sent
	text := c.stderr.text()
	return text[max(0, len(text)-most):]
}

// Signal sends a signal to the child.
func (c *Child) Signal(s os.Signal) error { return c.cmd.Process.Signal(s) }

// HangUp closes the client's end of the child's stdout, and nothing else. A write of
// the child fails from then on, unless another child is just being started: that one
// has all descriptors of this process for a moment.
func (c *Child) HangUp() error { return c.stdout.Close() }

// Stdin and Stdout are the client's ends, for a client that is more than lines.
func (c *Child) Stdin() io.WriteCloser { return c.stdin }
func (c *Child) Stdout() io.ReadCloser { return c.stdout }

// AwaitStderr waits until the child has written n bytes to stderr, and returns all
// that it wrote.
func (c *Child) AwaitStderr(n int) (string, error) {
	late := time.After(c.Wait)
	for {
		text, more := c.stderr.textAndMore()
		if len(text) >= n {
			return text, nil
		}
		select {
		case <-more:
		case <-late:
			return text, fmt.Errorf("stderr: %w", context.DeadlineExceeded)
		}
	}
}

// ReadStderr reads n bytes of a stderr that nobody else reads.
func (c *Child) ReadStderr(n int) (string, error) {
	p, read := make([]byte, n), make(chan struct{})
	var err error
	go func() {
		_, err = io.ReadFull(c.errors, p)
		close(read)
	}()
	if late := c.await(read, "stderr"); late != nil {
		return "", late
	}
	return string(p), err
}

// AwaitStderrEnd waits until nobody can write to the child's stderr any more, and
// returns all that was written.
func (c *Child) AwaitStderrEnd() (string, error) {
	err := c.await(c.stderr.ended, "somebody holds stderr open")
	return c.stderr.text(), err
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

// AwaitExit waits until the child has gone, and returns its exit status, which is -1
// if a signal ended it.
func (c *Child) AwaitExit() (int, error) {
	if err := c.await(c.done, "the child does not exit"); err != nil {
		return 0, err
	}
	return c.cmd.ProcessState.ExitCode(), nil
}

// State says how the child ended, once it has.
func (c *Child) State() *os.ProcessState { return c.cmd.ProcessState }

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
func (c *Child) PeakMemory() (int64, error) { return c.memory("VmHWM") }

// Memory returns the memory that the child holds, in bytes. Linux alone tells.
func (c *Child) Memory() (int64, error) { return c.memory("VmRSS") }

func (c *Child) memory(which string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, which+": %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("no %s in /proc/PID/status", which)
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

// A record keeps what is read from the child's stderr.
type record struct {
	ended chan struct{}

	mu   sync.Mutex
	all  []byte
	more chan struct{} // closed when there is more
}

func newRecord() *record { return &record{ended: make(chan struct{}), more: make(chan struct{})} }

func (r *record) readFrom(f *os.File) {
	io.Copy(r, f)
	close(r.ended)
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, p...)
	close(r.more)
	r.more = make(chan struct{})
	return len(p), nil
}

func (r *record) text() string {
	text, _ := r.textAndMore()
	return text
}

func (r *record) textAndMore() (string, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.all), r.more
}
