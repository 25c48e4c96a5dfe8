package stdfd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/windows"
)

// Streams are the moved standard input and output. One goroutine may read while
// others do all else.
//
// Windows cannot wait for a pipe and something else at once, so a goroutine reads
// ahead, one read at a time. It ends when its read does.
type Streams struct {
	in, out *os.File
	stderr  *os.File // nil where that goes to the client too

	reader sync.Once
	ask    chan struct{}
	chunks chan chunk
	rest   chunk // of the last read, not yet taken
	asked  bool  // a read is under way

	waker sync.Once
	woken chan struct{}

	mu     sync.Mutex
	users  int // calls of Read and Write
	closed bool
}

type chunk struct {
	data []byte
	err  error
}

// initialStdin and initialStdout are what a package may have kept.
var initialStdin, initialStdout = os.Stdin, os.Stdout

// kept are files of the standard handles: one that is collected closes its handle.
var kept []*os.File

// take makes other handles the standard ones, and lets all files of the old ones
// stand for them. No handle can be put in the place of another, so the old ones are
// what the streams keep. If it fails, the files that it opened are collected.
func take() (*Streams, error) {
	in, err := standard(windows.STD_INPUT_HANDLE)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	out, err := standard(windows.STD_OUTPUT_HANDLE)
	if err != nil {
		return nil, fmt.Errorf("standard output: %w", err)
	}
	stderr, err := standardError()
	if err != nil {
		return nil, fmt.Errorf("standard error: %w", err)
	}
	s := &Streams{ask: make(chan struct{}), chunks: make(chan chunk, 1), woken: make(chan struct{})}
	stdin, err := null()
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	var stdout *os.File
	if sameObject(out, stderr) {
		stdout, err = null()
	} else if stdout, err = duplicate(stderr, true); err == nil {
		s.stderr, err = duplicate(stderr, false)
	}
	if err != nil {
		return nil, fmt.Errorf("standard error: %w", err)
	}
	if s.in, err = own(in, out, stderr); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	if s.out, err = own(out, stderr); err != nil {
		return nil, fmt.Errorf("standard output: %w", err)
	}
	replace(&os.Stdin, initialStdin, stdin)
	replace(&os.Stdout, initialStdout, stdout)
	syscall.Stdin, syscall.Stdout = syscall.Handle(stdin.Fd()), syscall.Handle(stdout.Fd())
	windows.Stdin, windows.Stdout = windows.Handle(syscall.Stdin), windows.Handle(syscall.Stdout)
	windows.SetStdHandle(windows.STD_INPUT_HANDLE, windows.Stdin)
	windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Stdout)
	return s, nil
}

// standard returns a standard handle. It is an error if there is none, as in a
// program without a console, or if it was closed.
func standard(which uint32) (windows.Handle, error) {
	h, err := windows.GetStdHandle(which)
	if err == nil {
		_, err = windows.GetFileType(h)
	}
	return h, err
}

// standardError returns the handle of standard error, which it makes the null device
// if it is none: the next handle that is opened could have the number of a closed one.
func standardError() (windows.Handle, error) {
	if h, err := standard(windows.STD_ERROR_HANDLE); err == nil {
		return h, nil
	}
	f, err := null()
	if err != nil {
		return 0, err
	}
	kept = append(kept, f)
	h := windows.Handle(f.Fd())
	return h, windows.SetStdHandle(windows.STD_ERROR_HANDLE, h)
}

// null opens the null device, for children too.
func null() (*os.File, error) {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return f, setInherit(windows.Handle(f.Fd()), true)
}

func setInherit(h windows.Handle, inherit bool) error {
	var flags uint32
	if inherit {
		flags = windows.HANDLE_FLAG_INHERIT
	}
	return windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, flags)
}

func duplicate(h windows.Handle, inherit bool) (*os.File, error) {
	process := windows.CurrentProcess()
	var d windows.Handle
	if err := windows.DuplicateHandle(process, h, process, &d, 0, inherit, windows.DUPLICATE_SAME_ACCESS); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(d), "standard stream"), nil
}

