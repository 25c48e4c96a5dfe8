//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package stdfd

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Streams are the moved standard input and output. One goroutine may read while
// others do all else.
//
// Other processes can share what the descriptors stand for, so their blocking
// mode is left as it is: Read waits in poll, together with a pipe that Wake
// writes to, and whatever reports EAGAIN is polled for.
type Streams struct {
	in, out      int
	wake, waking int // the wake pipe's ends
	stderr       *os.File

	mu     sync.Mutex
	users  int // calls that use the descriptors
	woken  bool
	closed bool
}

func take() (_ *Streams, err error) {
	s := &Streams{in: -1, out: -1, wake: -1, waking: -1}
	defer func() {
		if err != nil {
			s.closeAll()
		}
	}()
	if s.in, err = unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	if s.out, err = unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return nil, fmt.Errorf("standard output: %w", err)
	}
	if err = open2(); err != nil {
		return nil, fmt.Errorf("standard error: %w", err)
	}
	if s.wake, s.waking, err = pipe(); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", os.DevNull, err)
	}
	defer unix.Close(null)
	stdout := 2
	if sameFile(1, 2) {
		stdout = null
	} else if fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3); err == nil {
		s.stderr = os.NewFile(uintptr(fd), os.Stderr.Name())
	}
	if err = unix.Dup2(stdout, 1); err != nil {
		return nil, fmt.Errorf("standard output: %w", err)
	}
	if err = unix.Dup2(null, 0); err != nil {
		unix.Dup2(s.out, 1)
		return nil, fmt.Errorf("standard input: %w", err)
	}
	widen(s.in)
	// A file that is collected closes its descriptor, and one that the runtime has
	// found to be non-blocking waits for what its descriptor was when it was made.
	kept = []*os.File{os.Stdin, os.Stdout}
	os.Stdin = os.NewFile(0, os.Stdin.Name())
	os.Stdout = os.NewFile(1, os.Stdout.Name())
	kept = append(kept, os.Stdin, os.Stdout)
	return s, nil
}

// kept are all the files of descriptors 0 and 1.
var kept []*os.File

// pipe returns the two ends of a pipe that no child inherits.
func pipe() (r, w int, err error) {
	syscall.ForkLock.RLock() // not every system can make it so in one step
	defer syscall.ForkLock.RUnlock()
	fds := []int{-1, -1}
	if err := unix.Pipe(fds); err != nil {
		return -1, -1, err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	return fds[0], fds[1], nil
}

// open2 puts the null device on a descriptor 2 that is closed: the next descriptor
// that is opened would be standard error.
func open2() error {
	var st unix.Stat_t
	if unix.Fstat(2, &st) == nil {
		return nil
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR, 0)
	if err != nil || null == 2 {
		return err
	}
	defer unix.Close(null)
	return unix.Dup2(null, 2)
}

// sameFile reports whether two descriptors stand for the same file.
func sameFile(a, b int) bool {
	var sa, sb unix.Stat_t
	return unix.Fstat(a, &sa) == nil && unix.Fstat(b, &sb) == nil && sa.Dev == sb.Dev && sa.Ino == sb.Ino
}

// Diversion returns where to write what is not for the client: standard error, or nil
// if that goes to the client too. It is a descriptor of its own, for a write to 2 that
// nobody reads kills a Go program.
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
	for {
		fds := []unix.PollFd{{Fd: int32(s.wake), Events: unix.POLLIN}, {Fd: int32(s.in), Events: unix.POLLIN}}
		if err := poll(fds, -1); err != nil {
			return 0, os.NewSyscallError("poll", err)
		}
		if fds[0].Revents != 0 {
			return 0, ErrWoken
		}
		n, err := unix.Read(s.in, p)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Write writes p to standard output, all of it unless it returns an error. After
// Close it returns os.ErrClosed, but a Write under way goes on.
func (s *Streams) Write(p []byte) (n int, err error) {
	if err := s.use(); err != nil {
		return 0, err
	}
	defer s.done()
	for n < len(p) {
		// A length past 1 GiB is refused by some systems.
		m, err := unix.Write(s.out, p[n:min(len(p), n+1<<30)])
		n += max(m, 0)
		switch err {
		case nil, unix.EINTR:
		case unix.EAGAIN:
			if err := poll([]unix.PollFd{{Fd: int32(s.out), Events: unix.POLLOUT}}, -1); err != nil {
				return n, os.NewSyscallError("poll", err)
			}
		case unix.ECONNRESET: // a socket whose peer went away with something unread
			return n, os.NewSyscallError("write", unix.EPIPE)
		default:
			return n, os.NewSyscallError("write", err)
		}
	}
	return n, nil
}

// HungUp returns an error if who reads standard output is known to have gone.
func (s *Streams) HungUp() error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	fds := []unix.PollFd{{Fd: int32(s.out)}}
	if poll(fds, 0) == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
		return os.NewSyscallError("write", unix.EPIPE)
	}
	return nil
}

// poll is unix.Poll without its interruptions.
func poll(fds []unix.PollFd, timeout int) error {
	for {
		if _, err := unix.Poll(fds, timeout); err != unix.EINTR {
			return err
		}
	}
}

// Wake makes a Read that waits, and every later one, return ErrWoken.
func (s *Streams) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.woken && !s.closed {
		s.woken = true
		unix.Write(s.waking, []byte{0})
	}
}

// Close closes the moved descriptors, once the calls that use them have returned.
// It waits for none of them. Descriptors 0 and 1 stay as they are.
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
		s.closeAll()
	}
}

func (s *Streams) closeAll() {
	if s.stderr != nil {
		s.stderr.Close()
	}
	for _, fd := range []*int{&s.in, &s.out, &s.wake, &s.waking} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}
