package examples_test

import (
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A noise is something that the tool of that name does to standard input or
// output, and the text of it that turns up on stderr instead.
type noise struct {
	how, stderr string
	underRun    string // stderr under Run, where it differs
	direct      bool   // the noise is made on stderr itself
	onlyStdio   bool   // Run cannot help
	notWindows  bool
}

var noises = []noise{
	{how: "fmt.Println", stderr: "printed\n"},
	// Under Run the line that it stands on is the one that the answer ends.
	{how: "fmt.Print", stderr: "unended", underRun: "unended\n"},
	{how: "the beginning of JSON", stderr: `{"a":`, underRun: `{"a":` + "\n"},
	{how: "an old logger", stderr: "old: logged\n", notWindows: true},
	{how: "println", stderr: "built in\n", direct: true},
	{how: "1 MiB", stderr: strings.Repeat("0123456789abcde\n", 1<<16)},
	{how: "a JSON log", stderr: `{"level":"info","msg":"x"}` + "\n"},
	{how: "a JSON log with a method", stderr: `{"msg":"request","method":"GET"}` + "\n"},
	{how: "null", stderr: "null\n"},
	{how: "a child's output", stderr: "child\n", notWindows: true},
	{how: "a child's input", notWindows: true},
	{how: "a child given os.Stdout", stderr: "given\n", onlyStdio: true, notWindows: true},
	{how: "a child given os.Stdin", onlyStdio: true, notWindows: true},
}

// noisesOf are those that the guard of s keeps from the client.
func noisesOf(s *server) []noise {
	var all []noise
	for _, n := range noises {
		if n.onlyStdio && s.isRun() || n.notWindows && runtime.GOOS == "windows" {
			continue
		}
		if s.isRun() && n.underRun != "" {
			n.stderr = n.underRun
		}
		all = append(all, n)
	}
	return all
}

// announced answers a call of announce.
func announced(id string) answer { return echoed(id, `"announced"`) }

// progress is the notification that announce sends.
func progress(s *server) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":` + s.progress + `}`
}

// announcements are what a server prints before it sends a notification.
var announcements = []struct {
	name      string
	printed   func(s *server, id string) string
	onlyStdio bool // under Run the pipe carries both, and they are the same
}{
	{name: "the notification after a text", printed: func(s *server, _ string) string { return "sending " + progress(s) }},
	{name: "the notification before a text", printed: func(s *server, _ string) string { return progress(s) + " sent" }},
	{name: "the notification", printed: func(s *server, _ string) string { return progress(s) }, onlyStdio: true},
	{name: "the answer", printed: func(s *server, id string) string { return announced(id)(s) }, onlyStdio: true},
}

// requireText fails with what differs, and not with a MiB of what does not.
func requireText(t *testing.T, want, got, where string) {
	t.Helper()
	if want == got {
		return
	}
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	part := func(s string) string { return s[max(0, min(len(s), i)-40):min(len(s), i+200)] }
	require.Equal(t, part(want), part(got), "%s: %d bytes, want %d; they differ at %d", where, len(got), len(want), i)
	require.Equal(t, len(want), len(got), where)
}

// trpc-mcp-go writes an answer and its newline in two calls, and waits for neither
// at the end of input. Once the answer is on its way it may find no stream any more
// to write the newline to, and logs that.
var lateNewline = regexp.MustCompile(`(?m)^\S+ \S+\tERROR\t\S+\tError handling message: error writing newline: write \|1: .*\n`)

