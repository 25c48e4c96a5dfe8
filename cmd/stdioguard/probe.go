package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stdioguard/stdioguard/guardtest"
)

// A probeConfig is what the flags and the environment ask of probe, beside what they
// ask of the guard that the server is put behind.
type probeConfig struct {
	config
	json     bool
	bareOnly bool
	timeout  time.Duration
	method   string
	params   object
	skip     skips
	list     bool
}

func (c *probeConfig) flags() *flag.FlagSet {
	f := c.config.flags()
	f.Init("stdioguard probe", flag.ContinueOnError)
	c.timeout, c.method, c.params = 10*time.Second, "tools/list", "{}"
	f.Var((*toggle)(&c.json), "json", "print an object for each case, a line each, in place of the table")
	f.Var((*toggle)(&c.bareOnly), "bare", "probe the command as it is, and not behind the guard: for a server that has its own")
	f.Var((*timeout)(&c.timeout), "timeout", "how long an answer or an exit is waited for, a `TIME`")
	f.StringVar(&c.method, "method", c.method, "the `REQUEST` that is sent after each case and has to be answered")
	f.Var(&c.params, "params", "its params, an `OBJECT`")
	f.Var(&c.skip, "skip", "`CASES` that are not played, with commas between them; may be given more than once")
	f.Var((*toggle)(&c.list), "list", "print the cases, and play none")
	return f
}

// A timeout is a time that is more than nothing.
type timeout time.Duration

func (t *timeout) Set(text string) error {
	var w wait
	if err := w.Set(text); err != nil || w == 0 {
		return errors.New("want a time such as 500ms, 10s or 1m30s")
	}
	*t = timeout(w)
	return nil
}

func (t *timeout) String() string { return time.Duration(*t).String() }

// An object is one in JSON.
type object string

func (o *object) Set(text string) error {
	var members struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &members) != nil {
		return errors.New(`want a JSON object, such as {"cursor":"x"}`)
	}
	*o = object(text)
	return nil
}

func (o *object) String() string { return string(*o) }

// skips are the names of cases.
type skips []string

func (s *skips) Set(names string) error {
	for name := range strings.SplitSeq(names, ",") {
		if !slices.ContainsFunc(guardtest.Cases(), func(c guardtest.Case) bool { return c.Name == name }) {
			return fmt.Errorf("there is no case %q; stdioguard probe -list prints them", name)
		}
		*s = append(*s, name)
	}
	return nil
}

func (s *skips) String() string { return strings.Join(*s, ",") }

