//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// steps follow the end of the server's input, as MCP 2025-06-18 has it.
var steps = []step{
	{"SIGTERM", func(p *os.Process) error { return p.Signal(syscall.SIGTERM) }},
	{"SIGKILL", (*os.Process).Kill},
}

// endedBy returns the signal that ended a process, or 0.
func endedBy(state *os.ProcessState) (n int, name string) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0, ""
	}
	return int(status.Signal()), unix.SignalName(status.Signal())
}
