package main

// What the command costs, beside the same server on bare pipes:
//
//	go test -run '^$' -bench . ./cmd/stdioguard
//
// "x-bare" is the time that an operation takes behind the guard, divided by the time
// without it.

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveCopy sends back what it is sent.
func serveCopy() int {
	io.Copy(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{os.Stdin})
	return 0
}

// benchAnswer is as long as benchCall.
const (
	benchCall   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}` + "\n"
	benchAnswer = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3 and so on"}],"isOk":true}}` + "\n"
)

// serveAnswer answers each line in the same way.
func serveAnswer() int {
	in := bufio.NewReader(os.Stdin)
	for {
		if _, err := in.ReadSlice('\n'); err != nil {
			return 0
		}
		io.WriteString(os.Stdout, benchAnswer)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	compare(b, "answer", func(b *testing.B, n int, in io.Writer, out *bufio.Reader) {
		b.SetBytes(int64(len(benchCall) + len(benchAnswer)))
		for range n {
			_, err := io.WriteString(in, benchCall)
			require.NoError(b, err)
			_, err = out.ReadSlice('\n')
			require.NoError(b, err)
		}
	})
}

// BenchmarkThroughput sends the next message while the last one comes back.
func BenchmarkThroughput(b *testing.B) {
	const size = 8 << 20
	begin, end := `{"jsonrpc":"2.0","method":"x","params":["`, `"]}`+"\n"
	message := begin + strings.Repeat("x", size-len(begin)-len(end)) + end
	compare(b, "copy", func(b *testing.B, n int, in io.Writer, out *bufio.Reader) {
		b.SetBytes(2 * size)
		go func() {
			for range n {
				io.WriteString(in, message)
			}
		}()
		_, err := io.CopyN(io.Discard, out, int64(n)*size)
		require.NoError(b, err)
	})
}

// compare measures n operations of a server on bare pipes and behind the guard.
func compare(b *testing.B, server string, f func(b *testing.B, n int, in io.Writer, out *bufio.Reader)) {
	var bare time.Duration // an operation
	for _, guarded := range []bool{false, true} {
		name, command := "bare", serve(server)
		if guarded {
			name, command = "guarded", append([]string{command[0], "-line", "16MiB", "-log", "off", "--"}, command...)
		}
		b.Run(name, func(b *testing.B) {
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Env = append(os.Environ(), childEnv+"=1")
			in, err := cmd.StdinPipe()
			require.NoError(b, err)
			stdout, err := cmd.StdoutPipe()
			require.NoError(b, err)
			require.NoError(b, cmd.Start())
			out := bufio.NewReaderSize(stdout, 64<<10)
			f(b, 1, in, out) // until buffers have grown
			b.ResetTimer()
			f(b, b.N, in, out)
			b.StopTimer()
			took := b.Elapsed() / time.Duration(b.N)
			if !guarded {
				bare = took
			} else if bare > 0 {
				b.ReportMetric(float64(took)/float64(bare), "x-bare")
			}
			require.NoError(b, in.Close())
			_, err = io.Copy(io.Discard, out)
			require.NoError(b, err)
			require.NoError(b, cmd.Wait())
		})
	}
}
