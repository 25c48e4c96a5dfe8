package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/internal/outpipe"
)

// wrap runs a command behind a guard.
func wrap(args []string) (status int) {
	c := new(config)
	flags := c.flags()
	if err := c.parse(flags, args, os.Getenv); err != nil {
		return explain(err, flags)
	}
	signals := notify()
	inputClosed := watchInput()

	out := newPrinter()
	log := slog.New(&lineHandler{w: out, level: c.level})
	stray := &strays{log: log, limit: c.limits.Answers}
	g, err := stdioguard.Stdio(append(c.options(), stdioguard.WithLogger(log), stdioguard.WithDiversion(stray))...)
	if err != nil {
		return c.failStart(exitNoStreams, err)
	}
	stray.written = func() int64 { return g.Stats().Written }

	stderr := errorOutput()
	server, err := start(c.command, stderr)
	if err != nil {
		return c.failStart(cannotRun(err), fmt.Errorf("cannot start the server: %w", err))
	}
	go out.run(stderr)
	defer out.flush()

	log.Info("the server has started", "pid", server.cmd.Process.Pid)
	s := &session{config: c, log: log, guard: g, server: server, signals: signals, inputClosed: inputClosed}
	ending := s.run()
	unanswered := g.Stats().Pending
	g.Close() // what it held of a message is a stray
	stray.end()
	return s.report(ending, unanswered)
}

// notify returns what a client or a person sends to end the session. A signal that
// was ignored stays so, as with nohup.
func notify() <-chan os.Signal {
	c := make(chan os.Signal, 4)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	// Who asks for it does not die of a standard error that nobody reads, and unlike an
	// ignored one the signal is as it was for the server.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return c
}

// errorOutput returns what the server gets as its standard error, and where the log
// goes. Stdio has put standard error on descriptor 1, or the null device where the
// client would read it. A terminal is no client: there a person reads both.
func errorOutput() *os.File {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return os.Stderr
	}
	return os.Stdout
}

// failStart says why there is no session.
func (c *config) failStart(status int, err error) int {
	if c.level <= slog.LevelError {
		fmt.Fprintf(os.Stderr, "stdioguard: %s\n", strings.TrimPrefix(err.Error(), "stdioguard: "))
	}
	return status
}

// A session is what goes on between a client and a server.
type session struct {
	*config
	log         *slog.Logger
	guard       *stdioguard.Guard
	server      *child
	signals     <-chan os.Signal
	inputClosed <-chan struct{} // the client has closed its end; nil where that cannot be seen

	feed  feed
	input struct { // to the server
		ended chan struct{}
		err   error // good once ended is closed
	}
	output  *outpipe.Output // to the client
	moved   int64           // of the client's input, in whatever way, and when it was seen
	movedAt time.Time
	asked   bool // a signal has asked for the end
	hurry   bool // another has: go on to the next step at once
}

// An ending is what made a session end.
type ending int

const (
	byClient ending = iota // it has ended the input, or somebody has with a signal
	byHangUp
	byServer
)

// run passes on what either side says, until the server has exited and all that it
// wrote is passed on.
func (s *session) run() ending {
	s.feed.pipe = s.server.stdin
	s.input.ended = make(chan struct{})
	s.output = outpipe.New(s.server.stdout)
	out := s.guard.Writer() // before a line is read, so that every request is known
	go s.pumpInput()
	go s.output.Copy(out)
	e := s.serve()
	s.shutDown()
	s.finish()
	return e
}

func (s *session) pumpInput() {
	defer close(s.input.ended)
	_, s.input.err = s.guard.WriteTo(&s.feed)
}

// serve waits for the end of the session, whoever brings it about.
func (s *session) serve() ending {
	inputClosed := s.inputClosed
	var look <-chan time.Time
	for {
		select {
		case <-s.input.ended:
			return s.inputEnding()
		case <-s.output.Ended():
			if s.output.Err() != nil {
				return byHangUp
			}
			return s.serverEnding()
		case <-s.server.exited:
			return s.serverEnding()
		case sig := <-s.signals:
			s.log.Debug("got a signal", "signal", sig)
			if s.asked {
				s.hurry = true
				return byClient
			}
			s.asked = true
			s.guard.CloseRead()
		case <-inputClosed:
			inputClosed = nil
		case <-look:
			if most := s.drain + s.grace; s.stalled() > most {
				s.log.Warn("what the client sent is not taken", "for", most)
				return byClient
			}
		}
		// There is no more to come from the client. A server that does not read what
		// there is, or a client that does not read the answers, must not hold up the end.
		if look == nil && (s.asked || inputClosed == nil && s.inputClosed != nil) {
			t := time.NewTicker(stallInterval)
			defer t.Stop()
			look, s.movedAt = t.C, time.Now()
		}
	}
}

