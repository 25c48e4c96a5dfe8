//go:build unix

package stdfd_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard/internal/stdfd"
)

func init() { cases["fail, then take"] = failThenTake }

func failThenTake() {
	os.Stdin.Close()
	_, err := stdfd.Take()
	fmt.Print("before ")
	say("%t", errors.Is(err, syscall.EBADF))
	null, _ := os.Open(os.DevNull)
	say("%d", null.Fd())
	s := take()
	_, err = s.Read(make([]byte, 1))
	say("%v", err)
	s.Write([]byte("out"))
}

func TestTakeThatFailsTakesNothing(t *testing.T) {
	p := start(t, "fail, then take")
	got, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.Equal(t, "before out", string(got))
	p.ends("true\n0\nEOF\n")
}
