package stdfd_test

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// How much a process may have is up to the system: the test's own pipe shows it.
func TestStandardInputIsWidened(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	onPipe(t, w, unix.F_SETPIPE_SZ, 1<<20)
	want := onPipe(t, w, unix.F_GETPIPE_SZ, 0)

	p := start(t, "close")
	_, err = io.ReadAll(p.out) // by then the streams were taken
	require.NoError(t, err)
	assert.Equal(t, want, onPipe(t, p.in.(*os.File), unix.F_GETPIPE_SZ, 0))
}

func onPipe(t *testing.T, f *os.File, command, arg int) (n int) {
	t.Helper()
	c, err := f.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, c.Control(func(fd uintptr) { n, _ = unix.FcntlInt(fd, command, arg) }))
	return n
}
