package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the child when this process is killed, whatever
// the child makes of the end of its input. It is SIGKILL, since a child may ignore any
// other signal and nobody would be left to follow it up; who ends this process in the
// way of MCP has given the child its SIGTERM before.
//
// It happens when the thread that starts the child ends: see child.run.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// widen makes room for 256 KiB in a pipe, where the kernel allows it, so that a large
// message does not stop every 64 KiB.
func widen(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 256<<10) })
	}
}

// watchInput returns a channel that is closed when the client has closed its end of
// standard input, though there may be something left to read. Call it before Stdio.
func watchInput() <-chan struct{} {
	in, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil
	}
	closed := make(chan struct{})
	var stat unix.Stat_t
	if unix.Fstat(in, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG {
		close(closed) // nobody adds to it
		return closed
	}
	go func() {
		fds := []unix.PollFd{{Fd: int32(in), Events: unix.POLLRDHUP}}
		for {
			if _, err := unix.Poll(fds, -1); err != unix.EINTR {
				break
			}
		}
		close(closed)
	}()
	return closed
}
