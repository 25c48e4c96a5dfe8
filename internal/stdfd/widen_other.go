//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package stdfd

// widen does nothing: these systems size a pipe themselves.
func widen(int) {}
