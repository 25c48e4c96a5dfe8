// Command demo plays bad lines at a real MCP server on the official Go SDK, once
// without the guard and once with it, and prints what became of each session:
//
//	go run -C examples ./demo
//
// It exits with status 1 if a guarded session ended or an answer was not the one
// that it should be.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
)

const (
	// A bare server that has not answered by then will not: it waits for more.
	bareWait = 2 * time.Second
	// Only a guard that fails is waited for so long.
	guardedWait = 30 * time.Second
)

// A badLine is what a client sends, and what it should get: the guard's answer,
// else the server's.
type badLine struct {
	what, line string
	answer     string
	served     bool
}

const (
	ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	pong = `{"jsonrpc":"2.0","id":2,"result":{}}`
)

func badLines() []badLine {
	rejected := drive.ParseError("null")
	return []badLine{
		{what: "a log line", line: "INFO ready", answer: rejected},
		{what: "a BOM", line: "\ufeff" + ping, answer: pong, served: true},
		{what: "a BOM alone", line: "\ufeff"},
		{what: "a trailing space", line: ping + " ", answer: pong, served: true},
		{what: "an empty object", line: "{}", answer: drive.InvalidRequest("null")},
		{what: "a batch", line: "[" + ping + "]", answer: drive.InvalidRequest("null")},
		{what: "no jsonrpc", line: `{"id":2,"method":"ping"}`, answer: drive.InvalidRequest("2")},
		{what: "an id of 1.5", line: strings.Replace(ping, "2,", "1.5,", 1), answer: drive.InvalidRequest("1.5")},
		{what: "broken off", line: `{"jsonrpc":"2.0","id":2,"method":`, answer: rejected},
		{what: "two on a line", line: ping + ping, answer: rejected},
		{what: "1001 deep", line: strings.TrimSuffix(ping, "}") + `,"params":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}", answer: rejected},
		{what: "17 MiB", line: strings.TrimSuffix(ping, "}") + `,"params":{"a":"` + strings.Repeat("a", 17<<20) + `"}}`, answer: rejected},
	}
}

// An outcome is what became of one session.
type outcome struct {
	text string
	good bool
}

func main() {
	log.SetFlags(0)
	ok, err := run()
	if err != nil {
		log.Fatal(err)
	}
	if !ok {
		os.Exit(1)
	}
}

func run() (ok bool, err error) {
	dir, err := os.MkdirTemp("", "stdioguard-demo-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := drive.Build(dir, "./gosdk"); err != nil {
		return false, fmt.Errorf("%w\n(run it as: go run -C examples ./demo)", err)
	}

	lines := badLines()
	bare, guarded := make([]outcome, len(lines)), make([]outcome, len(lines))
	var all sync.WaitGroup
	for i, b := range lines {
		all.Go(func() { bare[i] = playBare(dir, b) })
		all.Go(func() { guarded[i] = playGuarded(dir, b) })
	}
	all.Wait()
	return show(lines, bare, guarded), nil
}

// playBare shows whether the session outlives the line: is tools/list answered?
func playBare(dir string, b badLine) outcome {
	c, err := open(dir, bareWait, "-guard=off")
	if err != nil {
		return outcome{text: err.Error()}
	}
	defer c.Stop()
	c.SendString(b.line + "\n" + drive.ListTools("3") + "\n")
	lines, err := c.AwaitResult("3")
	switch {
	case errors.Is(err, io.EOF):
		return outcome{text: "session dead"}
	case errors.Is(err, context.DeadlineExceeded):
		return outcome{text: "no answer in " + bareWait.String()}
	case err != nil:
		return outcome{text: err.Error()}
	case len(lines) > 1:
		return outcome{text: "goes on, but " + abridge(lines[0]), good: true}
	}
	return outcome{text: "goes on", good: true}
}

// playGuarded expects the line's answer, then one to tools/list, then nothing.
func playGuarded(dir string, b badLine) outcome {
	c, err := open(dir, guardedWait)
	if err != nil {
		return outcome{text: err.Error()}
	}
	defer c.Stop()
	c.SendString(b.line + "\n")
	if b.answer != "" {
		got, err := c.Next()
		if err != nil || got != b.answer {
			return outcome{text: fmt.Sprintf("WRONG: %s %v", abridge(got), err)}
		}
	}
	c.SendString(drive.ListTools("3") + "\n")
	before, err := c.AwaitResult("3")
	if err != nil {
		return outcome{text: fmt.Sprintf("WRONG: no tools/list: %v", err)}
	}
	c.CloseStdin()
	after, err := c.Rest()
	switch {
	case err != nil:
		return outcome{text: fmt.Sprintf("WRONG: at the end: %v", err)}
	case len(before)+len(after) != 1:
		return outcome{text: "WRONG: also " + abridge(append(before, after...)[0])}
	case b.served:
		return outcome{"served", true}
	case b.answer == "":
		return outcome{"skipped", true}
	}
	return outcome{b.answer, true}
}

func open(dir string, wait time.Duration, args ...string) (*drive.Child, error) {
	// The handshake is given time, so that a busy machine is no dead server.
	c, err := drive.Start(guardedWait, dir, "gosdk", args...)
	if err != nil {
		return nil, err
	}
	if err := c.Handshake(""); err != nil {
		return nil, errors.Join(err, errors.New(c.Stop()))
	}
	c.Wait = wait
	return c, nil
}

func show(lines []badLine, bare, guarded []outcome) (ok bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "A CLIENT SENDS\t\tBARE\tGUARDED")
	for i, b := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", b.what, abridge(b.line), bare[i].text, guarded[i].text)
	}
	w.Flush()
	alive, total := count(guarded), len(lines)
	fmt.Printf("\nbare %d of %d alive, guarded %d of %d\n", count(bare), total, alive, total)
	return alive == total
}

func count(outcomes []outcome) int {
	return len(slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return !o.good }))
}

// abridge makes a line printable, with what is special about it at either end.
func abridge(line string) string {
	const most, end = 44, 14
	if len(line) > most {
		line = line[:most-end] + "…" + line[len(line)-end:]
	}
	quoted := strconv.QuoteToASCII(line)
	return strings.NewReplacer(`\"`, `"`, `\u2026`, "…").Replace(quoted[1 : len(quoted)-1])
}
