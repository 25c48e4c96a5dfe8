package guardtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLine is how long a line of the server's output may be.
	maxLine = 64 << 20
	// maxStderr is how much of its standard error is kept: the end.
	maxStderr = 4 << 10
	// lastWords is how long a process that is to be killed anyway has to end by itself,
	// and one that has ended its output to exit.
	lastWords = 500 * time.Millisecond
	// maxWrite is how long a write to its input may be.
	maxWrite = 32 << 10
)

// A session is a child process and its streams. One goroutine uses it. Its output is
// read while next waits and at no other time, so that a client can be played that
// writes first and reads later; what is sent is written by other goroutines.
type session struct {
	cmd                   *exec.Cmd
	stdin, stdout, stderr *os.File
	done                  <-chan struct{} // of the context
	unwatch               func() bool

	want  chan struct{} // the client reads one line more
	lines chan []byte   // each with its newline
	asked bool          // want holds, or reads for, a line that has not come

	sent    chan struct{} // closed once all that was sent is written
	written atomic.Int64  // bytes
	exited  chan struct{}
	last    tail
	stderrs chan struct{} // closed at the end of stderr
	others  sync.WaitGroup
}

var errLate = errors.New("nothing came in time")

func startSession(ctx context.Context, newCmd func() *exec.Cmd, env []string) (*session, error) {
	cmd := newCmd()
	switch {
	case cmd == nil:
		return nil, errors.New("guardtest: newCmd returned nil")
	case cmd.Process != nil:
		return nil, errors.New("guardtest: newCmd returned a command that was started before; it has to make a new one each time")
	case cmd.Stdin != nil || cmd.Stdout != nil || cmd.Stderr != nil:
		return nil, errors.New("guardtest: newCmd returned a command whose Stdin, Stdout or Stderr is set; they are the battery's")
	}
	s := &session{
		cmd: cmd, done: ctx.Done(),
		want: make(chan struct{}, 1), lines: make(chan []byte, 1),
		sent: make(chan struct{}), exited: make(chan struct{}), stderrs: make(chan struct{}),
	}
	close(s.sent)
	if len(env) > 0 {
		cmd.Env = append(cmd.Environ(), env...)
	}
	ownGroup(cmd)
	if err := s.start(); err != nil {
		return nil, fmt.Errorf("guardtest: %w", err)
	}
	s.unwatch = context.AfterFunc(ctx, func() { killGroup(cmd) })
	s.others.Go(s.read)
	s.others.Go(func() { io.Copy(&s.last, s.stderr); close(s.stderrs) })
	s.others.Go(func() { cmd.Wait(); close(s.exited) }) // its ProcessState says how it ended
	return s, nil
}

// start gives the child pipes. Its ends are closed here, so that the end of its life is
// the end of its streams.
func (s *session) start() (err error) {
	var theirs, ours []*os.File
	for i := range 3 {
		r, w, e := os.Pipe()
		if e != nil {
			err = e
			break
		}
		if i > 0 {
			r, w = w, r
		}
		theirs, ours = append(theirs, r), append(ours, w)
	}
	if err == nil {
		s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = theirs[0], theirs[1], theirs[2]
		s.stdin, s.stdout, s.stderr = ours[0], ours[1], ours[2]
		err = s.cmd.Start()
	}
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		for _, f := range ours {
			f.Close()
		}
	}
	return err
}

// read hands over a line for each that is wanted.
func (s *session) read() {
	defer close(s.lines)
	r := bufio.NewReaderSize(s.stdout, 64<<10)
	for range s.want {
		text, err := readLine(r)
		if len(text) > 0 {
			s.lines <- text
		}
		if err != nil {
			return
		}
	}
}

// readLine reads up to a newline, to the end, or to maxLine.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		text = append(text, part...)
		if err != bufio.ErrBufferFull || len(text) > maxLine {
			return text, err
		}
	}
}

// next returns the next line of the output with its newline, io.EOF at its end, and
// errLate when late says so.
func (s *session) next(late <-chan time.Time) ([]byte, error) {
	if !s.asked {
		s.asked = true
		s.want <- struct{}{}
	}
	select {
	case l, ok := <-s.lines:
		return s.got(l, ok)
	case <-s.exited:
	case <-late:
		return nil, errLate
	case <-s.done:
		return nil, errLate
	}
	// What it wrote is in the pipe. Somebody else may hold that open: for ever, perhaps.
	over := time.NewTimer(lastWords)
	defer over.Stop()
	select {
	case l, ok := <-s.lines:
		return s.got(l, ok)
	case <-over.C:
		return nil, io.EOF
	case <-s.done:
		return nil, errLate
	}
}

func (s *session) got(text []byte, ok bool) ([]byte, error) {
	if !ok {
		return nil, io.EOF // and will be, so asked stays
	}
	s.asked = false
	return text, nil
}

// send writes what r holds to the server, after all that was sent before. That the
// server does not take it is seen elsewhere.
func (s *session) send(r io.Reader) {
	s.queue(func() { io.CopyBuffer(counter{s}, struct{ io.Reader }{r}, make([]byte, maxWrite)) })
}

// closeStdin ends the server's input after all that was sent.
func (s *session) closeStdin() { s.queue(func() { s.stdin.Close() }) }

func (s *session) queue(write func()) {
	before, sent := s.sent, make(chan struct{})
	s.sent = sent
	s.others.Go(func() {
		<-before
		write()
		close(sent)
	})
}

type counter struct{ s *session }

func (c counter) Write(p []byte) (int, error) {
	n, err := c.s.stdin.Write(p)
	c.s.written.Add(int64(n))
	return n, err
}

// await reports whether an event comes in time.
func (s *session) await(event <-chan struct{}, most time.Duration) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-event:
		return true
	case <-late.C:
	case <-s.done:
	}
	return false
}

// cancelled reports whether the context is done.
func (s *session) cancelled() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// fate says what has become of the process.
func (s *session) fate() string {
	select {
	case <-s.exited:
		return s.cmd.ProcessState.String()
	default:
		return "the process runs"
	}
}

// stop kills what is left, and returns the end of stderr once nothing of the session is.
func (s *session) stop() string {
	s.unwatch()
	killGroup(s.cmd)
	<-s.exited
	close(s.want)
	s.stdin.Close()  // ends a write that is stuck
	s.stdout.Close() // and a read
	// A process that has left the group may hold stderr open.
	late := time.NewTimer(lastWords)
	defer late.Stop()
	select {
	case <-s.stderrs:
	case <-late.C:
	}
	s.stderr.Close()
	s.others.Wait()
	return s.last.text()
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p[max(0, len(p)-maxStderr):]...)
	if n := len(t.end) - maxStderr; n > 0 {
		t.end = append(t.end[:0], t.end[n:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}

// fill reads as n bytes of a, without holding them.
func fill(n int64) io.Reader { return io.LimitReader(filler{}, n) }

type filler struct{}

func (filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}
