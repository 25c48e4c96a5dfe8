//go:build unix

package stdioguard_test

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/stdioguard/stdioguard"
)

// nonBlockingKinds are kinds where the server is given descriptors in non-blocking mode.
var nonBlockingKinds = []stdioKind{
	{"non-blocking pipes", rawPipe(true)},
	{"non-blocking socket pairs", socketPair(true)},
}

func init() {
	stdioKinds = append(stdioKinds, stdioKind{"socket pairs", socketPair(false)})
	noises = append(noises,
		noise{name: "a child that inherits descriptors", text: "x\n", make: func() { inheriting("sh", "-c", "echo x; cat") }},
		noise{name: "the descriptors of a child", make: func() {
			if now := childDescriptors(); now != old.descriptors {
				say("%q, was %q", now, old.descriptors)
			}
		}, direct: true},
	)
	stdioServers["garbage"] = garbageServer
	processorTime = func() time.Duration {
		var u unix.Rusage
		must(0, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	if runtime.GOOS == "linux" {
		childDescriptors = func() string { return string(must(exec.Command("ls", "/proc/self/fd").Output())) }
	}
}

// inheriting runs a child that has this process's descriptors 0, 1 and 2.
func inheriting(args ...string) {
	pid := must(syscall.ForkExec(must(exec.LookPath(args[0])), args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}))
	must(syscall.Wait4(pid, nil, 0, nil))
}

func socketPair(nonBlocking bool) func(bool) (server, client *os.File, err error) {
	return func(bool) (server, client *os.File, err error) {
		syscall.ForkLock.RLock() // until they are close-on-exec
		defer syscall.ForkLock.RUnlock()
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return ends(fds[0], fds[1], nonBlocking, err)
	}
}

func rawPipe(nonBlocking bool) func(bool) (server, client *os.File, err error) {
	return func(serverReads bool) (server, client *os.File, err error) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		var fds [2]int
		err = unix.Pipe(fds[:])
		if serverReads {
			return ends(fds[0], fds[1], nonBlocking, err)
		}
		return ends(fds[1], fds[0], nonBlocking, err)
	}
}

// ends makes files of descriptors. The client's is non-blocking, so that closing it
// wakes a read.
func ends(s, c int, nonBlocking bool, err error) (server, client *os.File, _ error) {
	if err == nil {
		unix.CloseOnExec(s)
		unix.CloseOnExec(c)
		err = unix.SetNonblock(c, true)
	}
	if err == nil {
		err = unix.SetNonblock(s, nonBlocking)
	}
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(s), "server's end"), os.NewFile(uintptr(c), "client's end"), nil
}

// flagsOf returns what fcntl says of a description, which processes share.
func flagsOf(t *testing.T, files []*os.File) (flags []int) {
	t.Helper()
	for _, f := range files {
		c, err := f.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, c.Control(func(fd uintptr) {
			n, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
			require.NoError(t, err)
			flags = append(flags, n)
		}))
	}
	return flags
}

func TestTheBlockingModeOfSharedStreamsIsLeftAlone(t *testing.T) {
	for _, k := range []stdioKind{
		{"blocking pipes", rawPipe(false)}, {"blocking socket pairs", socketPair(false)},
		nonBlockingKinds[0], nonBlockingKinds[1],
	} {
		for _, server := range []string{"noisy", "Run: noisy"} {
			t.Run(k.name+", "+server, func(t *testing.T) {
				s := startConf{stdioKind: k, shared: true}.start(t, server)
				before := flagsOf(t, s.ends)
				s.send(callLine("nothing", "1"))
				s.awaitsOut(replyLine("1"))
				assert.Equal(t, before, flagsOf(t, s.ends), "in the session")
				s.closeIn()
				s.exitsWithin(patience, 0)
				assert.Equal(t, before, flagsOf(t, s.ends), "after it")
			})
		}
	}
}

func TestStdioTakesNonBlockingStreams(t *testing.T) {
	for _, k := range append(nonBlockingKinds, stdioKinds...) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := startConf{stdioKind: k, unread: true}.start(t, "big")
			s.send(callLine("big", "1"))
			s.awaitsLog("answering\n")
			time.Sleep(idle) // what the server does with it is measured
			s.send(callLine("idle", "2"))
			s.read(s.out, s.stdout)
			s.closeIn()
			s.exits(0, bigAnswer("1")+replyLine("2"), "answering\n")
		})
	}
}

// It is read after it was found full.
func TestNoiseGoesToANonBlockingStandardErrorWhole(t *testing.T) {
	for _, k := range append(nonBlockingKinds, stdioKinds...) {
		for _, server := range []string{"unread noise", "Run: unread noise"} {
			t.Run(k.name+", "+server, func(t *testing.T) {
				t.Parallel()
				s := startConf{stdioKind: k, unreadLog: true}.start(t, server)
				s.send(callLine("noise", "1"))
				s.awaitsOut(replyLine("1"))
				s.read(s.log, s.stderr)
				s.awaitsLog(mebibyte)
			})
		}
	}
}

// A runtime that starts with one of the three closed opens the null device there.
func TestStdioWhereTheProcessStartedWithoutAStream(t *testing.T) {
	for _, tt := range []struct {
		name, redirect string
		in, out, log   string
	}{
		{"no standard input", "<&-", "", "", "after the session\n"},
		{"no standard output", ">&-", callLine("fmt.Println", "1"), "", "printed\nafter the session\n"},
		{"no standard error", "2>&-", callLine("fmt.Println", "1"), replyLine("1"), ""},
		{"neither output", ">&- 2>&-", callLine("fmt.Println", "1"), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startConf{stdioKind: stdioKinds[0], prepare: func(cmd *exec.Cmd) {
				sh, err := exec.LookPath("sh")
				require.NoError(t, err)
				cmd.Args = []string{"sh", "-c", `exec "$0" ` + tt.redirect, cmd.Path}
				cmd.Path = sh
			}}.start(t, "noisy")
			s.send(tt.in)
			s.closeIn()
			s.exits(0, tt.out, tt.log)
		})
	}
}

// garbageServer lets go of the variables, as who sets os.Stdout to os.Stderr does.
func garbageServer() int {
	g := must(stdioguard.Stdio())
	os.Stdin, os.Stdout = os.Stderr, os.Stderr
	for range 3 {
		collected := make(chan struct{})
		runtime.AddCleanup(new([64]byte), func(struct{}) { close(collected) }, struct{}{})
		runtime.GC()
		<-collected
	}
	for fd := range 2 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			say("descriptor %d: %v", fd, err)
		}
	}
	inheriting("sh", "-c", "echo x; cat")
	io.Copy(io.Discard, g)
	return 0
}

func TestTheStandardFilesAreNotCollected(t *testing.T) {
	s := startConf{stdioKind: stdioKinds[0]}.start(t, "garbage")
	s.closeIn()
	s.exits(0, "", "x\n")
}
