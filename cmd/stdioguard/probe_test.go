package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard/guardtest"
)

// serveMCP is a server that exits on what is not JSON, and answers any request.
func serveMCP() (status int) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 128<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return 3
		}
		if m.ID != nil && m.Method != "" {
			_, err := fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","tools":[]}}`+"\n", m.ID)
			if err != nil {
				return 1 // where SIGPIPE does not end it
			}
		}
	}
	return 0
}

// long are the cases that need a server without limits to read much.
var long = []string{"-skip=overcap,overcap-text,endless-line", "-skip", "flood", "-skip", "depth-100000"}

// runProbe runs probe to its end, and returns its output's lines.
func runProbe(t *testing.T, flags ...string) (status int, lines []string, log string) {
	t.Helper()
	args := append(append(append([]string{"probe"}, flags...), long...), "--")
	c := setup{args: append(args, serve("mcp")...)}.start(t)
	c.in.Close()
	c.await(c.exited, "exit")
	for _, ended := range c.ended {
		c.await(ended, "the end of its output")
	}
	return c.cmd.ProcessState.ExitCode(), strings.Split(strings.TrimSuffix(c.out.String(), "\n"), "\n"), c.log.String()
}

func TestProbePrintsATable(t *testing.T) {
	t.Parallel()
	status, lines, log := runProbe(t, "-answers", "none")
	assert.Zero(t, status, "the guarded server passes")
	assert.Empty(t, log, "no progress is shown where there is no terminal")
	cases := len(guardtest.Cases())
	require.Greater(t, len(lines), cases+2)
	for i, want := range map[int]string{
		0: "case                   bare, MCP 2025-11-25                             guarded, MCP 2025-11-25",
		1: "control                ✓ served                                         ✓ served",
	} {
		assert.Equal(t, want, lines[i])
	}
	for i, c := range guardtest.Cases() {
		assert.True(t, strings.HasPrefix(lines[i+1], c.Name+" "), "%s is the row of %s", lines[i+1], c.Name)
	}
	for _, want := range []string{
		"not-json               ✗ the end of its output; exit status 3           ✓ silent",
		"overcap                - skipped                                        - skipped",
		"note: overcap was skipped: -skip",
	} {
		assert.Contains(t, lines, want)
	}
	var bare, guarded int
	played := cases - 5
	last := fmt.Sprintf("bare: %%d of %d passed, 5 skipped; guarded: %%d of %d passed, 5 skipped", played, played)
	_, err := fmt.Sscanf(lines[len(lines)-1], last, &bare, &guarded)
	require.NoError(t, err, lines[len(lines)-1])
	assert.Equal(t, played, guarded)
	assert.Less(t, bare, played-10)
}

func TestProbeOfTheCommandAsItIs(t *testing.T) {
	t.Parallel()
	status, lines, log := runProbe(t, "-bare")
	assert.Equal(t, 1, status)
	assert.Empty(t, log)
	assert.Equal(t, "case                   bare, MCP 2025-11-25", lines[0])
	assert.Contains(t, lines, "not-json               ✗ the end of its output; exit status 3")
	at := slices.Index(lines, "not-json failed")
	require.Positive(t, at, "how each case failed stands below the table")
	assert.Equal(t, []string{
		"A line that is not JSON. (report against the stdio server of effect 4.0.0-rc.117; sem#168)",
		`sent:     not json\n`,
		"expected: an answer to tools/list, id 1001",
		"came:     the end of its output; exit status 3",
		"",
	}, lines[at+1:at+6])
}

func TestProbeListsTheCases(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for _, c := range guardtest.Cases() {
		fmt.Fprintf(&want, "%-22s %s (%s)\n", c.Name, c.What, c.Source)
	}
	setup{args: []string{"probe", "-list"}}.start(t).ends(0, want.String(), "")
}

