package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/internal/jsonscan"
)

// A config is what the flags and the environment ask for.
type config struct {
	limits     stdioguard.Limits
	answers    stdioguard.Answers
	recoverIDs bool
	anyJSON    bool
	drain      time.Duration
	grace      time.Duration
	level      slog.Level
	command    []string
}

// flags returns the flags, which set c, with c's defaults.
func (c *config) flags() *flag.FlagSet {
	*c = config{
		recoverIDs: true,
		limits:     stdioguard.Limits{Line: 8 << 20, Depth: 512, Answers: 256, Pending: 1 << 16, Held: 64 << 20},
		drain:      30 * time.Second,
		grace:      5 * time.Second,
		level:      slog.LevelWarn,
	}
	f := flag.NewFlagSet("stdioguard", flag.ContinueOnError)
	f.SetOutput(io.Discard) // parse's caller says what is wrong
	f.Var((*size)(&c.limits.Line), "line", "the longest line from the client, a `SIZE`")
	f.Var(&count{&c.limits.Depth, 1, jsonscan.MaxDepth, ""}, "depth", "how deeply arrays and objects may nest: `N`, at most "+strconv.Itoa(jsonscan.MaxDepth))
	f.Var(&choice[stdioguard.Answers]{&c.answers, answerNames}, "answers", "an answer to a line whose id is not known has id null, omits it, or there is none; `HOW`: "+answerNames.String())
	f.Var((*toggle)(&c.recoverIDs), "recover-ids", "find the id of a request that is too long, too deep or not UTF-8")
	f.Var((*toggle)(&c.anyJSON), "any-json", "pass on batches and JSON that is not JSON-RPC 2.0")
	f.Var(&count{&c.limits.Answers, 1, math.MaxInt, "-1 for no limit"}, "answer-limit", "error answers in a row, and lines in a row on standard error: `N`, or -1 for no limit")
	f.Var(&count{&c.limits.Pending, 1, math.MaxInt, "-1 to wait for none"}, "pending", "how many requests are waited for at the end: `N`, or -1 to wait for none")
	f.Var((*size)(&c.limits.Held), "held", "the longest beginning of a message from the server that is held until the rest comes, a `SIZE`")
	f.Var((*wait)(&c.drain), "drain", "how long answers may take after the client's end of input, a `TIME`")
	f.Var((*wait)(&c.grace), "grace", "how long the server may take to exit, once its input was closed, and again after SIGTERM, a `TIME`")
	f.Var(&choice[slog.Level]{&c.level, levelNames}, "log", "what is said on standard error; `LEVEL`: "+levelNames.String())
	return f
}

// parse reads the command line, and the environment for what it leaves open, by flags
// that set c and perhaps more. It returns flag.ErrHelp if help is what was asked for.
func (c *config) parse(flags *flag.FlagSet, args []string, getenv func(string) string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var err error
	flags.VisitAll(func(f *flag.Flag) {
		name := variable(f.Name)
		value := getenv(name)
		if value == "" || given[f.Name] || err != nil {
			return
		}
		if wrong := f.Value.Set(value); wrong != nil {
			err = fmt.Errorf("invalid value %q for %s: %w", value, name, wrong)
		}
	})
	if err != nil {
		return err
	}
	c.command = flags.Args()
	switch flagsEnd := len(args) - len(c.command) - 1; {
	case len(c.command) == 0:
		return errNoCommand
	case flagsEnd < 0 || args[flagsEnd] != "--":
		// Without it, a new subcommand would take the name from somebody's server.
		return fmt.Errorf(`write "--" before the command: %s [flags] -- %s`, flags.Name(), strings.Join(c.command, " "))
	}
	return nil
}

// variable is the environment's name for a flag.
func variable(flag string) string {
	return "STDIOGUARD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

var errNoCommand = errors.New("no command to run")

// explain says on standard error what parse's error means to who runs the command.
func explain(err error, flags *flag.FlagSet) (status int) {
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(os.Stderr, flags)
		return 0
	case errors.Is(err, errNoCommand):
		failUsage(err)
		fmt.Fprintln(os.Stderr)
		usage(os.Stderr, flags)
		return exitUsage
	}
	failUsage(err)
	fmt.Fprintln(os.Stderr, "stdioguard -h and stdioguard probe -h print the usage")
	return exitUsage
}

