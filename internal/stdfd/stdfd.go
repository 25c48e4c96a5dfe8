// Package stdfd takes a process's standard input and output away from everything
// else in the process, and from its children.
package stdfd

import (
	"errors"
	"sync"
)

// ErrWoken is what Read returns after Wake.
var ErrWoken = errors.New("stdfd: woken")

// ErrTaken is what Take returns the second time.
var ErrTaken = errors.New("standard input and output are taken already")

var taken sync.Mutex // locked for good by the first Take

// Take moves standard input and output to new descriptors, which no child
// inherits. Standard input is the null device from then on, and standard output
// is standard error, or the null device where standard error goes to the same
// place. It works once in a process.
func Take() (*Streams, error) {
	if !taken.TryLock() {
		return nil, ErrTaken
	}
	s, err := take()
	if err != nil {
		taken.Unlock()
	}
	return s, err
}
