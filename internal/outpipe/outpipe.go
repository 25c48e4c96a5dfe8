// Package outpipe passes on what a server writes to a pipe that other processes may
// hold open when it has ended.
package outpipe

import (
	"io"
	"os"
	"sync/atomic"
	"time"
)

const (
	// Wait bounds the wait for an end that another process holds back, and maxLast what
	// is taken from the pipe after that: a full one.
	Wait    = time.Second
	maxLast = 1 << 20
	// inMoments is for what takes no time, on a busy machine.
	inMoments = Wait / 10
	bufSize   = 64 << 10
)

// An Output is the end of a pipe that a server's output comes from.
type Output struct {
	pipe  *os.File
	end   atomic.Pointer[time.Time] // when the end of the pipe is no longer waited for
	reads atomic.Int64              // begun and ended: odd while one is under way
	ended chan struct{}
	err   error // good once ended is closed
}

// New returns an output that Copy has to be called for, once.
func New(pipe *os.File) *Output { return &Output{pipe: pipe, ended: make(chan struct{})} }

// Copy passes what is written to the pipe on to w, until the pipe ends, Finish ends it,
// or w fails. Then it closes the pipe, so that who goes on writing learns of it. The
// error is that of w, or of a read.
func (o *Output) Copy(w io.Writer) error {
	defer close(o.ended)
	defer o.pipe.Close()
	buf := make([]byte, bufSize)
	for last := maxLast; last > 0; {
		over := o.setDeadline()
		o.reads.Add(1)
		n, err := o.pipe.Read(buf)
		o.reads.Add(1)
		if _, err := w.Write(buf[:n]); err != nil {
			o.err = err
			return err
		}
		if err != nil {
			if err != io.EOF && o.end.Load() == nil {
				o.err = err
			}
			return o.err
		}
		if over {
			last -= n
		}
	}
	return nil
}

// setDeadline bounds the next read, once Finish was called. It reports whether the wait
// is over, and only what is in the pipe is to be taken.
func (o *Output) setDeadline() (over bool) {
	end := o.end.Load()
	if end == nil {
		return false
	}
	now := time.Now()
	deadline := *end
	if over = now.After(deadline); over {
		deadline = now.Add(inMoments)
	}
	o.pipe.SetReadDeadline(deadline)
	return over
}

// Ended is closed once all is passed on that is going to be.
func (o *Output) Ended() <-chan struct{} { return o.ended }

// Err returns Copy's error, once it has ended.
func (o *Output) Err() error { return o.err }

// Finish says that the server has closed its end. What is in the pipe is passed on,
// however slowly w takes it; for the end of the pipe Copy waits a second at most.
func (o *Output) Finish() {
	end := time.Now().Add(Wait)
	o.end.Store(&end)
	if o.pipe.SetReadDeadline(end) != nil {
		go o.endReads()
	}
}

// endReads is for Windows, which has no deadlines for a pipe, but to close one ends a read.
func (o *Output) endReads() {
	for most := Wait; ; most = inMoments {
		reads := o.reads.Load()
		select {
		case <-o.ended:
			return
		case <-time.After(most):
		}
		if reads%2 == 1 && reads == o.reads.Load() {
			o.pipe.Close()
		}
	}
}
