package stdfd

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/windows"
)

// Streams are the moved standard input and output. One goroutine may read while
// others do all else.
//
// Windows cannot wait for a pipe and something else at once, so a goroutine reads
// ahead, one read at a time. It ends when its read does.
type Streams struct {
	in, out     *os.File
	sameAsError bool

	once   sync.Once
	ask    chan struct{}
	chunks chan chunk
	rest   chunk // of the last read, not yet taken
	asked  bool  // a read is under way

	wakeOnce  sync.Once
	woken     chan struct{}
	closeOnce sync.Once
}

type chunk struct {
	data []byte
	err  error
}

// originals are kept so that no finalizer closes their handles.
var originals [2]*os.File

func take() (*Streams, error) {
	in, err := duplicate(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	out, err := duplicate(os.Stdout)
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("standard output: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	s := &Streams{
		in: in, out: out, sameAsError: sameObject(os.Stdout, os.Stderr),
		ask: make(chan struct{}), chunks: make(chan chunk, 1), woken: make(chan struct{}),
	}
	stdout := os.Stderr
	if s.sameAsError {
		stdout = null
	}
	originals = [2]*os.File{os.Stdin, os.Stdout}
	windows.SetStdHandle(windows.STD_INPUT_HANDLE, windows.Handle(null.Fd()))
	windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Handle(stdout.Fd()))
	os.Stdin, os.Stdout = null, stdout
	return s, nil
}

func duplicate(f *os.File) (*os.File, error) {
	process := windows.CurrentProcess()
	var h windows.Handle
	err := windows.DuplicateHandle(process, windows.Handle(f.Fd()), process, &h, 0, false, windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), f.Name()), nil
}

// sameObject reports whether two files have handles of the same object. Before
// Windows 10 it cannot tell, and says no.
func sameObject(a, b *os.File) bool {
	compare := windows.NewLazySystemDLL("kernelbase.dll").NewProc("CompareObjectHandles")
	if compare.Find() != nil {
		return a.Fd() == b.Fd()
	}
	same, _, _ := compare.Call(a.Fd(), b.Fd())
	return same != 0
}

// Diversion returns where to write what is not for the client: standard error, or nil
// if that goes to the client too.
func (s *Streams) Diversion() io.Writer {
	if s.sameAsError {
		return nil
	}
	return os.Stderr
}

// Read reads from standard input. After Wake it returns ErrWoken.
func (s *Streams) Read(p []byte) (int, error) {
	s.once.Do(func() { go s.readAhead() })
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

// Write writes p to standard output.
func (s *Streams) Write(p []byte) (int, error) { return s.out.Write(p) }

// HungUp returns nil: a write finds out.
func (s *Streams) HungUp() error { return nil }

// Wake makes a Read that waits, and every later one, return ErrWoken.
func (s *Streams) Wake() { s.wakeOnce.Do(func() { close(s.woken) }) }

// Close closes the moved handles.
func (s *Streams) Close() {
	s.Wake()
	s.closeOnce.Do(func() {
		// A read or write under way keeps its handle, and Close waiting.
		go func() {
			s.in.Close()
			s.out.Close()
		}()
	})
}
