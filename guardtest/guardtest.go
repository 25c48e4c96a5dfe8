// Package guardtest tells whether an MCP server on standard input and output
// survives what real clients, logs and shells do to it. It plays a battery of bad
// and odd inputs at the server, a fresh child process for each, in any language.
//
// In a server's own tests:
//
//	func TestStdio(t *testing.T) {
//		guardtest.Test(t, func() *exec.Cmd { return exec.Command("./server") })
//	}
//
// Each case is a parallel subtest, named as [Cases] lists them. [Run] does the same
// outside a test and returns a [Report].
//
// A case sends its bytes and then a request that any server can answer, the probe:
// tools/list, unless [WithProbe] names another. The case passes where the probe is
// answered, the process lives, and every line of its standard output is one JSON-RPC
// 2.0 message; what the server prints each time it starts counts in the case control
// alone. What is a valid request in all that is sent has to be answered too.
// Whether a bad line is answered is shown in [Result.Answer] and judged in one way
// only: an answer must not carry the id of another request. Some cases end the input
// or hang up, and the server has to exit; one sends an endless line and looks at the
// memory that the server takes.
//
// The server may speak a revision of MCP that begins with initialize, or 2026-07-28,
// which has none: which it is, is found out by asking before the first case. A server
// that does not get that far is one error, which says what it did instead.
//
// The server is killed with its process group after each case, on systems that have
// groups; elsewhere with its own process alone. Its standard error is read and, where a
// case fails, the end of it is shown. A line of its output may have 64 MiB, and it may
// make a thousand requests in a case, which are answered as a client does that has no
// capabilities.
//
// A server built with the race detector takes several times the memory: skip the case
// endless-line for it.
package guardtest

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Test plays the battery at the server that newCmd starts, each case in a parallel
// subtest. A server that never completes the handshake fails t once.
//
// newCmd returns a new command each time, which nothing has been started with: with
// its Path, Args, Dir and Env as the server needs them, and its streams unset. It is
// called by several goroutines at once.
func Test(t *testing.T, newCmd func() *exec.Cmd, opts ...Option) {
	t.Helper()
	b := newBench(newCmd, opts)
	if err := b.findOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the server speaks MCP %s", b.lang.revision)
	for _, c := range battery() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r := b.judge(t.Context(), c)
			for _, note := range r.Notes {
				t.Logf("note: %s", note)
			}
			switch r.Status {
			case Failed:
				t.Errorf("%s (%s)\n%s", c.What, c.Source, r.Failure)
			case Skipped:
				t.SkipNow()
			default:
				t.Logf("answer: %s", r.Answer)
			}
		})
	}
}

// Run plays the battery at the server that newCmd starts, as [Test] does, 2 x
// GOMAXPROCS cases at a time. The error says that the server never completed the
// handshake, that newCmd does not do as it should, or that ctx is done; a case that
// fails is no error. No process and no goroutine is left when Run returns.
func Run(ctx context.Context, newCmd func() *exec.Cmd, opts ...Option) (*Report, error) {
	b := newBench(newCmd, opts)
	if err := b.findOut(ctx); err != nil {
		return nil, err
	}
	cases := battery()
	report := &Report{Revision: b.lang.revision, Results: make([]Result, len(cases))}
	atOnce := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, c := range cases {
		atOnce <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-atOnce }()
			report.Results[i] = b.judge(ctx, c)
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("guardtest: %w", context.Cause(ctx))
	}
	return report, nil
}

// A Report is what came of the battery.
type Report struct {
	// Revision is the one of MCP that the server speaks: what it answered to
	// initialize, or 2026-07-28 if it serves without.
	Revision string `json:"revision"`
	// Results are in the order of [Cases].
	Results []Result `json:"results"`
}

// Failed returns the results of the cases that failed, in the order of [Cases].
func (r *Report) Failed() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(r Result) bool { return r.Status != Failed })
}

// A Result is what came of one case.
type Result struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Status Status `json:"status"`

	// Answer is what the case's own input got: "-32700, id null", "served",
	// "silent", or how the process ended where the case is about that.
	Answer string `json:"answer,omitempty"`

	// Failure is nil unless the case failed.
	Failure *Failure `json:"failure,omitempty"`

	// Notes tell what is no failure and still good to know: that an answer upsets
	// certain clients, or why the case was skipped.
	Notes []string `json:"notes,omitempty"`

	Took time.Duration `json:"took"` // in JSON: nanoseconds
}

// A Failure says why a case failed, in lines that fit a screen of 100 columns.
type Failure struct {
	Sent     string `json:"sent,omitempty"` // empty if the server could not be started
	Expected string `json:"expected"`
	Came     string `json:"came"`
	Stderr   string `json:"stderr,omitempty"` // the last lines of the server's standard error
}

