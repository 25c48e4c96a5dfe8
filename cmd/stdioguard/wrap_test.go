package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stdioguard/stdioguard/internal/outpipe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	parseError     = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}` + "\n"
	invalidRequest = `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Invalid Request"}}` + "\n"
	bom            = "\xef\xbb\xbf"
)

// dropped is the log's line for the first bad line, at the beginning of the input.
func dropped(why string, size, code int, text string) string {
	return fmt.Sprintf("stdioguard: dropped a bad line error=%q line=1 offset=0 size=%d code=%d answered=true text=%q", why, size, code, text)
}

func stray(size int, text string) string {
	return fmt.Sprintf("stdioguard: the server printed text that is no message size=%d text=%s\n", size, text)
}

// The client sends all of it, closes its end, and reads to the end.
func TestSessions(t *testing.T) {
	t.Parallel()
	hundred := strings.Repeat("a", 101)
	for _, tt := range []struct {
		name    string
		flags   string
		env     string
		in      string
		status  int
		out     string
		log     string
		command string
	}{
		{name: "nothing is said", log: ""},
		{name: "a call", in: request(1, "ping"), out: result(1)},
		{name: "a call without a newline", in: strings.TrimSuffix(request(1, "ping"), "\n"), out: result(1)},
		{name: "the server's status is the command's", in: request(1, "exit at the end"), status: 4, out: result(1)},
		{name: "the environment is the server's", env: "STDIOGUARD_TEST_VALUE=a value",
			in: request(1, "environment"), out: told("a value") + result(1)},

		{name: "garbage is dropped", in: "not json\n" + request(2, "ping"), out: parseError + result(2),
			log: dropped("not one JSON text: at byte 1 of the line", 8, -32700, "not json") +
				` hint="looks like text for a log; it belongs on standard error"` + "\n"},
		{name: "a message that is none is answered by its id", in: `{"id":7,"method":"ping"}` + "\n", out: invalidRequest,
			log: dropped(`not a JSON-RPC 2.0 message: "jsonrpc" is not the string "2.0"`, 24, -32600, `{"id":7,"method":"ping"}`) + " id=7\n"},
		{name: "nothing is said with -log off", flags: "-log off", in: "{\n" + request(2, "print"), out: parseError + result(2)},
		{name: "nor of lines with -log error", flags: "-log error", in: "{\n" + request(2, "print"), out: parseError + result(2)},
		{name: "a byte order mark is stripped", in: bom + request(1, "ping") + bom + request(2, "ping"), out: result(1) + result(2)},
		{name: "blank lines are skipped", in: "\n \t\r\n" + request(1, "ping") + "\n", out: result(1)},
		{name: "a line at the limit", flags: "-line 101", in: hundred + "\n",
			out: parseError, log: dropped("not one JSON text: at byte 0 of the line", 101, -32700, hundred) +
				` hint="looks like text for a log; it belongs on standard error"` + "\n"},
		{name: "a line over the limit", flags: "-line 100", in: hundred + "\n" + request(2, "ping"),
			out: parseError + result(2), log: dropped("line too long", 101, -32700, hundred[:100]) + "\n"},
		{name: "a limit from the environment", env: "STDIOGUARD_LINE=100", in: hundred + "\n" + request(2, "ping"),
			out: parseError + result(2), log: dropped("line too long", 101, -32700, hundred[:100]) + "\n"},
		{name: "a flag wins over the environment", flags: "-line 1k", env: "STDIOGUARD_LINE=10",
			in: request(1, "ping"), out: result(1)},
		{name: "8 MiB are a line", flags: "-log off", in: strings.Repeat(" ", 8<<20-len(request(1, "ping"))+1) + request(1, "ping"),
			out: result(1)},
		{name: "and no more", flags: "-log off", in: strings.Repeat(" ", 8<<20-len(request(1, "ping"))+2) + request(1, "ping"),
			out: parseError},
		{name: "no answer without an id", flags: "-answers none -log off", in: "{\n" + request(2, "ping"), out: result(2)},
		{name: "an answer without the id", flags: "-answers omit -log off", in: "{\n",
			out: strings.Replace(parseError, `"id":null,`, "", 1)},
		{name: "an id that is recovered", flags: "-recover-ids -line 60 -log off",
			in:  `{"jsonrpc":"2.0","id":9,"method":"ping","params":["` + hundred + `"]}` + "\n",
			out: strings.Replace(parseError, "null", "9", 1)},
		{name: "a depth", flags: "-depth 1 -log off", in: `{"jsonrpc":"2.0","id":9,"method":"ping","params":{}}` + "\n", out: strings.Replace(parseError, "null", "9", 1)},
		{name: "a depth, and ids are not recovered", flags: "-depth 1 -log off -recover-ids=false", in: `{"jsonrpc":"2.0","id":9,"method":"ping","params":{}}` + "\n", out: parseError},
		{name: "any JSON", flags: "-any-json", in: "[1]\n", out: "[1]\n", command: "copy"},

		{name: "text between messages", in: request(1, "print") + request(2, "ping"), out: result(1) + result(2),
			log: stray(10, `"loading…"`) + stray(23, `"colour \x1b[31mred\x1b[0m \xff"`) +
				stray(200, strconv.Quote(strings.Repeat("=", 120))) + stray(4, `"null"`)},
		{name: "text without a newline before a message", in: request(1, "print without an end"), out: result(1),
			log: stray(7, `"debug:"`)},
		{name: "much text", in: request(1, "print much") + request(2, "print much"), out: result(1) + result(2),
			flags: "-answer-limit 1000",
			log:   strings.Repeat(stray(5, `"again"`), 600)},
		{name: "a body and its newline in two writes", in: request(1, "two writes") + request(2, "two writes"), out: result(1) + result(2)},
		{name: "the server's standard error is untouched", in: request(1, "log"), out: result(1), log: "untouched \xff\x00\r\n"},

		{name: "an answer that takes longer than the input", in: request(1, "slow") + request(2, "ping"), out: result(2) + result(1)},
		{name: "an answer that needs the client", in: request(1, "ask"), out: question + result(1)},
		{name: "no wait for answers", flags: "-drain 0", in: request(1, "forget") + request(2, "ping"), out: result(2),
			log: "stdioguard: requests have no response unanswered=1\n"},
		{name: "answers that do not come in time", flags: "-drain 50ms", in: request(1, "forget"),
			log: "stdioguard: requests have no response unanswered=1\n"},
		{name: "no request is waited for", flags: "-pending -1 -drain 1h", in: request(1, "forget")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.command == "" {
				tt.command = "tools"
			}
			c := setup{flags: strings.Fields(tt.flags), env: []string{tt.env}, command: serve(tt.command)}.start(t)
			c.send(tt.in)
			c.closeIn()
			c.ends(tt.status, tt.out, tt.log)
		})
	}
}