// Whatever is printed, and by whom: go-sdk#572, mcp-taskfile-server#54,
// slack-mcp-server#65, mcp-toolbox#638.
func TestNoiseTurnsUpOnStderrAlone(t *testing.T) {
	eachKind(t, ownsStreams, func(t *testing.T, s *server) {
		c := start(t, s, "", "-goodbye")
		stderr, id := "", 100
		play := func(name, tool, text, noise string, want ...answer) {
			t.Log(name)
			// The second request is there to be eaten.
			c.SendString(drive.CallText(strconv.Itoa(id), tool, text) + "\n" + drive.ListTools(strconv.Itoa(id+1)) + "\n")
			expect(t, s, c, true, append(want, tools(strconv.Itoa(id+1)))...)
			stderr += noise
			got, err := c.AwaitStderr(len(stderr))
			requireText(t, stderr, got, "on stderr")
			require.NoError(t, err)
			id += 2
		}
		for _, n := range noisesOf(s) {
			play(n.how, "noise", n.how, n.stderr, echoed(strconv.Itoa(id), `"made"`))
		}
		for _, a := range announcements {
			if a.onlyStdio && s.isRun() {
				continue
			}
			text := a.printed(s, strconv.Itoa(id))
			play(a.name, "announce", text, text+"\n", progress, announced(strconv.Itoa(id)))
		}
		finish(t, s, c, "3")
		got, err := c.AwaitStderrEnd()
		require.NoError(t, err)
		if s.sdk == trpc {
			got = lateNewline.ReplaceAllString(got, "")
		}
		requireText(t, stderr+"goodbye\n", got, "on stderr")
	})
}

// With 2>&1 there is nowhere for it to turn up.
func TestNoiseWhereStderrIsStdout(t *testing.T) {
	eachKind(t, ownsStreams, func(t *testing.T, s *server) {
		c := startAs(t, s, drive.Conf{Merged: true}, "", "-goodbye")
		id := 100
		for _, n := range noisesOf(s) {
			if n.direct {
				continue // beyond the guard
			}
			t.Log(n.how)
			c.SendString(drive.CallText(strconv.Itoa(id), "noise", n.how) + "\n")
			expect(t, s, c, false, echoed(strconv.Itoa(id), `"made"`))
			id++
		}
		finish(t, s, c, "3")
	})
}

// Shows that the driver sees what gets between the messages.
func TestBareNoiseReachesTheClient(t *testing.T) {
	eachOf(t, bareServers, func(t *testing.T, s *server) {
		c := start(t, s, "")
		c.SendString(drive.CallText("2", "noise", "fmt.Println") + "\n")
		line, err := c.Next()
		require.NoError(t, err)
		require.Equal(t, "printed", line)
	})
}

// agent-deck#1329 among others: each answer is on a line of its own, whatever is
// printed and refused meanwhile.
func TestNoiseAndBadLinesAmongManyRequests(t *testing.T) {
	ways := []string{"fmt.Println", "fmt.Print", "a JSON log", "null", "the beginning of JSON", "fmt.Print"}
	eachKind(t, ownsStreams, func(t *testing.T, s *server) {
		var input strings.Builder
		input.WriteString(handshake)
		want := []answer{initialized()}
		for i := range 500 {
			id := strconv.Itoa(1000 + i)
			input.WriteString(drive.ListTools(id) + "\n")
			want = append(want, tools(id))
			if i%5 < 2 {
				input.WriteString("not json\n")
				want = append(want, parseError("null"))
			}
			if i%10 == 0 {
				id, way := strconv.Itoa(5000+i), ways[i/10%len(ways)]
				if i%100 == 0 {
					way = "1 MiB"
				}
				input.WriteString(drive.CallText(id, "noise", way) + "\n")
				want = append(want, echoed(id, `"made"`))
			}
		}
		e, err := oneShot(s, input.String())
		require.NoError(t, err)
		requireEnd(t, s, e, want...)
	})
}

// equipa#32: a stderr that is full.
func TestNobodyReadsStderr(t *testing.T) {
	eachKind(t, ownsStreams, func(t *testing.T, s *server) {
		c := startAs(t, s, drive.Conf{StderrUnread: true}, "")
		c.SendString(drive.CallText("2", "noise", "1 MiB") + "\n")
		if s.isRun() { // the guard takes it
			expect(t, s, c, false, echoed("2", `"made"`))
			finish(t, s, c, "3")
			return
		}
		// The noise has begun, and is more than any stream takes. The handler that
		// makes it waits; the others do not.
		first, err := c.ReadStderr(1)
		require.NoError(t, err)
		require.Equal(t, "0", first)
		for i := range 10 {
			id := strconv.Itoa(100 + i)
			c.SendString(drive.ListTools(id) + "\n")
			expect(t, s, c, false, tools(id))
		}
		assert.True(t, c.Alive(), "the process has ended")
	})
}
