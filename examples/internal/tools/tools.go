// Package tools holds the tools that the example servers have in common, so that
// each server shows its SDK and the guard and little else.
package tools

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"time"
)

var takes = flag.Duration("takes", 300*time.Millisecond, "how long the tools slow and deaf take")

// A Tool takes a text, which most do not need, and returns one.
type Tool struct {
	Name, Description string
	Call              func(ctx context.Context, text string) (string, error)
}

// All are the tools that need nothing of an SDK. Most tell apart how servers end:
// what they do when their context ends first.
var All = []Tool{
	{"echo", "returns its text", echo},
	{"slow", "takes a while, and gives up with its context", slow},
	{"deaf", "takes a while, whatever becomes of its context", deaf},
	{"hang", "waits for the end of its context", hang},
	{"stuck", "never returns", stuck},
	{"goroutines", "tells how many goroutines run", goroutines},
	{"noise", "disturbs the protocol in the way that its text says", noise},
}

func goroutines(context.Context, string) (string, error) {
	return strconv.Itoa(runtime.NumGoroutine()), nil
}

func echo(_ context.Context, text string) (string, error) { return text, nil }

func slow(ctx context.Context, _ string) (string, error) {
	select {
	case <-time.After(*takes):
		return "done", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func deaf(context.Context, string) (string, error) {
	time.Sleep(*takes)
	return "done", nil
}

func hang(ctx context.Context, _ string) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func stuck(context.Context, string) (string, error) { select {} }