func TestProbeForAProgram(t *testing.T) {
	t.Parallel()
	status, lines, log := runProbe(t, "-json")
	assert.Zero(t, status)
	assert.Empty(t, log)
	require.Len(t, lines, len(guardtest.Cases()))
	for i, c := range guardtest.Cases() {
		var entry struct {
			Case, Source  string
			Bare, Guarded *guardtest.Result
		}
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &entry), lines[i])
		assert.Equal(t, []string{c.Name, c.Source}, []string{entry.Case, entry.Source})
		assert.NotEqual(t, guardtest.Failed, entry.Guarded.Status, lines[i])
		if c.Name == "not-json" {
			assert.Equal(t, guardtest.Failed, entry.Bare.Status)
			assert.Equal(t, &guardtest.Failure{
				Sent: `not json\n`, Expected: "an answer to tools/list, id 1001", Came: "the end of its output; exit status 3",
			}, entry.Bare.Failure)
			assert.Equal(t, "-32700, id null", entry.Guarded.Answer)
		}
	}
}

func TestWhatCannotBeProbed(t *testing.T) {
	const more = "stdioguard -h and stdioguard probe -h print the usage\n"
	ends := serve("ends")
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		log    string
	}{
		{"a case that there is not", []string{"-skip", "everything", "--", "x"}, 2,
			`stdioguard: invalid value "everything" for flag -skip: there is no case "everything"; stdioguard probe -list prints them` + "\n" + more},
		{"params that are no object", []string{"-params", "[", "--", "x"}, 2,
			`stdioguard: invalid value "[" for flag -params: want a JSON object, such as {"cursor":"x"}` + "\n" + more},
		{"no time at all", []string{"-timeout", "0", "--", "x"}, 2,
			`stdioguard: invalid value "0" for flag -timeout: want a time such as 500ms, 10s or 1m30s` + "\n" + more},
		{"a program that there is not", []string{"--", "no-such-command"}, 127,
			`stdioguard: bare: exec: "no-such-command": ` + exec.ErrNotFound.Error() + "\n"},
		{"a server that ends", append([]string{"--"}, ends...), 1, "stdioguard: bare: the server ended before it answered initialize\n" +
			`sent:     {"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVersion":… (158 bytes)` + "\n" +
			"expected: an answer to initialize, id 1000\n" +
			"came:     the end of its output; exit status 7\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			setup{args: append([]string{"probe"}, tt.args...)}.start(t).ends(tt.status, "", tt.log)
		})
	}
}

// What only a terminal gets, by hand: there is no terminal in a test.
func TestTheTableOnATerminal(t *testing.T) {
	results := func(r guardtest.Result) *guardtest.Report {
		return &guardtest.Report{Revision: "2025-11-25", Results: []guardtest.Result{r}}
	}
	tab := table{columns: []column{
		{"bare", results(guardtest.Result{Name: "bom", Status: guardtest.Failed, Failure: &guardtest.Failure{Came: "the end of its output"}})},
		{"guarded", results(guardtest.Result{Name: "bom", Status: guardtest.Passed, Answer: "served", Notes: []string{"well"}})},
	}}
	var out strings.Builder
	tab.print(&out, screen{width: 40, colour: true})
	assert.Equal(t, "case  \x1b[1mbare, MCP 2025-…\x1b[0m  \x1b[1mguarded, MCP 20…\x1b[0m\n"+
		"bom   \x1b[31m✗ the end of it…\x1b[0m  \x1b[32m✓ served        \x1b[0m\n"+
		"\nnote: well\n"+
		"\x1b[1mbare: 0 of 1 passed; guarded: 1 of 1 passed\x1b[0m\n", out.String())

	var line strings.Builder
	p := &progress{&line, 20}
	p.show("bare: %d of %d cases, %s", 3, 96, "control")
	p.end()
	assert.Equal(t, "\r\x1b[Kbare: 3 of 96 case…\r\x1b[K", line.String())
}