func usage(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprint(w, `Stdioguard starts an MCP server and guards its standard streams.

usage:
  stdioguard [flags] -- CMD ARG…         run a server, in any language, behind the guard
  stdioguard probe [flags] -- CMD ARG…   try what a server survives, bare and guarded
  stdioguard version                     print the version

for example:
  stdioguard -line 4MiB -- npx -y @modelcontextprotocol/server-everything

flags:
`)
	flags.SetOutput(w)
	flags.PrintDefaults()
	fmt.Fprint(w, `
A SIZE is `+sizeForm+`.
A TIME is `+waitForm+`.
Each flag has an environment variable, such as STDIOGUARD_ANSWER_LIMIT for
-answer-limit. A flag wins over it.

The exit status is the server's; 128+n if signal n ended it; 127 if CMD was not
found, 126 if it cannot be executed, 125 if there are no standard streams, 2 for
wrong usage. That of probe is 1 if the guarded server, or with -bare the bare one,
failed in a case.
`)
}

// A size is a number of bytes.
type size int

const sizeForm = `a whole number of bytes, or has a unit: 4096, 64k, 16MiB, 1MB
(k, M, G and KiB, MiB, GiB: powers of 1024; kB, MB, GB: powers of 1000)`

var errSize = errors.New("want 1 or more bytes, such as 4096, 64k, 16MiB (powers of 1024) or 1MB (powers of 1000)")

// units are those of GNU dd, in small letters.
var units = map[string]uint64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

// maxSize leaves room for what is reckoned with a limit.
const maxSize = math.MaxInt / 2

func (s *size) Set(text string) error {
	text = strings.ToLower(text)
	digits := strings.TrimRight(text, "bgikm ")
	unit, ok := units[strings.TrimLeft(text[len(digits):], " ")]
	n, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case !ok || errors.Is(err, strconv.ErrSyntax) || err == nil && n == 0:
		return errSize
	case err != nil || n > maxSize/unit:
		return errors.New("too large")
	}
	*s = size(n * unit)
	return nil
}

// String is what a person would have written.
func (s *size) String() string {
	n, unit := *s, ""
	for _, larger := range []string{"KiB", "MiB", "GiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, larger
	}
	return strconv.Itoa(int(n)) + unit
}

// A count is a number in a range, or -1 where that has a meaning.
type count struct {
	n        *int
	min, max int
	minusOne string // what it means; "" if it means nothing
}

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || (n < c.min || n > c.max) && (n != -1 || c.minusOne == "") {
		return errors.New(c.form())
	}
	*c.n = n
	return nil
}

func (c *count) form() string {
	if c.minusOne != "" {
		return fmt.Sprintf("want %d or more, or %s", c.min, c.minusOne)
	}
	return fmt.Sprintf("want %d to %d", c.min, c.max)
}

func (c *count) String() string {
	if c.n == nil {
		return "" // the zero value, which package flag asks for
	}
	return strconv.Itoa(*c.n)
}

// names are the words for values, in the order in which they are shown.
type names[T comparable] []struct {
	name  string
	value T
}

func (n names[T]) String() string {
	var all []string
	for _, e := range n {
		all = append(all, e.name)
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// levelOff is above all levels.
const levelOff = slog.Level(math.MaxInt)

var (
	answerNames = names[stdioguard.Answers]{
		{"null", stdioguard.AnswerNull}, {"omit", stdioguard.AnswerOmit}, {"none", stdioguard.AnswerNone},
	}
	levelNames = names[slog.Level]{
		{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"error", slog.LevelError}, {"off", levelOff},
	}
)

// A choice is one of a few values that have names.
type choice[T comparable] struct {
	value *T
	names names[T]
}

func (c *choice[T]) Set(text string) error {
	for _, e := range c.names {
		if e.name == text {
			*c.value = e.value
			return nil
		}
	}
	return fmt.Errorf("want %v", c.names)
}

func (c *choice[T]) String() string {
	if c.value == nil {
		return "" // the zero value, which package flag asks for
	}
	for _, e := range c.names {
		if e.value == *c.value {
			return e.name
		}
	}
	return ""
}

// A toggle is on or off. Package flag's own does not say what to write.
type toggle bool

func (t *toggle) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("want true or false")
	}
	*t = toggle(on)
	return nil
}

func (t *toggle) String() string   { return strconv.FormatBool(bool(*t)) }
func (t *toggle) IsBoolFlag() bool { return true }

// A wait is a time that is not negative.
type wait time.Duration

const waitForm = "written as 500ms, 30s, 1m30s or 0"

func (w *wait) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("want a time such as 500ms, 30s, 1m30s or 0")
	}
	*w = wait(d)
	return nil
}

func (w *wait) String() string { return time.Duration(*w).String() }

// options are the guard's.
func (c *config) options() []stdioguard.Option {
	opts := []stdioguard.Option{
		stdioguard.WithLimits(c.limits), stdioguard.WithAnswers(c.answers), stdioguard.WithDrain(c.drain),
	}
	if c.recoverIDs {
		opts = append(opts, stdioguard.WithRecoveredIDs())
	}
	if c.anyJSON {
		opts = append(opts, stdioguard.WithAnyJSON())
	}
	return opts
}