// inputEnding says what the end of the input means.
func (s *session) inputEnding() ending {
	switch {
	case s.feed.err != nil:
		return byServer // it has closed its input, so nothing can reach it any more
	case s.input.err != nil:
		return byHangUp
	}
	return byClient
}

// serverEnding says what it means that the server ended: it may have done so at the end
// of its input.
func (s *session) serverEnding() ending {
	select {
	case <-s.input.ended:
		return s.inputEnding()
	default:
		return byServer
	}
}

// shutDown closes the server's input and sees to it that the server exits.
func (s *session) shutDown() {
	go s.server.stdin.Close() // Windows waits there for a write
	for _, step := range steps {
		if s.exitsInTime() {
			return
		}
		s.log.Warn("the server has not exited", "next", step.name)
		step.take(s.server.cmd.Process) // an error means that it just has
	}
	<-s.server.exited
}

// exitsInTime waits for the server to exit, but not after a signal.
func (s *session) exitsInTime() bool {
	grace := s.grace
	if s.hurry {
		s.hurry, grace = false, 0
	}
	select {
	case <-s.server.exited:
		return true
	case <-time.After(grace):
	case sig := <-s.signals:
		s.log.Debug("got a signal", "signal", sig)
		s.asked = true
	}
	return false
}

// finish waits until what the server wrote is passed on, however slowly the client
// takes it, or until a signal comes that is not the first: that one may have been what
// ended the server.
func (s *session) finish() {
	s.output.Finish()
	for {
		select {
		case <-s.output.Ended():
			return
		case <-s.signals:
			if s.asked {
				return
			}
			s.asked = true
		}
	}
}

// report says how the session ended, if there is anything to say, and returns what to
// exit with.
func (s *session) report(e ending, unanswered int) (status int) {
	status, signal := s.server.status()
	if lost := s.guard.Stats().DiversionLost; lost > 0 {
		s.log.Warn("the server printed more than could be logged", "bytes_lost", lost)
	}
	var args []any
	if unanswered > 0 {
		args = []any{"unanswered", unanswered}
	}
	switch {
	case signal != "" && e == byServer:
		s.log.Error("the server was ended by "+signal+" before its input ended", args...)
	case signal != "":
		s.log.Error("the server was ended by "+signal, args...)
	case e == byServer:
		s.log.Error("the server exited before its input ended", append([]any{"status", status}, args...)...)
	case e == byHangUp:
		s.log.Warn("the client has hung up", args...)
	case unanswered > 0:
		s.log.Warn("requests have no response", args...)
	}
	s.log.Info("the server has exited", "status", status)
	return status
}

// A feed is the server's input. It counts what the server takes.
type feed struct {
	pipe  *os.File
	taken atomic.Int64 // bytes
	err   error
}

const (
	// feedChunk is how much a server has to read to be taken for one that reads.
	feedChunk = 64 << 10
	// stallInterval is how often it is looked at after the client's end.
	stallInterval = 100 * time.Millisecond
)

func (f *feed) Write(p []byte) (n int, err error) {
	for n < len(p) && f.err == nil {
		m, err := f.pipe.Write(p[n:min(len(p), n+feedChunk)])
		n += m
		f.taken.Add(int64(m))
		f.err = err
	}
	return n, f.err
}

// stalled returns how long nothing of the client's input has gone anywhere.
func (s *session) stalled() time.Duration {
	stats := s.guard.Stats()
	if moved := s.feed.taken.Load() + stats.BytesIn + stats.Lines; moved != s.moved {
		s.moved, s.movedAt = moved, time.Now()
	}
	return time.Since(s.movedAt)
}
