//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup has the server start in a process group of its own: Ctrl-C in a terminal, or
// who signals a whole group, asks this process for the end, and that lets the calls in
// flight be answered first.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// steps follow the end of the server's input, as MCP 2025-06-18 has it. What the server
// has started is meant too.
var steps = []step{
	{"SIGTERM", func(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }},
	{"SIGKILL", func(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }},
}

// endedBy returns the signal that ended a process, or 0.
func endedBy(state *os.ProcessState) (n int, name string) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0, ""
	}
	return int(status.Signal()), unix.SignalName(status.Signal())
}
