//go:build unix

package main

import (
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stdioguard/stdioguard/internal/outpipe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (c *client) signal(s syscall.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(s))
}

func TestASignalWaitsForTheCallsInFlight(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(s) {
				t.Skip("the test runs with the signal ignored, as under nohup, and so does the command")
			}
			c := setup{command: serve("tools")}.start(t)
			c.send(request(1, "ask"))
			c.awaits(&c.out, question)
			c.signal(s) // the client's end stays open
			c.ends(0, question+result(1), "")
		})
	}
}

func TestASignalWithNothingInFlight(t *testing.T) {
	t.Parallel()
	c := setup{command: serve("tools")}.start(t)
	c.send(request(1, "ping"))
	c.awaits(&c.out, result(1))
	c.signal(syscall.SIGTERM)
	c.ends(0, result(1), "")
}

// nohup(1) has its word.
func TestASignalThatWasIgnored(t *testing.T) {
	t.Parallel()
	c := setup{command: serve("tools"), shell: `trap '' HUP; exec "$0" "$@"`}.start(t)
	c.send(request(1, "ping"))
	c.awaits(&c.out, result(1))
	c.signal(syscall.SIGHUP)
	out := result(1)
	for id := range 20 {
		c.send(request(id, "ping"))
		out += result(id)
		c.awaits(&c.out, out)
	}
	c.closeIn()
	c.ends(0, out, "")
}

const (
	gotSignal = "stdioguard: got a signal signal=terminated\n"
	notExited = "stdioguard: the server has not exited next="
)

// Each further signal takes the next step.
func TestSignalsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c := setup{flags: strings.Fields("-drain 1h -grace 1h -log debug"), command: serve("stubborn")}.start(t)
	c.awaits(&c.out, told("ready"))
	log := c.awaitsUntil(&c.log, func(got string) bool { return strings.HasSuffix(got, "\n") })
	require.Regexp(t, `^stdioguard: the server has started pid=\d+\n$`, log)
	c.send(request(1, "forget"))
	out := told("ready") + told("a line")
	c.awaits(&c.out, out)

	c.signal(syscall.SIGTERM) // the input ends, and the answer is waited for
	log += gotSignal
	c.awaits(&c.log, log)

	c.signal(syscall.SIGTERM)
	log += gotSignal + notExited + "SIGTERM\n"
	c.awaits(&c.log, log)
	c.awaits(&c.out, out+told("end of input")+told("terminated"), out+told("terminated")+told("end of input"))

	c.signal(syscall.SIGTERM)
	c.exits(137)
	log += gotSignal + notExited + "SIGKILL\n" +
		"stdioguard: the server was ended by SIGKILL unanswered=1\n" + "stdioguard: the server has exited status=137\n"
	c.ends(137, c.out.String(), log)
}

// The end of the input, too, is the first step.
func TestSignalsAfterTheEndOfInput(t *testing.T) {
	t.Parallel()
	c := setup{flags: strings.Fields("-grace 1h"), command: serve("stubborn")}.start(t)
	c.awaits(&c.out, told("ready"))
	c.closeIn()
	out := told("ready") + told("end of input")
	c.awaits(&c.out, out)
	c.signal(syscall.SIGTERM)
	out += told("terminated")
	c.awaits(&c.out, out)
	c.signal(syscall.SIGINT)
	c.ends(137, out, notExited+"SIGTERM\n"+notExited+"SIGKILL\nstdioguard: the server was ended by SIGKILL\n")
}

func TestAServerThatIgnoresItsEnd(t *testing.T) {
	t.Parallel()
	c := setup{flags: strings.Fields("-grace 2s"), command: serve("stubborn")}.start(t)
	c.awaits(&c.out, told("ready"))
	c.closeIn()
	c.ends(137, told("ready")+told("end of input")+told("terminated"),
		notExited+"SIGTERM\n"+notExited+"SIGKILL\nstdioguard: the server was ended by SIGKILL\n")
}

func TestAServerThatASignalEnds(t *testing.T) {
	t.Parallel()
	c := setup{command: []string{"sh", "-c", "kill -ABRT $$"}}.start(t)
	c.ends(134, "", "stdioguard: the server was ended by SIGABRT before its input ended\n")
}

// A write there would be a SIGPIPE.
func TestStandardErrorIsClosed(t *testing.T) {
	t.Parallel()
	c := setup{command: serve("tools"), noLog: true}.start(t)
	c.send("{\n" + request(1, "print") + request(2, "ping"))
	c.closeIn()
	c.ends(0, parseError+result(1)+result(2), "")
}

func TestAShellSaysWhatToDo(t *testing.T) {
	t.Parallel()
	var help strings.Builder
	usage(&help, new(config).flags())
	c := setup{args: []string{}, shell: `"$0"; echo "status $?"`}.start(t)
	c.ends(0, "status 2\n", "stdioguard: no command to run\n\n"+help.String())
	manual, err := os.ReadFile("main.go")
	require.NoError(t, err)
	new(config).flags().VisitAll(func(f *flag.Flag) {
		assert.Contains(t, help.String(), "  -"+f.Name)
		assert.Contains(t, string(manual), "\n//\t-"+f.Name+" ")
	})
}

// A client may take its time: what the server wrote before it exited is passed on, also
// when the signal that ended it comes to the command too.
func TestTheClientReadsLate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		before func(*client)
	}{
		{"", func(*client) {}},
		{"and a signal comes", func(c *client) { c.signal(syscall.SIGINT) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := setup{flags: strings.Fields("-log info"), command: serve("burst"), unread: true}.start(t)
			c.awaitsUntil(&c.log, func(log string) bool { return strings.Contains(log, "has started") })
			time.Sleep(outpipe.Wait / 2) // no event says that the server has exited
			tt.before(c)
			time.Sleep(outpipe.Wait) // nor that the command is past its wait
			c.read(c.outEnd, &c.out)
			c.exits(3)
			for _, ended := range c.ended {
				c.await(ended, "somebody holds the outputs open")
			}
			same(t, burst, c.out.String(), "on standard output")
		})
	}
}
