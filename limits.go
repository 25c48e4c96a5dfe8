package stdioguard

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/stdioguard/stdioguard/internal/jsonscan"
)

// The defaults that a zero field of [Limits] stands for.
const (
	defaultLine    = 16<<20 - 1 // with its newline a line fills 16 MiB
	defaultDepth   = 1000       // go-sdk ends the session at 1001
	defaultAnswers = 256
	defaultPending = 1 << 16
	defaultHeld    = 64 << 20
	defaultDrain   = 30 * time.Second
)

// answerBytes is the other bound on answers in a row: 20 KiB fit in every pipe
// and socket pair that a client gives a child on Unix, so that one which writes
// before it reads is not deadlocked. On Windows a pipe may hold less.
const answerBytes = 20 << 10

// Limits bounds what a peer can make a [Guard] do. The zero value of a field
// means its default.
type Limits struct {
	// Line is the longest line in bytes, without its newline; a byte order mark
	// and whitespace count. A longer line is answered with -32700 as soon as the
	// limit is passed, and dropped up to its newline without being held.
	// Default: 16 MiB - 1. There is no "unlimited": New panics on a negative value.
	Line int

	// Depth is how deeply arrays and objects may nest, the outermost counted.
	// A deeper line is answered with -32700. Default: 1000. New panics on a
	// negative value and on one over 10 000, where encoding/json gives up itself.
	Depth int

	// Answers is how many error answers in a row, without a forwarded line
	// between them, are written; they are also held to 20 480 bytes in a row.
	// Further ones are withheld until a line is forwarded again, so that two
	// programs that answer each other's errors cannot go on for ever, and a
	// client that writes before it reads is not deadlocked. On Windows a pipe
	// holds 4096 bytes unless its maker asks for more: room for 50 answers.
	// Default: 256. A negative value lifts both bounds.
	Answers int

	// Pending is how many requests are remembered as unanswered, in each
	// direction, so that the end of input can wait for them. Past that, requests
	// are passed on as ever and no longer waited for. The client's take 11 to 22
	// bytes each, whatever the length of their ids.
	// Default: 65 536. With a negative value none are.
	Pending int

	// Held is how many bytes the beginning of a message that the server has
	// written may have at the end of a Write, waiting for the rest; at that size
	// it is diverted. A message that comes whole in one Write has no limit.
	// Default: 64 MiB. New panics on a negative value.
	Held int
}

// withDefaults returns l with its zero fields filled in. It panics on a limit
// that cannot be kept, since that is a mistake in the program.
func (l Limits) withDefaults() Limits {
	if l.Line < 0 {
		panic(fmt.Sprintf("stdioguard: Limits.Line is %d, want at least 0", l.Line))
	}
	if l.Depth < 0 || l.Depth > jsonscan.MaxDepth {
		panic(fmt.Sprintf("stdioguard: Limits.Depth is %d, want 0 to %d", l.Depth, jsonscan.MaxDepth))
	}
	if l.Held < 0 {
		panic(fmt.Sprintf("stdioguard: Limits.Held is %d, want at least 0", l.Held))
	}
	if l.Line == 0 {
		l.Line = defaultLine
	}
	if l.Depth == 0 {
		l.Depth = defaultDepth
	}
	if l.Answers == 0 {
		l.Answers = defaultAnswers
	}
	if l.Pending == 0 {
		l.Pending = defaultPending
	}
	if l.Held == 0 {
		l.Held = defaultHeld
	}
	return l
}

// Answers says what an answer looks like whose line's id is not known.
type Answers int

const (
	// AnswerNull writes "id":null, as JSON-RPC 2.0 §5 has it. It is the default.
	// Clients built on go-sdk v1.8 and on the Java SDK end the session on it.
	AnswerNull Answers = iota
	// AnswerOmit writes no id member, as the MCP schema has it since 2025-11-25.
	// It ends the same clients' sessions.
	AnswerOmit
	// AnswerNone writes no answer at all; lines whose id is known are answered.
	AnswerNone
)

// An Option changes what a [Guard] does from what [New] describes.
type Option func(*config)

type config struct {
	limits   Limits
	answers  Answers
	recover  bool
	anyJSON  bool
	logger   *slog.Logger
	onReject func(*FrameError)
	drain    time.Duration
	divert   io.Writer
}

func newConfig(opts []Option) config {
	c := config{drain: defaultDrain, divert: os.Stderr}
	for _, o := range opts {
		o(&c)
	}
	c.limits = c.limits.withDefaults()
	return c
}

// WithLimits replaces all limits; fields left zero mean their defaults.
func WithLimits(l Limits) Option { return func(c *config) { c.limits = l } }

// WithAnswers chooses what an answer looks like whose line's id is not known.
// It panics on a value that is none of the constants.
func WithAnswers(a Answers) Option {
	if a < AnswerNull || a > AnswerNone {
		panic(fmt.Sprintf("stdioguard: WithAnswers(%d): no such choice", a))
	}
	return func(c *config) { c.answers = a }
}

// WithRecoveredIDs answers a line that is too long, too deep or not UTF-8 with
// the line's own id instead of null, where the part before the fault holds an
// id and a method. The caller of such a request then gets its error, and a
// client that ends its session on a null id keeps it. Without the option no id is
// taken from a line that could not be read whole.
func WithRecoveredIDs() Option { return func(c *config) { c.recover = true } }

// WithAnyJSON forwards every line that is one JSON text within the limits:
// batches, and values that are no JSON-RPC 2.0 message. For MCP 2025-03-26, the
// one revision with batches, and for protocols that are not JSON-RPC. At the
// end of input only requests are waited for that are JSON-RPC 2.0 messages themselves.
func WithAnyJSON() Option { return func(c *config) { c.anyJSON = true } }

// WithLogger writes one record per bad line to l, at level Warn: what
// [FrameError] says, and the line's text, after a byte order mark and whitespace,
// quoted and cut at 120 bytes. After [Limits].Answers records in a row, and where the
// answer is withheld, the rest is summed up in one record, which is written when a line
// is forwarded again or the input ends. A nil l logs nothing.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithRejectFunc calls f for every bad line, on the goroutine that reads from
// the guard, after the answer was written. No lock is held: f may call any
// method of the guard but Read and WriteTo. The error is f's to keep.
func WithRejectFunc(f func(*FrameError)) Option { return func(c *config) { c.onReject = f } }

// WithDrain sets how long Read holds back the end of input, counted from that
// end, while requests that it handed over have no response yet. Default: 30 s.
// With 0 it does not wait. It panics on a negative time.
//
// It concerns a guard whose Writer was asked for; others do not wait. An SDK may
// go on waiting for its handlers after that, for ever where one does not heed its
// context: a program that must not outlive its input may exit once Read has
// returned io.EOF.
func WithDrain(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("stdioguard: WithDrain(%v), want at least 0", d))
	}
	return func(c *config) { c.drain = d }
}

// WithDiversion sets where the bytes go that the server writes and that are no
// message. Default: os.Stderr. A nil w drops them. They are written by a
// goroutine of the guard's, which runs while there are any, from a buffer of up
// to 4 MiB; what a slow w leaves no room for is dropped, and counted in
// Stats.DiversionLost.
func WithDiversion(w io.Writer) Option { return func(c *config) { c.divert = w } }
