package stdfd

import "golang.org/x/sys/unix"

// widen makes room for 1 MiB in a pipe, where the kernel allows it: a client that
// sends a large message is then rarely stopped in the middle of it.
func widen(fd int) { unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, 1<<20) }
