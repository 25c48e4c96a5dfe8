//go:build unix

package guardtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard/guardtest"
)

func init() {
	// It is a wrapper that has left its child behind, which holds all its streams.
	servers["leaves a child"] = func() {
		child := exec.Command("sleep", "600")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		os.Exit(5)
	}
	// It has left its process group.
	servers["moves to another group"] = func() {
		group, err := syscall.Getpgid(os.Getppid())
		if err == nil {
			err = syscall.Setpgid(0, group)
		}
		if err != nil {
			panic(err)
		}
		servers["ignores the end of input"]()
	}
	// What it wraps ignores the end of input.
	servers["wraps a server"] = func() {
		cmd := server("ignores the end of input")()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			os.Exit(1)
		}
	}
}

func TestNoChildOfTheServersIsLeft(t *testing.T) {
	for _, r := range []struct {
		server string
		err    string
		opts   []guardtest.Option
	}{
		{server: "leaves a child", err: "guardtest: the server ended before it answered initialize\n" +
			`sent:     {"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVersion":… (158 bytes)` + "\n" +
			"expected: an answer to initialize, id 1000\n" +
			"came:     the end of its output; exit status 5"},
		{server: "wraps a server", opts: only("control")},
		{server: "moves to another group", opts: only("control")},
	} {
		t.Run(r.server, func(t *testing.T) {
			var started []*exec.Cmd
			newCmd := func() *exec.Cmd {
				cmd := server(r.server)()
				started = append(started, cmd)
				return cmd
			}
			_, err := guardtest.Run(t.Context(), newCmd, append(r.opts, guardtest.WithTimeout(time.Minute))...)
			if r.err != "" {
				require.EqualError(t, err, r.err)
			} else {
				require.NoError(t, err)
			}
			require.NotEmpty(t, started)
			for _, cmd := range started {
				requireGroupGone(t, cmd.Process.Pid)
			}
		})
	}
}

func requireGroupGone(t *testing.T, group int) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if alive := inGroup(group); len(alive) == 0 {
			return
		} else if time.Now().After(late) {
			require.Fail(t, fmt.Sprintf("processes of the group are left: %v", alive))
		}
	}
}

// inGroup returns the processes of a group that run.
func inGroup(group int) []string {
	out, err := exec.Command("ps", "-A", "-o", "pgid=,stat=,pid=").Output()
	if err != nil { // no ps: the group must be gone, and those that nobody has waited for with it
		if syscall.Kill(-group, 0) == nil {
			return []string{fmt.Sprint("group ", group)}
		}
		return nil
	}
	var alive []string
	for p := range strings.Lines(string(out)) {
		var pgid, pid int
		var state string
		if n, _ := fmt.Sscan(p, &pgid, &state, &pid); n == 3 && pgid == group && state[0] != 'Z' {
			alive = append(alive, p)
		}
	}
	return alive
}