// own returns the file of a standard handle, which no child inherits from then on. If
// another standard handle is the very same, it returns that of a duplicate, so that
// closing it closes no other.
func own(h windows.Handle, others ...windows.Handle) (*os.File, error) {
	if slices.Contains(others, h) {
		return duplicate(h, false)
	}
	if err := setInherit(h, false); err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(h), "standard stream")
	kept = append(kept, f)
	return f, nil
}

// replace makes one of the variables in package os stand for another file, and with
// it what was in the variable at first, for whoever has kept that: an os.File is
// nothing but a pointer to what must not be copied.
func replace(variable **os.File, initial, by *os.File) {
	kept = append(kept, *variable, by)
	if initial != nil {
		old := *initial
		kept = append(kept, &old)
		*initial = *by
	}
	*variable = by
}

// sameObject reports whether two handles stand for the same object.
func sameObject(a, b windows.Handle) bool {
	same, _, _ := compareObjectHandles.Call(uintptr(a), uintptr(b))
	return same != 0
}

var compareObjectHandles = windows.NewLazySystemDLL("kernelbase.dll").NewProc("CompareObjectHandles")

// Diversion returns where to write what is not for the client: standard error, or nil
// if that goes to the client too. Close leaves it open, for to close a pipe cuts short
// what anybody else in the process writes to it.
func (s *Streams) Diversion() io.Writer {
	if s.stderr == nil {
		return nil
	}
	return s.stderr
}

// Read reads from standard input. After Wake it returns ErrWoken, and after Close
// os.ErrClosed.
func (s *Streams) Read(p []byte) (int, error) {
	if err := s.use(); err != nil {
		return 0, err
	}
	defer s.done()
	s.reader.Do(func() { go s.readAhead() })
	select {
	case <-s.woken:
		return 0, ErrWoken
	default:
	}
	if len(s.rest.data) == 0 && s.rest.err == nil {
		if !s.asked {
			s.asked = true
			select {
			case s.ask <- struct{}{}:
			case <-s.woken:
				return 0, ErrWoken
			}
		}
		select {
		case s.rest = <-s.chunks:
			s.asked = false
		case <-s.woken:
			return 0, ErrWoken
		}
	}
	if len(s.rest.data) > 0 {
		n := copy(p, s.rest.data)
		s.rest.data = s.rest.data[n:]
		return n, nil
	}
	return 0, s.rest.err
}

// readAhead reads whenever it is asked to, until it is woken.
func (s *Streams) readAhead() {
	buf := make([]byte, 64<<10)
	for {
		select {
		case <-s.ask:
		case <-s.woken:
			return
		}
		n, err := s.in.Read(buf)
		s.chunks <- chunk{buf[:n], err}
	}
}

// Write writes p to standard output, all of it unless it returns an error. After
// Close it returns os.ErrClosed, but a Write under way goes on.
func (s *Streams) Write(p []byte) (int, error) {
	if err := s.use(); err != nil {
		return 0, err
	}
	defer s.done()
	n, err := s.out.Write(p)
	for _, gone := range []error{
		windows.ERROR_NO_DATA,            // the reader has closed its end of the pipe,
		windows.ERROR_BROKEN_PIPE,        // closes it under the write,
		windows.ERROR_PIPE_NOT_CONNECTED, // or has disconnected a named one
	} {
		if errors.Is(err, gone) {
			return n, os.NewSyscallError("write", syscall.EPIPE)
		}
	}
	return n, err
}

// HungUp returns nil before Close: a write finds out.
func (s *Streams) HungUp() error {
	if err := s.use(); err != nil {
		return err
	}
	s.done()
	return nil
}

// Wake makes a Read that waits, and every later one, return ErrWoken.
func (s *Streams) Wake() { s.waker.Do(func() { close(s.woken) }) }

// Close closes the moved handles, once the calls that use them have returned. It waits
// for none of them.
func (s *Streams) Close() {
	s.Wake()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.closeUnused()
	}
}

func (s *Streams) use() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	s.users++
	return nil
}

func (s *Streams) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.closeUnused()
}

func (s *Streams) closeUnused() {
	if s.closed && s.users == 0 {
		go s.in.Close() // ends the read of a pipe, and waits for any other
		s.out.Close()
	}
}
