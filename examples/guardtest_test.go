package examples_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stdioguard/stdioguard/guardtest"
	"github.com/stretchr/testify/require"
)

// command returns what starts the server, for a battery that has streams of its own.
func (s *server) command() *exec.Cmd {
	program := filepath.Join(programs, s.program)
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	return exec.Command(program, "-guard="+s.guard, lastingDrain)
}

func TestGuardedServersPassTheBattery(t *testing.T) {
	eachOf(t, []*server{onGoSDK, onMCPGo, onJRPC2, runTRPC}, func(t *testing.T, s *server) {
		guardtest.Test(t, s.command, guardtest.WithTimeout(wait))
	})
}

// Shows that the battery can tell a session that is over from one that goes on.
func TestBareGoSDKFailsTheBattery(t *testing.T) {
	report, err := guardtest.Run(t.Context(), bareServers[0].command)
	require.NoError(t, err)
	require.Equal(t, "2025-11-25", report.Revision)
	cases := guardtest.Cases()
	require.Len(t, report.Results, len(cases))
	results := make(map[string]guardtest.Result)
	for i, r := range report.Results {
		require.Equal(t, cases[i].Name, r.Name)
		require.Equal(t, r.Status == guardtest.Failed, r.Failure != nil, "%s: %v", r.Name, r.Failure)
		results[r.Name] = r
	}
	for _, name := range []string{
		"bom", "bom-alone", "bom-first", "trailing-space", "not-json", "not-json-then-request", "bad-object", "truncated",
		"scalar", "null-batch", "array", "batch", "empty-obj", "no-jsonrpc", "method-id", "method-batch",
		"error-id-null", "depth-1001", "overcap", "overcap-text", "endless-line", "storm",
	} {
		require.Equal(t, guardtest.Failed, results[name].Status, "go-sdk has been mended? %s got: %s", name, results[name].Answer)
	}
	for _, name := range []string{
		"control", "unknown-method", "notification", "crlf", "blank", "line-separator", "id-zero", "id-large", "depth-256",
		"blank-first", "eof-idle", "hang-up",
	} {
		require.Equal(t, guardtest.Passed, results[name].Status, "%s: %s", name, results[name].Failure)
	}
	failure := *results["not-json"].Failure
	require.Contains(t, failure.Stderr, "invalid character")
	failure.Stderr = ""
	require.Equal(t, guardtest.Failure{
		Sent: `not json\n`, Expected: "an answer to tools/list, id 1001", Came: "the end of its output; exit status 1",
	}, failure)
}
