package stdfd_test

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/stdioguard/stdioguard/internal/stdfd"
)

func init() {
	cases["one handle for output and error"] = oneHandle
	cases["no standard handle"] = noHandle
	cases["files that were kept"] = keptFiles
}

// oneHandle has what a parent gives that sets both to the same handle.
func oneHandle() {
	out, _ := windows.GetStdHandle(windows.STD_OUTPUT_HANDLE)
	windows.SetStdHandle(windows.STD_ERROR_HANDLE, out)
	s := take()
	say("no diversion: %t", s.Diversion() == nil)
	s.Write([]byte("out\n"))
	fmt.Println("printed")
	s.Close()
	println("standard error is open")
}

func TestCloseLeavesTheHandleThatIsStandardErrorToo(t *testing.T) {
	p := start(t, "one handle for output and error")
	got, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.Equal(t, "out\nstandard error is open\n", string(got))
	p.ends("no diversion: true\n")
}

// noHandle is a program without a console.
func noHandle() {
	in, _ := windows.GetStdHandle(windows.STD_INPUT_HANDLE)
	for _, h := range []windows.Handle{0, windows.InvalidHandle} {
		windows.SetStdHandle(windows.STD_INPUT_HANDLE, h)
		_, err := stdfd.Take()
		say("an error: %t", err != nil)
	}
	windows.SetStdHandle(windows.STD_INPUT_HANDLE, in)
	fmt.Print("before ")
	take().Write([]byte("out"))
}

func TestTakeWithoutAStandardHandleTakesNothing(t *testing.T) {
	p := start(t, "no standard handle")
	got, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.Equal(t, "before out", string(got))
	p.ends("an error: true\nan error: true\n")
}

// keptFiles uses the files that were there before the streams were taken, when the
// variables had others already.
func keptFiles() {
	in, out := os.Stdin, os.Stdout
	os.Stdin, os.Stdout = nil, os.Stderr
	take()
	fmt.Fprintln(out, "kept")
	fmt.Println("printed")
	for _, f := range []*os.File{in, os.Stdin} {
		got, err := io.ReadAll(f)
		say("%q, %v", got, err)
	}
}

func TestFilesThatWereKeptAreDivertedToo(t *testing.T) {
	p := start(t, "files that were kept")
	_, err := io.WriteString(p.in, "in")
	require.NoError(t, err)
	got, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.Empty(t, got)
	p.ends("kept\nprinted\n\"\", <nil>\n\"\", <nil>\n")
}