// probe plays the battery of package guardtest at a server, bare and behind the guard.
func probe(args []string) (status int) {
	c := new(probeConfig)
	flags := c.flags()
	err := c.parse(flags, args, os.Getenv)
	switch {
	case c.list && (err == nil || errors.Is(err, errNoCommand)):
		for _, c := range guardtest.Cases() {
			fmt.Printf("%-22s %s (%s)\n", c.Name, c.What, c.Source)
		}
		return 0
	case err != nil:
		return explain(err, flags)
	}
	opts := c.battery()
	self, err := os.Executable()
	if err != nil {
		return failUsage(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	t := &table{progress: newProgress(os.Stderr)}
	if err := t.play(ctx, "bare", c.command, opts); err != nil {
		return failProbe(err)
	}
	if !c.bareOnly {
		if err := t.play(ctx, "guarded", behindGuard(self, flags, c.command), opts); err != nil {
			return failProbe(err)
		}
	}
	if c.json {
		t.printJSON(os.Stdout)
	} else {
		t.print(os.Stdout, newScreen(os.Stdout))
	}
	if len(t.columns[len(t.columns)-1].report.Failed()) > 0 {
		return 1
	}
	return 0
}

// failProbe says why there is no table.
func failProbe(err error) (status int) {
	fmt.Fprintf(os.Stderr, "stdioguard: %v\n", err)
	if status := cannotRun(err); status == exitNotFound {
		return status
	}
	return 1
}

// battery returns the options that the battery is played with.
func (c *probeConfig) battery() []guardtest.Option {
	opts := []guardtest.Option{guardtest.WithTimeout(c.timeout), guardtest.WithProbe(c.method, string(c.params))}
	for _, name := range c.skip {
		opts = append(opts, guardtest.WithSkip(name, "-skip"))
	}
	return opts
}

// behindGuard returns the command line that runs command behind the guard, with the
// flags that were given and are the guard's.
func behindGuard(self string, flags *flag.FlagSet, command []string) []string {
	line := []string{self}
	guards := new(config).flags()
	flags.Visit(func(f *flag.Flag) {
		if guards.Lookup(f.Name) != nil {
			line = append(line, "-"+f.Name+"="+f.Value.String())
		}
	})
	return append(append(line, "--"), command...)
}

// A table has a row for each case.
type table struct {
	progress *progress
	columns  []column
}

// A column is what came of the battery, played at one command.
type column struct {
	name   string
	report *guardtest.Report
}

// play adds a column.
func (t *table) play(ctx context.Context, name string, command []string, opts []guardtest.Option) error {
	cases := len(guardtest.Cases())
	played := 0
	opts = append(slices.Clip(opts), guardtest.WithProgress(func(r guardtest.Result) {
		played++
		t.progress.show("%s: %d of %d cases, %s", name, played, cases, r.Name)
	}))
	t.progress.show("%s: starting", name)
	report, err := guardtest.Run(ctx, func() *exec.Cmd { return exec.Command(command[0], command[1:]...) }, opts...)
	t.progress.end()
	if err != nil {
		return &playError{name, err}
	}
	t.columns = append(t.columns, column{name, report})
	return nil
}

// A playError says at which command the battery could not be played.
type playError struct {
	name string
	err  error
}

func (e *playError) Error() string {
	return e.name + ": " + strings.TrimPrefix(e.err.Error(), "guardtest: ")
}

func (e *playError) Unwrap() error { return e.err }

// printJSON prints an object for each case, a line each.
func (t *table) printJSON(w io.Writer) {
	type entry struct {
		Case    string            `json:"case"`
		Source  string            `json:"source"`
		Bare    *guardtest.Result `json:"bare,omitempty"`
		Guarded *guardtest.Result `json:"guarded,omitempty"`
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for i, r := range t.columns[0].report.Results {
		e := entry{Case: r.Name, Source: r.Source}
		for _, c := range t.columns {
			if r := &c.report.Results[i]; c.name == "bare" {
				e.Bare = r
			} else {
				e.Guarded = r
			}
		}
		out.Encode(e)
	}
}

// print prints the table, then how the last column failed, what there is to note, and a
// summary last.
func (t *table) print(w io.Writer, on screen) {
	first := len("case")
	for _, r := range t.columns[0].report.Results {
		first = max(first, len(r.Name))
	}
	width := max((on.width-first)/len(t.columns)-2, 12)
	row := func(name string, cell func(column) (text, colour string)) {
		line := pad(name, first)
		for _, c := range t.columns {
			text, colour := cell(c)
			line += "  " + on.paint(pad(cut(text, width), width), colour)
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	row("case", func(c column) (string, string) { return c.name + ", MCP " + c.report.Revision, bold })
	for i, r := range t.columns[0].report.Results {
		row(r.Name, func(c column) (string, string) { return cell(&c.report.Results[i]) })
	}
	fmt.Fprintln(w)
	whats := make(map[string]string)
	for _, c := range guardtest.Cases() {
		whats[c.Name] = c.What
	}
	for _, r := range t.columns[len(t.columns)-1].report.Failed() {
		fmt.Fprintf(w, "%s\n%s (%s)\n%s\n\n", on.paint(r.Name+" failed", red), whats[r.Name], r.Source, r.Failure)
	}
	for _, note := range t.notes() {
		fmt.Fprintln(w, "note: "+note)
	}
	var sums []string
	for _, c := range t.columns {
		sums = append(sums, c.name+": "+sum(c.report))
	}
	fmt.Fprintln(w, on.paint(strings.Join(sums, "; "), bold))
}

// cell is what a table says of a result.
func cell(r *guardtest.Result) (text, colour string) {
	switch r.Status {
	case guardtest.Failed:
		return "✗ " + r.Failure.Came, red
	case guardtest.Skipped:
		return "- skipped", dim
	}
	return "✓ " + r.Answer, green
}

// notes are those of the last column, each once: the others are about a server that
// nobody will use so.
func (t *table) notes() []string {
	var all []string
	for _, r := range t.columns[len(t.columns)-1].report.Results {
		for _, note := range r.Notes {
			if r.Status == guardtest.Skipped {
				note = r.Name + " was skipped: " + note
			}
			if !slices.Contains(all, note) {
				all = append(all, note)
			}
		}
	}
	return all
}

func sum(r *guardtest.Report) string {
	var passed, skipped int
	for _, r := range r.Results {
		switch r.Status {
		case guardtest.Passed:
			passed++
		case guardtest.Skipped:
			skipped++
		}
	}
	s := fmt.Sprintf("%d of %d passed", passed, len(r.Results)-skipped)
	if skipped > 0 {
		s += fmt.Sprintf(", %d skipped", skipped)
	}
	return s
}

// pad fills text up to a number of columns. All that is printed here is one column wide
// a rune, or close to it.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-len([]rune(text))))
}

func cut(text string, columns int) string {
	columns = max(columns, 1)
	if r := []rune(text); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return text
}

// Colours, as a terminal takes them.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
)

// A screen is where the table is printed.
type screen struct {
	width  int // in columns
	colour bool
}

// pipeWidth is what a table takes that is not printed on a terminal.
const pipeWidth = 120

func newScreen(f *os.File) screen {
	width, ok := terminalWidth(f)
	return screen{width: cmp.Or(width, pipeWidth), colour: ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s screen) paint(text, colour string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// A progress is a line on a terminal that is written over again and again.
type progress struct {
	w     io.Writer // nil: there is no terminal
	width int
}

func newProgress(f *os.File) *progress {
	if width, ok := terminalWidth(f); ok {
		return &progress{f, width}
	}
	return &progress{}
}

func (p *progress) show(format string, args ...any) {
	if p.w != nil {
		fmt.Fprintf(p.w, "\r\x1b[K%s", cut(fmt.Sprintf(format, args...), p.width-1))
	}
}

func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