// A client that answers what it does not know would else go on for ever.
func TestAStormOfBadLines(t *testing.T) {
	t.Parallel()
	const n = 100000
	c := setup{command: serve("tools")}.start(t)
	c.send(strings.Repeat("{\n", n) + request(2, "ping"))
	c.closeIn()
	var log strings.Builder
	for i := range 256 {
		fmt.Fprintf(&log, `stdioguard: dropped a bad line error="not one JSON text: at byte 1 of the line" line=%d offset=%d size=1 code=-32700 answered=true text="{" hint="looks like a message spread over several lines; it must be on one"`+"\n", i+1, 2*i)
	}
	fmt.Fprintf(&log, "stdioguard: more bad lines were dropped lines=%d answers_withheld=%[1]d\n", n-256)
	c.ends(0, strings.Repeat(parseError, 256)+result(2), log.String())
}

func TestTheServerEndsFirst(t *testing.T) {
	t.Parallel()
	const early = "stdioguard: the server exited before its input ended status=7"
	for _, tt := range []struct {
		name, command, in string
		status            int
		out, log          string
	}{
		{"at once", "ends", "", 7, "", early + "\n"},
		{"in a call", "tools", request(1, "ping") + request(2, "exit"), 7, result(1), early + " unanswered=1\n"},
		{"after much output", "tools", request(1, "exit after much"), 7, big, early + " unanswered=1\n"},
		{"after more text than is shown", "tools", request(1, "exit after text"), 7, "",
			strings.Repeat(stray(5, `"again"`), 256) + "stdioguard: the server printed more text that is no message lines=44\n" + early + " unanswered=1\n"},
		{"in the middle of a message", "tools", request(1, "exit in a message"), 7, "",
			stray(17, `"{\"jsonrpc\":\"2.0\","`) + early + " unanswered=1\n"},
		{"with a command that is a shell's", "", "", 3, "", "stdioguard: the server exited before its input ended status=3\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command := serve(tt.command)
			if tt.command == "" {
				if runtime.GOOS == "windows" {
					t.Skip("needs sh")
				}
				command = []string{"sh", "-c", "exit 3"}
			}
			c := setup{command: command}.start(t)
			c.send(tt.in) // and the input stays open
			c.ends(tt.status, tt.out, tt.log)
		})
	}
}

