//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package stdfd

import (
	"errors"
	"io"
)

// Streams are not to be had on this system.
type Streams struct{}

func take() (*Streams, error) { return nil, errors.ErrUnsupported }

func (*Streams) Diversion() io.Writer      { return nil }
func (*Streams) Read([]byte) (int, error)  { return 0, errors.ErrUnsupported }
func (*Streams) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (*Streams) HungUp() error             { return nil }
func (*Streams) Wake()                     {}
func (*Streams) Close()                    {}
