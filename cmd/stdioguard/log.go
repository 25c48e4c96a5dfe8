package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A lineHandler writes each record as one line, for people: the message, and what
// belongs to it as key=value. Each line is one Write.
type lineHandler struct {
	w     io.Writer
	level slog.Level
	attrs []slog.Attr
}

func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := []byte("stdioguard: ")
	line = append(line, strings.TrimPrefix(r.Message, "stdioguard: ")...)
	for _, a := range h.attrs {
		line = appendAttr(line, a)
	}
	r.Attrs(func(a slog.Attr) bool {
		line = appendAttr(line, a)
		return true
	})
	_, err := h.w.Write(append(line, '\n'))
	return err
}

func appendAttr(line []byte, a slog.Attr) []byte {
	value := a.Value.Resolve().String()
	if !isPlain(value) && !isQuoted(value) {
		value = strconv.Quote(value)
	}
	return fmt.Appendf(line, " %s=%s", a.Key, value)
}

// isPlain reports whether a value ends where it seems to.
func isPlain(value string) bool {
	return value != "" && strconv.Quote(value) == `"`+value+`"` && !strings.ContainsAny(value, " =")
}

// isQuoted reports whether a value is quoted already, as the text of a line is.
func isQuoted(value string) bool {
	_, err := strconv.Unquote(value)
	return err == nil && value[0] == '"'
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := append(append([]slog.Attr(nil), h.attrs...), attrs...)
	return &lineHandler{h.w, h.level, all}
}

// WithGroup returns h: nobody here has groups.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }

// A printer is a writer that nobody waits for: a goroutine does, if standard error is
// not read. Each Write is a line; those past maxWaiting are lost, and counted.
type printer struct {
	queue chan printed
	lost  atomic.Int64
}

type printed struct {
	line    []byte
	written chan struct{} // closed when all before it is; for flush
}

const (
	// maxWaiting is in lines, none of which is longer than a few KiB.
	maxWaiting = 4096
	// flushTime is what a standard error that nobody reads may take at the end.
	flushTime = 250 * time.Millisecond
)

func newPrinter() *printer { return &printer{queue: make(chan printed, maxWaiting)} }

func (p *printer) Write(line []byte) (int, error) {
	select {
	case p.queue <- printed{line: bytes.Clone(line)}:
	default:
		p.lost.Add(1)
	}
	return len(line), nil
}

// run writes to w what was and will be written to p.
func (p *printer) run(w io.Writer) {
	for entry := range p.queue {
		if entry.written != nil {
			close(entry.written)
			continue
		}
		w.Write(entry.line)
		if n := p.lost.Swap(0); n > 0 {
			fmt.Fprintf(w, "stdioguard: standard error was not read: %d lines are lost\n", n)
		}
	}
}

// flush waits a moment for what was written.
func (p *printer) flush() {
	late := time.After(flushTime)
	written := make(chan struct{})
	select {
	case p.queue <- printed{written: written}:
	case <-late:
		return
	}
	select {
	case <-written:
	case <-late:
	}
}

// Strays logs what the server prints beside its messages, a record for each line.
// Between two messages it logs no more than limit lines; the rest is summed up.
type strays struct {
	log     *slog.Logger
	limit   int          // negative: none
	written func() int64 // messages of the server so far

	mu     sync.Mutex
	line   []byte // as much of it as is shown
	size   int
	row    int // lines since a message
	silent int64
	since  int64 // written, when the row began
}

// maxShown is how many bytes of a line are shown, as of a bad one.
const maxShown = 120

// Write takes text cut anywhere.
func (s *strays) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for part := range bytes.SplitAfterSeq(p, []byte("\n")) {
		text, ended := bytes.CutSuffix(part, []byte("\n"))
		s.size += len(text)
		s.line = append(s.line, text[:min(len(text), maxShown-len(s.line))]...)
		if ended {
			s.endLine()
		}
	}
	return len(p), nil
}

func (s *strays) endLine() {
	size, text := s.size, bytes.TrimSpace(s.line)
	s.size, s.line = 0, s.line[:0]
	if len(text) == 0 && size <= maxShown {
		return
	}
	if n := s.written(); n != s.since {
		s.endRow()
		s.since = n
	}
	if s.limit >= 0 && s.row == s.limit {
		s.silent++
		return
	}
	s.row++
	s.log.Warn("the server printed text that is no message", "size", size, "text", strconv.Quote(string(text)))
}

func (s *strays) endRow() {
	if s.silent > 0 {
		s.log.Warn("the server printed more text that is no message", "lines", s.silent)
	}
	s.row, s.silent = 0, 0
}

// end logs a last line without its newline, and what is not yet summed up.
func (s *strays) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size > 0 {
		s.endLine()
	}
	s.endRow()
}
