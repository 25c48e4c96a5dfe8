package stdioguard

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stdioguard/stdioguard/internal/outpipe"
	"github.com/stdioguard/stdioguard/internal/stdfd"
)

// Stdio takes the process's standard input and output for the protocol alone, and
// returns a guard of them. Call it first thing in main, before anything reads or
// prints, and give its guard to the server in their place.
//
// Both are moved to new descriptors, which no child process inherits. From then on
// descriptor 0 is the null device and descriptor 1 is standard error: what
// fmt.Println, a logger that kept os.Stdout, cgo or a child prints cannot get into
// the protocol, and a child cannot eat its input. Where standard error goes to the
// client too (2>&1), descriptor 1 is the null device, as is the default diversion;
// what the server itself writes to standard error is beyond the guard. Where nobody can
// read standard error, a print ends the process by SIGPIPE, as a print there always does;
// what the guard diverts does not. A client
// that hangs up is an error of Write and Read ([syscall.EPIPE]), not a death by SIGPIPE.
//
// The guard owns the moved descriptors. CloseRead and Close wake any Read; a failed
// write or answer ends Read with its error; and a Read that waits for answers at the
// end of input ends when the client is seen to have closed its end of the output. Close
// closes the descriptors and leaves 0 and 1 as they are, so that what main prints after
// the session does not reach the client either.
//
// Stdio works once in a process; a second call is an error. It fails with [errors.ErrUnsupported] where it is not
// implemented: on systems other than Linux, macOS, the BSDs and Windows.
//
// The options are those of [New]. Windows has handles in the place of descriptors: the
// standard ones are others from then on, and so are the files that os.Stdin and os.Stdout
// held, for a logger that kept one too. But what kept a handle itself, as C's stdio does,
// still writes to the client. There a client that hangs up is noticed by the next write
// only, and CloseRead leaves a goroutine behind: until Close, or, where standard input is
// no pipe, until the client sends or closes.
func Stdio(opts ...Option) (*Guard, error) {
	s, err := stdfd.Take()
	if err != nil {
		return nil, fmt.Errorf("stdioguard: %w", err)
	}
	opts = append([]Option{WithDiversion(s.Diversion())}, opts...)
	r := &stdin{streams: s}
	g := New(r, s, opts...)
	r.g = g
	g.streams = s
	return g, nil
}

// stdin is the reader of a guard that owns its streams.
type stdin struct {
	g       *Guard
	streams *stdfd.Streams
}

func (r *stdin) Read(p []byte) (int, error) {
	n, err := r.streams.Read(p)
	if err == stdfd.ErrWoken {
		if err = r.g.out.failure(); err == nil {
			err = io.EOF // CloseRead or Close
		}
	}
	return n, err
}

// Run guards a server whose SDK reads os.Stdin and writes os.Stdout itself. It does
// what [Stdio] does, puts pipes in the place of os.Stdin and os.Stdout, passes on what
// goes through them both ways as a [Guard] does, calls serve, and returns its error,
// else the guard's: that the client hung up, or that reading failed.
//
//	err := stdioguard.Run(ctx, func(ctx context.Context) error {
//		return server.Run(ctx, &mcp.StdioTransport{})
//	})
//
// When the client hangs up, the server's input ends, and its writes fail. Where serve
// returns nil before the input has ended, as it does if it only started something, Run
// goes on until it has. When ctx is done, the input ends as with [Guard.CloseRead]; the
// context that serve was given is cancelled once the answers are written or the drain
// time is over, a quarter of a second after the end of input, if serve has not
// returned by then.
//
// Run returns when all output is written. A child process that was given os.Stdout can
// keep the pipe open: Run waits for its end no longer than a second. Afterwards
// os.Stdin is the null device and os.Stdout is standard error.
//
// What goes through the pipe is bytes, whoever wrote them: text that equals a message
// cannot be told from it, a request or notification that follows a print without a
// newline is taken for text, and a child that is given os.Stdin or os.Stdout explicitly
// takes part in the protocol. With an SDK that can be given streams, use [Stdio].
func Run(ctx context.Context, serve func(context.Context) error, opts ...Option) error {
	g, err := Stdio(opts...)
	if err != nil {
		return err
	}
	defer g.Close()
	p, err := newPipes(g)
	if err != nil {
		return fmt.Errorf("stdioguard: %w", err)
	}
	defer p.close()

	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	served := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		g.CloseRead()
		p.awaitInputEnd(g.cfg.drain)
		await(served, handOver) // a server that ends with its input ends without an error
		cancel()
	})
	defer stop()

	err = serve(serving)
	close(served)
	if err != nil {
		p.finish()
		return err
	}
	<-p.inputEnded
	p.finish()
	if err := g.out.failure(); err != nil {
		return fmt.Errorf("stdioguard: writing to the client: %w", err)
	}
	return p.inputErr
}

// pipes stand between a server's os.Stdin and os.Stdout and a guard.
type pipes struct {
	stdin, stdout *os.File // what the variables held before
	in, out       *os.File // what the server reads from and writes to
	feed, tap     *os.File // the guard's ends of them

	inputEnded chan struct{}
	inputErr   error           // of the guard; good once inputEnded is closed
	output     *outpipe.Output // of tap
}

// handOver is what a server has to take its last lines after the drain time, and to
// end by itself after its input has.
const handOver = 250 * time.Millisecond

func newPipes(g *Guard) (*pipes, error) {
	p := &pipes{stdin: os.Stdin, stdout: os.Stdout, inputEnded: make(chan struct{})}
	var err error
	if p.in, p.feed, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.tap, p.out, err = os.Pipe(); err != nil {
		p.in.Close()
		p.feed.Close()
		return nil, err
	}
	p.output = outpipe.New(p.tap)
	os.Stdin, os.Stdout = p.in, p.out
	out := g.Writer() // before a line is read, so that every request is known
	go p.pumpInput(g)
	go p.passOutput(out)
	return p, nil
}

// pumpInput hands the server its input, and its end.
func (p *pipes) pumpInput(g *Guard) {
	defer close(p.inputEnded)
	defer p.feed.Close()
	w := &failure{w: p.feed}
	if _, err := g.WriteTo(w); w.err == nil {
		p.inputErr = err // else the server has stopped reading, which is its right
	}
}

// passOutput takes what the server writes. When the client has hung up it ends the
// server's input too.
func (p *pipes) passOutput(w io.Writer) {
	if p.output.Copy(w) != nil {
		p.feed.Close()
	}
}

// awaitInputEnd waits for the end of an input that is to end within the drain time.
// A server that does not read what is left of it does not hold it up.
func (p *pipes) awaitInputEnd(drain time.Duration) {
	if !await(p.inputEnded, drain+handOver) {
		p.feed.Close()
	}
}

// finish waits until what the server wrote is passed on.
func (p *pipes) finish() {
	p.out.Close()
	p.output.Finish()
	<-p.output.Ended()
}

// await waits for an event, but not for ever, and reports whether it came.
func await(event <-chan struct{}, most time.Duration) bool {
	select {
	case <-event:
		return true
	case <-time.After(most):
		return false
	}
}

func (p *pipes) close() {
	os.Stdin, os.Stdout = p.stdin, p.stdout
	for _, f := range []*os.File{p.in, p.out, p.feed, p.tap} {
		f.Close()
	}
}

// A failure remembers the first error of its writer.
type failure struct {
	w   io.Writer
	err error
}

func (f *failure) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil && f.err == nil {
		f.err = err
	}
	return n, err
}
