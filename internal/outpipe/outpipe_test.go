package outpipe_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard/internal/outpipe"
)

const patience = time.Minute

// start passes on to w what is written to the file that it returns.
func start(t *testing.T, w io.Writer) (o *outpipe.Output, server *os.File) {
	t.Helper()
	r, server, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	o = outpipe.New(r)
	go o.Copy(w)
	return o, server
}

func awaitEnd(t *testing.T, o *outpipe.Output) {
	t.Helper()
	select {
	case <-o.Ended():
	case <-time.After(patience):
		require.FailNow(t, "the output does not end")
	}
}

func TestAllIsPassedOnUpToTheEndOfThePipe(t *testing.T) {
	var got bytes.Buffer
	o, server := start(t, &got)
	all := bytes.Repeat([]byte("line\n"), 100_000)
	_, err := server.Write(all)
	require.NoError(t, err)
	require.NoError(t, server.Close())
	awaitEnd(t, o)
	assert.NoError(t, o.Err())
	assert.True(t, bytes.Equal(all, got.Bytes()), "%d bytes of %d", got.Len(), len(all))
}

// Somebody else, here the test, holds the pipe open.
func TestFinishWaitsForNobodyElsesEnd(t *testing.T) {
	var got bytes.Buffer
	o, server := start(t, &got)
	_, err := io.WriteString(server, "last\n")
	require.NoError(t, err)
	o.Finish()
	awaitEnd(t, o)
	assert.NoError(t, o.Err())
	assert.Equal(t, "last\n", got.String())
	_, err = io.WriteString(server, "more\n")
	assert.Error(t, err, "nobody reads it")
}

func TestFinishEndsAnOutputThatDoesNot(t *testing.T) {
	var got bytes.Buffer
	o, server := start(t, &got)
	stopped := make(chan error)
	go func() {
		for {
			if _, err := server.Write(make([]byte, 64<<10)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	o.Finish()
	awaitEnd(t, o)
	assert.NoError(t, o.Err())
	assert.Error(t, <-stopped)
}

// A slow writer gets what is in the pipe all the same, after the wait.
func TestFinishPassesOnWhatIsInThePipe(t *testing.T) {
	w := &slowWriter{begun: make(chan bool), goOn: make(chan bool)}
	o, server := start(t, w)
	_, err := io.WriteString(server, "first")
	require.NoError(t, err)
	<-w.begun
	_, err = io.WriteString(server, "second")
	require.NoError(t, err)
	o.Finish()
	time.Sleep(outpipe.Wait + outpipe.Wait/5) // the wait is over, which nothing else shows
	close(w.goOn)
	awaitEnd(t, o)
	assert.NoError(t, o.Err())
	assert.Equal(t, "firstsecond", w.got.String())
}

type slowWriter struct {
	begun, goOn chan bool
	got         bytes.Buffer
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.got.Len() == 0 && len(p) > 0 {
		close(w.begun)
		<-w.goOn
	}
	return w.got.Write(p)
}

func TestAFailedWriteClosesThePipe(t *testing.T) {
	broken := errors.New("broken")
	o, server := start(t, writerFunc(func([]byte) (int, error) { return 0, broken }))
	_, err := io.WriteString(server, "x")
	require.NoError(t, err)
	awaitEnd(t, o)
	assert.Equal(t, broken, o.Err())
	_, err = io.WriteString(server, "x")
	assert.Error(t, err)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
