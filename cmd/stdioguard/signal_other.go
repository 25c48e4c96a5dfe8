//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// ownGroup is for Unix.
func ownGroup(*exec.Cmd) {}

// steps follow the end of the server's input. There is no SIGTERM here.
var steps = []step{{"a kill", (*os.Process).Kill}}

// endedBy returns 0: no signal ends a process here.
func endedBy(*os.ProcessState) (n int, name string) { return 0, "" }