// What it wrote is there for a client that reads late.
func TestTheServerEndsBeforeItsOutputIsRead(t *testing.T) {
	t.Parallel()
	c := setup{command: serve("tools"), unread: true}.start(t)
	c.send(request(1, "ping"))
	one := make([]byte, 1)
	_, err := c.outEnd.Read(one)
	require.NoError(t, err)
	c.send(request(2, "exit after much"))
	c.read(c.outEnd, &c.out)
	c.ends(7, result(1)[1:]+big, "stdioguard: the server exited before its input ended status=7 unanswered=1\n")
}

func TestTheClientHangsUp(t *testing.T) {
	t.Parallel()
	t.Run("while the server writes", func(t *testing.T) {
		c := setup{command: serve("flood"), unread: true}.start(t)
		_, err := c.outEnd.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, c.outEnd.Close())
		c.ends(5, "", "stdioguard: the client has hung up\n")
	})
	t.Run("while an answer is waited for", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("there a write has to find out")
		}
		c := setup{flags: []string{"-drain", "1h"}, command: serve("tools"), unread: true}.start(t)
		c.send(request(1, "forget"))
		c.closeIn()
		require.NoError(t, c.outEnd.Close())
		c.ends(0, "", "stdioguard: the client has hung up unanswered=1\n")
	})
}

// Nothing can reach such a server, or come from it.
func TestTheServerClosesOneStream(t *testing.T) {
	t.Parallel()
	t.Run("its output", func(t *testing.T) {
		c := setup{command: serve("no out")}.start(t)
		c.ends(6, told("closing"), "stdioguard: the server exited before its input ended status=6\n")
	})
	t.Run("its input", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("needs SIGTERM")
		}
		t.Parallel()
		c := setup{flags: []string{"-grace", "2s"}, command: serve("no input")}.start(t)
		c.awaits(&c.out, told("closed"))
		c.send(request(1, "ping"))
		c.ends(143, told("closed"), "stdioguard: the server has not exited next=SIGTERM\n"+
			"stdioguard: the server was ended by SIGTERM before its input ended unanswered=1\n")
	})
}

// killTold kills the process whose id is told in the first line, which must be there still.
func killTold(t *testing.T, out string) (line string) {
	t.Helper()
	line, _, _ = strings.Cut(out, "\n")
	var pid int
	_, err := fmt.Sscanf(line, `{"jsonrpc":"2.0","method":"told","params":["%d"]}`, &pid)
	require.NoError(t, err, line)
	p, err := os.FindProcess(pid)
	require.NoError(t, err)
	assert.NoError(t, p.Kill(), "it is still there")
	return line + "\n"
}

// A process that the server leaves behind has its output.
func TestAProcessThatHoldsTheOutput(t *testing.T) {
	t.Parallel()
	t.Run("and a client that reads", func(t *testing.T) {
		t.Parallel()
		c := setup{command: serve("tools")}.start(t)
		c.send(request(1, "hold"))
		c.closeIn()
		c.exits(0)
		c.await(c.ended[0], "somebody holds the output open")
		c.ends(0, killTold(t, c.out.String())+result(1), "")
	})
	t.Run("and a client that reads late", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("a pipe does not hold as much")
		}
		c := setup{command: serve("tools"), unread: true}.start(t)
		c.send(request(1, "hold and exit"))
		time.Sleep(outpipe.Wait * 3 / 2) // how late the client is; were it earlier, less would be shown
		c.read(c.outEnd, &c.out)
		c.exits(7)
		c.await(c.ended[1], "somebody holds the output open")
		c.ends(7, killTold(t, c.out.String())+late,
			"stdioguard: the server exited before its input ended status=7 unanswered=1\n")
	})
}

// Standard error is the client's too, and nothing but messages may go there.
func TestMergedOutputs(t *testing.T) {
	t.Parallel()
	c := setup{command: serve("tools"), merged: true}.start(t)
	c.send("{\n" + request(1, "print") + request(2, "log"))
	c.closeIn()
	c.ends(0, parseError+result(1)+result(2), "")
}

// equipa#32: the guard must not wait for who reads its log.
func TestNobodyReadsStandardError(t *testing.T) {
	t.Parallel()
	c := setup{command: serve("tools"), flags: []string{"-answer-limit", "-1"}, deafLog: true}.start(t)
	for i := range 40 {
		c.send(strings.Repeat("{\n", 100) + request(i, "ping"))
	}
	c.closeIn()
	c.exits(0)
	c.await(c.ended[0], "somebody holds the output open")
	var out strings.Builder
	for i := range 40 {
		out.WriteString(strings.Repeat(parseError, 100) + result(i))
	}
	same(t, sorted(out.String()), sorted(c.out.String()), "on standard output")
}
