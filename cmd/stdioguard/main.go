// Stdioguard starts an MCP server, or any other program that speaks JSON-RPC in lines
// over its standard streams, and guards both of them. The program may be written in
// any language; nothing in it changes.
//
//	stdioguard [flags] -- CMD ARG…
//	stdioguard probe [flags] -- CMD ARG…
//	stdioguard version
//
// In the configuration of an MCP client it stands before the server's own command:
//
//	{
//	  "mcpServers": {
//	    "files": {
//	      "command": "stdioguard",
//	      "args": ["--", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/me"]
//	    }
//	  }
//	}
//
// What the client sends reaches the server as whole, valid messages, one a line. A bad
// line is dropped and answered with an error, and the session goes on. What the server
// prints reaches the client as whole messages; anything else becomes a line on standard
// error, where the server's own standard error goes too, untouched; where that is the
// client as well (2>&1), both go nowhere. The rules are those of package
// [github.com/stdioguard/stdioguard].
//
// Probe plays the battery of package [github.com/stdioguard/stdioguard/guardtest] at a
// server twice, as it is and behind the guard, and prints a table: the case, what became
// of the bare server, what the guarded one did. It takes the guard's flags too. It exits
// with 1 if the guarded server failed in a case or, with -bare, which leaves the guard
// out, the bare one. A cell says whether the case passed (✓) and what its own input got:
// "served" is a result, "silent" no answer. With -json it prints an object for each case,
// a line each. See stdioguard probe -h for its other flags.
//
// # Flags
//
// Each flag has an environment variable, for a configuration that cannot pass flags:
// STDIOGUARD_ and the flag's name in capitals, with _ for -. A flag wins over it. An
// empty variable counts as not set.
//
//	-line SIZE         the longest line from the client (8MiB); servers on the
//	                   TypeScript SDK exit at 10 MiB
//	-depth N           how deeply arrays and objects may nest (512; at most 10000);
//	                   Python's json gives up before 1000
//	-answers HOW       an answer to a line whose id is not known: null, omit or none (null)
//	-recover-ids       find the id of a request that is too long, too deep or not UTF-8,
//	                   so that its caller gets the error (true)
//	-any-json          pass on batches and JSON that is not JSON-RPC 2.0
//	-answer-limit N    error answers in a row, and lines in a row on standard error (256);
//	                   -1 lifts it
//	-pending N         how many requests are waited for at the end (65536); -1: none
//	-held SIZE         the longest beginning of a message from the server that is held
//	                   until the rest comes (64MiB)
//	-drain TIME        how long answers may take after the client's end of input (30s)
//	-grace TIME        how long the server may take to exit, once its input was closed,
//	                   and again after SIGTERM (5s); 0: each at once
//	-log LEVEL         what is said on standard error: debug, info, warn, error or off (warn)
//
// A SIZE is a whole number of bytes, or has a unit: k, M, G or KiB, MiB, GiB for powers
// of 1024, kB, MB, GB for powers of 1000, in capitals or not. A TIME is written as Go
// does it: 500ms, 30s, 1m30s, 0.
//
// # The end
//
// It follows the shutdown of MCP (2025-06-18, Lifecycle). When the client closes its end, the
// requests in flight may still be answered, for the time of -drain. Then the server's
// input is closed; if it has not exited after -grace it gets SIGTERM, and after -grace
// again SIGKILL. (Windows has no SIGTERM.) What it writes is passed on until it closes
// its output, which a program that it leaves behind can delay by a second at most; what
// a client that is slow has not read by then is waited for. Input that the server does
// not take, or answers that the client does not, hold up the end by -drain and -grace
// at most.
//
// SIGINT, SIGTERM and SIGHUP end the input in the same way. A second one, or one that
// comes when the server's input is closed already, goes on to the next step at once. A
// client that no longer reads ends the session without the wait for answers.
//
// If the command is killed itself, the server's input closes; on Linux the server is
// killed too.
//
// # Exit status
//
// That of the server; 128+n if signal n ended it; 127 if its command was not found, 126
// if it could not be executed; 125 if the standard streams could not be taken; 2 for
// wrong usage.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

func main() { os.Exit(run(os.Args[1:])) }

// What the command exits with by itself: as flag, sh and env have it.
const (
	exitUsage      = 2
	exitNoStreams  = 125
	exitCannotRun  = 126
	exitNotFound   = 127
	exitSignalBase = 128
)

// A subcommand is asked for by the first argument; without one, a command is wrapped.
type subcommand struct {
	name string
	run  func(args []string) (status int)
}

var subcommands = []subcommand{
	{"probe", probe},
	{"version", version},
	{"-version", version},
	{"--version", version},
	{"help", func([]string) int { return wrap([]string{"-h"}) }},
}

func run(args []string) (status int) {
	for _, c := range subcommands {
		if len(args) > 0 && args[0] == c.name {
			return c.run(args[1:])
		}
	}
	return wrap(args)
}

// failUsage says what is wrong with the command line or the environment.
func failUsage(err error) (status int) {
	fmt.Fprintf(os.Stderr, "stdioguard: %v\n", err)
	return exitUsage
}

// module is the path that this module has in the build information.
const module = "github.com/stdioguard/stdioguard"

func version(args []string) (status int) {
	if len(args) > 0 {
		return failUsage(errors.New("version takes no arguments; to run a command of that name: stdioguard -- version …"))
	}
	fmt.Printf("stdioguard %s %s %s/%s\n", moduleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return 0
}

// moduleVersion is the version of this module, which need not be the main one: go run
// and go tool build the command as a dependency.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}