// String returns a line for each of the texts, and for each line of Stderr.
func (f *Failure) String() string {
	var b strings.Builder
	for _, part := range []struct{ label, text string }{
		{"sent:", f.Sent}, {"expected:", f.Expected}, {"came:", f.Came}, {"stderr:", f.Stderr},
	} {
		for line := range strings.Lines(part.text) {
			fmt.Fprintf(&b, "%-10s%s\n", part.label, strings.TrimSuffix(line, "\n"))
			part.label = ""
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Status is what became of a case. Its zero value is none of the constants.
type Status int

const (
	Passed Status = iota + 1
	Failed
	Skipped
)

var statusNames = [...]string{Passed: "passed", Failed: "failed", Skipped: "skipped"}

// String returns "passed", "failed" or "skipped".
func (s Status) String() string {
	if s < Passed || s > Skipped {
		return fmt.Sprintf("Status(%d)", int(s))
	}
	return statusNames[s]
}

// MarshalText returns what String does, and an error for a value that is none of the
// constants.
func (s Status) MarshalText() ([]byte, error) {
	if s < Passed || s > Skipped {
		return nil, fmt.Errorf("guardtest: no such status: %d", int(s))
	}
	return []byte(statusNames[s]), nil
}

// UnmarshalText reads what MarshalText returns.
func (s *Status) UnmarshalText(text []byte) error {
	i := slices.Index(statusNames[:], string(text))
	if i < int(Passed) {
		return fmt.Errorf("guardtest: no such status: %q", text)
	}
	*s = Status(i)
	return nil
}

// An Option changes how the battery is played.
type Option func(*config)

type config struct {
	skip     map[string]string // reasons by the names of cases
	probe    probe
	timeout  time.Duration
	env      []string
	progress func(Result)
}

const defaultTimeout = 10 * time.Second

// WithSkip skips the case with that name, and says why. It panics if there is no such
// case, and if no reason is given.
func WithSkip(name, reason string) Option {
	if !slices.ContainsFunc(battery(), func(c Case) bool { return c.Name == name }) {
		panic(fmt.Sprintf("guardtest: WithSkip(%q): no such case", name))
	}
	if reason == "" {
		panic(fmt.Sprintf("guardtest: WithSkip(%q) without a reason", name))
	}
	return func(c *config) { c.skip[name] = reason }
}

// WithProbe sets the request that is sent after each case and has to be answered, be
// it with an error: for a server that does not know tools/list, or one that takes long
// for it. params is a JSON object; the revision's own _meta is added to it. Default:
// tools/list with {}. It panics if params is no object.
func WithProbe(method, params string) Option {
	p, err := newProbe(method, params)
	if err != nil {
		panic(fmt.Sprintf("guardtest: WithProbe(%q, %q): %v", method, params, err))
	}
	return func(c *config) { c.probe = p }
}

// WithTimeout sets how long each wait may take: for an answer, for an exit, and for
// the server to take what is sent. A server that does all it should is never waited for
// so long. Default: 10 s. It panics unless d is positive.
func WithTimeout(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("guardtest: WithTimeout(%v), want more than 0", d))
	}
	return func(c *config) { c.timeout = d }
}

// WithEnv adds variables, each in the form "name=value", to the server's environment:
// to the Env of newCmd's command or, where that is nil, to this process's own.
func WithEnv(env ...string) Option { return func(c *config) { c.env = append(c.env, env...) } }

// WithProgress calls f as each case ends, in whatever order they do, one call at a time.
func WithProgress(f func(Result)) Option { return func(c *config) { c.progress = f } }

// A bench plays cases at one server.
type bench struct {
	config
	newCmd func() *exec.Cmd
	lang   language        // what findOut found out
	noise  map[string]bool // the lines that it printed then, and that are no message

	mu sync.Mutex // held for a call of progress
}

func newBench(newCmd func() *exec.Cmd, opts []Option) *bench {
	if newCmd == nil {
		panic("guardtest: newCmd is nil")
	}
	probe, _ := newProbe("tools/list", "{}")
	b := &bench{newCmd: newCmd, config: config{skip: make(map[string]string), probe: probe, timeout: defaultTimeout}}
	for _, o := range opts {
		o(&b.config)
	}
	return b
}

// judge plays a case.
func (b *bench) judge(ctx context.Context, c Case) Result {
	begin := time.Now()
	r := Result{Name: c.Name, Source: c.Source}
	if reason := b.skipped(c); reason != "" {
		r.Status, r.Notes = Skipped, []string{reason}
	} else {
		b.play(ctx, c, &r)
	}
	r.Took = time.Since(begin)
	if b.progress != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.progress(r)
	}
	return r
}

func (b *bench) skipped(c Case) string {
	if reason := b.skip[c.Name]; reason != "" {
		return reason
	}
	if c.measures && !tellsMemory {
		return "how much memory another process takes is known on Linux only"
	}
	return ""
}

func (b *bench) play(ctx context.Context, c Case, r *Result) {
	t, err := b.begin(ctx, c, b.lang)
	if err != nil {
		r.Status, r.Failure = Failed, &Failure{Expected: "a running server", Came: err.Error()}
		return
	}
	play := c.play
	if play == nil {
		play = survive
	}
	play(t)
	t.end()
	r.Status, r.Answer, r.Failure, r.Notes = Passed, t.answer(), t.failure, t.notes
	if r.Failure != nil {
		r.Status = Failed
	}
}
