package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The server ignores the end of its input and SIGTERM, and has the outputs open: they
// end when it does.
func TestTheCommandIsKilled(t *testing.T) {
	t.Parallel()
	c := setup{command: serve("stubborn")}.start(t)
	c.awaits(&c.out, told("ready"))
	c.signal(syscall.SIGKILL)
	c.await(c.exited, "the command does not exit")
	for _, ended := range c.ended {
		c.await(ended, "the server lives on")
	}
}

// The server's pipe and the guard hold 320 KiB, and what the client writes goes into a pipe
// of 1 MiB: when all of this is written, the guard has read more than the server's pipe holds.
func TestTheServerDoesNotRead(t *testing.T) {
	t.Parallel()
	const size = 1<<20 + 290<<10
	for _, tt := range []struct {
		name string
		end  func(*client)
	}{
		{"and the client closes its end", (*client).closeIn},
		{"and a signal comes", func(c *client) { c.signal(syscall.SIGTERM) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := setup{flags: strings.Fields("-drain 0 -grace 2s"), command: serve("deaf")}.start(t)
			note := told(strings.Repeat("x", 1000))
			c.send(strings.Repeat(note, size/len(note)))
			tt.end(c)
			c.ends(143, "", "stdioguard: what the client sent is not taken for=2s\n"+
				notExited+"SIGTERM\nstdioguard: the server was ended by SIGTERM\n")
		})
	}
}

func TestTheServerInheritsNoOtherDescriptor(t *testing.T) {
	t.Parallel()
	list := []string{"ls", "/proc/self/fd"}
	bare := exec.Command(list[0], list[1:]...)
	bare.Stdin, bare.Stderr = os.Stdin, os.Stderr
	want, err := bare.Output()
	require.NoError(t, err)
	// What is listed is no message, so it goes to standard error in the server's shell.
	c := setup{command: []string{"sh", "-c", "exec ls /proc/self/fd >&2"}, flags: []string{"-log", "off"}}.start(t)
	c.ends(0, "", string(want))
}

func TestTheServersStandardErrorIsTheCommands(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/stderr")
	require.NoError(t, err)
	defer file.Close()
	cmd := exec.Command(serve("tools")[0], "-log", "off", "--", "sh", "-c", "readlink /proc/self/fd/2 >&2")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = file
	require.NoError(t, cmd.Run())
	got, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	assert.Equal(t, file.Name()+"\n", string(got))
}
