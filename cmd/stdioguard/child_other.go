//go:build !linux

package main

import (
	"os"
	"os/exec"
)

// dieWithParent is for Linux. Elsewhere the child sees the end of its input.
func dieWithParent(*exec.Cmd) {}

// widen is for Linux.
func widen(*os.File) {}

// watchInput is for Linux. Elsewhere a signal has to end the session with a server
// that does not read.
func watchInput() <-chan struct{} { return nil }
