package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
)

// A child is the server's process.
type child struct {
	stdin  *os.File // our end
	stdout *os.File // likewise
	exited chan struct{}
	cmd    *exec.Cmd // its ProcessState is there once exited is closed
}

// start starts a command, with stderr itself as its standard error. The command
// inherits no other descriptor of ours.
func start(command []string, stderr *os.File) (*child, error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	stdout, out, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return nil, err
	}
	defer out.Close()
	widen(stdin)
	widen(stdout)
	c := &child{stdin: stdin, stdout: stdout, exited: make(chan struct{}), cmd: exec.Command(command[0], command[1:]...)}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, stderr
	ownGroup(c.cmd)
	dieWithParent(c.cmd)
	if err := c.run(); err != nil {
		stdin.Close()
		stdout.Close()
		return nil, err
	}
	return c, nil
}

// run starts the process, and a goroutine that waits for it. To the kernel its parent
// is the thread that started it, so that thread has to live as long.
func (c *child) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.cmd.Wait() // the status is in ProcessState
			close(c.exited)
		}
	}()
	return <-started
}

// cannotRun returns what a shell exits with if it cannot run a command.
func cannotRun(err error) (status int) {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

// status is what a shell exits with after a command has. It names the signal that
// ended the process, if one did.
func (c *child) status() (status int, signal string) {
	if n, name := endedBy(c.cmd.ProcessState); n > 0 {
		return exitSignalBase + n, name
	}
	return c.cmd.ProcessState.ExitCode(), ""
}

// A step makes a child end.
type step struct {
	name string
	take func(*os.Process) error
}
