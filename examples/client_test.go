package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/examples/internal/drive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scriptEnv makes a server of this test binary. Its value is what the server
// writes for each message, with %s for that.
const scriptEnv = "STDIOGUARD_TEST_SCRIPT"

// scriptedServer knows one tool, that is called die and does so.
func scriptedServer(format string) int {
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"die","inputSchema":{"type":"object"}}]}`,
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		switch err := json.Unmarshal(lines.Bytes(), &m); {
		case err != nil:
			return 2
		case m.Method == "tools/call":
			return 3
		case m.ID == nil:
			continue
		}
		result, ok := results[m.Method]
		if !ok {
			result = `{}`
		}
		fmt.Printf(format, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
	}
	return 0
}

// What servers write beside their messages.
var scripts = []struct {
	name, format string
	killsBare    bool // a session of go-sdk's client without a guard ends
}{
	{name: "nothing", format: "%s\n"},
	{name: "a log line", format: "INFO ready\n%s\n", killsBare: true},
	{name: "a JSON log line", format: `{"level":"info","msg":"x"}` + "\n%s\n", killsBare: true},
	{name: "a blank line", format: "\n%s\n"},
	{name: "a BOM", format: bom + "%s\n", killsBare: true},
	{name: "CR LF", format: "%s\r\n"},
	{name: "an error with a null id", format: drive.ParseError("null") + "\n%s\n", killsBare: true},
	{name: "all of them", format: bom + "\nINFO ready\r\n" + drive.ParseError("null") + "\r\n \t\r\n" + bom + "%s \r\n", killsBare: true},
}

// connect opens a session of go-sdk's client with a scripted server, through what
// wrap makes of its stdout.
func connect(t *testing.T, kind drive.Kind, format string, wrap func(io.ReadCloser) io.ReadCloser) (*mcp.ClientSession, *drive.Child, error) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	conf := drive.Conf{Kind: kind, Wait: wait, Dir: filepath.Dir(exe), Env: []string{scriptEnv + "=" + format}}
	c, err := conf.Start(strings.TrimSuffix(filepath.Base(exe), ".exe"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Stop() })
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: wrap(c.Stdout()), Writer: c.Stdin()}, nil)
	return session, c, err
}

func guarded(stdout io.ReadCloser) io.ReadCloser { return stdioguard.New(stdout, nil) }
func bare(stdout io.ReadCloser) io.ReadCloser    { return stdout }

// toolNames lists a server's tools.
func toolNames(t *testing.T, session *mcp.ClientSession) (names []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return names, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func eachScript(t *testing.T, f func(t *testing.T, kind drive.Kind, format string, killsBare bool)) {
	for _, kind := range drive.Kinds {
		for _, s := range scripts {
			t.Run(s.name+" on "+kind.Name, func(t *testing.T) {
				t.Parallel()
				f(t, kind, s.format, s.killsBare)
			})
		}
	}
}

func TestClientOfAPollutedServer(t *testing.T) {
	eachScript(t, func(t *testing.T, kind drive.Kind, format string, _ bool) {
		session, c, err := connect(t, kind, format, guarded)
		require.NoError(t, err)
		for range 3 {
			names, err := toolNames(t, session)
			require.NoError(t, err)
			require.Equal(t, []string{"die"}, names)
		}
		require.NoError(t, session.Close())
		status, err := c.AwaitExit()
		require.NoError(t, err)
		assert.Zero(t, status, "exit status: the client sent what is no message, or its end was not seen")
	})
}

// Shows that the guard is what makes the difference.
func TestBareClientOfAPollutedServer(t *testing.T) {
	eachScript(t, func(t *testing.T, kind drive.Kind, format string, killsBare bool) {
		session, _, err := connect(t, kind, format, bare)
		if err == nil {
			_, err = toolNames(t, session)
		}
		if killsBare {
			require.Error(t, err, "go-sdk has been mended?")
		} else {
			require.NoError(t, err)
		}
	})
}

// The end of a server's stdout is the end of the client's input, with a guard in
// between as without.
func TestDeathOfAServer(t *testing.T) {
	for _, kind := range drive.Kinds {
		for _, r := range []struct {
			name string
			wrap func(io.ReadCloser) io.ReadCloser
		}{{"guarded", guarded}, {"bare", bare}} {
			t.Run(r.name+" on "+kind.Name, func(t *testing.T) {
				session, c, err := connect(t, kind, "%s\n", r.wrap)
				require.NoError(t, err)
				called := make(chan error, 1)
				go func() {
					_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "die"})
					called <- err
				}()
				_, err = c.AwaitExit()
				died := time.Now()
				require.NoError(t, err)
				select {
				case err = <-called:
				case <-time.After(wait):
					require.Fail(t, "the client does not notice")
				}
				t.Logf("noticed within %v", time.Since(died))
				require.Error(t, err)
				require.NoError(t, session.Close())
			})
		}
	}
}

// runClient runs the example.
func runClient(t *testing.T, args []string, env ...string) (stdout string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "client"), args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	err = cmd.Run()
	t.Logf("stderr: %s", errors.String())
	return out.String(), err
}

func TestClientProgram(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	polluted := filepath.Join(programs, "gosdk")
	for _, r := range []struct {
		name, script string
		args         []string
		stdout       string
		fails        bool
	}{
		{name: "lists the tools", script: scripts[len(scripts)-1].format, args: []string{exe}, stdout: "die\n"},
		{name: "dies without its guard", script: scripts[len(scripts)-1].format, args: []string{"-guard=false", exe}, fails: true},
		{name: "calls a tool that prints", args: []string{"-call=noise", "-text=fmt.Println", polluted, "-guard=new"}, stdout: "made\n"},
		{name: "dies of it without its guard", args: []string{"-guard=false", "-call=noise", "-text=fmt.Println", polluted, "-guard=new"}, fails: true},
		{name: "needs no guard where the server has one", args: []string{"-guard=false", "-call=noise", "-text=fmt.Println", polluted}, stdout: "made\n"},
		{name: "notices that the server dies", script: "%s\n", args: []string{"-call=die", exe}, fails: true},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if r.script != "" {
				env = append(env, scriptEnv+"="+r.script)
			}
			stdout, err := runClient(t, r.args, env...)
			assert.Equal(t, r.stdout, stdout)
			if r.fails {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
